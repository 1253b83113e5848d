//! What an index knows of members that are cut off, silent, slow or many.

use std::sync::Arc;
use std::time::Duration;

use koinon_fleet::{Knowledge, Wanted};
use tokio::time::Instant;

use crate::harness::{Cluster, Mode, Size, World, id, key};

fn size(world: &World, member: &str, name: &str) -> Option<usize> {
    world.index.get(member, &key(name)).map(|size| size.0)
}

async fn followed(names: &[&str]) -> World {
    let world = World::new(names).await;
    for cluster in world.clusters.values() {
        cluster.put("x", 1).await;
    }
    world.follow();
    for name in names {
        world.until("all is known", || world.index.knowledge(name) == Knowledge::Complete).await;
        assert_eq!(size(&world, name, "x"), Some(1));
    }
    world
}

#[tokio::test(start_paused = true)]
async fn changes_of_every_member_arrive() {
    let world = followed(&["a", "b"]).await;
    world["b"].put("y", 3).await;
    world["a"].remove("x").await;
    world
        .until("changes arrive", || size(&world, "b", "y") == Some(3) && size(&world, "a", "x").is_none())
        .await;
    let everywhere = world.index.everywhere(&key("x"));
    assert_eq!(everywhere.into_iter().map(|(name, size)| (name, size.0)).collect::<Vec<_>>(), [(id("b"), 1)]);
}

