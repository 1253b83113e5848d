//! The names that users and Antrea see, each in one place.

/// The group of Antrea's policies, tiers and external entities.
pub const GROUP: &str = "crd.antrea.io";
/// The version of policies and tiers.
pub const VERSION: &str = "v1beta1";
/// The version of `ExternalEntity`.
pub const ENTITY_VERSION: &str = "v1alpha2";

/// Domains under which annotations are read, the one that counts most first.
pub const DOMAINS: [&str; 5] = [
    "antreaplus.vmware-tanzu.com",
    "antreaplus.vmware.com",
    "antreaplus.tanzu-vmware.com",
    "antreaplus.tanzu.vmware.com",
    "antreaplus.vmware-tanzue.com",
];
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
    pub const SPELLING: &str = "FederatedPolicySpelling";
}
