//! One user who asks for as much as they can: the others are served as before, and memory stays bounded. Both are
//! measured, so each test has the process to itself.

use std::time::Duration;

use axum::body::Body;
use koinon_apiserver::serve::{Limits, listen};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

mod support;
use support::socket::{Client, Served, USER};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LIST: &str = "/api/v1/namespaces/listed/configmaps";
const THINGS: &str = "/apis/t.io/v1/namespaces/default/things?dryRun=All";

/// Whoever measures does so alone.
static MEASURING: Mutex<()> = Mutex::const_new(());

/// A figure of this process in `/proc/self/status`, in bytes.
fn memory(figure: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    let kibibytes: u64 = line.trim_matches(&[':', ' ', '\t', 'k', 'B'][..]).parse().unwrap();
    kibibytes << 10
}

/// The memory that this process has now, and how much more it had at most while `work` went on.
async fn growth<T>(work: impl Future<Output = T>) -> (T, u64) {
    // Writing this sets the peak to what is used now.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmRSS");
    let done = work.await;
    (done, memory("VmHWM").saturating_sub(before))
}

/// How long 99 of 100 take at most.
fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() * 99 / 100]
}

/// What an ordinary client does, and a probe with each: it creates an object and lists those that are there, as `kubectl` does. A create
/// alone takes half a millisecond in memory, less than the machine's threads take to change over.
async fn ordinary(other: &mut Client, probe: &mut Client, round: usize, count: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for number in 0..count {
        let map = json!({"metadata": {"name": format!("o-{round}-{number}")}}).to_string();
        let begun = Instant::now();
        let made = other.send("POST", MAPS, Body::from(map)).await;
        let listed = other.send("GET", LIST, Body::empty()).await;
        times.push(begun.elapsed());
        assert_eq!((made.code, listed.code), (201, 200), "{:?}", made.body);
        assert_eq!(probe.send("GET", "/healthz", Body::empty()).await.code, 200);
    }
    times
}

/// One client of the user who floods: a rule that costs half of what one may, in a request of a hundred bytes.
async fn flood(mut client: Client, mut go: watch::Receiver<Option<bool>>) -> usize {
    let thing = json!({"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {}});
    let mut served = 0;
    loop {
        let Ok(now) = go.wait_for(|go| *go != Some(false)).await.map(|go| *go) else { return served };
        if now.is_none() {
            return served;
        }
        let answer = client.send("POST", THINGS, Body::from(thing.to_string())).await;
        assert!(matches!(answer.code, 201 | 429 | 504), "{}", answer.code);
        served += usize::from(answer.code == 201);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_one_user_costs_the_others_little() {
    let _alone = MEASURING.lock().await;
    let served = Served::start(Limits::default(), listen::Options::default()).await;
    served.allow(&["greedy", "other"]).await;
    let mut version = support::open_version();
    let rule = "lists.range(60).all(x, lists.range(60).all(y, x + y >= 0))";
    version[0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = json!([{"rule": rule}]);
    let admin = served.admin();
    admin.made_crd(version).await;
    admin.made("/api/v1/namespaces", &json!({"metadata": {"name": "listed"}})).await;
    for number in 0..500 {
        let map = json!({"metadata": {"name": format!("m-{number}")}, "data": {"k": "x".repeat(4_000)}});
        admin.made(LIST, &map).await;
    }
    // `Some(true)`: go on; `Some(false)`: pause; `None`: end.
    let (go, wait) = watch::channel(Some(false));
    let clients: Vec<_> = futures::future::join_all((0..64).map(|_| served.client("greedy"))).await;
    let flooding: Vec<_> =
        clients.into_iter().map(|client| tokio::spawn(flood(client, wait.clone()))).collect();
    let (mut other, mut probe) = (served.client("other").await, served.client("").await);
    // Both in turns, so that what else the machine does counts for both; and again where something else came between them.
    let mut measure = async |attempt: usize| {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for round in 5 * attempt..5 * (attempt + 1) {
            alone.extend(ordinary(&mut other, &mut probe, 2 * round, 60).await);
            go.send(Some(true)).unwrap();
            beside.extend(ordinary(&mut other, &mut probe, 2 * round + 1, 60).await);
            go.send(Some(false)).unwrap();
            // A turn of the same user comes after all that waits.
            let thing = json!({"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "t"}});
            let mut last = served.client("greedy").await;
            while last.send("POST", THINGS, Body::from(thing.to_string())).await.code != 201 {}
        }
        (p99(alone), p99(beside))
    };
    let measuring = async {
        let mut measured = measure(0).await;
        for attempt in 1..3 {
            if measured.1 > 5 * measured.0 {
                measured = measure(attempt).await;
            }
        }
        measured
    };
    let ((alone, beside), grown) = growth(measuring).await;
    go.send(None).unwrap();
    let mut total = 0;
    for one in flooding {
        total += one.await.unwrap();
    }
    println!("p99 alone {alone:?}, beside the flood {beside:?}; {total} of it served; {} MiB", grown >> 20);
    assert!(total > 64, "the flood is served too: {total}");
    assert!(beside <= 5 * alone, "alone {alone:?}, beside the flood {beside:?}");
    assert!(grown < 256 << 20, "{} MiB", grown >> 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_read_hold_next_to_nothing() {
    let _alone = MEASURING.lock().await;
    let served = Served::start(Limits::default(), listen::Options::default()).await;
    served.allow(&["greedy"]).await;
    let admin = served.admin();
    for number in 0..20 {
        let value = "x".repeat(1_000_000);
        admin.made(MAPS, &json!({"metadata": {"name": format!("m-{number}"), "annotations": {"a": &value[..200_000]}}, "data": {"k": value}})).await;
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let forms = [
        ("", "application/json", "kubectl"),
        ("", "application/json", "curl/8"),
        ("?includeObject=Object", table, "kubectl"),
        ("?watch=1", "application/json", "kubectl"),
        ("?watch=1&includeObject=Object", table, "kubectl"),
    ];
    let asking = async {
        let mut deaf = Vec::new();
        for number in 0..60 {
            let (query, accept, agent) = forms[number % forms.len()];
            let mut stream = served.connect(&["http/1.1"]).await.unwrap();
            let request = format!(
                "GET {MAPS}{query} HTTP/1.1\r\nhost: test\r\n{USER}: greedy\r\naccept: {accept}\r\nuser-agent: {agent}\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            deaf.push(stream);
        }
        // Whoever asks now is answered after all of those were.
        let mut reader = served.client("greedy").await;
        let list: Value =
            serde_json::from_slice(&reader.send("GET", MAPS, Body::empty()).await.body).unwrap();
        assert_eq!(list["items"].as_array().unwrap().len(), 20);
        deaf
    };
    let (_deaf, grown) = growth(asking).await;
    println!("{} MiB for sixty answers of 24 MB", grown >> 20);
    // The reader of this test alone has one of them as text and as a value.
    assert!(grown < 256 << 20, "{} MiB", grown >> 20);
}
