//! Custom-resource sync beside a bare client that makes the same writes, on two servers of each engine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use koinon_conformance::client::{Client, Request};
use koinon_conformance::harness::{Controllers, Engine, Kind, koinon_program};
use koinon_conformance::watch::Events;
use serde_json::{Value, json};

use crate::measure::{median, p99};

/// As many writes at a time as the sync makes.
const WRITES: usize = 32;
const EDITS: usize = 300;
const BETWEEN_EDITS: Duration = Duration::from_millis(20);
/// For the idle periods alone; otherwise lists would be most of what is measured.
const SHORT_RESYNC: &str = "2s";
const RESYNC: &str = "5m";
/// Everything must have arrived by then, or something is broken.
const PATIENCE: Duration = Duration::from_secs(600);

/// Two servers, with the CRDs that one size needs.
struct Sides {
    cloud: Engine,
    robot: Engine,
}

/// Measures both engines and gives the table.
pub(crate) async fn run(sizes: &[usize], rounds: usize) -> Result<String> {
    let objects = sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut table = format!(
        "# Custom-resource sync beside a bare client\n\nMedians of {rounds} rounds on one machine; cloud, robot and sync are \
         processes of their own, every write is durable, objects of about 0.5 kB.\nMade by `cargo run --release -p \
         koinon-benches -- sync --objects {objects} --rounds {rounds}`.\n\n| | embedded | kube-apiserver + etcd |\n|---|---:|---:|\n"
    );
    let mut rows: BTreeMap<usize, (String, Vec<Vec<f64>>)> = BTreeMap::new();
    for round in 0..rounds {
        for (column, kind) in [Kind::Koinon, Kind::Stock].into_iter().enumerate() {
            eprintln!("round {} of {rounds}: {kind:?}", round + 1);
            for (number, (name, value)) in engine(kind, sizes).await?.into_iter().enumerate() {
                let row = rows.entry(number).or_insert_with(|| (name, vec![Vec::new(); 2]));
                row.1[column].push(value);
            }
        }
    }
    for (name, values) in rows.into_values() {
        let [embedded, stock] = &values[..] else { anyhow::bail!("two engines") };
        writeln!(table, "| {name} | {:.2} | {:.2} |", median(embedded.clone()), median(stock.clone()))?;
    }
    Ok(table)
}

async fn engine(kind: Kind, sizes: &[usize]) -> Result<Vec<(String, f64)>> {
    let start = || tokio::task::spawn_blocking(move || Engine::start_with(kind, Controllers::None));
    let sides = Sides { cloud: start().await??, robot: start().await?? };
    let mut rows = Vec::new();
    for (number, size) in sizes.iter().enumerate() {
        // The other order than in the round before would be fairer still, but each has fresh collections.
        let (bare, synced) = (format!("bares{size}"), format!("toys{size}"));
        define(&sides.robot.client, &bare, false).await?;
        define(&sides.cloud.client, &synced, true).await?;
        define(&sides.robot.client, &synced, true).await?;
        create_all(&sides.cloud.client, &synced, *size).await?;
        let begun = Instant::now();
        create_all(&sides.robot.client, &bare, *size).await?;
        let alone = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let mut sync = Sync::start(&sides, RESYNC)?;
        let first = first_sync(&sides.robot.client, &synced, *size, begun).await?;
        rows.push((format!("{size} objects: a bare client, s"), alone));
        rows.push((format!("{size} objects: first sync, from the start of the process, s"), first));
        rows.push((format!("{size} objects: first sync beside the bare client"), first / alone));
        rows.push((format!("{size} objects: resident memory of the sync afterwards, MiB"), sync.resident()?));
        if number + 1 == sizes.len() {
            rows.extend(latencies(&sides, &bare, &synced).await?);
            rows.push(("resident memory after the edits, MiB".into(), sync.resident()?));
            // Below, that nothing is counted says that nothing was written; here it would say that nobody counts.
            let counted = writes(&sync.metrics().await?)?;
            ensure!(counted >= *size as f64, "of {size} copies and more only {counted} writes were counted");
            sync.stop()?;
            sync = Sync::start(&sides, SHORT_RESYNC)?;
            let crd = format!("{synced}.bench.koinon.dev");
            rows.push(("writes over three idle resync periods".into(), sync.idle_writes(&crd).await?));
        }
        sync.stop()?;
        // The next size starts alone.
        for engine in [&sides.robot, &sides.cloud] {
            let path =
                format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{synced}.bench.koinon.dev");
            let off = json!({"metadata": {"annotations": {"cr-syncer.cloudrobotics.com/spec-source": null}}});
            send(&engine.client, &merge(&path, &off)).await?;
        }
    }
    Ok(rows)
}

