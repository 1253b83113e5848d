//! Keeps slices, accounts, quotas and budgets in the cluster of the current kubeconfig until Ctrl-C, for
//! comparison with those of a stock cluster; the first argument is the file with the authority's certificates:
//! `KUBECONFIG=... cargo run -p koinon-cluster --example links -- ca.crt`

use anyhow::Context as _;
use koinon_cluster::shared::Shared;
use koinon_cluster::{Clock, accounts, disruption, endpoints, housekeeping, quota};
use koinon_control::events;
use kube::{Client, Config};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let path = std::env::args().nth(1).context("say where the authority's certificates are")?;
    let authority = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let mut config = Config::infer().await?;
    // The controllers have their own pauses; two layers of them would add up to minutes.
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let shared = Shared::new(client.clone(), Clock::default());
    let (slices, writer) = events::recorder(client.clone(), "endpoint-slice-controller", Clock::default());
    let (budgets, other) = events::recorder(client.clone(), "controllermanager", Clock::default());
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    tokio::select! {
        biased;
        never = shared.follow() => match never {},
        never = endpoints::run(shared.clone(), slices) => match never {},
        never = accounts::run(shared.clone(), authority) => match never {},
        never = quota::run(shared.clone()) => match never {},
        never = disruption::run(shared.clone(), budgets) => match never {},
        _ = async { tokio::join!(writer.run(), other.run()) } => {}
        () = housekeeping(client, stop) => {}
    }
    Ok(())
}
