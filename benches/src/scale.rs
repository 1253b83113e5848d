//! `koinon up` with very many members: time to be ready, memory and where it goes, and what it costs at rest.

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use koinon_conformance::client::{Client, Request};
use koinon_conformance::harness::{koinon_program, wait_until};
use serde_json::json;

use crate::measure::{processor_time, resident_of};

const PODS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(900);
/// How long it is watched at rest.
const REST: Duration = Duration::from_secs(60);

/// A running `koinon up`, ended with this.
struct Up {
    child: Child,
    folder: tempfile::TempDir,
    ready_after: f64,
}

impl Up {
    fn start(members: usize, nodes: usize) -> Result<Up> {
        let folder = tempfile::Builder::new().prefix("koinon-scale-").tempdir()?;
        let output = folder.path().join("out");
        let begun = Instant::now();
        let mut child = Command::new(koinon_program()?)
            .args(["up", "--members", &members.to_string(), "--nodes", &nodes.to_string()])
            .args(["--listen", "127.0.0.1:0", "--data"])
            .arg(folder.path().join("data"))
            .stdout(std::fs::File::create(&output)?)
            .stderr(Stdio::inherit())
            .spawn()?;
        wait_until(PATIENCE, || {
            let printed = std::fs::read_to_string(&output).unwrap_or_default();
            printed.lines().any(|line| line.starts_with("ready")) || !matches!(child.try_wait(), Ok(None))
        })?;
        ensure!(matches!(child.try_wait(), Ok(None)), "koinon up ended before it was ready");
        Ok(Up { child, folder, ready_after: begun.elapsed().as_secs_f64() })
    }

    fn memory(&self) -> Result<f64> {
        resident_of(self.child.id())
    }

    fn disk(&self) -> Result<f64> {
        let output = Command::new("du").arg("-sk").arg(self.folder.path()).output()?;
        let text = String::from_utf8(output.stdout)?;
        Ok(text.split_whitespace().next().context("du says a number")?.parse::<f64>()? / 1024.0)
    }

    /// The part of one core that is used while nothing happens.
    async fn at_rest(&self) -> Result<f64> {
        let before = processor_time(self.child.id())?;
        tokio::time::sleep(REST).await;
        Ok((processor_time(self.child.id())? - before) / REST.as_secs_f64())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// Measures and gives the table.
pub(crate) async fn run(members: usize) -> Result<String> {
    let of_one_node = {
        eprintln!("{members} members of 1 node");
        Up::start(members, 1)?.memory()?
    };
    eprintln!("{members} members of 3 nodes");
    let up = Up::start(members, 3)?;
    let empty = up.memory()?;
    eprintln!("a Deployment of {PODS} pods in each");
    let filled_after = fill(&up, members).await?;
    settle(&up).await?;
    let full = up.memory()?;
    let idle = up.at_rest().await?;
    let each = |more: f64| more * 1024.0 / members as f64;
    let node = each(empty - of_one_node) / 2.0;
    let mut table = format!(
        "# {members} members in one process\n\n`koinon up --members {members}`: each a whole cluster with 3 nodes, its own \
         durable store and a Deployment of {PODS} pods, and the federation over them, on one machine.\nMade by `cargo \
         run --release -p koinon-benches -- scale --members {members}`.\n\n| | |\n|---|---:|\n"
    );
    writeln!(table, "| start to ready | {:.1} s |", up.ready_after)?;
    writeln!(
        table,
        "| {} pods until all are ready, applied to each member | {filled_after:.1} s |",
        members * PODS
    )?;
    writeln!(table, "| resident memory, all | {:.2} GiB |", full / 1024.0)?;
    writeln!(table, "| processor at rest, of one core | {idle:.3} |")?;
    writeln!(table, "| on disk | {:.0} MiB |", up.disk()?)?;
    writeln!(table, "\n| memory of each member | KiB |\n|---|---:|")?;
    writeln!(table, "| all | {:.0} |", each(full))?;
    writeln!(table, "| its API server, store and controllers | {:.0} |", each(of_one_node) - node)?;
    writeln!(table, "| each of its 3 nodes | {node:.0} |")?;
    writeln!(
        table,
        "| each of its {PODS} pods, with what belongs to it | {:.0} |",
        each(full - empty) / PODS as f64
    )?;
    Ok(table)
}

/// Gives every member its Deployment; the time until all pods are ready.
async fn fill(up: &Up, members: usize) -> Result<f64> {
    let client = Client::new(&up.folder.path().join("data/kubeconfig"))?;
    let labels = json!({"app": "web"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": PODS, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]},
        }},
    });
    let begun = Instant::now();
    let path =
        |member: usize| format!("/clusters/member-{member}/apis/apps/v1/namespaces/default/deployments");
    stream::iter(1..=members)
        .map(|member| {
            let request = Request::json("POST", path(member), &deployment);
            let client = &client;
            async move {
                let answer = client.send(&request).await?;
                ensure!(answer.status.is_success(), "member-{member}: {} {}", answer.status, answer.json());
                Ok(())
            }
        })
        .buffer_unordered(16)
        .try_collect::<()>()
        .await?;
    for member in 1..=members {
        let one = format!("{}/web", path(member));
        while client.get(&one).await?["status"]["readyReplicas"].as_u64() != Some(PODS as u64) {
            ensure!(begun.elapsed() < PATIENCE, "the pods of member-{member} are not ready");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// Waits until less is done than a moment before: what follows a change has come to its end.
async fn settle(up: &Up) -> Result<()> {
    let pid = up.child.id();
    let begun = Instant::now();
    loop {
        let before = processor_time(pid)?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let used = (processor_time(pid)? - before) / 10.0;
        if used < 0.2 || begun.elapsed() > PATIENCE {
            return Ok(());
        }
    }
}
