//! The members of `up` as a federation: written down, watched over, and worked with.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use koinon_api::names::SYSTEM_NAMESPACE;
use koinon_apiserver::auth::kubeconfig::{self, Entry, Login};
use koinon_apiserver::auth::pki::Authority;
use koinon_cluster::Clock;
use koinon_fleet::health::Thresholds;
use koinon_fleet::membership::controller::Kind;
use koinon_fleet::membership::{self, Controller, Recruit};
use koinon_fleet::{ClusterId, Fleet, Metrics, Options};
use kube::Client;
use serde_json::json;
use tokio::task::JoinHandle;

use super::network::{self, Span};
use crate::run::workloads::Crew;
use crate::site::Site;

/// The federation at work; it ends when this is dropped.
pub(super) struct League {
    task: JoinHandle<()>,
    span: Option<Span>,
}

/// What the federation knows of its own API server and its members.
pub(super) struct Ground<'a> {
    pub(super) federation: &'a Arc<Site>,
    pub(super) members: &'a [Arc<Site>],
    pub(super) authority: &'a Authority,
    pub(super) url: &'a str,
    pub(super) clock: Clock,
    /// What tells this process from others.
    pub(super) instance: &'a str,
}

impl League {
    /// Writes the members down and begins to look after them.
    pub(super) async fn start(
        ground: Ground<'_>,
        thresholds: Thresholds,
        spreading: koinon_workloads::Options,
    ) -> anyhow::Result<League> {
        let client = Client::new(ground.federation.from_federation(), "default");
        let recruits = recruits(&ground)?;
        membership::enlist(&client, &recruits).await.context("the members cannot be written down")?;
        let options = Options { thresholds, ..Options::default() };
        let span = match network::is_for(recruits.len()) {
            true => {
                let (fleet, clock) = (options.clone(), ground.clock.clone());
                network::start(&recruits, ground.instance, fleet, clock).await?
            }
            false => None,
        };
        // Members of this process are reached without a socket, over a wire that `koinon lab` can cut.
        let direct: BTreeMap<ClusterId, Client> =
            recruits.into_iter().map(|recruit| (recruit.name, recruit.client)).collect();
        let fleet = Fleet::new(options, Metrics::default(), ground.clock.clone());
        let controller =
            Controller::new(client.clone(), SYSTEM_NAMESPACE, Kind::Federation, fleet.clone()).direct(direct);
        let clock = ground.clock;
        let task = tokio::spawn(async move {
            let metrics = koinon_workloads::Metrics::default();
            let crew = Crew { client: &client, fleet, controller, clock, metrics };
            Box::pin(crew.work(spreading, || (), std::future::pending())).await;
        });
        Ok(League { task, span })
    }
}

impl League {
    /// Ends it in good order.
    pub(super) async fn end(mut self) {
        if let Some(span) = self.span.take() {
            span.end().await;
        }
    }
}

impl Drop for League {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn recruits(ground: &Ground<'_>) -> anyhow::Result<Vec<Recruit>> {
    ground
        .members
        .iter()
        .map(|member| {
            let name = ClusterId::new(member.name())?;
            let server = format!("{}/clusters/{name}", ground.url);
            // Whoever runs a role by hand beside `up` logs in with this, as the administrator.
            let entry = Entry {
                name: name.as_str(),
                server: &server,
                authority: ground.authority.certificate(),
                login: Login::Certificate(ground.authority.admin()),
                namespace: None,
            };
            let login = json!({"kubeconfig": kubeconfig::render(&[entry], name.as_str())});
            let client = Client::new(member.from_federation(), "default");
            Ok(Recruit { name, server, login, client })
        })
        .collect()
}
