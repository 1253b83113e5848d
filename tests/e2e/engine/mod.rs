//! What a cluster is made of: the embedded engine, or stock Kubernetes with simulated nodes.

mod embedded;
mod guard;
mod stock;

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use self::guard::Guard;

/// The engine that all scenarios run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Embedded,
    Kubernetes,
}

/// What a cluster has beside its API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// Everything, and nodes.
    Whole,
    /// What keeps house: a federation's API server.
    Bare,
    /// Nothing, and the API server is of the release before where there is one. To start it again as another is an upgrade.
    Older,
    /// As [`Build::Bare`], and the API server, if it is a stock one, sends clients away by chance and takes few streams at a time.
    Restless,
}

/// A running cluster; it is stopped when this is dropped or the process ends in whatever way.
pub(crate) struct Running {
    pub(crate) kubeconfig: PathBuf,
    folder: PathBuf,
    guards: Vec<Guard>,
}

impl Engine {
    pub(crate) fn from_environment() -> Result<Engine, String> {
        match std::env::var("KOINON_E2E_ENGINE").as_deref() {
            Err(_) | Ok("" | "embedded") => Ok(Engine::Embedded),
            Ok("kubernetes") => Ok(Engine::Kubernetes),
            Ok(other) => {
                Err(format!("KOINON_E2E_ENGINE is {other:?}: there are `embedded` and `kubernetes`"))
            }
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Embedded => "embedded",
            Engine::Kubernetes => "kubernetes",
        }
    }

    /// Starts a cluster with its state below `folder`.
    pub(crate) async fn start(self, name: &str, build: Build, folder: &Path) -> anyhow::Result<Running> {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder)?;
        match self {
            Engine::Embedded => embedded::start(name, build, &folder).await,
            Engine::Kubernetes => stock::start(name, build, &folder).await,
        }
        .with_context(|| format!("the {} cluster {name} did not start", self.name()))
    }
}

impl Running {
    /// Stops the cluster and waits for its end.
    pub(crate) async fn stop(self) {
        for guard in self.guards.into_iter().rev() {
            guard.stop().await;
        }
    }

    /// Sends a signal to a role: `STOP` freezes it, `CONT` thaws it, `KILL` ends it without a word.
    pub(crate) async fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let id = self.guards.iter().find_map(|guard| guard.id).context("it is a process of ours")?;
        let sent =
            tokio::process::Command::new("kill").arg(format!("-{signal}")).arg(id.to_string()).status();
        anyhow::ensure!(sent.await?.success(), "{signal} did not reach {id}");
        Ok(())
    }

    /// What a role wrote to its log.
    pub(crate) fn log(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.folder.join("log"))?)
    }

    /// Fails if a role wanted to do what it may not. `beside` says where it runs.
    pub(crate) fn lacked_nothing(&self, beside: &str) -> anyhow::Result<()> {
        let log = self.log()?;
        let missing: Vec<&str> =
            log.lines().filter(|line| line.contains("a permission is missing")).collect();
        anyhow::ensure!(missing.is_empty(), "beside {beside}: {missing:#?}");
        Ok(())
    }
}

/// Runs a role as its own process.
pub(crate) async fn role(
    role: &str,
    kubeconfig: &Path,
    arguments: &[&str],
    folder: &Path,
) -> anyhow::Result<Running> {
    let mut command = tokio::process::Command::new(koinon());
    command.args(["run", role, "--kubeconfig"]).arg(kubeconfig).args(arguments);
    let guard = embedded::launch(command, folder).await.with_context(|| format!("koinon run {role}"))?;
    Ok(Running { kubeconfig: kubeconfig.to_owned(), folder: folder.to_owned(), guards: vec![guard] })
}

/// The program under test.
pub(crate) fn koinon() -> &'static str {
    env!("CARGO_BIN_EXE_koinon")
}
