//! Keeps the shadows of a Deployment: made before a template is given to anybody, put back when somebody edits or deletes them,
//! removed when the history is longer than the user wants. Members never hear of it.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use koinon_api::names::{MANAGER, workloads};
use koinon_control::Key;
use koinon_control::call::{self, within_deadline};
use koinon_control::events::Weight;
use koinon_fleet::ClusterId;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plan::Decision;
use super::read::{self, plain};
use super::revisions::Revisions;
use super::shadow;
use crate::content;
use crate::digest::{digest, letters};
use crate::members::Kind;
use crate::rollout::{Shadow, ShadowWanted};
use crate::writing::{Has, Place};

impl Controller {
    /// The shadows that there are, and those that there were until somebody deleted them.
    pub(super) fn known_shadows(&self, deployment: &Deployment) -> Vec<Shadow> {
        let mut known: Vec<Shadow> = Vec::new();
        let mut found = Vec::new();
        let revisions = self.revisions(deployment);
        for set in self.sets.in_namespace(&deployment.namespace().unwrap_or_default()) {
            let Some(shadow) = revisions.shadow(deployment, &set) else { continue };
            let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref()).map(plain);
            // One that somebody edited is no witness of its template.
            if let Some(template) = template.filter(|template| letters(digest(template)) == shadow.template) {
                found.push((template, shadow.clone()));
            }
            known.push(shadow);
        }
        self.remember(deployment, |memory| {
            for (template, shadow) in found {
                memory.templates.insert(shadow.template.clone(), (template, shadow));
            }
            let lost = memory.templates.values().map(|(_, shadow)| shadow);
            let lost = lost.filter(|shadow| !known.iter().any(|one| one.template == shadow.template));
            known.extend(lost.cloned().collect::<Vec<_>>());
        });
        known
    }

    /// What is written down of a Deployment's revisions: as we wrote it last, or as it says.
    pub(super) fn revisions(&self, deployment: &Deployment) -> Revisions {
        self.memory.revisions(deployment).or_else(|| Revisions::of(deployment)).unwrap_or_default()
    }

    /// What is to be written down of them.
    pub(super) fn revisions_wanted(&self, deployment: &Deployment, decision: &Decision) -> Revisions {
        let namespace = deployment.namespace().unwrap_or_default();
        let there = |name: &str| self.sets.get(&Key::new(namespace.as_str(), name));
        let (wanted, newest) = (&decision.plan.shadows.wanted, decision.desired.template.as_str());
        self.revisions(deployment).wanted(deployment, wanted, newest, there)
    }

    /// Makes every shadow say what it should, and removes those that are too many.
    pub(super) async fn make_shadows(
        &self,
        deployment: &Deployment,
        decision: &Decision,
    ) -> Result<(), call::Error> {
        let (templates, revisions) = (self.templates(deployment), self.revisions(deployment));
        for wanted in &decision.plan.shadows.wanted {
            let key = Key::new(deployment.namespace().unwrap_or_default(), wanted.name.as_str());
            let there = self.sets.get(&key);
            let Some(template) = templates.get(&wanted.template) else { continue };
            let newest = wanted.template == decision.desired.template;
            let cause = revisions.cause(deployment, wanted, newest, there.as_deref());
            let said = shadow::manifest(deployment, wanted, template, cause);
            let content = content::of_manifest(&said);
            let has = there.as_deref().map_or(Has::Other, |there| {
                let actual = content::of_mirror(&there.metadata, &there.spec);
                self.shadows.at(&place(&key)).has(content, actual)
            });
            let refusal = self.shadows.at(&place(&key)).refusal.and_then(|refusal| refusal.pause(content));
            let owned = there.as_deref().is_some_and(|there| read::is_shadow_of(there, deployment));
            if (has == Has::This && owned) || refusal.is_some() {
                continue;
            }
            match self.apply_shadow(&key, &said, content).await {
                // Such as a name that is too long. The members can do without the history.
                Err(error) if matches!(error.code(), Some(400 | 422)) => {
                    self.shadows.refused(&place(&key), (content, content), &error.to_string());
                    let message =
                        format!("revision {} has no ReplicaSet in the history: {error}", wanted.revision);
                    self.hub.recorder.tell(deployment, Weight::Warning, "RevisionRefused", message);
                }
                outcome => outcome?,
            }
        }
        for name in &decision.plan.shadows.remove {
            self.remove_shadow(deployment, name).await?;
        }
        Ok(())
    }

    /// Makes the counts of the shadows those of the members.
    pub(super) async fn count_shadows(
        &self,
        deployment: &Deployment,
        decision: &Decision,
    ) -> Result<(), call::Error> {
        for wanted in &decision.plan.shadows.wanted {
            let key = Key::new(deployment.namespace().unwrap_or_default(), wanted.name.as_str());
            if let Some(there) = self.sets.get(&key) {
                self.count_shadow(&there, wanted).await?;
            }
        }
        Ok(())
    }

    async fn count_shadow(&self, there: &ReplicaSet, wanted: &ShadowWanted) -> Result<(), call::Error> {
        let mut there = there.clone();
        let name = there.name_any();
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let api = self.api(&there.namespace().unwrap_or_default());
        if shadow::miscounts(wanted, &there) {
            // With the manager that applies, so that the next apply agrees with itself.
            let patch = json!({"spec": {"replicas": wanted.replicas}});
            there = within_deadline(api.patch(&name, &params, &Patch::Merge(patch))).await?;
            self.sets.learn(there.clone());
        }
        let status = shadow::status(wanted, &there);
        if !content::is_same_status(&there.status, &Some(&status)) {
            let patch = json!({"status": status});
            let answer = within_deadline(api.patch_status(&name, &params, &Patch::Merge(patch))).await?;
            self.sets.learn(answer);
        }
        Ok(())
    }

    async fn apply_shadow(&self, key: &Key, said: &Value, content: u64) -> Result<(), call::Error> {
        // By force: whoever edits a shadow edits a mirror.
        let params = PatchParams { force: true, ..PatchParams::apply(MANAGER) };
        let api = self.api(&key.namespace);
        let mut answer = within_deadline(api.patch(&key.name, &params, &Patch::Apply(said))).await?;
        // What others own stays when it is applied; a cause is nobody's but the Deployment's.
        let cause = workloads::CHANGE_CAUSE;
        if said["metadata"]["annotations"][cause].is_null() && answer.annotations().contains_key(cause) {
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            let without = json!({"metadata": {"annotations": {cause: null}}});
            answer = within_deadline(api.patch(&key.name, &params, &Patch::Merge(without))).await?;
        }
        let actual = content::of_mirror(&answer.metadata, &answer.spec);
        self.shadows.note(&place(key), content, actual);
        self.sets.learn(answer);
        Ok(())
    }

    async fn remove_shadow(&self, deployment: &Deployment, name: &str) -> Result<(), call::Error> {
        let key = Key::new(deployment.namespace().unwrap_or_default(), name);
        self.remember(deployment, |memory| memory.templates.retain(|_, (_, shadow)| shadow.name != name));
        let revisions = self.revisions(deployment);
        let is_shadow = |there: &Arc<ReplicaSet>| revisions.shadow(deployment, there).is_some();
        let Some(there) = self.sets.get(&key).filter(is_shadow) else { return Ok(()) };
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: there.uid(),
                resource_version: there.resource_version(),
            }),
            ..DeleteParams::default()
        };
        match within_deadline(self.api(&key.namespace).delete(name, &params)).await {
            Err(error) if !error.is_object_absent() => Err(error),
            _ => {
                self.sets.forget(&key, &there.uid().unwrap_or_default());
                self.forget_shadow(&key);
                Ok(())
            }
        }
    }

    /// Nothing is remembered of a shadow that is gone.
    pub(super) fn forget_shadow(&self, key: &Key) {
        self.shadows.forget(Kind::ReplicaSet, key);
    }

    fn api(&self, namespace: &str) -> Api<ReplicaSet> {
        Api::namespaced(self.hub.federation.clone(), namespace)
    }
}

/// Shadows live on the federation's own API server; the book of what they were given calls it so.
fn place(key: &Key) -> Place {
    let here = ClusterId::new("federation").expect("a name of letters is a name");
    (Kind::ReplicaSet, key.clone(), here)
}
