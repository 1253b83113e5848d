//! EndpointSlices and Endpoints: where the pods behind each Service can be reached.
//!
//! ```text
//! services ─┐
//! pods ─────┤               ┌─ endpoint  what a pod contributes
//! nodes ────┼─► look ─► plan┼─ pack      which slice it goes into     ─► apply ─► slices
//! slices ───┘               └─ hints     whom it should serve
//! ```
//!
//! Services without a selector and those that only stand for another name are left alone, and so are slices
//! that somebody else manages. The slices of a deleted Service go with it, by garbage collection.
//!
//! [`classic`] says the same in the older Endpoints, and [`mirror`] makes slices of Endpoints that users wrote for Services
//! without a selector.

mod apply;
pub mod classic;
mod endpoint;
mod hints;
pub mod mirror;
mod pack;
mod plan;
#[cfg(test)]
mod tests;
mod trigger;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_control::Key;
use koinon_control::events::{Recorder, Weight};
use koinon_control::queue::{self, Next, Queue};
use kube::ResourceExt as _;
use parking_lot::Mutex;

use self::apply::Writer;
use self::plan::{CONTROLLER, Look, MANAGED_BY, SERVICE_NAME};
use self::trigger::{Seen, Triggers};
use crate::shared::Shared;

const WORKERS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Whoever changes our slices often changes several: they are put right together.
const SETTLING: Duration = Duration::from_secs(1);

struct Controller {
    shared: Shared,
    events: Recorder,
    queue: Queue<Key>,
    triggers: Mutex<Triggers>,
    writer: Writer,
    started: AtomicBool,
}

/// Keeps the slices of all Services up to date for as long as it is polled.
pub async fn run(shared: Shared, events: Recorder) -> Infallible {
    let controller = Arc::new(Controller {
        writer: Writer::new(&shared),
        shared,
        events,
        queue: Queue::new(FIRST_PAUSE, LONGEST_PAUSE),
        triggers: Mutex::default(),
        started: AtomicBool::new(false),
    });
    controller.listen();
    let shared = &controller.shared;
    // With a list missing, pods, nodes and slices that are there would count as absent.
    tokio::join!(
        shared.services.listed(),
        shared.pods.listed(),
        shared.nodes.listed(),
        shared.slices.listed()
    );
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
        self.shared.nodes.on_change(move |before, after| {
            let Some(this) = this.upgrade() else { return };
            this.node_changed(before.map(|node| &**node), after.map(|node| &**node));
        });
        let this = Arc::downgrade(self);
        self.shared.slices.on_change(move |before, after| {
            let Some(this) = this.upgrade() else { return };
            this.slice_changed(before.map(|slice| &**slice), after.map(|slice| &**slice));
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
            self.add_services_of(pod);
        }
    }

    fn add_services_of(&self, pod: &Pod) {
        for service in self.shared.services.in_namespace(&pod.namespace().unwrap_or_default()) {
            if selector(&service).is_some_and(|selector| selects(selector, pod)) {
                self.queue.add(Key::of(&*service));
            }
        }
    }

    fn node_changed(&self, before: Option<&Node>, after: Option<&Node>) {
        if !self.started.load(Ordering::Acquire) || before.map(endpoint::zone) == after.map(endpoint::zone) {
            return;
        }
        let Some(node) = after.or(before).map(|node| node.name_any()) else { return };
        for pod in self.shared.pods.all() {
            if endpoint::node_name(&pod) == Some(&node) {
                self.add_services_of(&pod);
            }
        }
    }

    fn slice_changed(&self, before: Option<&EndpointSlice>, after: Option<&EndpointSlice>) {
        if self.writer.is_own_write(before, after) {
            return;
        }
        for slice in before.into_iter().chain(after).filter(|slice| is_ours(slice)) {
            if let Some(service) = slice.labels().get(SERVICE_NAME) {
                self.queue.add_after(Key::new(slice.namespace().unwrap_or_default(), service), SETTLING);
            }
        }
    }

    async fn handle(self: Arc<Self>, key: Key) -> Next {
        let Some((look, seen)) = self.look(&key) else {
            self.triggers.lock().forget(&key);
            return Next::Done;
        };
        let plan = plan::plan(&look);
        for missing in &plan.waiting {
            let message = format!(
                "Error updating Endpoint Slices for Service {key}: skipping Pod {} for Service {key}: Node {} Not Found",
                missing.pod, missing.node
            );
            self.events.tell(&*look.service, Weight::Warning, "FailedToUpdateEndpointSlices", message);
        }
        match self.writer.apply(plan).await {
            Ok(()) => {
                self.triggers.lock().note(key, seen);
                Next::Done
            }
            Err(failure) if failure.error.is_namespace_ending() => Next::Done,
            Err(failure) => {
                tracing::debug!(%key, %failure, "endpoints: will try again");
                // A conflict only says that somebody was faster; the next look will see what they did.
                if !failure.error.is_conflict() {
                    let message = format!("Error updating Endpoint Slices for Service {key}: {failure}");
                    self.events.tell(
                        &*look.service,
                        Weight::Warning,
                        "FailedToUpdateEndpointSlices",
                        message,
                    );
                }
                Next::Retry
            }
        }
    }

    /// What there is about a Service; nothing if it has no slices of ours.
    fn look(&self, key: &Key) -> Option<(Look, Seen)> {
        let service = self.shared.services.get(key)?;
        let selector = selector(&service)?;
        let mut pods = self.shared.pods.in_namespace(&key.namespace);
        pods.retain(|pod| selects(selector, pod));
        let mut slices = self.shared.slices.in_namespace(&key.namespace);
        slices.retain(|slice| {
            is_ours(slice)
                && slice.labels().get(SERVICE_NAME) == Some(&key.name)
                && slice.metadata.deletion_timestamp.is_none()
        });
        let nodes: BTreeSet<&str> = pods.iter().filter_map(|pod| endpoint::node_name(pod)).collect();
        let zone = |name: &str| {
            let node = self.shared.nodes.get(&Key::new("", name))?;
            Some((name.to_owned(), endpoint::zone(&node)))
        };
        let zones = nodes.into_iter().filter_map(zone).collect();
        let (trigger, seen) = self.triggers.lock().look(&service, &pods);
        Some((Look { service: service.clone(), pods, zones, slices, trigger }, seen))
    }
}

/// The selector of a Service that gets slices from us.
fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    spec.selector.as_ref()
}

fn selects(selector: &BTreeMap<String, String>, pod: &Pod) -> bool {
    let labels = pod.labels();
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

fn is_ours(slice: &EndpointSlice) -> bool {
    slice.labels().get(MANAGED_BY).is_some_and(|manager| manager == CONTROLLER)
}

/// What of a pod its Services can show: while this stays, they stay as they are.
fn shows(pod: &Pod) -> impl PartialEq + '_ {
    let spec = pod.spec.as_ref();
    (
        (pod.labels(), &pod.metadata.uid, pod.metadata.deletion_timestamp.is_some()),
        (endpoint::is_reachable(pod), endpoint::is_ready(pod), endpoint::addresses(pod)),
        spec.map(|spec| (&spec.node_name, &spec.hostname, &spec.subdomain)),
    )
}
