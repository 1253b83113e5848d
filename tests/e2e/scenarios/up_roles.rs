//! Every role inside one `koinon up`, with its flags.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use koinon_fleet::membership::apply;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::commands::{Up, client};
use super::{Scenario, api};
use crate::wait::{Look, until};
use crate::world::World;

const FLAGS: &[&str] = &[
    "--lease-duration=6s",
    "--renew-deadline=4s",
    "--retry-period=1s",
    "--stale=drain",
    "--resync=1m",
    "--max-delete=40%",
];

pub(super) fn all() -> Vec<Scenario> {
    vec![api("up_runs_every_role_with_its_flags", every_role)]
}

async fn every_role(_: Arc<World>) -> anyhow::Result<()> {
    let place = TempDir::new()?;
    let up = Up::start(place.path(), &[&["--members", "a,b"], FLAGS].concat()).await?;
    let federation = client(place.path(), "federation").await?;
    let (a, b) = (client(place.path(), "a").await?, client(place.path(), "b").await?);
    a_robot_gets_its_missions(&federation, &a, &b).await?;
    configuration_follows_its_leader(place.path(), &a, &b).await?;
    services_are_shared(&a, &b).await?;
    up.interrupt().await
}

/// The federation is the cloud, and every member a robot of its own name.
async fn a_robot_gets_its_missions(federation: &Client, a: &Client, b: &Client) -> anyhow::Result<()> {
    for cluster in [federation, a, b] {
        put(cluster, &definition()).await?;
    }
    let mission = json!({
        "apiVersion": "e2e.koinon.dev/v1", "kind": "Errand",
        "metadata": {"name": "m", "namespace": "default", "labels": {"cloudrobotics.com/robot-name": "a"}},
        "spec": {"goal": 1},
    });
    put(federation, &mission).await?;
    let errands = |client: &Client| named(client, "e2e.koinon.dev/v1/Errand", "errands", "default");
    let copy =
        found("the robot a has its mission", &errands(a), "m", |copy| copy["spec"]["goal"] == 1).await?;
    let mut done = copy;
    done.data["status"] = json!({"done": true});
    errands(a).replace_status("m", &Default::default(), &done).await?;
    found("the cloud hears of it", &errands(federation), "m", |one| one["status"]["done"] == true).await?;
    anyhow::ensure!(errands(b).get_opt("m").await?.is_none(), "the mission of a is none of b's business");
    Ok(())
}

async fn configuration_follows_its_leader(data: &Path, a: &Client, b: &Client) -> anyhow::Result<()> {
    let kubeconfig = std::fs::read_to_string(data.join("kubeconfig"))?;
    let metadata = |name: &str| json!({"name": name, "namespace": "avi-system"});
    for (name, cluster) in [("a", a), ("b", b)] {
        put(cluster, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "avi-system"}}))
            .await?;
        put(
            cluster,
            &json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": metadata("gslb-config-secret"),
                "stringData": {"gslb-members": kubeconfig},
            }),
        )
        .await?;
        put(cluster, &json!({
            "apiVersion": "amko.vmware.com/v1alpha1", "kind": "AMKOCluster", "metadata": metadata("amkocluster"),
            "spec": {"isLeader": name == "a", "clusterContext": name, "version": "1.4.2", "clusters": ["a", "b"]},
        }))
        .await?;
    }
    put(
        a,
        &json!({
            "apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBConfig", "metadata": metadata("gc"),
            "spec": {"gslbLeader": {"controllerIP": "10.0.0.1"}, "refreshInterval": 1800},
        }),
    )
    .await?;
    let configs = named(b, "amko.vmware.com/v1alpha1/GSLBConfig", "gslbconfigs", "avi-system");
    found("b follows a", &configs, "gc", |one| one["spec"]["refreshInterval"] == 1800).await.map(drop)
}

async fn services_are_shared(a: &Client, b: &Client) -> anyhow::Result<()> {
    put(
        a,
        &json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "shop", "namespace": "default",
                         "annotations": {"svc.global.federated.antreaplus.vmware.com": "shop"}},
            "spec": {"ports": [{"port": 80}]},
        }),
    )
    .await?;
    let services = named(b, "v1/Service", "services", "antrea-plus-system");
    found("b has the federated Service", &services, "shop", |one| one["spec"]["clusterIP"].is_string())
        .await
        .map(drop)
}

/// Applies an object, also one whose kind was defined a moment ago.
async fn put(client: &Client, object: &Value) -> anyhow::Result<()> {
    until(&format!("{} is applied", object["kind"]), async || {
        apply(client, object).await?;
        Ok(Look::Found(()))
    })
    .await
}

/// The objects of a kind, given as `group/version/Kind`.
fn named(client: &Client, kind: &str, plural: &str, namespace: &str) -> Api<DynamicObject> {
    let parts: Vec<_> = kind.split('/').collect();
    let kind = match parts[..] {
        [group, version, kind] => GroupVersionKind::gvk(group, version, kind),
        _ => GroupVersionKind::gvk("", parts[0], parts[1]),
    };
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk_with_plural(&kind, plural))
}

async fn found(
    what: &str,
    api: &Api<DynamicObject>,
    name: &str,
    wanted: impl Fn(&Value) -> bool,
) -> anyhow::Result<DynamicObject> {
    until(what, async || {
        let found = api.get_opt(name).await?.context("it is not there")?;
        Ok(if wanted(&found.data) { Look::Found(found) } else { Look::NotYet(found.data.to_string()) })
    })
    .await
}

fn definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "errands.e2e.koinon.dev", "annotations": {
            "cr-syncer.cloudrobotics.com/spec-source": "cloud",
            "cr-syncer.cloudrobotics.com/filter-by-robot-name": "true",
        }},
        "spec": {
            "group": "e2e.koinon.dev", "scope": "Namespaced",
            "names": {"plural": "errands", "singular": "errand", "kind": "Errand"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}
