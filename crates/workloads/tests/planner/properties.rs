//! What holds for every input.

use std::collections::BTreeMap;

use koinon_api::preferences::{ClusterPreference, Preferences, ScaleDown};
use koinon_workloads::planner::{Candidate, Plan, Reason};
use proptest::prelude::*;

use crate::case::{Case, words};
use crate::reference;

/// Mostly small, so that counts meet. Large ones are slow in the plain rules, which take as many rounds as replicas
/// that were kept have to be paid for.
fn count() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 0..12i64, 3 => 0..300i64, 1 => 0..4_000i64]
}

fn weight() -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(0i64), 5 => 1..4i64, 3 => 1..1000i64, 1 => 1..=i64::MAX]
}

fn preference() -> impl Strategy<Value = ClusterPreference> {
    (count(), prop::option::of(count()), weight(), any::<bool>()).prop_map(|(low, more, weight, minimum)| {
        let min_replicas = if minimum { low } else { 0 };
        ClusterPreference { min_replicas, max_replicas: more.map(|more| min_replicas + more), weight }
    })
}

fn case() -> impl Strategy<Value = Case> {
    let names =
        prop::sample::subsequence(vec!["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"], 0..=12);
    let candidates = names.prop_flat_map(|names| {
        let each = (count(), prop::option::of(count()));
        prop::collection::vec(each, names.len()).prop_map(move |counts| {
            let candidates = counts.into_iter().map(|(existing, capacity)| Candidate { existing, capacity });
            names.iter().map(|name| (*name).to_owned()).zip(candidates).collect::<BTreeMap<_, _>>()
        })
    });
    let entries = prop::collection::btree_map(
        prop_oneof![Just("*"), Just("a"), Just("b"), Just("c"), Just("d"), Just("e")].prop_map(str::to_owned),
        preference(),
        0..5,
    );
    (any::<bool>(), entries, candidates, count(), "[a-z]{0,3}").prop_map(
        |(rebalance, clusters, candidates, replicas, key)| Case {
            key,
            replicas,
            preferences: Preferences { rebalance, scale_down: ScaleDown::Ordered, clusters },
            candidates,
        },
    )
}

fn kept_in_place() -> impl Strategy<Value = Case> {
    case().prop_map(|mut case| {
        case.preferences.rebalance = false;
        case
    })
}

fn placed(plan: &Plan) -> i64 {
    plan.clusters.values().map(|share| share.replicas).sum()
}

