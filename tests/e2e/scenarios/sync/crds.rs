//! CRDs that come, change and go while the syncer runs, and all the kinds there are.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::{Value, json};

use super::links::{free_address, synced};
use super::pair::{Definition, FILTER, Pair, SOURCE};
use crate::wait::{Look, until};
use crate::world::World;

pub(super) async fn come_change_and_go(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let metrics = free_address()?;
    let running = pair.start_with(&pair.cloud.cluster.kubeconfig, &["--metrics", &metrics]).await?;
    let toys = Definition::new("changes", json!({}));
    // A mark that is synced all the time: once something of it has arrived, the others had their chance.
    let marks = Definition::new("marks", json!({SOURCE: "cloud"}));
    pair.define(&toys).await?;
    pair.define(&marks).await?;
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    let annotate = async |annotations: Value| {
        robot.patch(&toys.path(), &json!({"metadata": {"annotations": annotations}})).await.map(drop)
    };
    let mark = async |name: &str| {
        cloud.create(&marks.objects(), &marks.made(name, json!({}), json!({}))).await?;
        robot.until_there(&marks.object(name)).await.map(drop)
    };
    cloud.create(&toys.objects(), &toys.made("ball", json!({}), json!({}))).await?;
    mark("one").await?;
    ensure!(robot.get(&toys.object("ball")).await?.is_none(), "nobody asked for it");
    annotate(json!({SOURCE: "cloud"})).await?;
    robot.until_there(&toys.object("ball")).await?;
    // Now only what carries the robot's name: what is there without it is none of its business any more.
    annotate(json!({FILTER: "True"})).await?;
    mark("two").await?;
    cloud.delete(&toys.object("ball")).await?;
    mark("three").await?;
    ensure!(robot.get(&toys.object("ball")).await?.is_some(), "it is nobody's");
    annotate(json!({FILTER: "maybe"})).await?;
    let told = robot.until_told(&toys.name(), "InvalidFilter").await?;
    ensure!(told.contains("is not synced"), "{told}");
    annotate(json!({FILTER: null})).await?;
    robot.until_gone(&toys.object("ball")).await?;
    annotate(json!({SOURCE: "moon"})).await?;
    robot.until_told(&toys.name(), "InvalidSpecSource").await?;
    cloud.create(&toys.objects(), &toys.made("cube", json!({}), json!({}))).await?;
    mark("four").await?;
    ensure!(robot.get(&toys.object("cube")).await?.is_none(), "that source is unknown");
    annotate(json!({SOURCE: "cloud"})).await?;
    robot.until_there(&toys.object("cube")).await?;
    // Nobody asks for it any more: what is there stays as it is, on both sides.
    annotate(json!({SOURCE: null})).await?;
    until("it is not synced any more", async || {
        let crds = synced(&metrics).await?;
        Ok(if crds == [marks.name()] { Look::Found(()) } else { Look::NotYet(format!("{crds:?}")) })
    })
    .await?;
    cloud.patch(&toys.object("cube"), &json!({"spec": {"size": 2}})).await?;
    cloud.create(&toys.objects(), &toys.made("cone", json!({}), json!({}))).await?;
    robot.create(&toys.objects(), &toys.made("local", json!({}), json!({}))).await?;
    let reported = json!({"status": {"phase": "Alone"}});
    robot.patch(&format!("{}/status", toys.object("cube")), &reported).await?;
    mark("unasked").await?;
    ensure!(robot.get(&toys.object("cone")).await?.is_none(), "nobody asked for it");
    ensure!(robot.get(&toys.object("local")).await?.is_some(), "nobody asked for its end");
    let copy = robot.get(&toys.object("cube")).await?.unwrap_or_default();
    let original = cloud.get(&toys.object("cube")).await?.unwrap_or_default();
    ensure!(copy["spec"] == json!({}) && original.get("status").is_none(), "{copy} {original}");
    annotate(json!({SOURCE: "cloud"})).await?;
    robot.until_there(&toys.object("cone")).await?;
    robot.until_gone(&toys.object("local")).await?;
    robot.until("the edit is down", &toys.object("cube"), |cube| cube["spec"]["size"] == 2).await?;
    cloud.until("its status is up", &toys.object("cube"), |cube| cube["status"]["phase"] == "Alone").await?;
    // Beside the robot the CRD goes, and with it what is there: the originals stay.
    robot.delete(&toys.path()).await?;
    robot.until_gone(&toys.path()).await?;
    mark("five").await?;
    ensure!(cloud.get(&toys.object("cube")).await?.is_some(), "originals stay");
    let again = Definition { annotations: json!({SOURCE: "cloud"}), ..toys.clone() };
    again.make(&robot).await?;
    robot.until_there(&toys.object("cube")).await?;
    pair.end(Some(running)).await
}

