//! Federated ReplicaSets: the layouts of the design, with room that nodes really have and members that are really away.
//!
//! Which of several equal clusters gets the odd replica depends on the workload's name. The names here are such that it is
//! the one of the design.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::{Value, json};

use super::{Scenario, kubectl};
use crate::league::{Space, seats};
use crate::objects::replica_set;
use crate::world::World;

const EVEN: &str = r#"{"rebalance":true,"clusters":{"*":{"weight":1}}}"#;
const KEEP: &str = r#"{"rebalance":false,"clusters":{"*":{"weight":1}}}"#;
const FAVOURITE: &str = r#"{"clusters":{"a":{"weight":1000000},"b":{"weight":1},"c":{"weight":1}}}"#;
const AT_MOST_20_IN_C: &str =
    r#"{"rebalance":true,"clusters":{"*":{"weight":1},"c":{"maxReplicas":20,"weight":1}}}"#;
const ONLY_A: &str = r#"{"clusters":{"a":{"weight":1}}}"#;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("evenly_and_around_what_is_full", even),
        kubectl("within_minimums_maximums_and_weights", bounds),
        kubectl("a_favourite_spills_over", favourite),
        kubectl("what_runs_stays_where_it_is", kept),
        kubectl("around_members_that_are_away", away),
        kubectl("to_a_member_that_joins_and_from_one_that_leaves", membership),
    ]
}

/// A ReplicaSet with preferences, whose pods take the seats that the scenario hands out.
fn set(space: &Space, name: &str, replicas: i32, preferences: &str) -> Value {
    let mut set = replica_set(name, replicas);
    set["metadata"]["annotations"] = json!({"federation.kubernetes.io/replica-set-preferences": preferences});
    let one = json!({seats(&space.room.name, name): "1"});
    set["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": one, "limits": one});
    set
}

async fn create(
    space: &Space,
    name: &str,
    replicas: i32,
    preferences: &str,
    room: &[(&str, i64)],
) -> anyhow::Result<String> {
    space.give_room(name, room).await?;
    space.apply(&set(space, name, replicas, preferences)).await?;
    Ok(format!("replicaset/{name}"))
}

async fn even(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "spread-even").await?;
    let api = create(&space, "api", 50, EVEN, &[]).await?;
    let full = create(&space, "full", 50, EVEN, &[("c", 6)]).await?;
    let tight = create(&space, "tight", 50, AT_MOST_20_IN_C, &[("b", 0)]).await?;
    space.until_layout(&api, "a=16 b=17 c=17").await?;
    // Two of those that found no room stay and wait.
    space.until_layout(&full, "a=22 b=22 c=6/8").await?;
    space.until_layout(&tight, "a=30 b=0/2 c=20").await?;
    let found = space.until_available(&full, 50).await?;
    ensure!(found["status"]["replicas"] == 50 && found["status"]["readyReplicas"] == 50, "{found}");
    let event = space.until_event("full", "Moved: a=22 b=22 c=6").await?;
    ensure!(event.contains("it has room for 6"), "{event}");
    let described = space.kubectl(&["describe", "replicaset", "full"]).await?;
    ensure!(described.contains("Replicas:     50 current / 50 desired"), "{described}");
    ensure!(described.contains("koinon.dev/placement:") && described.contains("Moved"), "{described}");
    // Once they find room, the others come back.
    space.give_room("full", &[]).await?;
    space.until_layout(&full, "a=16 b=17 c=17").await?;
    space.leave().await
}

