//! The role dies after every single one of its writes; whoever comes next finishes, and then there is silence.

use std::time::Duration;

use crate::harness::{DEPLOY, Deploy, WEB, World};
use crate::wire::ROLE;

/// Longer than the longest pause after which something happens by itself.
const QUIET: Duration = Duration::from_secs(65);
const END: &str = "a=6 b=2/4";

async fn scenario(world: &World) {
    world.create_set(8, Some(r#"{"rebalance":true}"#)).await;
}

#[tokio::test(start_paused = true)]
async fn after_every_write() {
    let world = World::new(&[("a", 110), ("b", 2)]).await;
    scenario(&world).await;
    world.until_layout(WEB, END).await;
    world.rest_for(QUIET).await;
    let writes = world.writes().len();
    assert!(writes > 4, "{:#?}", world.writes());
    drop(world);
    for at in 1..=writes {
        let mut world = World::new(&[("a", 110), ("b", 2)]).await;
        world.network.fuse(ROLE).after_writes(at);
        scenario(&world).await;
        // Long enough for the write to come, and to be missed.
        tokio::time::sleep(Duration::from_secs(90)).await;
        world.kill().await;
        world.start().await;
        world.until_layout(WEB, END).await;
        world.rest_for(QUIET).await;
        let web = world.federation.get(WEB).await.unwrap();
        assert_eq!(web["status"]["replicas"], 8, "after write {at}");
        assert_eq!(web["status"]["availableReplicas"], 8, "after write {at}");
    }
}

/// Which writes of so many the role dies after: every one if `KOINON_EVERY_WRITE` is set, else some of each kind.
fn deaths(writes: usize) -> impl Iterator<Item = usize> {
    let stride = if std::env::var_os("KOINON_EVERY_WRITE").is_some() { 1 } else { STRIDE };
    (1..=writes).step_by(stride)
}

/// For so long no two clusters have pods of two templates at a time, whoever decides.
async fn one_at_a_time(world: &World, long: Duration) {
    let end = tokio::time::Instant::now() + long;
    while tokio::time::Instant::now() < end {
        let mut replaced = Vec::new();
        for (name, site) in &world.members {
            let found = site.get(DEPLOY).await.unwrap();
            let count = |of: &str| found["status"][of].as_i64().unwrap_or(0);
            let seen = found["status"]["observedGeneration"] == found["metadata"]["generation"];
            if !seen || count("updatedReplicas") < count("replicas") || count("availableReplicas") < 2 {
                replaced.push(name);
            }
        }
        assert!(replaced.len() <= 1, "{replaced:?} at a time");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A cluster has about as many writes in a rollout, and this shares no factor with that.
const STRIDE: usize = 7;
const FIVE: [(&str, u32); 5] = [("a", 110), ("b", 110), ("c", 110), ("d", 110), ("e", 110)];

#[tokio::test(start_paused = true)]
async fn after_writes_of_a_rollout_over_five_clusters() {
    let update = async |world: &World| {
        let containers = serde_json::json!([{"name": "web", "image": "web:2"}]);
        let change = serde_json::json!({"spec": {"template": {"spec": {"containers": containers}}}});
        world.federation.patch(DEPLOY, change).await;
    };
    let begin = async || {
        let world = World::new(&FIVE).await;
        world.create_deployment(Deploy { replicas: 10, ..Deploy::default() }).await;
        world.until_layout(DEPLOY, "a=2 b=2 c=2 d=2 e=2").await;
        world.until(DEPLOY, "it is counted", |web| web["status"]["availableReplicas"] == 10).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        world
    };
    let world = begin().await;
    let before = world.writes().len();
    update(&world).await;
    world.rest_for(QUIET).await;
    let writes = world.writes().len() - before;
    assert!(writes >= 15, "shadow, record and member of each: {:#?}", &world.writes()[before..]);
    drop(world);
    for at in deaths(writes) {
        let mut world = begin().await;
        world.network.fuse(ROLE).after_writes(at);
        update(&world).await;
        one_at_a_time(&world, Duration::from_secs(30)).await;
        world.kill().await;
        world.start().await;
        one_at_a_time(&world, Duration::from_secs(60)).await;
        world.rest_for(QUIET).await;
        for site in world.members.values() {
            let found = site.get(DEPLOY).await.unwrap();
            let image = &found["spec"]["template"]["spec"]["containers"][0]["image"];
            assert_eq!(image, "web:2", "after write {at}");
        }
        let web = world.federation.get(DEPLOY).await.unwrap();
        assert_eq!(web["status"]["updatedReplicas"], 10, "after write {at}");
        assert_eq!(web["status"]["availableReplicas"], 10, "after write {at}");
        assert_eq!(
            web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2",
            "after write {at}"
        );
    }
}
