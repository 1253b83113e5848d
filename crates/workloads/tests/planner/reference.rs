//! The planner's rules as plainly as they can be written: maps, and round after round over every cluster.
//!
//! It answers the same as the planner and is slower; it has no reasons and no weighted scale-down.

use std::collections::BTreeMap;

use koinon_workloads::planner::{Candidate, Plan, Reason, Share, Workload};

pub(crate) fn plan(workload: &Workload<'_>, candidates: &BTreeMap<String, Candidate>) -> Plan {
    let preferences = workload.preferences;
    let mut order: Vec<&String> =
        candidates.keys().filter(|name| preferences.for_cluster(name).is_some()).collect();
    let preference = |name: &str| preferences.for_cluster(name).expect("only those with one are in order");
    order.sort_by_key(|name| (-i128::from(preference(name).weight), hash(name, workload.key), *name));
    let most = |name: &str| preference(name).max_replicas.map_or(i128::MAX, i128::from);
    let room = |name: &str| candidates[name].capacity.map_or(i128::MAX, |room| i128::from(room.max(0)));

    let mut pool = i128::from(workload.replicas.max(0));
    let mut have: BTreeMap<&String, i128> = BTreeMap::new();
    let mut credit: BTreeMap<&String, i128> = BTreeMap::new();
    let mut overflow: BTreeMap<&String, i128> = BTreeMap::new();
    for name in &order {
        let minimum = i128::from(preference(name).min_replicas).min(pool).min(room(name));
        have.insert(name, minimum);
        pool -= minimum;
    }
    if !preferences.rebalance {
        for name in &order {
            let wanted = i128::from(candidates[*name].existing).min(most(name)).min(room(name));
            let kept = (wanted - have[name]).clamp(0, pool);
            *have.get_mut(name).unwrap() += kept;
            credit.insert(name, kept);
            pool -= kept;
        }
    }

    let mut live = order;
    let mut moved = true;
    while moved && pool > 0 {
        moved = false;
        let weights: i128 = live.iter().map(|name| i128::from(preference(name).weight)).sum();
        if weights == 0 {
            break;
        }
        let (begun, mut next) = (pool, Vec::new());
        for name in live {
            let due = ((begun * i128::from(preference(name).weight) + weights - 1) / weights).min(pool);
            let owed = credit.entry(name).or_default();
            let paid = due.min(*owed);
            *owed -= paid;
            let before = have[name];
            let mut wanted = before + due - paid;
            let mut full = false;
            if wanted > most(name) {
                (wanted, full) = (most(name), true);
            }
            if wanted > room(name) {
                overflow.insert(name, wanted - room(name));
                (wanted, full) = (room(name), true);
            }
            pool -= wanted - before;
            have.insert(name, wanted);
            moved |= wanted > before || paid > 0;
            if !full {
                next.push(name);
            }
        }
        live = next;
    }
    if !preferences.rebalance {
        overflow.values_mut().for_each(|waiting| *waiting = (*waiting).min(pool));
    }

    let narrow = |count: Option<&i128>| i64::try_from(count.copied().unwrap_or_default()).unwrap();
    let share = |name: &String| Share {
        replicas: narrow(have.get(name)),
        overflow: narrow(overflow.get(name)),
        reason: Reason::NoPreference,
    };
    let clusters = candidates.keys().map(|name| (name.clone(), share(name))).collect();
    Plan { clusters, unplaced: i64::try_from(pool).unwrap() }
}

fn hash(name: &str, key: &str) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in name.bytes().chain(key.bytes()) {
        hash = hash.wrapping_mul(0x0100_0193);
        hash ^= u32::from(byte);
    }
    for (shift, factor) in [(16, 0x85eb_ca6b), (13, 0xc2b2_ae35)] {
        hash = (hash ^ (hash >> shift)).wrapping_mul(factor);
    }
    hash ^ (hash >> 16)
}
