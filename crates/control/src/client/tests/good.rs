//! Servers that do nothing wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;

use super::server::{Serve, Server, each, http2, plainly};
use super::{call, get, until, watch};
use crate::client::urgent;

#[tokio::test]
async fn watches_and_calls_share_one_connection_and_leases_have_another() {
    let server = Server::start(&["h2"], http2(|_| {}, |_, connection| each(connection, plainly))).await;
    let client = server.client();
    let watches = join_all((0..40).map(|_| watch(&client))).await;
    let answers = join_all((0..40).map(|_| get(&client))).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().0 == 200));
    assert_eq!(server.seen.count(), (1, 1));
    let leases = urgent(client.clone());
    join_all((0..40).map(|_| get(&leases))).await;
    assert_eq!(server.seen.count(), (2, 2));
    assert_eq!(
        server.seen.resumed.load(Ordering::SeqCst),
        1,
        "the second resumes the TLS session of the first"
    );
    drop((watches, leases, client));
    until("connections of clients that are gone close", || server.seen.count() == (2, 0)).await;
}

#[tokio::test]
async fn a_further_connection_is_made_where_all_streams_are_taken() {
    let few = http2(
        |settings| {
            settings.max_concurrent_streams(4);
        },
        |_, connection| each(connection, plainly),
    );
    let server = Server::start(&["h2"], few).await;
    let client = server.client();
    let watches = join_all((0..10).map(|_| watch(&client))).await;
    assert_eq!(server.seen.count(), (3, 3));
    get(&client).await.unwrap();
    assert_eq!(server.seen.count(), (3, 3));
    drop(watches);
    // Whoever made room is given it again.
    let again = join_all((0..10).map(|_| watch(&client))).await;
    assert!(server.seen.count().0 <= 4, "{:?}", server.seen.count());
    drop(again);
}

/// A server that ends each connection with GOAWAY after ten requests, as `--goaway-chance` does, and notes what it is asked.
fn leaving(asked: Arc<AtomicUsize>) -> Serve {
    http2(
        |_| {},
        move |_, mut connection| {
            let asked = asked.clone();
            async move {
                let mut count = 0;
                while let Some(Ok(request)) = connection.accept().await {
                    asked.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(plainly(request));
                    count += 1;
                    if count == 10 {
                        connection.graceful_shutdown();
                    }
                }
            }
        },
    )
}

#[tokio::test]
async fn no_write_fails_or_is_made_twice_where_the_server_says_goaway() {
    let asked = Arc::new(AtomicUsize::new(0));
    let server = Server::start(&["h2"], leaving(asked.clone())).await;
    let client = server.client();
    for _ in 0..20 {
        let writes = join_all((0..25).map(|_| call(&client, Method::POST, "/api/v1/configmaps"))).await;
        for write in writes {
            assert_eq!(write.unwrap().0, 200);
        }
    }
    assert_eq!(asked.load(Ordering::SeqCst), 500);
    assert!(server.seen.count().0 > 2, "{:?}", server.seen.count());
}

/// A server that speaks HTTP/1.1 only and counts the requests of each connection.
fn old() -> Serve {
    Arc::new(|_, stream| {
        Box::pin(async move {
            let answer = service_fn(async |request: Request<hyper::body::Incoming>| {
                assert!(request.uri().authority().is_none() && request.headers().contains_key("host"));
                if crate::bounds::is_watch(&request) {
                    let line =
                        futures::stream::iter([Ok(hyper::body::Frame::data(Bytes::from_static(b"{}\n")))]);
                    let endless = futures::StreamExt::chain(line, futures::stream::pending());
                    let body = http_body_util::StreamBody::new(endless);
                    return Ok::<_, hyper::Error>(Response::new(body.boxed()));
                }
                let sent = request.into_body().collect().await?.to_bytes();
                Ok(Response::new(Full::new(sent).map_err(|never| match never {}).boxed()))
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        })
    })
}

#[tokio::test]
async fn a_server_or_proxy_that_is_older_is_spoken_to_by_http_1() {
    for protocols in [&["http/1.1"][..], &[]] {
        let server = Server::start(protocols, old()).await;
        let client = server.client();
        for _ in 0..10 {
            assert_eq!(call(&client, Method::POST, "/a").await.unwrap(), (200, Bytes::from_static(b"{}")));
        }
        assert_eq!(server.seen.count(), (1, 1), "a connection is used again");
        let watches = join_all((0..5).map(|_| watch(&client))).await;
        assert_eq!(call(&client, Method::POST, "/a").await.unwrap().0, 200);
        assert!((5..=6).contains(&server.seen.count().1), "{:?}", server.seen.count());
        drop(watches);
        until("those of watches close", || server.seen.count().1 <= 1).await;
    }
}

#[tokio::test]
async fn what_nobody_reads_takes_nothing_from_the_others() {
    let large = http2(
        |_| {},
        |_, connection| {
            each(connection, |(_, mut respond)| async move {
                let mut body = respond.send_response(Response::new(()), false).unwrap();
                for _ in 0..128 {
                    body.reserve_capacity(64 << 10);
                    let Some(Ok(_)) = std::future::poll_fn(|context| body.poll_capacity(context)).await
                    else {
                        return;
                    };
                    let _ = body.send_data(Bytes::from(vec![b'x'; 64 << 10]), false);
                }
                let _ = body.send_data(Bytes::new(), true);
            })
        },
    );
    let server = Server::start(&["h2"], large).await;
    let client = server.client();
    let path = || Request::get("/large").body(Body::empty()).unwrap();
    let unread = join_all((0..20).map(|_| client.send(path()))).await;
    let (_, read) = tokio::time::timeout(Duration::from_secs(20), get(&client)).await.unwrap().unwrap();
    assert_eq!((read.len(), server.seen.count()), (8 << 20, (1, 1)));
    drop(unread);
}

#[tokio::test]
async fn a_certificate_may_change_but_not_its_authority() {
    let server = Server::start(&["h2"], leaving(Arc::default())).await;
    let client = server.client();
    get(&client).await.unwrap();
    server.seen.changed.store(true, Ordering::SeqCst);
    // The connection is who it was. The next one is not.
    let mut failure = None;
    for _ in 0..30 {
        failure = failure.or(get(&client).await.err());
    }
    let told = super::told(&failure.expect("another authority is not trusted"));
    assert!(told.contains("certificate"), "{told}");
    let mut renewed = server.config.clone();
    renewed.root_cert = Some(vec![server.other.der()]);
    let client = crate::client::connect_by(&renewed, crate::client::Keepalive::default(), true).unwrap();
    get(&client).await.unwrap();
}
