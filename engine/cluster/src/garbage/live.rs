//! The server as the collector asks it: always the object itself, never a copy.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::{Api, Client};
use parking_lot::RwLock;
use serde_json::Value;

use super::graph::Identity;
use super::plan::{self, Propagation};
use crate::MANAGER;
use koinon_control::call::{self, within_deadline};
use koinon_control::discovery::{Catalog, Metadata, Served};

/// Conflicts come from writers of the same object; more in a row are left to the queue.
const ATTEMPTS: usize = 5;

/// Why nothing could be said or done about an object.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{kind} of {api_version} is not served, as far as the server told")]
    NotServed { api_version: String, kind: String },
    #[error("an object of the whole cluster cannot have an owner in a namespace")]
    OwnerInNamespace,
    #[error("{0}")]
    Call(#[from] call::Error),
}

/// What the server says about an object.
pub(super) enum Found {
    Here(Box<ObjectMeta>),
    /// There is none of this name, or another with its name. The identity has the namespace of its scope.
    Absent(Identity),
}

/// The connection, and what can be asked for.
pub(super) struct Live {
    pub(super) client: Client,
    catalog: RwLock<Arc<Catalog>>,
}

impl Live {
    pub(super) fn new(client: Client) -> Self {
        Live { client, catalog: RwLock::default() }
    }

    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().clone()
    }

    pub(super) fn set_catalog(&self, catalog: Arc<Catalog>) {
        *self.catalog.write() = catalog;
    }

    fn resource(&self, identity: &Identity) -> Result<Arc<Served>, Error> {
        let catalog = self.catalog();
        let (api_version, kind) = (identity.kind.api_version(), identity.kind.name());
        let found = catalog.find(api_version, kind);
        found.cloned().ok_or_else(|| Error::NotServed { api_version: api_version.into(), kind: kind.into() })
    }

    fn api(&self, identity: &Identity) -> Result<Api<Metadata>, Error> {
        let served = self.resource(identity)?;
        if served.namespaced && identity.namespace.is_empty() {
            return Err(Error::OwnerInNamespace);
        }
        Ok(served.metadata_in(&self.client, &identity.namespace))
    }

    pub(super) async fn find(&self, identity: &Identity) -> Result<Found, Error> {
        let served = self.resource(identity)?;
        let api = self.api(identity)?;
        let absent = || {
            let mut identity = identity.clone();
            if !served.namespaced {
                identity.namespace = "".into();
            }
            Found::Absent(identity)
        };
        match within_deadline(api.get(&identity.name)).await {
            Ok(object) if object.metadata.uid.as_deref() == Some(&*identity.uid.to_string()) => {
                Ok(Found::Here(Box::new(object.metadata)))
            }
            Ok(_) => Ok(absent()),
            Err(error) if error.is_object_absent() => Ok(absent()),
            // The kind went away since the server was last asked what it serves.
            Err(error) if error.is_path_unknown() => Err(Error::NotServed {
                api_version: identity.kind.api_version().into(),
                kind: identity.kind.name().into(),
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes an object as it was seen. If meanwhile it changed in anything but its owners, it goes all the
    /// same: otherwise a busy object would never be collected.
    pub(super) async fn delete(
        &self,
        identity: &Identity,
        seen: &ObjectMeta,
        propagation: Propagation,
    ) -> Result<(), Error> {
        let api = self.api(identity)?;
        let first = self.delete_at(&api, identity, seen.resource_version.clone(), propagation).await;
        match first {
            Err(error) if error.is_conflict() => {
                let Found::Here(now) = self.find(identity).await? else { return Ok(()) };
                let other_change = now.resource_version != seen.resource_version;
                if !other_change || now.owner_references != seen.owner_references {
                    return Err(error.into());
                }
                Ok(self.delete_at(&api, identity, None, propagation).await?)
            }
            other => Ok(other?),
        }
    }

    async fn delete_at(
        &self,
        api: &Api<Metadata>,
        identity: &Identity,
        resource_version: Option<String>,
        propagation: Propagation,
    ) -> Result<(), call::Error> {
        let policy = match propagation {
            Propagation::Background => PropagationPolicy::Background,
            Propagation::Foreground => PropagationPolicy::Foreground,
            Propagation::Orphan => PropagationPolicy::Orphan,
        };
        let preconditions = Preconditions { uid: Some(identity.uid.to_string()), resource_version };
        let params = DeleteParams {
            propagation_policy: Some(policy),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        match within_deadline(api.delete(&identity.name, &params)).await {
            Err(error) if error.is_object_absent() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Patches an object with a strategic merge, or with the other patch where the kind knows none.
    pub(super) async fn patch(
        &self,
        identity: &Identity,
        strategic: Value,
        otherwise: impl Fn(&ObjectMeta) -> Value,
    ) -> Result<(), Error> {
        let api = self.api(identity)?;
        match within_deadline(api.patch(&identity.name, &params(), &Patch::Strategic(strategic))).await {
            Err(error) if error.is_object_absent() => Ok(()),
            Err(error) if error.code() == Some(415) => {
                let Found::Here(now) = self.find(identity).await? else { return Ok(()) };
                let patch = Patch::Merge(otherwise(&now));
                match within_deadline(api.patch(&identity.name, &params(), &patch)).await {
                    Err(error) if error.is_object_absent() => Ok(()),
                    other => Ok(other.map(drop)?),
                }
            }
            other => Ok(other.map(drop)?),
        }
    }

    /// Takes a finalizer off, however often others write the object at the same time.
    pub(super) async fn remove_finalizer(&self, identity: &Identity, finalizer: &str) -> Result<(), Error> {
        let api = self.api(identity)?;
        let mut attempts = 0;
        loop {
            let Found::Here(now) = self.find(identity).await? else { return Ok(()) };
            let Some(patch) = plan::finalizer_patch(&now, finalizer) else { return Ok(()) };
            attempts += 1;
            match within_deadline(api.patch(&identity.name, &params(), &Patch::Merge(patch))).await {
                Err(error) if error.is_object_absent() => return Ok(()),
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {}
                other => return Ok(other.map(drop)?),
            }
        }
    }
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() }
}
