//! What is told: an event, a log line and a number, each time it happens and for as long as it lasts.

use koinon_simulation::Write;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;

use crate::world::{ROBOT, SOURCE, SUBTREE, SYNCER, TOYS, Toys, World, made, toy};

/// What the metrics port would show.
fn metrics(world: &World) -> String {
    let mut registry = Registry::default();
    world.handle.as_ref().unwrap().register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

fn reports(world: &World, reason: &str) -> u64 {
    let start = format!("koinon_sync_reports_total{{crd=\"toys.play.io\",reason=\"{reason}\"}} ");
    metrics(world).lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or(0)
}

fn problems(world: &World) -> String {
    let view = world.handle.as_ref().unwrap().view();
    view.crds["toys.play.io"].problems.iter().map(|(reason, why)| format!("{reason}: {why}\n")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_taken_name_is_told_each_time_and_shown_while_it_lasts() {
    let world = World::running(&Toys::filtered()).await;
    let own = || json!({"labels": {ROBOT: "r1"}});
    for round in 1..=2 {
        for name in ["ball", "cube"] {
            world.robot.create(TOYS, made(name, json!({}), json!({"size": 9}))).await;
            world.cloud.create(TOYS, made(name, own(), json!({"size": 1}))).await;
        }
        world.robot.until_told("NameTaken").await;
        world.rest().await;
        let shown = problems(&world);
        assert!(shown.starts_with("NameTaken: default/ball: ") && shown.contains("and 1 more"), "{shown}");
        assert_eq!(reports(&world, "NameTaken"), 2 * round);
        assert!(
            metrics(&world).contains("koinon_sync_problems{crd=\"toys.play.io\",reason=\"NameTaken\"} 1")
        );
        // One way out is another name downstream, the other is that nothing is wanted there.
        world.robot.delete(&toy("ball")).await;
        world.robot.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["spec"]["size"] == 1)).await;
        world.rest().await;
        let shown = problems(&world);
        assert!(shown.starts_with("NameTaken: default/cube: ") && !shown.contains("more"), "{shown}");
        for name in ["ball", "cube"] {
            world.cloud.delete(&toy(name)).await;
        }
        world.robot.until_gone(&toy("ball")).await;
        world.rest().await;
        assert_eq!(problems(&world), "");
        world.robot.delete(&toy("cube")).await;
        world.rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_out_of_sight_is_shown_until_it_is_free() {
    let world = World::running(&Toys::robots()).await;
    world.cloud.create(TOYS, made("ball", json!({"labels": {ROBOT: "r2"}}), json!({"size": 7}))).await;
    world.robot.create(TOYS, made("ball", json!({}), json!({"size": 1}))).await;
    world.robot.until_told("NameTaken").await;
    assert!(problems(&world).starts_with("NameTaken: default/ball: the cloud has an object of this name"));
    world.cloud.delete(&toy("ball")).await;
    world.cloud.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["spec"]["size"] == 1)).await;
    world.rest().await;
    assert_eq!(problems(&world), "");
}

#[tokio::test(start_paused = true)]
async fn a_status_without_the_subtree_is_shown_until_it_is_put_right() {
    let toys = Toys { status: false, ..Toys::new(json!({SOURCE: "cloud", SUBTREE: "robot"})) };
    let world = World::empty().await;
    let mut crd = toys.crd();
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/status";
    *crd.pointer_mut(schema).unwrap() = json!({"x-kubernetes-preserve-unknown-fields": true});
    for side in [&world.cloud, &world.robot] {
        side.create(crate::world::CRDS, crd.clone()).await;
    }
    let mut world = world;
    world.start();
    for name in ["ball", "cube"] {
        world.cloud.create(TOYS, made(name, json!({}), json!({}))).await;
        world.robot.until_there(&toy(name)).await;
        world.robot.patch(&toy(name), json!({"status": "a word"})).await;
    }
    world.robot.until_told("StatusUnfit").await;
    world.rest().await;
    let shown = problems(&world);
    assert!(shown.starts_with("StatusUnfit: default/ball: ") && shown.contains("and 1 more"), "{shown}");
    world.robot.patch(&toy("ball"), json!({"status": {"robot": 1}})).await;
    world.cloud.delete(&toy("cube")).await;
    world.rest().await;
    assert_eq!(problems(&world), "");
    assert_eq!(reports(&world, "StatusUnfit"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_somebody_keeps_changing_is_counted() {
    let world = World::running(&Toys::plain()).await;
    world.cloud.create(TOYS, made("ball", json!({}), json!({"size": 1}))).await;
    world.robot.until_there(&toy("ball")).await;
    for size in 0..6 {
        world.robot.patch(&toy("ball"), json!({"spec": {"size": 10 + size}})).await;
        world.robot.until(&toy("ball"), |ball| ball.is_some_and(|ball| ball["spec"]["size"] == 1)).await;
    }
    world.robot.until_told("CopyContested").await;
    assert_eq!(reports(&world, "CopyContested"), 1);
}

/// One CRD with very many objects, each of which takes its time, and another CRD beside it.
#[tokio::test(start_paused = true)]
async fn very_many_objects_hold_up_no_other_crd() {
    const MANY: usize = 5_000;
    let world = World::with(&Toys::plain()).await;
    let mut games = Toys::plain().crd();
    games["metadata"]["name"] = "games.play.io".into();
    games["spec"]["names"] =
        json!({"plural": "games", "singular": "game", "kind": "Game", "listKind": "GameList"});
    for side in [&world.cloud, &world.robot] {
        side.create(crate::world::CRDS, games.clone()).await;
    }
    for number in 0..MANY {
        world.cloud.create(TOYS, made(&format!("toy-{number}"), json!({}), json!({"size": 1}))).await;
    }
    let slow = |request: &Write| {
        (request.method == "POST" && request.path.ends_with("/toys"))
            .then_some(koinon_simulation::Fault::Delay(std::time::Duration::from_secs(2)))
    };
    world.network.single_out(SYNCER, "robot", slow);
    let mut world = world;
    world.start();
    world.robot.until(TOYS, |toys| toys.is_some_and(|toys| toys["items"][0].is_object())).await;
    let path = "/apis/play.io/v1/namespaces/default/games";
    for number in 0..5 {
        let began = tokio::time::Instant::now();
        let game = json!({
            "apiVersion": "play.io/v1", "kind": "Game", "metadata": {"name": format!("game-{number}")}, "spec": {},
        });
        world.cloud.create(path, game).await;
        world.robot.until_there(&format!("{path}/game-{number}")).await;
        assert!(began.elapsed() < std::time::Duration::from_secs(1), "{:?}", began.elapsed());
    }
    let left = world.handle.as_ref().unwrap().view().crds["toys.play.io"].pending;
    assert!(left > MANY / 2, "only {left} were left: nothing was in the way");
}
