//! What goes down, what comes up, and how copies end.

use std::sync::Arc;

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use super::pair::{Definition, FILTER, Pair, ROBOT, SOURCE, SUBTREE};
use crate::world::World;

pub(super) async fn specs_and_statuses(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let toys = Definition::new("toys", json!({SOURCE: "cloud"}));
    pair.define(&toys).await?;
    let running = pair.start().await?;
    let (cloud, robot, ball) = (pair.cloud.clone(), pair.robot.clone(), toys.object("ball"));
    let metadata =
        json!({"labels": {"a": "1"}, "annotations": {"n": "1"}, "finalizers": ["pair.koinon.dev/keep"]});
    cloud.create(&toys.objects(), &toys.made("ball", metadata, json!({"size": 1}))).await?;
    let copy = robot.until_there(&ball).await?;
    ensure!(copy["spec"] == json!({"size": 1}) && copy["metadata"]["labels"] == json!({"a": "1"}), "{copy}");
    ensure!(copy["metadata"]["annotations"]["n"] == "1", "{copy}");
    ensure!(copy["metadata"].get("finalizers").is_none(), "finalizers are the original's own: {copy}");
    let status = format!("{ball}/status");
    robot.patch(&status, &json!({"status": {"phase": "Up", "observedGeneration": 7}})).await?;
    let original = cloud.until("its status is up", &ball, |toy| toy["status"]["phase"] == "Up").await?;
    ensure!(original["status"]["observedGeneration"] == 7, "as it is: {original}");
    ensure!(original["spec"] == json!({"size": 1}) && original["metadata"]["generation"] == 1, "{original}");
    // What others put on the copy stays, and so does its status.
    let theirs = json!({"metadata": {"labels": {"theirs": "x"}, "finalizers": ["pair.koinon.dev/theirs"]}});
    robot.patch(&ball, &theirs).await?;
    let edit = json!({"spec": {"size": 2}, "metadata": {"labels": {"a": null, "b": "2"}}});
    cloud.patch(&ball, &edit).await?;
    let copy = robot.until("the edit is down", &ball, |toy| toy["spec"]["size"] == 2).await?;
    ensure!(copy["metadata"]["labels"] == json!({"b": "2", "theirs": "x"}), "{copy}");
    ensure!(copy["status"]["phase"] == "Up", "{copy}");
    robot.patch(&ball, &json!({"metadata": {"finalizers": null}})).await?;
    // Somebody edits both sides all the time, and still everything arrives.
    for round in 0..20 {
        cloud.patch(&ball, &json!({"metadata": {"annotations": {"round": round.to_string()}}})).await?;
        robot.patch(&status, &json!({"status": {"round": round}})).await?;
    }
    cloud.until("the last status is up", &ball, |toy| toy["status"]["round"] == 19).await?;
    robot
        .until("the last edit is down", &ball, |toy| toy["metadata"]["annotations"]["round"] == "19")
        .await?;
    cloud.patch(&ball, &json!({"metadata": {"finalizers": null}})).await?;
    pair.end(Some(running)).await
}

