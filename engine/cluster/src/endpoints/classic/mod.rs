//! Endpoints: the one object of a Service's name with all of its addresses, as clients read it that do not know slices.
//!
//! ```text
//! services ──┐
//! pods ──────┼─► look ─► plan (subsets in canonical form) ─► one write of one object
//! endpoints ─┘
//! ```
//!
//! Only Services with a selector get Endpoints from here. Endpoints that users wrote go with their Service, as on a stock
//! cluster; without one that was there they are left alone.

mod plan;
pub(super) mod subsets;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use koinon_control::Key;
use koinon_control::call::{Error, within_deadline};
use koinon_control::events::{Recorder, Weight};
use koinon_control::queue::{self, Next, Queue};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;

use self::plan::{CONTROLLER, Look, MANAGED_BY, Plan};
use super::trigger::{Seen, Triggers};
use super::{selector, selects, shows};
use crate::MANAGER;
use crate::shared::Shared;

const WORKERS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

struct Controller {
    shared: Shared,
    events: Recorder,
    queue: Queue<Key>,
    triggers: Mutex<Triggers>,
    started: AtomicBool,
}

/// Keeps the Endpoints of all Services up to date for as long as it is polled.
pub async fn run(shared: Shared, events: Recorder) -> Infallible {
    let controller = Arc::new(Controller {
        shared,
        events,
        queue: Queue::new(FIRST_PAUSE, LONGEST_PAUSE),
        triggers: Mutex::default(),
        started: AtomicBool::new(false),
    });
    controller.listen();
    let shared = &controller.shared;
    // With a list missing, pods and Services that are there would count as absent.
    tokio::join!(shared.services.listed(), shared.pods.listed(), shared.endpoints.listed());
    controller.started.store(true, Ordering::Release);
    queue::work(&controller.queue, WORKERS, |key| controller.clone().handle(key)).await
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        // Views outlive the controllers that listen to them.
        let this = Arc::downgrade(self);
        self.shared.services.on_change(move |before, after| {
            let (Some(this), Some(service)) = (this.upgrade(), after.or(before)) else { return };
            this.queue.add(Key::of(&**service));
        });
        let this = Arc::downgrade(self);
        self.shared.pods.on_change(move |before, after| {
            let Some(this) = this.upgrade() else { return };
            this.pod_changed(before.map(|pod| &**pod), after.map(|pod| &**pod));
        });
        let this = Arc::downgrade(self);
        self.shared.endpoints.on_change(move |before, after| {
            let (Some(this), Some(endpoints)) = (this.upgrade(), after.or(before)) else { return };
            // Others' Endpoints without a Service are nobody's business.
            let key = Key::of(&**endpoints);
            if is_ours(endpoints) || this.shared.services.get(&key).is_some() {
                this.queue.add(key);
            }
        });
    }

    fn pod_changed(&self, before: Option<&Pod>, after: Option<&Pod>) {
        // Until everything is listed all Services are in the queue anyway.
        if !self.started.load(Ordering::Acquire) {
            return;
        }
        if let (Some(before), Some(after)) = (before, after)
            && shows(before) == shows(after)
        {
            return;
        }
        for pod in before.into_iter().chain(after) {
            for service in self.shared.services.in_namespace(&pod.namespace().unwrap_or_default()) {
                if selector(&service).is_some_and(|selector| selects(selector, pod)) {
                    self.queue.add(Key::of(&*service));
                }
            }
        }
    }

    async fn handle(self: Arc<Self>, key: Key) -> Next {
        let outcome = match self.shared.services.get(&key) {
            None => {
                self.triggers.lock().forget(&key);
                self.remove(&key).await
            }
            Some(service) => self.write(&key, &service).await,
        };
        match outcome {
            Ok(()) => Next::Done,
            Err(error) if error.is_namespace_ending() => Next::Done,
            Err(error) => {
                tracing::debug!(%key, %error, "endpoints: will try again");
                Next::Retry
            }
        }
    }

    async fn write(&self, key: &Key, service: &Arc<Service>) -> Result<(), Error> {
        let Some((look, seen)) = self.look(key, service) else { return Ok(()) };
        let api = self.endpoints(key);
        let (written, verb) = match plan::plan(&look) {
            Plan::Nothing => {
                self.triggers.lock().note(key.clone(), seen);
                return Ok(());
            }
            Plan::Create(new) => (within_deadline(api.create(&params(), &new)).await, "Create"),
            Plan::Update(new) => (within_deadline(api.replace(&key.name, &params(), &new)).await, "Update"),
        };
        match written {
            Ok(endpoints) => {
                self.shared.endpoints.learn(endpoints);
                self.triggers.lock().note(key.clone(), seen);
                Ok(())
            }
            Err(error) => {
                // A conflict only says that somebody was faster; the next look will see what they did.
                if !error.is_conflict() && !error.is_namespace_ending() {
                    let verbs = verb.to_lowercase();
                    let message = format!("Failed to {verbs} endpoint for service {key}: {error}");
                    let reason =
                        if verb == "Create" { "FailedToCreateEndpoint" } else { "FailedToUpdateEndpoint" };
                    self.events.tell(&**service, Weight::Warning, reason, message);
                }
                Err(error)
            }
        }
    }

    fn look(&self, key: &Key, service: &Arc<Service>) -> Option<(Look, Seen)> {
        let selector = selector(service)?;
        let mut pods = self.shared.pods.in_namespace(&key.namespace);
        pods.retain(|pod| selects(selector, pod));
        let (trigger, seen) = self.triggers.lock().look(service, &pods);
        let current = self.shared.endpoints.get(key);
        Some((Look { service: service.clone(), pods, current, trigger }, seen))
    }

    /// The Endpoints of a Service that is gone go too, once the server itself says that it is gone.
    async fn remove(&self, key: &Key) -> Result<(), Error> {
        let Some(endpoints) = self.shared.endpoints.get(key) else { return Ok(()) };
        let services: Api<Service> = Api::namespaced(self.shared.client.clone(), &key.namespace);
        if within_deadline(services.get_opt(&key.name)).await?.is_some() {
            return Ok(());
        }
        let uid = endpoints.uid().unwrap_or_default();
        let preconditions =
            Preconditions { uid: Some(uid.clone()), resource_version: endpoints.resource_version() };
        let params = DeleteParams::default().preconditions(preconditions);
        match within_deadline(self.endpoints(key).delete(&key.name, &params)).await {
            Ok(_) => {}
            Err(error) if error.is_object_absent() => {}
            Err(error) => return Err(error),
        }
        self.shared.endpoints.forget(key, &uid);
        Ok(())
    }

    fn endpoints(&self, key: &Key) -> Api<Endpoints> {
        Api::namespaced(self.shared.client.clone(), &key.namespace)
    }
}

fn is_ours(endpoints: &Endpoints) -> bool {
    endpoints.labels().get(MANAGED_BY).is_some_and(|manager| manager == CONTROLLER)
}

fn params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() }
}
