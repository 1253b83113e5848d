//! Answers get lost and controllers restart: never are there more pods than there may be.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::harness::*;

#[tokio::test(start_paused = true)]
async fn a_pod_whose_making_went_unanswered_is_not_made_twice() {
    for every in 1..5 {
        let cluster = Cluster::new().await;
        cluster.lose_answers(every);
        cluster.lag(Duration::from_millis(70 * every as u64));
        cluster.create(SETS, set("web", 9, "v1")).await;
        let path = format!("{SETS}/web");
        cluster.until(&path, |set| set["status"]["availableReplicas"] == 9).await;
        assert_eq!(cluster.seen().ever.len(), 9, "with every {every}th answer lost");
        // Nor is another deleted for one that already was.
        cluster.patch(&path, json!({"spec": {"replicas": 4}})).await;
        cluster.until(&path, |set| set["status"]["replicas"] == 4).await;
        cluster.heal();
        cluster.rest().await;
        assert_eq!(cluster.seen().told_to_end.len(), 5, "with every {every}th answer lost");
        assert_eq!(cluster.seen().ever.len(), 9, "with every {every}th answer lost");
        assert_eq!(cluster.get(&path).await["status"]["availableReplicas"], 4);
    }
}

#[tokio::test(start_paused = true)]
async fn rollouts_end_whatever_is_lost_or_refused_and_whoever_restarts() {
    for seed in 2..8usize {
        let mut cluster = Cluster::new().await;
        let path = format!("{DEPLOYMENTS}/web");
        cluster.create(DEPLOYMENTS, deployment("web", 5, "v1", json!({}))).await;
        cluster.until_rolled_out("web").await;
        cluster.lose_answers(seed);
        cluster.lag(Duration::from_millis(40 * (seed as u64 % 4)));
        let count = AtomicUsize::new(0);
        cluster.fault(move |method, _| {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let (every, code) = if method == Method::GET { (seed + 1, 503) } else { (seed + 3, 409) };
            number.is_multiple_of(every).then(|| answer_of(code))
        });
        cluster.patch(&path, with_image("v2")).await;
        tokio::time::sleep(Duration::from_millis(200 * seed as u64)).await;
        cluster.leave().await;
        cluster.patch(&path, with_image("v3")).await;
        cluster.keep();
        for _ in 0..100 {
            let total: i64 = cluster.sizes().await.iter().map(|(_, size)| size).sum();
            assert!(total <= 7, "{:?}", cluster.sizes().await);
            let pods = cluster.active_pods().await;
            let ready = pods.iter().filter(|pod| readiness(pod)["status"] == "True").count();
            assert!(ready >= 4, "{ready} of {}", pods.len());
            tokio::time::sleep(Duration::from_millis(80)).await;
        }
        cluster.heal();
        let done = cluster.until_rolled_out("web").await;
        cluster.rest().await;
        let sizes = cluster.sizes().await;
        let left: Vec<_> = sizes.iter().filter(|(_, size)| *size > 0).collect();
        assert_eq!(left, [&("v3".to_owned(), 5)], "{sizes:?}");
        let pods = cluster.list(PODS).await;
        assert_eq!(pods.len(), 5, "{pods:#?} {:#?}", cluster.writes());
        assert_eq!(done["status"]["collisionCount"], Value::Null, "a lost answer is no collision");
    }
}
