//! One federated Service: its members in all clusters, and what the cluster that is asked makes of them.
//!
//! A cluster with members of its own uses those alone, so each is asked for its own ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::membership::NETWORK_NAMESPACE;
use koinon_api::names::network::{DOMAINS, GLOBAL, NAMESPACED};
use koinon_control::call::within_deadline;
use koinon_fleet::Member;
use koinon_network::services::records::SERVICE_NAME;
use koinon_network::services::{Endpoints, Seen, report};
use kube::Api;
use kube::api::ListParams;
use serde::Serialize;

use super::Scope;
use super::union::{Answers, ask_all};
use crate::members::Federation;
use crate::table::table;

/// All of it.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    addresses: Vec<String>,
    ports: Vec<String>,
    /// By cluster and object.
    members: BTreeMap<String, BTreeMap<String, Used>>,
    conflicts: Vec<String>,
    /// Clusters of which nothing more is known than what the asked one uses, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unknown: BTreeMap<String, String>,
}

/// A member.
#[derive(Debug, PartialEq, Serialize)]
struct Used {
    #[serde(flatten)]
    endpoints: Endpoints,
    /// Whether it is used in the cluster that is asked.
    used: bool,
}

pub(super) async fn gather(scope: &Scope<'_>, asked: &Federation, name: &str) -> anyhow::Result<Found> {
    let cluster = cluster(asked);
    let namespace = scope.namespace.unwrap_or(NETWORK_NAMESPACE);
    let services: Api<Service> = Api::namespaced(scope.client.clone(), namespace);
    let service = within_deadline(services.get_opt(name)).await;
    let service = service.with_context(|| format!("the Service {namespace}/{name} cannot be read"))?;
    let service = service.with_context(|| {
        format!("{cluster} has no Service {namespace}/{name}; {}", place(namespace, name))
    })?;
    let slices: Api<EndpointSlice> = Api::namespaced(scope.client.clone(), namespace);
    let slices = within_deadline(slices.list(&ListParams::default())).await;
    let slices = slices.with_context(|| format!("the EndpointSlices in {namespace} cannot be read"))?;
    let here = report(&service, &slices.items).with_context(|| {
        format!("the Service {namespace}/{name} in {cluster} is no federated one; {}", place(namespace, name))
    })?;
    let answers = ask_all(scope, "Services", async |member| own(member, namespace, name).await).await;
    Ok(match answers {
        Ok(Answers { known, unknown }) => merge(here, known, unknown),
        Err(why) => {
            let why = format!("the others cannot be asked: {why:#}");
            merge(here, BTreeMap::new(), BTreeMap::from([(ELSEWHERE, why)]))
        }
    })
}

/// Stands for every cluster but the asked one.
const ELSEWHERE: &str = "elsewhere";

/// The members of the Service that a cluster has itself.
async fn own(
    member: Arc<Member>,
    namespace: &str,
    name: &str,
) -> anyhow::Result<BTreeMap<String, Endpoints>> {
    let client = member.client();
    let (services, slices): (Api<Service>, Api<EndpointSlice>) =
        (client.namespaced(namespace), client.namespaced(namespace));
    let of_service = ListParams::default().labels(&format!("{SERVICE_NAME}={name}"));
    let (service, slices) =
        futures::try_join!(client.call(services.get_opt(name)), client.call(slices.list(&of_service)),)?;
    let seen = service.and_then(|service| report(&service, &slices.items)).unwrap_or_default();
    Ok(seen.members.get(member.name().as_str()).cloned().unwrap_or_default())
}

/// What is used here, and what each cluster says that it has itself.
fn merge<N: ToString>(
    here: Seen,
    known: BTreeMap<N, BTreeMap<String, Endpoints>>,
    unknown: BTreeMap<N, String>,
) -> Found {
    let Seen { addresses, ports, members: used, conflicts } = here;
    let mut members: BTreeMap<String, BTreeMap<String, Used>> = BTreeMap::new();
    let own = known.into_iter().map(|(cluster, own)| (cluster.to_string(), own, false));
    for (cluster, each, is_used) in own.chain(used.into_iter().map(|(cluster, used)| (cluster, used, true))) {
        let members = members.entry(cluster).or_default();
        for (member, endpoints) in each {
            // What a cluster says of its own is the latest.
            let entry = members.entry(member).or_insert(Used { endpoints, used: is_used });
            entry.used |= is_used;
        }
    }
    members.retain(|_, members| !members.is_empty());
    let unknown = unknown.into_iter().map(|(cluster, why)| (cluster.to_string(), why)).collect();
    Found { addresses, ports, members, conflicts, unknown }
}

