//! The names that users and Antrea see, each in one place.

/// The group of Antrea's policies, tiers and external entities.
pub const GROUP: &str = "crd.antrea.io";
/// The version of policies and tiers.
pub const VERSION: &str = "v1beta1";
/// The version of `ExternalEntity`.
pub const ENTITY_VERSION: &str = "v1alpha2";

/// With a domain: the annotation by which a policy spans clusters, if its value is `true`.
pub const FEDERATED: &str = "federated.anp.";
/// Another spelling of the same.
pub const FEDERATED_BY_USER: &str = "anp.fed.user.";

/// Annotation that we write on copies: which revision they were made from.
pub const REVISION: &str = "koinon.dev/policy-revision";
/// Annotation on a member's own Federation: whose policies it takes; see [`super::accept`].
pub const ACCEPT: &str = "koinon.dev/accept-policies";

/// The ConfigMap with what a member's ledger says of members; pages are called so too, with a number behind.
pub const LEDGER: &str = "koinon-policies";
/// Label on all ConfigMaps of a ledger; its value is [`LEDGER_VALUE`].
pub const LEDGER_LABEL: &str = "koinon.dev/ledger";
pub const LEDGER_VALUE: &str = "policies";
/// The key of the one document in each of them.
pub const LEDGER_KEY: &str = "ledger.json";

/// Labels on external entities: what they stand for, and which.
pub const ENTITY_KIND: &str = "kind.antreaplus.tanzu.vmware.com";
pub const ENTITY_KIND_VALUE: &str = "federated-service";
pub const ENTITY_NAME: &str = "name.antreaplus.tanzu.vmware.com";
/// The cluster that an external entity's endpoints are in, where its ID fits into a label.
pub const ENTITY_CLUSTER: &str = "cluster.antreaplus.tanzu.vmware.com";

/// Tiers that every Antrea has.
pub const BUILT_IN_TIERS: [&str; 6] =
    ["emergency", "securityops", "networkops", "platform", "application", "baseline"];

/// Reasons of events.
pub mod reason {
    pub const REVISION: &str = "FederatedPolicyRevision";
    pub const REMOVED: &str = "FederatedPolicyRemoved";
    pub const CONFLICT: &str = "FederatedPolicyConflict";
    pub const BLOCKED: &str = "FederatedPolicyBlocked";
    pub const REFUSED: &str = "FederatedPolicyRefused";
    pub const SHAPED: &str = "FederatedPolicyShaped";
    pub const LOCAL_RULE: &str = "FederatedPolicyLocalRule";
    pub const UNPROVED: &str = "FederatedPolicyUnproved";
    pub const SPELLING: &str = "FederatedPolicySpelling";
}
