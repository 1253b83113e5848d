//! What goes wrong between a federated ReplicaSet and its members: refusals, objects in the way, hands that meddle, quotas.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::ResourceExt as _;
use serde_json::json;

use super::{Scenario, kubectl};
use crate::league::Space;
use crate::objects::{deployment, pods, ready_pods, replica_set, template};
use crate::wait::{Look, until};
use crate::world::{Room, World};

const EVEN: &str = r#"{"rebalance":true,"clusters":{"*":{"weight":1}}}"#;
const A_AND_B: &str = r#"{"rebalance":true,"clusters":{"a":{"weight":1},"b":{"weight":1}}}"#;
const SET: &str = "replicaset/web";

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("replicas_go_elsewhere_while_a_member_refuses_and_come_back", refused),
        kubectl("what_is_in_the_way_is_overwritten_and_pods_are_adopted", in_the_way),
        kubectl("pods_that_cannot_be_created_count_as_no_room", quota),
    ]
}

fn web(replicas: i32, preferences: &str) -> serde_json::Value {
    let mut set = replica_set("web", replicas);
    set["metadata"]["annotations"] = json!({"federation.kubernetes.io/replica-set-preferences": preferences});
    set
}

/// A quota that is in force.
async fn limit(room: &Room, resource: &str, most: &str) -> anyhow::Result<()> {
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {resource: most}}});
    room.create::<ResourceQuota>(quota).await?;
    until("the quota is in force", async || {
        let found = room.api::<ResourceQuota>().get("few").await?;
        let known =
            found.status.and_then(|status| status.used).is_some_and(|used| used.contains_key(resource));
        Ok(if known { Look::Found(()) } else { Look::NotYet("it is not counted yet".into()) })
    })
    .await
}

async fn refused(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "refused").await?;
    let c = Room::open(league.members["c"].cluster.clone(), "refused").await?;
    limit(&c, "count/replicasets.apps", "0").await?;
    space.apply(&web(12, EVEN)).await?;
    let event = space.until_event("web", "Refused: cluster c: ").await?;
    ensure!(event.contains("exceeded quota: few"), "{event}");
    space.until_layout(SET, "a=6 b=6").await?;
    let failing = |found: &serde_json::Value| found["status"]["conditions"][0]["type"] == "ReplicaFailure";
    space.until(SET, "the failure shows", failing).await?;
    c.kubectl(&["delete", "resourcequota", "few"]).await?;
    space.until_layout(SET, "a=4 b=4 c=4").await?;
    space.until(SET, "the failure is over", |found| found["status"]["conditions"].is_null()).await?;
    space.leave().await
}

async fn in_the_way(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "in-the-way").await?;
    let a = Room::open(league.members["a"].cluster.clone(), "in-the-way").await?;
    let b = Room::open(league.members["b"].cluster.clone(), "in-the-way").await?;
    // A pod of nobody in one member, another ReplicaSet of that name in the other.
    let mut loose = template("web", "loose");
    loose["metadata"]["name"] = "loose".into();
    a.create::<Pod>(loose).await?;
    let mut other = replica_set("web", 2);
    other["spec"]["template"] = template("web", "other");
    other["spec"]["template"]["spec"]["containers"][0]["name"] = "theirs".into();
    b.create::<k8s_openapi::api::apps::v1::ReplicaSet>(other).await?;
    ready_pods(&a, "web", 1).await?;
    let before = ready_pods(&b, "web", 2).await?;

    space.apply(&web(8, A_AND_B)).await?;
    space.until_layout(SET, "a=4 b=4").await?;
    space.until_event("web", "Overwritten: cluster b had another ReplicaSet of this name").await?;
    let containers = "jsonpath={.spec.template.spec.containers[*].name}";
    let containers = space.in_member("b", &["get", "replicaset", "web", "-o", containers]).await?;
    ensure!(containers == "main", "nothing is left of what was there: {containers}");
    let adopted = ready_pods(&a, "web", 4).await?;
    let loose = adopted.iter().find(|pod| pod.name_any() == "loose").context("the loose pod stays")?;
    ensure!(loose.owner_references().iter().any(|owner| owner.name == "web"), "{:?}", loose.metadata);
    let names: Vec<String> = ready_pods(&b, "web", 4).await?.iter().map(|pod| pod.name_any()).collect();
    ensure!(before.iter().all(|pod| names.contains(&pod.name_any())), "its pods stay: {names:?}");

    // Deleted by hand: made again, and it adopts what was left behind.
    space.in_member("a", &["delete", "replicaset", "web", "--cascade=orphan"]).await?;
    space.until_event("web", "Recreated: created again in cluster a").await?;
    space.until_layout(SET, "a=4 b=4").await?;
    let after: Vec<String> = pods(&a, "web").await?.iter().map(|pod| pod.name_any()).collect();
    ensure!(adopted.iter().all(|pod| after.contains(&pod.name_any())), "{after:?}");

    // Changed by hand: put right; what others own is left.
    space.in_member("b", &["scale", "replicaset", "web", "--replicas=1"]).await?;
    space.in_member("b", &["annotate", "replicaset", "web", "local=yes"]).await?;
    space.until_event("web", "Repaired: put right in cluster b").await?;
    space.until_layout(SET, "a=4 b=4").await?;
    let local = space
        .in_member("b", &["get", "replicaset", "web", "-o", "jsonpath={.metadata.annotations.local}"])
        .await?;
    ensure!(local == "yes", "{local:?}");
    space.leave().await
}

async fn quota(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "quota").await?;
    let c = Room::open(league.members["c"].cluster.clone(), "quota").await?;
    limit(&c, "pods", "2").await?;
    space.apply(&web(12, EVEN)).await?;
    space.until_layout(SET, "a=5 b=5 c=2/4").await?;
    space.until_available(SET, 12).await?;
    // A Deployment says so too, as in one cluster.
    space.apply(&deployment("app", 6, json!({}))).await?;
    let failing = |found: &serde_json::Value| {
        let mut conditions = found["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|one| {
            let message = one["message"].as_str().unwrap_or_default();
            one["type"] == "ReplicaFailure"
                && message.contains("c: ")
                && message.contains("exceeded quota: few")
        })
    };
    space.until("deployment/app", "the failure shows", failing).await?;
    let shown = league.koinon(&["status", "deployment/app", "-n", &space.room.name]).await?;
    ensure!(shown.contains("exceeded quota: few"), "{shown}");
    space.leave().await
}
