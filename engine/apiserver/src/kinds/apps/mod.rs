//! The group `apps`.

mod daemon_set;
mod deployment;
mod replica_set;
mod revision;
mod stateful_set;

use super::Strategy;

pub(super) fn strategy(kind: &str) -> &'static Strategy {
    match kind {
        "ControllerRevision" => &revision::CONTROLLER_REVISION,
        "DaemonSet" => &daemon_set::DAEMON_SET,
        "Deployment" => &deployment::DEPLOYMENT,
        "ReplicaSet" => &replica_set::REPLICA_SET,
        "StatefulSet" => &stateful_set::STATEFUL_SET,
        _ => &Strategy::PLAIN,
    }
}
