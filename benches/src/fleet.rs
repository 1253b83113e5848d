//! Very many members of one fleet: what each costs, how soon all are known, and what one that is silent does to the others.

mod site;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::ConfigMap;
use koinon_control::Clock;
use koinon_fleet::{ClusterId, Fleet, Index, Knowledge, Metrics, Options, Record, Selection};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use self::site::{Mode, Site};
use crate::measure::{p99, resident_of};

/// Everything must have happened by then, or something is broken.
const PATIENCE: Duration = Duration::from_secs(600);
/// Servers that are made at a time.
const AT_ONCE: usize = 16;

/// How much is measured.
pub(crate) struct Sizes {
    /// Members of the fleet in which one falls silent.
    pub(crate) few: usize,
    /// How often everybody is written to, with and without the silent one.
    pub(crate) rounds: usize,
    /// Members of the large fleet.
    pub(crate) many: usize,
    /// How many of them vanish at once.
    pub(crate) vanish: usize,
}

/// Keeps how many entries a ConfigMap has.
#[derive(PartialEq)]
struct Size(usize);

impl Record for Size {
    type Object = ConfigMap;

    fn fold(object: &ConfigMap) -> Option<Size> {
        Some(Size(object.data.as_ref().map_or(0, BTreeMap::len)))
    }
}

/// Measures and gives the table.
pub(crate) async fn run(sizes: &Sizes) -> Result<String> {
    ensure!(sizes.few > 1 && sizes.rounds > 0, "one member and others are needed, and a round");
    ensure!(sizes.vanish <= sizes.many, "no more can vanish than there are");
    let mut table = "# Many members of one fleet\n\nEmbedded API servers in memory, in the same process as the fleet, so that what is measured is \
         the fleet and not a network.\nMade by `cargo run --release -p koinon-benches -- fleet`.\n\n".to_owned();
    silent(sizes, &mut table).await?;
    large(sizes, &mut table).await?;
    Ok(table)
}

// === One that is silent ===

async fn silent(sizes: &Sizes, table: &mut String) -> Result<()> {
    eprintln!("{} members, of which one falls silent", sizes.few);
    let sites = Site::open_all(sizes.few, AT_ONCE).await?;
    let fleet = Fleet::new(Options::default(), Metrics::default(), Clock::default());
    fleet.set(wanted(&sites)).await;
    until("all are reachable", || fleet.members().iter().all(|member| member.is_reachable())).await?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let silent = sites.first().context("there is a member")?;
    write_all(&fleet, silent, 0, &mut Vec::new()).await?;
    // In turns, so that a noisy moment of the machine meets both; each turn with it begins when nobody has noticed yet.
    for round in 0..sizes.rounds {
        write_all(&fleet, silent, 2 * round + 1, &mut without).await?;
        silent.set(Mode::Silent);
        write_all(&fleet, silent, 2 * round + 2, &mut with).await?;
        silent.set(Mode::Up);
        // The circuit closes again with the next probe that is answered.
        fleet.get(silent.id.as_str()).context("it is a member")?.client().admitted().await;
    }
    // The same when it has long been known to be gone: a role goes on to ask, and is told at once.
    silent.set(Mode::Silent);
    until("it is unreachable", || fleet.get(silent.id.as_str()).is_some_and(|member| !member.is_reachable()))
        .await?;
    let mut gone = Vec::new();
    for round in 0..sizes.rounds {
        write_all(&fleet, silent, 1_000_000 + round, &mut gone).await?;
    }
    let (without, with, gone) = (p99(without), p99(with), p99(gone));
    writeln!(table, "## One of {} members is silent\n", sizes.few)?;
    writeln!(
        table,
        "Each of {} rounds writes to all members at once; the time of each write to the others.\n",
        sizes.rounds
    )?;
    writeln!(
        table,
        "| p99 of a write to one of the other {} | | beside without |\n|---|---:|---:|",
        sizes.few - 1
    )?;
    writeln!(table, "| all answer | {without:.2} ms | 1.00 |")?;
    writeln!(table, "| one has just fallen silent | {with:.2} ms | {:.2} |", with / without)?;
    writeln!(table, "| one is known to be unreachable | {gone:.2} ms | {:.2} |\n", gone / without)?;
    Ok(())
}

