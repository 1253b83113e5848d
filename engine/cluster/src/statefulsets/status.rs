//! How a StatefulSet stands.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};

use super::identity::{replicas, revision};
use super::plan::{Look, counted, is_running_and_ready, is_terminating};
use crate::replicasets::pods::is_available;
use crate::replicasets::unless_zero;

/// Counts the pods; `leaving` of those of the current revision are about to go for the update.
pub(super) fn status(look: &Look<'_>, leaving: usize) -> StatefulSetStatus {
    let seconds = look.set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let name = |revision: &ControllerRevision| revision.metadata.name.clone();
    let (mut current_revision, update_revision) = (name(look.current), name(look.update));
    let (mut all, mut ready, mut available, mut current, mut updated) = (0, 0, 0, 0, 0);
    for pod in counted(look) {
        all += 1;
        if is_running_and_ready(pod) {
            ready += 1;
            available += i32::from(is_available(pod, seconds, look.now));
        }
        if !is_terminating(pod) {
            current += i32::from(Some(revision(pod)) == current_revision.as_deref());
            updated += i32::from(Some(revision(pod)) == update_revision.as_deref());
        }
    }
    current = (current - i32::try_from(leaving).unwrap_or(i32::MAX)).max(0);
    let wanted = replicas(look.set);
    let strategy = look.set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    let is_rolling = strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("RollingUpdate");
    if is_rolling && updated == wanted && ready == wanted && all == wanted {
        current = updated;
        current_revision.clone_from(&update_revision);
    }
    StatefulSetStatus {
        observed_generation: look.set.metadata.generation,
        replicas: all,
        ready_replicas: unless_zero(ready),
        available_replicas: Some(available),
        current_replicas: unless_zero(current),
        updated_replicas: unless_zero(updated),
        current_revision,
        update_revision,
        collision_count: Some(look.collisions),
        conditions: look.set.status.as_ref().and_then(|status| status.conditions.clone()),
    }
}

/// Whether a status has to be written.
pub(super) fn is_news(set: &StatefulSet, status: &StatefulSetStatus) -> bool {
    let Some(before) = &set.status else { return true };
    let counts = |one: &StatefulSetStatus| {
        (
            one.replicas,
            [one.ready_replicas, one.available_replicas, one.current_replicas, one.updated_replicas]
                .map(|count| count.unwrap_or(0)),
            one.current_revision.clone(),
            one.update_revision.clone(),
        )
    };
    status.observed_generation > before.observed_generation
        || counts(status) != counts(before)
        || status.collision_count.unwrap_or(0) != before.collision_count.unwrap_or(0)
}

/// The seconds after which pods that are ready are available, if there are such.
pub(super) fn look_again(set: &StatefulSet, status: &StatefulSetStatus) -> Option<i32> {
    let seconds = set.spec.as_ref()?.min_ready_seconds.filter(|seconds| *seconds > 0)?;
    (status.ready_replicas.unwrap_or(0) != status.available_replicas.unwrap_or(0)).then_some(seconds)
}
