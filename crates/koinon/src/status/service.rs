//! One federated Service, as the cluster that is asked has it.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::membership::NETWORK_NAMESPACE;
use koinon_control::call::within_deadline;
use koinon_network::services::{Seen, report};
use kube::Api;
use kube::api::ListParams;

use super::Scope;
use super::workload::get;
use crate::table::table;

pub(super) async fn gather(scope: &Scope<'_>, name: &str) -> anyhow::Result<Seen> {
    let namespace = scope.namespace.unwrap_or(NETWORK_NAMESPACE);
    let service: Service = get(scope.client, namespace, name).await?;
    let slices: Api<EndpointSlice> = Api::namespaced(scope.client.clone(), namespace);
    let slices = within_deadline(slices.list(&ListParams::default())).await;
    let slices = slices.with_context(|| format!("the EndpointSlices in {namespace} cannot be read"))?;
    report(&service, &slices.items).with_context(|| {
        format!(
            "the Service {namespace}/{name} is no federated one: those are in {NETWORK_NAMESPACE}, or in the namespace \
             of their members (-n)"
        )
    })
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
