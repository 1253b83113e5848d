//! What a federator may do in its own cluster, and what its credentials for members must allow there.

use koinon_api::rights::{Account, READ, lease, named, role, rule};
use serde_json::Value;

use crate::names::{GROUP, LEASE, NAMESPACE, SECRET};

const NAME: &str = "koinon-config";
const MEMBER: &str = "koinon-config-member";
const FEDERATED: [&str; 2] = ["gslbconfigs", "globaldeploymentpolicies"];

/// Roles and bindings, ready to be applied to any cluster of the federation. Further kinds of `spec.objects` need
/// rules of their own, the same as for those that are always federated.
pub fn rbac() -> Vec<Value> {
    let everywhere = [
        rule(&[GROUP], &["amkoclusters"], &READ),
        rule(&[GROUP], &["amkoclusters/status"], &["patch"]),
        rule(&[GROUP], &FEDERATED, &READ),
        named(rule(&[""], &["namespaces"], &READ), &[NAMESPACE]),
        // Objects that went with their definition were not deleted.
        rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &["get"]),
        rule(&[""], &["events"], &["create", "patch"]),
    ];
    let here = [
        named(rule(&[""], &["secrets"], &READ), &[SECRET]),
        rule(&["coordination.k8s.io"], &["leases"], &["create"]),
        named(rule(&["coordination.k8s.io"], &["leases"], &["get", "patch"]), &[LEASE]),
    ];
    let replicas = lease(NAME);
    let member = [
        rule(&[GROUP], &["amkoclusters"], &READ),
        rule(&[GROUP], &FEDERATED, &["get", "list", "watch", "create", "update", "delete"]),
    ];
    let account = Account { namespace: NAMESPACE, name: NAME };
    let places = [(None, &everywhere[..]), (Some(NAMESPACE), &here), (Some("kube-system"), &replicas)];
    let mut all = vec![account.object()];
    all.extend(places.map(|(place, rules)| role(NAME, place, rules)));
    all.push(role(MEMBER, Some(NAMESPACE), &member));
    all.extend(places.map(|(place, _)| account.bind(NAME, place, NAME)));
    all
}
