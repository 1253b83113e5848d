//! A server that means harm: it answers like the server behind it, but for one thing that it does to whoever asks.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use futures::StreamExt as _;
use futures::stream;
use http::{Method, Request, Response};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// What a hostile server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hostility {
    /// Nothing: it answers as it should.
    None,
    /// Its watches begin a line that never ends.
    EndlessLine,
    /// Its lists are one answer that never ends.
    EndlessAnswer,
    /// Its watches show new objects for ever and never say that they were all.
    EndlessList,
    /// Its lists have a next page for ever.
    EndlessPages,
    /// Its answers come byte by byte.
    Drip,
    /// Its answers are packed, small on the wire and huge when they are unpacked.
    Packed,
    /// Its objects are not what they should be.
    WrongTypes,
    /// Its answers are short for all that is in them: millions of objects of two letters each.
    ManyThings,
    /// Its objects have names of a hundred thousand letters.
    GiantNames,
    /// It sends whoever asks elsewhere.
    Redirect,
    /// Another cluster answers.
    Another,
    /// What it says of itself is long, and written for terminals.
    Loud,
    /// It refuses everything but to say who it is, at length.
    LoudRefusals,
}

impl Hostility {
    /// Everything that it can do.
    pub const ALL: [Hostility; 13] = [
        Hostility::EndlessLine,
        Hostility::EndlessAnswer,
        Hostility::EndlessList,
        Hostility::EndlessPages,
        Hostility::Drip,
        Hostility::Packed,
        Hostility::WrongTypes,
        Hostility::ManyThings,
        Hostility::GiantNames,
        Hostility::Redirect,
        Hostility::Another,
        Hostility::Loud,
        Hostility::LoudRefusals,
    ];
}

/// A server that means harm, in front of one that does not.
#[derive(Clone)]
pub struct Hostile {
    server: Router,
    does: Arc<Mutex<Hostility>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Hostile {
    /// In front of this server, and harmless so far.
    pub fn new(server: Router) -> Hostile {
        Hostile { server, does: Arc::new(Mutex::new(Hostility::None)), asked: Arc::default() }
    }

    /// From now on it does this, to new requests.
    pub fn set(&self, does: Hostility) {
        *self.does.lock() = does;
    }

    /// What was asked of it, in order.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    /// A client that reaches it without a socket.
    pub fn client(&self) -> Client {
        let hostile = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let hostile = hostile.clone();
            async move { Ok::<_, Infallible>(hostile.answer(request.map(Body::new)).await) }
        });
        Client::new(service, "default")
    }

    /// The same as a router, to be served on a socket.
    pub fn router(&self) -> Router {
        let hostile = self.clone();
        Router::new().fallback(move |request: Request<Body>| {
            let hostile = hostile.clone();
            async move { hostile.answer(request).await }
        })
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let does = *self.does.lock();
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default();
        self.asked.lock().push(format!("{} {}", request.method(), request.uri()));
        let watches = query.contains("watch=true");
        let streams = query.contains("sendInitialEvents=true");
        let reads = request.method() == Method::GET;
        let who = path.ends_with("/namespaces/kube-system");
        let about = who || path == "/version" || path.ends_with("/clusterclaims");
        let lists = reads && !watches && !about;
        match does {
            Hostility::EndlessLine if watches => endless(Bytes::from_static(&[b'x'; 1 << 16])),
            // Where it lists in pages only, lists are asked for.
            Hostility::EndlessAnswer | Hostility::EndlessPages | Hostility::ManyThings if streams => {
                refusal(422, "no such thing")
            }
            Hostility::EndlessAnswer if lists => endless(Bytes::from_static(&[b' '; 1 << 16])),
            Hostility::EndlessPages if lists => page(&request),
            Hostility::EndlessList if watches => objects(|number| json!(format!("object-{number}"))),
            Hostility::GiantNames if watches => {
                objects(|number| json!(format!("{number}-{}", "n".repeat(100_000))))
            }
            Hostility::ManyThings if lists => many(),
            Hostility::WrongTypes if watches => objects(|number| json!(number)),
            Hostility::WrongTypes if reads && !about => plain(json!({"items": 5, "metadata": []})),
            Hostility::Drip if !about => drip(),
            Hostility::Packed if !about => packed(),
            Hostility::Redirect => redirect(),
            Hostility::Another if who => plain(json!({"metadata": {"uid": "another"}})),
            Hostility::Loud if path == "/version" => plain(json!({"gitVersion": loud()})),
            Hostility::Loud if path.ends_with("/clusterclaims") => {
                plain(json!({"items": [{"value": loud(), "metadata": {"name": "id.k8s.io"}}]}))
            }
            Hostility::LoudRefusals if !about => refusal(403, &loud()),
            _ => self.server.clone().oneshot(request).await.unwrap_or_else(|never| match never {}),
        }
    }
}

