//! What goes with what: foreground, orphan and background deletion, and namespaces.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::{Scenario, api, kubectl};
use crate::objects::{deployment, deployment_is, is_complete, pods, ready_pods};
use crate::wait::{Look, until};
use crate::world::{Room, World};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("foreground_deletion_waits_for_the_pods", foreground),
        kubectl("orphaned_pods_go_on_and_are_adopted_again", orphans),
        kubectl("background_deletion_takes_everything", background),
        api("a_deleted_namespace_is_emptied_and_goes", namespace),
    ]
}

async fn deployed(world: &World, name: &str) -> anyhow::Result<Room> {
    let room = world.room(name).await?;
    room.create::<Deployment>(deployment("web", 3, json!({}))).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;
    Ok(room)
}

/// Waits until nothing of the app is left.
async fn all_gone(room: &Room) -> anyhow::Result<()> {
    until("everything is gone", async || {
        let sets = room.api::<ReplicaSet>().list(&Default::default()).await?.items.len();
        let pods = room.api::<Pod>().list(&Default::default()).await?.items.len();
        Ok(if sets + pods == 0 { Look::Found(()) } else { Look::NotYet(format!("{sets} sets, {pods} pods")) })
    })
    .await
}

async fn foreground(world: Arc<World>) -> anyhow::Result<()> {
    let room = deployed(&world, "foreground").await?;
    // One pod is held back: while it is there, its owners must be.
    let held = pods(&room, "web").await?.first().context("a pod")?.name_any();
    let finalizer = |list: &[&str]| Patch::Merge(json!({"metadata": {"finalizers": list}}));
    let params = PatchParams::default();
    room.api::<Pod>().patch(&held, &params, &finalizer(&["e2e.koinon.dev/hold"])).await?;
    room.kubectl(&["delete", "deployment", "web", "--cascade=foreground", "--wait=false"]).await?;
    until("only the held pod is left", async || {
        let left = room.api::<Pod>().list(&Default::default()).await?.items;
        let names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
        Ok(if names == [held.clone()] { Look::Found(()) } else { Look::NotYet(format!("{names:?}")) })
    })
    .await?;
    let owner = room.api::<Deployment>().get("web").await?;
    let finalizers = owner.finalizers();
    ensure!(finalizers == ["foregroundDeletion"], "the Deployment waits for its pods: {finalizers:?}");
    room.api::<Pod>().patch(&held, &params, &finalizer(&[])).await?;
    all_gone(&room).await?;
    until("the Deployment is gone", async || {
        Ok(match room.api::<Deployment>().get_opt("web").await? {
            None => Look::Found(()),
            Some(_) => Look::NotYet("it is there".into()),
        })
    })
    .await?;
    room.leave().await
}

async fn orphans(world: Arc<World>) -> anyhow::Result<()> {
    let room = deployed(&world, "orphans").await?;
    let before: Vec<_> = ready_pods(&room, "web", 3).await?.iter().map(ResourceExt::name_any).collect();
    room.kubectl(&["delete", "deployment", "web", "--cascade=orphan"]).await?;
    until("the ReplicaSet has no owner", async || {
        let sets = room.api::<ReplicaSet>().list(&Default::default()).await?.items;
        let free = sets.len() == 1 && sets[0].owner_references().is_empty();
        Ok(if free { Look::Found(()) } else { Look::NotYet(format!("{} sets", sets.len())) })
    })
    .await?;
    // The same Deployment again finds its ReplicaSet and changes nothing.
    let again = room.create::<Deployment>(deployment("web", 3, json!({}))).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;
    let sets = room.api::<ReplicaSet>().list(&Default::default()).await?.items;
    let adopted = sets.len() == 1
        && sets[0].owner_references().iter().any(|one| Some(&one.uid) == again.metadata.uid.as_ref());
    ensure!(adopted, "the ReplicaSet was adopted");
    let after: Vec<_> = ready_pods(&room, "web", 3).await?.iter().map(ResourceExt::name_any).collect();
    ensure!(before == after, "the pods went on: {before:?}, {after:?}");
    room.leave().await
}

async fn background(world: Arc<World>) -> anyhow::Result<()> {
    let room = deployed(&world, "background").await?;
    let said = room.kubectl(&["delete", "deployment", "web"]).await?;
    ensure!(said.contains("deployment.apps \"web\" deleted"), "{said}");
    all_gone(&room).await?;
    room.leave().await
}

async fn namespace(world: Arc<World>) -> anyhow::Result<()> {
    let room = deployed(&world, "emptied").await?;
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
                      "metadata": {"name": "held", "finalizers": ["e2e.koinon.dev/hold"]}});
    room.create::<ConfigMap>(held).await?;
    let namespaces: Api<Namespace> = Api::all(room.cluster.client.clone());
    namespaces.delete("emptied", &Default::default()).await?;
    until("the namespace tells what holds it", async || {
        let found = namespaces.get("emptied").await?;
        let status = found.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let told = conditions
            .iter()
            .find(|one| one.type_ == "NamespaceFinalizersRemaining" && one.status == "True")
            .and_then(|one| one.message.clone());
        Ok(match told {
            Some(message) if message.contains("e2e.koinon.dev/hold in 1 resource instances") => {
                Look::Found(())
            }
            _ => Look::NotYet(format!("{conditions:?}")),
        })
    })
    .await?;
    let params = PatchParams::default();
    let free = Patch::Merge(json!({"metadata": {"finalizers": []}}));
    room.api::<ConfigMap>().patch("held", &params, &free).await?;
    until("the namespace is gone", async || {
        Ok(match namespaces.get_opt("emptied").await? {
            None => Look::Found(()),
            Some(found) => Look::NotYet(format!("{:?}", found.status)),
        })
    })
    .await
}
