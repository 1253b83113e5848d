//! The disasters that it is for, step by step.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::site::{ALL_WELL, FOLLOWER, POLICY, Site, Sites, without};
use crate::engine::Build;
use crate::world::World;

pub(super) async fn disaster(world: Arc<World>) -> anyhow::Result<()> {
    let mut sites = Sites::prepare(&world, &["a", "b", "c"]).await?;
    for index in 0..3 {
        sites.start(index).await?;
    }
    let [a, b, c] = &sites.all[..] else { anyhow::bail!("three sites") };
    a.configure().await?;
    a.says(&ALL_WELL).await?;
    b.says(&[FOLLOWER]).await?;
    for site in [b, c] {
        configured(site, "10.0.0.1/1800").await?;
    }

    let seen = roles(a).await?;
    ensure!(seen == "a Leader, b Follower, c Follower", "{seen}");
    a.is_seen_to_lead(true).await?;
    b.is_seen_to_lead(false).await?;

    // The site is lost: its federator is gone, and the others do not reach it.
    sites.stop(0).await?;
    let [_, b, c] = &sites.all[..] else { anyhow::bail!("three sites") };
    for site in [b, c] {
        site.give_secret(&without(&sites.kubeconfig, "a")).await?;
    }
    b.patch("gslbconfig/gc-1", &json!({"spec": {"gslbLeader": {"controllerIP": "10.0.0.2"}}})).await?;
    b.lead(true).await?;
    configured(c, "10.0.0.2/1800").await?;
    b.mentions("error in getting AMKOCluster list for cluster a").await?;
    b.is_seen_to_lead(true).await?;

    // The old leader boots up: both stop, and say why.
    for site in [b, c] {
        site.give_secret(&sites.kubeconfig).await?;
    }
    sites.start(0).await?;
    let [a, b, c] = &sites.all[..] else { anyhow::bail!("three sites") };
    a.mentions("AMKO in cluster b is also a leader, conflicting state").await?;
    b.mentions("AMKO in cluster a is also a leader, conflicting state").await?;
    for site in [a, b] {
        site.is_seen_to_lead(false).await?;
    }
    let seen = roles(c).await?;
    ensure!(seen == "a Leader, b Leader, c Follower", "{seen}");
    b.patch("gslbconfig/gc-1", &json!({"spec": {"refreshInterval": 5}})).await?;
    configured(c, "10.0.0.2/1800").await?;
    a.lead(false).await?;
    b.mentions(POLICY).await?;
    for site in [a, c] {
        configured(site, "10.0.0.2/5").await?;
    }
    b.is_seen_to_lead(true).await?;
    a.is_seen_to_lead(false).await?;
    sites.dissolve().await
}

/// Only the leader's cluster is lost: one edit makes another leader. It comes back, and the new leader steps back.
pub(super) async fn cluster_failure(world: Arc<World>) -> anyhow::Result<()> {
    let (running, lost) = world.own_cluster("configuration-a", Build::Whole).await?;
    let clusters = [("a", lost), ("b", world.cluster("b").await?), ("c", world.cluster("c").await?)];
    let mut sites = Sites::of(&world, &clusters).await?;
    for index in 0..3 {
        sites.start(index).await?;
    }
    let [a, b, c] = &sites.all[..] else { anyhow::bail!("three sites") };
    a.configure().await?;
    a.says(&ALL_WELL).await?;
    for site in [b, c] {
        configured(site, "10.0.0.1/1800").await?;
    }
    sites.kill(0).await?;
    running.stop().await;

    let [_, b, c] = &sites.all[..] else { anyhow::bail!("three sites") };
    b.lead(true).await?;
    b.mentions("error in getting AMKOCluster list for cluster a").await?;
    b.is_seen_to_lead(true).await?;
    b.patch("gslbconfig/gc-1", &json!({"spec": {"refreshInterval": 5}})).await?;
    configured(c, "10.0.0.1/5").await?;

    // The cluster is back as it was, at another address.
    let (running, found) = world.own_cluster("configuration-a", Build::Whole).await?;
    sites.all[0].room.cluster = found;
    sites.introduce().await?;
    sites.start(0).await?;
    let [a, b, _] = &sites.all[..] else { anyhow::bail!("three sites") };
    a.mentions("AMKO in cluster b is also a leader, conflicting state").await?;
    b.mentions("AMKO in cluster a is also a leader, conflicting state").await?;

    // A rival that is out of reach is one still, also for a federator that never saw it.
    b.give_secret(&without(&sites.kubeconfig, "a")).await?;
    sites.stop(1).await?;
    sites.start(1).await?;
    let [a, b, c] = &sites.all[..] else { anyhow::bail!("three sites") };
    b.counts("members", 2).await?;
    b.counts("rivals", 1).await?;
    b.is_seen_to_lead(false).await?;
    b.mentions("AMKO in cluster a is also a leader, conflicting state").await?;
    b.patch("gslbconfig/gc-1", &json!({"spec": {"refreshInterval": 6}})).await?;
    b.give_secret(&sites.kubeconfig).await?;

    b.lead(false).await?;
    b.says(&[FOLLOWER]).await?;
    a.says(&ALL_WELL).await?;
    a.is_seen_to_lead(true).await?;
    for site in [b, c] {
        configured(site, "10.0.0.1/1800").await?;
    }
    sites.dissolve().await?;
    running.stop().await;
    Ok(())
}

/// Who is what, as `koinon status config` sees it from a cluster; all but the one that leads got something.
async fn roles(site: &Site) -> anyhow::Result<String> {
    let seen: Value = serde_json::from_str(&site.room.koinon(&["status", "config", "-o", "json"]).await?)?;
    let clusters = seen["clusters"].as_array().with_context(|| seen.to_string())?;
    let followers = clusters.iter().filter(|one| one["role"] == "Follower");
    let without = followers.filter(|one| !one["lastFederated"].is_string()).count();
    ensure!(without == 0, "not everybody is said to have got something: {seen}");
    let mut roles: Vec<String> = clusters
        .iter()
        .map(|one| {
            format!("{} {}", one["context"].as_str().unwrap_or("?"), one["role"].as_str().unwrap_or("?"))
        })
        .collect();
    roles.sort();
    Ok(roles.join(", "))
}

async fn configured(site: &Site, wanted: &str) -> anyhow::Result<()> {
    site.has("gslbconfig/gc-1", "{.spec.gslbLeader.controllerIP}/{.spec.refreshInterval}", wanted).await
}
