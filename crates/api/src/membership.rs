//! Who belongs to a federation: its members, and what a cluster says of itself.

mod claims;
mod crds;
mod id;
pub(crate) mod object;
mod profile;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

pub use self::claims::{Claims, WellKnown};
pub use self::crds::{GROUP, VERSION, cluster_claim_crd, crds, federation_crd};
pub use self::id::{ClusterId, InvalidId};
use self::object::namespaced;
pub use self::profile::{
    ClusterProfile, PROFILE_MANAGER, ProfileSpec, ProfileStatus, Property, cluster_profile_crd,
};
pub use crate::names::SYSTEM_NAMESPACE as KOINON_NAMESPACE;
pub use crate::names::membership::NETWORK_NAMESPACE;

/// The Federation that `koinon join` writes to when there is none yet.
pub const FEDERATION_NAME: &str = "federation";
/// On a member's Secret: the UID of the `kube-system` namespace of the cluster that was joined.
pub const CLUSTER_UID: &str = "koinon.dev/cluster-uid";

/// On a Secret: it may be read to log in to a member. No other is.
pub const MEMBER_SECRET: &str = "koinon.dev/member-secret";
/// In a member's Secret: the only address that its token is sent to.
pub const SERVER_KEY: &str = "server";

/// The members of a federation, and how each of them is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Federation {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: FederationSpec,
    #[serde(default)]
    pub status: Option<FederationStatus>,
}

/// Who should belong to the federation. In a child cluster it may be empty: it then only says that the
/// cluster takes part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FederationSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_set: Option<Claimed>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberCluster>,
}

/// The value of a claim, as it is named from elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub value: String,
}

/// One member: who it is, where it is, and how to log in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberCluster {
    #[serde(rename = "clusterID")]
    pub cluster_id: Claimed,
    /// The URL of its API server; the Secret may say it instead, and where it does it has to be the same.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// A Secret beside the Federation with `token` and `ca.crt`, or `kubeconfig`, and the label [`MEMBER_SECRET`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secret: String,
}

/// What is known of the members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FederationStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Why this Federation is not followed, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<String>,
    /// The ID of the cluster that this Federation lives in. It stays in force for as long as the Federation
    /// does, whatever becomes of the claim.
    #[serde(default, rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// How many members are reachable, of how many: `2/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<String>,
    /// What is wrong with the Federation or the claims, as long as it is; the rest is followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub member_status: Vec<MemberStatus>,
}

/// How one member is, as seen from where this Federation lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    pub status: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether the cluster that this Federation lives in leads the member.
    #[serde(default)]
    pub is_leader: bool,
    /// The cluster that leads the member, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Since when the status is what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// When it was seen for the last time, of a member that is unreachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Time>,
    /// The UID of its `kube-system` namespace, by which it is known again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The Kubernetes version of its API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The address at which it answered: where its Secret names none, its token is sent to no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What is not as safe as it should be about the way to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Whether a member can be worked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// It has not answered yet.
    #[default]
    Joining,
    Reachable,
    /// It has not answered for a while, or somebody else answers in its place.
    Unreachable,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Joining => "Joining",
            Phase::Reachable => "Reachable",
            Phase::Unreachable => "Unreachable",
        }
    }
}

/// One thing that a cluster says of itself.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ClusterClaim {
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The claim's name where it cannot be the object's: `clusterSet.k8s.io` has a capital letter.
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub value: String,
}

impl ClusterClaim {
    /// What is claimed, whichever way it is named.
    pub fn claim(&self) -> &str {
        self.name.as_deref().or(self.metadata.name.as_deref()).unwrap_or_default()
    }
}

namespaced!(Federation, "federations", GROUP, [metadata, spec], [status]);
namespaced!(ClusterClaim, "clusterclaims", GROUP, [metadata, value], [name]);
