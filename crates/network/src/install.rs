//! What a cluster needs before the role can work beside it, and what its credentials for members must allow there.

use koinon_api::membership;
use koinon_api::membership::NETWORK_NAMESPACE;
use koinon_api::names::membership::GROUP;
use koinon_api::names::network::{MCS_GROUP, NATIVE_SERVICE_GROUP, VIRTUAL_MACHINE_GROUP};
use koinon_api::network::native_service_crd;
use koinon_api::rights::{Account, READ, WRITE, lease, named, namespace, role, rule};
use koinon_webhook::Registration;
use serde_json::Value;

use crate::policies;

const NAME: &str = "koinon-network";
/// The ValidatingWebhookConfiguration of the role.
pub const WEBHOOK: &str = NAME;
const MEMBER: &str = "koinon-network-member";
const AS_MEMBER: &str = "koinon-network-as-member";

/// The definitions of every kind that the role brings along.
pub fn crds() -> Vec<Value> {
    vec![membership::cluster_claim_crd(), membership::federation_crd(), native_service_crd()]
}

/// What the role needs in addition to serve a webhook: the rule that allows it to keep its own registration.
pub fn webhook_rbac() -> Vec<Value> {
    const RIGHT: &str = "koinon-network-webhook";
    vec![role(RIGHT, None, &[Registration::permission(WEBHOOK)]), account(NAME).bind(RIGHT, None, RIGHT)]
}

/// The namespace, accounts, roles and bindings, ready to be applied to any cluster of the federation. The account
/// `koinon-network` is for the role beside the cluster, `koinon-network-member` for supervisors of other clusters.
pub fn rbac() -> Vec<Value> {
    let member = [
        rule(&[""], &["services"], &WRITE),
        // How a member stands.
        rule(&[""], &["services/status"], &["get", "update", "patch"]),
        rule(&["discovery.k8s.io"], &["endpointslices", "endpointslices/restricted"], &WRITE),
        rule(&[""], &["nodes", "namespaces"], &READ),
        rule(&["", "events.k8s.io"], &["events"], &["create", "patch"]),
        rule(&[GROUP], &["federations", "clusterclaims"], &READ),
        rule(&[NATIVE_SERVICE_GROUP], &["nativeservices"], &READ),
        rule(&[VIRTUAL_MACHINE_GROUP], &["virtualmachines"], &READ),
        rule(&[MCS_GROUP], &["serviceexports"], &READ),
        rule(&[MCS_GROUP], &["serviceimports"], &WRITE),
        rule(&[MCS_GROUP], &["serviceexports/status", "serviceimports/status"], &["get", "update", "patch"]),
        rule(
            &[policies::names::GROUP],
            &["networkpolicies", "clusternetworkpolicies", "externalentities"],
            &WRITE,
        ),
        rule(&[policies::names::GROUP], &["tiers"], &READ),
        // Whether Antrea was installed anew, which removes policies and is no user's removal.
        rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &["get"]),
    ];
    let ours = [
        // Those of elections are named by the IDs of clusters.
        rule(&["coordination.k8s.io"], &["leases"], &["get", "create", "update", "patch"]),
        rule(&[""], &["configmaps"], &WRITE),
        // A supervisor renews its token with the token itself.
        named(rule(&[""], &["serviceaccounts/token"], &["create"]), &[MEMBER]),
    ];
    // Updated with members' tokens when they are renewed.
    let here = [rule(&[""], &["secrets"], &READ), rule(&[""], &["secrets"], &["update"])];
    // Also of Federations that are where none belongs: they are told so.
    let status = [rule(&[GROUP], &["federations/status"], &["get", "update", "patch"])];
    let ours_in = Some(NETWORK_NAMESPACE);
    let leases_in = Some("kube-system");
    let mut all = vec![
        namespace(NETWORK_NAMESPACE),
        account(NAME).object(),
        account(MEMBER).object(),
        role(MEMBER, None, &member),
        role(NAME, None, &status),
        role(MEMBER, ours_in, &ours),
        role(NAME, ours_in, &here),
        role(NAME, leases_in, &lease(NAME)),
    ];
    // Two accounts have the member's role, so a binding is named by both.
    for (name, who) in [(AS_MEMBER, NAME), (MEMBER, MEMBER)] {
        all.extend([None, ours_in].map(|place| account(who).bind(name, place, MEMBER)));
    }
    all.extend([None, ours_in, leases_in].map(|place| account(NAME).bind(NAME, place, NAME)));
    all
}

fn account(name: &str) -> Account<'_> {
    Account { namespace: NETWORK_NAMESPACE, name }
}
