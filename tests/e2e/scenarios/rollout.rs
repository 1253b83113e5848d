//! Deployments: rolling updates within their bounds, stuck ones, undo, pause, proportional scaling, recreate.

use std::sync::Arc;

use anyhow::ensure;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{Scenario, api, kubectl};
use crate::objects::{
    NEVER_READY, condition, deployment, deployment_is, is_complete, layout_is, ready_pods, template,
};
use crate::sampling::Sampler;
use crate::world::{Room, World};

pub(super) fn all() -> Vec<Scenario> {
    let mut all = vec![
        kubectl("undo_goes_back_and_to_a_revision", undo),
        kubectl("pause_gathers_changes_and_resume_rolls_them_out_once", pause),
        kubectl("restart_replaces_every_pod", restart),
        api("a_stuck_rollout_is_told_at_its_deadline", stuck),
        api("scaling_during_a_rollout_is_proportional", proportional),
        api("recreate_ends_the_old_before_the_new", recreate),
        api("a_new_template_during_a_rollout_takes_over", rollover),
        api("old_revisions_are_kept_up_to_the_limit", history),
    ];
    for (surge, unavailable) in [("1", "0"), ("0", "1"), ("25%", "25%"), ("100%", "0"), ("3", "2")] {
        let name = format!("rolling_update_stays_within_surge_{surge}_and_unavailable_{unavailable}");
        all.push(api(&name.replace('%', "pct"), move |world| rolling(world, surge, unavailable)));
    }
    all
}

async fn patch(room: &Room, name: &str, change: Value) -> anyhow::Result<Deployment> {
    let api = room.api::<Deployment>();
    Ok(api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await?)
}

/// A version whose pods run, but never become ready.
fn never_ready(version: &str) -> Value {
    let mut template = template("web", version);
    template["metadata"]["annotations"] = json!({NEVER_READY.0: NEVER_READY.1});
    template
}

/// A version whose pods become ready, laid over one whose pods do not.
fn good(version: &str) -> Value {
    let mut template = template("web", version);
    template["metadata"]["annotations"] = json!({NEVER_READY.0: null});
    template
}

fn number(text: &str) -> Value {
    text.parse::<i32>().map_or_else(|_| json!(text), |number| json!(number))
}

/// A part of ten: percentages of surge round up, of unavailability down.
fn of_ten(text: &str, round: fn(f64) -> f64) -> usize {
    match text.strip_suffix('%') {
        Some(percent) => round(percent.parse::<f64>().expect("a percentage") / 10.0) as usize,
        None => text.parse().expect("a number"),
    }
}

async fn rolling(world: Arc<World>, surge: &'static str, unavailable: &'static str) -> anyhow::Result<()> {
    let namespace = format!("rolling-{surge}-{unavailable}").replace('%', "pct");
    let room = world.room(&namespace).await?;
    let strategy =
        json!({"rollingUpdate": {"maxSurge": number(surge), "maxUnavailable": number(unavailable)}});
    room.create::<Deployment>(deployment("web", 10, json!({"strategy": strategy}))).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;

    let sampler = Sampler::start(&room, "web").await;
    patch(&room, "web", json!({"spec": {"template": template("web", "2")}})).await?;
    deployment_is(&room, "web", "is complete again", is_complete).await?;
    layout_is(&room, "web", "2=10").await?;
    let seen = sampler.extremes();
    let (most, fewest) = (10 + of_ten(surge, f64::ceil), 10 - of_ten(unavailable, f64::floor));
    ensure!(seen.samples > 20, "the rollout was hardly seen: {seen:?}");
    ensure!(seen.most <= most, "there were {} pods, at most {most} are allowed", seen.most);
    ensure!(seen.fewest_ready >= fewest, "{} pods were ready, {fewest} must be", seen.fewest_ready);
    room.leave().await
}

