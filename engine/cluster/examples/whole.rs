//! Every controller, a scheduler and simulated nodes on the API server of the current kubeconfig until Ctrl-C, in the
//! place of kube-controller-manager, kube-scheduler and kubelets:
//! `KUBECONFIG=... cargo run -p koinon-cluster --example whole`

use koinon_cluster::kubelet::Settings;
use koinon_cluster::{Clock, Cluster};
use kube::{Client, Config};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let mut config = Config::infer().await?;
    // The controllers have their own pauses; two layers of them would add up to minutes.
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let settings = Settings { nodes: 4, ..Settings::default() };
    let stopped = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    Cluster::new(client, Clock::default(), "", settings).run(stopped).await;
    Ok(())
}
