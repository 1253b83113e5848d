//! `koinon run ROLE`: one role as its own process, beside the cluster it looks after.
//!
//! What all roles have in common is here: which cluster, the log, the metrics port and the end.

mod config;
mod election;
mod monitor;
mod network;
mod readers;
mod sync;
mod webhook;
pub(crate) mod workloads;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use futures::FutureExt as _;
use koinon_control::client::renewing;
use kube::{Client, Config};

pub(crate) use self::election::{Election, Turn};
pub(crate) use self::monitor::{Health, Monitor};
pub(crate) use self::network::{PolicyFlags, ServiceFlags};
pub(crate) use self::sync::Pace;
use crate::access::Access;

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
    /// How lines of the log look, and from which level on there are any.
    pub(crate) fn log(&self) -> (LogFormat, LogLevel) {
        let common = match &self.role {
            Role::Workloads(args) => &args.common,
            Role::Config(args) => &args.common,
            Role::Network(args) => &args.common,
            Role::Sync(args) => &args.common,
        };
        (common.log_format, common.log_level)
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
    /// Serve /healthz, /readyz and /metrics on this address; from other machines /metrics needs a token that may read it
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<SocketAddr>,
    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// What is logged; RUST_LOG says it for parts, as in `warn,koinon_fleet=debug`
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    pub(crate) log_level: LogLevel,
    #[command(flatten)]
    pub(crate) election: Election,
}

/// The cluster that a role runs beside.
#[derive(Clone, Debug, clap::Args)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    /// What an operator wants to know: leads, members, placements, rollouts, deletions, credentials
    Info,
    /// Every write, too
    Debug,
    Trace,
}

impl LogLevel {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

/// An answer of which nothing came for so long is given up: longer than a watch lasts, of which nothing may be heard.
const SILENCE: Duration = Duration::from_secs(300);

impl Cluster {
    /// How to reach the cluster.
    pub(crate) async fn access(&self) -> anyhow::Result<Access> {
        let (file, context) = (self.kubeconfig.as_deref(), self.context.as_deref());
        let mut access = match Access::of_pod().filter(|_| file.is_none() && context.is_none()) {
            Some(access) => access?,
            None => Access::of_kubeconfig(file, context).await?,
        };
        // A list that is never answered would else be waited for for ever; a watch that is quiet ends by itself before.
        access.config.read_timeout = Some(SILENCE);
        Ok(access)
    }

    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        Ok(self.access().await?.config)
    }

    /// A client that reads its kubeconfig again when the server does not know us any more. The log tells when the cluster is lost
    /// and when it is back.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        let (client, cluster) = (self.access().await?.client()?, self.clone());
        Ok(renewing(client, move || {
            let cluster = cluster.clone();
            async move {
                let access = cluster.access().await;
                access.and_then(Access::client).map_err(|error| format!("{error:#}"))
            }
            .boxed()
        }))
    }
}
