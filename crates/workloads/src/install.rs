//! What the federation's API server needs before the role can work beside it. Members get what they need by `koinon join`.

use koinon_api::membership;
use koinon_api::names::SYSTEM_NAMESPACE;
use koinon_api::names::membership::{GROUP, PROFILE_GROUP};
use koinon_api::rights::{Account, READ, WRITE, lease, namespace, role, rule};
use koinon_webhook::Registration;
use serde_json::Value;

/// The role's account and rights, its ValidatingWebhookConfiguration, and the Lease that its replicas contend for.
pub const NAME: &str = koinon_api::names::workloads::ROLE;
/// Where that Lease is.
const LEASES: &str = koinon_api::names::LEASE_NAMESPACE;

/// The definitions of every kind that the role brings along.
pub fn crds() -> Vec<Value> {
    membership::crds()
}

/// The namespace, the account `koinon-workloads`, and what it may do; with what it needs to serve a webhook.
pub fn rbac(webhook: bool) -> Vec<Value> {
    let mut everywhere = vec![
        rule(&["apps"], &["deployments"], &["get", "list", "watch", "update", "patch"]),
        // Shadows of a Deployment's revisions are ReplicaSets, and anchors that make deletions wait are ControllerRevisions.
        rule(&["apps"], &["replicasets", "controllerrevisions"], &WRITE),
        rule(&["apps"], &["deployments/status", "replicasets/status"], &["get", "update", "patch"]),
        rule(&["apps"], &["deployments/finalizers", "replicasets/finalizers"], &["update"]),
        rule(&[""], &["namespaces"], &READ),
        rule(&[""], &["events"], &["create", "patch"]),
        rule(&[GROUP], &["federations"], &READ),
        rule(&[GROUP], &["federations/status"], &["get", "update", "patch"]),
    ];
    if webhook {
        everywhere.push(Registration::permission(NAME));
    }
    let ours = [
        rule(&[""], &["secrets"], &READ),
        // Members' tokens are renewed, and kept where they were.
        rule(&[""], &["secrets"], &["update"]),
        rule(&[""], &["configmaps"], &WRITE),
        rule(&[PROFILE_GROUP], &["clusterprofiles"], &WRITE),
        rule(&[PROFILE_GROUP], &["clusterprofiles/status"], &["get", "update", "patch"]),
    ];
    let leases = lease(NAME);
    let account = Account { namespace: SYSTEM_NAMESPACE, name: NAME };
    let mut all = vec![namespace(SYSTEM_NAMESPACE), account.object()];
    for (place, rules) in [(None, &everywhere[..]), (Some(SYSTEM_NAMESPACE), &ours), (Some(LEASES), &leases)]
    {
        all.push(role(NAME, place, rules));
        all.push(account.bind(NAME, place, NAME));
    }
    all
}
