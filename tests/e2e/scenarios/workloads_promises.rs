//! What plain Kubernetes and the designs promise about federated workloads, beside one cluster that is told the same.

use std::sync::Arc;

use anyhow::ensure;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use super::{Scenario, kubectl};
use crate::league::{League, Space};
use crate::objects::{deployment, deployment_is, is_complete};
use crate::wait::{Look, throughout, until};
use crate::world::{Room, World};

const WEB: &str = "deployment/web";
const LEGACY: &str = "deployment/legacy";

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("taking_over_a_running_deployment_never_drops_it", taken_over),
        kubectl("namespaces_of_the_system_are_not_federated", system_namespaces),
        kubectl("pod_security_of_the_federation_holds_for_templates", pod_security),
    ]
}

/// Waits until this is found, and looks all along that no fewer than 30 replicas are available.
async fn never_fewer(
    space: &Space,
    what: &str,
    look: impl AsyncFn() -> anyhow::Result<Look<()>>,
) -> anyhow::Result<()> {
    until(what, async || {
        let now = available(space, LEGACY, "a").await?;
        if now < 30 {
            return Ok(Look::Found(Err(now)));
        }
        Ok(match look().await? {
            Look::Found(()) => Look::Found(Ok(())),
            Look::NotYet(state) => Look::NotYet(state),
        })
    })
    .await?
    .map_err(|now| anyhow::anyhow!("of 30 that ran, {now} were available"))
}

/// How many replicas are available in all members together. The member that gives replicas away is read first: what moved
/// meanwhile counts twice, never not at all.
async fn available(space: &Space, named: &str, giving: &str) -> anyhow::Result<i64> {
    let others = space.league.members.keys().copied().filter(|member| *member != giving);
    let mut sum = 0;
    for member in std::iter::once(giving).chain(others) {
        let found = space.get(&space.league.members[member].cluster, named).await?;
        sum += found.map_or(0, |found| found["status"]["availableReplicas"].as_i64().unwrap_or(0));
    }
    Ok(sum)
}

async fn taken_over(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "taken-over").await?;
    let a = Room::open(league.members["a"].cluster.clone(), "taken-over").await?;
    let legacy = deployment("legacy", 30, json!({}));
    a.create::<Deployment>(legacy.clone()).await?;
    deployment_is(&a, "legacy", "runs", is_complete).await?;

    // What runs stays where it is, and is ours from then on.
    space.apply(&legacy).await?;
    let mark = "jsonpath={.metadata.labels.koinon\\.dev/federated}";
    let is_ours = async || {
        let mark = space.in_member("a", &["get", LEGACY, "-o", mark]).await?;
        Ok(if mark == "true" { Look::Found(()) } else { Look::NotYet(mark) })
    };
    never_fewer(&space, "it is ours", is_ours).await?;
    space.until_layout(LEGACY, "a=30").await?;
    // It moves when its user lets it, and comes before it goes.
    let even =
        r#"federation.kubernetes.io/deployment-preferences={"rebalance":true,"clusters":{"*":{"weight":1}}}"#;
    space.kubectl(&["annotate", LEGACY, even]).await?;
    let is_spread = async || {
        let layout = space.layout(LEGACY).await?;
        Ok(if layout == "a=10 b=10 c=10" { Look::Found(()) } else { Look::NotYet(layout) })
    };
    never_fewer(&space, "it is spread", is_spread).await?;
    space.until_available(LEGACY, 30).await?;
    space.leave().await
}

async fn system_namespaces(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let name = "promises-coredns";
    let system = Room { cluster: league.federation.clone(), name: "kube-system".into() };
    system.apply(&deployment(name, 3, json!({}))).await?;
    deployment_is(&system, name, "is told as not federated", |found| {
        let conditions =
            found.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        conditions
            .iter()
            .any(|one| one.message.as_ref().is_some_and(|said| said.contains("--allow-namespaces")))
    })
    .await?;
    nowhere(&league, "kube-system", name).await?;
    system.kubectl(&["delete", "deployment", name]).await?;
    Ok(())
}

async fn pod_security(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "guarded-templates").await?;
    let level = "pod-security.kubernetes.io/enforce=restricted";
    space.kubectl(&["label", "namespace", "guarded-templates", level]).await?;
    let privileged = json!({"template": {"spec": {
        "containers": [{"name": "main", "image": "example.com/web:1", "securityContext": {"privileged": true}}],
    }}});
    space.apply(&deployment("web", 3, privileged)).await?;
    space.until_event("web", "PodSecurity").await?;
    nowhere(&league, "guarded-templates", "web").await?;

    let modest = json!({"template": {"spec": {
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "main", "image": "example.com/web:1", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        }}],
    }}});
    space.apply(&deployment("web", 3, modest)).await?;
    space.until_layout(WEB, "a=1 b=1 c=1").await?;
    let label = "jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}";
    let label = space.in_member("b", &["get", "namespace", "guarded-templates", "-o", label]).await?;
    ensure!(label == "restricted", "the member's namespace has no level: {label:?}");
    space.leave().await
}

/// For a while, no member has that Deployment.
async fn nowhere(league: &League, namespace: &str, name: &str) -> anyhow::Result<()> {
    throughout("no member has it", async || {
        for (member, has) in &league.members {
            let room = Room { cluster: has.cluster.clone(), name: namespace.to_owned() };
            if room.api::<Deployment>().get_opt(name).await?.is_some() {
                return Ok(Look::NotYet(format!("cluster {member} has it")));
            }
        }
        Ok(Look::Found(()))
    })
    .await
}
