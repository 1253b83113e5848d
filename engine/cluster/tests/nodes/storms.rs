//! Lost answers, failures and restarts: in the end everything runs, once, where there is room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use crate::harness::{Cluster, NODES, PODS, Parts, answer_of, condition, is_schedulable, node, pod};

#[derive(Clone, Debug)]
struct Storm {
    /// CPU of each pod in tenths.
    pods: Vec<u32>,
    deleted: Vec<usize>,
    /// One of so many requests fails.
    failing: usize,
    /// The answer to one of so many writes is lost.
    losing: usize,
    restart: bool,
    /// Seconds.
    lasting: u64,
}

fn storm() -> impl Strategy<Value = Storm> {
    let pods = prop::collection::vec(1..8u32, 1..12);
    (pods, prop::collection::vec(0..12usize, 0..4), 3..12usize, 2..7usize, any::<bool>(), 0..90u64).prop_map(
        |(pods, deleted, failing, losing, restart, lasting)| Storm {
            pods,
            deleted,
            failing,
            losing,
            restart,
            lasting,
        },
    )
}

/// Whether all that can run runs. What may never be, not even for a moment, fails at once.
async fn settled(cluster: &Cluster) -> Result<(), String> {
    let mut taken: BTreeMap<String, u64> = BTreeMap::new();
    let (mut addresses, mut smallest_waiting) = (Vec::new(), u64::MAX);
    let mut outcome = Ok(());
    for pod in cluster.list(PODS).await {
        let cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str().unwrap();
        let cpu: u64 = cpu.trim_end_matches('m').parse().unwrap();
        match pod["spec"]["nodeName"].as_str() {
            Some(node) => *taken.entry(node.to_owned()).or_default() += cpu,
            None => smallest_waiting = smallest_waiting.min(cpu),
        }
        if pod["spec"]["nodeName"].is_string() && condition(&pod, "Ready") != "True" {
            outcome = Err(format!("not ready: {pod:#}"));
        }
        addresses.extend(pod["status"]["podIP"].as_str().map(str::to_owned));
    }
    for number in 1..=3 {
        let taken = taken.get(&format!("node-{number}")).copied().unwrap_or(0);
        assert!(taken <= 2000, "node-{number} is overfull: {taken}");
        if 2000 - taken >= smallest_waiting {
            outcome = Err(format!("node-{number} has room for {smallest_waiting}"));
        }
    }
    let count = addresses.len();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), count, "an address was given twice");
    outcome
}

async fn weather(storm: Storm) {
    let mut parts = Parts::default();
    parts.kubelet.cpu = "2".into();
    let mut cluster = Cluster::bare(parts).await;
    let (count, failing) = (AtomicUsize::new(0), storm.failing);
    cluster.fault(move |_, _| {
        // Not every n-th: in step with the requests of one retry, that would be the same one forever.
        let dice = count.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        dice.is_multiple_of(failing).then(|| answer_of([503, 500, 429, 409][dice / failing % 4]))
    });
    cluster.lose_answers(storm.losing);
    cluster.start();
    for (number, tenths) in storm.pods.iter().enumerate() {
        let requests = json!({"requests": {"cpu": format!("{}m", tenths * 100)}});
        let spec = json!({"containers": [{"name": "c", "image": "i", "resources": requests}]});
        cluster.pod(&format!("web-{number}"), json!({}), spec).await;
    }
    tokio::time::sleep(Duration::from_secs(storm.lasting / 2)).await;
    for number in storm.deleted.iter().filter(|number| **number < storm.pods.len()) {
        if cluster.get(&pod(&format!("web-{number}"))).await.is_some() {
            cluster.delete(&pod(&format!("web-{number}"))).await;
        }
    }
    if storm.restart {
        cluster.stop().await;
        cluster.start();
    }
    tokio::time::sleep(Duration::from_secs(storm.lasting / 2)).await;
    cluster.heal();
    for number in 1..=3 {
        cluster.until(&node(&format!("node-{number}")), is_schedulable).await;
    }
    for number in storm.deleted.iter().filter(|number| **number < storm.pods.len()) {
        cluster.until_gone(&pod(&format!("web-{number}"))).await;
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(600);
    while let Err(why) = settled(&cluster).await {
        assert!(tokio::time::Instant::now() < deadline, "{why}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let deleted: BTreeSet<_> = storm.deleted.iter().filter(|number| **number < storm.pods.len()).collect();
    assert_eq!(cluster.list(PODS).await.len(), storm.pods.len() - deleted.len());
    let ranges: BTreeSet<_> =
        cluster.list(NODES).await.iter().map(|node| node["spec"]["podCIDR"].to_string()).collect();
    assert_eq!(ranges.len(), 3);
    // And then it is quiet.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before = cluster.writes().len();
    tokio::time::sleep(Duration::from_secs(200)).await;
    let mut after = cluster.writes()[before..].to_vec();
    after.retain(|write| !write.contains("/nodes/"));
    assert_eq!(after, [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn everything_runs_once_where_there_is_room(storm in storm()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(weather(storm));
    }
}
