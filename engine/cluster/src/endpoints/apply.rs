//! Writes a plan: what is new first, so that nothing is without a slice in between.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_control::Key;
use koinon_control::call::{Error, within_deadline};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;

use super::plan::Plan;
use crate::MANAGER;
use crate::shared::Shared;

/// Which write failed, and why.
pub(super) struct Failure {
    doing: String,
    pub(super) error: Error,
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to {}: {}", self.doing, self.error)
    }
}

/// Writes slices, and remembers which versions it wrote.
pub(super) struct Writer {
    shared: Shared,
    /// The versions of slices that we wrote ourselves, by uid: seeing them again is no news.
    written: Mutex<BTreeMap<String, String>>,
}

impl Writer {
    pub(super) fn new(shared: &Shared) -> Writer {
        Writer { shared: shared.clone(), written: Mutex::default() }
    }

    /// Whether a change is only what we wrote ourselves.
    pub(super) fn is_own_write(&self, before: Option<&EndpointSlice>, after: Option<&EndpointSlice>) -> bool {
        let uid = |slice: &EndpointSlice| slice.uid().unwrap_or_default();
        let mut written = self.written.lock();
        match (before, after) {
            (_, Some(after)) => {
                let ours = written.get(&uid(after));
                ours.is_some_and(|ours| Some(ours) == after.resource_version().as_ref())
            }
            (Some(gone), None) => {
                written.remove(&uid(gone));
                false
            }
            (None, None) => false,
        }
    }

    pub(super) async fn apply(&self, plan: Plan) -> Result<(), Failure> {
        for slice in plan.create {
            let made = within_deadline(self.slices(&slice).create(&written(), &slice)).await;
            let name = || slice.metadata.generate_name.clone().unwrap_or_default();
            self.learn(made.map_err(|error| failure("create", name(), error))?);
        }
        for slice in plan.update {
            let name = slice.name_any();
            let made = within_deadline(self.slices(&slice).replace(&name, &written(), &slice)).await;
            self.learn(made.map_err(|error| failure("update", name, error))?);
        }
        for slice in plan.delete {
            self.delete(&slice).await?;
        }
        Ok(())
    }

    async fn delete(&self, slice: &EndpointSlice) -> Result<(), Failure> {
        let (key, uid) = (Key::of(slice), slice.uid().unwrap_or_default());
        // The very version that we looked at: a change since then may make it worth keeping.
        let preconditions =
            Preconditions { uid: Some(uid.clone()), resource_version: slice.resource_version() };
        let params = DeleteParams::default().preconditions(preconditions);
        match within_deadline(self.slices(slice).delete(&key.name, &params)).await {
            // Somebody holds it with a finalizer: the watch will tell when it is gone.
            Ok(answer) => match answer.left().filter(|left| left.metadata.deletion_timestamp.is_some()) {
                Some(left) => self.learn(left),
                None => self.shared.slices.forget(&key, &uid),
            },
            Err(error) if error.is_object_absent() => self.shared.slices.forget(&key, &uid),
            Err(error) => return Err(failure("delete", key.name, error)),
        }
        Ok(())
    }

    fn learn(&self, slice: EndpointSlice) {
        if let (Some(uid), Some(version)) = (slice.uid(), slice.resource_version()) {
            self.written.lock().insert(uid, version);
        }
        self.shared.slices.learn(slice);
    }

    fn slices(&self, slice: &EndpointSlice) -> Api<EndpointSlice> {
        Api::namespaced(self.shared.client.clone(), &slice.namespace().unwrap_or_default())
    }
}

fn failure(verb: &str, name: String, error: Error) -> Failure {
    Failure { doing: format!("{verb} EndpointSlice {name}"), error }
}

fn written() -> PostParams {
    PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() }
}
