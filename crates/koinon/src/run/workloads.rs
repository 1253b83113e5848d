//! `koinon run workloads`: federated ReplicaSets and Deployments, beside the federation's API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use koinon_api::names::SYSTEM_NAMESPACE;
use koinon_api::names::membership::GROUP;
use koinon_context::Context;
use koinon_control::{Clock, permission};
use koinon_fleet::Fleet;
use koinon_fleet::membership::Controller;
use koinon_fleet::membership::admission::{self, Doorkeeper};
use koinon_fleet::membership::controller::Kind;
use koinon_webhook::{Request, Reviewer, Verdict};
use koinon_workloads::{Metrics, NAME, Options, Workloads};
use kube::Client;
use prometheus_client::registry::Registry;

use super::webhook::{Subject, Webhook, WebhookFlags};
use super::{Common, Health as Readiness, Monitor, Turn};
use crate::flags::{Health, Spreading};
use crate::host::Ending;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    health: Health,
    #[command(flatten)]
    spreading: Spreading,
    #[command(flatten)]
    webhook: WebhookFlags,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    args.common.election.timing()?;
    let server = args.common.cluster.config().await?.cluster_url.to_string();
    let client = args.common.cluster.client().await?;
    let client = permission::telling(client, "the federation");
    let (mut registry, health) = (Registry::default(), Readiness::default());
    let (of_members, metrics) = (koinon_fleet::Metrics::default(), Metrics::default());
    of_members.register(&mut registry);
    metrics.register(&mut registry);
    let (turn, formed) = (Turn::default(), Arc::new(AtomicBool::new(false)));
    let (ours, known) = (turn.clone(), formed.clone());
    health.require_of_leader(move || match known.load(Ordering::Relaxed) {
        _ if !ours.is_ours() => Err("it is not this replica's turn".into()),
        true => Ok(()),
        false => Err("who is a member is not known yet".into()),
    });
    let of_webhook = koinon_webhook::Metrics::default();
    of_webhook.register(&mut registry);
    let _monitor = Monitor::open(args.common.metrics, health, registry, client.clone()).await?;
    let context = Context::real();
    let clock = Clock::new(move || context.now());
    let webhook = args.webhook.open(&server, subject(client.clone()), clock.clone(), of_webhook).await?;
    let end = Ending::new()?;
    println!("ready: workloads controller running against {server}, until Ctrl-C");
    let options = koinon_fleet::Options { thresholds: args.health.thresholds(), ..Default::default() };
    args.common
        .election
        .run(&turn, client.clone(), NAME, &end, || async {
            formed.store(false, Ordering::Relaxed);
            let fleet = Fleet::new(options.clone(), of_members.clone(), clock.clone());
            let controller =
                Controller::new(client.clone(), SYSTEM_NAMESPACE, Kind::Federation, fleet.clone());
            let known = || formed.store(true, Ordering::Relaxed);
            let (clock, metrics) = (clock.clone(), metrics.clone());
            let role = Role { client: &client, fleet, controller, clock, metrics };
            let work = Box::pin(role.work(args.spreading.options(), known, end.asked()));
            Webhook::beside(webhook.as_ref(), client.clone(), work).await;
        })
        .await
}

/// What is refused at the federation's API server.
fn subject(client: Client) -> Subject {
    let rules = [koinon_workloads::admission::rules(), admission::rules()];
    let rules = rules.iter().flat_map(|rules| rules.as_array().cloned().unwrap_or_default()).collect();
    Subject {
        name: NAME,
        webhook: "workloads.webhook.koinon.dev",
        rules: serde_json::Value::Array(rules),
        conditions: serde_json::json!([koinon_workloads::admission::condition()]),
        reviewer: Arc::new(WorkloadsReviewer {
            members: Doorkeeper::new(client, SYSTEM_NAMESPACE, Kind::Federation),
        }),
    }
}

/// Decides about workloads by itself, and leaves the Federation to who knows of members.
struct WorkloadsReviewer {
    members: Doorkeeper,
}

impl Reviewer for WorkloadsReviewer {
    fn review(&self, request: Request) -> BoxFuture<'_, Verdict> {
        if request.group == GROUP {
            return self.members.review(request);
        }
        Box::pin(async move { koinon_workloads::admission::review(&request) })
    }
}

/// A federation and those who look after it.
pub(crate) struct Role<'a> {
    pub(crate) client: &'a Client,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) controller: Controller,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
}

impl Role<'_> {
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
                let client = self.client.clone();
                Workloads::new(options, client, self.fleet, self.clock, self.metrics).run(end).await;
            }
        };
        tokio::select! {
            biased;
            () = Box::pin(self.controller.run()) => {}
            () = Box::pin(workloads) => {}
        }
    }
}
