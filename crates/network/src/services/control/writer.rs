//! The executor of plans: the only place that writes into the led member. Every write has a precondition, the
//! version that the plan looked at, and is sent only while the fence holds.

use std::fmt::Debug;
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{EndpointConditions, EndpointSlice};
use koinon_api::names::MANAGER;
use koinon_api::names::network::SOURCE_CLUSTER;
use koinon_control::Key;
use koinon_fleet::member;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::own_slices::OwnSlices;
use super::sources::Sources;
use super::undone::Undone;
use crate::leader_context::LeaderContext;
use crate::services::metrics::{Metrics, Outcome, Written};
use crate::services::model::Slice;
use crate::services::plan::{Plan, ServiceStep, SliceStep};
use crate::services::records::Manager;
use crate::services::render;

/// So many slices of one federated Service are written at a time.
const AT_ONCE: usize = 4;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("another leads now")]
    Fenced,
    #[error("{doing} failed: {source}")]
    Call { doing: String, source: member::Error },
    #[error("an EndpointSlice {0} is there already, and it is not ours: delete or rename it")]
    Foreign(Key),
    #[error("a Service {0} is there already, and it is not ours: delete or rename it")]
    ForeignService(Key),
}

impl Error {
    /// Whether it fails again until somebody changes something.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Error::Fenced => false,
            Error::Call { source, .. } => source.class() == member::Class::Terminal,
            Error::Foreign(_) | Error::ForeignService(_) => true,
        }
    }

    /// Whether a server refused this field, as it says in what is meant for programs.
    pub(super) fn is_about(&self, field: &str) -> bool {
        let Error::Call { source: member::Error { failure: member::Failure::Refused(status), .. }, .. } =
            self
        else {
            return false;
        };
        let details = status.details.as_ref();
        details.is_some_and(|details| details.causes.iter().any(|cause| cause.field == field))
    }
}

pub(super) struct Writer {
    leader: LeaderContext,
    sources: Arc<Sources>,
    slices: Arc<OwnSlices>,
    metrics: Metrics,
}

impl Writer {
    pub(super) fn new(
        leader: LeaderContext,
        sources: Arc<Sources>,
        slices: Arc<OwnSlices>,
        metrics: Metrics,
    ) -> Writer {
        Writer { leader, sources, slices, metrics }
    }

    /// Carries out the plan of a federated Service.
    pub(super) async fn act(&self, key: &Key, plan: &Plan) -> Undone {
        let mut undone = self.act_on_slices(key, Manager::Federation, &plan.slices).await;
        let Some(step) = &plan.service else { return undone };
        // The Service is not to be changed before what it needs is there: a port that is called otherwise leads nowhere
        // by a slice that does not know the name.
        let renames = matches!(step, ServiceStep::Update { renames: true, .. });
        if undone.is_passing() || (renames && undone.keeps_old) {
            return undone;
        }
        undone.note(self.act_on_service(key, step).await);
        undone
    }

    /// Does all steps that can be done.
    pub(super) async fn act_on_slices(&self, key: &Key, manager: Manager, steps: &[SliceStep]) -> Undone {
        let mut undone = Undone::default();
        for steps in steps.chunks(AT_ONCE) {
            let outcomes = join_all(steps.iter().map(|step| self.act_on_slice(key, manager, step))).await;
            for (step, outcome) in steps.iter().zip(outcomes) {
                undone.keeps_old |= outcome.is_err() && matches!(step, SliceStep::Update { .. });
                undone.note(outcome);
            }
        }
        undone
    }

    async fn act_on_service(&self, key: &Key, step: &ServiceStep) -> Result<(), Error> {
        let (here, client) = (self.leader.name(), self.leader.client());
        let api: Api<Service> = client.namespaced(&key.namespace);
        self.may_write()?;
        match step {
            ServiceStep::Create { shape } => {
                let service = render::service(key, shape);
                let made = client.call(api.create(&post_params(), &service)).await;
                let made = self.outcome(Written::Service, || format!("to create the Service {key}"), made)?;
                self.sources.services.learn(here, &made);
            }
            ServiceStep::Update { uid, version, shape, annotations, .. } => {
                let patch = render::service_patch(uid, version, shape, annotations);
                let after = self.patch(Written::Service, &api, "Service", key, patch).await?;
                self.sources.services.learn(here, &after);
            }
            ServiceStep::Delete { uid, version } => {
                let gone = client.call(api.delete(&key.name, &only(uid, version))).await;
                let doing = || format!("to delete the Service {key}");
                self.gone(Written::Service, doing, gone.map(drop))?;
                self.sources.services.forget(here, key, uid);
            }
        }
        Ok(())
    }

    async fn act_on_slice(&self, key: &Key, manager: Manager, step: &SliceStep) -> Result<(), Error> {
        self.may_write()?;
        match step {
            SliceStep::Create { slice, owner } => self.create(key, manager, slice, owner).await,
            SliceStep::Update { slice, owner, uid, version } => {
                let object = render::slice(manager, key, slice, owner, Some((uid, version)));
                self.replace(key, object).await
            }
            SliceStep::Drain { name, uid, version } => self.drain(key, name, uid, version).await,
            SliceStep::Delete { name, uid, version } => {
                let client = self.leader.client();
                let api: Api<EndpointSlice> = client.namespaced(&key.namespace);
                let gone = client.call(api.delete(name, &only(uid, version))).await;
                let doing = || format!("to delete the EndpointSlice {}/{name}", key.namespace);
                self.gone(Written::Slice, doing, gone.map(drop))?;
                self.slices.forget(&Key::new(key.namespace.as_str(), name.as_str()), uid);
                Ok(())
            }
        }
    }

