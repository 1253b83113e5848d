//! Scenarios for many seeds. What fails is shrunk to a small schedule, and told with its timeline.

use std::fmt::Debug;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::trace::Trace;

/// So often a schedule that fails is run again in the hope of a smaller one.
const SHRINKS: usize = 150;

/// What the environment asks for: `KOINON_SEED` one alone, `KOINON_SEEDS` so many or from one to another (`300..600`), otherwise
/// the usual number.
pub fn seeds(usual: u64) -> Range<u64> {
    let number = |text: &str| text.parse::<u64>().ok();
    if let Some(seed) = std::env::var("KOINON_SEED").ok().and_then(|text| number(&text)) {
        return seed..seed + 1;
    }
    let asked = std::env::var("KOINON_SEEDS").ok().and_then(|text| match text.split_once("..") {
        Some((first, end)) => Some(number(first)?..number(end)?),
        None => Some(0..number(&text)?),
    });
    asked.unwrap_or(0..usual)
}

/// How a scenario is explored.
#[derive(Clone, Debug)]
pub struct Exploration<S> {
    /// For the message when it fails.
    pub name: &'static str,
    pub seeds: Range<u64>,
    /// Schedules, as data.
    pub schedules: S,
}

/// Runs a scenario once for each seed, each time in a runtime of its own whose time only passes when nothing is left
/// to do. The schedule follows from the seed, and the scenario should follow from the schedule.
pub fn explore<S: Strategy, F: Future<Output = ()>>(
    exploration: &Exploration<S>,
    scenario: impl Fn(S::Value, Trace) -> F,
) where
    S::Value: Clone + Debug,
{
    for seed in exploration.seeds.clone() {
        let mut tree = tree(&exploration.schedules, seed);
        let Err(mut failure) = run(tree.current(), &scenario) else { continue };
        let mut smallest = tree.current();
        let mut smaller = tree.simplify();
        for _ in 0..SHRINKS {
            if !smaller {
                break;
            }
            let candidate = tree.current();
            smaller = match run(candidate.clone(), &scenario) {
                Err(again) => {
                    (failure, smallest) = (again, candidate);
                    tree.simplify()
                }
                Ok(()) => tree.complicate(),
            };
        }
        panic!(
            "{}: seed {seed} failed; KOINON_SEED={seed} repeats it.\n\nThe smallest schedule that fails:\n{smallest:?}\n\n\
             What happened, by seconds:\n{}\n\n{}",
            exploration.name,
            failure.trace.told(),
            failure.why
        );
    }
}

/// Runs a scenario for one schedule: for a failure that was found and is not to come back.
pub fn replay<T, F: Future<Output = ()>>(schedule: T, scenario: impl Fn(T, Trace) -> F) -> Trace {
    let trace = Trace::default();
    match attempt(schedule, &scenario, &trace) {
        Ok(()) => trace,
        Err(why) => panic!("What happened, by seconds:\n{}\n\n{why}", trace.told()),
    }
}

/// Runs a scenario twice for each seed. Both runs have the same trace to the letter, or a failure could not be repeated.
pub fn repeat<S: Strategy, F: Future<Output = ()>>(
    exploration: &Exploration<S>,
    scenario: impl Fn(S::Value, Trace) -> F,
) where
    S::Value: Clone + Debug,
{
    for seed in exploration.seeds.clone() {
        let schedule = tree(&exploration.schedules, seed).current();
        let (first, second) =
            (replay(schedule.clone(), &scenario).timeline(), replay(schedule, &scenario).timeline());
        let mut lines = first.lines().zip(second.lines()).enumerate();
        if let Some((number, (one, other))) = lines.find(|(_, (one, other))| one != other) {
            let before: Vec<&str> = first.lines().take(number).collect();
            let before = before[before.len().saturating_sub(20)..].join("\n");
            panic!(
                "{}: seed {seed} does not repeat:\n{before}\n  one run: {one}\nthe other: {other}",
                exploration.name
            );
        }
        assert_eq!(
            first.len(),
            second.len(),
            "{}: one run of seed {seed} went on for longer",
            exploration.name
        );
    }
}

/// The schedules of a seed, and all that are simpler.
fn tree<S: Strategy>(schedules: &S, seed: u64) -> S::Tree {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    schedules.new_tree(&mut runner).expect("schedules can be made")
}

struct Failure {
    trace: Trace,
    why: String,
}

fn run<T, F: Future<Output = ()>>(schedule: T, scenario: &impl Fn(T, Trace) -> F) -> Result<(), Failure> {
    let trace = Trace::default();
    attempt(schedule, scenario, &trace).map_err(|why| Failure { trace, why })
}

fn attempt<T, F: Future<Output = ()>>(
    schedule: T,
    scenario: &impl Fn(T, Trace) -> F,
    trace: &Trace,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime can be made");
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(scenario(schedule, trace.clone()));
        trace.assert_kept();
    }));
    outcome.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "a panic without words".into())
    })
}
