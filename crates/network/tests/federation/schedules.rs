//! Whatever happens in whatever order: once all is healed, every cluster has what follows from the members alone.

use std::time::Duration;

use koinon_control::Key;

use crate::harness::World;
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

/// How many schedules to run: a hundred, or as many as `KOINON_SCHEDULES` says.
fn schedules() -> u64 {
    std::env::var("KOINON_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

#[tokio::test(start_paused = true)]
async fn after_healing_all_is_a_function_of_the_members() {
    let mut world = World::new(&["c1*", "c2*", "c3"]).await;
    for seed in 0..schedules() {
        let mut dice = Dice(seed.wrapping_mul(7919) + 1);
        let mut story = Vec::new();
        for _ in 0..dice.roll(8) + 2 {
            story.push(act(&mut world, &mut dice).await);
        }
        for cluster in CLUSTERS {
            world.isolate(cluster, true);
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

/// Does one thing and says what.
async fn act(world: &mut World, dice: &mut Dice) -> String {
    let cluster = dice.cluster();
    let name = format!("ns/foo{}", dice.roll(2));
    let path = format!("/api/v1/namespaces/ns/services/{}", &name[3..]);
    match dice.roll(9) {
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
            world[cluster].delete(&path).await;
            format!("{key} is deleted by hand in {cluster}")
        }
        _ => {
            let seconds = dice.roll(90);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            format!("{seconds} s pass")
        }
    }
}
