//! The two kinds that keep a number of pods: ReplicaSets, and their elder, the ReplicationController.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use koinon_control::View;
use kube::Resource;
use kube::core::Selector;
use serde::de::DeserializeOwned;

use super::claim;
use super::plan::Terminating;
use crate::shared::Shared;

/// A kind that keeps a number of pods of one template.
pub(crate) trait Replicating:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + Debug
    + Send
    + Sync
    + 'static
{
    /// The name that its events come from.
    const COMPONENT: &str;
    /// Whether its status counts pods on their way out.
    const TERMINATING: Terminating;

    fn view(shared: &Shared) -> &Arc<View<Self>>;

    /// The object as a ReplicaSet: what is decided is decided over that.
    fn as_set(this: &Arc<Self>) -> Arc<ReplicaSet>;

    fn selector(&self) -> Option<Selector>;
}

impl Replicating for ReplicaSet {
    const COMPONENT: &str = super::COMPONENT;
    const TERMINATING: Terminating = Terminating::Counted;

    fn view(shared: &Shared) -> &Arc<View<ReplicaSet>> {
        &shared.replica_sets
    }

    fn as_set(this: &Arc<ReplicaSet>) -> Arc<ReplicaSet> {
        this.clone()
    }

    fn selector(&self) -> Option<Selector> {
        claim::selector(&self.spec.as_ref()?.selector)
    }
}

impl Replicating for ReplicationController {
    const COMPONENT: &str = "replication-controller";
    const TERMINATING: Terminating = Terminating::Unknown;

    fn view(shared: &Shared) -> &Arc<View<ReplicationController>> {
        &shared.replication_controllers
    }

    fn as_set(this: &Arc<ReplicationController>) -> Arc<ReplicaSet> {
        let spec = this.spec.as_ref().map(|spec| ReplicaSetSpec {
            replicas: spec.replicas,
            min_ready_seconds: spec.min_ready_seconds,
            selector: LabelSelector { match_labels: spec.selector.clone(), match_expressions: None },
            template: spec.template.clone(),
        });
        let status = this.status.as_ref().map(set_status);
        Arc::new(ReplicaSet { metadata: this.metadata.clone(), spec, status })
    }

    fn selector(&self) -> Option<Selector> {
        let match_labels = self.spec.as_ref()?.selector.clone();
        claim::selector(&LabelSelector { match_labels, match_expressions: None })
    }
}

fn set_status(status: &ReplicationControllerStatus) -> ReplicaSetStatus {
    let conditions = status.conditions.as_ref().map(|conditions| {
        let condition = |one: &ReplicationControllerCondition| ReplicaSetCondition {
            type_: one.type_.clone(),
            status: one.status.clone(),
            last_transition_time: one.last_transition_time.clone(),
            reason: one.reason.clone(),
            message: one.message.clone(),
        };
        conditions.iter().map(condition).collect()
    });
    ReplicaSetStatus {
        replicas: status.replicas,
        fully_labeled_replicas: status.fully_labeled_replicas,
        ready_replicas: status.ready_replicas,
        available_replicas: status.available_replicas,
        terminating_replicas: None,
        observed_generation: status.observed_generation,
        conditions,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_replication_controller_is_read_as_a_set_and_nothing_is_lost() {
        let status = json!({"replicas": 3, "readyReplicas": 2, "fullyLabeledReplicas": 3, "availableReplicas": 1,
            "observedGeneration": 4, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                "message": "no room", "lastTransitionTime": "2027-01-01T00:00:00Z"}]});
        let controller = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "1"},
            "spec": {"replicas": 3, "minReadySeconds": 5, "selector": {"app": "web"},
                "template": {"metadata": {"labels": {"app": "web"}}}},
            "status": status,
        });
        let controller: Arc<ReplicationController> = Arc::new(serde_json::from_value(controller).unwrap());
        let set = serde_json::to_value(&*ReplicationController::as_set(&controller)).unwrap();
        assert_eq!(set["spec"]["selector"], json!({"matchLabels": {"app": "web"}}));
        assert_eq!(set["spec"]["minReadySeconds"], 5);
        assert_eq!(set["spec"]["template"], json!({"metadata": {"labels": {"app": "web"}}}));
        assert_eq!(set["status"], status);
        assert!(controller.selector().is_some());
        assert!(ReplicationController::default().selector().is_none());
    }
}
