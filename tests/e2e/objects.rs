//! The objects that scenarios make, and questions about them.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::wait::{Look, until};
use crate::world::Room;

/// How simulated pods behave, by an annotation of theirs.
pub(crate) const NEVER_READY: (&str, &str) = ("sim.koinon.dev/ready", "never");

/// A pod template for the app `name`, in one version of it.
pub(crate) fn template(name: &str, version: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": format!("example.com/{name}:{version}")}]},
    })
}

/// A Deployment of the app `name`; `spec` is laid over its spec.
pub(crate) fn deployment(name: &str, replicas: i32, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, "1"),
        },
    });
    lay_over(&mut object["spec"], spec);
    object
}

/// A ReplicaSet of the app `name`.
pub(crate) fn replica_set(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, "1"),
        },
    })
}

fn lay_over(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                lay_over(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}

/// Waits until the Deployment is as `complete` would have it; `complete` says what is missing.
pub(crate) async fn deployment_is(
    room: &Room,
    name: &str,
    what: &str,
    is: impl Fn(&Deployment) -> bool,
) -> anyhow::Result<Deployment> {
    let api = room.api::<Deployment>();
    until(&format!("the Deployment {name} {what}"), async || {
        let found = api.get(name).await?;
        Ok(if is(&found) {
            Look::Found(found)
        } else {
            Look::NotYet(format!(
                "{:?}, replicas {:?}",
                found.status,
                found.spec.and_then(|spec| spec.replicas)
            ))
        })
    })
    .await
}

/// Whether all pods of the Deployment are of its current template and available, and no others are left.
pub(crate) fn is_complete(deployment: &Deployment) -> bool {
    let (Some(spec), Some(status)) = (&deployment.spec, &deployment.status) else { return false };
    let want = spec.replicas.unwrap_or(1);
    status.observed_generation == deployment.metadata.generation
        && status.replicas.unwrap_or(0) == want
        && status.updated_replicas.unwrap_or(0) == want
        && status.available_replicas.unwrap_or(0) == want
}

pub(crate) fn condition<'a>(deployment: &'a Deployment, kind: &str) -> Option<&'a DeploymentCondition> {
    deployment.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// The app's ReplicaSets with pods, as `revision=replicas`, oldest revision first.
pub(crate) async fn layout(room: &Room, app: &str) -> anyhow::Result<String> {
    let params = ListParams::default().labels(&format!("app={app}"));
    let mut sets: Vec<(u64, i32)> = room
        .api::<ReplicaSet>()
        .list(&params)
        .await?
        .items
        .iter()
        .map(|set| (revision(set), set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0)))
        .filter(|(_, replicas)| *replicas > 0)
        .collect();
    sets.sort_unstable();
    Ok(sets.iter().map(|(revision, count)| format!("{revision}={count}")).collect::<Vec<_>>().join(" "))
}

/// Waits until the ReplicaSets have these sizes.
pub(crate) async fn layout_is(room: &Room, app: &str, want: &str) -> anyhow::Result<()> {
    until(&format!("the ReplicaSets of {app} are {want}"), async || {
        let now = layout(room, app).await?;
        Ok(if now == want { Look::Found(()) } else { Look::NotYet(now) })
    })
    .await
}

fn revision(set: &ReplicaSet) -> u64 {
    let text = set.annotations().get("deployment.kubernetes.io/revision");
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The app's pods that are not on their way out, by name.
pub(crate) async fn pods(room: &Room, app: &str) -> anyhow::Result<Vec<Pod>> {
    let params = ListParams::default().labels(&format!("app={app}"));
    let mut pods = room.api::<Pod>().list(&params).await?.items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods.sort_by_key(ResourceExt::name_any);
    Ok(pods)
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Waits until so many of the app's pods are ready, and there are no others.
pub(crate) async fn ready_pods(room: &Room, app: &str, count: usize) -> anyhow::Result<Vec<Pod>> {
    until(&format!("{count} pods of {app} are ready"), async || {
        let pods = pods(room, app).await?;
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        Ok(if ready == count && pods.len() == count {
            Look::Found(pods)
        } else {
            Look::NotYet(format!("{ready} of {} are ready", pods.len()))
        })
    })
    .await
}
