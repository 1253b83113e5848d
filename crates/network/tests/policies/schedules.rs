//! Anything in any order: users in every cluster, partitions, supervisors that die after any of their writes or lose
//! their lead. Afterwards all clusters agree, nothing is lost or back from the dead, and there is silence.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;

use crate::harness::{ACNPS, ANPS, World, acnp, anp};

const NAMES: [&str; 3] = ["a", "b", "c"];
const SUPERVISORS: [&str; 2] = ["a", "b"];
const STEPS: i64 = 24;
const SCHEDULES: u64 = 8;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % sides as u64).unwrap()
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len())]
    }
}

/// What users did to one policy.
#[derive(Debug, Default)]
struct History {
    /// What was ever said.
    said: BTreeSet<i64>,
    removed: bool,
    /// The last thing that was done was a removal, long after everything else and with everything at rest.
    cleanly: bool,
}

const POLICIES: [(&str, &str); 3] = [(ACNPS, "x"), (ACNPS, "y"), (ANPS, "z")];

fn path(policy: (&str, &str)) -> String {
    format!("{}/{}", policy.0, policy.1)
}

async fn edit(world: &World, history: &mut History, policy: (&str, &str), name: &str, says: i64) {
    let cluster = world.at(name);
    let kind = "application/merge-patch+json";
    let patch = json!({"spec": {"priority": says}});
    let done = match cluster.send("PATCH", &path(policy), kind, patch).await {
        Ok(_) => true,
        Err(_) => {
            let body = if policy.0 == ANPS { anp(policy.1, says) } else { acnp(policy.1, says) };
            cluster.send("POST", policy.0, "application/json", body).await.is_ok()
        }
    };
    if done {
        history.said.insert(says);
        history.cleanly = false;
    }
}

async fn remove(world: &World, history: &mut History, policy: (&str, &str), name: &str) -> bool {
    let done = world.at(name).send("DELETE", &path(policy), "application/json", json!(null)).await.is_ok();
    history.removed |= done;
    done
}

async fn step(world: &mut World, dice: &mut Dice, histories: &mut BTreeMap<&str, History>, number: i64) {
    let (name, policy, supervisor) = (dice.of(&NAMES), dice.of(&POLICIES), dice.of(&SUPERVISORS));
    let history = histories.entry(policy.1).or_default();
    match dice.roll(14) {
        0..=4 => edit(world, history, policy, name, 2 + number).await,
        5 | 6 => drop(remove(world, history, policy, name).await),
        7 | 8 if world.processes.contains_key(supervisor) => world.wire(supervisor, name).cut(),
        9 if world.processes.contains_key(supervisor) => world.wire(supervisor, name).heal(),
        10 if world.processes.contains_key(supervisor) => {
            world.processes[supervisor].log.die_after(1 + dice.roll(6));
        }
        11 => world.kill(supervisor).await,
        12 => {
            world.kill(supervisor).await;
            world.start(supervisor).await;
        }
        13 => {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}});
            let cluster = world.at(name);
            if cluster
                .send("DELETE", "/api/v1/namespaces/prod", "application/json", json!(null))
                .await
                .is_err()
            {
                let _ = cluster.send("POST", "/api/v1/namespaces", "application/json", namespace).await;
            }
        }
        _ => {}
    }
    tokio::time::sleep(Duration::from_millis(dice.of(&[0, 5, 50, 1_000, 8_000, 60_000]))).await;
}

/// Everything works again.
async fn heal(world: &mut World) {
    for supervisor in SUPERVISORS {
        world.kill(supervisor).await;
    }
    for supervisor in SUPERVISORS {
        world.start(supervisor).await;
    }
    for name in NAMES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}});
        while world
            .at(name)
            .get("/api/v1/namespaces/prod")
            .await
            .is_none_or(|found| found["metadata"].get("deletionTimestamp").is_some())
        {
            let _ = world
                .at(name)
                .send("POST", "/api/v1/namespaces", "application/json", namespace.clone())
                .await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    world.until_forgotten().await;
    world.rest().await;
}

async fn check(world: &World, histories: &BTreeMap<&str, History>) {
    for policy in POLICIES {
        let shows = world.shows(&path(policy)).await;
        let mut all = shows.split(' ').map(|one| one.split_once('=').unwrap().1);
        let first = all.next().unwrap().to_owned();
        assert!(all.all(|one| one == first), "they do not agree on {}: {shows}", policy.1);
        let Some(history) = histories.get(policy.1) else { continue };
        match first.parse::<i64>() {
            Ok(says) => {
                assert!(history.said.contains(&says), "nobody said {says}: {history:?}");
                assert!(!history.cleanly, "{} is back from the dead: {shows}", policy.1);
            }
            // A namespace that goes in every cluster takes the last copy with it.
            Err(_) => {
                let lost = !history.said.is_empty() && !history.removed && policy.0 == ACNPS;
                assert!(!lost, "{} was lost: {history:?}", policy.1);
            }
        }
    }
}

async fn schedule(seed: u64) {
    let mut dice = Dice(seed);
    let mut world = World::bare(&NAMES).await;
    for supervisor in SUPERVISORS {
        world.start(supervisor).await;
    }
    let mut histories = BTreeMap::new();
    for number in 0..STEPS {
        step(&mut world, &mut dice, &mut histories, number).await;
    }
    heal(&mut world).await;
    check(&world, &histories).await;
    // With everything at rest a removal is for good, whatever happens then.
    for policy in POLICIES {
        let history = histories.entry(policy.1).or_default();
        let name = dice.of(&NAMES);
        history.cleanly = remove(&world, history, policy, name).await;
    }
    for _ in 0..6 {
        let (name, supervisor) = (dice.of(&NAMES), dice.of(&SUPERVISORS));
        match dice.roll(4) {
            0 if world.processes.contains_key(supervisor) => world.wire(supervisor, name).cut(),
            1 if world.processes.contains_key(supervisor) => {
                world.processes[supervisor].log.die_after(1 + dice.roll(4));
            }
            _ => {
                world.kill(supervisor).await;
                world.start(supervisor).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(dice.of(&[5, 50, 1_000, 20_000]))).await;
    }
    heal(&mut world).await;
    check(&world, &histories).await;
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
