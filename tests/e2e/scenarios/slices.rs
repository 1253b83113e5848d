//! EndpointSlices that follow the readiness of pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::ensure;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{Scenario, api};
use crate::objects::{NEVER_READY, deployment, deployment_is, is_complete, ready_pods, template};
use crate::wait::{Look, until};
use crate::world::{Room, World};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        api("slices_follow_readiness", readiness),
        api("named_ports_and_more_than_a_hundred", many),
        api("unready_pods_are_told_apart", unready),
    ]
}

fn service(name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": "http"}]},
    });
    if let Value::Object(more) = spec {
        for (key, value) in more {
            object["spec"][key] = value;
        }
    }
    object
}

/// A template whose container names its port.
fn serving(name: &str) -> Value {
    let mut template = template(name, "1");
    template["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": 8080}]);
    template
}

async fn slices(room: &Room, service: &str) -> anyhow::Result<Vec<EndpointSlice>> {
    let params = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    Ok(room.api::<EndpointSlice>().list(&params).await?.items)
}

/// Each pod in the slices, and whether it is ready there.
fn targets(slices: &[EndpointSlice]) -> BTreeMap<String, bool> {
    let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    endpoints
        .filter_map(|one| {
            let name = one.target_ref.as_ref()?.name.clone()?;
            Some((name, one.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)))
        })
        .collect()
}

/// Waits until exactly these pods are in the slices, and are ready there.
async fn slices_have(room: &Room, service: &str, pods: &[Pod]) -> anyhow::Result<Vec<EndpointSlice>> {
    let want: BTreeMap<_, _> = pods.iter().map(|pod| (pod.name_any(), true)).collect();
    until("the slices have exactly the ready pods", async || {
        let slices = slices(room, service).await?;
        let now = targets(&slices);
        Ok(if now == want {
            Look::Found(slices)
        } else {
            Look::NotYet(format!("{now:?} instead of {want:?}"))
        })
    })
    .await
}

async fn readiness(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("slices").await?;
    room.create::<Service>(service("web", json!({}))).await?;
    room.create::<Deployment>(deployment("web", 3, json!({"template": serving("web")}))).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;
    let pods = ready_pods(&room, "web", 3).await?;
    let slices = slices_have(&room, "web", &pods).await?;
    let port = slices[0].ports.as_ref().and_then(|ports| ports.first()).and_then(|port| port.port);
    ensure!(port == Some(8080), "the named port was looked up: {port:?}");
    let params = PatchParams::default();
    room.api::<Deployment>().patch("web", &params, &Patch::Merge(json!({"spec": {"replicas": 1}}))).await?;
    let left = ready_pods(&room, "web", 1).await?;
    slices_have(&room, "web", &left).await?;
    room.leave().await
}

async fn unready(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("unready").await?;
    room.create::<Service>(service("web", json!({}))).await?;
    room.create::<Service>(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "early"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], "publishNotReadyAddresses": true},
    }))
    .await?;
    let mut never = serving("web");
    never["metadata"]["annotations"] = json!({NEVER_READY.0: NEVER_READY.1});
    room.create::<Deployment>(deployment("web", 2, json!({"template": never}))).await?;
    for (service, ready) in [("web", false), ("early", true)] {
        until(&format!("the slices of {service} have both pods"), async || {
            let now = targets(&slices(&room, service).await?);
            Ok(if now.len() == 2 && now.values().all(|one| *one == ready) {
                Look::Found(())
            } else {
                Look::NotYet(format!("{now:?}"))
            })
        })
        .await?;
    }
    room.leave().await
}

async fn many(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("many").await?;
    room.create::<Service>(service("web", json!({}))).await?;
    room.create::<Deployment>(deployment("web", 120, json!({"template": serving("web")}))).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;
    let pods = ready_pods(&room, "web", 120).await?;
    let slices = slices_have(&room, "web", &pods).await?;
    let sizes: Vec<_> = slices.iter().map(|slice| slice.endpoints.as_ref().map_or(0, Vec::len)).collect();
    ensure!(sizes.iter().all(|size| *size <= 100) && sizes.iter().sum::<usize>() == 120, "{sizes:?}");
    room.leave().await
}
