//! Pods are looked at only where a workload is stuck.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::harness::{DEPLOY, Deploy, World};

/// Counts the reads of one namespace's pods from now on; the watch of pods without a node is one of all.
fn looks(world: &World) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    for site in world.members.values() {
        let count = count.clone();
        site.wire.refuse(move |_, path| {
            if path.contains("/namespaces/default/pods") {
                count.fetch_add(1, Ordering::Relaxed);
            }
            None
        });
    }
    count
}

#[tokio::test(start_paused = true)]
async fn nobody_looks_at_pods_that_are_well() {
    let world = World::new(&[("a", 110), ("b", 110)]).await;
    let looks = looks(&world);
    world.create_deployment(Deploy { replicas: 40, ..Deploy::default() }).await;
    world.until(DEPLOY, "it runs", |one| one["status"]["availableReplicas"] == 40).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(looks.load(Ordering::Relaxed), 0);
    world.rest().await;
}
