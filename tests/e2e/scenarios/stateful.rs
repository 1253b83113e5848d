//! StatefulSets, DaemonSets, ReplicationControllers and volumes, as a user of kubectl sees them.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::Api;
use serde_json::{Value, json};

use super::{Scenario, kubectl};
use crate::objects::{pods, template};
use crate::wait::{Look, until};
use crate::world::{Room, World};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("a_stateful_set_is_rolled_out_scaled_undone_and_orphaned", stateful_set),
        kubectl("a_partition_holds_back_a_stateful_set", partition),
        kubectl("a_daemon_set_is_on_every_node_and_can_be_undone", daemon_set),
        kubectl("a_replication_controller_is_scaled_and_lets_its_pods_go", replication_controller),
        kubectl("a_claim_gets_its_volume_and_stays_while_it_is_used", volumes),
    ]
}

fn workload(kind: &str, name: &str, spec: Value) -> Value {
    let mut whole = json!({"selector": {"matchLabels": {"app": name}}, "template": template(name, "1")});
    whole.as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": whole})
}

/// Names and versions of an app's pods.
fn layout(pods: &[Pod]) -> Vec<String> {
    let version = |pod: &Pod| {
        let image = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.clone());
        image.and_then(|image| image.rsplit(':').next().map(str::to_owned)).unwrap_or_default()
    };
    let mut layout: Vec<_> = pods.iter().map(|pod| format!("{}={}", pod.name_any(), version(pod))).collect();
    layout.sort();
    layout
}

async fn layout_is(room: &Room, app: &str, wanted: &[&str]) -> anyhow::Result<()> {
    until(&format!("the pods are {wanted:?}"), async || {
        let found = layout(&pods(room, app).await?);
        Ok(if found == wanted { Look::Found(()) } else { Look::NotYet(format!("{found:?}")) })
    })
    .await
}

/// The numbers that `kubectl rollout history` lists.
async fn history(room: &Room, what: &str) -> anyhow::Result<Vec<String>> {
    let said = room.kubectl(&["rollout", "history", what]).await?;
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    Ok(said.lines().skip(2).filter_map(first).collect())
}

async fn stateful_set(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("stateful").await?;
    let set = workload("StatefulSet", "db", json!({"serviceName": "db", "replicas": 2}));
    room.apply(&set).await?;
    let said = room.kubectl(&["rollout", "status", "statefulset/db"]).await?;
    ensure!(
        said.contains("partitioned roll out complete") || said.contains("rolling update complete"),
        "{said}"
    );
    layout_is(&room, "db", &["db-0=1", "db-1=1"]).await?;
    let labels = pods(&room, "db").await?.remove(0).labels().clone();
    let keys: Vec<_> = labels.keys().map(String::as_str).collect();
    let expected = [
        "app",
        "apps.kubernetes.io/pod-index",
        "controller-revision-hash",
        "statefulset.kubernetes.io/pod-name",
    ];
    ensure!(keys == expected, "{keys:?}");

    room.kubectl(&["scale", "statefulset/db", "--replicas=3"]).await?;
    room.kubectl(&["set", "image", "statefulset/db", "main=example.com/db:2"]).await?;
    room.kubectl(&["rollout", "status", "statefulset/db"]).await?;
    layout_is(&room, "db", &["db-0=2", "db-1=2", "db-2=2"]).await?;
    ensure!(history(&room, "statefulset/db").await? == ["1", "2"]);
    room.kubectl(&["rollout", "undo", "statefulset/db"]).await?;
    room.kubectl(&["rollout", "status", "statefulset/db"]).await?;
    layout_is(&room, "db", &["db-0=1", "db-1=1", "db-2=1"]).await?;
    ensure!(history(&room, "statefulset/db").await? == ["2", "3"]);
    room.kubectl(&["rollout", "restart", "statefulset/db"]).await?;
    room.kubectl(&["rollout", "status", "statefulset/db"]).await?;

    room.kubectl(&["scale", "statefulset/db", "--replicas=1"]).await?;
    layout_is(&room, "db", &["db-0=1"]).await?;
    // Orphaned, the pod stays; the next set of that name takes it over, with its history.
    let uid = |pods: &[Pod]| pods[0].uid();
    let before = uid(&pods(&room, "db").await?);
    room.kubectl(&["delete", "statefulset/db", "--cascade=orphan"]).await?;
    let left = pods(&room, "db").await?;
    ensure!(uid(&left) == before && left[0].metadata.deletion_timestamp.is_none());
    let mut again = set;
    again["spec"]["replicas"] = 1.into();
    room.apply(&again).await?;
    until("the pod is adopted", async || {
        let pod = pods(&room, "db").await?.into_iter().find(|pod| !pod.owner_references().is_empty());
        Ok(if pod.is_some() { Look::Found(()) } else { Look::NotYet("it has no owner".into()) })
    })
    .await?;
    room.leave().await
}

