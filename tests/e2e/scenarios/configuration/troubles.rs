//! What AMKO's suite leaves out: several followers and one that is bad, drift, outages, strays and credentials.

use std::sync::Arc;

use serde_json::json;

use super::site::{ALL_WELL, CLIENTS, CONFIG, MEMBERS, OBJECT, POLICY, Sites, VALID, config, without};
use crate::wait::{Look, until};
use crate::world::{Room, World};

pub(super) async fn troubles(world: Arc<World>) -> anyhow::Result<()> {
    let mut sites = Sites::prepare(&world, &["a", "b", "c"]).await?;
    sites.start(0).await?;
    let [a, b, c] = &sites.all[..] else { anyhow::bail!("three sites") };
    a.configure().await?;
    a.says(&ALL_WELL).await?;
    for site in [b, c] {
        site.until_names("gc-1 global-gdp").await?;
    }

    // Drift on a follower is put right.
    b.patch(
        "gslbconfig/gc-1",
        &json!({"spec": {"refreshInterval": 1}, "metadata": {"labels": {"theirs": "1"}}}),
    )
    .await?;
    b.has("gslbconfig/gc-1", "{.spec.refreshInterval}{.metadata.labels.theirs}", "1800").await?;
    b.room.kubectl(&["delete", "globaldeploymentpolicy", "global-gdp"]).await?;
    b.until_names("gc-1 global-gdp").await?;

    // A member that is out of reach is named and does not hold up the other; back again, it catches up.
    a.give_secret(&without(&sites.kubeconfig, "b")).await?;
    a.mentions("error in getting AMKOCluster list for cluster b").await?;
    a.patch("gslbconfig/gc-1", &json!({"spec": {"refreshInterval": 2}})).await?;
    c.has("gslbconfig/gc-1", "{.spec.refreshInterval}", "2").await?;
    b.has("gslbconfig/gc-1", "{.spec.refreshInterval}", "1800").await?;
    a.give_secret(&sites.kubeconfig).await?;
    b.has("gslbconfig/gc-1", "{.spec.refreshInterval}", "2").await?;
    a.says(&ALL_WELL).await?;

    // Credentials: malformed, of somebody who may do nothing, gone, and good again, without a restart.
    a.give_secret_text("{").await?;
    let secret = "in Secret avi-system/gslb-config-secret is no kubeconfig";
    a.mentions(&format!("error in initialising member cluster contexts: the key gslb-members {secret}"))
        .await?;
    a.room.kubectl(&["delete", "secret", "gslb-config-secret"]).await?;
    a.mentions("Secret avi-system/gslb-config-secret is not there: create it with the key gslb-members")
        .await?;
    let mut expired = sites.kubeconfig.clone();
    for user in expired["users"].as_array_mut().into_iter().flatten().filter(|user| user["name"] == "c") {
        user["user"]["token"] = "expired".into();
    }
    a.give_secret(&expired).await?;
    a.mentions("error in getting AMKOCluster list for cluster c").await?;
    a.patch("gslbconfig/gc-1", &json!({"spec": {"refreshInterval": 3}})).await?;
    b.has("gslbconfig/gc-1", "{.spec.refreshInterval}", "3").await?;
    a.give_secret(&sites.kubeconfig).await?;
    c.has("gslbconfig/gc-1", "{.spec.refreshInterval}", "3").await?;
    a.says(&ALL_WELL).await?;

    // An AMKOCluster elsewhere is told so; two here are too many; two objects of a kind stop that kind.
    let elsewhere = Room::open(a.room.cluster.clone(), "avi-elsewhere").await?;
    elsewhere.apply(&a.amko_cluster(true, &["a"])).await?;
    let path = "jsonpath={.status.conditions[*].reason}";
    until("the stray is told", async || {
        let said = elsewhere.kubectl(&["get", OBJECT, "-o", path]).await?;
        Ok(if said == "AMKOCluster's namespace is not avi-system" {
            Look::Found(())
        } else {
            Look::NotYet(said)
        })
    })
    .await?;
    let mut second = a.amko_cluster(true, &["a", "b", "c"]);
    second["metadata"]["name"] = "second".into();
    a.apply(&second).await?;
    let several = "more than one AMKOCluster objects present in the current cluster, can't federate";
    a.says(&[&format!("current AMKOCluster Validation=invalid AMKOCluster object:{several}")]).await?;
    a.room.kubectl(&["delete", "amkocluster", "second"]).await?;
    a.says(&ALL_WELL).await?;
    a.apply(&config("gc-2")).await?;
    let several = "more than one GSLBConfig objects are present in the current cluster";
    a.says(&[VALID, CLIENTS, MEMBERS, &format!("GSLBConfig Federation=failure in federation:{several}")])
        .await?;
    a.room.kubectl(&["delete", "gslbconfig", "gc-2"]).await?;
    a.says(&[VALID, CLIENTS, MEMBERS, CONFIG, POLICY]).await?;

    // What a schema can refuse, it refuses.
    let heavy = json!({"spec": {"trafficSplit": [{"cluster": "b", "weight": 21}]}}).to_string();
    let said = a
        .room
        .kubectl_said(&["patch", "globaldeploymentpolicy", "global-gdp", "--type=merge", "-p", &heavy])
        .await?;
    anyhow::ensure!(said.code != Some(0) && said.err.contains("weight"), "{}{}", said.out, said.err);

    // Who leaves the set keeps what it has; a leader alone is fine.
    a.patch(OBJECT, &json!({"spec": {"clusters": ["a"]}})).await?;
    a.says(&ALL_WELL).await?;
    a.patch("gslbconfig/gc-1", &json!({"spec": {"refreshInterval": 4}})).await?;
    a.patch(OBJECT, &json!({"spec": {"clusters": ["a", "b"]}})).await?;
    b.has("gslbconfig/gc-1", "{.spec.refreshInterval}", "4").await?;
    c.has("gslbconfig/gc-1", "{.spec.refreshInterval}", "3").await?;
    elsewhere.leave().await?;
    sites.dissolve().await
}
