//! Calls to members that are silent, gone, replaced or full.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use koinon_fleet::health::Thresholds;
use koinon_fleet::member::{Away, Failure};
use koinon_fleet::{Link, Options, Phase, Wanted};
use tokio::time::Instant;

use crate::harness::{Cluster, Mode, World, id, write};

#[tokio::test(start_paused = true)]
async fn a_silent_member_costs_its_own_callers_a_while_and_then_nothing() {
    let world = World::new(&["a", "b"]).await;
    world.until_reachable().await;
    world["b"].wire.set(Mode::Silent);
    let start = Instant::now();
    for attempt in 0..3 {
        let error = write(&world, "b", "x").await.unwrap_err();
        assert!(matches!(error.failure, Failure::Away(_)), "{attempt}: {error}");
        assert!(start.elapsed() <= Duration::from_secs(10) * (attempt + 1), "{attempt}");
    }
    // From here on nobody waits for it.
    let start = Instant::now();
    let error = write(&world, "b", "x").await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(error.to_string().starts_with("cluster b is offline: "), "{error}");
    assert_eq!(error.reason(), "MemberOffline");
    write(&world, "a", "x").await.unwrap();
    world.until("b is unreachable", || !world.fleet.get("b").unwrap().is_reachable()).await;

    world["b"].wire.set(Mode::Up);
    world.until_reachable().await;
    write(&world, "b", "x").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_that_do_not_get_to_know_who_is_there_have_failed_too() {
    let hour = Duration::from_secs(3600);
    let thresholds = Thresholds { probe_every: hour, offline_after: 3 * hour, ..Thresholds::default() };
    let world = World::with(&["a"], Options { thresholds, ..Options::default() }).await;
    world.until_reachable().await;
    world["a"].wire.set(Mode::Silent);
    for attempt in 0..3 {
        let error = write(&world, "a", "x").await.unwrap_err();
        assert!(matches!(error.failure, Failure::Away(Away::NoAnswer(_))), "{attempt}: {error}");
    }
    // No probe had a part in this, and still nobody waits any more.
    let error = write(&world, "a", "x").await.unwrap_err();
    assert!(matches!(error.failure, Failure::Away(Away::Offline(_))), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_crowd_at_one_member_does_not_hold_up_the_rest() {
    let world = World::new(&["a", "b"]).await;
    world.until_reachable().await;
    world["b"].wire.set(Mode::Silent);
    let start = Instant::now();
    let api = world.fleet.get("b").unwrap().client().namespaced::<ConfigMap>("default");
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let (api, client) = (api.clone(), world.fleet.get("b").unwrap().client().clone());
            tokio::spawn(async move {
                let error = client.call(api.get("x")).await.unwrap_err();
                (start.elapsed(), matches!(error.failure, Failure::Away(Away::Busy(_))))
            })
        })
        .collect();
    write(&world, "a", "x").await.unwrap();
    let mut turned_away = 0;
    for call in calls {
        let (after, busy) = call.await.unwrap();
        if busy {
            turned_away += 1;
            assert_eq!(after, Duration::from_secs(1));
        }
    }
    assert_eq!(turned_away, 100 - 16);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_does_not_hold_up_the_lease_of_its_leader() {
    let world = World::new(&["a"]).await;
    world.until_reachable().await;
    world["a"].wire.set(Mode::Slow(Duration::from_secs(3)));
    let client = world.fleet.get("a").unwrap().client().clone();
    let api = client.namespaced::<ConfigMap>("default");
    let crowd: Vec<_> = (0..17)
        .map(|_| {
            let (api, client) = (api.clone(), client.clone());
            tokio::spawn(async move { client.call(api.get_opt("x")).await.is_ok() })
        })
        .collect();
    tokio::task::yield_now().await;
    let start = Instant::now();
    assert_eq!(client.call(client.reserved::<Lease>("default").get_opt("x")).await.unwrap(), None);
    assert_eq!(start.elapsed(), Duration::from_secs(3), "it did not wait for its turn");
    let served = futures::future::join_all(crowd).await;
    assert_eq!(served.into_iter().filter(|one| *one.as_ref().unwrap()).count(), 16);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_blinks_stays_reachable() {
    let world = World::new(&["a"]).await;
    world.until_reachable().await;
    let since = world.fleet.get("a").unwrap().state().since;
    for _ in 0..20 {
        world["a"].wire.set(Mode::Cut);
        tokio::time::sleep(Duration::from_secs(15)).await;
        world["a"].wire.set(Mode::Up);
        tokio::time::sleep(Duration::from_secs(15)).await;
    }
    let state = world.fleet.get("a").unwrap().state();
    assert_eq!((state.phase, state.since), (Phase::Reachable, since));
}

#[tokio::test(start_paused = true)]
async fn it_is_noticed_in_time_that_a_member_went_and_came_back() {
    for mode in [Mode::Silent, Mode::Cut, Mode::Answers(503), Mode::Answers(401)] {
        let world = World::new(&["a"]).await;
        world.until_reachable().await;
        world["a"].wire.set(mode);
        let gone = world.until("a is unreachable", || !world.fleet.get("a").unwrap().is_reachable()).await;
        // One probe, the patience, and the deadline of the last probe.
        assert!((30..=46).contains(&gone.as_secs()), "{mode:?}: {gone:?}");
        let state = world.fleet.get("a").unwrap().state();
        assert!(state.why.is_some(), "{state:?}");
        world["a"].wire.set(Mode::Up);
        let back = world.until("a is back", || world.fleet.get("a").unwrap().is_reachable()).await;
        assert!((10..=21).contains(&back.as_secs()), "{mode:?}: {back:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_away_does_not_close_the_way_to_others() {
    let world = World::new(&["a"]).await;
    world.until_reachable().await;
    world["a"].wire.set(Mode::Answers(503));
    for _ in 0..10 {
        assert_eq!(write(&world, "a", "x").await.unwrap_err().code(), Some(503));
    }
    world["a"].wire.set(Mode::Up);
    write(&world, "a", "x").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_cluster_at_the_same_address_is_never_written_to() {
    let world = World::new(&["a"]).await;
    world.until_reachable().await;
    let other = Cluster::new(99).await;
    // The connection breaks and comes back, and somebody else has the address now.
    world["a"].wire.set(Mode::Cut);
    write(&world, "a", "x").await.unwrap_err();
    world["a"].wire.turn_to(&other);
    world["a"].wire.set(Mode::Up);
    let error = write(&world, "a", "x").await.unwrap_err();
    assert_eq!(error.reason(), "MemberReplaced");
    assert!(error.to_string().contains("another cluster answers at its address"), "{error}");
    world.until("a is unreachable", || !world.fleet.get("a").unwrap().is_reachable()).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    write(&world, "a", "x").await.unwrap_err();
    assert!(!other.has("x").await);
    assert!(!world.fleet.get("a").unwrap().is_reachable());

    world["a"].wire.turn_to(&world["a"]);
    world.until_reachable().await;
    write(&world, "a", "x").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_was_written_down_is_expected_from_the_start() {
    let world = World::new(&[]).await;
    let (a, b) = (Cluster::new(1).await, Cluster::new(2).await);
    let wanted = Wanted { link: Link::Direct(b.link()), uid: Some(a.uid().await) };
    world.fleet.set([(id("a"), wanted)].into()).await;
    world
        .until("a is unreachable", || world.fleet.get("a").unwrap().state().phase == Phase::Unreachable)
        .await;
    write(&world, "a", "x").await.unwrap_err();
    assert_eq!(b.wire.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn new_credentials_are_used_without_a_restart() {
    let world = World::new(&["a"]).await;
    world.until_reachable().await;
    let before = world.fleet.get("a").unwrap();
    world.fleet.set([(id("a"), Wanted { link: Link::Missing("no Secret".into()), uid: None })].into()).await;
    let error = write(&world, "a", "x").await.unwrap_err();
    assert!(error.to_string().contains("no Secret"), "{error}");
    world.join(&["a"]).await;
    write(&world, "a", "x").await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&before, &world.fleet.get("a").unwrap()));
    assert!(before.is_reachable(), "a change of credentials is no absence");
}

/// Counted from the last answer, whatever a probe waits for by itself, and whether connections break or nothing comes back.
#[tokio::test(start_paused = true)]
async fn a_member_that_falls_silent_counts_as_away_when_its_time_is_up() {
    let second = Duration::from_secs;
    for mode in [Mode::Silent, Mode::Cut] {
        for (probe_every, offline_after) in [(1, 4), (10, 30), (1, 2), (60, 30)] {
            let thresholds = Thresholds {
                probe_every: second(probe_every),
                offline_after: second(offline_after),
                ..Thresholds::default()
            };
            let world = World::with(&["a"], Options { thresholds, ..Options::default() }).await;
            world.until_reachable().await;
            // Past the first look, at which more is asked.
            tokio::time::sleep(second(3 * probe_every)).await;
            let member = world.fleet.get("a").unwrap();
            let before = member.state().last_seen.unwrap();
            let answered = || member.state().last_seen.unwrap() > before;
            world.until("it answers once more", answered).await;
            let last = Instant::now();
            world["a"].wire.set(mode);
            world.until("it counts as away", || member.state().phase == Phase::Unreachable).await;
            let after = last.elapsed();
            let most = second(offline_after) + Duration::from_millis(1100);
            let least = second(offline_after) - Duration::from_millis(100);
            assert!((least..=most).contains(&after), "{mode:?} {probe_every} {offline_after}: {after:?}");
        }
    }
}
