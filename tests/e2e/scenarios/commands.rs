//! `up`, `cluster` and `lab` as a user types them: bad input, a restart, members lost and found.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::{Scenario, api};
use crate::engine::koinon;
use crate::wait::{Look, until};
use crate::world::World;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        api("bad_input_gets_one_sentence_with_the_fix", bad_input),
        api("a_folder_in_use_and_a_taken_port_are_told", taken),
        api("up_goes_on_where_it_ended", resume),
        api("a_member_is_stopped_started_slowed_and_healed", lab),
    ]
}

/// Runs a command to its end: exit code and what it complained about.
async fn complaint(arguments: &[&str]) -> anyhow::Result<(i32, String)> {
    let output =
        Command::new(koinon()).args(arguments).kill_on_drop(true).stdin(Stdio::null()).output().await?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status.code().unwrap_or(-1), text))
}

async fn bad_input(_: Arc<World>) -> anyhow::Result<()> {
    let cases: &[(&[&str], i32, &str)] = &[
        (&["up", "--members", "a,b,a"], 2, "\"a\" is there twice"),
        (&["up", "--members", "A"], 2, "\"A\" is no name for a cluster"),
        (&["up", "--members", "a,"], 2, "\"\" is no name for a cluster"),
        (&["up", "--members", "0"], 2, "between 1 and 1000 members"),
        (&["up", "--members", "federation"], 2, "choose another"),
        (&["up", "--nodes", "0"], 2, "a cluster needs at least one node"),
        (&["cluster", "--name", "a", "--nodes", "0"], 2, "koinon cluster --bare"),
        (&["cluster"], 2, "--name"),
        (&["up", "--listen", "here"], 2, "--listen"),
        (&["up", "--probe-every", "0s"], 2, "it must be longer than nothing"),
        (&["up", "--lease-duration", "5s"], 2, "--lease-duration must be longer than --renew-deadline"),
        (
            &["run", "network", "--retry-period", "1m"],
            2,
            "--renew-deadline must be longer than --retry-period",
        ),
        (&["run", "workloads", "--lease-duration", "1s"], 2, "--lease-duration must be longer"),
        (&["run", "sync", "--cloud-kubeconfig", "x", "--resync", "0s"], 2, "it must be longer than nothing"),
        (&["lab", "delay", "a", "soon"], 2, "write it like 200ms"),
        (&["lab", "stop", "a", "--data", "/nowhere/at/all"], 1, "no `koinon up` runs with the data folder"),
    ];
    for (arguments, code, part) in cases {
        let (found, text) = complaint(arguments).await?;
        ensure!(found == *code && text.contains(part), "koinon {}: {found}: {text}", arguments.join(" "));
        ensure!(!text.contains("panicked"), "{text}");
    }
    Ok(())
}

/// A running `koinon up`.
pub(super) struct Up {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    ready: String,
}

