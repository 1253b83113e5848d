//! `koinon simulate`: a federation of simulated clusters with a workload, in one thread under virtual time, put through
//! trouble that follows from a seed.

mod league;
mod report;
mod trouble;

use std::time::Duration;

use anyhow::Context as _;
use koinon_simulation::Dice;

use self::league::League;
use self::report::{Episode, Report};
use self::trouble::{Trouble, What};
use crate::flags::{self, Health, Nodes, Spreading};

/// How often the replicas are counted.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Longer than anything that a federation does by itself takes.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Longer than any pause after which something still happens by itself.
const QUIET: Duration = Duration::from_secs(200);

#[derive(Debug, clap::Args)]
pub(crate) struct Simulate {
    /// How many members the federation has
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=200))]
    members: u32,
    /// How many replicas its Deployment has
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    replicas: u32,
    /// How long there is trouble
    #[arg(long = "for", value_name = "TIME", default_value = "30m", value_parser = flags::duration)]
    lasts: Duration,
    /// How long it is on average from one trouble to the next
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = flags::duration)]
    every: Duration,
    /// What can go wrong
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cut,hang,slow,flaky,restart")]
    faults: Vec<What>,
    /// All chances follow from it: the same seed is the same story
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many seeds to try, from that one on
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: u64,
    /// How to tell it
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    health: Health,
    #[command(flatten)]
    spreading: Spreading,
    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Runs every seed and tells how it fared; fails if one did not end well.
pub(crate) fn run(options: &Simulate) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for seed in options.seed..options.seed.saturating_add(options.runs) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .context("cannot start a runtime")?;
        let report = runtime.block_on(play(options, seed))?;
        match options.output {
            Output::Text => print!("{report}"),
            Output::Json => println!("{}", serde_json::to_string(&report)?),
        }
        if !report.ended_well() {
            failed.push(seed.to_string());
        }
    }
    anyhow::ensure!(failed.is_empty(), "it did not end well with seed {}", failed.join(", "));
    Ok(())
}

async fn play(options: &Simulate, seed: u64) -> anyhow::Result<Report> {
    let mut league = League::open(options, seed).await?;
    let wanted = u64::from(options.replicas);
    let mut report = Report::new(seed, options.members, wanted);
    report.spread_after = league.until_whole(wanted, PATIENCE).await;
    if report.spread_after.is_none() {
        return Ok(report.at(league.elapsed()));
    }
    let (mut dice, begun) = (Dice::of(seed, "trouble"), league.elapsed());
    let names = league.names();
    while league.elapsed() - begun < options.lasts {
        let trouble = Trouble::draw(&mut dice, &options.faults, &names);
        let mut episode = Episode::new(league.elapsed(), trouble.to_string(), wanted);
        league.meet(&trouble).await?;
        let pause = trouble::pause(&mut dice, options.every);
        let end = league.elapsed() + pause;
        while league.elapsed() < end {
            tokio::time::sleep(LOOK_EVERY.min(end - league.elapsed())).await;
            episode.saw(&league.count().await, LOOK_EVERY);
        }
        report.episodes.push(episode);
    }
    league.heal();
    report.whole_after = league.until_whole(wanted, PATIENCE).await;
    report.quiet = league.comes_to_rest(QUIET).await;
    report.writes = league.writes();
    Ok(report.at(league.elapsed()))
}
