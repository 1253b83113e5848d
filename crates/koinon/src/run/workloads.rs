//! `koinon run workloads`: federated ReplicaSets and Deployments, beside the federation's API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use koinon_api::names::SYSTEM_NAMESPACE;
use koinon_apiserver::context::Context;
use koinon_control::Clock;
use koinon_fleet::membership::Controller;
use koinon_fleet::membership::controller::Kind;
use koinon_fleet::{Fleet, Metrics};
use koinon_workloads::{Options, Workloads};
use kube::Client;
use prometheus_client::registry::Registry;

use super::{Common, Health as Readiness, Monitor};
use crate::flags::{Health, Spreading};
use crate::host::Ending;

/// Replicas of this role contend for this Lease.
const LEASE: &str = "koinon-workloads";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    health: Health,
    #[command(flatten)]
    spreading: Spreading,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let config = args.common.cluster.config().await?;
    let server = config.cluster_url.to_string();
    let client = Client::try_from(config).context("the kubeconfig cannot be used")?;
    let (metrics, mut registry, health) = (Metrics::default(), Registry::default(), Readiness::default());
    metrics.register(&mut registry);
    let formed = Arc::new(AtomicBool::new(false));
    let known = formed.clone();
    health.require_of_leader(move || match known.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err("who is a member is not known yet".into()),
    });
    let _monitor = Monitor::open(args.common.metrics, health, registry).await?;
    let end = Ending::new()?;
    println!("ready: workloads of the federation at {server} are looked after, until Ctrl-C");
    let context = Context::real();
    let clock = Clock::new(move || context.now());
    let options = koinon_fleet::Options { thresholds: args.health.thresholds(), ..Default::default() };
    args.common
        .election
        .run(client.clone(), LEASE, &end, || async {
            let fleet = Fleet::new(options.clone(), metrics.clone(), clock.clone());
            let controller =
                Controller::new(client.clone(), SYSTEM_NAMESPACE, Kind::Federation, fleet.clone());
            let known = || formed.store(true, Ordering::Relaxed);
            let crew = Crew { client: &client, fleet, controller, clock: clock.clone() };
            Box::pin(crew.work(args.spreading.options(), known, end.asked())).await;
        })
        .await
}

/// A federation and those who look after it.
pub(crate) struct Crew<'a> {
    pub(crate) client: &'a Client,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) controller: Controller,
    pub(crate) clock: Clock,
}

impl Crew<'_> {
    /// Keeps the members known, and their workloads spread, until `end`. `known` is called once the members are.
    pub(crate) async fn work(
        self,
        options: Options,
        known: impl FnOnce(),
        end: impl Future<Output = ()> + Send,
    ) {
        let mut formed = self.controller.formed();
        let workloads = async {
            // Who is not known yet is not absent: without this every workload would look as if nobody could take it.
            let there = formed.wait_for(Option::is_some).await.is_ok();
            if there {
                known();
                let workloads = Workloads::new(options, self.client.clone(), self.fleet, self.clock);
                workloads.run(end).await;
            }
        };
        tokio::select! {
            () = self.controller.run() => {}
            () = workloads => {}
        }
    }
}
