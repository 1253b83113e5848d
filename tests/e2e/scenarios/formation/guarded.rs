//! What is refused at once, and what becomes of it when nobody was there to refuse it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{object, refused, try_apply, until_federation, until_led_by};
use crate::kubectl::Said;
use crate::league::League;
use crate::union::{FEDERATION, HASTE, Site, Union};
use crate::wait::{Look, until};
use crate::world::{Room, World};

const TRIAL: [&str; 1] = ["--dry-run=server"];
const WEBHOOK: [&str; 2] = ["--webhook", "127.0.0.1:0"];
const HOOK: &str = "admission webhook \"network.webhook.koinon.dev\" denied the request: ";

pub(super) async fn claims_and_federations(world: Arc<World>) -> anyhow::Result<()> {
    let mut union = Union::prepare(&world).await?;
    union.sites[0].room.install_printed(&["rbac", "--role", "network", "--webhook"]).await?;
    union.federate(0).await?;
    union.start_role(0, &WEBHOOK).await?;
    let a = &union.sites[0];
    until_guarded(a).await?;

    // The ID stays, under whatever name somebody tries.
    let refers = "while the Federation antrea-plus-system/fed refers to it: delete that first";
    let id = format!("{HOOK}the cluster's ID is a, and this would");
    until_refused(async || change_id(a, "other", &TRIAL).await, &format!("{id} make it other {refers}"))
        .await?;
    let deletion = ["delete", "clusterclaim", "id.k8s.io"];
    until_refused(async || say(a, &deletion, &TRIAL).await, &format!("{id} leave it without one {refers}"))
        .await?;
    let renamed = ["patch", "clusterclaim", "id.k8s.io", "--type=merge", "-p", r#"{"name":"not.an.id"}"#];
    until_refused(async || say(a, &renamed, &TRIAL).await, &format!("{id} leave it without one")).await?;
    let another = claim("first", Some("id.k8s.io"), "other");
    until_refused(async || try_apply(a, &another, &TRIAL).await, &format!("{id} make it other")).await?;
    a.room.kubectl(&["label", "clusterclaim", "id.k8s.io", "tier=one"]).await?;
    a.claim("clusterset.k8s.io", "league").await?;

    // There is one Federation, and its members have names.
    let one =
        format!("{HOOK}a cluster is in one federation, and there is the Federation antrea-plus-system/fed: ");
    until_refused(async || try_apply(a, &federation("second", &[]), &TRIAL).await, &one).await?;
    let elsewhere = Room { cluster: a.room.cluster.clone(), name: "default".into() };
    let misplaced = Site { name: "a", room: elsewhere, role: None };
    let belongs = format!("{HOOK}a Federation belongs into the namespace antrea-plus-system");
    until_refused(async || try_apply(&misplaced, &federation("second", &[]), &TRIAL).await, &belongs).await?;
    // These the definition itself refuses, before anybody is asked.
    refused(
        &try_apply(a, &federation("fed", &["a", "b", "a"]), &[]).await?,
        "The Federation \"fed\" is invalid: ",
    )?;
    refused(
        &try_apply(a, &federation("fed", &["A b"]), &[]).await?,
        "spec.members[0].clusterID.value: Invalid value: ",
    )?;

    // Without a Federation the cluster may be called anything.
    a.room.kubectl(&["delete", "federation", "fed"]).await?;
    for value in ["other", "a"] {
        anyhow::ensure!(change_id(a, value, &[]).await?.code == Some(0), "nothing refers to the ID any more");
    }
    union.federate(0).await?;
    until_led_by(&union.sites[0], &["a"]).await?;

    // A role that ends takes its webhook along. What is done then is held to the same rules later.
    union.sites[0].end_role().await?;
    let a = &union.sites[0];
    until("the webhook is registered no more", async || {
        let found = say(a, &["get", "validatingwebhookconfiguration", "koinon-network"], &[]).await?;
        Ok(if found.err.contains("NotFound") { Look::Found(()) } else { Look::NotYet(found.out) })
    })
    .await?;
    anyhow::ensure!(change_id(a, "other", &[]).await?.code == Some(0), "nobody is there to refuse it");
    a.apply(&federation("second", &[])).await?;
    union.start_role(0, &[]).await?;
    let a = &union.sites[0];
    let held = until_federation(a, "the old ID stays in force, and that is told", |federation| {
        federation["status"]["problems"][0]
            .as_str()
            .is_some_and(|problem| problem.contains("a stays in force"))
    })
    .await?;
    anyhow::ensure!(held["status"]["clusterID"] == "a", "{}", held["status"]);
    until_led_by(a, &["a"]).await?;
    until("the second Federation is told that it does not count", async || {
        let second = object(a, "federation", "second").await?;
        let why = &second["status"]["ignored"];
        Ok(if why == "a cluster is in one federation, and fed is older" {
            Look::Found(())
        } else {
            Look::NotYet(second["status"].to_string())
        })
    })
    .await?;

    // The cluster works on when the webhook died without a word.
    union.sites[0].end_role().await?;
    union.start_role(0, &WEBHOOK).await?;
    until_guarded(&union.sites[0]).await?;
    if let Some(role) = union.sites[0].role.take() {
        role.signal("KILL").await?;
        role.stop().await;
    }
    let a = &union.sites[0];
    object(a, "validatingwebhookconfiguration", "koinon-network").await?;
    anyhow::ensure!(
        try_apply(a, &federation("third", &[]), &[]).await?.code == Some(0),
        "nobody is there to refuse it"
    );
    a.room.kubectl(&["delete", "validatingwebhookconfiguration", "koinon-network"]).await?;
    let rights = ["clusterrole/koinon-network-webhook", "clusterrolebinding/koinon-network-webhook"];
    a.room.kubectl(&[&["delete"], &rights[..]].concat()).await?;
    union.dissolve().await
}

fn claim(object: &str, name: Option<&str>, value: &str) -> Value {
    let mut claim = json!({"apiVersion": FEDERATION, "kind": "ClusterClaim", "metadata": {"name": object}, "value": value});
    if let Some(name) = name {
        claim["name"] = name.into();
    }
    claim
}

fn federation(name: &str, members: &[&str]) -> Value {
    let members: Vec<Value> = members.iter().map(|id| json!({"clusterID": {"value": id}})).collect();
    json!({"apiVersion": FEDERATION, "kind": "Federation", "metadata": {"name": name}, "spec": {"members": members}})
}

async fn say(site: &Site, arguments: &[&str], more: &[&str]) -> anyhow::Result<Said> {
    site.room.kubectl_said(&[arguments, more].concat()).await
}

async fn change_id(site: &Site, value: &str, more: &[&str]) -> anyhow::Result<Said> {
    let patch = json!({"value": value}).to_string();
    say(site, &["patch", "clusterclaim", "id.k8s.io", "--type=merge", "-p", &patch], more).await
}

/// Waits until the API server asks: it hears of a webhook a moment after it was registered.
async fn until_guarded(site: &Site) -> anyhow::Result<()> {
    until_refused(async || change_id(site, "trial", &TRIAL).await, HOOK).await
}

/// A webhook that has no answer in time lets pass, with a warning: on a busy machine one attempt says little. What is
/// attempted is a trial, so that what passes changes nothing.
async fn until_refused(attempt: impl AsyncFn() -> anyhow::Result<Said>, words: &str) -> anyhow::Result<()> {
    until(&format!("it is refused: {words}"), async || {
        let said = attempt().await?;
        Ok(match refused(&said, words) {
            Ok(()) => Look::Found(()),
            Err(other) => Look::NotYet(other.to_string()),
        })
    })
    .await
}

pub(super) async fn preferences(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _alone = league.alone().await;
    league.stop_role().await?;
    let outcome = refuse_preferences(&world, &league).await;
    // Whatever came of it: others want their federation back.
    league.start_role().await?;
    outcome
}

async fn refuse_preferences(world: &World, league: &League) -> anyhow::Result<()> {
    let arguments = [&HASTE[..], &WEBHOOK].concat();
    league.system.install_printed(&["rbac", "--role", "workloads", "--webhook"]).await?;
    let role = world.role_with("guarded", "workloads", &league.rights, &arguments).await?;
    let room = Room::bare(league.federation.clone(), "guarded-preferences").await?;
    let deployment = |annotations: Value| {
        let labels = json!({"app": "web"});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": annotations},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            }},
        })
    };
    let apply = async |object: &Value, more: &[&str]| -> anyhow::Result<Said> {
        let file = room.cluster.kubeconfig.with_file_name("guarded-preferences.json");
        std::fs::write(&file, object.to_string())?;
        room.kubectl_said(&[&["apply", "-f", &file.to_string_lossy()], more].concat()).await
    };
    let denied = "admission webhook \"workloads.webhook.koinon.dev\" denied the request: ";
    let preferences = "federation.kubernetes.io/deployment-preferences";
    let inverted =
        deployment(json!({preferences: r#"{"clusters":{"a":{"minReplicas":3,"maxReplicas":2}}}"#}));
    let words = format!(
        "{denied}the annotation {preferences} cannot be used, so replicas stay where they are: clusters.a.minReplicas is 3, more \
         than maxReplicas, which is 2: lower the one or raise the other"
    );
    until_refused(async || apply(&inverted, &TRIAL).await, &words).await?;
    for (annotation, value, words) in [
        (preferences, "{", "it is not JSON"),
        (preferences, r#"{"clusters":{"a":{"weigth":1}}}"#, "clusters.a.weigth is not known"),
        (preferences, r#"{"clusters":{"a":{"weight":-1}}}"#, "clusters.a.weight is -1"),
        ("koinon.dev/cluster-order", "a,,b", "the order \"a,,b\" has an empty name"),
        ("koinon.dev/max-concurrent-clusters", "none", "\"none\" is no number of clusters"),
    ] {
        let bad = deployment(json!({annotation: value}));
        until_refused(async || apply(&bad, &TRIAL).await, words).await?;
    }
    let good = deployment(
        json!({preferences: r#"{"clusters":{"a":{"weight":1}}}"#, "koinon.dev/cluster-order": "b,a"}),
    );
    anyhow::ensure!(apply(&good, &["--dry-run=server"]).await?.code == Some(0), "what is well said is taken");
    let lacked = role.lacked_nothing("the federation");
    role.stop().await;
    lacked?;
    room.leave().await
}
