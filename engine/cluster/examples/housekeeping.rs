//! Keeps house in the cluster of the current kubeconfig until Ctrl-C:
//! `KUBECONFIG=... cargo run -p koinon-cluster --example housekeeping`

use koinon_cluster::Housekeeping;
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
    Housekeeping::new(client).run(async { drop(tokio::signal::ctrl_c().await) }).await;
    Ok(())
}
