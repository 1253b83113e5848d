//! The API server beside kube-apiserver and etcd: both are started, warmed and measured in the same way, in
//! turns, on the same machine; every write is on disk before it is answered.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use koinon_conformance::client::{Client, Request};
use koinon_conformance::harness::{Controllers, Engine, Kind};
use koinon_conformance::watch::Events;
use serde_json::json;

use crate::measure::{median, p99, resident};

const CLIENTS: usize = 64;
const CREATES: usize = 6_400;
const WATCHED: usize = 1_000;
const LISTS: usize = 5;
const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// What is measured; whether more of it is better.
const ROWS: [(&str, &str, Better); 7] = [
    ("start to ready", "s", Better::Less),
    ("resident memory, idle", "MiB", Better::Less),
    ("creates a second, 64 clients", "/s", Better::More),
    ("watch latency p99, 200 creates a second", "ms", Better::Less),
    ("list of all objects", "ms", Better::Less),
    ("resident memory, full", "MiB", Better::Less),
    ("start to ready, full", "s", Better::Less),
];

#[derive(Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
}

/// Measures both sides in turns and gives the table.
pub(crate) async fn run(objects: usize, rounds: usize) -> Result<String> {
    let mut measured: BTreeMap<(&str, bool), Vec<f64>> = BTreeMap::new();
    for round in 0..rounds {
        let mut order = [Kind::Stock, Kind::Koinon];
        order.rotate_left(round % 2);
        for kind in order {
            eprintln!("round {} of {rounds}: {kind:?}", round + 1);
            for ((name, ..), value) in ROWS.iter().zip(side(kind, objects).await?) {
                measured.entry((name, kind == Kind::Koinon)).or_default().push(value);
            }
        }
    }
    let mut table = format!(
        "# API server beside kube-apiserver and etcd\n\nMedians of {rounds} rounds in turns on one machine; {objects} \
         ConfigMaps of about 1 kB when full; every write durable.\nMade by `cargo run --release -p koinon-benches -- \
         apiserver`.\n\n| | koinon | kube-apiserver + etcd | ratio |\n|---|---:|---:|---:|\n"
    );
    for (name, unit, better) in ROWS {
        let of =
            |koinon: bool| measured.get(&(name, koinon)).cloned().map(median).context("all was measured");
        let (koinon, stock) = (of(true)?, of(false)?);
        let (ratio, word) = match better {
            Better::Less => (stock / koinon, if unit == "MiB" { "less" } else { "faster" }),
            Better::More => (koinon / stock, "more"),
        };
        writeln!(table, "| {name} | {koinon:.2} {unit} | {stock:.2} {unit} | {ratio:.1} times {word} |")?;
    }
    Ok(table)
}

async fn side(kind: Kind, objects: usize) -> Result<[f64; 7]> {
    let begun = Instant::now();
    let mut engine =
        tokio::task::spawn_blocking(move || Engine::start_with(kind, Controllers::None)).await??;
    let started = begun.elapsed().as_secs_f64();
    warm(&engine.client).await?;
    let idle = resident(&engine)?;
    let rate = creates(&engine.client).await?;
    let latency = watch_latency(&engine.client).await?;
    fill(&engine.client, objects).await?;
    let list = list(&engine.client, objects).await?;
    let full = resident(&engine)?;
    let again = tokio::task::spawn_blocking(move || {
        engine.stop()?;
        let begun = Instant::now();
        engine.resume()?;
        anyhow::Ok(begun.elapsed().as_secs_f64())
    })
    .await??;
    Ok([started, idle, rate, latency, list, full, again])
}

fn body(name: &str) -> Request {
    Request::json("POST", PATH, &json!({"metadata": {"name": name}, "data": {"value": "x".repeat(850)}}))
}

async fn create(client: &Client, name: &str) -> Result<()> {
    let answer = client.send(&body(name)).await?;
    ensure!(answer.status.is_success(), "create {name}: {} {}", answer.status, answer.json());
    Ok(())
}

/// The same first requests on both sides: connections, caches and discovery are there afterwards.
async fn warm(client: &Client) -> Result<()> {
    for path in ["/api", "/apis", "/openapi/v3", PATH] {
        client.get(path).await?;
    }
    try_join_all((0..CLIENTS).map(|index| async move { create(client, &format!("warm-{index}")).await }))
        .await?;
    Ok(())
}

async fn creates(client: &Client) -> Result<f64> {
    let begun = Instant::now();
    many(client, "create", CREATES).await?;
    Ok(CREATES as f64 / begun.elapsed().as_secs_f64())
}

async fn many(client: &Client, prefix: &str, count: usize) -> Result<()> {
    let writers = (0..CLIENTS).map(|writer| {
        let (client, prefix) = (client.clone(), prefix.to_owned());
        tokio::spawn(async move {
            for index in (writer..count).step_by(CLIENTS) {
                create(&client, &format!("{prefix}-{index}")).await?;
            }
            anyhow::Ok(())
        })
    });
    for written in try_join_all(writers).await? {
        written?;
    }
    Ok(())
}

/// From the sending of a create to its event's arrival at a watcher, at a rate that neither side feels.
async fn watch_latency(client: &Client) -> Result<f64> {
    let version = client.get(&format!("{PATH}?limit=1")).await?["metadata"]["resourceVersion"].clone();
    let version = version.as_str().context("a list has a resource version")?;
    let mut events = Events::open(client, &format!("{PATH}?watch=1&resourceVersion={version}")).await?;
    let watcher = tokio::spawn(async move {
        let mut seen = BTreeMap::new();
        while seen.len() < WATCHED {
            let event = events.next().await?.context("the watch ended early")?;
            if let Some(name) = event["object"]["metadata"]["name"].as_str() {
                seen.insert(name.to_owned(), Instant::now());
            }
        }
        anyhow::Ok(seen)
    });
    let mut sent = BTreeMap::new();
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    let mut writes = Vec::new();
    for index in 0..WATCHED {
        tick.tick().await;
        let name = format!("watched-{index}");
        sent.insert(name.clone(), Instant::now());
        let client = client.clone();
        writes.push(tokio::spawn(async move { create(&client, &name).await }));
    }
    for written in try_join_all(writes).await? {
        written?;
    }
    let seen = watcher.await??;
    let times = sent
        .iter()
        .filter_map(|(name, sent)| seen.get(name).map(|seen| seen.duration_since(*sent)))
        .collect();
    Ok(p99(times))
}

async fn fill(client: &Client, objects: usize) -> Result<()> {
    let there = count(client).await?;
    many(client, "fill", objects.saturating_sub(there)).await
}

async fn count(client: &Client) -> Result<usize> {
    let list = client.get(PATH).await?;
    Ok(list["items"].as_array().map_or(0, Vec::len))
}

async fn list(client: &Client, objects: usize) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..LISTS {
        let begun = Instant::now();
        let answer = client.send(&Request::new("GET", PATH)).await?;
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
        ensure!(answer.status.is_success() && answer.body.len() > objects * 900, "a list that is too short");
    }
    Ok(median(times))
}
