//! Deletions that are meant for the members too: written down first, then carried out, also where a member is away and comes
//! back long after the federated object is gone.
//!
//! The record is a ConfigMap in our namespace on the federation's API server, gone once the last member is clean. A federated
//! object of the same name that is made meanwhile takes the members' objects over, and the record is void.
//!
//! That a deletion is meant for the members shows only while it waits. Each federated object owns an anchor for that (`anchor`).

mod anchor;
mod anchor_controller;
mod intent;
mod record;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use koinon_api::names::{MANAGER, SYSTEM_NAMESPACE};
use koinon_control::call::{self, within_deadline};
use koinon_control::queue::{Next, Queue, work};
use koinon_control::{Key, View};
use koinon_fleet::member::Error;
use koinon_fleet::{Fleet, MemberClient};
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions, PropagationPolicy};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use self::anchor_controller::Anchors;
pub(crate) use self::intent::{finalizers, is_for_members};
use self::record::Deletion;
use crate::content;
use crate::members::Kind;
use crate::writing::WriteHistory;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Deletes members' objects whose federated one went with them.
pub(crate) struct Deletions {
    federation: Client,
    fleet: Arc<Fleet>,
    history: Arc<WriteHistory>,
    records: Arc<View<ConfigMap>>,
    /// Seen, and not yet written down, by the name of the record.
    seen: Mutex<BTreeMap<String, Deletion>>,
    queue: Arc<Queue<String>>,
    anchors: Anchors,
}

/// What is known of a federated object.
pub(crate) struct Known {
    pub(crate) uid: String,
    /// Whether it is not on its way out.
    pub(crate) stays: bool,
}

impl Known {
    pub(crate) fn of(metadata: &ObjectMeta) -> Known {
        Known { uid: metadata.uid.clone().unwrap_or_default(), stays: metadata.deletion_timestamp.is_none() }
    }
}

impl Deletions {
    /// `lost` is told of each federated object whose anchor is gone.
    pub(crate) fn new(
        federation: Client,
        fleet: Arc<Fleet>,
        history: Arc<WriteHistory>,
        lost: impl Fn(Kind, Key) + Send + Sync + 'static,
    ) -> Arc<Deletions> {
        let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
        let records = View::<ConfigMap>::new();
        let jobs = queue.clone();
        records.on_change(move |_, after| {
            if let Some(record) = after {
                jobs.add(record.name_any());
            }
        });
        let anchors = Anchors::new(lost);
        Arc::new(Deletions { federation, fleet, history, records, seen: Mutex::default(), queue, anchors })
    }

    /// Takes in that an object is going, and its members' objects with it. To be called with every version that is seen of
    /// it: the next one may not tell any more.
    pub(crate) fn see(&self, kind: Kind, metadata: &ObjectMeta) {
        let Some(uid) = metadata.uid.clone().filter(|_| is_for_members(metadata)) else { return };
        let record = Deletion::record(&uid);
        let members = self.fleet.members().iter().map(|member| member.name().to_string()).collect();
        let (namespace, name) =
            (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default());
        let deletion = Deletion { kind, namespace, name, uid, members };
        self.seen.lock().entry(record.clone()).or_insert(deletion);
        self.queue.add(record);
    }

    /// Writes down that an object is going, if it is meant for the members too.
    pub(crate) async fn write_down(&self, kind: Kind, metadata: &ObjectMeta) -> Result<(), call::Error> {
        self.see(kind, metadata);
        let record = Deletion::record(metadata.uid.as_deref().unwrap_or_default());
        self.keep(&record).await
    }

    /// Whether it is written down that this object is going, however old what is known of it otherwise.
    pub(crate) fn is_written_down(&self, uid: &str) -> bool {
        self.records.get(&Key::new(SYSTEM_NAMESPACE, Deletion::record(uid))).is_some()
    }

    /// Works for as long as it is polled. `known` says what is known of a federated object.
    pub(crate) async fn run(&self, known: impl Fn(Kind, &Key) -> Option<Known>) -> Infallible {
        let api = Api::namespaced(self.federation.clone(), SYSTEM_NAMESPACE);
        let known = &known;
        tokio::select! {
            biased;
            never = self.records.follow(api) => never,
            never = self.hear_of_members() => never,
            never = self.look_after_anchors(known) => never,
            never = async {
                self.records.listed().await;
                work(&self.queue, 4, |record| async move { self.reconcile(&record, known).await }).await
            } => never,
        }
    }

    async fn hear_of_members(&self) -> Infallible {
        let mut changes = self.fleet.changes();
        loop {
            self.records.all().iter().for_each(|record| self.queue.add(record.name_any()));
            if changes.changed().await.is_err() {
                // The fleet is ours, so its sender is there.
                std::future::pending::<()>().await;
            }
        }
    }