/// A sync as its own process.
struct Sync {
    process: Child,
    metrics: u16,
}

impl Sync {
    fn start(sides: &Sides, resync: &str) -> Result<Sync> {
        let metrics = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let process = Command::new(koinon_program()?)
            .args(["run", "sync", "--robot-name", "r1", "--resync", resync])
            .arg("--cloud-kubeconfig")
            .arg(sides.cloud.kubeconfig())
            .arg("--robot-kubeconfig")
            .arg(sides.robot.kubeconfig())
            .arg("--metrics")
            .arg(format!("127.0.0.1:{metrics}"))
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Sync { process, metrics })
    }

    fn resident(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("a process has a VmRSS")?;
        Ok(line.split_whitespace().nth(1).context("VmRSS has a value")?.parse::<f64>()? / 1024.0)
    }

    /// What its metrics port shows.
    async fn metrics(&self) -> Result<String> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.metrics)).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    /// How many writes there were, once both sides were listed, and then three times again. Its own start counts too: it
    /// writes nothing where nothing differs.
    async fn idle_writes(&self, crd: &str) -> Result<f64> {
        let begun = Instant::now();
        loop {
            // The port opens a little after the process starts.
            let text = self.metrics().await.unwrap_or_default();
            let lists = |side: &str| {
                let start = format!("koinon_sync_lists_total{{crd=\"{crd}\",side=\"{side}\"}} ");
                text.lines().find_map(|line| line.strip_prefix(&start)?.parse::<u64>().ok())
            };
            if let (Some(cloud), Some(robot)) = (lists("cloud"), lists("robot"))
                && cloud.min(robot) > 3
            {
                return writes(&text);
            }
            ensure!(begun.elapsed() < PATIENCE, "{crd} was not listed four times: {text}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn stop(&mut self) -> Result<()> {
        Command::new("kill").arg(self.process.id().to_string()).status()?;
        self.process.wait()?;
        Ok(())
    }
}

/// All writes that were counted. Before the first there is no number.
fn writes(metrics: &str) -> Result<f64> {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix("koinon_sync_writes_total"));
    let numbers = lines.map(|line| line.rsplit(' ').next().unwrap_or(line).parse::<f64>());
    // Not `sum`: that of nothing is -0.
    numbers.map(|number| number.context("a count is a number")).try_fold(0.0, |all, one| Ok(all + one?))
}

