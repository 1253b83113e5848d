//! What could look like a deletion and is none: a CRD that vanished, and another cluster in the cloud's place.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::json;

use super::pair::{Definition, Pair, SOURCE, Side};
use crate::world::World;

const CONFIRM: &str = "koinon.dev/confirm-deletes";

pub(super) async fn doubts(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let toys = Definition::new("doubts", json!({SOURCE: "cloud"}));
    pair.define(&toys).await?;
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    let running = pair.start().await?;
    fill(&cloud, &toys).await?;
    robot.until_count(&toys.objects(), 3).await?;

    // The CRD vanishes upstream, and its objects with it; made anew it is empty.
    cloud.delete(&toys.path()).await?;
    cloud.until_gone(&toys.path()).await?;
    toys.make(&cloud).await?;
    let told = robot.until_told(&toys.name(), "DeletionsHeld").await?;
    ensure!(told.contains("where the originals are"), "{told}");
    robot.until_count(&toys.objects(), 3).await?;
    // A restart has not forgotten what it holds. Once nothing is missing, it is the place where originals are.
    running.stop().await;
    let running = pair.start().await?;
    cloud.create(&toys.objects(), &toys.made("new", json!({}), json!({}))).await?;
    robot.until_there(&toys.object("new")).await?;
    robot.until_count(&toys.objects(), 4).await?;
    fill(&cloud, &toys).await?;
    robot.until("it is a copy again", &toys.object("toy-0"), |toy| toy["spec"]["size"] == 1).await?;
    settled(&pair, &robot, &toys).await?;
    running.stop().await;

    // Another cluster is found where the cloud was.
    let other = Side::open(&pair.world, "c").await?;
    toys.make(&other).await?;
    let running = pair.start_with(&other.cluster.kubeconfig, &[]).await?;
    robot
        .until("the other cluster is noticed", "/api/v1/namespaces/default/events", |events| {
            events.to_string().contains("another cluster answers than before")
        })
        .await?;
    other.create(&toys.objects(), &toys.made("there", json!({}), json!({}))).await?;
    robot.until_there(&toys.object("there")).await?;
    robot.until_count(&toys.objects(), 5).await?;
    // A human may say that they can go after all.
    robot.patch(&toys.path(), &json!({"metadata": {"annotations": {CONFIRM: "4"}}})).await?;
    robot.until_count(&toys.objects(), 1).await?;
    robot
        .until("the word is spent", &toys.path(), |crd| crd["metadata"]["annotations"].get(CONFIRM).is_none())
        .await?;
    other.delete(&toys.path()).await?;
    pair.end(Some(running)).await
}

async fn fill(side: &Side, toys: &Definition) -> anyhow::Result<()> {
    for number in 0..3 {
        let toy = toys.made(&format!("toy-{number}"), json!({}), json!({"size": 1}));
        side.create(&toys.objects(), &toy).await?;
    }
    Ok(())
}

/// Waits until the cloud of now is remembered.
async fn settled(pair: &Pair, robot: &Side, toys: &Definition) -> anyhow::Result<()> {
    let uid = pair.cloud.until_there(&toys.path()).await?["metadata"]["uid"].clone();
    let path = "/api/v1/namespaces/koinon-system/configmaps/sync-r1";
    let remembered = |map: &serde_json::Value| {
        let text = map["data"][toys.name()].as_str().unwrap_or_default();
        text.split_once('/').is_some_and(|(_, crd)| uid == crd)
    };
    robot.until("the cloud of now is remembered", path, remembered).await.map(drop)
}
