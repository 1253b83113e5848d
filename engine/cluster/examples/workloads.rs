//! Keeps ReplicaSets and Deployments in the cluster of the current kubeconfig until Ctrl-C, in the place of
//! those controllers of a stock cluster:
//! `KUBECONFIG=... cargo run -p koinon-cluster --example workloads`

use koinon_cluster::shared::Shared;
use koinon_cluster::{Clock, deployments, replicasets};
use koinon_control::events::recorder;
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
    let (client, clock) = (Client::try_from(config)?, Clock::default());
    let shared = Shared::new(client.clone(), clock.clone());
    let (set_events, write_set_events) = recorder(client.clone(), replicasets::COMPONENT, clock.clone());
    let (deployment_events, write_deployment_events) = recorder(client, deployments::COMPONENT, clock);
    tokio::select! {
        biased;
        never = shared.follow() => match never {},
        never = replicasets::run(shared.clone(), set_events) => match never {},
        never = deployments::run(shared.clone(), deployment_events) => match never {},
        () = write_set_events.run() => {}
        () = write_deployment_events.run() => {}
        stopped = tokio::signal::ctrl_c() => stopped?,
    }
    Ok(())
}