pub(super) async fn subtrees_and_generations(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let trees = Definition::new("trees", json!({SOURCE: "cloud", SUBTREE: "robot"}));
    let waits =
        Definition::new("waits", json!({SOURCE: "cloud", "koinon.dev/observed-generation": "translate"}));
    pair.define(&trees).await?;
    pair.define(&waits).await?;
    let running = pair.start().await?;
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());

    let oak = trees.object("oak");
    cloud.create(&trees.objects(), &trees.made("oak", json!({}), json!({}))).await?;
    cloud.patch(&format!("{oak}/status"), &json!({"status": {"cloud": {"x": 1}}})).await?;
    robot.until_there(&oak).await?;
    let status = format!("{oak}/status");
    robot.patch(&status, &json!({"status": {"cloud": 9, "robot": {"y": 1}}})).await?;
    let both = json!({"cloud": {"x": 1}, "robot": {"y": 1}});
    cloud.until("the subtree is up", &oak, |tree| tree["status"] == both).await?;
    robot.patch(&status, &json!({"status": {"robot": null}})).await?;
    let alone = json!({"cloud": {"x": 1}});
    cloud.until("the subtree is gone", &oak, |tree| tree["status"] == alone).await?;

    let one = waits.object("one");
    cloud.create(&waits.objects(), &waits.made("one", json!({}), json!({"size": 1}))).await?;
    for size in 2..5 {
        cloud.patch(&one, &json!({"spec": {"size": size}})).await?;
    }
    let copy = robot.until("the last size is down", &one, |wait| wait["spec"]["size"] == 4).await?;
    let seen = json!({"status": {"observedGeneration": copy["metadata"]["generation"]}});
    robot.patch(&format!("{one}/status"), &seen).await?;
    let current = |wait: &Value| wait["status"]["observedGeneration"] == wait["metadata"]["generation"];
    cloud.until("it can be waited for", &one, current).await?;
    // Nobody has observed this one yet.
    let edited = cloud.patch(&one, &json!({"spec": {"size": 9}})).await?;
    robot.until("the edit is down", &one, |wait| wait["spec"]["size"] == 9).await?;
    let observed = cloud.get(&one).await?.unwrap_or_default()["status"]["observedGeneration"].clone();
    ensure!(observed != edited["metadata"]["generation"], "{observed}");
    pair.end(Some(running)).await
}

pub(super) async fn filters_and_sources(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let tasks = Definition::new("tasks", json!({SOURCE: "cloud", FILTER: "True"}));
    let finds = Definition::new("finds", json!({SOURCE: "robot"}));
    pair.define(&tasks).await?;
    pair.define(&finds).await?;
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    let label = |name: &str| json!({"labels": {ROBOT: name}});
    robot.create(&tasks.objects(), &tasks.made("local", json!({}), json!({"size": 9}))).await?;
    let running = pair.start().await?;
    for (name, metadata) in
        [("none", json!({})), ("other", label("r2")), ("local", label("r1")), ("own", label("r1"))]
    {
        cloud.create(&tasks.objects(), &tasks.made(name, metadata, json!({"size": 1}))).await?;
    }
    robot.until_there(&tasks.object("own")).await?;
    robot.until_told(&tasks.name(), "NameTaken").await?;
    let list = robot.get(&tasks.objects()).await?.unwrap_or_default();
    let names: Vec<&Value> =
        list["items"].as_array().into_iter().flatten().map(|task| &task["metadata"]["name"]).collect();
    ensure!(names == ["local", "own"], "{names:?}");
    let local = robot.get(&tasks.object("local")).await?.unwrap_or_default();
    ensure!(local["spec"]["size"] == 9, "{local}");
    let stripped = json!({"metadata": {"labels": {ROBOT: null}}});
    robot.patch(&tasks.object("own"), &stripped).await?;
    let own = |task: &Value| task["metadata"]["labels"][ROBOT] == "r1";
    robot.until("its label is back", &tasks.object("own"), own).await?;
    cloud.patch(&tasks.object("own"), &json!({"metadata": label("r2")})).await?;
    robot.until_gone(&tasks.object("own")).await?;

    cloud.create(&finds.objects(), &finds.made("taken", label("r2"), json!({"size": 7}))).await?;
    robot.create(&finds.objects(), &finds.made("coin", json!({}), json!({"size": 1}))).await?;
    robot.create(&finds.objects(), &finds.made("taken", json!({}), json!({"size": 1}))).await?;
    let copy = cloud.until_there(&finds.object("coin")).await?;
    ensure!(copy["metadata"]["labels"] == json!({ROBOT: "r1"}), "{copy}");
    cloud.patch(&format!("{}/status", finds.object("coin")), &json!({"status": {"worth": 5}})).await?;
    robot.until("the status is down", &finds.object("coin"), |find| find["status"]["worth"] == 5).await?;
    robot.until_told(&finds.name(), "NameTaken").await?;
    robot.delete(&finds.object("coin")).await?;
    cloud.until_gone(&finds.object("coin")).await?;
    let taken = cloud.get(&finds.object("taken")).await?.unwrap_or_default();
    ensure!(taken["spec"]["size"] == 7, "{taken}");
    pair.end(Some(running)).await
}

