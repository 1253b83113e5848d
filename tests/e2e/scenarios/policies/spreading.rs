//! Policies on their way to every cluster, and what keeps them from one.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::realm::{MARK, Policy, Realm};
use crate::union::SITES;
use crate::wait::{Look, until};
use crate::world::World;

const WEB: Policy = Policy::cluster("web");
const SHOP: Policy = Policy::within("policies-shop", "shop");
const OWN: Policy = Policy::cluster("own");
const GOLD: Policy = Policy::cluster("gold");
const NEW: Policy = Policy::cluster("new");

/// Made, edited, removed and taken out of the federation, each from another cluster.
pub(super) async fn everywhere(world: Arc<World>) -> anyhow::Result<()> {
    let mut realm = Realm::found(&world).await?;
    realm.open("policies-shop", &["a", "b"]).await?;
    realm.create("b", &WEB, 1).await?;
    realm.create("a", &SHOP, 1).await?;
    realm.until(&WEB, "a=1 b=1 c=1").await?;
    realm.until(&SHOP, "a=1 b=1 c=-").await?;
    let copy = realm.find("c", &WEB).await?.context("the copy in c")?;
    ensure!(copy.labels()["team"] == "net" && copy.annotations()["example.com/why"] == "because", "{copy:?}");
    let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
    ensure!(!copy.annotations().contains_key(last_applied) && copy.owner_references().is_empty(), "{copy:?}");
    until_status(
        &realm,
        "anp/policies-shop/shop",
        json!({"a": "applied", "b": "applied", "c": "noNamespace"}),
    )
    .await?;

    // An edit goes everywhere, from wherever; a namespace that comes later gets what it missed.
    realm.edit("c", &WEB, 2).await?;
    realm.until(&WEB, "a=2 b=2 c=2").await?;
    realm.open("policies-shop", &["c"]).await?;
    realm.until(&SHOP, "a=1 b=1 c=1").await?;
    realm.edit("c", &SHOP, 2).await?;
    realm.until(&SHOP, "a=2 b=2 c=2").await?;
    // A namespace takes its policies along, and nobody else's: they come back with it.
    realm.close("policies-shop", "a").await?;
    realm.until(&SHOP, "a=- b=2 c=2").await?;
    realm.open("policies-shop", &["a"]).await?;
    realm.until(&SHOP, "a=2 b=2 c=2").await?;

    // Without the annotation it is a policy of that cluster alone.
    realm.kubectl("b", &WEB, &["annotate", "acnp", "web", &format!("{MARK}-")]).await?;
    realm.until(&WEB, "a=- b=2* c=-").await?;
    realm.kubectl("b", &WEB, &["annotate", "acnp", "web", &format!("{MARK}=true")]).await?;
    realm.until(&WEB, "a=2 b=2 c=2").await?;

    realm.delete("a", &WEB).await?;
    realm.delete("b", &SHOP).await?;
    realm.until(&WEB, "a=- b=- c=-").await?;
    realm.until(&SHOP, "a=- b=- c=-").await?;
    realm.until_forgotten(&SITES).await?;
    // Its name is free again.
    realm.create("c", &WEB, 3).await?;
    realm.until(&WEB, "a=3 b=3 c=3").await?;
    realm.dissolve().await
}

/// A policy of somebody's own, a Tier that is not there, rules that see one cluster, members with terms of their own.
pub(super) async fn hindered(world: Arc<World>) -> anyhow::Result<()> {
    let mut realm = Realm::found(&world).await?;
    realm.open("policies-shop", &SITES).await?;
    let mut own = OWN.object(9);
    own["metadata"]["annotations"] = json!({});
    realm.apply("b", &OWN, &own).await?;
    realm.create("a", &OWN, 1).await?;
    let tier = json!({
        "apiVersion": "crd.antrea.io/v1beta1", "kind": "Tier", "metadata": {"name": "gold"}, "spec": {"priority": 20},
    });
    for name in ["a", "c"] {
        realm.at(name).apply(&tier).await?;
    }
    let mut gold = GOLD.object(1);
    gold["spec"]["tier"] = "gold".into();
    realm.apply("a", &GOLD, &gold).await?;
    let mut local = SHOP.object(1);
    local["spec"]["ingress"] = json!([{"action": "Allow", "from": [{"podSelector": {}}]}]);
    realm.apply("c", &SHOP, &local).await?;

    // Everybody else has them, and who can do something about it is told.
    realm.until(&OWN, "a=1 b=9* c=1").await?;
    realm.until_told("a", &OWN, "FederatedPolicyBlocked", &["cluster b has a policy of its own"]).await?;
    realm.until_told("b", &OWN, "FederatedPolicyBlocked", &["comes from cluster a"]).await?;
    realm.until(&GOLD, "a=1 b=- c=1").await?;
    realm.until_told("a", &GOLD, "FederatedPolicyRefused", &["cluster b", "Tier gold"]).await?;
    realm.until(&SHOP, "a=1 b=1 c=1").await?;
    realm.until_told("c", &SHOP, "FederatedPolicyLocalRule", &["podSelector"]).await?;
    until_status(&realm, "acnp/own", json!({"a": "applied", "b": "conflict", "c": "applied"})).await?;
    until_status(&realm, "acnp/gold", json!({"a": "applied", "b": "refused", "c": "applied"})).await?;
    realm.at("b").apply(&tier).await?;
    realm.until(&GOLD, "a=1 b=1 c=1").await?;
    realm.delete("b", &OWN).await?;
    realm.until(&OWN, "a=1 b=1 c=1").await?;

    // A cluster can stay out; the others do not wait for it.
    accept(&realm, "c", "none").await?;
    realm.until_ledger("a", "departed", true).await?;
    realm.create("a", &NEW, 1).await?;
    realm.edit("a", &OWN, 2).await?;
    realm.until(&NEW, "a=1 b=1 c=-").await?;
    realm.until(&OWN, "a=2 b=2 c=1").await?;
    // Or take only what users of some clusters want.
    accept(&realm, "c", "b").await?;
    realm.until_ledger("c", r#"\"epoch\":1"#, true).await?;
    until_status(&realm, "acnp/own", json!({"a": "applied", "b": "applied", "c": "declined"})).await?;
    realm.edit("b", &OWN, 3).await?;
    realm.until(&OWN, "a=3 b=3 c=3").await?;
    realm.until(&NEW, "a=1 b=1 c=-").await?;
    accept(&realm, "c", "all").await?;
    realm.until(&NEW, "a=1 b=1 c=1").await?;
    realm.dissolve().await
}

/// Says in a cluster whose policies it takes.
async fn accept(realm: &Realm, name: &str, whose: &str) -> anyhow::Result<()> {
    let annotation = format!("koinon.dev/accept-policies={whose}");
    realm.at(name).room.kubectl(&["annotate", "federation", "fed", "--overwrite", &annotation]).await?;
    Ok(())
}

/// Waits until `koinon status policies` says this of a policy, in both clusters that know all members.
async fn until_status(realm: &Realm, policy: &str, wanted: Value) -> anyhow::Result<()> {
    for name in ["a", "b"] {
        until(&format!("the status of {policy} in {name} is {wanted}"), async || {
            let reports = realm.status(name).await?;
            let report = reports.get(policy).context("it is not listed")?;
            let members = report["members"].as_object().context("its members")?;
            let states: Value =
                members.iter().map(|(name, place)| (name.clone(), place["state"].clone())).collect();
            Ok(if states == wanted { Look::Found(()) } else { Look::NotYet(report.to_string()) })
        })
        .await?;
    }
    Ok(())
}
