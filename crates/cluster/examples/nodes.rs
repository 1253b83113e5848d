//! Gives the cluster of the current kubeconfig simulated nodes until Ctrl-C:
//! `KUBECONFIG=... cargo run -p koinon-cluster --example nodes -- [how many]`

use anyhow::Context as _;
use koinon_cluster::Clock;
use koinon_cluster::kubelet::{Kubelet, Settings};
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
    // The kubelet has its own pauses; two layers of them would add up to minutes.
    config.default_retry = false;
    let kubelet = Kubelet::alone(Client::try_from(config)?, Clock::default(), settings);
    tokio::select! {
        never = kubelet.run() => match never {},
        ended = tokio::signal::ctrl_c() => Ok(ended?),
    }
}
