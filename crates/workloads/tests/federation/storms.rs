//! Whatever happens on the way, the end is the one that users asked for, nothing is counted twice, and then there is silence.
//!
//! `KOINON_SCHEDULES` is the number of random schedules, or a range of them (`300..600`), `KOINON_SCHEDULE` a single one to
//! look at.

use std::time::Duration;

use serde_json::{Value, json};

use crate::chaos::Chance;
use crate::harness::{DEPLOY, Deploy, PREFERENCES, WEB, World, room};

const SCHEDULES: u64 = 4;
/// Longer than the longest pause after which something happens by itself.
const QUIET: Duration = Duration::from_secs(130);
const EVEN: &str = r#"{"rebalance":true}"#;

fn schedules() -> Vec<u64> {
    let said = |name: &str| std::env::var(name).ok();
    let number = |text: &str| text.parse::<u64>().ok();
    if let Some(one) = said("KOINON_SCHEDULE").and_then(|text| number(&text)) {
        return vec![one];
    }
    let range = said("KOINON_SCHEDULES").and_then(|text| match text.split_once("..") {
        Some((first, end)) => Some(number(first)?..number(end)?),
        None => Some(0..number(&text)?),
    });
    range.unwrap_or(0..SCHEDULES).collect()
}

#[tokio::test(start_paused = true)]
async fn the_end_is_the_same_whatever_happens_on_the_way() {
    for seed in schedules() {
        eprintln!("schedule {seed}");
        let mut world = World::new(&[("a", 110), ("b", 110), ("c", 6)]).await;
        storm(&mut world, seed).await;
        settle(&world, seed).await;
    }
}

