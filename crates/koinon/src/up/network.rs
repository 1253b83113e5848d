//! Services and policies that span the members of `up`: the first member supervises, all others are children.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _};
use koinon_api::membership::NETWORK_NAMESPACE;
use koinon_cluster::Clock;
use koinon_fleet::ClusterId;
use koinon_fleet::membership::{Recruit, apply};
use koinon_network::policies::{self, Policies};
use koinon_network::services::{self, Services};
use koinon_network::{Network, crds};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const API: &str = "federation.antreaplus.tanzu.vmware.com/v1alpha1";
/// Within this time a server knows a kind that was just defined.
const SERVED_WITHIN: Duration = Duration::from_secs(10);
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

/// Has every member say who it is, and begins to lead them.
pub(super) async fn start(
    recruits: &[Recruit],
    instance: &str,
    terms: Terms,
    clock: Clock,
) -> anyhow::Result<Option<Span>> {
    let Some(first) = recruits.first() else { return Ok(None) };
    futures::stream::iter(recruits)
        .map(|recruit| furnish(recruit, if recruit.name == first.name { recruits } else { &[] }))
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    let direct: BTreeMap<ClusterId, Client> =
        recruits.iter().map(|recruit| (recruit.name.clone(), recruit.client.clone())).collect();
    let network = Network::new(first.client.clone(), instance, terms.network, Default::default(), clock);
    let fleet = network.fleet().clone();
    let services = Services::new(fleet.clone(), terms.services, services::Metrics::default());
    let origins = services.origins();
    let policies = Policies::new(fleet, origins, terms.policies, policies::Metrics::default());
    let network = network.direct(direct).feature(services).feature(policies);
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(network.run(async { drop(stopped.await) }));
    Ok(Some(Span { stop, task }))
}

/// Writes into one member who it is, and into a supervisor whom it may lead.
async fn furnish(member: &Recruit, leads: &[Recruit]) -> anyhow::Result<()> {
    let name = &member.name;
    let definitions = crds().into_iter().chain(koinon_config::crds());
    for object in definitions.chain(objects(name, leads)) {
        served(&member.client, &object).await.with_context(|| {
            format!("{} {} cannot be made in member {name}", object["kind"], object["metadata"]["name"])
        })?;
    }
    Ok(())
}

/// Applies an object, also one whose kind was defined a moment ago.
async fn served(client: &Client, object: &Value) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        match apply(client, object).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_path_unknown() && begun.elapsed() < SERVED_WITHIN => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn objects(name: &ClusterId, leads: &[Recruit]) -> Vec<Value> {
    let named = |name: &str| json!({"name": name, "namespace": NETWORK_NAMESPACE});
    let claim = |claim: &str, value: &str| json!({"apiVersion": API, "kind": "ClusterClaim", "metadata": named(claim), "value": value});
    let secret = |recruit: &Recruit| format!("member-{}", recruit.name);
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NETWORK_NAMESPACE}}),
        claim("id.k8s.io", name.as_str()),
    ];
    if !leads.is_empty() {
        objects.push(claim("supervisor.antreaplus.tanzu-vmware.com", "true"));
    }
    for recruit in leads {
        objects.push(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": named(&secret(recruit)), "stringData": recruit.login,
        }));
    }
    let members: Vec<Value> = leads
        .iter()
        .map(|one| json!({"clusterID": {"value": one.name.as_str()}, "server": one.server, "secret": secret(one)}))
        .collect();
    let spec = if members.is_empty() { json!({}) } else { json!({"members": members}) };
    objects.push(json!({"apiVersion": API, "kind": "Federation", "metadata": named("up"), "spec": spec}));
    objects
}
