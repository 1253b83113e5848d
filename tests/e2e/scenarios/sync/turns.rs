//! Who syncs: replicas beside one robot that take turns, and two clusters that go by one name.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::links::{admin, answers, free_address, refused, synced};
use super::pair::{Definition, FILTER, Pair, SOURCE, Side};
use super::proxy::Proxy;
use super::rights::{kubeconfig_with, token};
use crate::http::ask;
use crate::wait::{Look, until};
use crate::world::World;

/// The Lease by which replicas take turns.
const TURNS: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/koinon-sync";

/// The token beside the robot is replaced. The turn, the events and the sync go on without a restart.
pub(super) async fn the_robots_own_credentials(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let toys = Definition::new("locks", json!({SOURCE: "cloud"}));
    pair.define(&toys).await?;
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    let (account, binding) = admin(&robot, "pair-syncer").await?;
    let kubeconfig = pair.file("robot.kubeconfig");
    let write = async || -> anyhow::Result<()> {
        let written =
            kubeconfig_with(&robot.cluster.kubeconfig, &token(&robot, "default", "pair-syncer").await?)?;
        std::fs::write(&kubeconfig, written).context("the kubeconfig with the token")
    };
    write().await?;
    let running = pair.start_at("r1", &kubeconfig, &[]).await?;
    for round in 1..=3 {
        let name = format!("toy-{round}");
        cloud.create(&toys.objects(), &toys.made(&name, json!({}), json!({}))).await?;
        robot.until_there(&toys.object(&name)).await?;
        // An event is written with the new token, too.
        let filter = format!("maybe-{round}");
        robot.patch(&toys.path(), &json!({"metadata": {"annotations": {FILTER: filter}}})).await?;
        let told = |events: &Value| events.to_string().contains(&filter);
        robot.until("the wrong filter is told", "/api/v1/namespaces/default/events", told).await?;
        robot.patch(&toys.path(), &json!({"metadata": {"annotations": {FILTER: null}}})).await?;
        robot.delete(&account).await?;
        refused(&robot, &kubeconfig).await?;
        // Nobody can have renewed it since.
        let before = robot.until_there(TURNS).await?["spec"]["renewTime"].clone();
        let (collection, name) = account.rsplit_once('/').context("a path")?;
        robot.create(collection, &json!({"metadata": {"name": name}})).await?;
        write().await?;
        let renewed = |lease: &Value| {
            lease["spec"]["renewTime"] != before && lease["spec"]["holderIdentity"].is_string()
        };
        robot.until("the turn is kept or taken again", TURNS, renewed).await?;
    }
    robot.delete(&binding).await?;
    robot.delete(&account).await?;
    pair.end(Some(running)).await
}

/// A replica that cannot reach the robot loses its turn, and says so for as long as another has it.
pub(super) async fn a_turn_is_lost(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let toys = Definition::new("turns", json!({SOURCE: "cloud"}));
    pair.define(&toys).await?;
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    let link = Proxy::to(&robot.cluster.kubeconfig).await?;
    let kubeconfig = pair.file("robot-link.kubeconfig");
    link.kubeconfig(&robot.cluster.kubeconfig, &kubeconfig)?;
    let (one, other) = (free_address()?, free_address()?);
    let first = pair.start_at("r1", &kubeconfig, &["--metrics", &one]).await?;
    answers(&one, "/readyz?leader", 200).await?;
    let second = pair.start_at("r1-other", &robot.cluster.kubeconfig, &["--metrics", &other]).await?;
    answers(&other, "/readyz", 200).await?;
    answers(&other, "/readyz?leader", 503).await?;
    cloud.create(&toys.objects(), &toys.made("ball", json!({}), json!({}))).await?;
    robot.until_there(&toys.object("ball")).await?;
    link.cut();
    answers(&other, "/readyz?leader", 200).await?;
    // Whoever waits for its turn is fine, whatever went wrong while it had one.
    answers(&one, "/readyz", 200).await?;
    answers(&one, "/readyz?leader", 503).await?;
    ensure!(synced(&one).await?.is_empty(), "it does not sync");
    link.heal();
    cloud.create(&toys.objects(), &toys.made("cube", json!({}), json!({}))).await?;
    robot.until_there(&toys.object("cube")).await?;
    let (status, why) = ask(&one, "/readyz?leader").await?;
    ensure!(status.contains(" 503 "), "{status} {why}");
    second.stop().await;
    answers(&one, "/readyz?leader", 200).await?;
    cloud.create(&toys.objects(), &toys.made("cone", json!({}), json!({}))).await?;
    robot.until_there(&toys.object("cone")).await?;
    pair.end(Some(first)).await
}

/// A second cluster under the same robot name waits, and both the robot and the cloud say so.
pub(super) async fn one_name_for_two(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let toys = Definition::new("names", json!({SOURCE: "cloud"}));
    pair.define(&toys).await?;
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    let newcomer = Side::open(&pair.world, "c").await?;
    toys.make(&newcomer).await?;
    let running = pair.start().await?;
    cloud.create(&toys.objects(), &toys.made("ball", json!({}), json!({}))).await?;
    robot.until_there(&toys.object("ball")).await?;
    let rival = pair.start_at("r1-rival", &newcomer.cluster.kubeconfig, &[]).await?;
    let told = newcomer.until_told(&toys.name(), "RobotNameTaken").await?;
    ensure!(told.contains("under the robot name r1 already"), "{told}");
    until("the cloud sees that the name is contested", async || {
        let shown = pair.status_of_robots().await?;
        let one = &shown[0];
        let complaint = one["complaints"][0].as_str().unwrap_or_default();
        let contested = one["name"] == "r1" && complaint.contains("wants the name of cluster");
        Ok(if contested { Look::Found(()) } else { Look::NotYet(shown.to_string()) })
    })
    .await?;
    ensure!(newcomer.get(&toys.object("ball")).await?.is_none(), "nothing is synced there");
    cloud.create(&toys.objects(), &toys.made("cube", json!({}), json!({}))).await?;
    robot.until_there(&toys.object("cube")).await?;
    rival.stop().await;
    newcomer.delete(&toys.path()).await?;
    newcomer.until_gone(&toys.path()).await?;
    pair.end(Some(running)).await
}
