//! What was decided, as data and in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::input::Record;
use super::member_state::Unfinished;

/// What every member should have now, and what follows from that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// By cluster; none for those that are left alone.
    pub steps: BTreeMap<String, Step>,
    /// The clusters that start with this plan.
    pub started: BTreeSet<String>,
    /// To be written before any step, where it differs from the one in the view.
    pub record: Record,
    /// Why the update is not further.
    pub waiting: Vec<WaitingOn>,
    /// When to look again even if nothing happens.
    pub look_again: Option<Duration>,
    /// The federated Deployment's status.
    pub status: Status,
    /// The federated ReplicaSets that mirror its revisions.
    pub shadows: Shadows,
    /// What the user should be told.
    pub warnings: Vec<Warning>,
}

/// What one member's Deployment should be now. Created if it is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its pod template.
    pub template: Template,
    /// Its replicas; none leaves them to the member.
    pub replicas: Option<i64>,
    /// Its `maxUnavailable`, where the user's own would not do: in a full cluster the replicas that only wait would use
    /// it up, and none that runs could ever be replaced.
    pub max_unavailable: Option<i64>,
    /// How many of its replicas only wait for room, and are missing whatever is done.
    pub waiting: i64,
    /// Whether it stops in the middle of replacing its pods.
    pub paused: bool,
    /// What it is doing.
    pub phase: Phase,
}

/// A pod template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Template {
    /// That of the federated Deployment.
    Wanted,
    /// The one that the member has; a write repeats it.
    AsItIs,
    /// That of the shadow with this hash.
    Revision(String),
}

/// What a member is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Phase {
    /// It runs all that it should, of the wanted template.
    Done,
    /// Its pods are being replaced.
    Updating(Unfinished),
    /// It has the wanted template and not yet all of its replicas.
    Settling(Unfinished),
    /// It has an older template until its turn comes.
    Waiting,
    /// It has an older template because the Deployment is paused.
    Held,
    /// It makes no progress, for the reason it gives.
    Stalled(String),
    /// It is being created.
    Creating,
    /// It takes none, for the reason it gives, and others have its replicas.
    Refusing(String),
}

/// Why an update is not further.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum WaitingOn {
    /// A cluster that is not finished.
    Cluster {
        /// Its name.
        cluster: String,
        /// What it lacks.
        lacks: Unfinished,
    },
    /// A cluster that makes no progress.
    Stalled {
        /// Its name.
        cluster: String,
        /// The reason it gives.
        message: String,
    },
    /// A cluster of which nothing is known at the moment.
    Unsure {
        /// Its name.
        cluster: String,
    },
    /// A cluster that is offline; the others do not wait for it.
    Offline {
        /// Its name.
        cluster: String,
    },
    /// The user, to resume it.
    Resume,
}

/// What the user should be told, once, as an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Warning {
    /// The order names a cluster that there is not.
    UnknownInOrder {
        /// Its name.
        cluster: String,
    },
}

/// The status of the federated Deployment, such that `kubectl rollout status` tells the truth.
///
/// Replicas beyond a member's share that wait there as probes are in none of the counts, and offline members are not
/// counted at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Status {
    /// The generation that this follows from.
    pub observed_generation: i64,
    /// All pods.
    pub replicas: i64,
    /// Those of the wanted template.
    pub updated: i64,
    /// Those that are ready.
    pub ready: i64,
    /// Those that have been ready for long enough.
    pub available: i64,
    /// Those that are missing to what should be available.
    pub unavailable: i64,
    /// `Available`, `Progressing` and `AllClusters`.
    pub conditions: Vec<Condition>,
}

/// A condition without its times: the shell keeps those while nothing changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// Its type.
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// One word for machines.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

/// The shadow ReplicaSets that there should be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Shadows {
    /// Those to have, the wanted template's among them, by revision.
    pub wanted: Vec<ShadowWanted>,
    /// The names of those to delete: beyond the history's limit, and nobody runs them.
    pub remove: Vec<String>,
}

/// A shadow ReplicaSet as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShadowWanted {
    /// Its name.
    pub name: String,
    /// The hash of its template.
    pub template: String,
    /// Its revision; a template that is used again gets a new one.
    pub revision: i64,
    /// How many replicas of it there are in all members, without those that only wait for room.
    pub replicas: i64,
    /// How many of those are ready.
    pub ready: i64,
    /// How many of those are available.
    pub available: i64,
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitingOn::Cluster { cluster, lacks } => write!(f, "{cluster}: {lacks}"),
            WaitingOn::Stalled { cluster, message } => write!(f, "{cluster} makes no progress: {message}"),
            WaitingOn::Unsure { cluster } => write!(f, "{cluster}: nothing is known of it at the moment"),
            WaitingOn::Offline { cluster } => write!(f, "{cluster} is offline and left out until it returns"),
            WaitingOn::Resume => f.write_str("it is paused: kubectl rollout resume goes on"),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::UnknownInOrder { cluster } => write!(
                f,
                "{} names {cluster}, which is no member of the federation: correct the name or have it join",
                koinon_api::names::workloads::CLUSTER_ORDER
            ),
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Phase::Done => f.write_str("runs all that it should"),
            Phase::Updating(lacks) => write!(f, "is being updated: {lacks}"),
            Phase::Settling(lacks) => write!(f, "{lacks}"),
            Phase::Waiting => f.write_str("keeps its template until its turn comes"),
            Phase::Held => f.write_str("keeps its template while the Deployment is paused"),
            Phase::Stalled(message) => write!(f, "makes no progress: {message}"),
            Phase::Creating => f.write_str("is being created"),
            Phase::Refusing(_) => f.write_str("others have its replicas as long as it refuses them"),
        }
    }
}
