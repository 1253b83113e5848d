//! How releases end, what is left when a workload goes, and what waits for a cluster: each as its user would see it, where it can be
//! beside one cluster that is told the same.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use super::{Scenario, kubectl};
use crate::league::Space;
use crate::objects::deployment;
use crate::wait::{Look, throughout, until};
use crate::world::{Room, World};

const WEB: &str = "deployment/web";
const PREFERENCES: &str = "federation.kubernetes.io/deployment-preferences";
const ROLLOUT: [&str; 4] = ["rollout", "status", WEB, "--timeout=150s"];

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("a_release_that_nobody_can_run_fails_as_in_one_cluster", nobody_can_run),
        kubectl("more_than_the_maximum_ends_as_in_one_cluster", more_than_the_maximum),
        kubectl("what_is_written_on_a_shadow_is_put_back", shadows),
        kubectl("what_a_deletion_leaves_is_told_listed_and_cleaned", left_running),
        kubectl("containers_that_do_not_start_say_why", not_starting),
        kubectl("a_singleton_waits_for_its_cluster", singleton),
    ]
}

fn why(found: &Value, member: &str) -> String {
    let text = found["metadata"]["annotations"]["koinon.dev/placement"].as_str().unwrap_or("{}");
    let placement: Value = serde_json::from_str(text).unwrap_or_default();
    placement["clusters"][member]["why"].as_str().unwrap_or_default().to_owned()
}

fn progressing(found: &Value) -> String {
    let conditions = found["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let one = conditions.iter().find(|one| one["type"] == "Progressing");
    one.map_or_else(String::new, |one| {
        format!(
            "{}: {}",
            one["reason"].as_str().unwrap_or_default(),
            one["message"].as_str().unwrap_or_default()
        )
    })
}

async fn nobody_can_run(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "cannot-run").await?;
    let alone = Room::open(league.members["a"].cluster.clone(), "cannot-run-alone").await?;
    let spec = json!({
        "progressDeadlineSeconds": 15, "template": {"spec": {"serviceAccountName": "builder"}},
    });
    let web = deployment("web", 6, spec);
    space.apply(&web).await?;
    alone.create::<Deployment>(web).await?;
    let (federated, single) = (space.kubectl_said(&ROLLOUT).await?, alone.kubectl_said(&ROLLOUT).await?);
    ensure!(
        single.code == Some(1) && single.err.contains("exceeded its progress deadline"),
        "{}",
        single.err
    );
    ensure!(
        (federated.code, &federated.err) == (single.code, &single.err),
        "{:?} {}",
        federated.code,
        federated.err
    );
    let missing = r#"serviceaccount "builder" not found"#;
    let told = space.until_event("web", "FailedCreate: cluster c: pods cannot be created: ").await?;
    ensure!(told.contains(missing), "{told}");
    let described = space.kubectl(&["describe", WEB]).await?;
    ensure!(described.contains(missing) && !described.contains("RolledOut"), "{described}");
    alone.leave().await?;
    space.leave().await
}

async fn more_than_the_maximum(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "maximum").await?;
    let alone = Room::open(league.members["b"].cluster.clone(), "maximum-alone").await?;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "most"},
        "spec": {"hard": {"pods": "6"}}});
    alone.apply(&quota).await?;
    let mut web = deployment("web", 10, json!({"progressDeadlineSeconds": 15}));
    alone.create::<Deployment>(web.clone()).await?;
    web["metadata"]["annotations"] =
        json!({PREFERENCES: r#"{"clusters":{"*":{"weight":1,"maxReplicas":2}}}"#});
    space.apply(&web).await?;
    let (federated, single) = (space.kubectl_said(&ROLLOUT).await?, alone.kubectl_said(&ROLLOUT).await?);
    ensure!((federated.code, single.code) == (Some(1), Some(1)), "{}{}", federated.err, single.err);
    let found = space.federated(WEB).await?;
    let said = progressing(&found);
    ensure!(said.contains("4 of 10 replicas have no cluster by the preferences"), "{said}");
    space.kubectl(&["scale", WEB, "--replicas=6"]).await?;
    alone.kubectl(&["scale", WEB, "--replicas=6"]).await?;
    let (federated, single) = (space.kubectl_said(&ROLLOUT).await?, alone.kubectl_said(&ROLLOUT).await?);
    ensure!((federated.code, single.code) == (Some(0), Some(0)), "{}{}", federated.err, single.err);
    alone.leave().await?;
    space.leave().await
}

async fn shadows(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "shadows").await?;
    space.apply(&deployment("web", 3, json!({}))).await?;
    space.kubectl(&ROLLOUT).await?;
    let names = space.kubectl(&["get", "replicasets", "-o", "name"]).await?;
    let name = names.trim();
    space.kubectl(&["annotate", name, "deployment.kubernetes.io/revision=77", "--overwrite"]).await?;
    let revision = "jsonpath={.metadata.annotations.deployment\\.kubernetes\\.io/revision}";
    until("the revision is put back", async || {
        let now = space.kubectl(&["get", name, "-o", revision]).await?;
        Ok(if now == "1" { Look::Found(()) } else { Look::NotYet(now) })
    })
    .await?;
    space.leave().await
}

