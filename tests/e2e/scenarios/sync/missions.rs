//! Custom resources between a cloud and a robot, step by step, with stock kubectl on both sides.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::{Value, json};

use super::pair::HURRY;
use crate::engine::Running;
use crate::wait::{Look, until};
use crate::world::{Room, World};

const CRD: &str = "missions.e2e.koinon.dev";
const GENERATION: &str = "jsonpath={.metadata.generation}";
const ROBOT: &str = "cloudrobotics.com/robot-name";

struct Side {
    room: Room,
}

pub(super) async fn missions(world: Arc<World>) -> anyhow::Result<()> {
    let cloud = Side { room: Room::open(world.cluster("a").await?, "missions").await? };
    let robot = Side { room: Room::open(world.cluster("b").await?, "missions").await? };
    for side in [&cloud, &robot] {
        side.apply(&definition()).await?;
    }
    let running = start(&world, &cloud, &robot).await?;

    // Down go spec, labels and annotations; up comes status.
    for number in 0..24 {
        cloud.apply(&mission(number, json!({ROBOT: "r1", "a": "1"}))).await?;
    }
    cloud.apply(&mission(90, json!({ROBOT: "r2"}))).await?;
    robot.counts(24).await?;
    robot.has("m-3", "{.spec.goal} {.metadata.labels.a}", "3 1").await?;
    robot.patch("m-3", r#"{"status":{"phase":"Done"}}"#, &["--subresource=status"]).await?;
    cloud.has("m-3", "{.status.phase}", "Done").await?;
    cloud.patch("m-3", r#"{"spec":{"goal":30},"metadata":{"labels":{"a":null}}}"#, &[]).await?;
    robot.has("m-3", "{.spec.goal} {.metadata.labels.a}", "30 ").await?;

    // A namespace that the robot lacks comes along.
    cloud.room.kubectl(&["create", "namespace", "missions-attic"]).await?;
    cloud.apply_in("missions-attic", &mission(91, json!({ROBOT: "r1"}))).await?;
    until("the mission in the attic arrives", async || {
        robot.room.kubectl(&["get", "mission", "m-91", "-n", "missions-attic"]).await?;
        Ok(Look::Found(()))
    })
    .await?;
    cloud.room.kubectl(&["delete", "mission", "m-91", "-n", "missions-attic"]).await?;

    // What does not belong there is put right.
    robot.patch("m-3", r#"{"spec":{"goal":99}}"#, &[]).await?;
    robot.has("m-3", "{.spec.goal}", "30").await?;
    robot.room.kubectl(&["label", "mission", "m-3", &format!("{ROBOT}-")]).await?;
    robot.has("m-3", "{.metadata.labels.cloudrobotics\\.com/robot-name}", "r1").await?;
    robot.room.kubectl(&["delete", "mission", "m-4"]).await?;
    robot.has("m-4", "{.spec.goal}", "4").await?;

    // One deletion goes down, also while nobody looked; many wait for a word.
    running.stop().await;
    cloud.room.kubectl(&["delete", "mission", "m-5"]).await?;
    for goal in 70..73 {
        cloud.patch("m-7", &json!({"spec": {"goal": goal}}).to_string(), &[]).await?;
    }
    let running = start(&world, &cloud, &robot).await?;
    robot.counts(23).await?;
    waited_for(&cloud, &robot).await?;
    // People see from the cloud how the robot is.
    until("the robot is connected", async || {
        let shown = cloud.room.koinon(&["status", "robots"]).await?;
        let row = shown.lines().find(|line| line.starts_with("r1 ")).unwrap_or_default();
        let fine = row.split_whitespace().nth(1) == Some("Connected") && shown.starts_with("ROBOT");
        Ok(if fine { Look::Found(()) } else { Look::NotYet(shown) })
    })
    .await?;
    // kubectl deletes one by one, as slowly as the machine is; meanwhile nobody may begin.
    running.stop().await;
    cloud.room.kubectl(&["delete", "missions", "-l", &format!("{ROBOT}=r1")]).await?;
    let running = start(&world, &cloud, &robot).await?;
    let held = "{range .items[?(@.reason==\"DeletionsHeld\")]}{.message}{end}";
    until("the deletions are held", async || {
        let said = robot
            .room
            .kubectl(&["get", "events", "-n", "default", "-o", &format!("jsonpath={held}")])
            .await?;
        Ok(if said.contains("23 deletions of copies are held") {
            Look::Found(())
        } else {
            Look::NotYet(said)
        })
    })
    .await?;
    robot.counts(23).await?;
    until("the cloud sees that deletions are held", async || {
        let shown = cloud.room.koinon(&["status", "robots"]).await?;
        let held = shown.contains(&format!("r1: {CRD} DeletionsHeld: 23 deletions of copies are held"));
        Ok(if held { Look::Found(()) } else { Look::NotYet(shown) })
    })
    .await?;
    robot.room.kubectl(&["annotate", "crd", CRD, "koinon.dev/confirm-deletes=23"]).await?;
    robot.counts(0).await?;

    // The cloud sees how the robot is.
    until("the robot's Lease says how far it is", async || {
        let path = "jsonpath={.metadata.annotations.koinon\\.dev/sync}";
        let said =
            cloud.room.kubectl(&["get", "lease", "-n", "koinon-system", "sync-r1", "-o", path]).await?;
        let progress: Value = serde_json::from_str(&said)?;
        let idle = progress["crds"] == 1 && progress["pending"] == 0 && progress["held"] == 0;
        Ok(if idle { Look::Found(()) } else { Look::NotYet(said) })
    })
    .await?;
    running.stop().await;
    for side in [cloud, robot] {
        side.room.kubectl(&["delete", "crd", CRD]).await?;
        side.room.leave().await?;
    }
    Ok(())
}

/// Generations differ between the two, and still what the robot has observed can be waited for in the cloud.
async fn waited_for(cloud: &Side, robot: &Side) -> anyhow::Result<()> {
    robot.has("m-7", "{.spec.goal}", "72").await?;
    let generation =
        async |side: &Side| side.room.kubectl(&["get", "mission", "m-7", "-o", GENERATION]).await;
    let (above, below) = (generation(cloud).await?, generation(robot).await?);
    ensure!(above != below, "both have generation {above}: there is nothing to translate");
    let observed: i64 = below.parse()?;
    let ready = json!({"type": "Ready", "status": "True", "reason": "There", "message": "", "observedGeneration": observed, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"observedGeneration": observed, "conditions": [ready]}});
    robot.patch("m-7", &status.to_string(), &["--subresource=status"]).await?;
    let wait = |time| ["wait", "mission/m-7", "--for=condition=Ready", time];
    cloud.room.kubectl(&wait("--timeout=120s")).await?;
    // The next edit nobody has observed yet.
    cloud.patch("m-7", r#"{"spec":{"goal":73}}"#, &[]).await?;
    robot.has("m-7", "{.spec.goal}", "73").await?;
    let said = cloud.room.kubectl_said(&wait("--timeout=2s")).await?;
    ensure!(said.code != Some(0) && said.err.contains("timed out"), "nobody has observed that: {}", said.err);
    Ok(())
}

async fn start(world: &World, cloud: &Side, robot: &Side) -> anyhow::Result<Running> {
    let above = cloud.room.cluster.kubeconfig.to_string_lossy().into_owned();
    let mut arguments = vec!["--robot-name", "r1", "--cloud-kubeconfig", &above];
    arguments.extend(HURRY);
    world.role_with("r1", "sync", &robot.room.cluster.kubeconfig, &arguments).await
}

fn definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD, "annotations": {
            "cr-syncer.cloudrobotics.com/spec-source": "cloud",
            "cr-syncer.cloudrobotics.com/filter-by-robot-name": "True",
            "koinon.dev/observed-generation": "translate",
        }},
        "spec": {
            "group": "e2e.koinon.dev", "scope": "Namespaced", "names": {"plural": "missions", "singular": "mission", "kind": "Mission"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}

fn mission(number: usize, labels: Value) -> Value {
    json!({
        "apiVersion": "e2e.koinon.dev/v1", "kind": "Mission",
        "metadata": {"name": format!("m-{number}"), "labels": labels}, "spec": {"goal": number},
    })
}

impl Side {
    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        self.apply_in(&self.room.name, object).await
    }

    async fn apply_in(&self, namespace: &str, object: &Value) -> anyhow::Result<()> {
        let file = self.room.cluster.kubeconfig.with_file_name("mission.json");
        std::fs::write(&file, object.to_string())?;
        until("the object is applied", async || {
            self.room.kubectl(&["apply", "-n", namespace, "-f", &file.to_string_lossy()]).await?;
            Ok(Look::Found(()))
        })
        .await
    }

    async fn patch(&self, name: &str, patch: &str, more: &[&str]) -> anyhow::Result<()> {
        let arguments = [&["patch", "mission", name, "--type=merge", "-p", patch], more].concat();
        self.room.kubectl(&arguments).await.map(drop)
    }

    async fn has(&self, name: &str, path: &str, wanted: &str) -> anyhow::Result<()> {
        until(&format!("{name} has {path} = {wanted}"), async || {
            let has = self.room.kubectl(&["get", "mission", name, "-o", &format!("jsonpath={path}")]).await?;
            Ok(if has == wanted { Look::Found(()) } else { Look::NotYet(has) })
        })
        .await
    }

    async fn counts(&self, wanted: usize) -> anyhow::Result<()> {
        until(&format!("there are {wanted} missions"), async || {
            let names = self.room.kubectl(&["get", "missions", "-o", "name"]).await?;
            let count = names.lines().count();
            Ok(if count == wanted { Look::Found(()) } else { Look::NotYet(count.to_string()) })
        })
        .await
    }
}
