//! CRDs that come, change and go while the syncer runs, and all the kinds there are.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::json;

use super::pair::{Definition, FILTER, Pair, SOURCE};
use crate::world::World;

pub(super) async fn come_change_and_go(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let running = pair.start().await?;
    let toys = Definition::new("changes", json!({}));
    // A mark that is synced all the time: once something of it has arrived, the others had their chance.
    let marks = Definition::new("marks", json!({SOURCE: "cloud"}));
    pair.define(&toys).await?;
    pair.define(&marks).await?;
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    let annotate = async |annotations: serde_json::Value| {
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
