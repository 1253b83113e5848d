//! Makes, renumbers and deletes revisions.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use koinon_control::Key;
use koinon_control::call::{Error, within_deadline};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::holds_same;
use crate::MANAGER;
use crate::shared::Shared;

/// Writes revisions, and has the view of them know at once.
pub(crate) struct History {
    shared: Shared,
}

/// What became of a revision that was to be made.
pub(crate) enum Created {
    /// It is there, made now or by an earlier attempt whose answer was lost.
    There(Arc<ControllerRevision>),
    /// Another has its name.
    NameTaken,
}

impl History {
    pub(crate) fn new(shared: &Shared) -> History {
        History { shared: shared.clone() }
    }

    fn api(&self, revision: &ControllerRevision) -> Api<ControllerRevision> {
        Api::namespaced(self.shared.client.clone(), &revision.namespace().unwrap_or_default())
    }

    pub(crate) async fn create(&self, revision: &ControllerRevision) -> Result<Created, Error> {
        let api = self.api(revision);
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let there = match within_deadline(api.create(&params, revision)).await {
            Ok(made) => made,
            Err(error) if error.is_conflict() => {
                let found = within_deadline(api.get(&revision.name_any())).await?;
                if !holds_same(&found, revision) {
                    return Ok(Created::NameTaken);
                }
                found
            }
            Err(error) => return Err(error),
        };
        Ok(Created::There(self.learn(there)))
    }

    /// Gives a revision another number, or other labels: what a JSON merge patch says.
    pub(crate) async fn change(
        &self,
        revision: &ControllerRevision,
        mut patch: serde_json::Value,
    ) -> Result<Arc<ControllerRevision>, Error> {
        patch["metadata"]["uid"] = json!(revision.metadata.uid);
        patch["metadata"]["resourceVersion"] = json!(revision.metadata.resource_version);
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let api = self.api(revision);
        let changed = within_deadline(api.patch(&revision.name_any(), &params, &Patch::Merge(patch))).await?;
        Ok(self.learn(changed))
    }

    /// Deletes this very revision.
    pub(crate) async fn delete(&self, revision: &ControllerRevision) -> Result<(), Error> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: revision.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        match within_deadline(self.api(revision).delete(&revision.name_any(), &params)).await {
            Err(error) if !error.is_object_absent() => return Err(error),
            _ => {}
        }
        let uid = revision.metadata.uid.as_deref().unwrap_or_default();
        self.shared.revisions.forget(&Key::of(revision), uid);
        Ok(())
    }

    fn learn(&self, revision: ControllerRevision) -> Arc<ControllerRevision> {
        self.shared.revisions.learn(revision.clone());
        Arc::new(revision)
    }
}
