//! Many requests at once, and clients that only hold on: the server keeps answering everybody else.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use koinon_apiserver::serve::{Limits, listen};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

mod support;
use support::JSON;
use support::socket::{Served, USER};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Long enough to play no part.
const HOURS: Duration = Duration::from_secs(24 * 3600);

fn few(deadline: Duration) -> Limits {
    Limits { reading: 4, mutating: 4, watching: 4, queued: HOURS, deadline }
}

fn map(name: &str) -> Body {
    Body::from(json!({"metadata": {"name": name}}).to_string())
}

/// A body that ends when it is told to.
fn held(name: &str, mut go: watch::Receiver<bool>) -> Body {
    let rest = json!({"metadata": {"name": name}}).to_string();
    Body::from_stream(futures::stream::once(async move {
        drop(go.wait_for(|go| *go).await);
        Ok::<_, std::convert::Infallible>(Bytes::from(rest))
    }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_user_takes_half_of_the_seats_and_waits_within_bounds() {
    let served = Served::start(few(HOURS), listen::Options::default()).await;
    served.allow(&["greedy", "other"]).await;
    let (go, wait) = watch::channel(false);
    let mut greedy = FuturesUnordered::new();
    for number in 0..20 {
        let (mut client, body) = (served.client("greedy").await, held(&format!("g-{number}"), wait.clone()));
        greedy.push(async move { client.send("POST", MAPS, body).await });
    }
    // Two have the user's seats and two wait for one; none of these is answered before its body has come.
    for _ in 0..16 {
        let answer = greedy.next().await.unwrap();
        assert_eq!(answer.code, 429, "{:?}", answer.body);
        assert_eq!(answer.headers["retry-after"], "1");
        let status: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(status["reason"], "TooManyRequests");
    }
    // All others are served meanwhile: those who write, who read, administrators and probes.
    let mut other = served.client("other").await;
    for number in 0..10 {
        assert_eq!(other.send("POST", MAPS, map(&format!("o-{number}"))).await.code, 201);
        assert_eq!(other.send("GET", MAPS, Body::empty()).await.code, 200);
        assert_eq!(other.send("GET", "/healthz", Body::empty()).await.code, 200);
    }
    assert_eq!(served.client("admin").await.send("POST", MAPS, map("a")).await.code, 201);
    go.send(true).unwrap();
    while let Some(answer) = greedy.next().await {
        assert_eq!(answer.code, 201, "{:?}", answer.body);
    }
    // Nothing is left behind: as many seats as before.
    assert_eq!(served.client("greedy").await.send("POST", MAPS, map("again")).await.code, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_has_so_much_time() {
    let served = Served::start(few(Duration::from_millis(50)), listen::Options::default()).await;
    served.allow(&["slow"]).await;
    let (_go, wait) = watch::channel(false);
    let answer = served.client("slow").await.send("POST", MAPS, held("late", wait)).await;
    assert_eq!(answer.code, 504, "{:?}", answer.body);
    let status: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(status["reason"], "Timeout");
    // A watch has its own.
    let mut watching = served.client("slow").await;
    let path = format!("{MAPS}?watch=1&timeoutSeconds=1");
    assert_eq!(watching.send("GET", &path, Body::empty()).await.code, 200);
}

#[tokio::test]
async fn a_long_list_comes_in_pieces_and_is_the_same_text() {
    let cluster = support::cluster().await;
    for number in 0..50 {
        let map = json!({"metadata": {"name": format!("m-{number:02}")}, "data": {"k": "x".repeat(30_000)}});
        cluster.made(MAPS, &map).await;
    }
    let text = async |path: &str| -> Vec<Bytes> {
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        let answer = tower::ServiceExt::oneshot(cluster.router.clone(), request).await.unwrap();
        assert_eq!(answer.headers()["content-type"], "application/json");
        answer.into_body().into_data_stream().map(|piece| piece.unwrap()).collect().await
    };
    let pieces = text(MAPS).await;
    assert!(pieces.len() > 10 && pieces.iter().all(|piece| piece.len() < 100_000), "{}", pieces.len());
    let list = pieces.concat();
    let version =
        serde_json::from_slice::<serde_json::Value>(&list).unwrap()["metadata"]["resourceVersion"].clone();
    let mut items = Vec::new();
    for number in 0..50 {
        let one = String::from_utf8(text(&format!("{MAPS}/m-{number:02}")).await.concat()).unwrap();
        items.push(one.trim_end().replacen(r#""kind":"ConfigMap","apiVersion":"v1","#, "", 1));
    }
    let expected = format!(
        "{{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":{version}}},\"items\":[{}]}}\n",
        items.join(",")
    );
    assert!(list == expected.as_bytes(), "another text");
}

#[tokio::test]
async fn a_long_list_says_the_same_in_every_form() {
    let cluster = support::cluster().await;
    for number in 0..50 {
        let map = json!({"metadata": {"name": format!("m-{number:02}"), "annotations": {"a": "x\ny".repeat(8_000)}}});
        cluster.made(MAPS, &map).await;
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    for (accept, agent) in [(JSON, "curl/8"), (table, "kubectl"), (table, "curl/8"), (partial, "kubectl")] {
        let text = async |query: &str| -> Vec<Bytes> {
            let request = http::Request::get(format!("{MAPS}{query}")).header("accept", accept);
            let request = request.header("user-agent", agent).body(Body::empty()).unwrap();
            let answer = tower::ServiceExt::oneshot(cluster.router.clone(), request).await.unwrap();
            assert_eq!(answer.headers()["content-type"], "application/json");
            answer.into_body().into_data_stream().map(|piece| piece.unwrap()).collect().await
        };
        let pieces = text("").await;
        assert!(pieces.len() > 10 && pieces.iter().all(|piece| piece.len() < 200_000), "{accept} {agent}");
        let long: serde_json::Value = serde_json::from_slice(&pieces.concat()).unwrap();
        // Pages of ten are short enough to be made whole.
        let items = |list: &serde_json::Value| {
            list.get("rows").unwrap_or_else(|| &list["items"]).as_array().unwrap().clone()
        };
        let (mut shown, mut next) = (Vec::new(), String::new());
        loop {
            let page = text(&format!("?limit=10{next}")).await;
            assert_eq!(page.len(), 1);
            // To the letter, but for the metadata of a page.
            let page_text = String::from_utf8(page.concat()).unwrap();
            let page: serde_json::Value = serde_json::from_str(&page_text).unwrap();
            for key in ["kind", "apiVersion", "columnDefinitions"] {
                assert_eq!(page.get(key), long.get(key), "{accept}");
            }
            shown.extend(items(&page));
            match page["metadata"]["continue"].as_str() {
                Some(token) => next = format!("&continue={token}"),
                None => break,
            }
        }
        assert_eq!(items(&long), shown, "{accept} {agent}");
        let text = String::from_utf8(pieces.concat()).unwrap();
        let again = match agent {
            "kubectl" => format!("{long}\n"),
            _ => serde_json::to_string_pretty(&long).unwrap(),
        };
        assert!(text == again, "{accept} {agent}: another text");
    }
}

#[tokio::test]
async fn a_watch_begins_with_pieces_of_what_there_is() {
    let cluster = support::cluster().await;
    for number in 0..40 {
        let map = json!({"metadata": {"name": format!("m-{number:02}")}, "data": {"k": "x".repeat(30_000)}});
        cluster.made(MAPS, &map).await;
    }
    let request = http::Request::get(format!("{MAPS}?watch=1&timeoutSeconds=1")).body(Body::empty()).unwrap();
    let answer = tower::ServiceExt::oneshot(cluster.router.clone(), request).await.unwrap();
    let pieces: Vec<Bytes> =
        answer.into_body().into_data_stream().map(|piece| piece.unwrap()).collect().await;
    assert!(pieces.iter().all(|piece| piece.len() < 100_000), "{}", pieces.len());
    let events = String::from_utf8(pieces.concat()).unwrap();
    assert_eq!(events.lines().filter(|line| line.starts_with(r#"{"type":"ADDED""#)).count(), 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_only_so_many_watches_of_one_user() {
    let limits = Limits { queued: Duration::from_millis(50), ..few(HOURS) };
    let served = Served::start(limits, listen::Options::default()).await;
    served.allow(&["greedy", "other"]).await;
    let path = format!("{MAPS}?watch=1&timeoutSeconds=3600");
    let (first, _first) = served.client("greedy").await.begin(&path).await;
    let (second, _second) = served.client("greedy").await.begin(&path).await;
    let (third, _) = served.client("greedy").await.begin(&path).await;
    assert_eq!((first, second, third), (200, 200, 429));
    assert_eq!(served.client("other").await.begin(&path).await.0, 200);
    assert_eq!(served.client("admin").await.begin(&path).await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_ask_nothing_are_closed() {
    let options = listen::Options { first_request: Duration::from_millis(50), ..Default::default() };
    let served = Served::start(Limits::default(), options).await;
    for protocols in [&["h2"][..], &["http/1.1"], &[]] {
        let mut stream = served.connect(protocols).await.unwrap();
        let mut said = Vec::new();
        // The end of the stream, with or without a word.
        drop(stream.read_to_end(&mut said).await);
    }
    // Nor does a client stay that begins to speak HTTP/2, or half of a request.
    let mut stream = served.connect(&["h2"]).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    drop(stream.read_to_end(&mut Vec::new()).await);
    let mut stream = served.connect(&["http/1.1"]).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    drop(stream.read_to_end(&mut Vec::new()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_only_so_many_connections() {
    let options = listen::Options { connections: 2, ..Default::default() };
    let served = Served::start(Limits::default(), options).await;
    let mut kept = vec![served.connect(&[]).await.unwrap(), served.connect(&[]).await.unwrap()];
    assert!(served.connect(&[]).await.is_err());
    drop(kept.pop());
    // The server notices in its own time.
    while served.connect(&[]).await.is_err() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_cut_off() {
    let options =
        listen::Options { connections: 1, stalled: Duration::from_millis(200), ..Default::default() };
    let served = Served::start(Limits::default(), options).await;
    let mut client = served.client("admin").await;
    for number in 0..20 {
        let map = json!({"metadata": {"name": format!("m-{number}")}, "data": {"k": "x".repeat(1_000_000)}});
        assert_eq!(client.send("POST", MAPS, Body::from(map.to_string())).await.code, 201);
    }
    // Whoever reads gets all of it.
    let whole = client.send("GET", MAPS, Body::empty()).await.body;
    assert!(whole.len() > 20_000_000);
    let list: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 20);
    drop(client);
    let mut deaf = loop {
        if let Ok(stream) = served.connect(&["http/1.1"]).await {
            break stream;
        }
    };
    let request = format!("GET {MAPS} HTTP/1.1\r\nhost: test\r\n{USER}: admin\r\n\r\n");
    deaf.write_all(request.as_bytes()).await.unwrap();
    // It has the only connection there is, until the server gives up on it.
    assert!(served.connect(&[]).await.is_err());
    while served.connect(&[]).await.is_err() {}
    let mut part = Vec::new();
    drop(deaf.read_to_end(&mut part).await);
    assert!(part.len() < whole.len(), "{}", part.len());
}