    async fn reconcile(&self, record: &str, known: &impl Fn(Kind, &Key) -> Option<Known>) -> Next {
        let outcome = async {
            self.keep(record).await?;
            let Some(map) = self.records.get(&Key::new(SYSTEM_NAMESPACE, record)) else {
                return Ok(Next::Done);
            };
            let Some(deletion) = Deletion::read(&map) else { return Ok(Next::Done) };
            let left = match known(deletion.kind, &deletion.key()).filter(|known| known.stays) {
                // No deletion is ever taken back: what is known of it is old, and whoever decides by that makes members' objects
                // again. They are cleaned once nobody does.
                Some(known) if known.uid == deletion.uid => return Ok(Next::Retry),
                Some(_) => Vec::new(),
                None => self.clean(&deletion).await,
            };
            // Members that are away are heard of; only one that did not let us is asked again.
            let again =
                left.iter().any(|name| self.fleet.get(name).is_some_and(|member| member.is_reachable()));
            self.update(&map, Deletion { members: left, ..deletion }).await?;
            Ok(if again { Next::Retry } else { Next::Done })
        };
        outcome.await.unwrap_or_else(|error: call::Error| {
            tracing::debug!(record, %error, "a deletion was not written down");
            Next::Retry
        })
    }

    /// Makes the record of what was seen.
    async fn keep(&self, record: &str) -> Result<(), call::Error> {
        let Some(deletion) = self.seen.lock().get(record).cloned() else { return Ok(()) };
        let api: Api<ConfigMap> = Api::namespaced(self.federation.clone(), SYSTEM_NAMESPACE);
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let map = deletion.map();
        let mut made = within_deadline(api.create(&params, &map)).await;
        if made.as_ref().is_err_and(|error| error.code() == Some(404)) {
            self.make_namespace(&params).await?;
            made = within_deadline(api.create(&params, &map)).await;
        }
        match made {
            Ok(made) => {
                deletion.log("DeletionBegun", "it is deleted in its members");
                self.records.learn(made);
            }
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
        self.seen.lock().remove(record);
        Ok(())
    }

    async fn make_namespace(&self, params: &PostParams) -> Result<(), call::Error> {
        let metadata = ObjectMeta { name: Some(SYSTEM_NAMESPACE.into()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let api: Api<Namespace> = Api::all(self.federation.clone());
        match within_deadline(api.create(params, &namespace)).await {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes what members have; gives those that are not clean yet.
    async fn clean(&self, deletion: &Deletion) -> Vec<String> {
        let key = deletion.key();
        let each = deletion.members.iter().map(|name| async {
            // Who left is no business of ours any more.
            let member = self.fleet.get(name)?;
            let place = (deletion.kind, key.clone(), member.name().clone());
            if self.history.at(&place).on_its_way.is_some() {
                return Some(name.clone());
            }
            let client = member.client();
            let cleaned = match deletion.kind {
                Kind::ReplicaSet => remove::<ReplicaSet>(client, &key).await,
                Kind::Deployment => remove::<Deployment>(client, &key).await,
            };
            match cleaned {
                Ok(()) => None,
                Err(error) => {
                    tracing::debug!(%key, %error, "a member was not cleaned");
                    Some(name.clone())
                }
            }
        });
        futures::future::join_all(each).await.into_iter().flatten().collect()
    }

    async fn update(&self, map: &ConfigMap, deletion: Deletion) -> Result<(), call::Error> {
        let api: Api<ConfigMap> = Api::namespaced(self.federation.clone(), SYSTEM_NAMESPACE);
        let (uid, version) = (map.uid(), map.resource_version());
        if deletion.members.is_empty() {
            let preconditions = Some(Preconditions { uid: uid.clone(), resource_version: version });
            let params = DeleteParams { preconditions, ..DeleteParams::default() };
            match within_deadline(api.delete(&map.name_any(), &params)).await {
                Err(error) if !error.is_object_absent() => return Err(error),
                _ => self.records.forget(&Key::of(map), &uid.unwrap_or_default()),
            }
            deletion.log("DeletionDone", "it is deleted in all members");
        } else if Deletion::read(map).is_some_and(|before| before != deletion) {
            let map = ConfigMap { data: Some(deletion.data()), ..map.clone() };
            let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
            self.records.learn(within_deadline(api.replace(&map.name_any(), &params, &map)).await?);
            deletion.log("DeletionHeld", "it is not deleted in all members yet");
        }
        Ok(())
    }
}

/// Deletes a member's object and its pods, if it is ours.
async fn remove<K>(client: &MemberClient, key: &Key) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = client.namespaced(&key.namespace);
    let there = match client.call(api.get(&key.name)).await {
        Ok(there) => there,
        Err(error) if error.is_object_absent() => return Ok(()),
        Err(error) => return Err(error),
    };
    if !content::is_ours(there.labels()) {
        return Ok(());
    }
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions { uid: there.uid(), resource_version: None }),
        ..DeleteParams::default()
    };
    match client.call(api.delete(&key.name, &params)).await {
        Err(error) if !error.is_object_absent() => Err(error),
        _ => Ok(()),
    }
}
