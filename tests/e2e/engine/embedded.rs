//! A cluster of the embedded engine, as its own process.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::{Build, Guard, Running, koinon};

pub(super) async fn start(name: &str, build: Build, folder: &Path) -> anyhow::Result<Running> {
    let kubeconfig = folder.join("kubeconfig");
    let mut command = Command::new(koinon());
    command.args(["cluster", "--name", name, "--listen", "127.0.0.1:0"]);
    if build != Build::Whole {
        command.arg("--bare");
    }
    command.arg("--data").arg(folder.join("data")).arg("--kubeconfig").arg(&kubeconfig);
    let guard = launch(command, folder).await?;
    Ok(Running { kubeconfig, folder: folder.to_owned(), guards: vec![guard] })
}

/// Starts a command of ours and waits for its line that starts with `ready`.
pub(super) async fn launch(mut command: Command, folder: &Path) -> anyhow::Result<Guard> {
    let log = std::fs::File::create(folder.join("log"))?;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?;
    let id = child.id().context("it ended at once")?;
    let guard = Guard::process(id)?;
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    while let Some(line) = lines.next_line().await? {
        if line.starts_with("ready") {
            tokio::spawn(reap(child));
            return Ok(guard);
        }
    }
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    bail!("it ended before it was ready: {log}")
}

/// Takes note of the end of a process, so that its id is free for the guard to see.
async fn reap(mut child: Child) {
    let _ = child.wait().await;
}
