//! Looks at an app after every single change, so that no bound is crossed unseen.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::objects::is_ready;
use crate::world::Room;

/// Follows the ReplicaSets and pods of one app.
///
/// How many pods a rollout may have is promised for what ReplicaSets are told to have: the pods of one that
/// was told to have fewer go a moment later. How many must be ready is promised for the pods themselves.
pub(crate) struct Sampler {
    seen: Arc<Mutex<Seen>>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    sets: BTreeMap<String, ReplicaSet>,
    pods: BTreeMap<String, Pod>,
    /// From here on everything counts.
    counting: bool,
    most: usize,
    fewest_ready: Option<usize>,
    samples: usize,
    mixed: bool,
}

/// The most and the fewest that there ever were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extremes {
    /// The most pods that all ReplicaSets together were told to have.
    pub(crate) most: usize,
    /// The fewest that were ready and not on their way out.
    pub(crate) fewest_ready: usize,
    pub(crate) samples: usize,
}

impl Sampler {
    /// Starts to look; returns once it has seen what is there.
    pub(crate) async fn start(room: &Room, app: &str) -> Sampler {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (sets, sets_listed) = follow::<ReplicaSet>(room, app, seen.clone(), |seen| &mut seen.sets);
        let (pods, pods_listed) = follow::<Pod>(room, app, seen.clone(), |seen| &mut seen.pods);
        // The senders are in the tasks, which run until they are stopped.
        let _ = (sets_listed.await, pods_listed.await);
        {
            let mut seen = seen.lock();
            seen.counting = true;
            seen.sample();
        }
        Sampler { seen, tasks: vec![sets, pods] }
    }

    /// What was seen from the start until now.
    pub(crate) fn extremes(&self) -> Extremes {
        let seen = self.seen.lock();
        let fewest_ready = seen.fewest_ready.expect("a sample was taken at the start");
        Extremes { most: seen.most, fewest_ready, samples: seen.samples }
    }

    /// Whether pods of different images ever ran together, those on their way out included. One whose containers have
    /// ended is waited for by nobody, though it may still be listed.
    pub(crate) fn was_mixed(&self) -> bool {
        self.seen.lock().mixed
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Keeps one of the maps up to date; the receiver hears when it is complete.
fn follow<K>(
    room: &Room,
    app: &str,
    seen: Arc<Mutex<Seen>>,
    map: fn(&mut Seen) -> &mut BTreeMap<String, K>,
) -> (JoinHandle<()>, oneshot::Receiver<()>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api = room.api::<K>();
    let config = watcher::Config::default().labels(&format!("app={app}"));
    let (listed, is_listed) = oneshot::channel();
    let task = tokio::spawn(async move {
        let mut listed = Some(listed);
        let mut events = pin!(watcher::watcher(api, config));
        while let Some(event) = events.next().await {
            // A cut watch lists again: what happened meanwhile is missed, but nothing wrong is seen.
            let Ok(event) = event else { continue };
            let mut seen = seen.lock();
            match event {
                Event::Init => {
                    map(&mut seen).clear();
                    continue;
                }
                Event::InitApply(object) => {
                    map(&mut seen).insert(object.name_any(), object);
                    continue;
                }
                Event::InitDone => drop(listed.take().map(|listed| listed.send(()))),
                Event::Apply(object) => drop(map(&mut seen).insert(object.name_any(), object)),
                Event::Delete(object) => drop(map(&mut seen).remove(&object.name_any())),
            }
            seen.sample();
        }
    });
    (task, is_listed)
}

impl Seen {
    fn sample(&mut self) {
        if !self.counting {
            return;
        }
        let told = self.sets.values().filter_map(|set| set.spec.as_ref()?.replicas).sum::<i32>();
        self.most = self.most.max(usize::try_from(told).unwrap_or(0));
        let alive = self.pods.values().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let ready = alive.filter(|pod| is_ready(pod)).count();
        self.fewest_ready = Some(self.fewest_ready.unwrap_or(ready).min(ready));
        self.samples += 1;
        let mut images = self.pods.values().filter(|pod| !has_ended(pod)).filter_map(image);
        let first = images.next();
        self.mixed |= images.any(|image| Some(image) != first);
    }
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn image(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.containers.first()?.image.as_deref()
}
