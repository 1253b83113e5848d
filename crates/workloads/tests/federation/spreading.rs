//! The layouts of the design: who gets how many, with real room and clusters that are really offline.

use crate::harness::{WEB, World, placement};

const EVEN: &str = r#"{"rebalance":true,"clusters":{"*":{"weight":1}}}"#;

#[tokio::test(start_paused = true)]
async fn evenly_and_around_a_full_cluster() {
    let world = World::new(&[("a", 110), ("b", 110), ("c", 6)]).await;
    world.create_set(50, Some(EVEN)).await;
    world.until_layout(WEB, "a=22 b=22 c=6/8").await;
    let web = world.until(WEB, "the status adds up", |web| web["status"]["availableReplicas"] == 50).await;
    assert_eq!(web["status"]["replicas"], 50);
    assert_eq!(web["status"]["readyReplicas"], 50);
    assert_eq!(web["status"]["fullyLabeledReplicas"], 50);
    assert_eq!(web["status"]["observedGeneration"], web["metadata"]["generation"]);
    let placed = placement(&web);
    assert_eq!(placed["clusters"]["c"]["desired"], 6);
    assert_eq!(placed["clusters"]["c"]["unschedulable"], 2);
    assert!(placed["clusters"]["c"]["why"].as_str().unwrap().contains("it has room for 6"), "{placed}");
    world.rest().await;
    let events = world.federation.events("web").await;
    assert!(events.iter().any(|event| event.starts_with("Moved: a=22 b=22 c=6 (c: ")), "{events:#?}");
}
