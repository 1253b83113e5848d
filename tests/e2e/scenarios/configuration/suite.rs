//! AMKO's own suite: a pair, and the exact words for everything that can be wrong with it.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::{Value, json};

use super::site::{ALL_WELL, CLIENTS, FOLLOWER, OBJECT, Site, Sites, VALID, config, policy};
use crate::world::World;

const UUID: &str = "amko.vmware.com/amko-uuid";

pub(super) async fn pair(world: Arc<World>) -> anyhow::Result<()> {
    let mut sites = Sites::prepare(&world, &["a", "b"]).await?;
    sites.all[0].configure().await?;
    // Every bad state is there before the leader looks for the first time, so that nothing was federated before.
    let good = sites.all[0].amko_cluster(true, &["a", "b"]);
    edit(&sites.all[0], json!({"version": ""})).await?;
    sites.start(0).await?;
    let [a, b] = &sites.all[..] else { anyhow::bail!("a pair") };
    a.says(&["current AMKOCluster Validation=invalid AMKOCluster object:version field can't be empty in AMKOCluster object"])
        .await?;
    edit(a, json!({"version": "1.4.2", "clusters": ["a", "b", "x"]})).await?;
    a.says(&[
        VALID,
        "member cluster initialisation=member cluster clients invalid:error in initialising member cluster contexts: error in building \
         context config for kubernetes cluster x: context \"x\" does not exist",
    ])
    .await?;
    empty(b).await?;

    edit(b, json!({"version": "1.5.1"})).await?;
    a.apply(&good).await?;
    a.says(&[
        VALID,
        CLIENTS,
        "member cluster validation=error in validating some member clusters:version mismatch, current AMKO: 1.4.2, AMKO in cluster \
         b: 1.5.1",
    ])
    .await?;
    empty(b).await?;
    b.room.kubectl(&["delete", OBJECT]).await?;
    a.says(&[
        VALID,
        CLIENTS,
        "member cluster validation=error in validating some member clusters:no AMKOCluster object present in cluster b, can't federate",
    ])
    .await?;
    empty(b).await?;
    b.apply(&b.amko_cluster(true, &["a", "b"])).await?;
    a.says(&[
        VALID,
        CLIENTS,
        "member cluster validation=member cluster clients invalid:AMKO in cluster b is also a leader, conflicting state",
    ])
    .await?;
    empty(b).await?;

    // A follower with things of its own: they go, and exactly the leader's are there.
    b.apply(&config("extra")).await?;
    b.apply(&policy("extra")).await?;
    b.lead(false).await?;
    a.says(&ALL_WELL).await?;
    b.until_names("gc-1 global-gdp").await?;

    sites.start(1).await?;
    let [a, b] = &sites.all[..] else { anyhow::bail!("a pair") };
    b.says(&[FOLLOWER]).await?;
    a.patch("gslbconfig/gc-1", &json!({"metadata": {"annotations": {UUID: "4abb1cf5", "other": "x"}}}))
        .await?;
    b.has("gslbconfig/gc-1", "{.metadata.annotations.amko\\.vmware\\.com/amko-uuid}", "4abb1cf5").await?;
    a.patch("gslbconfig/gc-1", &json!({"spec": {"refreshInterval": 999}})).await?;
    a.patch("globaldeploymentpolicy/global-gdp", &json!({"spec": {"ttl": 1000}})).await?;
    b.has("gslbconfig/gc-1", "{.spec.refreshInterval}", "999").await?;
    b.has("globaldeploymentpolicy/global-gdp", "{.spec.ttl}", "1000").await?;
    b.has("gslbconfig/gc-1", "{.metadata.annotations.other}{.metadata.ownerReferences}", "").await?;
    let path = "jsonpath={.metadata.managedFields[*].manager}";
    let managers = b.room.kubectl(&["get", "gslbconfig/gc-1", "--show-managed-fields", "-o", path]).await?;
    ensure!(managers == "AMKO-Federator", "{managers} wrote it");

    // The current cluster may be left out of its own list.
    edit(a, json!({"clusters": ["b"]})).await?;
    a.patch("gslbconfig/gc-1", &json!({"spec": {"refreshInterval": 7}})).await?;
    b.has("gslbconfig/gc-1", "{.spec.refreshInterval}", "7").await?;
    a.says(&ALL_WELL).await?;

    a.room.kubectl(&["delete", "gslbconfig", "gc-1"]).await?;
    b.until_names("global-gdp").await?;
    // A deletion that no federator saw is one, too: this leader is known to have had it.
    sites.stop(0).await?;
    sites.all[0].room.kubectl(&["delete", "globaldeploymentpolicy", "global-gdp"]).await?;
    sites.start(0).await?;
    let [a, b] = &sites.all[..] else { anyhow::bail!("a pair") };
    b.until_names("").await?;
    a.says(&ALL_WELL).await?;
    sites.dissolve().await
}

async fn edit(site: &Site, spec: Value) -> anyhow::Result<()> {
    site.patch(OBJECT, &json!({"spec": spec})).await
}

async fn empty(site: &Site) -> anyhow::Result<()> {
    let names = site.names().await?;
    ensure!(names.is_empty(), "nothing may be in {}, but there is {names}", site.name);
    Ok(())
}