/// In the cloud the status becomes a subresource and ceases to be one, long before the next resync.
pub(super) async fn the_clouds_status_changes(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let toys = Definition::new("states", json!({SOURCE: "cloud"}));
    pair.define(&toys).await?;
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    let running = pair.start().await?;
    cloud.create(&toys.objects(), &toys.made("ball", json!({}), json!({"size": 1}))).await?;
    robot.until_there(&toys.object("ball")).await?;
    for (round, status) in [true, false, true].into_iter().enumerate() {
        let versions = Definition { status, ..toys.clone() }.crd()["spec"]["versions"].clone();
        cloud.patch(&toys.path(), &json!({"spec": {"versions": versions}})).await?;
        let reported = json!({"status": {"round": round}});
        robot.patch(&format!("{}/status", toys.object("ball")), &reported).await?;
        let up = |toy: &Value| toy["status"]["round"] == round;
        let original = cloud.until("its status is up", &toys.object("ball"), up).await?;
        ensure!(original["spec"] == json!({"size": 1}), "{original}");
    }
    pair.end(Some(running)).await
}

/// The versions in which the syncer wrote an object.
fn written_in(object: &Value) -> Vec<&str> {
    let fields = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let ours = fields.filter(|entry| entry["manager"] == "koinon");
    ours.filter_map(|entry| entry["apiVersion"].as_str()).collect()
}

pub(super) async fn versions_and_scopes(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    // A version that both have, though each stores another one.
    let versioned = Definition { versions: vec!["v2", "v1beta1"], ..Definition::new("olds", json!({})) };
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    pair.define(&versioned).await?;
    let wide =
        Definition { namespaced: false, status: false, ..Definition::new("wides", json!({SOURCE: "cloud"})) };
    let attic = Definition::new("attics", json!({SOURCE: "cloud"}));
    pair.define(&wide).await?;
    pair.define(&attic).await?;
    // In the cloud the other one is stored.
    let mut crd = cloud.get(&versioned.path()).await?.unwrap_or_default();
    for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
        version["storage"] = json!(version["name"] == "v1beta1");
    }
    cloud.patch(&versioned.path(), &json!({"spec": {"versions": crd["spec"]["versions"]}})).await?;
    let source = json!({"metadata": {"annotations": {SOURCE: "cloud"}}});
    robot.patch(&versioned.path(), &source).await?;
    let running = pair.start().await?;
    cloud.create(&versioned.objects(), &versioned.made("one", json!({}), json!({"size": 1}))).await?;
    let copy = robot.until_there(&versioned.object("one")).await?;
    ensure!(copy["spec"] == json!({"size": 1}), "{copy}");
    // Through any version it would look the same; who wrote it in which version is noted beside it.
    ensure!(written_in(&copy) == ["pair.koinon.dev/v2"], "what the robot stores: {copy}");
    // If the cloud does not serve that one, the other will do. A watch of the old one may outlive it.
    running.stop().await;
    for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
        version["served"] = json!(version["name"] == "v1beta1");
    }
    cloud.patch(&versioned.path(), &json!({"spec": {"versions": crd["spec"]["versions"]}})).await?;
    let running = pair.start().await?;
    let older = Definition { versions: vec!["v1beta1"], ..versioned.clone() };
    cloud.create(&older.objects(), &older.made("two", json!({}), json!({"size": 2}))).await?;
    let copy = robot.until_there(&versioned.object("two")).await?;
    ensure!(written_in(&copy) == ["pair.koinon.dev/v1beta1"], "what both serve: {copy}");

    // For the whole cluster, and with a status that is a part of the object: the first one goes down.
    let mut made = wide.made("one", json!({}), json!({"size": 1}));
    made["status"] = json!({"phase": "New"});
    cloud.create(&wide.objects(), &made).await?;
    let copy = robot.until_there(&wide.object("one")).await?;
    ensure!(copy["status"] == json!({"phase": "New"}), "{copy}");
    robot.patch(&wide.object("one"), &json!({"status": {"phase": "Up"}})).await?;
    let original = cloud.until("it is up", &wide.object("one"), |one| one["status"]["phase"] == "Up").await?;
    ensure!(original["spec"] == json!({"size": 1}), "{original}");

    // A namespace that the robot lacks.
    let namespace = "pair-attic";
    cloud.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await?;
    let path = attic.objects_in(namespace);
    cloud.create(&path, &attic.made("box", json!({}), json!({}))).await?;
    robot.until_there(&format!("{path}/box")).await?;
    cloud.delete(&format!("{path}/box")).await?;
    robot.until_gone(&format!("{path}/box")).await?;
    ensure!(
        robot.get(&format!("/api/v1/namespaces/{namespace}")).await?.is_some(),
        "it is not deleted by us"
    );

    // What the cloud does not have is told, and used once it is there.
    let lacking = Definition::new("lackings", json!({SOURCE: "cloud"}));
    lacking.make(&robot).await?;
    let told = robot.until_told(&lacking.name(), "NotInCloud").await?;
    ensure!(told.contains("create the CRD there"), "{told}");
    lacking.make(&cloud).await?;
    cloud.create(&lacking.objects(), &lacking.made("one", json!({}), json!({}))).await?;
    robot.until_there(&lacking.object("one")).await?;
    for side in [&cloud, &robot] {
        side.delete(&format!("/api/v1/namespaces/{namespace}")).await?;
        side.delete(&lacking.path()).await?;
    }
    pair.end(Some(running)).await
}