/// Writes to every member at once, as a role does; keeps how long it took with all but the one that may be silent.
async fn write_all(fleet: &Arc<Fleet>, silent: &Site, says: usize, times: &mut Vec<Duration>) -> Result<()> {
    let write = async |member: &koinon_fleet::Member| {
        let api = member.client().namespaced::<ConfigMap>("default");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bench"}, "data": {"says": says.to_string()}});
        let begun = Instant::now();
        let params = PatchParams::apply("bench").force();
        member.client().call(api.patch("bench", &params, &Patch::Apply(map))).await?;
        anyhow::Ok(begun.elapsed())
    };
    let members = fleet.members();
    let (one, others): (Vec<_>, Vec<_>) = members.into_iter().partition(|member| *member.name() == silent.id);
    let write_one = async {
        let _ = join_all(one.iter().map(|member| write(member))).await;
        // Its end is nobody's concern.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        done = try_join_all(others.iter().map(|member| write(member))) => times.extend(done?),
        () = write_one => {}
    }
    Ok(())
}

// === Very many ===

async fn large(sizes: &Sizes, table: &mut String) -> Result<()> {
    eprintln!("{} members", sizes.many);
    let sites = Site::open_all(sizes.many, AT_ONCE).await?;
    let servers = memory()?;
    let fleet = Fleet::new(Options::default(), Metrics::default(), Clock::default());
    let begun = Instant::now();
    fleet.set(wanted(&sites)).await;
    let first: Arc<Index<Size>> = Index::new();
    let following = follow(&fleet, first.clone());
    until_known(&fleet, &first).await?;
    let known = begun.elapsed();
    let one_watch = memory()?;
    let second: Arc<Index<Size>> = Index::new();
    let following_more = follow(&fleet, second.clone());
    until_known(&fleet, &second).await?;
    let two_watches = memory()?;
    until("all are reachable", || fleet.members().iter().all(|member| member.is_reachable())).await?;

    eprintln!("{} of them vanish", sizes.vanish);
    let vanishing = &sites[..sizes.vanish];
    let begun = Instant::now();
    for site in vanishing {
        site.set(Mode::Silent);
    }
    let is_gone = |site: &Site| fleet.get(site.id.as_str()).is_some_and(|member| !member.is_reachable());
    until("those that vanished are unreachable", || vanishing.iter().all(is_gone)).await?;
    let noticed = begun.elapsed();
    let (wrong, others) =
        (sites[sizes.vanish..].iter().filter(|site| is_gone(site)).count(), sizes.many - sizes.vanish);
    ensure!(wrong == 0, "{wrong} of {others} that stayed count as unreachable");

    eprintln!("they return");
    vanishing.iter().for_each(Site::forget_requests);
    let begun = Instant::now();
    for site in vanishing {
        site.set(Mode::Up);
    }
    until("those that returned are reachable", || !vanishing.iter().any(is_gone)).await?;
    let back = begun.elapsed();
    for index in [&first, &second] {
        until_known(&fleet, index).await?;
    }
    let rates = rates(vanishing);
    let (total, most) = (rates.values().sum::<usize>(), rates.values().copied().max().unwrap_or(0));
    following.abort();
    following_more.abort();

    let each = |more: f64| more * 1024.0 / sizes.many as f64;
    writeln!(table, "## {} members\n\n| | |\n|---|---:|", sizes.many)?;
    writeln!(table, "| memory of each member, with one watch | {:.0} KiB |", each(one_watch - servers))?;
    writeln!(
        table,
        "| memory of each further watch of a member | {:.0} KiB |",
        each(two_watches - one_watch)
    )?;
    writeln!(table, "| first complete view of one kind in all of them | {:.1} s |", known.as_secs_f64())?;
    writeln!(
        table,
        "| {} vanish at once: until all count as unreachable | {:.1} s |",
        sizes.vanish,
        noticed.as_secs_f64()
    )?;
    writeln!(table, "| they return: until all count as reachable | {:.1} s |", back.as_secs_f64())?;
    writeln!(table, "| requests to them on their return, all, and most in one second | {total}, {most} |")?;
    Ok(())
}

fn follow(fleet: &Arc<Fleet>, index: Arc<Index<Size>>) -> tokio::task::JoinHandle<()> {
    let fleet = fleet.clone();
    tokio::spawn(async move {
        fleet.follow(index, Selection::default(), |member| member.namespaced("default")).await;
    })
}

async fn until_known(fleet: &Arc<Fleet>, index: &Arc<Index<Size>>) -> Result<()> {
    until("everything is known", || {
        fleet.members().iter().all(|member| index.knowledge(member.name().as_str()) == Knowledge::Complete)
    })
    .await
}

fn wanted(sites: &[Site]) -> BTreeMap<ClusterId, koinon_fleet::Wanted> {
    sites.iter().map(|site| (site.id.clone(), site.wanted())).collect()
}

/// Requests in each second.
fn rates(sites: &[Site]) -> BTreeMap<u64, usize> {
    let mut rates = BTreeMap::new();
    for second in sites.iter().flat_map(Site::requests) {
        *rates.entry(second).or_default() += 1;
    }
    rates
}

fn memory() -> Result<f64> {
    resident_of(std::process::id())
}

async fn until(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !holds() {
        ensure!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
