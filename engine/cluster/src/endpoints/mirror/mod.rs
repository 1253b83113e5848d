//! Mirroring: Endpoints that a user wrote for a Service without a selector, as EndpointSlices, which is where everybody
//! looks today.
//!
//! ```text
//! endpoints ─┐
//! services ──┼─► plan: one slice for each family and set of ports ─► slices
//! slices ────┘
//! ```

mod plan;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_control::Key;
use koinon_control::events::{Recorder, Weight};
use koinon_control::queue::{self, Next, Queue};
use kube::ResourceExt as _;

use self::plan::{CAPACITY, CONTROLLER, Mirror};
use super::apply::Writer;
use super::plan::{MANAGED_BY, Plan, SERVICE_NAME};
use crate::shared::Shared;

const WORKERS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

struct Controller {
    shared: Shared,
    events: Recorder,
    queue: Queue<Key>,
    writer: Writer,
}

/// Mirrors Endpoints for as long as it is polled.
pub async fn run(shared: Shared, events: Recorder) -> Infallible {
    let queue = Queue::new(FIRST_PAUSE, LONGEST_PAUSE);
    let controller = Arc::new(Controller { writer: Writer::new(&shared), shared, events, queue });
    controller.listen();
    let shared = &controller.shared;
    // With a list missing, Endpoints and Services that are there would count as absent, and their slices would go.
    tokio::join!(shared.services.listed(), shared.endpoints.listed(), shared.slices.listed());
    queue::work(&controller.queue, WORKERS, |key| controller.clone().handle(key)).await
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        // Views outlive the controllers that listen to them.
        let this = Arc::downgrade(self);
        self.shared.endpoints.on_change(move |before, after| {
            let (Some(this), Some(endpoints)) = (this.upgrade(), after.or(before)) else { return };
            this.queue.add(Key::of(&**endpoints));
        });
        let this = Arc::downgrade(self);
        self.shared.services.on_change(move |before, after| {
            let Some(this) = this.upgrade() else { return };
            let selects = |service: &k8s_openapi::api::core::v1::Service| {
                service.spec.as_ref().is_some_and(|spec| spec.selector.is_some())
            };
            // A Service with a selector, before and after, has Endpoints of its own.
            if before.into_iter().chain(after).all(|service| selects(service)) {
                return;
            }
            if let Some(service) = after.or(before) {
                this.queue.add(Key::of(&**service));
            }
        });
        let this = Arc::downgrade(self);
        self.shared.slices.on_change(move |before, after| {
            let Some(this) = this.upgrade() else { return };
            let (before, after) = (before.map(|slice| &**slice), after.map(|slice| &**slice));
            if this.writer.is_own_write(before, after) {
                return;
            }
            for slice in before.into_iter().chain(after).filter(|slice| is_ours(slice)) {
                if let Some(service) = slice.labels().get(SERVICE_NAME) {
                    this.queue.add(Key::new(slice.namespace().unwrap_or_default(), service));
                }
            }
        });
    }

    async fn handle(self: Arc<Self>, key: Key) -> Next {
        let mut slices = self.shared.slices.in_namespace(&key.namespace);
        slices.retain(|slice| is_ours(slice) && slice.labels().get(SERVICE_NAME) == Some(&key.name));
        let endpoints = self.shared.endpoints.get(&key);
        let service = self.shared.services.get(&key);
        let mirrored = endpoints.filter(|endpoints| plan::is_mirrored(endpoints, service.as_deref()));
        let plan = match &mirrored {
            Some(endpoints) => {
                let mirror = plan::plan(endpoints, &slices);
                self.tell(endpoints, &mirror);
                mirror.plan
            }
            None => Plan { delete: slices, ..Plan::default() },
        };
        match self.writer.apply(plan).await {
            Ok(()) => Next::Done,
            Err(failure) if failure.error.is_namespace_ending() => Next::Done,
            Err(failure) => {
                tracing::debug!(%key, %failure, "mirroring: will try again");
                Next::Retry
            }
        }
    }

    fn tell(&self, endpoints: &Endpoints, mirror: &Mirror) {
        if mirror.invalid > 0 {
            let message =
                format!("Skipped {} invalid IP addresses when mirroring to EndpointSlices", mirror.invalid);
            self.events.tell(endpoints, Weight::Warning, "InvalidIPAddress", message);
        }
        if mirror.skipped > 0 {
            let message = format!(
                "A max of {CAPACITY} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were \
                 skipped",
                mirror.skipped
            );
            self.events.tell(endpoints, Weight::Warning, "TooManyAddressesToMirror", message);
        }
    }
}

fn is_ours(slice: &EndpointSlice) -> bool {
    slice.labels().get(MANAGED_BY).is_some_and(|manager| manager == CONTROLLER)
}
