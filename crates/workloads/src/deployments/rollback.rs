//! A rollback that is asked for by annotation, as older clients do: carried out, and the request is taken off.

use k8s_openapi::api::apps::v1::Deployment;
use koinon_api::names::{MANAGER, workloads};
use koinon_control::Key;
use koinon_control::call::{self, within_deadline};
use koinon_control::events::Weight;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};

use super::controller::Controller;
use super::read::hash;
use crate::rollout::Shadow;

/// The annotation that asks; its value is a revision, or 0 for the one before.
const ROLLBACK: &str = "deprecated.deployment.rollback.to";

impl Controller {
    /// Rolls back if that is asked for; gives the Deployment as it is then. One that is paused waits, as in one cluster.
    pub(super) async fn roll_back(&self, deployment: &Deployment) -> Result<Option<Deployment>, call::Error> {
        let spec = deployment.spec.as_ref().filter(|spec| spec.paused != Some(true));
        let (Some(spec), Some(asked)) = (spec, deployment.annotations().get(ROLLBACK)) else {
            return Ok(None);
        };
        let mut after = deployment.clone();
        after.annotations_mut().remove(ROLLBACK);
        let found = revision(self.known_shadows(deployment), asked);
        let template = found
            .as_ref()
            .and_then(|shadow| self.templates(deployment).remove(&shadow.template))
            .and_then(|template| serde_json::from_value(template).ok());
        let (weight, reason, message) = match (found, template) {
            (Some(shadow), Some(template)) if shadow.template != hash(&spec.template) => {
                after.spec.get_or_insert_with(|| spec.clone()).template = template;
                let set = self.sets.get(&Key::new(deployment.namespace().unwrap_or_default(), shadow.name));
                let cause = set.and_then(|set| set.annotations().get(workloads::CHANGE_CAUSE).cloned());
                match cause {
                    Some(cause) => {
                        drop(after.annotations_mut().insert(workloads::CHANGE_CAUSE.to_owned(), cause))
                    }
                    None => drop(after.annotations_mut().remove(workloads::CHANGE_CAUSE)),
                }
                (Weight::Normal, "DeploymentRollback", format!("rolled back to revision {}", shadow.revision))
            }
            (Some(shadow), Some(_)) => {
                let message = format!("revision {} is what it has already", shadow.revision);
                (Weight::Warning, "DeploymentRollbackTemplateUnchanged", message)
            }
            _ => {
                let message = format!("there is no revision {asked} to roll back to");
                (Weight::Warning, "DeploymentRollbackRevisionNotFound", message)
            }
        };
        let api: Api<Deployment> =
            Api::namespaced(self.hub.federation.clone(), &deployment.namespace().unwrap_or_default());
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let answer = within_deadline(api.replace(&deployment.name_any(), &params, &after)).await?;
        self.hub.recorder.tell(deployment, weight, reason, message);
        Ok(Some(answer))
    }
}

/// The shadow of a revision; 0 is the one before the newest.
fn revision(mut shadows: Vec<Shadow>, asked: &str) -> Option<Shadow> {
    let asked: i64 = asked.trim().parse().ok()?;
    if asked > 0 {
        return shadows.into_iter().find(|shadow| shadow.revision == asked);
    }
    shadows.sort_by_key(|shadow| std::cmp::Reverse(shadow.revision));
    shadows.into_iter().nth(1)
}
