//! Gives the cluster of the current kubeconfig simulated nodes until Ctrl-C:
//! `KUBECONFIG=... cargo run -p koinon-cluster --example nodes -- [how many] [control]`
//!
//! With `control`, also a scheduler and whoever looks after nodes, for an API server that has neither.

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::select_all;
use koinon_cluster::Clock;
use koinon_cluster::kubelet::{Kubelet, Settings};
use koinon_cluster::nodes::{self, NodeLifecycle};
use koinon_cluster::scheduler::Scheduler;
use koinon_cluster::shared::Shared;
use kube::{Client, Config};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let mut settings = Settings::default();
    if let Some(nodes) = std::env::args().nth(1) {
        settings.nodes = nodes.parse().with_context(|| format!("{nodes:?} is no number of nodes"))?;
    }
    let mut config = Config::infer().await?;
    // The controllers have their own pauses; two layers of them would add up to minutes.
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let work = match std::env::args().nth(2).as_deref() {
        None => vec![Kubelet::alone(client, Clock::default(), settings).run().boxed()],
        Some("control") => {
            let shared = Shared::new(client, Clock::default());
            let nodes = NodeLifecycle::new(&shared, nodes::Settings::default());
            let (kubelet, scheduler) = (Kubelet::new(&shared, settings), Scheduler::new(&shared));
            let follow = async move { shared.follow().await };
            vec![kubelet.run().boxed(), scheduler.run().boxed(), nodes.run().boxed(), follow.boxed()]
        }
        Some(other) => anyhow::bail!("{other:?} is not known: write control, or nothing"),
    };
    tokio::select! {
        biased;
        (never, ..) = select_all(work) => match never {},
        ended = tokio::signal::ctrl_c() => Ok(ended?),
    }
}