    async fn create(&self, key: &Key, manager: Manager, slice: &Slice, owner: &str) -> Result<(), Error> {
        let client = self.leader.client();
        let api: Api<EndpointSlice> = client.namespaced(&key.namespace);
        let doing = || format!("to create the EndpointSlice {}/{}", key.namespace, slice.name);
        let object = render::slice(manager, key, slice, owner, None);
        match client.call(api.create(&post_params(), &object)).await {
            // Somebody took our label off it, or it is somebody else's after all.
            Err(error) if error.is_conflict() => {
                let there = client.call(api.get(&slice.name)).await;
                let there = self.outcome(Written::Slice, doing, there)?;
                if !there.annotations().contains_key(SOURCE_CLUSTER) {
                    return Err(Error::Foreign(Key::of(&there)));
                }
                let (uid, version) =
                    (there.uid().unwrap_or_default(), there.resource_version().unwrap_or_default());
                self.may_write()?;
                self.replace(key, render::slice(manager, key, slice, owner, Some((&uid, &version)))).await
            }
            made => {
                let made = self.outcome(Written::Slice, doing, made)?;
                self.slices.record_own_write(&made);
                Ok(())
            }
        }
    }

    async fn replace(&self, key: &Key, object: EndpointSlice) -> Result<(), Error> {
        let client = self.leader.client();
        let api: Api<EndpointSlice> = client.namespaced(&key.namespace);
        let name = object.name_any();
        let after = client.call(api.replace(&name, &post_params(), &object)).await;
        let doing = || format!("to change the EndpointSlice {}/{name}", key.namespace);
        let after = self.outcome(Written::Slice, doing, after)?;
        self.slices.record_own_write(&after);
        Ok(())
    }

    /// Nothing is known of where it came from, so it is read here and given back with other conditions.
    async fn drain(&self, key: &Key, name: &str, uid: &str, version: &str) -> Result<(), Error> {
        let client = self.leader.client();
        let api: Api<EndpointSlice> = client.namespaced(&key.namespace);
        let doing = || format!("to read the EndpointSlice {}/{name}", key.namespace);
        let mut slice = self.outcome(Written::Slice, doing, client.call(api.get(name)).await)?;
        if slice.uid().as_deref() != Some(uid) || slice.resource_version().as_deref() != Some(version) {
            // It is another by now: the watch tells, and then it is decided again.
            return Ok(());
        }
        slice.metadata.managed_fields = None;
        for endpoint in slice.endpoints.iter_mut().flatten() {
            let was_ready = endpoint.conditions.as_ref().is_none_or(|one| one.ready != Some(false));
            if was_ready {
                endpoint.conditions = Some(EndpointConditions {
                    ready: Some(false),
                    serving: Some(true),
                    terminating: Some(true),
                });
            }
        }
        self.may_write()?;
        self.replace(key, slice).await
    }

    /// A merge patch, which must carry the version that it was made for.
    pub(super) async fn patch<K>(
        &self,
        written: Written,
        api: &Api<K>,
        kind: &str,
        key: &Key,
        patch: Value,
    ) -> Result<K, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let call = async { api.patch(&key.name, &patch_params(), &Patch::Merge(patch)).await };
        self.write(written, || format!("to change the {kind} {key}"), call).await
    }

    pub(super) async fn patch_status<K>(
        &self,
        written: Written,
        api: &Api<K>,
        kind: &str,
        key: &Key,
        patch: Value,
    ) -> Result<K, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let call = async { api.patch_status(&key.name, &patch_params(), &Patch::Merge(patch)).await };
        self.write(written, || format!("to change the status of the {kind} {key}"), call).await
    }

    /// Sends one write, if writing is right.
    async fn write<T>(
        &self,
        written: Written,
        doing: impl FnOnce() -> String,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Error> {
        self.may_write()?;
        let outcome = self.leader.client().call(call).await;
        self.outcome(written, doing, outcome)
    }

    pub(super) fn may_write(&self) -> Result<(), Error> {
        if self.leader.fence.holds() { Ok(()) } else { Err(Error::Fenced) }
    }

    pub(super) fn outcome<T>(
        &self,
        kind: Written,
        doing: impl FnOnce() -> String,
        outcome: Result<T, member::Error>,
    ) -> Result<T, Error> {
        let how = match &outcome {
            Ok(_) => Outcome::Done,
            Err(error) if error.is_conflict() => Outcome::Conflict,
            Err(error) if error.class() == member::Class::Terminal => Outcome::Refused,
            Err(_) => Outcome::Failed,
        };
        self.metrics.wrote(self.leader.name().as_str(), kind, how);
        outcome.map_err(|source| Error::Call { doing: doing(), source })
    }

    /// What was gone already is as good as deleted.
    pub(super) fn gone(
        &self,
        kind: Written,
        doing: impl FnOnce() -> String,
        outcome: Result<(), member::Error>,
    ) -> Result<(), Error> {
        let outcome = match outcome {
            Err(error) if error.is_object_absent() => Ok(()),
            outcome => outcome,
        };
        self.outcome(kind, doing, outcome)
    }
}

pub(super) fn post_params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() }
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() }
}

/// Deletes this very object in this very version, and leaves what hangs on it to the garbage collector.
pub(super) fn only(uid: &str, version: &str) -> DeleteParams {
    let preconditions =
        Preconditions { uid: Some(uid.to_owned()), resource_version: Some(version.to_owned()) };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}
