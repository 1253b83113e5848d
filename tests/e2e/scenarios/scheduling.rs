//! Pods that fit nowhere, until there is room.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{Scenario, api, kubectl};
use crate::objects::{deployment, is_ready, pods, ready_pods, template};
use crate::wait::{Look, until};
use crate::world::{Room, World};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        api("an_unschedulable_pod_says_so_and_gets_room_later", room_later),
        api("a_node_label_makes_room", node_label),
        kubectl("a_cordoned_node_gets_no_pods", cordon),
    ]
}

/// Waits until some pod of the app is marked as one that fits nowhere; gives back the message.
async fn unschedulable(room: &Room, app: &str) -> anyhow::Result<String> {
    until("a pod is unschedulable", async || {
        let pods = pods(room, app).await?;
        let conditions = pods.iter().filter_map(|pod| pod.status.as_ref()?.conditions.as_ref()).flatten();
        let found = conditions.into_iter().find(|one| {
            one.type_ == "PodScheduled"
                && one.status == "False"
                && one.reason.as_deref() == Some("Unschedulable")
        });
        Ok(match found {
            Some(found) => Look::Found(found.message.clone().unwrap_or_default()),
            None => Look::NotYet(format!("{} pods, none of them", pods.len())),
        })
    })
    .await
}

/// Two pods cannot share one node by their size, and one node is all they may use.
async fn room_later(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("room-later").await?;
    let nodes: Api<Node> = Api::all(room.cluster.client.clone());
    let all = nodes.list(&Default::default()).await?.items;
    let node = all.iter().map(ResourceExt::name_any).min().context("there are no nodes")?;
    let capacity = all
        .iter()
        .find(|one| one.name_any() == node)
        .and_then(|one| one.status.as_ref()?.allocatable.as_ref()?.get("cpu").cloned())
        .context("the node does not tell its processors")?;
    let cores: u32 = capacity.0.parse().context("whole processors")?;
    let mut template = template("big", "1");
    template["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    template["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": format!("{}m", cores * 1000 / 2 + 100)}});
    room.create::<Deployment>(deployment("big", 2, json!({"template": template}))).await?;
    let message = unschedulable(&room, "big").await?;
    let others = all.len() - 1;
    ensure!(
        message.starts_with(&format!("0/{} nodes are available: ", all.len()))
            && message.contains("1 Insufficient cpu")
            && message.contains(&format!("{others} node(s) didn't match Pod's node affinity/selector")),
        "{message}"
    );
    // The other pod leaves for good; its room goes to the one that waits.
    let running = until("the other pod runs", async || {
        Ok(match pods(&room, "big").await?.into_iter().find(is_ready) {
            Some(running) => Look::Found(running),
            None => Look::NotYet("neither does".into()),
        })
    })
    .await?;
    let params = PatchParams::default();
    room.api::<Deployment>().patch("big", &params, &Patch::Merge(json!({"spec": {"replicas": 1}}))).await?;
    let left = ready_pods(&room, "big", 1).await?;
    if left[0].name_any() == running.name_any() {
        // The waiting one was taken away, as it should: the room is needed by a new one, then.
        room.api::<Pod>().delete(&running.name_any(), &DeleteParams::default()).await?;
        until("a new pod has the room", async || {
            let now = ready_pods(&room, "big", 1).await?;
            Ok(if now[0].name_any() != running.name_any() {
                Look::Found(())
            } else {
                Look::NotYet("the old one is still there".into())
            })
        })
        .await?;
    }
    room.leave().await
}

async fn node_label(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("node-label").await?;
    let mut template = template("picky", "1");
    template["spec"]["nodeSelector"] = json!({"e2e.koinon.dev/disk": "fast"});
    room.create::<Deployment>(deployment("picky", 2, json!({"template": template}))).await?;
    let message = unschedulable(&room, "picky").await?;
    ensure!(message.contains("node(s) didn't match Pod's node affinity/selector"), "{message}");
    let nodes: Api<Node> = Api::all(room.cluster.client.clone());
    let node = nodes.list(&Default::default()).await?.items.last().context("a node")?.name_any();
    let label = |value| json!({"metadata": {"labels": {"e2e.koinon.dev/disk": value}}});
    nodes.patch(&node, &PatchParams::default(), &Patch::Merge(label(Some("fast")))).await?;
    let pods = ready_pods(&room, "picky", 2).await?;
    let there =
        pods.iter().all(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(&node));
    ensure!(there, "they run on {node}");
    nodes.patch(&node, &PatchParams::default(), &Patch::Merge(label(None))).await?;
    room.leave().await
}

/// The pods have a selector of their own, so that other scenarios do not meet the cordoned node.
async fn cordon(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("cordon").await?;
    let nodes: Api<Node> = Api::all(room.cluster.client.clone());
    let node = nodes.list(&Default::default()).await?.items.last().context("a node")?.name_any();
    room.kubectl(&["cordon", &node]).await?;
    let mut template = template("stay", "1");
    template["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    room.create::<Deployment>(deployment("stay", 1, json!({"template": template}))).await?;
    let message = unschedulable(&room, "stay").await?;
    room.kubectl(&["uncordon", &node]).await?;
    ensure!(message.contains("1 node(s) were unschedulable"), "{message}");
    ready_pods(&room, "stay", 1).await?;
    room.leave().await
}