/// The cluster that is asked, as its user would call it.
fn cluster(asked: &Federation) -> String {
    let file = asked.kubeconfig.as_ref().map(|file| format!(" of {}", file.display())).unwrap_or_default();
    match &asked.context {
        Some(context) => format!("the cluster of context {context}{file}"),
        None => format!("the cluster of the current context{file}"),
    }
}

/// Where a federated Service is and how it comes about, for who looked in vain.
fn place(namespace: &str, name: &str) -> String {
    let scope = if namespace == NETWORK_NAMESPACE { GLOBAL } else { NAMESPACED };
    let annotation = format!("{scope}{}={name}", DOMAINS[0]);
    format!(
        "a federated Service is in every cluster of a federation that `koinon run network` leads, as soon as a Service \
         somewhere joins it by the annotation {annotation}: ask one of these clusters (--kubeconfig, --context), and with \
         -n NAMESPACE for one that is not global"
    )
}

pub(super) fn render(found: &Found) -> String {
    let or_none = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let mut text =
        format!("address   {}\nports     {}\n\n", or_none(&found.addresses), or_none(&found.ports));
    let mut rows = vec![["CLUSTER", "MEMBER", "READY", "USED HERE"].map(str::to_owned).to_vec()];
    for (cluster, members) in &found.members {
        for (member, Used { endpoints, used }) in members {
            let ready = format!("{}/{}", endpoints.ready, endpoints.all);
            let used = if *used { "yes" } else { "no" };
            rows.push(vec![cluster.clone(), member.clone(), ready, used.to_owned()]);
        }
    }
    text.push_str(&table(&rows));
    for conflict in &found.conflicts {
        text.push_str(&format!("conflict: {conflict}\n"));
    }
    for (cluster, why) in &found.unknown {
        text.push_str(&format!("{cluster} is not known: {why}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looked_in_vain_is_told_where_and_how() {
        let asked = Federation { kubeconfig: Some("site.yaml".into()), context: Some("c".into()) };
        assert_eq!(cluster(&asked), "the cluster of context c of site.yaml");
        assert_eq!(
            cluster(&Federation { kubeconfig: None, context: None }),
            "the cluster of the current context"
        );
        assert!(
            place(NETWORK_NAMESPACE, "foo").contains("svc.global.federated.antreaplus.vmware-tanzu.com=foo")
        );
        assert!(place("ns1", "foo").contains(" svc.federated.antreaplus.vmware-tanzu.com=foo"));
    }

    #[test]
    fn members_by_cluster_and_what_they_do_not_agree_on() {
        let member = |name: &str, ready| BTreeMap::from([(name.to_owned(), Endpoints { all: 3, ready })]);
        let seen = Seen {
            addresses: vec!["10.96.0.7".into()],
            ports: vec!["80/TCP".into()],
            members: BTreeMap::from([("a".to_owned(), member("ns1/foo1", 2))]),
            conflicts: vec!["port 80 is http in a and web in b".into()],
        };
        // What a cluster says of its own counts, also where the asked one has not heard of it yet.
        let known = BTreeMap::from([
            ("a", member("ns1/foo1", 3)),
            ("b", member("ns2/foo2", 1)),
            ("c", BTreeMap::new()),
        ]);
        let found = merge(seen, known, BTreeMap::from([("d", "no answer".to_owned())]));
        assert_eq!(
            render(&found),
            "address   10.96.0.7\nports     80/TCP\n\nCLUSTER   MEMBER     READY   USED HERE\n\
             a         ns1/foo1   3/3     yes\nb         ns2/foo2   1/3     no\n\
             conflict: port 80 is http in a and web in b\nd is not known: no answer\n"
        );
    }
}
