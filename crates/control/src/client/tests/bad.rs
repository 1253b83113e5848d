//! Servers and wires that do what they should not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use h2::Reason;
use http::{HeaderValue, Method, Response};
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use super::server::{Asked, Serve, Server, each, http2, plainly};
use super::{call, get, told, watch};
use crate::client::{Keepalive, urgent};

const SHORT: Keepalive =
    Keepalive { quiet: Duration::from_millis(300), patience: Duration::from_millis(300) };

#[tokio::test]
async fn a_wire_that_freezes_is_found_out_and_gone_around() {
    let server = Server::start(&["h2"], http2(|_| {}, |_, connection| each(connection, plainly))).await;
    let client = server.client_with(SHORT);
    let mut watched = watch(&client).await;
    server.seen.freeze();
    let frozen = Instant::now();
    let error = watched.body_mut().frame().await.expect("an error").unwrap_err();
    let told = told(&error);
    assert!(told.contains("not even the answer to a ping"), "{told}");
    assert!(frozen.elapsed() < Duration::from_secs(5), "{:?}", frozen.elapsed());
    get(&client).await.unwrap();
    assert_eq!(server.seen.count().0, 2);
}

#[tokio::test]
async fn a_request_without_an_answer_leads_around_a_frozen_wire_long_before_the_next_ping() {
    let server = Server::start(&["h2"], http2(|_| {}, |_, connection| each(connection, plainly))).await;
    let client = server.client();
    get(&client).await.unwrap();
    server.seen.freeze();
    for _ in 0..20 {
        // As a probe with a short deadline does.
        if tokio::time::timeout(Duration::from_millis(300), get(&client)).await.is_ok() {
            assert_eq!(server.seen.count().0, 2);
            return;
        }
    }
    panic!("it asked the frozen connection again and again");
}

#[tokio::test]
async fn a_lease_is_renewed_whatever_becomes_of_the_other_connection() {
    let server = Server::start(&["h2"], http2(|_| {}, |_, connection| each(connection, plainly))).await;
    let client = server.client();
    let _watched = watch(&client).await;
    server.seen.freeze();
    for _ in 0..10 {
        tokio::time::timeout(Duration::from_secs(5), get(&urgent(client.clone()))).await.unwrap().unwrap();
    }
    assert_eq!(server.seen.count().0, 2);
}

/// Resets every stream that is asked on, so many of them, with a reason, and notes what it was asked.
fn resetting(reason: Reason, most: usize, asked: Arc<AtomicUsize>) -> Serve {
    http2(
        |_| {},
        move |_, connection| {
            let asked = asked.clone();
            each(connection, move |(request, mut respond): Asked| {
                let bad = asked.fetch_add(1, Ordering::SeqCst) < most;
                async move { if bad { respond.send_reset(reason) } else { plainly((request, respond)).await } }
            })
        },
    )
}

#[tokio::test]
async fn only_what_the_server_refused_is_sent_again() {
    for (reason, most, method, expected) in [
        (Reason::REFUSED_STREAM, 2, Method::POST, (true, 3)),
        (Reason::REFUSED_STREAM, usize::MAX, Method::POST, (false, 3)),
        (Reason::INTERNAL_ERROR, 1, Method::POST, (false, 1)),
        (Reason::INTERNAL_ERROR, 1, Method::PATCH, (false, 1)),
        // Nothing was ever answered there.
        (Reason::INTERNAL_ERROR, usize::MAX, Method::GET, (false, 1)),
    ] {
        let asked = Arc::new(AtomicUsize::new(0));
        let server = Server::start(&["h2"], resetting(reason, most, asked.clone())).await;
        let outcome = call(&server.client(), method.clone(), "/a").await;
        assert_eq!((outcome.is_ok(), asked.load(Ordering::SeqCst)), expected, "{reason:?} {method}");
    }
}

#[tokio::test]
async fn headers_without_end_cost_one_answer() {
    let flood = http2(
        |_| {},
        |number, connection| {
            each(connection, move |(request, mut respond): Asked| async move {
                if number > 1 {
                    return plainly((request, respond)).await;
                }
                let mut response = Response::new(());
                let value = HeaderValue::from_bytes(&vec![b'x'; 8 << 10]).unwrap();
                for _ in 0..512 {
                    response.headers_mut().append("warning", value.clone());
                }
                let _ = respond.send_response(response, true);
            })
        },
    );
    let server = Server::start(&["h2"], flood).await;
    let client = server.client();
    let error = tokio::time::timeout(Duration::from_secs(10), get(&client)).await.unwrap().unwrap_err();
    assert!(!told(&error).contains("xxxx"), "what it sent is not told");
}

#[tokio::test]
async fn a_server_that_agrees_on_http_2_and_speaks_something_else_is_an_error_not_a_wait() {
    let other: Serve = Arc::new(|_, mut stream| {
        Box::pin(async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
        })
    });
    let silent: Serve = Arc::new(|_, stream| {
        Box::pin(async move {
            let _stream = stream;
            std::future::pending::<()>().await;
        })
    });
    for serve in [other, silent] {
        let mut server = Server::start(&["h2"], serve).await;
        server.config.connect_timeout = Some(Duration::from_millis(500));
        let begun = Instant::now();
        get(&server.client()).await.unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn an_answer_that_stops_in_the_middle_is_given_up() {
    let mut server = Server::start(&["h2"], http2(|_| {}, |_, connection| each(connection, plainly))).await;
    server.config.read_timeout = Some(Duration::from_millis(300));
    let client = server.client();
    let mut watched = watch(&client).await;
    let error = watched.body_mut().frame().await.expect("an error").unwrap_err();
    assert!(told(&error).contains("nothing came for"), "{}", told(&error));
    get(&client).await.unwrap();
    assert_eq!(server.seen.count().0, 1, "the connection itself is well");
}