#[tokio::test(start_paused = true)]
async fn after_a_cut_the_watch_goes_on_where_it_was() {
    let world = followed(&["a"]).await;
    let lists = |world: &World| {
        let requests = world["a"].wire.requests();
        requests
            .iter()
            .filter(|one| one.contains("/configmaps?") && !one.contains("resourceVersion="))
            .count()
    };
    let before = lists(&world);
    world["a"].wire.set(Mode::Cut);
    world.until("the cut is noticed", || matches!(world.index.knowledge("a"), Knowledge::Stale { .. })).await;
    world["a"].put("y", 2).await;
    world["a"].remove("x").await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!((size(&world, "a", "x"), size(&world, "a", "y")), (Some(1), None), "what is unknown stays");
    world["a"].wire.set(Mode::Up);
    world.until("it is followed again", || world.index.knowledge("a") == Knowledge::Complete).await;
    world.until("what was missed arrives", || size(&world, "a", "y") == Some(2)).await;
    assert_eq!(size(&world, "a", "x"), None);
    assert_eq!(lists(&world), before, "{:#?}", world["a"].wire.requests());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_died_in_silence_is_noticed_within_a_minute() {
    let world = followed(&["a"]).await;
    // Not at the start of a round only.
    for pause in [0, 17, 33] {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        world["a"].wire.set(Mode::Silent);
        let noticed =
            world.until("the death is noticed", || world.index.knowledge("a") != Knowledge::Complete).await;
        assert!(noticed <= Duration::from_secs(60), "{noticed:?}");
        world["a"].wire.set(Mode::Up);
        world.until("it is followed again", || world.index.knowledge("a") == Knowledge::Complete).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_stream_lists_is_listed_in_pages() {
    let world = World::new(&["a"]).await;
    world["a"].wire.set(Mode::Unstreamed);
    for index in 0..300 {
        world["a"].put(&format!("m{index}"), 1).await;
    }
    world.follow();
    world.until("all is known", || world.index.knowledge("a") == Knowledge::Complete).await;
    assert_eq!(world.index.len(), 301 - usize::from(!world["a"].has("kube-root-ca.crt").await));
    world["a"].put("y", 2).await;
    world.until("changes arrive", || size(&world, "a", "y") == Some(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_never_listed_is_unknown_and_not_empty() {
    let world = World::new(&["a", "b"]).await;
    world.until_reachable().await;
    world["b"].put("x", 1).await;
    world["b"].wire.set(Mode::Silent);
    world.follow();
    world.until("a is known", || world.index.knowledge("a") == Knowledge::Complete).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(world.index.knowledge("b"), Knowledge::Unknown);
    assert_eq!(world.index.knowledge("nobody"), Knowledge::Unknown);
    world["b"].wire.set(Mode::Up);
    world.until("b is known", || world.index.knowledge("b") == Knowledge::Complete).await;
    assert_eq!(size(&world, "b", "x"), Some(1));
}

#[tokio::test(start_paused = true)]
async fn objects_of_another_cluster_do_not_get_in() {
    let world = followed(&["a"]).await;
    let other = Cluster::new(77).await;
    other.put("foreign", 5).await;
    world["a"].wire.set(Mode::Cut);
    world.until("the cut is noticed", || world.index.knowledge("a") != Knowledge::Complete).await;
    world["a"].wire.turn_to(&other);
    world["a"].wire.set(Mode::Up);
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!((size(&world, "a", "foreign"), size(&world, "a", "x")), (None, Some(1)));
    assert!(matches!(world.index.knowledge("a"), Knowledge::Stale { .. }));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_is_forgotten_and_who_returns_is_read_anew() {
    let world = followed(&["a", "b"]).await;
    world.join(&["a"]).await;
    world.until("b is gone", || size(&world, "b", "x").is_none()).await;
    assert_eq!(world.index.knowledge("b"), Knowledge::Unknown);
    world["b"].put("x", 4).await;
    world.join(&["a", "b"]).await;
    world.until("b is back", || world.index.get("b", &key("x")).as_deref() == Some(&Size(4))).await;
}

/// As when a cluster was rebuilt and joined again between two looks at the Federation.
#[tokio::test(start_paused = true)]
async fn another_cluster_under_the_same_name_is_read_anew() {
    let world = followed(&["a"]).await;
    let before = world.fleet.get("a").unwrap();
    let other = Cluster::new(77).await;
    other.put("y", 2).await;
    let wanted = Wanted { uid: Some(other.uid().await), ..other.wanted() };
    world.fleet.set([(id("a"), wanted.clone())].into()).await;
    assert!(!Arc::ptr_eq(&before, &world.fleet.get("a").unwrap()), "it is another member");
    world.until("the old cluster is forgotten", || size(&world, "a", "x").is_none()).await;
    world.until("the new one is known", || size(&world, "a", "y") == Some(2)).await;
    assert_eq!(world.index.knowledge("a"), Knowledge::Complete);

    // The same UID again is no news.
    let known = world.fleet.get("a").unwrap();
    world.fleet.set([(id("a"), wanted)].into()).await;
    world.fleet.set([(id("a"), other.wanted())].into()).await;
    assert!(Arc::ptr_eq(&known, &world.fleet.get("a").unwrap()));
}

#[tokio::test(start_paused = true)]
async fn at_rest_there_are_probes_and_watches_and_nothing_else() {
    let world = followed(&["a", "b"]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = world["a"].wire.requests().len();
    let (start, changes) = (Instant::now(), *world.fleet.changes().borrow());
    tokio::time::sleep(Duration::from_secs(600)).await;
    let requests = world["a"].wire.requests().split_off(before);
    let watches = requests.iter().filter(|one| one.contains("watch=true")).count();
    let probes = requests.iter().filter(|one| one.ends_with("/namespaces/kube-system")).count();
    let seconds = start.elapsed().as_secs() as usize;
    assert!((seconds / 60..=seconds / 40 + 1).contains(&watches), "{watches} watches");
    assert!(probes <= seconds / 10 + 1, "{probes} probes");
    let tells = |one: &&String| one.ends_with("/version") || one.ends_with("/clusterclaims");
    let portraits = requests.iter().filter(tells).count();
    assert!(portraits <= 2 * (probes / 30 + 1), "{portraits} questions about itself");
    assert_eq!(requests.len(), watches + probes + portraits, "{requests:#?}");
    assert_eq!(*world.fleet.changes().borrow(), changes, "nobody is told of anything");
    assert_eq!(world["a"].wire.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn two_hundred_members_are_known_soon_and_their_return_is_no_stampede() {
    const MEMBERS: usize = 200;
    let names: Vec<String> = (0..MEMBERS).map(|index| format!("m{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = followed(&names).await;
    world.until_reachable().await;
    let cut: Vec<&Cluster> = world.clusters.values().take(MEMBERS / 2).collect();
    for cluster in &cut {
        cluster.wire.set(Mode::Cut);
    }
    let reachable = || world.fleet.members().iter().filter(|member| member.is_reachable()).count();
    let noticed = world.until("their loss is noticed", || reachable() == MEMBERS / 2).await;
    assert!(noticed <= Duration::from_secs(46), "{noticed:?}");
    assert_eq!(world.index.len(), MEMBERS, "nothing is forgotten");

    let before: usize = cut.iter().map(|cluster| cluster.wire.requests().len()).sum();
    let back = Instant::now();
    for cluster in &cut {
        cluster.wire.set(Mode::Up);
    }
    world
        .until("all are known again", || {
            names.iter().all(|name| world.index.knowledge(name) == Knowledge::Complete)
        })
        .await;
    let asked: usize = cut.iter().map(|cluster| cluster.wire.requests().len()).sum::<usize>() - before;
    // A few probes and one watch each, whatever happens at once.
    assert!(asked <= cut.len() * 10, "{asked} requests in {:?}", back.elapsed());
}
