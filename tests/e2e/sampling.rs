//! Looks at an app's pods after every single change, so that no bound is crossed unseen.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::objects::is_ready;
use crate::world::Room;

/// Follows the pods of one app.
pub(crate) struct Sampler {
    seen: Arc<Mutex<Seen>>,
    listed: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    pods: BTreeMap<String, Pod>,
    extremes: Option<Extremes>,
    /// The images of the pods that were there together.
    mixed: bool,
}

/// The most and the fewest that there ever were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extremes {
    /// The most pods that were not on their way out.
    pub(crate) most: usize,
    /// The fewest that were ready and not on their way out.
    pub(crate) fewest_ready: usize,
    pub(crate) samples: usize,
}

impl Sampler {
    /// Starts to look; returns once it has seen what is there.
    pub(crate) async fn start(room: &Room, app: &str) -> Sampler {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (listed, mut is_listed) = watch::channel(false);
        let api: Api<Pod> = room.api();
        let config = watcher::Config::default().labels(&format!("app={app}"));
        let (pods, first) = (seen.clone(), listed);
        let task = tokio::spawn(async move {
            let mut events = pin!(watcher::watcher(api, config));
            while let Some(event) = events.next().await {
                // A cut watch lists again: what happened meanwhile is missed, but nothing wrong is seen.
                let Ok(event) = event else { continue };
                let done = matches!(event, Event::InitDone);
                pods.lock().take(event, *first.borrow());
                if done {
                    first.send_replace(true);
                }
            }
        });
        // The sender is in the task, which runs until it is stopped.
        let _ = is_listed.wait_for(|listed| *listed).await;
        seen.lock().sample();
        Sampler { seen, listed: is_listed, task }
    }

    /// What was seen from the start until now.
    pub(crate) fn extremes(&self) -> Extremes {
        debug_assert!(*self.listed.borrow());
        self.seen.lock().extremes.expect("a sample was taken at the start")
    }

    /// Whether pods of different images were ever there together, those on their way out included.
    pub(crate) fn was_mixed(&self) -> bool {
        self.seen.lock().mixed
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    fn take(&mut self, event: Event<Pod>, listed: bool) {
        match event {
            Event::Init => {
                self.pods.clear();
                return;
            }
            Event::InitApply(pod) => {
                self.pods.insert(pod.name_any(), pod);
                return;
            }
            Event::InitDone => {}
            Event::Apply(pod) => drop(self.pods.insert(pod.name_any(), pod)),
            Event::Delete(pod) => drop(self.pods.remove(&pod.name_any())),
        }
        if listed {
            self.sample();
        }
    }

    fn sample(&mut self) {
        let alive = self.pods.values().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let (mut count, mut ready) = (0, 0);
        for pod in alive {
            count += 1;
            ready += usize::from(is_ready(pod));
        }
        let before = self.extremes.unwrap_or(Extremes { most: count, fewest_ready: ready, samples: 0 });
        self.extremes = Some(Extremes {
            most: before.most.max(count),
            fewest_ready: before.fewest_ready.min(ready),
            samples: before.samples + 1,
        });
        let mut images = self.pods.values().filter_map(image);
        let first = images.next();
        self.mixed |= images.any(|image| Some(image) != first);
    }
}

fn image(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.containers.first()?.image.as_deref()
}
