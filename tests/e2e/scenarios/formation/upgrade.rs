//! A member whose API server becomes another release: the same member, known by its new version, and given what it missed.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::member;
use crate::engine::{Build, Engine, Running};
use crate::league::{Member, Space};
use crate::objects::replica_set;
use crate::wait::{Look, until};
use crate::world::World;

const ONLY_HERE: &str = r#"{"clusters":{"d":{"weight":1}}}"#;

pub(super) async fn upgraded(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _alone = league.alone().await;
    let space = Space::open(league.clone(), "upgrade").await?;
    let mut running = None;
    let outcome = upgrade(&world, &space, &mut running).await;
    // Whatever came of it: others want their federation as it was.
    let unjoined = league.koinon(&["unjoin", "d"]).await;
    let left = space.leave().await;
    if let Some(running) = running {
        running.stop().await;
    }
    outcome?;
    unjoined?;
    left
}

async fn upgrade(world: &Arc<World>, space: &Space, own: &mut Option<Running>) -> anyhow::Result<()> {
    let league = &space.league;
    let (running, cluster) = world.own_cluster("upgraded", Build::Older).await?;
    *own = Some(running);
    let mut member = Member::new(cluster).await?;
    let path = member.kubeconfig.to_string_lossy().into_owned();
    league.koinon(&["join", "d", "--member-kubeconfig", &path]).await?;
    let older = version(&member).await?;
    let mut web = replica_set("web", 2);
    let preferences = "federation.kubernetes.io/replica-set-preferences";
    web["metadata"]["annotations"] = serde_json::json!({preferences: ONLY_HERE});
    space.apply(&web).await?;
    until_asked(space, &member, 2).await?;
    until_known_as(space, &older).await?;

    // It goes for longer than it takes to be missed, and what is asked for meanwhile waits for it.
    if let Some(running) = own.take() {
        running.stop().await;
    }
    until_missed(space).await?;
    space.kubectl(&["scale", "replicaset", "web", "--replicas=3"]).await?;
    let (running, cluster) = world.own_cluster("upgraded", Build::Bare).await?;
    *own = Some(running);
    let wire = member.wire;
    member = Member::new(cluster).await?;
    wire.turn_to(member.server);
    let newer = version(&member).await?;
    if world.engine() == Engine::Kubernetes {
        let minors = [&older, &newer].map(|version| version.split('.').nth(1).map(str::to_owned));
        ensure!(minors == [Some("35".into()), Some("36".into())], "from {older} to {newer} is no upgrade");
    }
    until_asked(space, &member, 3).await?;
    until_known_as(space, &newer).await
}

/// Waits until the role misses it: `koinon members` asks by itself, and would know sooner.
async fn until_missed(space: &Space) -> anyhow::Result<()> {
    until("d is missed", async || {
        let federation =
            space.league.system.kubectl(&["get", "federation", "federation", "-o", "json"]).await?;
        let federation: Value = serde_json::from_str(&federation)?;
        let said = member(&federation, "d");
        Ok(if said["status"] == "Unreachable" { Look::Found(()) } else { Look::NotYet(said.to_string()) })
    })
    .await
}

async fn version(member: &Member) -> anyhow::Result<String> {
    Ok(member.cluster.client.apiserver_version().await?.git_version)
}

/// Waits until the member's own object asks for so many.
async fn until_asked(space: &Space, member: &Member, replicas: i64) -> anyhow::Result<()> {
    until(&format!("d is asked for {replicas}"), async || {
        let found = space.get(&member.cluster, "replicaset/web").await?.unwrap_or_default();
        let asked = &found["spec"]["replicas"];
        Ok(if *asked == replicas { Look::Found(()) } else { Look::NotYet(asked.to_string()) })
    })
    .await
}

/// Waits until both `koinon members` and the inventory for other tools tell this version.
async fn until_known_as(space: &Space, version: &str) -> anyhow::Result<()> {
    until_members(space, &format!("d is there as {version}"), |row| {
        row.contains("Reachable") && row.contains(version)
    })
    .await?;
    until(&format!("the ClusterProfile of d tells {version}"), async || {
        let profile = space.league.system.kubectl(&["get", "clusterprofile", "d", "-o", "json"]).await?;
        let profile: Value = serde_json::from_str(&profile)?;
        let told = &profile["status"]["version"]["kubernetes"];
        Ok(if told == version { Look::Found(()) } else { Look::NotYet(told.to_string()) })
    })
    .await
}

async fn until_members(space: &Space, what: &str, wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    until(what, async || {
        let members = space.league.koinon(&["members"]).await?;
        let row = members.lines().find(|line| line.starts_with("d ")).context("d is a member")?;
        Ok(if wanted(row) { Look::Found(()) } else { Look::NotYet(row.to_owned()) })
    })
    .await
}
