//! The controller of anchors: makes them, and lets them go once it is written down why.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet};
use koinon_api::names::MANAGER;
use koinon_control::call::{self, within_deadline};
use koinon_control::queue::{Next, Queue, work};
use koinon_control::{Key, View};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Deletions, FIRST_PAUSE, Known, LONGEST_PAUSE, anchor, is_for_members};
use crate::members::Kind;

/// So many are looked at at once.
const AT_ONCE: usize = 4;
/// Who waits longer for a list goes on without.
const PATIENCE: Duration = Duration::from_secs(5);

/// The anchors that there are.
pub(super) struct Anchors {
    view: Arc<View<ControllerRevision>>,
    queue: Arc<Queue<Key>>,
}

impl Anchors {
    pub(super) fn new(lost: impl Fn(Kind, Key) + Send + Sync + 'static) -> Anchors {
        let view = View::<ControllerRevision>::keeping(anchor::slim);
        let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
        let jobs = queue.clone();
        view.on_change(move |before, after| match (before, after) {
            (_, Some(there)) if anchor::is_anchor(&there.metadata) => jobs.add(Key::of(&**there)),
            (Some(gone), None) => {
                if let Some((kind, owner)) = anchor::owner(&gone.metadata) {
                    lost(kind, Key::new(gone.namespace().unwrap_or_default(), owner.name.as_str()));
                }
            }
            _ => {}
        });
        Anchors { view, queue }
    }
}

impl Deletions {
    /// Waits until the anchors are known, but not for long: one that is made twice is still one.
    pub(crate) async fn anchors_listed(&self) {
        let _ = tokio::time::timeout(PATIENCE, self.anchors.view.listed()).await;
    }

    /// Makes sure that a federated object has its anchor.
    pub(crate) async fn anchor(&self, kind: Kind, of: &ObjectMeta) -> Result<(), call::Error> {
        let name = anchor::name(of.uid.as_deref().unwrap_or_default());
        let namespace = of.namespace.clone().unwrap_or_default();
        if self.anchors.view.get(&Key::new(namespace.clone(), name.as_str())).is_some() {
            return Ok(());
        }
        let api: Api<ControllerRevision> = Api::namespaced(self.federation.clone(), &namespace);
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        match within_deadline(api.create(&params, &anchor::anchor(kind, of))).await {
            Ok(made) => self.anchors.view.learn(made),
            Err(error) if error.is_conflict() => {}
            // The namespace is going, or nobody lets us: all that is lost is a foreground deletion that we do not see.
            Err(error) if error.code() == Some(403) => {
                tracing::debug!(%namespace, %name, %error, "there is no anchor");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Follows the anchors for as long as it is polled.
    pub(crate) async fn follow_anchors(&self) -> Infallible {
        self.anchors.view.follow(Api::all(self.federation.clone())).await
    }

    pub(super) async fn look_after_anchors(
        &self,
        known: &impl Fn(Kind, &Key) -> Option<Known>,
    ) -> Infallible {
        let look = |key| async move {
            self.look_at_anchor(&key, known).await.unwrap_or_else(|error| {
                tracing::debug!(%key, %error, "an anchor was not let go");
                Next::Retry
            })
        };
        work(&self.anchors.queue, AT_ONCE, look).await
    }

    async fn look_at_anchor(
        &self,
        key: &Key,
        known: &impl Fn(Kind, &Key) -> Option<Known>,
    ) -> Result<Next, call::Error> {
        let Some(anchor) = self.anchors.view.get(key).filter(|one| anchor::is_anchor(&one.metadata)) else {
            return Ok(Next::Done);
        };
        let is_going = anchor.metadata.deletion_timestamp.is_some();
        if let Some((kind, reference)) = anchor::owner(&anchor.metadata) {
            let owner = known(kind, &Key::new(key.namespace.clone(), reference.name.as_str()));
            if !is_going && owner.is_some_and(|owner| owner.uid == reference.uid) {
                return Ok(Next::Done);
            }
            // Asked for and not only looked up: a watch may be behind, and there is no second chance.
            let there = match kind {
                Kind::ReplicaSet => self.owner::<ReplicaSet>(key, &reference.name).await?,
                Kind::Deployment => self.owner::<Deployment>(key, &reference.name).await?,
            };
            match there.filter(|there| there.uid.as_ref() == Some(&reference.uid)) {
                Some(_) if !is_going => return Ok(Next::Done),
                Some(there) if is_for_members(&there) => self.write_down(kind, &there).await?,
                _ => {}
            }
        }
        self.let_go(key, &anchor).await?;
        Ok(Next::Done)
    }

    async fn owner<K>(&self, anchor: &Key, name: &str) -> Result<Option<ObjectMeta>, call::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.federation.clone(), &anchor.namespace);
        match within_deadline(api.get(name)).await {
            Ok(there) => Ok(Some(there.meta().clone())),
            Err(error) if error.is_object_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn let_go(&self, key: &Key, anchor: &ControllerRevision) -> Result<(), call::Error> {
        let api: Api<ControllerRevision> = Api::namespaced(self.federation.clone(), &key.namespace);
        let patch = json!({"metadata": {
            "resourceVersion": anchor.resource_version(), "finalizers": anchor::released(&anchor.metadata),
        }});
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let gone = |error: &call::Error| error.is_object_absent();
        match within_deadline(api.patch(&key.name, &params, &Patch::Merge(patch))).await {
            Err(error) if !gone(&error) => return Err(error),
            _ => {}
        }
        if anchor.metadata.deletion_timestamp.is_none() {
            let preconditions = Some(Preconditions { uid: anchor.uid(), resource_version: None });
            let params = DeleteParams { preconditions, ..DeleteParams::default() };
            match within_deadline(api.delete(&key.name, &params)).await {
                Err(error) if !gone(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
