//! Any order of leader changes, partitions, edits and crashes, by seed: no two federate once they know of each
//! other, in the end every follower equals the leader, and then there is silence.
//!
//! `KOINON_SCHEDULES=300` runs more of them, `KOINON_SEED=17` one alone.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::harness::{ALL_WELL, CLUSTER, CONFIGS, POLICIES, World, config, conflicts_of, get_with, policy};
use crate::wire::{Way, Witness};

const NAMES: [&str; 3] = ["a", "b", "c"];
const SCHEDULES: u64 = 12;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % sides as u64).unwrap()
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.roll(NAMES.len())]
    }
}

/// Complains about writes to others by a leader whose status names a rival that still is one.
fn witness(from: &str, world: &World, complaints: &Arc<Mutex<Vec<String>>>) -> Witness {
    let clients: Vec<(String, Client)> =
        world.clusters.iter().map(|(name, cluster)| (name.clone(), cluster.client.clone())).collect();
    let (from, complaints) = (from.to_owned(), complaints.clone());
    Arc::new(move |write| {
        let (clients, from, complaints) = (clients.clone(), from.clone(), complaints.clone());
        Box::pin(async move {
            let mut seen = std::collections::BTreeMap::new();
            for (name, client) in clients {
                seen.insert(name, get_with(&client, CLUSTER).await.unwrap_or_default());
            }
            let leads = |name: &str| seen.get(name).is_some_and(|one| one["spec"]["isLeader"] == true);
            for rival in conflicts_of(&seen[&from]) {
                if leads(&from) && leads(&rival) {
                    complaints.lock().push(format!("{from} knows that {rival} leads too, and does {write}"));
                }
            }
        })
    })
}

async fn step(world: &mut World, dice: &mut Dice, number: u64) {
    let name = dice.name();
    let other = dice.name();
    match dice.roll(16) {
        0 | 1 => {
            let leads = world.at(name).is_leader().await;
            world.at(name).set_leader(!leads).await;
        }
        2 | 3 => world.set_way(name, other, Way::Cut),
        4 => world.set_way(name, other, Way::Refused),
        5 => world.set_way(name, other, Way::Slow(Duration::from_millis(200 * dice.roll(30) as u64))),
        6 => world.set_way(name, other, Way::Faulty(2 + dice.roll(6))),
        7 | 8 => world.set_ways(name, Way::Open),
        9 if world.runs(name) => world.fuse(name).after(1 + dice.roll(20)),
        10 => {
            world.crash(name).await;
            world.start(name);
        }
        11 => world.at(name).delete(&format!("{CONFIGS}/gc-1")).await,
        12 => drop(world.at(name).try_create(CONFIGS, config("extra", number)).await),
        13 => drop(world.at(name).try_create(POLICIES, policy("global-gdp", number)).await),
        _ => {
            let patch = json!({"spec": {"refreshInterval": number}});
            match world.at(name).get(&format!("{CONFIGS}/gc-1")).await {
                Some(_) => drop(world.at(name).patch(&format!("{CONFIGS}/gc-1"), patch).await),
                None => drop(world.at(name).try_create(CONFIGS, config("gc-1", number)).await),
            }
        }
    }
    tokio::time::sleep(Duration::from_millis([0, 5, 100, 3_000, 20_000][dice.roll(5)])).await;
}

async fn schedule(seed: u64) {
    let mut dice = Dice(seed);
    let mut world = World::settled(&NAMES).await;
    let complaints = Arc::new(Mutex::new(Vec::new()));
    for from in NAMES {
        for to in NAMES.into_iter().filter(|to| *to != from) {
            *world.wire(from, to).witness.lock() = Some(witness(from, &world, &complaints));
        }
    }
    for number in 0..25 {
        step(&mut world, &mut dice, number).await;
        assert_eq!(*complaints.lock(), Vec::<String>::new());
    }
    for name in NAMES {
        world.set_ways(name, Way::Open);
        world.wire(name, name).way.send_replace(Way::Open);
        world.crash(name).await;
        world.start(name);
    }
    // What was slow on its way arrives.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let leader = dice.name();
    for name in NAMES.into_iter().filter(|name| *name != leader) {
        world.at(name).set_leader(false).await;
    }
    world.at(leader).set_leader(true).await;
    for (path, object) in [(CONFIGS, config("gc-1", 7)), (POLICIES, policy("global-gdp", 7))] {
        let name = object["metadata"]["name"].clone();
        for item in world.at(leader).items(path).await {
            if item["metadata"]["name"] != name {
                let name = item["metadata"]["name"].as_str().unwrap().to_owned();
                world.at(leader).delete(&format!("{path}/{name}")).await;
            }
        }
        drop(world.at(leader).try_create(path, object).await);
    }
    let wanted: Vec<Value> = world.at(leader).carried().await;
    world.equal(leader).await;
    world.says(leader, &ALL_WELL).await;
    assert_eq!(world.at(leader).carried().await, wanted, "nothing of the leader's was lost");
    world.rest().await;
    assert_eq!(*complaints.lock(), Vec::<String>::new());
}

#[test]
fn any_schedule_ends_well() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("KOINON_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KOINON_SCHEDULES").unwrap_or(SCHEDULES),
    };
    for seed in seeds {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let ended =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(schedule(seed))));
        if let Err(panic) = ended {
            eprintln!("this was KOINON_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
