//! `koinon run config`: AMKO's configuration, from the cluster that leads to all that follow.

use koinon_config::{Config, Lead, Metrics, Options, by_kubeconfig};
use koinon_context::Context;
use koinon_control::Clock;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::{Common, Health, Monitor, Turn};
use crate::flags::{Time, some_time};
use crate::host::Ending;

/// Replicas of this role contend for this Lease.
const LEASE: &str = "koinon-config";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    /// How often every cluster is looked at even if nothing seems to happen
    #[arg(long, value_name = "TIME", default_value_t = Time(Options::default().probe_every), value_parser = some_time)]
    probe_every: Time,
    /// A call to a cluster that takes longer has failed
    #[arg(long, value_name = "TIME", default_value_t = Time(Options::default().deadline), value_parser = some_time)]
    call_timeout: Time,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let election = &args.common.election;
    let options = Options {
        deadline: args.call_timeout.0,
        probe_every: args.probe_every.0,
        lease_duration: election.timing()?.lease_duration,
    };
    let client = args.common.cluster.client().await?;
    let lead = watch::Sender::new(Lead::Undecided);
    let (metrics, mut registry, health) = (Metrics::default(), Registry::default(), Health::default());
    metrics.register(&mut registry);
    let (turn, leads) = (Turn::default(), lead.subscribe());
    let ours = turn.clone();
    health.require(move || match &*leads.borrow() {
        // A replica that waits for its turn is as ready as it can be.
        Lead::Undecided if ours.is_ours() => Err("whether this cluster leads is not known yet".into()),
        _ => Ok(()),
    });
    let (ours, leads) = (turn.clone(), lead.subscribe());
    health.require_of_leader(move || match &*leads.borrow() {
        // What it found out in its last turn may be wrong by now.
        _ if !ours.is_ours() => Err("it is not this replica's turn".into()),
        Lead::As(_) => Ok(()),
        Lead::No => Err("this cluster does not lead".into()),
        Lead::Undecided => Err("whether this cluster leads is not known yet".into()),
    });
    let _monitor = Monitor::open(args.common.metrics, health, registry, client.clone()).await?;
    let end = Ending::new()?;
    println!("ready: configuration is federated from this cluster while it leads, until Ctrl-C");
    let context = Context::real();
    let clock = Clock::new(move || context.now());
    election
        .run(&turn, client.clone(), LEASE, &end, || {
            let config = Config::new(options.clone(), client.clone(), by_kubeconfig(), clock.clone());
            Box::pin(config.metrics(metrics.clone()).telling(lead.clone()).run(end.asked()))
        })
        .await
}
