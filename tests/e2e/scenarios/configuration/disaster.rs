//! The disasters that it is for, step by step.

use std::sync::Arc;

use serde_json::json;

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
    b.patch("gslbconfig/gc-1", &json!({"spec": {"refreshInterval": 5}})).await?;
    configured(c, "10.0.0.2/1800").await?;
    a.lead(false).await?;
    b.mentions(POLICY).await?;
    for site in [a, c] {
        configured(site, "10.0.0.2/5").await?;
    }
    sites.dissolve().await
}

async fn configured(site: &Site, wanted: &str) -> anyhow::Result<()> {
    site.has("gslbconfig/gc-1", "{.spec.gslbLeader.controllerIP}/{.spec.refreshInterval}", wanted).await
}