async fn stuck(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("stuck").await?;
    room.create::<Deployment>(deployment("web", 3, json!({"progressDeadlineSeconds": 2}))).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;
    patch(&room, "web", json!({"spec": {"template": never_ready("2")}})).await?;
    let found = deployment_is(&room, "web", "is past its deadline", |found| {
        condition(found, "Progressing").is_some_and(|one| one.status == "False")
    })
    .await?;
    let progressing = condition(&found, "Progressing").expect("it was just there");
    ensure!(progressing.reason.as_deref() == Some("ProgressDeadlineExceeded"), "{progressing:?}");
    let message = progressing.message.as_deref().unwrap_or_default();
    ensure!(
        message.starts_with("ReplicaSet \"web-") && message.ends_with("\" has timed out progressing."),
        "{message}"
    );
    let available = condition(&found, "Available").map(|one| one.status.as_str());
    ensure!(available == Some("True"), "the old pods keep it available: {:?}", found.status);
    // It recovers by itself once the template is good again.
    patch(&room, "web", json!({"spec": {"template": good("2")}})).await?;
    let found = deployment_is(&room, "web", "is complete", is_complete).await?;
    let reason = condition(&found, "Progressing").and_then(|one| one.reason.as_deref());
    ensure!(reason == Some("NewReplicaSetAvailable"), "{reason:?}");
    room.leave().await
}

async fn undo(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("undo").await?;
    room.create::<Deployment>(deployment("web", 3, json!({}))).await?;
    for version in ["2", "3"] {
        deployment_is(&room, "web", "is complete", is_complete).await?;
        room.kubectl(&["set", "image", "deployment/web", &format!("main=example.com/web:{version}")]).await?;
    }
    let said = room.kubectl(&["rollout", "status", "deployment/web"]).await?;
    ensure!(said.contains("deployment \"web\" successfully rolled out"), "{said}");
    layout_is(&room, "web", "3=3").await?;

    room.kubectl(&["rollout", "undo", "deployment/web"]).await?;
    room.kubectl(&["rollout", "status", "deployment/web"]).await?;
    layout_is(&room, "web", "4=3").await?;
    let history = room.kubectl(&["rollout", "history", "deployment/web"]).await?;
    let revisions: Vec<_> = history.lines().filter_map(|line| line.split_whitespace().next()).collect();
    ensure!(revisions == ["deployment.apps/web", "REVISION", "1", "3", "4"], "{history}");

    room.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=1"]).await?;
    room.kubectl(&["rollout", "status", "deployment/web"]).await?;
    let image = "jsonpath={.spec.template.spec.containers[0].image}";
    let image = room.kubectl(&["get", "deployment", "web", "-o", image]).await?;
    ensure!(image == "example.com/web:1", "{image}");
    layout_is(&room, "web", "5=3").await?;
    room.leave().await
}

async fn pause(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("pause").await?;
    room.create::<Deployment>(deployment("web", 3, json!({}))).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;
    room.kubectl(&["rollout", "pause", "deployment/web"]).await?;
    room.kubectl(&["set", "image", "deployment/web", "main=example.com/web:2"]).await?;
    room.kubectl(&["set", "env", "deployment/web", "COLOR=green"]).await?;
    // Scaling goes on while paused, with the old template.
    room.kubectl(&["scale", "deployment/web", "--replicas=5"]).await?;
    let found = deployment_is(&room, "web", "is paused and has five", |found| {
        let status = found.status.as_ref();
        status.and_then(|status| status.available_replicas) == Some(5)
            && status.and_then(|status| status.observed_generation) == found.metadata.generation
            && condition(found, "Progressing")
                .is_some_and(|one| one.reason.as_deref() == Some("DeploymentPaused"))
    })
    .await?;
    ensure!(found.status.and_then(|status| status.updated_replicas).unwrap_or(0) == 0, "nothing is updated");
    layout_is(&room, "web", "1=5").await?;

    room.kubectl(&["rollout", "resume", "deployment/web"]).await?;
    let said = room.kubectl(&["rollout", "status", "deployment/web"]).await?;
    ensure!(said.contains("successfully rolled out"), "{said}");
    // Both changes became one revision.
    layout_is(&room, "web", "2=5").await?;
    room.leave().await
}

