//! One federated Service, as the cluster that is asked has it.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::membership::NETWORK_NAMESPACE;
use koinon_api::names::network::{DOMAINS, GLOBAL, NAMESPACED};
use koinon_control::call::within_deadline;
use koinon_network::services::{Seen, report};
use kube::Api;
use kube::api::ListParams;

use super::Scope;
use crate::members::Federation;
use crate::table::table;

pub(super) async fn gather(scope: &Scope<'_>, asked: &Federation, name: &str) -> anyhow::Result<Seen> {
    let asked = cluster(asked);
    let namespace = scope.namespace.unwrap_or(NETWORK_NAMESPACE);
    let services: Api<Service> = Api::namespaced(scope.client.clone(), namespace);
    let service = within_deadline(services.get_opt(name)).await;
    let service = service.with_context(|| format!("the Service {namespace}/{name} cannot be read"))?;
    let service = service
        .with_context(|| format!("{asked} has no Service {namespace}/{name}; {}", place(namespace, name)))?;
    let slices: Api<EndpointSlice> = Api::namespaced(scope.client.clone(), namespace);
    let slices = within_deadline(slices.list(&ListParams::default())).await;
    let slices = slices.with_context(|| format!("the EndpointSlices in {namespace} cannot be read"))?;
    report(&service, &slices.items).with_context(|| {
        format!("the Service {namespace}/{name} in {asked} is no federated one; {}", place(namespace, name))
    })
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

pub(super) fn render(seen: &Seen) -> String {
    let or_none = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let mut text = format!("address   {}\nports     {}\n\n", or_none(&seen.addresses), or_none(&seen.ports));
    let mut rows = vec![["CLUSTER", "MEMBER", "READY"].map(str::to_owned).to_vec()];
    for (cluster, members) in &seen.members {
        for (member, endpoints) in members {
            rows.push(vec![
                cluster.clone(),
                member.clone(),
                format!("{}/{}", endpoints.ready, endpoints.all),
            ]);
        }
    }
    text.push_str(&table(&rows));
    for conflict in &seen.conflicts {
        text.push_str(&format!("conflict: {conflict}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use koinon_network::services::Endpoints;

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
        let members = BTreeMap::from([("ns1/foo1".to_owned(), Endpoints { all: 3, ready: 2 })]);
        let seen = Seen {
            addresses: vec!["10.96.0.7".into()],
            ports: vec!["80/TCP".into()],
            members: BTreeMap::from([("a".to_owned(), members)]),
            conflicts: vec!["port 80 is http in a and web in b".into()],
        };
        assert_eq!(
            render(&seen),
            "address   10.96.0.7\nports     80/TCP\n\nCLUSTER   MEMBER     READY\na         ns1/foo1   2/3\n\
             conflict: port 80 is http in a and web in b\n"
        );
    }
}
