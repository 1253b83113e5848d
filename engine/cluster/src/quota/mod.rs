//! ResourceQuotas: how much of what they limit is used. Whether something more may come is decided where it
//! is created; this keeps the numbers right that users see, also when things go.
//!
//! ```text
//! pods, services ──┐
//! claims ──────────┼─► plan ─► status of the quota
//! counts of kinds ─┘
//! ```

mod counts;
mod plan;
mod scope;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use koinon_control::call::within_deadline;
use koinon_control::queue::{self, Next, Queue};
use koinon_control::{Key, View};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use tokio::sync::Notify;

use self::counts::Counts;
use self::plan::{Look, Subject};
use crate::MANAGER;
use crate::shared::Shared;

const WORKERS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Pods come and go in crowds: they are counted together.
const SETTLING: Duration = Duration::from_millis(100);
/// Times on the wire are whole seconds: looking too early would find nothing.
const LATE: Duration = Duration::from_secs(1);

struct Controller {
    shared: Shared,
    quotas: Arc<View<ResourceQuota>>,
    claims: Arc<View<PersistentVolumeClaim>>,
    claims_listed: AtomicBool,
    claims_asked: Notify,
    counts: Counts,
    queue: Queue<Key>,
}

/// Keeps the status of all quotas up to date for as long as it is polled.
pub async fn run(shared: Shared) -> Infallible {
    let controller = Arc::new(Controller {
        shared,
        quotas: View::new(),
        claims: View::new(),
        claims_listed: AtomicBool::new(false),
        claims_asked: Notify::new(),
        counts: Counts::default(),
        queue: Queue::new(FIRST_PAUSE, LONGEST_PAUSE),
    });
    controller.listen();
    let client = &controller.shared.client;
    let work = async {
        let shared = &controller.shared;
        tokio::join!(controller.quotas.listed(), shared.pods.listed(), shared.services.listed());
        queue::work(&controller.queue, WORKERS, |key| controller.clone().handle(key)).await
    };
    let changed = |namespace: Option<&str>| match namespace {
        Some(namespace) => controller.add_all_in(namespace),
        None => controller.quotas.all().iter().for_each(|quota| controller.queue.add(Key::of(&**quota))),
    };
    tokio::select! {
        biased;
        never = controller.quotas.follow(Api::all(client.clone())) => never,
        never = controller.counts.follow(client, changed) => never,
        never = controller.follow_claims() => never,
        never = work => never,
    }
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        // Views outlive the controllers that listen to them.
        let this = Arc::downgrade(self);
        self.quotas.on_change(move |before, after| {
            if let (Some(this), Some(quota)) = (this.upgrade(), after.or(before)) {
                this.queue.add(Key::of(&**quota));
            }
        });
        let this = Arc::downgrade(self);
        self.shared.pods.on_change(move |before, after| {
            let (Some(this), Some(pod)) = (this.upgrade(), after.or(before)) else { return };
            if before.map(|pod| shows(pod)) != after.map(|pod| shows(pod)) {
                this.add_all_in(&pod.namespace().unwrap_or_default());
            }
        });
        let this = Arc::downgrade(self);
        self.shared.services.on_change(move |before, after| {
            let (Some(this), Some(service)) = (this.upgrade(), after.or(before)) else { return };
            let used = |service: &Arc<Service>| usage::of_service(service);
            if before.map(used) != after.map(used) {
                this.add_all_in(&service.namespace().unwrap_or_default());
            }
        });
        let this = Arc::downgrade(self);
        self.claims.on_change(move |before, after| {
            if let (Some(this), Some(claim)) = (this.upgrade(), after.or(before)) {
                this.add_all_in(&claim.namespace().unwrap_or_default());
            }
        });
    }

    fn add_all_in(&self, namespace: &str) {
        for quota in self.quotas.in_namespace(namespace) {
            self.queue.add_after(Key::of(&*quota), SETTLING);
        }
    }

    /// Most clusters limit no storage: claims are watched from when the first quota does.
    async fn follow_claims(&self) -> Infallible {
        self.claims_asked.notified().await;
        let listed = async {
            self.claims.listed().await;
            self.claims_listed.store(true, Ordering::Release);
            for quota in self.quotas.all() {
                self.queue.add(Key::of(&*quota));
            }
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            biased;
            never = self.claims.follow(Api::all(self.shared.client.clone())) => never,
            never = listed => never,
        }
    }

    async fn handle(self: Arc<Self>, key: Key) -> Next {
        let Some(quota) = self.quotas.get(&key) else { return Next::Done };
        let now = self.shared.clock.now();
        let mut counts = BTreeMap::new();
        let mut claims = None;
        for subject in plan::subjects(&quota) {
            match subject {
                Subject::Pods | Subject::Services => {}
                Subject::Claims if self.claims_listed.load(Ordering::Acquire) => {
                    claims = Some(self.claims.in_namespace(&key.namespace));
                }
                Subject::Claims => self.claims_asked.notify_one(),
                Subject::Objects(kind) => {
                    if let Some(count) = self.counts.get(&kind, &key.namespace) {
                        counts.insert(kind, count);
                    }
                }
            }
        }
        let plan = plan::plan(&Look {
            quota: &quota,
            pods: &self.shared.pods.in_namespace(&key.namespace),
            services: &self.shared.services.in_namespace(&key.namespace),
            claims: claims.as_deref(),
            counts: &counts,
            now,
        });
        if let Some(status) = plan.status {
            let mut quota = (*quota).clone();
            quota.status = Some(status);
            let api: Api<ResourceQuota> = Api::namespaced(self.shared.client.clone(), &key.namespace);
            let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
            match within_deadline(api.replace_status(&key.name, &params, &quota)).await {
                Ok(written) => self.quotas.learn(written),
                Err(error) if error.is_object_absent() => return Next::Done,
                Err(error) => {
                    tracing::debug!(%key, %error, "quota: will try again");
                    return Next::Retry;
                }
            }
        }
        let wait = plan.recheck.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        wait.map_or(Next::Done, |wait| Next::After(wait + LATE))
    }
}

/// What of a pod a quota can count; its spec changes only by a resize, which raises the generation.
fn shows(pod: &Pod) -> impl PartialEq + '_ {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    (&pod.metadata.uid, pod.metadata.generation, usage::written_off(pod), ended)
}
