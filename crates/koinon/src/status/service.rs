//! One federated Service: its members in all clusters, and what the cluster that is asked makes of them.
//!
//! Each cluster is asked who joins there, and how many endpoints they have at home; the asked one also for what it uses, which is
//! shown as it is there: a cluster with members of its own uses those alone, and news may be on their way.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::membership::NETWORK_NAMESPACE;
use koinon_api::names::network::{DOMAINS, GLOBAL, NAMESPACED};
use koinon_api::network::NativeService;
use koinon_control::Key;
use koinon_control::call::within_deadline;
use koinon_fleet::Member;
use koinon_network::services::records::SERVICE_NAME;
use koinon_network::services::{Endpoints, Seen, joins, native_joins, report};
use kube::Api;
use kube::api::ListParams;
use serde::Serialize;

use super::Scope;
use super::union::{Answers, Sees, ask_all};
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
#[derive(Debug, Default, PartialEq, Serialize)]
struct Used {
    /// Its endpoints, as its own cluster says; nothing if that was not asked.
    endpoints: Option<Endpoints>,
    /// Those of them that the asked cluster uses; nothing if it does not use the member.
    used: Option<Endpoints>,
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
    let key = Key::new(namespace, name);
    let answers = ask_all(scope, "Services", async |member| own(member, &key).await).await;
    Ok(match answers {
        Ok(Answers { here: id, sees, known, unknown }) => {
            let elsewhere = (sees == Sees::Itself).then(|| (ELSEWHERE.to_owned(), CHILD.to_owned()));
            let unknown = unknown.into_iter().map(|(cluster, why)| (cluster.to_string(), why));
            merge(&key, id.as_str(), here, known, unknown.chain(elsewhere).collect())
        }
        Err(why) => {
            let why = format!("the others cannot be asked: {why:#}");
            merge::<String>(&key, HERE, here, BTreeMap::new(), BTreeMap::from([(ELSEWHERE.to_owned(), why)]))
        }
    })
}

/// Stands for every cluster but the asked one.
const ELSEWHERE: &str = "elsewhere";
/// Stands for the asked cluster, where it does not say what it is called.
const HERE: &str = "here";
const CHILD: &str = "a child knows of nobody else: ask a supervisor";

/// The members of the Service that a cluster has itself, with their endpoints there.
async fn own(member: Arc<Member>, key: &Key) -> anyhow::Result<BTreeMap<String, Endpoints>> {
    let client = member.client();
    let (services, natives): (Api<Service>, Api<NativeService>) = match key.namespace == NETWORK_NAMESPACE {
        // Those that join a global one may be anywhere.
        true => (client.all(), client.all()),
        false => (client.namespaced(&key.namespace), client.namespaced(&key.namespace)),
    };
    let all = ListParams::default();
    let (services, natives) =
        futures::join!(client.call(services.list(&all)), client.call(natives.list(&all)));
    let mut own = BTreeMap::new();
    let joined: Vec<(String, Key)> =
        services?.items.iter().filter_map(|service| Some((joins(service, key)?, Key::of(service)))).collect();
    for (name, service) in joined {
        let slices: Api<EndpointSlice> = client.namespaced(&service.namespace);
        let of_service = ListParams::default().labels(&format!("{SERVICE_NAME}={}", service.name));
        own.insert(name, Endpoints::of(&client.call(slices.list(&of_service)).await?.items));
    }
    match natives {
        Ok(natives) => own.extend(natives.items.iter().filter_map(|native| native_joins(native, key))),
        // Who does not know the kind has none of it.
        Err(error) if error.code() == Some(404) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(own)
}

/// What is used in the cluster `id`, and what each cluster says that it has itself.
fn merge<N: ToString>(
    key: &Key,
    id: &str,
    here: Seen,
    known: BTreeMap<N, BTreeMap<String, Endpoints>>,
    unknown: BTreeMap<String, String>,
) -> Found {
    let Seen { addresses, ports, members: mut used, stand_in, conflicts } = here;
    if let Some(endpoints) = stand_in {
        used.entry(id.to_owned()).or_default().insert(format!("Service {key}"), endpoints);
    }
    let mut members: BTreeMap<String, BTreeMap<String, Used>> = BTreeMap::new();
    for (cluster, own) in known {
        for (member, endpoints) in own {
            members.entry(cluster.to_string()).or_default().entry(member).or_default().endpoints =
                Some(endpoints);
        }
    }
    for (cluster, each) in used {
        for (member, endpoints) in each {
            members.entry(cluster.clone()).or_default().entry(member).or_default().used = Some(endpoints);
        }
    }
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
            let count = |of: &Option<Endpoints>| of.map(|Endpoints { ready, all }| format!("{ready}/{all}"));
            // Nobody could be asked, or it is there no more and still used here.
            let ready = count(endpoints).unwrap_or_else(|| "?".to_owned());
            let used = count(used).unwrap_or_else(|| "no".to_owned());
            rows.push(vec![cluster.clone(), member.clone(), ready, used]);
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

    fn member(name: &str, all: usize, ready: usize) -> BTreeMap<String, Endpoints> {
        BTreeMap::from([(name.to_owned(), Endpoints { all, ready })])
    }

    #[test]
    fn members_by_cluster_and_what_they_do_not_agree_on() {
        let seen = Seen {
            addresses: vec!["10.96.0.7".into()],
            ports: vec!["80/TCP".into()],
            members: BTreeMap::from([
                ("a".to_owned(), member("ns1/foo1", 3, 2)),
                ("d".to_owned(), member("ns4/foo4", 1, 1)),
            ]),
            stand_in: None,
            conflicts: vec!["port 80 is http in a and web in b".into()],
        };
        // What a cluster says of its own stands beside what the asked one has heard of it so far.
        let known = BTreeMap::from([
            ("a", member("ns1/foo1", 3, 3)),
            ("b", member("ns2/foo2", 0, 0)),
            ("c", BTreeMap::new()),
        ]);
        let unknown = BTreeMap::from([("d".to_owned(), "no answer".to_owned())]);
        let found = merge(&Key::new("ns", "foo"), "a", seen, known, unknown);
        assert_eq!(
            render(&found),
            "address   10.96.0.7\nports     80/TCP\n\nCLUSTER   MEMBER     READY   USED HERE\n\
             a         ns1/foo1   3/3     2/3\nb         ns2/foo2   0/0     no\nd         ns4/foo4   ?       1/1\n\
             conflict: port 80 is http in a and web in b\nd is not known: no answer\n"
        );
    }

    #[test]
    fn a_stand_in_is_what_is_used_where_it_is() {
        let seen = Seen { stand_in: Some(Endpoints { all: 1, ready: 1 }), ..Seen::default() };
        let known = BTreeMap::from([
            ("a", member("Service shop/web", 1, 1)),
            ("b", member("Service shop/web", 2, 2)),
        ]);
        let found = merge(&Key::new("shop", "web"), "a", seen, known, BTreeMap::new());
        let used = |cluster: &str| found.members[cluster]["Service shop/web"].used;
        assert_eq!((used("a"), used("b")), (Some(Endpoints { all: 1, ready: 1 }), None));
    }
}
