//! Ends the server with SIGKILL under write load, again and again: nothing that it acknowledged may be lost.
//!
//! `KOINON_CRASHES` sets how often (10).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use koinon_conformance::client::{Client, Request};
use koinon_conformance::harness::{Engine, Kind};
use koinon_conformance::rng::Rng;
use serde_json::{Value, json};

const WRITERS: u64 = 8;
const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// What one writer was told about one of its objects.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    /// It is there with this value, at this revision.
    Present(u64, u64),
    /// It is gone.
    Absent,
    /// A write was sent and no answer came: any of the two, from this to that.
    Unsure(Option<u64>, Option<u64>),
}

type Ledger = BTreeMap<String, Told>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive() -> Result<()> {
    let kind =
        if std::env::var("KOINON_SUBJECT").as_deref() == Ok("stock") { Kind::Stock } else { Kind::Koinon };
    let rounds = std::env::var("KOINON_CRASHES").ok().map_or(Ok(10), |text| text.parse())?;
    let mut engine = tokio::task::spawn_blocking(move || Engine::start(kind)).await??;
    let mut ledgers = vec![Ledger::new(); WRITERS as usize];
    let mut newest = 0;
    for round in 0..rounds {
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = ledgers
            .into_iter()
            .zip(0..)
            .map(|(ledger, writer)| {
                let seed = round * 100 + writer;
                tokio::spawn(write(engine.client.clone(), ledger, writer, Rng::new(seed), Arc::clone(&stop)))
            })
            .collect();
        let begun = Instant::now();
        // The moment of the crash has to differ from round to round.
        while begun.elapsed() < Duration::from_millis(300 + 170 * (round % 7)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        engine = tokio::task::spawn_blocking(move || engine.kill().map(|()| engine)).await??;
        stop.store(true, Ordering::Relaxed);
        ledgers = Vec::new();
        for writer in writers {
            ledgers.push(writer.await?);
        }
        engine = tokio::task::spawn_blocking(move || engine.resume().map(|()| engine)).await??;
        newest = check(&engine.client, &mut ledgers, newest)
            .await
            .with_context(|| format!("after crash {round}"))?;
    }
    Ok(())
}

async fn write(
    client: Client,
    mut ledger: Ledger,
    writer: u64,
    mut rng: Rng,
    stop: Arc<AtomicBool>,
) -> Ledger {
    while !stop.load(Ordering::Relaxed) {
        let name = format!("w{writer}-{}", rng.below(40));
        let before = match ledger.get(&name) {
            Some(Told::Present(value, _)) => Some(*value),
            _ => None,
        };
        let after = (!(before.is_some() && rng.chance(25))).then(|| rng.number());
        let body =
            json!({"metadata": {"name": name}, "data": {"value": after.map(|value| value.to_string())}});
        let request = match (before, after) {
            (None, _) => Request::json("POST", PATH, &body),
            (Some(_), Some(_)) => Request::json("PUT", format!("{PATH}/{name}"), &body),
            (Some(_), None) => Request::new("DELETE", format!("{PATH}/{name}")),
        };
        let told = match client.send(&request).await {
            Ok(answer) if answer.status.is_success() => match after {
                Some(value) => Told::Present(value, revision(&answer.json())),
                None => Told::Absent,
            },
            Ok(answer) => panic!("{} {}: {} {}", request.method, request.path, answer.status, answer.json()),
            Err(_) => Told::Unsure(before, after),
        };
        let failed = matches!(told, Told::Unsure(..));
        ledger.insert(name, told);
        if failed {
            break;
        }
    }
    ledger
}

/// Compares what is there with what was told; gives the newest revision.
async fn check(client: &Client, ledgers: &mut [Ledger], before: u64) -> Result<u64> {
    let list = client.get(PATH).await?;
    let mut there: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for item in list["items"].as_array().context("a list has items")? {
        let value = item["data"]["value"].as_str().and_then(|text| text.parse().ok());
        let name = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if let Some(value) = value {
            there.insert(name, (value, revision(item)));
        }
    }
    let newest = revision(&list);
    let (mut told, mut count) = (before, 0);
    for (name, entry) in ledgers.iter_mut().flatten() {
        let found = there.remove(name);
        count += 1;
        match entry {
            Told::Present(value, at) => {
                told = told.max(*at);
                ensure!(
                    found == Some((*value, *at)),
                    "{name} was acknowledged with {value} at {at}, found {found:?}"
                );
            }
            Told::Absent => ensure!(found.is_none(), "{name} was acknowledged as deleted, found {found:?}"),
            Told::Unsure(from, to) => {
                let value = found.map(|(value, _)| value);
                ensure!(
                    value == *from || value == *to,
                    "{name} should be {from:?} or {to:?}, found {value:?}"
                );
            }
        }
        *entry = found.map_or(Told::Absent, |(value, at)| Told::Present(value, at));
    }
    ensure!(there.is_empty(), "nobody wrote {there:?}");
    ensure!(newest >= told, "the revision went back from {told} to {newest}");
    println!("{count} objects as acknowledged, revision {newest}");
    Ok(newest)
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}