async fn left_running(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "left-running").await?;
    let mut web = deployment("web", 3, json!({}));
    web["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    web["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": "web"});
    space.apply(&web).await?;
    space.kubectl(&ROLLOUT).await?;
    let there = space.get(&league.members["a"].cluster, WEB).await?.context("cluster a has it")?;
    let metadata = &there["metadata"];
    ensure!(metadata["labels"]["app.kubernetes.io/managed-by"] == "Helm", "{metadata}");
    ensure!(metadata["annotations"]["meta.helm.sh/release-name"].is_null(), "{metadata}");

    let said = space.kubectl_said(&["delete", WEB]).await?;
    let told = "members go on running this Deployment. To remove it there too: koinon clean deployments/web -n left-running";
    ensure!(said.code == Some(0) && said.err.contains(told), "{}", said.err);
    let orphans = league.koinon(&["status", "orphans", "-n", "left-running"]).await?;
    for member in ["a", "b", "c"] {
        let row = format!("{member}         left-running   deployment/web   1/1");
        ensure!(orphans.contains(&row), "{orphans}");
    }
    let unasked = league.koinon_output(&["clean", "deployments/web", "-n", "left-running"]).await?;
    ensure!(unasked.status.code() == Some(1), "{unasked:?}");
    ensure!(space.layout(WEB).await? == "a=1 b=1 c=1", "nothing goes unasked");
    league.koinon(&["clean", "deployments/web", "-n", "left-running", "--yes"]).await?;
    until("members have none", async || {
        let layout = space.layout(WEB).await?;
        Ok(if layout.is_empty() { Look::Found(()) } else { Look::NotYet(layout) })
    })
    .await?;
    let orphans = league.koinon(&["status", "orphans", "-n", "left-running"]).await?;
    ensure!(orphans.starts_with("none"), "{orphans}");

    // What goes everywhere leaves nothing to be told of, whether a body or a query says so.
    space.apply(&web).await?;
    space.kubectl(&ROLLOUT).await?;
    let said = space.kubectl_said(&["delete", WEB, "--cascade=foreground"]).await?;
    ensure!(said.code == Some(0) && !said.err.contains("Warning"), "{}", said.err);
    space.leave().await
}

async fn not_starting(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "not-starting").await?;
    let crash = json!({"template": {"metadata": {"annotations": {"sim.koinon.dev/crash": "loop"}}}});
    space.apply(&deployment("web", 3, crash)).await?;
    let words = "container main: CrashLoopBackOff: it ended with exit code 1";
    let told = |found: &Value| ["a", "b", "c"].iter().all(|member| why(found, member).contains(words));
    space.until(WEB, "its containers' words are in the placement", told).await?;
    let said = league.koinon(&["status", WEB, "-n", "not-starting"]).await?;
    ensure!(said.contains(words), "{said}");
    space.leave().await
}

async fn singleton(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _alone = league.alone().await;
    let space = Space::open(league.clone(), "singleton").await?;
    let mut web = deployment("web", 1, json!({}));
    web["metadata"]["annotations"] = json!({"koinon.dev/failover": "never"});
    space.apply(&web).await?;
    space.until_available(WEB, 1).await?;
    let before = space.layout(WEB).await?;
    let home = before.split('=').next().unwrap_or_default().to_owned();
    league.members[home.as_str()].wire.cut();
    let waits =
        |found: &Value| why(found, &home).starts_with("its replicas wait for it (koinon.dev/failover)");
    space.until(WEB, "its replica waits for its cluster", waits).await?;
    throughout("it runs once", async || {
        let layout = space.layout(WEB).await?;
        Ok(if layout == before { Look::Found(()) } else { Look::NotYet(layout) })
    })
    .await?;
    league.members[home.as_str()].wire.heal();
    space.until_available(WEB, 1).await?;
    ensure!(space.layout(WEB).await? == before, "it stays where it is");
    space.leave().await
}