async fn partition(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("partition").await?;
    let rolling = |partition: i32| {
        json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": partition}}}}).to_string()
    };
    let start = json!({"serviceName": "db", "replicas": 3, "podManagementPolicy": "Parallel", "ordinals": {"start": 5}});
    room.apply(&workload("StatefulSet", "db", start)).await?;
    layout_is(&room, "db", &["db-5=1", "db-6=1", "db-7=1"]).await?;
    room.kubectl(&["patch", "statefulset/db", "-p", &rolling(2)]).await?;
    room.kubectl(&["set", "image", "statefulset/db", "main=example.com/db:2"]).await?;
    let said = room.kubectl(&["rollout", "status", "statefulset/db"]).await?;
    ensure!(said.contains("partitioned roll out complete: 1 new pods have been updated"), "{said}");
    layout_is(&room, "db", &["db-5=1", "db-6=1", "db-7=2"]).await?;
    room.kubectl(&["delete", "pod", "db-5"]).await?;
    layout_is(&room, "db", &["db-5=1", "db-6=1", "db-7=2"]).await?;
    room.kubectl(&["patch", "statefulset/db", "-p", &rolling(0)]).await?;
    layout_is(&room, "db", &["db-5=2", "db-6=2", "db-7=2"]).await?;
    room.leave().await
}

async fn daemon_set(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("daemons").await?;
    let nodes: Api<Node> = Api::all(room.cluster.client.clone());
    let mut names: Vec<_> =
        nodes.list(&Default::default()).await?.iter().map(ResourceExt::name_any).collect();
    names.sort();
    room.apply(&workload("DaemonSet", "agent", json!({}))).await?;
    let said = room.kubectl(&["rollout", "status", "daemonset/agent"]).await?;
    ensure!(said.contains("daemon set \"agent\" successfully rolled out"), "{said}");
    let on = |pods: &[Pod]| {
        let mut on: Vec<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
        on.sort();
        on
    };
    ensure!(on(&pods(&room, "agent").await?) == names, "a pod on each node");
    let surge = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}})
        .to_string();
    room.kubectl(&["patch", "daemonset/agent", "-p", &surge]).await?;
    room.kubectl(&["set", "image", "daemonset/agent", "main=example.com/agent:2"]).await?;
    room.kubectl(&["rollout", "status", "daemonset/agent"]).await?;
    ensure!(history(&room, "daemonset/agent").await? == ["1", "2"]);
    let said = room.kubectl(&["rollout", "undo", "daemonset/agent", "--to-revision=1"]).await?;
    ensure!(said.contains("rolled back"), "{said}");
    room.kubectl(&["rollout", "status", "daemonset/agent"]).await?;
    ensure!(history(&room, "daemonset/agent").await? == ["2", "3"]);
    until("all pods are of the first image again", async || {
        let pods = pods(&room, "agent").await?;
        let well = on(&pods) == names && layout(&pods).iter().all(|pod| pod.ends_with("=1"));
        Ok(if well { Look::Found(()) } else { Look::NotYet(format!("{:?}", layout(&pods))) })
    })
    .await?;
    // A pod that is deleted comes back on its node.
    let gone = pods(&room, "agent").await?.first().context("a pod")?.name_any();
    room.kubectl(&["delete", "pod", &gone]).await?;
    room.kubectl(&["rollout", "status", "daemonset/agent"]).await?;
    room.leave().await
}

async fn replication_controller(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("controllers").await?;
    let spec = json!({"replicas": 2, "selector": {"app": "old"}, "template": template("old", "1")});
    let controller = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"}, "spec": spec});
    room.apply(&controller).await?;
    let ready = |count: &str| format!("jsonpath={{.status.readyReplicas}}={count}");
    room.kubectl(&["wait", "rc/old", "--for", &ready("2"), "--timeout=60s"]).await?;
    room.kubectl(&["scale", "rc/old", "--replicas=3"]).await?;
    room.kubectl(&["wait", "rc/old", "--for", &ready("3"), "--timeout=60s"]).await?;
    room.kubectl(&["delete", "rc/old", "--cascade=orphan"]).await?;
    let left = pods(&room, "old").await?;
    ensure!(left.len() == 3 && left.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()));
    room.leave().await
}

async fn volumes(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("volumes").await?;
    let name = format!("disk-{}", room.name);
    room.apply(&json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/disk"},
        "persistentVolumeReclaimPolicy": "Retain", "storageClassName": name,
    }}))
    .await?;
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": name,
        "resources": {"requests": {"storage": "1Gi"}}});
    room.apply(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}))
        .await?;
    let phase = |phase: &str| format!("jsonpath={{.status.phase}}={phase}");
    room.kubectl(&["wait", "pvc/data", "--for", &phase("Bound"), "--timeout=60s"]).await?;
    let mut user = template("user", "1");
    user["apiVersion"] = "v1".into();
    user["kind"] = "Pod".into();
    user["metadata"]["name"] = "user".into();
    user["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    room.apply(&user).await?;
    room.kubectl(&["wait", "pod/user", "--for=condition=Ready", "--timeout=60s"]).await?;
    room.kubectl(&["delete", "pvc/data", "--wait=false"]).await?;
    let finalizers = room.kubectl(&["get", "pvc/data", "-o", "jsonpath={.metadata.finalizers}"]).await?;
    ensure!(finalizers == r#"["kubernetes.io/pvc-protection"]"#, "{finalizers}");
    room.kubectl(&["delete", "pod/user"]).await?;
    room.kubectl(&["wait", "pvc/data", "--for=delete", "--timeout=60s"]).await?;
    room.kubectl(&["wait", &format!("pv/{name}"), "--for", &phase("Released"), "--timeout=60s"]).await?;
    room.kubectl(&["delete", "pv", &name]).await?;
    room.leave().await
}
