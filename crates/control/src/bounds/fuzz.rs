//! Whatever a server sends as a watch, in whatever pieces: it is read or refused, and little of it is held.

use std::sync::Arc;

use futures::StreamExt as _;
use http_body_util::{BodyExt as _, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::WatchParams;
use proptest::prelude::*;

use super::*;

const LINE: u64 = 64;
const HELD: u64 = 100;

/// A client whose server answers everything with these pieces.
fn server(pieces: &[Vec<u8>]) -> Client {
    let pieces: Arc<[Vec<u8>]> = pieces.into();
    let service = tower::service_fn(move |_: Request<Body>| {
        let pieces: Vec<Result<Frame<Bytes>, BoxError>> =
            pieces.iter().map(|piece| Ok(Frame::data(Bytes::from(piece.clone())))).collect();
        let body = StreamBody::new(futures::stream::iter(pieces));
        async move { Ok::<_, BoxError>(Response::new(body)) }
    });
    Client::new(service, "default")
}

/// Whether a line that has begun by the end of a piece is too long, or would become too much in memory.
fn has_too_much(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').any(|line| {
        let mut scale = Scale::default();
        scale.add(line);
        line.len() as u64 > LINE || scale.weight() > LINE * READ_OF_MANY
    })
}

/// What is let through is what was sent, up to the piece with which a line becomes too much; no more than the line that
/// has not ended is counted as held, and nothing afterwards.
async fn lines(pieces: &[Vec<u8>]) {
    let held = Held::new(HELD);
    let bounds = Bounds { answer: 1, line: LINE };
    let response = server(pieces).send(Request::new(Body::empty())).await.unwrap();
    let mut body = bounded(response, true, bounds, Some(&held)).unwrap().into_body();
    let (mut sent, mut taken) = (Vec::new(), Vec::new());
    for piece in pieces {
        sent.extend_from_slice(piece);
        let frame = body.frame().await.expect("a piece or a refusal");
        assert!(held.bytes() <= LINE.min(HELD), "{} bytes", held.bytes());
        match frame {
            Ok(frame) => taken.extend_from_slice(frame.data_ref().expect("data")),
            Err(error) => {
                assert_eq!(error.downcast_ref(), Some(&Excess::Line(LINE)));
                assert!(has_too_much(&sent), "{sent:?}");
                break;
            }
        }
        assert!(!has_too_much(&sent), "{sent:?}");
        assert_eq!(taken, sent);
        let open = sent.rsplit(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
        assert_eq!(held.bytes(), open as u64);
    }
    drop(body);
    assert_eq!(held.bytes(), 0);
}

/// A client makes events or errors of it, as many as there are lines at most, and comes to an end.
async fn events(pieces: &[Vec<u8>]) {
    let most = pieces.concat().split(|byte| *byte == b'\n').count();
    let client = limiting(server(pieces), Bounds { answer: 1, line: 4096 });
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let watched = maps.watch(&WatchParams::default(), "0").await.expect("a watch begins");
    let count = Box::pin(watched).count().await;
    assert!(count <= most + 1, "{count} events of {most} lines");
}

fn run(pieces: &[Vec<u8>]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        lines(pieces).await;
        events(pieces).await;
    });
}

const WORDS: &[&str] = &[
    "{",
    "}",
    "\n",
    "\r\n",
    "\"type\":",
    "\"ADDED\"",
    "\"BOOKMARK\"",
    "\"ERROR\"",
    "\"NONE\"",
    ",",
    "\"object\":",
    "{\"metadata\":{\"name\":\"a\"}}",
    "{\"code\":410}",
    "null",
    "[",
    "1e999",
    "\"\\ud800\"",
    "\u{feff}",
    " ",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n",
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        6 => prop::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
}

#[test]
fn the_corpus_is_handled() {
    // `\n` ends a line of a watch, `|` a piece.
    for line in include_str!("../testdata/watch-frames.txt").lines() {
        let pieces: Vec<Vec<u8>> =
            line.split('|').map(|piece| piece.replace("\\n", "\n").into_bytes()).collect();
        run(&pieces);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_watch_is_read_or_refused(pieces in prop::collection::vec(piece(), 0..12)) {
        run(&pieces);
    }
}
