//! Names and sentences that users and other programs read. They are AMKO's: scripts look for them word by word.

/// The API group of all three kinds.
pub const GROUP: &str = "amko.vmware.com";
/// Where configuration lives, in every cluster.
pub const NAMESPACE: &str = "avi-system";
/// The Secret with one kubeconfig that has a context for each member.
pub const SECRET: &str = "gslb-config-secret";
/// The key of that kubeconfig in the Secret.
pub const SECRET_KEY: &str = "gslb-members";
/// Who writes, in `managedFields`.
pub const FIELD_MANAGER: &str = "AMKO-Federator";
/// Which AMKO owns the GSLB services; it travels with the object, so that a new leader owns them too.
pub const UUID_ANNOTATION: &str = "amko.vmware.com/amko-uuid";
/// The Lease whose holder is the context of this cluster for as long as it leads.
pub const LEASE: &str = "amko-leader";
/// On that Lease: of which kinds this leader was seen to have objects, for the next process.
pub const OWNED_KINDS: &str = "koinon.dev/owned-kinds";
/// What that annotation was called before; it is still read.
pub const OWNED_KINDS_BEFORE: &str = "koinon.dev/had";
/// On that Lease: which members were seen to lead as well, for the next process.
pub const RIVALS_ANNOTATION: &str = "koinon.dev/rivals";

/// Types of conditions, in the order of the stages.
pub mod condition {
    pub const CURRENT: &str = "current AMKOCluster Validation";
    pub const INITIALISATION: &str = "member cluster initialisation";
    pub const VALIDATION: &str = "member cluster validation";
    pub const GSLB_CONFIG: &str = "GSLBConfig Federation";
    pub const POLICY: &str = "GDP Federation";
}

/// What a condition says.
pub mod status {
    pub const VALID: &str = "valid AMKOCluster object";
    pub const INVALID: &str = "invalid AMKOCluster object";
    pub const FOLLOWER: &str = "won't federate objects";

    pub const ALL_CLIENTS: &str = "all cluster clients fetched";
    pub const SOME_CLIENTS: &str = "some member cluster clients couldn't be fetched";
    /// Said of both member stages: AMKO's own words when validation fails as a whole are those of the stage
    /// before, and scripts rely on it.
    pub const NO_CLIENTS: &str = "member cluster clients invalid";

    pub const ALL_VALID: &str = "validated all member clusters";
    pub const SOME_VALID: &str = "error in validating some member clusters";

    pub const FEDERATED: &str = "federated to all valid clusters successfully";
    pub const SOME_FEDERATED: &str = "error in federating to some clusters";
    pub const NOT_FEDERATED: &str = "failure in federation";
}

/// Why, for the cases that have AMKO's words.
pub mod reason {
    pub const NAMESPACE: &str = "AMKOCluster's namespace is not avi-system";
    pub const CONTEXT: &str = "clusterContext field can't be empty in AMKOCluster object";
    pub const VERSION: &str = "version field can't be empty in AMKOCluster object";
    pub const NOT_LEADER: &str = "AMKO not a leader";
    pub const SEVERAL_HERE: &str =
        "more than one AMKOCluster objects present in the current cluster, can't federate";
    pub const SEVERAL_CONFIGS: &str = "more than one GSLBConfig objects are present in the current cluster";
    pub const SEVERAL_POLICIES: &str =
        "more than one GlobalDeploymentPolicies are present in the current cluster";

    pub fn contexts(why: &str) -> String {
        format!("error in initialising member cluster contexts: {why}")
    }

    pub fn no_context(cluster: &str) -> String {
        contexts(&format!(
            "error in building context config for kubernetes cluster {cluster}: context {cluster:?} does not exist"
        ))
    }

    /// Sic.
    pub fn no_client(cluster: &str, why: &str) -> String {
        format!("error in initializing member custer context {cluster}: {why}")
    }

    pub fn unreachable(cluster: &str, why: &str) -> String {
        format!("error in getting AMKOCluster list for cluster {cluster}: {why}")
    }

    pub fn second_leader(cluster: &str) -> String {
        format!("AMKO in cluster {cluster} is also a leader, conflicting state")
    }

    pub fn several_there(cluster: &str) -> String {
        format!("more than one AMKOCluster objects present in cluster {cluster}, can't federate")
    }

    pub fn none_there(cluster: &str) -> String {
        format!("no AMKOCluster object present in cluster {cluster}, can't federate")
    }

    pub fn version(here: &str, cluster: &str, there: &str) -> String {
        format!("version mismatch, current AMKO: {here}, AMKO in cluster {cluster}: {there}")
    }
}