/// Two minutes in which users change their minds, members come and go, the role is killed, and calls fail.
async fn storm(world: &mut World, seed: u64) {
    let mut chance = Chance::new(seed);
    world.chaos(Some(seed));
    world.create_set(12, Some(EVEN)).await;
    let preferences = json!({"federation.kubernetes.io/deployment-preferences": EVEN});
    world.create_deployment(Deploy { replicas: 6, annotations: preferences, ..Deploy::default() }).await;
    for round in 0..24 {
        let member = ["a", "b", "c"][usize::try_from(chance.below(3)).unwrap_or_default()];
        match chance.below(10) {
            0 => {
                let replicas = 4 + chance.below(20);
                world.federation.patch(WEB, json!({"spec": {"replicas": replicas}})).await;
            }
            1 => {
                let only = format!(r#"{{"rebalance":true,"clusters":{{"{member}":{{"weight":1}}}}}}"#);
                world.federation.patch(WEB, json!({"metadata": {"annotations": {PREFERENCES: only}}})).await;
            }
            2 => set_image(world, &format!("web:{round}")).await,
            3 => {
                let replicas = 3 + chance.below(6);
                world.federation.patch(DEPLOY, json!({"spec": {"replicas": replicas}})).await;
            }
            4 => world.members[member].wire.cut(),
            5 => world.members[member].wire.heal(),
            6 => {
                world.kill().await;
                world.start().await;
                world.chaos(Some(seed ^ round));
            }
            7 => drop(world.members[member].send("DELETE", WEB, "application/json", Value::Null).await),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(500 + chance.below(9_000))).await;
    }
}

async fn set_image(world: &World, image: &str) {
    let containers = json!([{"name": "web", "image": image}]);
    world.federation.patch(DEPLOY, json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
}

/// The last words are always the same, and so is what comes of them.
async fn settle(world: &World, seed: u64) {
    world.chaos(None);
    for site in world.members.values() {
        site.wire.heal();
    }
    let change = json!({"metadata": {"annotations": {PREFERENCES: EVEN}}, "spec": {"replicas": 20}});
    world.federation.patch(WEB, change).await;
    world.federation.patch(DEPLOY, json!({"spec": {"replicas": 6}})).await;
    set_image(world, "web:last").await;
    let all_there = |one: &Value| {
        let status = &one["status"];
        let wanted = &one["spec"]["replicas"];
        status["observedGeneration"] == one["metadata"]["generation"]
            && status["availableReplicas"] == *wanted
            && status["replicas"] == *wanted
    };
    world.until(WEB, "all are available", all_there).await;
    world
        .until(DEPLOY, "all are updated", |one| all_there(one) && one["status"]["updatedReplicas"] == 6)
        .await;
    world.rest_for(QUIET).await;
    // c has room for six in all: what one workload has there, the other has not.
    for (path, wanted) in [(WEB, 20), (DEPLOY, 6)] {
        let federated = world.federation.get(path).await.unwrap();
        assert_eq!(world.available(path).await, wanted, "schedule {seed}: {federated:#}");
        assert_eq!(federated["status"]["availableReplicas"], wanted, "schedule {seed}");
        assert_eq!(federated["status"]["replicas"], wanted, "schedule {seed}");
    }
    for (name, site) in &world.members {
        if let Some(found) = site.get(DEPLOY).await.filter(|found| found["spec"]["replicas"] != 0) {
            let image = &found["spec"]["template"]["spec"]["containers"][0]["image"];
            assert_eq!(image, "web:last", "schedule {seed}: {name}");
        }
    }
}

/// Ten members with two hundred pods, of which one is slow, one is lost half-way and one joins: at every moment as many are
/// available as must be, and no more are there than may be.
#[tokio::test(start_paused = true)]
async fn the_budget_holds_over_a_large_fleet() {
    let names: Vec<String> = (0..11).map(|number| format!("m{number:02}")).collect();
    let mut world = World::bare(&[]).await;
    for (number, name) in names.iter().enumerate() {
        let mut settings = room(110);
        if number == 3 {
            settings.ready_after = Duration::from_secs(20);
        }
        world.add(name, settings).await;
    }
    world.start().await;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.join(&names[..10]).await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 8, "maxSurge": 6}});
    let annotations = json!({"koinon.dev/max-concurrent-clusters": "3"});
    world.create_deployment(Deploy { replicas: 200, strategy, annotations, ..Deploy::default() }).await;
    let available = |one: &Value| one["status"]["availableReplicas"] == 200;
    world.until(DEPLOY, "all are available", available).await;
    world.rest_for(Duration::from_secs(65)).await;

    set_image(&world, "web:2").await;
    let (mut samples, mut lost, mut joined) = (0, false, false);
    loop {
        let deployment = world.federation.get(DEPLOY).await.unwrap();
        let updated = deployment["status"]["updatedReplicas"].as_i64().unwrap_or(0);
        if updated > 60 && !lost {
            world.members["m07"].wire.cut();
            lost = true;
        }
        if updated > 100 && !joined {
            world.join(&names).await;
            joined = true;
        }
        // Who is lost runs on: what is really there counts, whoever can see it.
        let there = world.available(DEPLOY).await;
        assert!(there >= 192, "{there} of 200 are available after {samples} samples");
        let pods = world.pods(DEPLOY).await;
        let beyond = if lost { 20 } else { 0 };
        assert!(pods <= 206 + beyond, "{pods} of 200 are there after {samples} samples");
        samples += 1;
        let status = &deployment["status"];
        let done = status["updatedReplicas"] == 200 && status["availableReplicas"] == 200;
        if lost && joined && done {
            break;
        }
        assert!(samples < 20_000, "{deployment:#}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(samples > 100, "the rollout was hardly seen: {samples} samples");
    world.members["m07"].wire.heal();
    let back = |one: &Value| {
        one["status"]["updatedReplicas"] == 200 && one["status"]["replicas"] == 200 && available(one)
    };
    world.until(DEPLOY, "the lost one is back and updated", back).await;
    world.rest_for(QUIET).await;
    let image = &world.members["m07"].get(DEPLOY).await.unwrap()["spec"]["template"]["spec"]["containers"][0]
        ["image"];
    assert_eq!(image, "web:2");
}