/// Words for a terminal, and too many of them.
fn loud() -> String {
    format!("v1.36.0\u{1b}[2J\u{1b}]0;owned\u{7}\r\n{}", "9".repeat(900_000))
}

fn endless(chunk: Bytes) -> Response<Body> {
    body(stream::repeat(()).then(move |()| {
        let chunk = chunk.clone();
        async move {
            // Others have their turn, as they would with a socket in between.
            tokio::task::yield_now().await;
            chunk
        }
    }))
}

fn objects(name: impl Fn(u64) -> Value + Send + 'static) -> Response<Body> {
    body(stream::iter(1u64..).then(move |number| {
        let object = object(number, &name(number));
        let line = json!({"type": "ADDED", "object": object}).to_string() + "\n";
        async move {
            tokio::task::yield_now().await;
            Bytes::from(line)
        }
    }))
}

fn object(number: u64, name: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default", "uid": format!("u{number}"), "resourceVersion": number.to_string()});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": "value"}})
}

/// A page of a list that has no last one.
fn page(request: &Request<Body>) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default();
    let asked = query.split('&').find_map(|pair| pair.strip_prefix("continue=")?.parse::<u64>().ok());
    let first = asked.unwrap_or(1);
    let items: Vec<_> =
        (first..first + 250).map(|number| object(number, &json!(format!("object-{number}")))).collect();
    let next = (first + 250).to_string();
    plain(
        json!({"kind": "ConfigMapList", "metadata": {"continue": next, "resourceVersion": "1"}, "items": items}),
    )
}

/// A list of 2.7 million objects that say nothing: 8 MB to send, and each a whole object to whoever reads it.
fn many() -> Response<Body> {
    let begin =
        Bytes::from_static(br#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"1"},"items":[{}"#);
    let some = Bytes::from(",{}".repeat(1 << 12));
    let all = stream::iter([begin]).chain(stream::repeat(some).take(660));
    body(all.chain(stream::iter([Bytes::from_static(b"]}")])))
}

fn drip() -> Response<Body> {
    body(stream::repeat(()).then(|()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Bytes::from_static(b" ")
    }))
}

/// A gigabyte of spaces would be a mebibyte of this; nobody is meant to find out.
fn packed() -> Response<Body> {
    let mut answer = endless(Bytes::from_static(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]));
    answer.headers_mut().insert("content-encoding", http::HeaderValue::from_static("gzip"));
    answer
}

fn redirect() -> Response<Body> {
    let answer = Response::builder().status(307).header("location", "https://elsewhere.invalid/");
    answer.body(Body::empty()).expect("an answer")
}

fn refusal(code: u16, message: &str) -> Response<Body> {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code});
    let mut answer = plain(status);
    *answer.status_mut() = http::StatusCode::from_u16(code).expect("a status");
    answer
}

fn plain(answer: Value) -> Response<Body> {
    body(stream::iter([Bytes::from(answer.to_string())]))
}

fn body(chunks: impl futures::Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let answer = Response::builder().header("content-type", "application/json");
    answer.body(Body::from_stream(chunks.map(Ok::<_, Infallible>))).expect("an answer")
}