async fn restart(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("restart").await?;
    room.create::<Deployment>(deployment("web", 4, json!({}))).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;
    let before = ready_pods(&room, "web", 4).await?;
    room.kubectl(&["rollout", "restart", "deployment/web"]).await?;
    room.kubectl(&["rollout", "status", "deployment/web"]).await?;
    let after = ready_pods(&room, "web", 4).await?;
    let kept =
        after.iter().filter(|pod| before.iter().any(|old| old.metadata.uid == pod.metadata.uid)).count();
    ensure!(kept == 0, "{kept} pods were not replaced");
    room.leave().await
}

async fn proportional(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("proportional").await?;
    let strategy = json!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    room.create::<Deployment>(deployment("web", 10, json!({"strategy": strategy}))).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;
    patch(&room, "web", json!({"spec": {"template": never_ready("2")}})).await?;
    layout_is(&room, "web", "1=8 2=5").await?;
    patch(&room, "web", json!({"spec": {"replicas": 15}})).await?;
    // Five more, over 8 and 5: three to the larger, two to the smaller.
    layout_is(&room, "web", "1=11 2=7").await?;
    patch(&room, "web", json!({"spec": {"template": good("3")}})).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;
    room.leave().await
}

async fn recreate(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("recreate").await?;
    let strategy = json!({"type": "Recreate"});
    room.create::<Deployment>(deployment("web", 4, json!({"strategy": strategy}))).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;
    let sampler = Sampler::start(&room, "web").await;
    patch(&room, "web", json!({"spec": {"template": template("web", "2")}})).await?;
    deployment_is(&room, "web", "is complete again", is_complete).await?;
    layout_is(&room, "web", "2=4").await?;
    ensure!(sampler.extremes().fewest_ready == 0, "the old pods went first: {:?}", sampler.extremes());
    ensure!(!sampler.was_mixed(), "pods of both templates were there at once");
    room.leave().await
}

async fn rollover(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("rollover").await?;
    let strategy = json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}});
    room.create::<Deployment>(deployment("web", 6, json!({"strategy": strategy}))).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;
    let sampler = Sampler::start(&room, "web").await;
    patch(&room, "web", json!({"spec": {"template": never_ready("2")}})).await?;
    layout_is(&room, "web", "1=6 2=2").await?;
    patch(&room, "web", json!({"spec": {"template": good("3")}})).await?;
    deployment_is(&room, "web", "is complete", is_complete).await?;
    let seen = sampler.extremes();
    ensure!(seen.fewest_ready >= 6 && seen.most <= 8, "{seen:?}");
    room.leave().await
}

async fn history(world: Arc<World>) -> anyhow::Result<()> {
    let room = world.room("history").await?;
    room.create::<Deployment>(deployment("web", 1, json!({"revisionHistoryLimit": 2}))).await?;
    for version in 2..=5 {
        deployment_is(&room, "web", "is complete", is_complete).await?;
        patch(&room, "web", json!({"spec": {"template": template("web", &version.to_string())}})).await?;
    }
    deployment_is(&room, "web", "is complete", is_complete).await?;
    crate::wait::until("two old ReplicaSets are left", async || {
        let sets = room.api::<k8s_openapi::api::apps::v1::ReplicaSet>().list(&Default::default()).await?;
        let mut revisions: Vec<_> = sets
            .iter()
            .filter_map(|set| set.metadata.annotations.as_ref()?.get("deployment.kubernetes.io/revision"))
            .map(String::as_str)
            .collect();
        revisions.sort_unstable();
        Ok(match revisions[..] {
            ["3", "4", "5"] => crate::wait::Look::Found(()),
            _ => crate::wait::Look::NotYet(format!("{revisions:?}")),
        })
    })
    .await?;
    room.leave().await
}