/// What the members would have after the plan was carried out.
fn carried_out(case: &Case, plan: &Plan) -> Case {
    let mut next = case.clone();
    for (name, candidate) in &mut next.candidates {
        candidate.existing = plan.clusters[name].replicas + plan.clusters[name].overflow;
    }
    next
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn the_same_as_the_plain_rules(case in case()) {
        let plain = reference::plan(&case.workload(), &case.candidates);
        prop_assert_eq!(words(&case.plan()), words(&plain));
    }

    #[test]
    fn nothing_is_lost_or_made_up(case in case(), weighted in any::<bool>()) {
        let mut case = case;
        if weighted { case.preferences.scale_down = ScaleDown::Weighted; }
        let plan = case.plan();
        prop_assert_eq!(placed(&plan) + plan.unplaced, case.replicas);
        prop_assert!(plan.unplaced >= 0);
        prop_assert!(plan.clusters.keys().eq(case.candidates.keys()));
    }

    #[test]
    fn what_is_told_adds_up(case in case(), weighted in any::<bool>()) {
        let mut case = case;
        if weighted { case.preferences.scale_down = ScaleDown::Weighted; }
        for share in case.plan().clusters.values() {
            match &share.reason {
                Reason::Own | Reason::Waits => prop_assert!(false, "no cluster decides for itself here"),
                Reason::NoPreference => prop_assert_eq!((share.replicas, share.overflow), (0, 0)),
                Reason::Parts(parts) => {
                    prop_assert_eq!(parts.minimum + parts.kept + parts.share, share.replicas);
                    prop_assert_eq!(parts.waiting, share.overflow);
                    prop_assert!([parts.minimum, parts.kept, parts.share, parts.given_up].iter().all(|part| *part >= 0));
                    prop_assert!(parts.minimum <= parts.minimum_wanted);
                }
            }
        }
    }

    #[test]
    fn bounds_hold(case in case(), weighted in any::<bool>()) {
        let mut case = case;
        if weighted { case.preferences.scale_down = ScaleDown::Weighted; }
        for (name, share) in &case.plan().clusters {
            prop_assert!(share.replicas >= 0 && share.overflow >= 0);
            match case.preferences.for_cluster(name) {
                None => prop_assert_eq!(share.replicas, 0),
                Some(preference) => {
                    prop_assert!(share.replicas <= preference.max_replicas.unwrap_or(i64::MAX));
                    prop_assert!(share.replicas <= case.candidates[name].capacity.unwrap_or(i64::MAX));
                    let most = preference.max_replicas.unwrap_or(i64::MAX);
                    prop_assert!(share.overflow == 0 || share.replicas + share.overflow <= most);
                }
            }
        }
    }

    #[test]
    fn what_is_left_has_nowhere_to_go(case in case()) {
        let plan = case.plan();
        if plan.unplaced > 0 {
            for (name, share) in &plan.clusters {
                let Some(preference) = case.preferences.for_cluster(name) else { continue };
                let bound = preference.max_replicas.unwrap_or(i64::MAX).min(case.candidates[name].capacity.unwrap_or(i64::MAX));
                prop_assert!(preference.weight == 0 || share.replicas == bound, "{name} has room");
            }
        }
    }

    #[test]
    fn a_plan_that_was_carried_out_stays(case in case(), weighted in any::<bool>()) {
        let mut case = case;
        if weighted { case.preferences.scale_down = ScaleDown::Weighted; }
        let first = case.plan();
        let second = carried_out(&case, &first);
        let again = second.plan();
        let replicas = |plan: &Plan| plan.clusters.values().map(|share| share.replicas).collect::<Vec<_>>();
        prop_assert_eq!(replicas(&again), replicas(&first));
        // What waits may shrink once, as shares now pay for what they placed before.
        prop_assert_eq!(words(&carried_out(&second, &again).plan()), words(&again));
    }

    #[test]
    fn nothing_moves_without_need(case in kept_in_place()) {
        let plan = case.plan();
        let minimums_beyond: i128 = plan.clusters.keys().filter_map(|name| {
            let preference = case.preferences.for_cluster(name)?;
            let candidate = case.candidates[name];
            let bound = preference.max_replicas.unwrap_or(i64::MAX).min(candidate.capacity.unwrap_or(i64::MAX));
            let minimum = preference.min_replicas.min(bound);
            Some(i128::from(candidate.existing.min(bound).max(minimum)))
        }).sum();
        if minimums_beyond <= i128::from(case.replicas) {
            for (name, share) in &plan.clusters {
                let Some(preference) = case.preferences.for_cluster(name) else { continue };
                let candidate = case.candidates[name];
                let bound = preference.max_replicas.unwrap_or(i64::MAX).min(candidate.capacity.unwrap_or(i64::MAX));
                prop_assert!(share.replicas >= candidate.existing.min(bound), "{name} loses replicas");
            }
        }
    }

    #[test]
    fn more_replicas_take_nothing_from_anyone(case in kept_in_place(), more in 0..100i64) {
        let before = case.plan();
        let mut next = carried_out(&case, &before);
        next.replicas += more;
        let after = next.plan();
        for (name, share) in &before.clusters {
            prop_assert!(after.clusters[name].replicas >= share.replicas, "{name} loses replicas");
        }
    }

    #[test]
    fn more_room_places_no_fewer(case in case(), more in 0..100i64) {
        let before = placed(&case.plan());
        let mut roomier = case;
        for candidate in roomier.candidates.values_mut() {
            candidate.capacity = candidate.capacity.map(|room| room + more);
        }
        prop_assert!(placed(&roomier.plan()) >= before);
    }

    #[test]
    fn by_weight_only_those_above_their_share_give_up(case in kept_in_place()) {
        let mut weighted = case.clone();
        weighted.preferences.scale_down = ScaleDown::Weighted;
        let mut shares = case.clone();
        shares.preferences.rebalance = true;
        let (plan, shares) = (weighted.plan(), shares.plan());
        for (name, share) in &plan.clusters {
            let Some(preference) = case.preferences.for_cluster(name) else { continue };
            let candidate = case.candidates[name];
            let bound = preference.max_replicas.unwrap_or(i64::MAX).min(candidate.capacity.unwrap_or(i64::MAX));
            let running = candidate.existing.min(bound);
            prop_assert!(share.replicas >= running.min(shares.clusters[name].replicas), "{name} falls below its share");
        }
    }
}
