//! A whole cluster beside a stock control plane with the same simulated nodes: from `kubectl apply` of many Deployments
//! until every pod is ready.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use koinon_conformance::client::{Client, Request};
use koinon_conformance::harness::{Controllers, Engine, Kind, stock_programs};
use serde_json::{Value, json};

use crate::measure::{median, resident};

const PODS: usize = 10;
const NODES: u32 = 12;
const PATH: &str = "/apis/apps/v1/namespaces/default/deployments";
/// Everything must be ready by then, or something is broken.
const PATIENCE: Duration = Duration::from_secs(600);

struct Measured {
    applied: f64,
    ready: f64,
    memory: f64,
}

/// What a row is called, its unit, and where its value is.
type Row = (&'static str, &'static str, fn(&Measured) -> f64);

/// Measures both sides in turns and gives the table.
pub(crate) async fn run(deployments: usize, rounds: usize) -> Result<String> {
    let (mut ours, mut stock) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut order = [Kind::Stock, Kind::Koinon];
        order.rotate_left(round % 2);
        for kind in order {
            eprintln!("round {} of {rounds}: {kind:?}", round + 1);
            let measured = side(kind, deployments).await?;
            if kind == Kind::Koinon { ours.push(measured) } else { stock.push(measured) }
        }
    }
    let mut table = format!(
        "# A cluster beside stock Kubernetes with the same simulated nodes\n\n{deployments} Deployments of {PODS} pods, \
         {NODES} simulated nodes whose pods need 0.4 s to be ready. Medians of {rounds} rounds in turns on one \
         machine, every write durable; the stock \
         controllers with the limits that their clients have by default.\nMade by `cargo run --release -p koinon-benches -- pods`.\n\n| | koinon | \
         stock | ratio |\n|---|---:|---:|---:|\n"
    );
    let rows: [Row; 3] = [
        ("`kubectl apply` to all pods ready", "s", |one| one.ready),
        ("of which `kubectl apply`", "s", |one| one.applied),
        ("resident memory afterwards", "MiB", |one| one.memory),
    ];
    for (name, unit, value) in rows {
        let of = |side: &[Measured]| median(side.iter().map(value).collect());
        let (ours, stock) = (of(&ours), of(&stock));
        writeln!(table, "| {name} | {ours:.2} {unit} | {stock:.2} {unit} | {:.2} |", ours / stock)?;
    }
    Ok(table)
}

async fn side(kind: Kind, deployments: usize) -> Result<Measured> {
    let controllers = Controllers::All { nodes: NODES };
    let engine = tokio::task::spawn_blocking(move || Engine::start_with(kind, controllers)).await??;
    let file = engine.folder.join("deployments.json");
    let items: Vec<Value> = (0..deployments).map(deployment).collect();
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())?;
    let mut kubectl = Command::new(stock_programs()?.join("kubectl"));
    kubectl.arg("--kubeconfig").arg(engine.kubeconfig()).args(["apply", "-f"]).arg(&file);
    // Pods need the default service account, which a controller makes.
    account(&engine.client).await?;
    let begun = Instant::now();
    let status = tokio::task::spawn_blocking(move || kubectl.stdout(Stdio::null()).status()).await??;
    ensure!(status.success(), "kubectl apply failed");
    let applied = begun.elapsed().as_secs_f64();
    while ready(&engine.client).await? < deployments * PODS {
        ensure!(begun.elapsed() < PATIENCE, "not all pods became ready");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ready = begun.elapsed().as_secs_f64();
    Ok(Measured { applied, ready, memory: resident(&engine)? })
}

fn deployment(number: usize) -> Value {
    let labels = json!({"app": format!("app-{number}")});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": format!("app-{number}"), "namespace": "default"},
        "spec": {"replicas": PODS, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app"}]},
        }},
    })
}

async fn account(client: &Client) -> Result<()> {
    let begun = Instant::now();
    let path = "/api/v1/namespaces/default/serviceaccounts/default";
    while !client.send(&Request::new("GET", path)).await?.status.is_success() {
        ensure!(begun.elapsed() < PATIENCE, "there is no default service account");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn ready(client: &Client) -> Result<usize> {
    let list = client.get(PATH).await?;
    let items = list["items"].as_array().context("a list has items")?;
    let ready: u64 = items.iter().filter_map(|item| item["status"]["readyReplicas"].as_u64()).sum();
    Ok(usize::try_from(ready)?)
}
