//! `koinon run network`: formation, elections, Services and policies over clusters, beside one of them.

use std::sync::Arc;

use jiff::SignedDuration;
use koinon_api::membership::NETWORK_NAMESPACE;
use koinon_context::Context;
use koinon_control::{Clock, permission};
use koinon_fleet::membership::admission::{self, Doorkeeper};
use koinon_fleet::membership::controller::Kind;
use koinon_fleet::membership::{Formation, Part};
use koinon_network::policies::{self, Policies};
use koinon_network::services::{self, Locality, Prefer, Services, Stale, Stance};
use koinon_network::{Network, Options};
use parking_lot::RwLock;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::webhook::{Subject, Webhook, WebhookFlags};
use super::{Common, Health as Readiness, Monitor, Turn};
use crate::flags::{Health, Time, time};
use crate::host::Ending;

/// Replicas of this role contend for this Lease. Who leads which cluster is decided elsewhere, in each of them.
const LEASE: &str = "koinon-network";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    health: Health,
    #[command(flatten)]
    services: ServiceFlags,
    #[command(flatten)]
    policies: PolicyFlags,
    #[command(flatten)]
    webhook: WebhookFlags,
}

/// How Services span clusters.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Federated Services")]
pub(crate) struct ServiceFlags {
    /// What becomes of endpoints of a cluster that cannot be reached
    #[arg(long, value_enum, default_value_t = Stale::default().stance.into())]
    stale: WhenStale,
    /// With drain and drop: how long they are kept before
    #[arg(long, value_name = "TIME", default_value_t = Time(Stale::default().after.unsigned_abs()), value_parser = time)]
    stale_after: Time,
    /// Where no endpoint of a cluster's own member is ready, use those of other clusters
    #[arg(long)]
    local_failover: bool,
    /// Do not look up what the names of load balancers lead to
    #[arg(long)]
    no_resolve: bool,
    /// The domain in which ExternalDNS publishes federated Services, in clusters with virtual machines
    #[arg(long, value_name = "DOMAIN")]
    dns_suffix: Option<String>,
    /// By which of their addresses virtual machines are reached; by the others if they have none of these
    #[arg(long, value_enum, default_value_t = Prefer::default().into())]
    machine_addresses: Addresses,
}

/// How policies span clusters.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Federated policies")]
pub(crate) struct PolicyFlags {
    /// A cluster that is not listed any more for so long has left: what was removed is not remembered for it
    #[arg(long, value_name = "TIME", default_value_t = Time(policies::Options::default().left_after), value_parser = time)]
    left_after: Time,
}

impl PolicyFlags {
    pub(crate) fn options(&self) -> policies::Options {
        policies::Options { left_after: self.left_after.0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Addresses {
    /// Those that lead to them from everywhere
    External,
    /// Those of their own network, which all clusters have to be in too
    Internal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WhenStale {
    /// They stay as they were
    Keep,
    /// They take no new connections while there are others
    Drain,
    /// They go
    Drop,
}

impl From<Stance> for WhenStale {
    fn from(stance: Stance) -> WhenStale {
        match stance {
            Stance::Keep => WhenStale::Keep,
            Stance::Drain => WhenStale::Drain,
            Stance::Drop => WhenStale::Drop,
        }
    }
}

impl From<Prefer> for Addresses {
    fn from(prefer: Prefer) -> Addresses {
        match prefer {
            Prefer::External => Addresses::External,
            Prefer::Internal => Addresses::Internal,
        }
    }
}

impl ServiceFlags {
    pub(crate) fn options(&self) -> services::Options {
        let stance = match self.stale {
            WhenStale::Keep => Stance::Keep,
            WhenStale::Drain => Stance::Drain,
            WhenStale::Drop => Stance::Drop,
        };
        let after = SignedDuration::try_from(self.stale_after.0).unwrap_or(SignedDuration::MAX);
        let mut options = services::Options {
            stale: Stale { stance, after },
            locality: if self.local_failover { Locality::Failover } else { Locality::Strict },
            dns_suffix: self.dns_suffix.clone(),
            prefer: match self.machine_addresses {
                Addresses::External => Prefer::External,
                Addresses::Internal => Prefer::Internal,
            },
            ..services::Options::default()
        };
        if self.no_resolve {
            options.resolve = None;
        }
        options
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let timing = args.common.election.timing()?;
    let server = args.common.cluster.config().await?.cluster_url.to_string();
    let client = args.common.cluster.client().await?;
    let client = permission::telling(client, "this one");
    let (mut registry, health) = (Registry::default(), Readiness::default());
    let (of_members, of_services) = (koinon_fleet::Metrics::default(), services::Metrics::default());
    of_members.register(&mut registry);
    of_services.register(&mut registry);
    let of_policies = policies::Metrics::default();
    of_policies.register(&mut registry);
    let of_webhook = koinon_webhook::Metrics::default();
    of_webhook.register(&mut registry);
    let formed: Arc<RwLock<Option<Formed>>> = Arc::default();
    let (turn, known) = (Turn::default(), formed.clone());
    let ours = turn.clone();
    health.require_of_leader(move || {
        if !ours.is_ours() {
            return Err("it is not this replica's turn".into());
        }
        match known.read().as_ref().and_then(|formed| formed.borrow().clone()) {
            None => Err("who belongs to the federation is not known yet".into()),
            Some(formation) => match &formation.part {
                Part::Alone(why) => Err(why.clone()),
                Part::Child(_) | Part::Supervisor(_) | Part::Federation => Ok(()),
            },
        }
    });
    let _monitor = Monitor::open(args.common.metrics, health, registry, client.clone()).await?;
    let context = Context::real();
    let now = context.clone();
    let clock = Clock::new(move || now.now());
    let doorkeeper = Doorkeeper::new(client.clone(), NETWORK_NAMESPACE, Kind::Cluster);
    let subject = Subject {
        name: koinon_network::WEBHOOK,
        webhook: "network.webhook.koinon.dev",
        rules: admission::rules(),
        conditions: serde_json::json!([]),
        reviewer: Arc::new(doorkeeper),
    };
    let webhook = args.webhook.open(&server, subject, clock.clone(), of_webhook).await?;
    let end = Ending::new()?;
    println!("ready: network controller running beside {server}, until Ctrl-C");
    let options = Options {
        fleet: koinon_fleet::Options { thresholds: args.health.thresholds(), ..Default::default() },
        timing,
    };
    let election = &args.common.election;
    election
        .run(&turn, client.clone(), LEASE, &end, || {
            let (instance, clock) = (context.uid(), clock.clone());
            let network = Network::new(client.clone(), &instance, options.clone(), of_members.clone(), clock);
            *formed.write() = Some(network.formed());
            let fleet = network.fleet().clone();
            let services = Services::new(fleet.clone(), args.services.options(), of_services.clone());
            let policies =
                Policies::new(fleet, services.origins(), args.policies.options(), of_policies.clone());
            let work = network.feature(services).feature(policies).run(end.asked());
            Webhook::beside(webhook.as_ref(), client.clone(), work)
        })
        .await
}

type Formed = watch::Receiver<Option<Arc<Formation>>>;
