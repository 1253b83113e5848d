//! Where the members' autoscalers own `spec.replicas`, the federated Deployment follows the sum of their counts.

use k8s_openapi::api::apps::v1::Deployment;
use koinon_api::names::MANAGER;
use koinon_control::call::{self, within_deadline};
use koinon_control::events::Weight;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::controller::Controller;

impl Controller {
    /// Gives the Deployment the count of its members, over exactly what was looked at; gives back what it is then.
    pub(super) async fn follow(
        &self,
        deployment: &Deployment,
        replicas: i64,
    ) -> Result<Deployment, call::Error> {
        let patch = json!({
            "metadata": {"resourceVersion": deployment.resource_version()},
            "spec": {"replicas": replicas},
        });
        let namespace = deployment.namespace().unwrap_or_default();
        let api: Api<Deployment> = Api::namespaced(self.hub.federation.clone(), &namespace);
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let name = deployment.name_any();
        let answer = within_deadline(api.patch(&name, &params, &Patch::Merge(patch))).await?;
        let message = format!("members ask for {replicas} replicas in all, and decide that for themselves");
        self.hub.recorder.tell(deployment, Weight::Normal, "ReplicasFollowed", message);
        Ok(answer)
    }
}
