//! `koinon run ROLE`: one role as its own process, beside the cluster it looks after.
//!
//! What all roles have in common is here: which cluster, the log, the metrics port and the end.

mod config;
mod election;
mod monitor;
mod network;
mod sync;
mod webhook;
pub(crate) mod workloads;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

pub(crate) use self::election::{Election, Turn};
pub(crate) use self::monitor::{Health, Monitor};
pub(crate) use self::network::{PolicyFlags, ServiceFlags};
pub(crate) use self::sync::Pace;

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, clap::Subcommand)]
enum Role {
    /// Spread ReplicaSets and Deployments over the members of a federation
    Workloads(workloads::Args),
    /// Carry AMKO's configuration from its leader to all followers
    Config(config::Args),
    /// Make Services span the clusters of a federation, beside one of them
    Network(network::Args),
    /// Keep custom resources in step between the cloud and a robot
    Sync(sync::Args),
}

impl Run {
    pub(crate) fn log_format(&self) -> LogFormat {
        match &self.role {
            Role::Workloads(args) => args.common.log_format,
            Role::Config(args) => args.common.log_format,
            Role::Network(args) => args.common.log_format,
            Role::Sync(args) => args.common.log_format,
        }
    }
}

pub(crate) async fn run(run: Run) -> anyhow::Result<()> {
    match run.role {
        Role::Workloads(args) => workloads::run(args).await,
        Role::Config(args) => config::run(args).await,
        Role::Network(args) => network::run(args).await,
        Role::Sync(args) => sync::run(args).await,
    }
}

/// The flags that every role takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    /// Serve /metrics, /healthz and /readyz on this address
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<SocketAddr>,
    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) election: Election,
}

/// The cluster that a role runs beside.
#[derive(Debug, clap::Args)]
pub(crate) struct Cluster {
    /// The kubeconfig of the cluster [default: the cluster this runs in, else that of kubectl]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context in it [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// A connection on which nothing came for so long is dead: longer than a watch lasts, of which nothing may be heard.
const SILENCE: Duration = Duration::from_secs(300);

impl Cluster {
    /// How to reach the cluster. kube's own retries are off: they hide a lost cluster for minutes.
    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match &self.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file)
                    .with_context(|| format!("cannot read the kubeconfig {}", file.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .with_context(|| format!("the kubeconfig {} cannot be used", file.display()))?
            }
            None if self.context.is_some() => Config::from_kubeconfig(&options)
                .await
                .context("kubectl's kubeconfig cannot be used: name one with --kubeconfig")?,
            None => match Config::incluster() {
                Ok(config) => config,
                Err(_) => Config::infer()
                    .await
                    .context("this runs in no cluster and finds no kubeconfig: name one with --kubeconfig")?,
            },
        };
        config.default_retry = false;
        // A list that is never answered would else be waited for for ever; a watch that is quiet ends by itself before.
        config.read_timeout = Some(SILENCE);
        config.reset_reader_on_write = true;
        Ok(config)
    }

    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        Client::try_from(self.config().await?).context("the kubeconfig cannot be used")
    }
}
