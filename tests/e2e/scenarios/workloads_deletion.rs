//! Deleting what is federated: members keep theirs, unless it is said that they go too.

use std::sync::Arc;

use anyhow::ensure;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::ListParams;
use serde_json::json;

use super::{Scenario, kubectl};
use crate::league::Space;
use crate::objects::{deployment, replica_set};
use crate::wait::{Look, until};
use crate::world::World;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("members_keep_theirs_unless_it_is_said_otherwise", three_ways),
        kubectl("a_member_that_is_away_is_cleaned_when_it_is_back", away),
    ]
}

const STAY: [(&str, &str); 2] = [("stays", "background"), ("orphan", "orphan")];

async fn three_ways(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "deletion").await?;
    for name in ["stays", "orphan", "goes", "asked"] {
        space.apply(&deployment(name, 3, json!({}))).await?;
        space.apply(&replica_set(&format!("{name}-set"), 3)).await?;
    }
    space
        .kubectl(&["annotate", "deployment/asked", "replicaset/asked-set", "koinon.dev/cascade=members"])
        .await?;
    for name in ["stays", "orphan", "goes", "asked"] {
        space.until_layout(&format!("deployment/{name}"), "a=1 b=1 c=1").await?;
        space.until_layout(&format!("replicaset/{name}-set"), "a=1 b=1 c=1").await?;
    }
    for named in ["deployment/asked", "replicaset/asked-set"] {
        space
            .until(named, "it waits for its members", |found| !found["metadata"]["finalizers"].is_null())
            .await?;
    }
    for (name, cascade) in STAY.into_iter().chain([("goes", "foreground"), ("asked", "background")]) {
        let (deployment, set) = (format!("deployment/{name}"), format!("replicaset/{name}-set"));
        space
            .kubectl(&["delete", &deployment, &set, &format!("--cascade={cascade}"), "--timeout=150s"])
            .await?;
    }
    for name in ["goes", "asked"] {
        until_gone(&space, &format!("deployment/{name}"), "").await?;
        until_gone(&space, &format!("replicaset/{name}-set"), "").await?;
    }
    for (name, _) in STAY {
        ensure!(space.layout(&format!("deployment/{name}")).await? == "a=1 b=1 c=1", "{name} stays");
        ensure!(space.layout(&format!("replicaset/{name}-set")).await? == "a=1 b=1 c=1", "{name} stays");
    }
    // Whoever makes it again takes it over.
    space.apply(&deployment("stays", 6, json!({}))).await?;
    space.until_layout("deployment/stays", "a=2 b=2 c=2").await?;
    space.leave().await
}

async fn away(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _alone = league.alone().await;
    let space = Space::open(league.clone(), "deletion-away").await?;
    space.apply(&deployment("web", 3, json!({}))).await?;
    space.until_layout("deployment/web", "a=1 b=1 c=1").await?;
    league.members["c"].wire.cut();
    space.kubectl(&["delete", "deployment/web", "--cascade=foreground", "--timeout=150s"]).await?;
    until_gone(&space, "deployment/web", "c=1").await?;
    // Somebody else takes over, who never saw it.
    league.stop_role().await?;
    league.members["c"].wire.heal();
    league.start_role().await?;
    until_gone(&space, "deployment/web", "").await?;
    unseen(&space).await?;
    space.leave().await
}

/// A deletion in the foreground that nobody of ours is there to see.
async fn unseen(space: &Space) -> anyhow::Result<()> {
    let both = ["deployment/unseen", "replicaset/unseen-set"];
    space.apply(&deployment("unseen", 3, json!({}))).await?;
    space.apply(&replica_set("unseen-set", 3)).await?;
    for named in both {
        space.until_layout(named, "a=1 b=1 c=1").await?;
    }
    until_anchors(space, "two are held", |all| all.len() == 2).await?;
    space.league.stop_role().await?;
    space.kubectl(&["delete", both[0], both[1], "--cascade=foreground", "--wait=false"]).await?;
    // The garbage collector has done all that it can.
    let going = |one: &ControllerRevision| one.metadata.deletion_timestamp.is_some();
    until_anchors(space, "both are going", |all| all.iter().all(going)).await?;
    space.league.start_role().await?;
    for named in both {
        until_gone(space, named, "").await?;
    }
    until_anchors(space, "nothing of ours is left", |all| all.is_empty()).await
}

async fn until_anchors(
    space: &Space,
    what: &str,
    holds: impl Fn(&[ControllerRevision]) -> bool,
) -> anyhow::Result<()> {
    let anchors = space.room.api::<ControllerRevision>();
    until(what, async || {
        let all = anchors.list(&ListParams::default()).await?.items;
        let said = all.iter().map(|one| format!("{:?}", one.metadata)).collect::<Vec<_>>().join("\n");
        Ok(if holds(&all) { Look::Found(()) } else { Look::NotYet(said) })
    })
    .await
}

/// Waits until members have only that; the federation has it no more.
async fn until_gone(space: &Space, named: &str, left: &str) -> anyhow::Result<()> {
    until(&format!("of {named} only {left:?} is left"), async || {
        let now = space.layout(named).await?;
        Ok(if now == left { Look::Found(()) } else { Look::NotYet(now) })
    })
    .await
}
