//! What users and autoscalers change beside an update: counts, and whom the history belongs to.

use std::sync::Arc;

use anyhow::ensure;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::ResourceExt as _;
use serde_json::json;

use super::workloads_rollout::{WEB, change, rolled_out, set, version, web};
use super::{Scenario, kubectl};
use crate::league::Space;
use crate::wait::{Look, until};
use crate::world::World;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("counts_change_whatever_an_update_has_come_to", scaled),
        kubectl("where_members_count_for_themselves_updates_end_all_the_same", counted),
        kubectl("a_history_without_an_owner_is_taken_back", taken_back),
    ]
}

async fn scaled(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "scaled").await?;
    let rolling = json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
    space.apply(&web(6, json!({}), rolling)).await?;
    rolled_out(&space).await?;
    let mut broken = version("2", true);
    broken["progressDeadlineSeconds"] = 5.into();
    change(&space, broken).await?;
    space.until_event("web", "RolloutStopped: ").await?;
    space.kubectl(&["scale", WEB, "--replicas=9"]).await?;
    until("a is asked for its part of nine, though it makes no progress", async || {
        let layout = space.layout(WEB).await?;
        Ok(if layout.ends_with("/3 b=3 c=3") { Look::Found(()) } else { Look::NotYet(layout) })
    })
    .await?;
    space.kubectl(&["scale", WEB, "--replicas=0"]).await?;
    space.until_layout(WEB, "a=0 b=0 c=0").await?;
    space.leave().await
}

async fn counted(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "counted").await?;
    space.apply(&web(6, json!({"koinon.dev/replicas": "member"}), json!({}))).await?;
    rolled_out(&space).await?;
    // What an autoscaler in the member would do.
    space.in_member("a", &["scale", WEB, "--replicas=5"]).await?;
    space.in_member("c", &["scale", WEB, "--replicas=1"]).await?;
    space.until(WEB, "it says what its members do", |found| found["spec"]["replicas"] == 8).await?;
    space.until_event("web", "ReplicasFollowed: members ask for").await?;
    set(&space, "2").await?;
    rolled_out(&space).await?;
    space.until_layout(WEB, "a=5 b=2 c=1").await?;
    space.until_images(WEB, "a=web:2 b=web:2 c=web:2").await?;
    let told = league.koinon_output(&["plan", WEB, "--replicas", "30", "-n", "counted"]).await?;
    let (said, warned) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    ensure!(said.contains("All 8 replicas have a cluster."), "{said}");
    ensure!(warned.contains("members decide for themselves how many they run"), "{warned}");
    space.in_member("b", &["delete", WEB]).await?;
    space
        .until(WEB, "all are there again", |found| {
            found["status"]["availableReplicas"] == found["spec"]["replicas"]
        })
        .await?;
    space.leave().await
}

async fn taken_back(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "taken-back").await?;
    space.apply(&web(3, json!({}), json!({}))).await?;
    rolled_out(&space).await?;
    set(&space, "2").await?;
    rolled_out(&space).await?;
    let sets = space.room.api::<ReplicaSet>();
    let owned = async || -> anyhow::Result<usize> {
        let all = sets.list(&Default::default()).await?.items;
        Ok(all.iter().filter(|set| !set.owner_references().is_empty()).count())
    };
    let until_owned = async |count: usize| {
        until(&format!("{count} shadows have an owner"), async || {
            let now = owned().await?;
            Ok(if now == count { Look::Found(()) } else { Look::NotYet(now.to_string()) })
        })
        .await
    };
    let remove = json!([{"op": "remove", "path": "/metadata/ownerReferences"}]).to_string();
    for set in sets.list(&Default::default()).await?.items {
        space.kubectl(&["patch", "replicaset", &set.name_any(), "--type=json", "-p", &remove]).await?;
    }
    until_owned(2).await?;
    space.kubectl(&["delete", WEB, "--cascade=orphan"]).await?;
    until_owned(0).await?;
    space.apply(&web(3, json!({}), json!({}))).await?;
    rolled_out(&space).await?;
    until_owned(2).await?;
    let said = space.kubectl(&["rollout", "history", WEB]).await?;
    ensure!(said.contains("\n2 ") && said.contains("\n3 "), "{said}");
    space.kubectl(&["rollout", "undo", WEB]).await?;
    space.until_images(WEB, "a=web:2 b=web:2 c=web:2").await?;
    space.leave().await
}
