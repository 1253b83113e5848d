//! The context that the controllers share.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, PodTemplateSpec};
use koinon_api::names::MANAGER;
use koinon_control::call::{self, within_deadline};
use koinon_control::events::Recorder;
use koinon_control::queue::{Next, Queue};
use koinon_control::{Clock, Key, View};
use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::barred::{self, Barred};
use crate::deletion::{self, Deletions};
use crate::members::{Kind, Members};
use crate::metrics::Metrics;
use crate::placing::Surge;
use crate::writing::WriteHistory;

/// How workloads are looked after.
#[derive(Debug, Clone)]
pub struct Options {
    /// A pod that found no node for so long is stuck, and its replica goes elsewhere.
    pub unschedulable_after: Duration,
    /// How many more replicas there may be while some move.
    pub max_surge: Surge,
    /// What a member refused is tried again after this long; after the second time its replicas go elsewhere.
    pub retry_refused: Duration,
    /// System namespaces whose workloads are federated after all.
    pub allow_namespaces: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            unschedulable_after: Duration::from_secs(60),
            max_surge: Surge::default(),
            retry_refused: Duration::from_secs(60),
            allow_namespaces: Vec::new(),
        }
    }
}

/// One workload to look at.
pub(crate) type Job = (Kind, Key);

/// What the controllers share.
pub(crate) struct Hub {
    pub(crate) options: Options,
    pub(crate) federation: Client,
    /// The federation's namespaces: their Pod Security level, and what members' namespaces say that we create.
    pub(crate) namespaces: Arc<View<Namespace>>,
    pub(crate) clock: Clock,
    pub(crate) recorder: Recorder,
    pub(crate) members: Members,
    pub(crate) history: Arc<WriteHistory>,
    pub(crate) queue: Arc<Queue<Job>>,
    pub(crate) deletions: Arc<Deletions>,
    pub(crate) metrics: Metrics,
}

impl Hub {
    /// The federation's namespace of this name.
    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.namespaces.get(&Key::new("", name))
    }

    /// Why a workload with this template is not placed, if it is not.
    pub(crate) fn barred(&self, key: &Key, template: Option<&PodTemplateSpec>) -> Option<Barred> {
        let namespace = self.namespace(&key.namespace);
        barred::barred(&key.namespace, namespace.as_deref(), template, &self.options.allow_namespaces)
    }

    /// Gives an object the finalizer that it should have. A deletion that is meant for the members is written down before.
    /// Says what comes next if there was anything to do.
    pub(crate) async fn guard<K>(&self, kind: Kind, key: &Key, object: &K, view: &View<K>) -> Option<Next>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        if object.meta().deletion_timestamp.is_none()
            && self.deletions.is_written_down(object.meta().uid.as_deref().unwrap_or_default())
        {
            return Some(Next::Done);
        }
        match self.set_finalizer(kind, object).await {
            // The answer is seen as a change, and looked at then.
            Ok(Some(answer)) if answer.meta().deletion_timestamp.is_none() => {
                view.learn(answer);
                Some(Next::After(Duration::ZERO))
            }
            Ok(Some(_)) => Some(Next::Done),
            Ok(None) => None,
            Err(error) => {
                tracing::debug!(%key, %error, "the finalizer was not written");
                Some(Next::Retry)
            }
        }
    }

    async fn set_finalizer<K>(&self, kind: Kind, object: &K) -> Result<Option<K>, call::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let Some(finalizers) = deletion::finalizers(object.meta()) else { return Ok(None) };
        if deletion::is_for_members(object.meta()) {
            self.deletions.write_down(kind, object.meta()).await?;
        }
        let patch =
            json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": finalizers}});
        let api: Api<K> = Api::namespaced(self.federation.clone(), &object.namespace().unwrap_or_default());
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        within_deadline(api.patch(&object.name_any(), &params, &Patch::Merge(patch))).await.map(Some)
    }

    /// Changes status and annotations: both through the status, as an annotation that is written otherwise makes a new
    /// generation of a Deployment.
    pub(crate) async fn patch_status<K>(&self, object: &K, patch: Value) -> Result<K, call::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.federation.clone(), &object.namespace().unwrap_or_default());
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        within_deadline(api.patch_status(&object.name_any(), &params, &Patch::Merge(patch))).await
    }
}
