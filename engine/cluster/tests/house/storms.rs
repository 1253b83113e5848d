//! Any family of objects, any deletions, any faults: in the end exactly what should be left is left.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::{Cluster, answer_of, blocking};

const OBJECTS: usize = 7;

#[derive(Clone, Debug)]
struct Storm {
    /// Owners of each object, all before it, and whether it blocks them.
    family: Vec<Vec<(usize, bool)>>,
    deletions: Vec<(usize, bool)>,
    /// One of so many requests fails.
    failing: usize,
    /// The answer to one of so many writes is lost.
    losing: usize,
    /// Housekeeping ends and starts again after so many of the deletions.
    restart: usize,
    /// Seconds.
    lasting: u64,
}

fn storm() -> impl Strategy<Value = Storm> {
    let family: Vec<_> = (0..OBJECTS)
        .map(|number| {
            prop::collection::btree_map(0..number.max(1), any::<bool>(), 0..3)
                .prop_map(move |owners| owners.into_iter().filter(|(owner, _)| *owner < number).collect())
        })
        .collect();
    let deletions = prop::collection::vec((0..OBJECTS, any::<bool>()), 1..4);
    (family, deletions, 2..12usize, 2..6usize, 0..3usize, 0..60u64).prop_map(
        |(family, deletions, failing, losing, restart, lasting)| Storm {
            family,
            deletions,
            failing,
            losing,
            restart,
            lasting,
        },
    )
}

/// Alive is what nobody deleted and what has an owner that is alive, or never had one.
fn survivors(storm: &Storm) -> BTreeSet<usize> {
    let deleted: BTreeSet<usize> = storm.deletions.iter().map(|(number, _)| *number).collect();
    let mut alive = BTreeSet::new();
    for (number, owners) in storm.family.iter().enumerate() {
        let owned = owners.is_empty() || owners.iter().any(|(owner, _)| alive.contains(owner));
        if owned && !deleted.contains(&number) {
            alive.insert(number);
        }
    }
    alive
}

/// Kinds take turns, so that watches of several resources race.
fn kind(number: usize) -> (&'static str, &'static str) {
    [("ConfigMap", "configmaps"), ("Secret", "secrets"), ("ServiceAccount", "serviceaccounts")][number % 3]
}

fn path(number: usize) -> String {
    format!("/api/v1/namespaces/default/{}/{number}", kind(number).1)
}

async fn weather(storm: Storm) {
    let mut cluster = Cluster::bare().await;
    let mut made: Vec<Value> = Vec::new();
    for (number, owners) in storm.family.iter().enumerate() {
        let references: Vec<Value> = owners
            .iter()
            .map(|(owner, blocks)| {
                let metadata = &made[*owner]["metadata"];
                let reference = json!({"apiVersion": "v1", "kind": kind(*owner).0, "name": metadata["name"], "uid": metadata["uid"]});
                if *blocks { blocking(reference) } else { reference }
            })
            .collect();
        let metadata = json!({"name": number.to_string(), "ownerReferences": references});
        let collection = format!("/api/v1/namespaces/default/{}", kind(number).1);
        made.push(cluster.create(&collection, json!({"metadata": metadata})).await);
    }
    let (count, failing) = (AtomicUsize::new(0), storm.failing);
    cluster.fault(move |_, _| {
        // Not every n-th: in step with the requests of one retry, that would be the same one forever.
        let dice = count.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        dice.is_multiple_of(failing).then(|| answer_of([503, 500, 429, 409][dice / failing % 4]))
    });
    cluster.lose_answers(storm.losing);
    cluster.keep();
    for (i, (number, foreground)) in storm.deletions.iter().enumerate() {
        if i == storm.restart {
            cluster.leave().await;
        }
        // It may be gone already: then there is nothing to delete.
        if cluster.get(&path(*number)).await.is_some() {
            cluster.delete(&path(*number), if *foreground { "Foreground" } else { "Background" }).await;
        }
        if i == storm.restart {
            cluster.keep();
        }
    }
    tokio::time::sleep(Duration::from_secs(storm.lasting)).await;
    cluster.heal();
    let alive = survivors(&storm);
    for number in (0..OBJECTS).filter(|number| !alive.contains(number)) {
        cluster.until_gone(&path(number)).await;
    }
    cluster.rest().await;
    for number in 0..OBJECTS {
        let object = cluster.get(&path(number)).await;
        assert_eq!(object.is_some(), alive.contains(&number), "{number}: {object:#?}");
        let owners = object.as_ref().and_then(|object| object["metadata"]["ownerReferences"].as_array());
        let left: BTreeSet<&str> =
            owners.into_iter().flatten().filter_map(|owner| owner["name"].as_str()).collect();
        let expected: BTreeSet<String> =
            storm.family[number].iter().map(|(owner, _)| owner.to_string()).collect();
        for owner in left {
            assert!(expected.contains(owner), "{number} has a strange owner {owner}");
            assert!(alive.contains(&owner.parse().unwrap()), "{number} still names {owner}, which is gone");
        }
    }
    cluster.leave().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn what_should_be_left_is_left(storm in storm()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(weather(storm));
    }
}
