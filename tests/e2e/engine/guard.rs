//! Stops processes by their ids, even if this process is killed.

use std::process::Stdio;

use anyhow::Context as _;
use tokio::process::{Child, ChildStdin, Command};

/// A shell that waits for our end of its pipe to close, and then stops what it was told to.
pub(super) struct Guard {
    shell: Child,
    pipe: ChildStdin,
    /// The process, where it guards one.
    pub(super) id: Option<u32>,
}

impl Guard {
    /// Runs `script` once this is stopped or gone. Ctrl-C reaches the shell as well: it must outlive us.
    pub(super) fn new(script: &str) -> anyhow::Result<Guard> {
        let mut shell = Command::new("sh")
            .arg("-c")
            .arg(format!("trap '' INT TERM; cat >/dev/null; {script}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("sh cannot be started")?;
        let pipe = shell.stdin.take().context("the shell has no standard input")?;
        Ok(Guard { shell, pipe, id: None })
    }

    /// Stops a process that we started. One that a failed scenario left frozen hears nothing until it is thawed.
    pub(super) fn process(id: u32) -> anyhow::Result<Guard> {
        let gone = format!("while kill -0 {id} 2>/dev/null; do sleep 0.05; done");
        Ok(Guard { id: Some(id), ..Guard::new(&format!("kill -CONT {id} && kill {id} && {gone}"))? })
    }

    pub(super) async fn stop(mut self) {
        drop(self.pipe);
        if let Err(error) = self.shell.wait().await {
            eprintln!("a guard ended badly: {error}");
        }
    }
}
