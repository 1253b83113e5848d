//! The disasters that it is for, step by step.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::site::{ALL_WELL, FOLLOWER, POLICY, Site, Sites, without};
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

    // The old leader boots up: both stop, and say why.
    for site in [b, c] {
        site.give_secret(&sites.kubeconfig).await?;
    }
    sites.start(0).await?;
    let [a, b, c] = &sites.all[..] else { anyhow::bail!("three sites") };
    a.mentions("AMKO in cluster b is also a leader, conflicting state").await?;
    b.mentions("AMKO in cluster a is also a leader, conflicting state").await?;
    let seen = roles(c).await?;
    ensure!(seen == "a Leader, b Leader, c Follower", "{seen}");
    b.patch("gslbconfig/gc-1", &json!({"spec": {"refreshInterval": 5}})).await?;
    configured(c, "10.0.0.2/1800").await?;
    a.lead(false).await?;
    b.mentions(POLICY).await?;
    for site in [a, c] {
        configured(site, "10.0.0.2/5").await?;
    }
    sites.dissolve().await
}

/// Who is what, as `koinon status config` sees it from a cluster.
async fn roles(site: &Site) -> anyhow::Result<String> {
    let seen: Value = serde_json::from_str(&site.room.koinon(&["status", "config", "-o", "json"]).await?)?;
    let clusters = seen["clusters"].as_array().with_context(|| seen.to_string())?;
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
