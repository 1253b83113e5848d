//! Services and policies that span the members of `up`: the first member supervises, all others are children.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use koinon_api::membership::{NETWORK_NAMESPACE, SERVER_KEY};
use koinon_cluster::Clock;
use koinon_fleet::ClusterId;
use koinon_network::policies::{self, Policies};
use koinon_network::services::{self, Services};
use koinon_network::{Network, crds};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::rights::{self, SUPERVISED, SUPERVISOR};
use crate::site::{Site, administrator};

const API: &str = "federation.antreaplus.tanzu.vmware.com/v1alpha1";
const AT_ONCE: usize = 8;

/// The role at work.
pub(super) struct Span {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Span {
    /// Gives back every lead, so that whoever comes next need not wait for leases to end.
    pub(super) async fn end(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the network role ended badly");
        }
    }
}

/// How the role works.
pub(super) struct Terms {
    pub(super) network: koinon_network::Options,
    pub(super) services: services::Options,
    pub(super) policies: policies::Options,
}

/// A member as the role knows it.
pub(super) struct Partner {
    pub(super) name: ClusterId,
    pub(super) server: String,
    pub(super) site: Arc<Site>,
}

/// Has every member say who it is, and begins to lead them. `authority` is what they are trusted by.
pub(super) async fn start(
    partners: &[Partner],
    authority: &str,
    instance: &str,
    terms: Terms,
    clock: Clock,
) -> anyhow::Result<Option<Span>> {
    let Some(first) = partners.first() else { return Ok(None) };
    let tokens: Vec<String> =
        futures::stream::iter(partners).map(furnish).buffered(AT_ONCE).try_collect().await?;
    let leads: Vec<Lead<'_>> =
        partners.iter().zip(&tokens).map(|(partner, token)| Lead { partner, token, authority }).collect();
    futures::stream::iter(partners)
        .map(|partner| lead(partner, if partner.name == first.name { &leads } else { &[] }))
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;

    let direct: BTreeMap<ClusterId, Client> = partners
        .iter()
        .map(|partner| {
            let account = if partner.name == first.name { SUPERVISOR } else { SUPERVISED };
            let way = partner.site.from_federation(rights::user(account));
            (partner.name.clone(), Client::new(way, "default"))
        })
        .collect();
    let own = Client::new(first.site.from_federation(rights::user(SUPERVISOR)), "default");
    let network = Network::new(own, instance, terms.network, Default::default(), clock);
    let fleet = network.fleet().clone();
    let services = Services::new(fleet.clone(), terms.services, services::Metrics::default());
    let origins = services.origins();
    let policies = Policies::new(fleet, origins, terms.policies, policies::Metrics::default());
    let network = network.direct(direct).feature(services).feature(policies);
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(network.run(async { drop(stopped.await) }));
    Ok(Some(Span { stop, task }))
}

/// Makes what the role needs in one member, and says with which token a supervisor logs in there.
async fn furnish(member: &Partner) -> anyhow::Result<String> {
    let admin = Client::new(member.site.from_federation(administrator()), "default");
    let definitions = crds().into_iter().chain(koinon_config::crds());
    let objects = definitions.chain(koinon_network::rbac()).chain([claim("id.k8s.io", member.name.as_str())]);
    rights::put(&admin, member.name.as_str(), objects).await?;
    rights::token(&admin, SUPERVISED).await
}

/// Writes into one member whom it leads, if anybody.
async fn lead(member: &Partner, leads: &[Lead<'_>]) -> anyhow::Result<()> {
    let admin = Client::new(member.site.from_federation(administrator()), "default");
    for lead in leads {
        let login = json!({"token": lead.token, "ca.crt": lead.authority, SERVER_KEY: lead.partner.server});
        rights::keep_login(&admin, NETWORK_NAMESPACE, &secret(lead.partner), &login).await?;
    }
    rights::put(&admin, member.name.as_str(), federation(leads)).await
}

/// A member that another one leads, and how it is trusted and logged in to.
struct Lead<'a> {
    partner: &'a Partner,
    token: &'a str,
    authority: &'a str,
}

fn federation(leads: &[Lead<'_>]) -> Vec<Value> {
    let members: Vec<Value> = leads
        .iter()
        .map(|lead| lead.partner)
        .map(|one| json!({"clusterID": {"value": one.name.as_str()}, "server": one.server, "secret": secret(one)}))
        .collect();
    let spec = if members.is_empty() { json!({}) } else { json!({"members": members}) };
    let mut objects = Vec::new();
    if !leads.is_empty() {
        objects.push(claim("supervisor.antreaplus.tanzu-vmware.com", "true"));
    }
    objects.push(json!({"apiVersion": API, "kind": "Federation", "metadata": named("up"), "spec": spec}));
    objects
}

fn claim(claim: &str, value: &str) -> Value {
    json!({"apiVersion": API, "kind": "ClusterClaim", "metadata": named(claim), "value": value})
}

fn secret(partner: &Partner) -> String {
    format!("member-{}", partner.name)
}

fn named(name: &str) -> Value {
    json!({"name": name, "namespace": NETWORK_NAMESPACE})
}
