//! A ReplicaSet on its way to many members, beside a bare client that makes the same writes.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::league::{League, Members, PATIENCE, Role};
use crate::measure::{median, p99};

/// So many are created at a time where all of them count.
const AT_ONCE: usize = 16;

/// Which members have which objects, by watches.
struct Arrivals {
    counts: watch::Receiver<HashMap<String, usize>>,
    _watches: JoinSet<()>,
}

pub(crate) async fn run(members: usize, sets: usize, rounds: usize) -> Result<String> {
    let league = League::start(members, Members::Bare).await?;
    let arrivals = Arrivals::watch(&league.members).await?;
    let role = Role::start(league.folder.path())?;
    // The first one finds everything cold, on both sides.
    federated(&league, &arrivals, "warm", members).await?;
    bare(&league.members, "warm-bare").await?;
    let (mut through, mut alone) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        through.push(federated(&league, &arrivals, &format!("through-{round}"), members).await?);
        alone.push(bare(&league.members, &format!("bare-{round}")).await?);
    }
    let before = league.stored()?;
    let begun = Instant::now();
    let create = |number: usize| create(&league.federation, format!("many-{number}"), members);
    futures::stream::iter(0..sets).map(create).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
    arrivals.until_all("many-", sets * members).await?;
    let all = begun.elapsed().as_secs_f64();
    let wanted = ((rounds + 1 + sets) * members) as f64;
    role.until_measured(WANTED, wanted).await?;
    let quiet = role.until_quiet(CHECKS).await?.as_secs_f64();
    let (stored, memory) = (league.stored()? - before, role.resident()?);
    let decided = decided(&role).await?;
    let processor = role.processor()?;
    role.stop()?;
    let role = Role::start(league.folder.path())?;
    role.until_measured(WANTED, wanted).await?;
    let looked_at = role.since.elapsed().as_secs_f64();
    let restart = role.until_quiet(CHECKS).await?.as_secs_f64();
    let decided_again = self::decided(&role).await?;
    let (restart_memory, restart_processor) = (role.resident()?, role.processor()?);
    role.stop()?;

    let ms = |times: &[Duration]| median(times.iter().map(|time| time.as_secs_f64() * 1000.0).collect());
    let (middle, middle_alone) = (ms(&through), ms(&alone));
    let mut table = format!(
        "# Federated ReplicaSets beside a bare client\n\n{members} embedded members over HTTPS on one machine, {rounds} rounds; \
         the role is a process of its own, every write is durable.\nMade by `cargo run --release -p koinon-benches -- \
         replicasets`.\n\n| | |\n|---|---:|\n"
    );
    for (name, value) in [
        ("from creation to the last member's object, p50, ms", middle),
        ("the same, p99, ms", p99(through)),
        ("a bare client with the same writes, p50, ms", middle_alone),
        ("the same, p99, ms", p99(alone)),
        ("beside the bare client, p50", middle / middle_alone),
        ("workloads placed a second", sets as f64 / all),
        ("members' objects written a second", (sets * members) as f64 / all),
        ("placements decided in a second of planning, while the members take what is written", decided),
        ("growth of the federation's store, MiB", stored),
        ("resident memory of the role, MiB", memory),
        ("processor time of the role until then, s", processor),
        ("from its start until it rested, s", quiet),
        ("started again: until every workload was looked at, s", looked_at),
        ("started again: until it rested, s", restart),
        ("started again: placements decided in a second of planning", decided_again),
        ("started again: resident memory, MiB", restart_memory),
        ("started again: processor time, s", restart_processor),
    ] {
        writeln!(table, "| {name} | {value:.2} |")?;
    }
    writeln!(table, "\n{sets} ReplicaSets over {members} members from \"placed\" on.")?;
    Ok(table)
}

const WANTED: &str = "koinon_workloads_replicas{kind=\"ReplicaSet\",state=\"Wanted\"}";

const CHECKS: &str = "koinon_workloads_checks_total";
const PLANNING: &str = "koinon_workloads_check_seconds";
const DECIDING: &str = "{part=\"Plan\"}";

/// How many placements the role decides in a second that it spends on deciding. The members take their part of the
/// same processors meanwhile.
async fn decided(role: &Role) -> Result<f64> {
    let planned = role.measured(&format!("{PLANNING}_count{DECIDING}")).await?;
    Ok(planned / role.measured(&format!("{PLANNING}_sum{DECIDING}")).await?)
}

fn set(name: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/web:1"}]},
            },
        },
    })
}

async fn apply(client: &Client, name: &str, replicas: usize) -> Result<()> {
    let api: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let params = PatchParams::apply("bench").force();
    api.patch(name, &params, &Patch::Apply(set(name, replicas))).await?;
    Ok(())
}

async fn create(federation: &Client, name: String, replicas: usize) -> Result<()> {
    apply(federation, &name, replicas).await
}

/// One replica in each member, through the federation: the time until the last one has its object.
async fn federated(league: &League, arrivals: &Arrivals, name: &str, members: usize) -> Result<Duration> {
    let begun = Instant::now();
    apply(&league.federation, name, members).await?;
    arrivals.until_all(name, members).await?;
    Ok(begun.elapsed())
}

/// The same writes, all at once, by whoever does nothing else.
async fn bare(members: &[Client], name: &str) -> Result<Duration> {
    let begun = Instant::now();
    try_join_all(members.iter().map(|client| apply(client, name, 1))).await?;
    Ok(begun.elapsed())
}

impl Arrivals {
    async fn watch(members: &[Client]) -> Result<Arrivals> {
        let (sender, counts) = watch::channel(HashMap::<String, usize>::new());
        let sender = Arc::new(sender);
        let mut watches = JoinSet::new();
        for client in members {
            let api: Api<ReplicaSet> = Api::default_namespaced(client.clone());
            let from = api.list(&Default::default()).await?.metadata.resource_version.unwrap_or_default();
            let sender = sender.clone();
            watches.spawn(async move {
                let mut from = from;
                // A watch has its time, and the next one goes on where it ended.
                while let Ok(events) = api.watch(&WatchParams::default().timeout(290), &from).await {
                    let mut events = events.boxed();
                    while let Some(Ok(event)) = events.next().await {
                        if let WatchEvent::Added(set) = &event {
                            sender.send_modify(|counts| *counts.entry(set.name_any()).or_default() += 1);
                        }
                        if let WatchEvent::Added(set) | WatchEvent::Modified(set) = event {
                            from = set.resource_version().unwrap_or(from);
                        }
                    }
                }
            });
        }
        Ok(Arrivals { counts, _watches: watches })
    }

    /// Waits until members have so many objects whose name starts so.
    async fn until_all(&self, name: &str, count: usize) -> Result<()> {
        let there = |counts: &HashMap<String, usize>| {
            let of = |(one, _): &(&String, &usize)| {
                one.as_str() == name || (name.ends_with('-') && one.starts_with(name))
            };
            counts.iter().filter(of).map(|(_, count)| count).sum::<usize>() >= count
        };
        let mut counts = self.counts.clone();
        let arrived = tokio::time::timeout(PATIENCE, counts.wait_for(there)).await;
        ensure!(arrived.is_ok_and(|arrived| arrived.is_ok()), "not all of {name} arrived");
        Ok(())
    }
}