impl Drop for Sync {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn define(client: &Client, plural: &str, synced: bool) -> Result<()> {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let annotations =
        if synced { json!({"cr-syncer.cloudrobotics.com/spec-source": "cloud"}) } else { json!({}) };
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.bench.koinon.dev"), "annotations": annotations},
        "spec": {
            "group": "bench.koinon.dev", "scope": "Namespaced", "names": {"plural": plural, "kind": plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    });
    send(client, &Request::json("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd))
        .await?;
    let begun = Instant::now();
    while !client.send(&Request::new("GET", collection(plural))).await?.status.is_success() {
        ensure!(begun.elapsed() < PATIENCE, "{plural} is not served");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn collection(plural: &str) -> String {
    format!("/apis/bench.koinon.dev/v1/namespaces/default/{plural}")
}

fn name(number: usize) -> String {
    format!("toy-{number:06}")
}

async fn send(client: &Client, request: &Request) -> Result<Value> {
    let answer = client.send(request).await?;
    ensure!(answer.status.is_success(), "{} {}", answer.status, answer.json());
    Ok(answer.json())
}

fn merge(path: &str, patch: &Value) -> Request {
    Request::new("PATCH", path).header("content-type", "application/merge-patch+json").body(patch.to_string())
}

async fn create_all(client: &Client, plural: &str, count: usize) -> Result<()> {
    let writers = (0..WRITES).map(|writer| {
        let (client, plural) = (client.clone(), plural.to_owned());
        tokio::spawn(async move {
            for number in (writer..count).step_by(WRITES) {
                let object = json!({
                    "apiVersion": "bench.koinon.dev/v1", "kind": plural,
                    "metadata": {"name": name(number), "labels": {"app": "bench"}, "annotations": {"team": "bench"}},
                    "spec": {"size": number, "text": "x".repeat(300)},
                });
                send(&client, &Request::json("POST", collection(&plural), &object)).await?;
            }
            anyhow::Ok(())
        })
    });
    for written in try_join_all(writers).await? {
        written?;
    }
    Ok(())
}

/// From `begun` until the last copy is there.
async fn first_sync(client: &Client, plural: &str, count: usize, begun: Instant) -> Result<f64> {
    let mut events = Events::open(client, &format!("{}?watch=1", collection(plural))).await?;
    let mut seen = 0;
    while seen < count {
        let event = tokio::time::timeout(PATIENCE, events.next()).await.context("copies are missing")??;
        seen += usize::from(event.context("the watch ended early")?["type"] == "ADDED");
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// Edits seen on the other side, beside edits seen on the same side.
async fn latencies(sides: &Sides, bare: &str, synced: &str) -> Result<Vec<(String, f64)>> {
    let (cloud, robot) = (&sides.cloud.client, &sides.robot.client);
    let mut rows = Vec::new();
    let spec = |number: usize| json!({"spec": {"edit": number}});
    let status = |number: usize| json!({"status": {"edit": number}});
    for (what, suffix, part, above, below) in [
        ("spec", "", &spec as &dyn Fn(usize) -> Value, cloud, robot),
        ("status", "/status", &status, robot, cloud),
    ] {
        let alone = edits(robot, robot, bare, suffix, part).await?;
        let across = edits(above, below, synced, suffix, part).await?;
        let middle =
            |times: &[Duration]| median(times.iter().map(|time| time.as_secs_f64() * 1000.0).collect());
        rows.push((format!("{what} edit, bare write and watch, p50 ms"), middle(&alone)));
        rows.push((format!("{what} edit, seen on the other side, p50 ms"), middle(&across)));
        rows.push((format!("{what} edit, bare write and watch, p99 ms"), p99(alone)));
        rows.push((format!("{what} edit, seen on the other side, p99 ms"), p99(across)));
    }
    Ok(rows)
}

async fn edits(
    above: &Client,
    below: &Client,
    plural: &str,
    suffix: &str,
    part: &dyn Fn(usize) -> Value,
) -> Result<Vec<Duration>> {
    let version =
        below.get(&format!("{}?limit=1", collection(plural))).await?["metadata"]["resourceVersion"].clone();
    let version = version.as_str().context("a list has a version")?;
    let path = format!("{}?watch=1&resourceVersion={version}", collection(plural));
    let mut events = Events::open(below, &path).await?;
    let key = suffix.trim_start_matches('/').to_owned();
    let field = if key.is_empty() { "spec".to_owned() } else { key };
    let watcher = tokio::spawn(async move {
        let mut seen = BTreeMap::new();
        while seen.len() < EDITS {
            let event =
                tokio::time::timeout(PATIENCE, events.next()).await.context("edits are missing")??;
            let event = event.context("the watch ended early")?;
            let object = &event["object"];
            if object[&field]["edit"].is_number()
                && let Some(name) = object["metadata"]["name"].as_str()
            {
                seen.entry(name.to_owned()).or_insert_with(Instant::now);
            }
        }
        anyhow::Ok(seen)
    });
    let mut sent = BTreeMap::new();
    let mut tick = tokio::time::interval(BETWEEN_EDITS);
    for number in 0..EDITS {
        tick.tick().await;
        let request = merge(&format!("{}/{}{suffix}", collection(plural), name(number)), &part(number));
        sent.insert(name(number), Instant::now());
        send(above, &request).await?;
    }
    let seen = watcher.await??;
    Ok(sent.iter().filter_map(|(name, sent)| Some(seen.get(name)?.duration_since(*sent))).collect())
}
