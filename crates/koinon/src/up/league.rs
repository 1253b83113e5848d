//! The members of `up` as a federation: written down, watched over, and worked with.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _};
use koinon_api::names::SYSTEM_NAMESPACE;
use koinon_cluster::Clock;
use koinon_fleet::election::Timing;
use koinon_fleet::health::Thresholds;
use koinon_fleet::membership::controller::Kind;
use koinon_fleet::membership::{self, Controller, Recruit};
use koinon_fleet::{ClusterId, Fleet, Metrics, Options};
use koinon_network::{policies, services};
use kube::Client;
use serde_json::json;
use tokio::task::JoinHandle;

use super::AT_ONCE;
use super::beside::{self, Beside};
use super::network::{self, Partner, Span};
use super::rights::{self, MEMBER, WORKLOADS};
use crate::run::workloads::Role;
use crate::site::{Site, administrator};

/// Beyond this the roles that watch much in every member are not what people try `up` for.
const MOST_MEMBERS: usize = 100;

/// The federation at work; it ends when this is dropped.
pub(super) struct League {
    task: JoinHandle<()>,
    span: Option<Span>,
    beside: Option<Beside>,
}

/// How its roles work.
pub(super) struct Terms {
    pub(super) thresholds: Thresholds,
    pub(super) spreading: koinon_workloads::Options,
    pub(super) timing: Timing,
    pub(super) services: services::Options,
    pub(super) policies: policies::Options,
    /// By the name of a member.
    pub(super) sync: Box<dyn Fn(&str) -> koinon_sync::Options>,
}

/// Whether Services, policies, custom resources and configuration are looked after among so many members.
pub(super) fn has_all_roles(members: usize) -> bool {
    members <= MOST_MEMBERS
}

/// What the federation knows of its own API server and its members.
pub(super) struct Ground<'a> {
    pub(super) federation: &'a Arc<Site>,
    pub(super) members: &'a [Arc<Site>],
    /// The certificate by which clients trust all of them.
    pub(super) authority: &'a str,
    pub(super) url: &'a str,
    pub(super) clock: Clock,
    /// What tells this process from others.
    pub(super) instance: &'a str,
}

impl League {
    /// Writes the members down and begins to look after them.
    pub(super) async fn start(ground: Ground<'_>, terms: Terms) -> anyhow::Result<League> {
        let admin = Client::new(ground.federation.from_federation(administrator()), "default");
        let of_workloads = [koinon_workloads::rbac(false), koinon_workloads::warnings()].concat();
        rights::put(&admin, "the federation", of_workloads).await?;
        let recruits = recruits(&ground).await?;
        membership::enlist(&admin, &recruits).await.context("the members cannot be written down")?;
        let client = Client::new(ground.federation.from_federation(rights::user(WORKLOADS)), "default");
        let (thresholds, timing) = (terms.thresholds, terms.timing);
        let config = koinon_config::Options {
            probe_every: thresholds.probe_every,
            lease_duration: timing.lease_duration,
            ..koinon_config::Options::default()
        };
        let options = Options { thresholds, ..Options::default() };
        let (mut span, mut beside) = (None, None);
        if has_all_roles(recruits.len()) {
            let network = koinon_network::Options { fleet: options.clone(), timing };
            let over = network::Terms { network, services: terms.services, policies: terms.policies };
            let partners = partners(&ground)?;
            let clock = ground.clock.clone();
            span = network::start(&partners, ground.authority, ground.instance, over, clock).await?;
            Beside::furnish(ground.federation, ground.members).await?;
            let terms = |member: &str| beside::Terms { sync: (terms.sync)(member), config: config.clone() };
            beside = Some(Beside::start(ground.federation, ground.members, terms, &ground.clock)?);
        }
        // Members of this process are reached without a socket, over a wire that `koinon lab` can cut.
        let direct: BTreeMap<ClusterId, Client> =
            recruits.into_iter().map(|recruit| (recruit.name, recruit.client)).collect();
        let fleet = Fleet::new(options, Metrics::default(), ground.clock.clone());
        let controller =
            Controller::new(client.clone(), SYSTEM_NAMESPACE, Kind::Federation, fleet.clone()).direct(direct);
        let clock = ground.clock;
        let task = tokio::spawn(async move {
            let metrics = koinon_workloads::Metrics::default();
            let role = Role { client: &client, fleet, controller, clock, metrics };
            Box::pin(role.work(terms.spreading, || (), std::future::pending())).await;
        });
        Ok(League { task, span, beside })
    }
}

impl League {
    /// Ends it in good order.
    pub(super) async fn end(mut self) {
        let span = async {
            if let Some(span) = self.span.take() {
                span.end().await;
            }
        };
        let beside = async {
            if let Some(beside) = self.beside.take() {
                beside.end().await;
            }
        };
        tokio::join!(span, beside);
    }
}

impl Drop for League {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The members as the workloads role knows them, with an account of its own in each. Roles that are run by hand beside `up`
/// log in with what is in their Secrets.
async fn recruits(ground: &Ground<'_>) -> anyhow::Result<Vec<Recruit>> {
    let recruit = async |member: &Arc<Site>| {
        let name = ClusterId::new(member.name())?;
        let server = server(ground.url, &name);
        let admin = Client::new(member.from_federation(administrator()), "default");
        rights::put(&admin, name.as_str(), rights::in_member()?).await?;
        let token = rights::token(&admin, MEMBER).await?;
        let login = json!({"token": token, "ca.crt": ground.authority, "server": server});
        let client = Client::new(member.from_federation(rights::user(MEMBER)), "default");
        anyhow::Ok(Recruit { name, server, login, client })
    };
    futures::stream::iter(ground.members).map(recruit).buffered(AT_ONCE).try_collect().await
}

fn partners(ground: &Ground<'_>) -> anyhow::Result<Vec<Partner>> {
    let partner = |member: &Arc<Site>| {
        let name = ClusterId::new(member.name())?;
        Ok(Partner { server: server(ground.url, &name), name, site: member.clone() })
    };
    ground.members.iter().map(partner).collect()
}

fn server(url: &str, member: &ClusterId) -> String {
    format!("{url}/clusters/{member}")
}