impl Up {
    pub(super) async fn start(data: &Path, more: &[&str]) -> anyhow::Result<Up> {
        let mut child = Command::new(koinon())
            .args(["up", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(more)
            .kill_on_drop(true)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        while let Some(line) = lines.next_line().await? {
            if line.starts_with("ready") {
                return Ok(Up { child, lines, ready: line });
            }
        }
        bail!("up ended before it was ready: {:?}", child.wait().await)
    }

    /// Ends it as a user does with Ctrl-C; it must end well.
    pub(super) async fn interrupt(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("it has ended")?;
        let sent = Command::new("kill").args(["-INT", &id.to_string()]).status().await?;
        ensure!(sent.success(), "the signal was sent");
        while self.lines.next_line().await?.is_some() {}
        let status = self.child.wait().await?;
        ensure!(status.success(), "up ended with {status}");
        Ok(())
    }
}

pub(super) async fn client(data: &Path, context: &str) -> anyhow::Result<Client> {
    let options = KubeConfigOptions { context: Some(context.into()), ..Default::default() };
    let config = Kubeconfig::read_from(data.join("kubeconfig"))?;
    let mut config = Config::from_custom_kubeconfig(config, &options).await?;
    // A stopped member is to be seen as such, not waited for.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

async fn taken(_: Arc<World>) -> anyhow::Result<()> {
    let place = TempDir::new()?;
    let data = place.path().join("data");
    let path = data.to_str().context("a path")?;
    let up = Up::start(&data, &["--members", "a"]).await?;
    let (code, text) = complaint(&["up", "--data", path, "--listen", "127.0.0.1:0"]).await?;
    ensure!(code == 1 && text.contains("is in use by another koinon, process "), "{code}: {text}");
    let port = up.ready.split("https://").nth(1).and_then(|rest| rest.split_whitespace().next());
    let address = port.context("the ready line tells the address")?;
    let other = place.path().join("other");
    let other = other.to_str().context("a path")?;
    let (code, text) = complaint(&["up", "--data", other, "--listen", address]).await?;
    ensure!(code == 1 && text.contains("is taken by another program") && text.contains("--listen"), "{text}");
    let (code, text) = complaint(&["lab", "stop", "z", "--data", path]).await?;
    ensure!(code == 1 && text.contains("there is no member z; there are a"), "{text}");
    up.interrupt().await?;

    let mark = data.join("koinon.json");
    let newer = std::fs::read_to_string(&mark)?.replace("\"layout\":1", "\"layout\":9");
    std::fs::write(&mark, newer)?;
    let (code, text) = complaint(&["up", "--data", path, "--listen", "127.0.0.1:0"]).await?;
    ensure!(code == 1 && text.contains("belongs to a newer version"), "{code}: {text}");
    Ok(())
}

fn note(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("a ConfigMap")
}

async fn resume(_: Arc<World>) -> anyhow::Result<()> {
    let place = TempDir::new()?;
    let up = Up::start(place.path(), &["--members", "a,b"]).await?;
    for context in ["federation", "a", "b"] {
        let api: Api<ConfigMap> = Api::default_namespaced(client(place.path(), context).await?);
        api.create(&PostParams::default(), &note(context)).await?;
    }
    up.interrupt().await?;
    // The address may be another one; state, authority and credentials are not.
    let up = Up::start(place.path(), &["--members", "a,b"]).await?;
    for context in ["federation", "a", "b"] {
        let api: Api<ConfigMap> = Api::default_namespaced(client(place.path(), context).await?);
        api.get(context).await.with_context(|| format!("in {context}"))?;
    }
    up.interrupt().await
}

async fn lab(_: Arc<World>) -> anyhow::Result<()> {
    let place = TempDir::new()?;
    let data = place.path().to_str().context("a path")?;
    let hurried = ["--probe-every", "200ms", "--offline-after", "1s", "--online-after", "500ms"];
    let up = Up::start(place.path(), &[&["--members", "a,b"], &hurried[..]].concat()).await?;
    let order = async |words: &[&str]| {
        let mut command = Command::new(koinon());
        let output = command.arg("lab").args(words).args(["--data", data]).output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        anyhow::Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let a: Api<ConfigMap> = Api::default_namespaced(client(place.path(), "a").await?);
    let b: Api<ConfigMap> = Api::default_namespaced(client(place.path(), "b").await?);
    b.create(&PostParams::default(), &note("kept")).await?;

    let said = order(&["stop", "b"]).await?;
    ensure!(said.contains("b is stopped"), "{said}");
    let refused = b.get("kept").await.expect_err("b is stopped").to_string();
    ensure!(refused.contains("koinon lab start b"), "{refused}");
    a.list(&Default::default()).await.context("a goes on")?;
    let shown = order(&["show"]).await?;
    ensure!(shown == "a: runs\nb: stopped\n", "{shown}");
    order(&["start", "b"]).await?;
    b.get("kept").await.context("b has what it had")?;

    order(&["delay", "b", "300ms"]).await?;
    order(&["cut", "b"]).await?;
    ensure!(order(&["show"]).await? == "a: runs\nb: runs, cut off, delayed by 300ms\n");
    let start = tokio::time::Instant::now();
    b.get("kept").await.context("users reach a member that is cut off")?;
    ensure!(start.elapsed().as_millis() >= 300, "it was slowed down");
    let kubeconfig = place.path().join("kubeconfig");
    let members = async |want: &str| {
        until(&format!("the federation sees b as {want}"), async || {
            let mut command = Command::new(koinon());
            let output = command.arg("members").arg("--kubeconfig").arg(&kubeconfig).output().await?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let of = |name: &str, status: &str| {
                text.lines().any(|line| line.starts_with(name) && line.contains(&format!(" {status} ")))
            };
            let is = of("b ", want) && of("a ", "Reachable");
            Ok(if is { Look::Found(()) } else { Look::NotYet(text) })
        })
        .await
    };
    members("Unreachable").await?;
    order(&["heal", "b"]).await?;
    members("Reachable").await?;
    until("b is whole again", async || {
        let shown = order(&["show"]).await?;
        Ok(if shown == "a: runs\nb: runs\n" { Look::Found(()) } else { Look::NotYet(shown) })
    })
    .await?;
    up.interrupt().await
}
