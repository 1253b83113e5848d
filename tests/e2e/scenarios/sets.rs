//! ReplicaSets: pods adopted, released and replaced.

use std::sync::Arc;

use anyhow::ensure;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{Scenario, api};
use crate::objects::{ready_pods, replica_set, template};
use crate::wait::{Look, until};
use crate::world::{Room, World};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        api("a_matching_pod_is_adopted_and_one_that_no_longer_matches_released", adoption),
        api("a_lost_pod_is_replaced", replacement),
        api("the_cheapest_pod_goes_first", cheapest),
    ]
}

async fn pod_is(room: &Room, name: &str, what: &str, is: impl Fn(&Pod) -> bool) -> anyhow::Result<Pod> {
    let api: Api<Pod> = room.api();
    until(&format!("the pod {name} {what}"), async || {
        let pod = api.get(name).await?;
        Ok(if is(&pod) { Look::Found(pod) } else { Look::NotYet(format!("{:?}", pod.metadata)) })
    })
    .await
}

fn owned_by(pod: &Pod, set: &ReplicaSet) -> bool {
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    owner.map(|owner| owner.uid.as_str()) == set.metadata.uid.as_deref()
}

async fn adoption(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("adoption").await?;
    let mut orphan = template("web", "0");
    orphan["apiVersion"] = json!("v1");
    orphan["kind"] = json!("Pod");
    orphan["metadata"]["name"] = json!("orphan");
    room.create::<Pod>(orphan).await?;
    let set = room.create::<ReplicaSet>(replica_set("web", 3)).await?;
    pod_is(&room, "orphan", "is adopted", |pod| owned_by(pod, &set)).await?;
    ready_pods(&room, "web", 3).await?;

    let params = PatchParams::default();
    let change = json!({"metadata": {"labels": {"app": "debugging"}}});
    room.api::<Pod>().patch("orphan", &params, &Patch::Merge(change)).await?;
    let released = pod_is(&room, "orphan", "is released", |pod| pod.owner_references().is_empty()).await?;
    ensure!(released.metadata.deletion_timestamp.is_none(), "it goes on without an owner");
    let pods = ready_pods(&room, "web", 3).await?;
    ensure!(pods.iter().all(|pod| owned_by(pod, &set)), "another took its place");
    room.leave().await
}

async fn replacement(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("replacement").await?;
    room.create::<ReplicaSet>(replica_set("web", 3)).await?;
    let pods = ready_pods(&room, "web", 3).await?;
    room.api::<Pod>().delete(&pods[0].name_any(), &DeleteParams::default()).await?;
    until("another pod has taken its place", async || {
        let now = ready_pods(&room, "web", 3).await?;
        Ok(if now.iter().all(|pod| pod.name_any() != pods[0].name_any()) {
            Look::Found(())
        } else {
            Look::NotYet("it is still there".into())
        })
    })
    .await?;
    room.leave().await
}

async fn cheapest(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("cheapest").await?;
    room.create::<ReplicaSet>(replica_set("web", 4)).await?;
    let pods = ready_pods(&room, "web", 4).await?;
    let params = PatchParams::default();
    for (pod, cost) in pods.iter().zip(["5", "-3", "7", "1"]) {
        let change =
            json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}});
        room.api::<Pod>().patch(&pod.name_any(), &params, &Patch::Merge(change)).await?;
    }
    room.api::<ReplicaSet>().patch("web", &params, &Patch::Merge(json!({"spec": {"replicas": 2}}))).await?;
    let left: Vec<_> = ready_pods(&room, "web", 2).await?.iter().map(ResourceExt::name_any).collect();
    let want = vec![pods[0].name_any(), pods[2].name_any()];
    ensure!(left == want, "{left:?} are left of {want:?}");
    room.leave().await
}
