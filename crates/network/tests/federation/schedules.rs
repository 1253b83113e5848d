//! Whatever happens in whatever order: once all is healed, every cluster has what follows from the members alone.

use std::time::Duration;

use koinon_control::Key;
use koinon_simulation::seeds;

use crate::harness::World;
use crate::wire::{Fault, How};
use crate::world::foo;

const CLUSTERS: [&str; 3] = ["c1", "c2", "c3"];

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn cluster(&mut self) -> &'static str {
        CLUSTERS[self.roll(3) as usize]
    }
}

/// The one that may leave.
const CHILD: &str = "c3";

#[tokio::test(start_paused = true)]
async fn after_healing_all_is_a_function_of_the_members() {
    let mut world = World::new(&["c1*", "c2*", "c3"]).await;
    let mut is_away = false;
    for seed in seeds(100) {
        let mut dice = Dice(seed.wrapping_mul(7919) + 1);
        let mut story = Vec::new();
        for _ in 0..dice.roll(8) + 2 {
            story.push(act(&mut world, &mut dice, &mut is_away).await);
        }
        world.faults.clear();
        for cluster in CLUSTERS {
            world.isolate(cluster, true);
        }
        if is_away {
            come_back(&world).await;
            is_away = false;
        }
        for supervisor in ["c1", "c2"] {
            if !world.runs(supervisor) {
                world.start(supervisor).await;
            }
        }
        world.until_as_the_model(&foo(), &format!("schedule {seed}: {story:#?}")).await;
    }
    world.rest().await;
}

/// First it gives up its own Federation, then the others let it go.
async fn go_away(world: &World) {
    world.leave(CHILD).await;
    for supervisor in ["c1", "c2"] {
        world.members(supervisor, &["c1", "c2"]).await;
    }
}

async fn come_back(world: &World) {
    world.rejoin(CHILD).await;
    for supervisor in ["c1", "c2"] {
        world.members(supervisor, &CLUSTERS).await;
    }
}

/// Does one thing and says what.
async fn act(world: &mut World, dice: &mut Dice, is_away: &mut bool) -> String {
    let cluster = dice.cluster();
    let name = format!("ns/foo{}", dice.roll(2));
    let path = format!("/api/v1/namespaces/ns/services/{}", &name[3..]);
    match dice.roll(12) {
        0 | 1 => {
            if world[cluster].get(&path).await.is_some() {
                world[cluster].delete(&path).await;
                return format!("{name} is deleted in {cluster}");
            }
            world[cluster].member(&name, "foo", "ClusterIP").await;
            format!("{name} is made in {cluster}")
        }
        2..=4 => {
            let count = dice.roll(4);
            let addresses: Vec<String> = (0..count)
                .map(|one| {
                    format!(
                        "10.{}.{}.{}{}",
                        &cluster[1..],
                        one,
                        dice.roll(200) + 1,
                        if dice.roll(3) == 0 { "!" } else { "" }
                    )
                })
                .collect();
            world[cluster].namespace("ns").await;
            world[cluster].endpoints(&name, &addresses.join(" ")).await;
            format!("{name} in {cluster} has {addresses:?}")
        }
        5 => {
            let up = dice.roll(2) == 0;
            world.isolate(cluster, up);
            format!("{cluster} is connected: {up}")
        }
        6 => {
            let supervisor = ["c1", "c2"][dice.roll(2) as usize];
            if world.runs(supervisor) {
                world.kill(supervisor).await;
                return format!("the supervisor in {supervisor} is killed");
            }
            world.start(supervisor).await;
            format!("the supervisor in {supervisor} starts")
        }
        7 => {
            let own = world[cluster].own().await;
            let Some(slice) = own.get(dice.roll(own.len().max(1) as u64) as usize) else {
                return "nothing".into();
            };
            let key = Key::of(slice);
            let path =
                format!("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices/{}", key.namespace, key.name);
            // A leader may have been quicker.
            let gone = world[cluster].send("DELETE", &path, serde_json::Value::Null).await;
            assert!(matches!(gone, Ok(_) | Err(404)), "{path}: {gone:?}");
            format!("{key} is deleted by hand in {cluster}")
        }
        8 => {
            *is_away = !*is_away;
            if *is_away {
                go_away(world).await;
                return format!("{CHILD} leaves");
            }
            come_back(world).await;
            format!("{CHILD} comes back")
        }
        9 => {
            let path = ["/endpointslices", "/services", "/leases"][dice.roll(3) as usize];
            let method = ["POST", "PUT", "PATCH", "DELETE"][dice.roll(4) as usize];
            world.faults.add(Fault { cluster, method, path, body: "", how: How::Lost });
            format!("answers of {cluster} to {method} {path} get lost")
        }
        10 => {
            world.faults.clear();
            "answers arrive again".into()
        }
        _ => {
            let seconds = dice.roll(90);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            format!("{seconds} s pass")
        }
    }
}
