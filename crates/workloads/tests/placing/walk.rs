//! Any history of changes: it always comes to rest, at a layout that holds, and moves keep what is available.

use koinon_api::preferences::{ClusterPreference, Preferences};
use koinon_workloads::placing::{Held, Surge};
use proptest::prelude::*;

use crate::model::{Federation, ROUND};

#[derive(Debug, Clone)]
enum Change {
    Scale(i64),
    Prefer(bool, [Option<(i64, Option<i64>, i64)>; 3]),
    Room(usize, Option<i64>),
    Away(usize),
    Back(usize),
    Wait(u8),
    /// The controller forgets what it wrote last about the placement.
    Forget,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn change() -> impl Strategy<Value = Change> {
    let preference = (0i64..8, prop::option::of(8i64..30), 0i64..4);
    prop_oneof![
        (0i64..60).prop_map(Change::Scale),
        (any::<bool>(), prop::array::uniform3(prop::option::weighted(0.8, preference)))
            .prop_map(|(rebalance, each)| Change::Prefer(rebalance, each)),
        (0usize..3, prop::option::of(0i64..30)).prop_map(|(at, room)| Change::Room(at, room)),
        (0usize..3).prop_map(Change::Away),
        (0usize..3).prop_map(Change::Back),
        (1u8..20).prop_map(Change::Wait),
        Just(Change::Forget),
    ]
}

fn preferences(rebalance: bool, each: &[Option<(i64, Option<i64>, i64)>; 3]) -> String {
    let clusters = each
        .iter()
        .zip(NAMES)
        .filter_map(|(one, name)| {
            let (min_replicas, max_replicas, weight) = (*one)?;
            Some((name.to_owned(), ClusterPreference { min_replicas, max_replicas, weight }))
        })
        .collect();
    Preferences { rebalance, clusters, ..Preferences::default() }.to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn it_comes_to_rest_at_what_was_planned(changes in prop::collection::vec(change(), 1..12)) {
        let mut federation = Federation::new(&NAMES, 30, r#"{"rebalance":true}"#);
        federation.settle();
        for change in changes {
            match change {
                Change::Scale(replicas) => federation.scale(replicas),
                Change::Prefer(rebalance, each) => federation.prefer(&preferences(rebalance, &each)),
                Change::Room(at, room) => federation.set(NAMES[at], |one| one.room = room),
                Change::Away(at) => federation.set(NAMES[at], |one| one.offline = true),
                Change::Back(at) => federation.set(NAMES[at], |one| one.offline = false),
                Change::Wait(seconds) => federation.now += i64::from(seconds) * ROUND,
                Change::Forget => federation.placement = None,
            }
            for _ in 0..3 {
                let (before, placed) = (federation.available(), federation.decide());
                let total: i64 = placed.clusters.values().map(|spot| spot.share.replicas).sum();
                // More than the surge there are only where there were more already.
                let most = (total + Surge::default().of(total)).max(federation.pods(&placed));
                prop_assert!(federation.crest(&placed) <= most, "{:#?} {:#?}", placed, federation);
                let rooms = federation.clone();
                federation.round();
                // Lost room takes what ran there; nothing else may, unless there were more than wanted.
                let lost: i64 = rooms.clusters.values().filter(|one| one.room.is_some()).count() as i64;
                if lost == 0 {
                    prop_assert!(federation.available() >= before.min(total), "{:#?}", federation);
                }
            }
        }
        federation.settle();
        let placed = federation.decide();
        for (name, spot) in &placed.clusters {
            let (replicas, all) = (spot.share.replicas, spot.share.spec_replicas());
            // Two are the most that wait for room. Where one waits already the second is not sent after it: a pod that only
            // began to wait would look like room.
            let one_waits = all - replicas == 2 && spot.now == replicas + 1;
            let held = one_waits.then_some(Held::WaitingThere(1));
            prop_assert_eq!(spot.now, if one_waits { replicas + 1 } else { all }, "{} {:#?}", name, federation);
            prop_assert_eq!(spot.held, held);
        }
    }
}

/// Found by the walk above.
#[test]
fn two_full_clusters_do_not_send_replicas_to_each_other() {
    let mut federation = Federation::new(&NAMES, 30, r#"{"rebalance":true}"#);
    federation.settle();
    federation.set("b", |one| one.room = Some(5));
    federation.scale(17);
    federation.prefer(&preferences(false, &[None, Some((0, None, 1)), Some((0, None, 1))]));
    for _ in 0..3 {
        federation.round();
    }
    federation.set("c", |one| one.room = Some(0));
    federation.settle();
    assert_eq!(federation.layout(), "a=0 b=5 c=0");
    federation.set("c", |one| one.room = None);
    federation.settle();
    assert_eq!(federation.layout(), "a=0 b=5 c=12");
}
