//! The planner beside a plain implementation of the same rules, as federations of this kind have had it: maps by cluster
//! name, and round after round over every cluster. Both give the same answers, which is checked on the way.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use koinon_api::preferences::{ANY_CLUSTER, ClusterPreference, Preferences, ScaleDown};
use koinon_conformance::rng::Rng;
use koinon_workloads::planner::{Candidate, Plan, Workload, plan};

#[path = "../../crates/workloads/tests/planner/reference.rs"]
mod reference;

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
const REPLICAS: i64 = 100_000;

/// What a workload may look like.
const SHAPES: [(&str, Shape); 4] = [
    ("evenly", Shape::Evenly),
    ("own weights, a third of the clusters full", Shape::Full),
    ("own weights, nothing may move, half of it runs", Shape::Kept),
    ("hardest: heavy clusters keep all they run, one light one is new", Shape::Hardest),
];

#[derive(Clone, Copy)]
enum Shape {
    Evenly,
    Full,
    Kept,
    Hardest,
}

/// Measures every shape at every size and gives the table.
pub(crate) fn run(rounds: usize) -> Result<String> {
    let mut table = format!(
        "# Planner beside the plain rules\n\n{REPLICAS} replicas; the quickest of {rounds} plans each, in turns on one \
         machine, reasons included on our side; both sides answer the same.\nThe last column is how much longer a plan takes for \
         ten times the clusters; n log n would be about 13.\nMade by `cargo run --release -p koinon-benches -- planner`.\n\n\
         | workload | clusters | koinon | plain rules | ratio | growth |\n|---|---:|---:|---:|---:|---:|\n"
    );
    for (name, shape) in SHAPES {
        let mut smaller = None;
        for clusters in SIZES {
            eprintln!("{name}, {clusters} clusters");
            let (ours, plain) = measure(shape, clusters, rounds)?;
            let growth = smaller.map_or_else(String::new, |smaller: f64| format!("{:.1}", ours / smaller));
            writeln!(
                table,
                "| {name} | {clusters} | {ours:.3} ms | {plain:.3} ms | {:.1} times faster | {growth} |",
                plain / ours
            )?;
            smaller = Some(ours);
        }
    }
    Ok(table)
}

/// The quickest plan of both sides, in milliseconds: a busy machine can only add to it.
fn measure(shape: Shape, clusters: usize, rounds: usize) -> Result<(f64, f64)> {
    let (preferences, candidates) = workload(shape, clusters);
    let workload = Workload { key: "default/web", replicas: REPLICAS, preferences: &preferences };
    let counts = |plan: &Plan| -> Vec<(i64, i64)> {
        plan.clusters.values().map(|share| (share.replicas, share.overflow)).collect()
    };
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begun = Instant::now();
        let quick = black_box(plan(black_box(&workload), black_box(&candidates)));
        ours.push(begun.elapsed().as_secs_f64() * 1000.0);
        let begun = Instant::now();
        let slow = black_box(reference::plan(black_box(&workload), black_box(&candidates)));
        plain.push(begun.elapsed().as_secs_f64() * 1000.0);
        ensure!(counts(&quick) == counts(&slow), "the two sides differ");
    }
    Ok((quickest(ours), quickest(plain)))
}

fn quickest(times: Vec<f64>) -> f64 {
    times.into_iter().fold(f64::INFINITY, f64::min)
}

fn workload(shape: Shape, clusters: usize) -> (Preferences, BTreeMap<String, Candidate>) {
    let mut rng = Rng::new(7);
    let average = REPLICAS / clusters as i64;
    let mut entries = BTreeMap::new();
    let mut candidates = BTreeMap::new();
    for number in 0..clusters {
        let name = format!("region-{}-cluster-{number}", number % 17);
        let mut candidate = Candidate::default();
        let weight = match shape {
            Shape::Evenly => None,
            Shape::Full | Shape::Kept => Some(1 + rng.below(1000) as i64),
            Shape::Hardest => Some(if number == 0 { 1 } else { 1_000_000 + number as i64 }),
        };
        match shape {
            Shape::Evenly => {}
            Shape::Full if rng.chance(33) => {
                candidate.capacity = Some(rng.below(average as usize * 2) as i64)
            }
            Shape::Full => {}
            Shape::Kept => candidate.existing = rng.below(average as usize) as i64,
            Shape::Hardest if number == 0 => {}
            Shape::Hardest => candidate.existing = (REPLICAS - 300) / (clusters as i64 - 1),
        }
        if let Some(weight) = weight {
            entries.insert(name.clone(), ClusterPreference { weight, ..ClusterPreference::default() });
        }
        candidates.insert(name, candidate);
    }
    entries.insert(ANY_CLUSTER.to_owned(), ClusterPreference { weight: 1, ..ClusterPreference::default() });
    let rebalance = matches!(shape, Shape::Evenly | Shape::Full);
    (Preferences { rebalance, scale_down: ScaleDown::Ordered, clusters: entries }, candidates)
}