async fn bounds(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "spread-bounds").await?;
    let two = r#"{"rebalance":true,"clusters":{"*":{"maxReplicas":2,"weight":1}}}"#;
    let tight = create(&space, "tight", 50, two, &[]).await?;
    space.until_layout(&tight, "a=2 b=2 c=2").await?;
    for (preferences, layout) in [
        (r#"{"rebalance":true,"clusters":{"*":{"minReplicas":20}}}"#, "a=20 b=20 c=10"),
        (r#"{"rebalance":true,"clusters":{"*":{"minReplicas":2}}}"#, "a=2 b=2 c=2"),
        (r#"{"clusters":{"a":{"weight":2},"b":{"weight":1},"c":{"weight":1}}}"#, "a=25 b=13 c=12"),
        (r#"{"rebalance":true,"clusters":{"*":{"minReplicas":2,"maxReplicas":2}}}"#, "a=2 b=2 c=2"),
    ] {
        space.prefer("tight", preferences).await?;
        space.until_layout(&tight, layout).await?;
    }
    // What makes no sense is explained, and changes nothing.
    space.prefer("tight", r#"{"clusters":{"a":{"weigth":1}}}"#).await?;
    space.until_event("tight", "PreferencesMalformed: ").await?;
    space.until_layout(&tight, "a=2 b=2 c=2").await?;
    space.leave().await
}

async fn favourite(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "spread-favourite").await?;
    let web = create(&space, "web", 50, FAVOURITE, &[]).await?;
    let full = create(&space, "full", 50, FAVOURITE, &[("a", 40)]).await?;
    space.until_layout(&web, "a=50").await?;
    space.until_layout(&full, "a=40 b=5 c=5").await?;
    space.until_available(&full, 50).await?;
    space.leave().await
}

async fn kept(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.shared().await;
    let space = Space::open(league.clone(), "spread-kept").await?;
    for (name, runs, room) in [("web", 20, &[][..]), ("more", 20, &[("c", 6)]), ("api", 30, &[("c", 6)])] {
        create(&space, name, runs, ONLY_A, room).await?;
    }
    for (name, runs, layout) in
        [("web", 20, "a=20 b=15 c=15"), ("more", 20, "a=22 b=22 c=6"), ("api", 30, "a=30 b=14 c=6")]
    {
        let named = format!("replicaset/{name}");
        space.until_layout(&named, &format!("a={runs}")).await?;
        space.apply(&set(&space, name, 50, KEEP)).await?;
        space.until_layout(&named, layout).await?;
    }
    space.leave().await
}

/// Nobody is told that a member is away: what was open stays open, and is silent.
async fn away(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _alone = league.alone().await;
    let space = Space::open(league.clone(), "spread-offline").await?;
    let wire = |name: &str| &league.members[name].wire;
    let shop = create(&space, "shop", 50, EVEN, &[]).await?;
    space.until_layout(&shop, "a=16 b=17 c=17").await?;
    space.until_available(&shop, 50).await?;
    wire("b").cut();
    wire("c").cut();
    // What they run is left to them; the federation does not count it.
    space.until_layout(&shop, "a=50 b=17 c=17").await?;
    space.until_event("shop", "ClusterOffline: cluster b is offline").await?;
    space.until_available(&shop, 50).await?;
    wire("b").heal();
    wire("c").heal();
    space.until_layout(&shop, "a=16 b=17 c=17").await?;
    space.until_event("shop", "ClusterBack: cluster c is back").await?;

    space.prefer("shop", AT_MOST_20_IN_C).await?;
    space.until_available(&shop, 50).await?;
    wire("b").cut();
    space.until_layout(&shop, "a=30 b=17 c=20").await?;
    wire("a").cut();
    space.until(&shop, "only c is counted", |found| found["status"]["availableReplicas"] == 20).await?;
    let members = league.koinon(&["members"]).await?;
    ensure!(members.matches("Unreachable").count() == 2, "{members}");
    wire("a").heal();
    wire("b").heal();
    space.until_layout(&shop, "a=16 b=17 c=17").await?;
    space.leave().await
}

async fn membership(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _alone = league.alone().await;
    let space = Space::open(league.clone(), "membership").await?;
    let web = create(&space, "web", 12, EVEN, &[]).await?;
    space.until_layout(&web, "a=4 b=4 c=4").await?;
    league.koinon(&["unjoin", "c"]).await?;
    // Who left keeps what it runs; it is no concern of the federation any more.
    space.until_layout(&web, "a=6 b=6 c=4").await?;
    space.until_available(&web, 12).await?;
    ensure!(!league.koinon(&["members"]).await?.contains("\nc "), "it is no member");
    let said = league.join("c").await?;
    ensure!(said.contains("cluster c joined"), "{said}");
    space.until_layout(&web, "a=4 b=4 c=4").await?;
    space.leave().await
}