pub(super) async fn ends(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let toys = Definition::new("ends", json!({SOURCE: "cloud"}));
    pair.define(&toys).await?;
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    let running = pair.start().await?;
    for name in ["held", "again", "dying", "kept"] {
        cloud.create(&toys.objects(), &toys.made(name, json!({}), json!({"size": 1}))).await?;
        robot.until_there(&toys.object(name)).await?;
    }
    // What is made downstream goes; what is deleted there comes back.
    robot.create(&toys.objects(), &toys.made("local", json!({}), json!({}))).await?;
    robot.until_gone(&toys.object("local")).await?;
    let first = robot.get(&toys.object("kept")).await?.unwrap_or_default();
    robot.delete(&toys.object("kept")).await?;
    let another = |toy: &Value| !toy.is_null() && toy["metadata"]["uid"] != first["metadata"]["uid"];
    robot.until("it is back", &toys.object("kept"), another).await?;
    // One that is held upstream is already going downstream, and is not held up by that.
    let held = json!({"metadata": {"finalizers": ["pair.koinon.dev/wait"]}});
    cloud.patch(&toys.object("held"), &held).await?;
    cloud.delete(&toys.object("held")).await?;
    robot.until_gone(&toys.object("held")).await?;
    ensure!(cloud.get(&toys.object("held")).await?.is_some(), "it waits for its own finalizer");
    cloud.patch(&toys.object("held"), &json!({"metadata": {"finalizers": null}})).await?;
    cloud.until_gone(&toys.object("held")).await?;
    // Deleted and made again at once: the new one is there in the end.
    cloud.delete(&toys.object("again")).await?;
    cloud.create(&toys.objects(), &toys.made("again", json!({}), json!({"size": 2}))).await?;
    robot.until("it is the new one", &toys.object("again"), |toy| toy["spec"]["size"] == 2).await?;
    // A copy that takes its time tells nothing to its successor's original.
    let (dying, status) = (toys.object("dying"), format!("{}/status", toys.object("dying")));
    robot.patch(&dying, &json!({"metadata": {"finalizers": ["pair.koinon.dev/slow"]}})).await?;
    robot.patch(&status, &json!({"status": {"phase": "Old"}})).await?;
    cloud.until("the old status is up", &dying, |toy| toy["status"]["phase"] == "Old").await?;
    cloud.delete(&dying).await?;
    let going = |toy: &Value| toy["metadata"].get("deletionTimestamp").is_some();
    robot.until("it is going", &dying, going).await?;
    cloud.create(&toys.objects(), &toys.made("dying", json!({}), json!({"size": 2}))).await?;
    robot.patch(&status, &json!({"status": {"phase": "Going"}})).await?;
    // Something that goes the same way has arrived: then the other would have, too.
    cloud.patch(&toys.object("kept"), &json!({"spec": {"size": 3}})).await?;
    robot.patch(&format!("{}/status", toys.object("kept")), &json!({"status": {"phase": "Mark"}})).await?;
    cloud.until("the mark is up", &toys.object("kept"), |toy| toy["status"]["phase"] == "Mark").await?;
    let original = cloud.get(&dying).await?.unwrap_or_default();
    ensure!(original.get("status").is_none(), "{original}");
    robot.patch(&dying, &json!({"metadata": {"finalizers": null}})).await?;
    robot.until("it is the new one", &dying, |toy| toy["spec"]["size"] == 2).await?;
    // What went while nobody looked is an orphan.
    running.stop().await;
    cloud.delete(&toys.object("kept")).await?;
    let running = pair.start().await?;
    robot.until_gone(&toys.object("kept")).await?;
    ensure!(robot.code(Method::GET, &toys.object("again"), &Value::Null).await? == 200, "the others stay");
    pair.end(Some(running)).await
}
