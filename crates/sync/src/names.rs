//! Every name that others see: annotations, labels, objects of ours.

/// On a CRD: which side owns metadata, spec and lifecycle (`cloud` or `robot`).
pub const SPEC_SOURCE: &str = "cr-syncer.cloudrobotics.com/spec-source";
/// On a CRD: whether an object goes to the one robot that its label names, or to all.
pub const FILTER: &str = "cr-syncer.cloudrobotics.com/filter-by-robot-name";
/// On a CRD: the one key below `status` that travels.
pub const SUBTREE: &str = "cr-syncer.cloudrobotics.com/status-subtree";
/// On a CRD: `translate` makes `observedGeneration` comparable upstream.
pub const OBSERVED_GENERATION: &str = "koinon.dev/observed-generation";
/// On a CRD: how many held deletions may go.
pub const CONFIRM_DELETES: &str = "koinon.dev/confirm-deletes";
/// On an object: the robot it belongs to.
pub const ROBOT: &str = "cloudrobotics.com/robot-name";
/// On a copy: what it is a copy of, and which labels and annotations came with it.
pub const LEDGER: &str = "koinon.dev/synced";
/// What the cr-syncer used to write on originals; it means nothing on a copy.
pub const REMOTE_VERSION: &str = "cr-syncer.cloudrobotics.com/remote-resource-version";
/// On a robot's Lease: how far its sync has come, as JSON.
pub const PROGRESS: &str = "koinon.dev/sync";
/// On what we make beside the copies.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "koinon");
/// Who we are in `managedFields` and in events.
pub const MANAGER: &str = "koinon";
/// Where Leases and memories live.
pub const NAMESPACE: &str = "koinon-system";

/// What log lines and events are about.
pub(crate) const CRD: &str = "CustomResourceDefinition";
