//! PodDisruptionBudgets: how many pods may be evicted at the moment, for whoever asks.

mod plan;
mod scales;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use koinon_control::call::{Error, within_deadline};
use koinon_control::events::{Recorder, Weight};
use koinon_control::queue::{self, Next, Queue};
use koinon_control::{Key, View};
use kube::api::PostParams;
use kube::core::{Selector, SelectorExt as _};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use self::plan::{Look, Plan};
use self::scales::Scales;
use crate::MANAGER;
use crate::shared::Shared;

const WORKERS: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Times on the wire are whole seconds: looking too early would find nothing.
const LATE: Duration = Duration::from_secs(1);

struct Controller {
    shared: Shared,
    events: Recorder,
    budgets: Arc<View<PodDisruptionBudget>>,
    scales: Scales,
    queue: Queue<Key>,
}

/// Keeps the status of all budgets up to date for as long as it is polled.
pub async fn run(shared: Shared, events: Recorder) -> Infallible {
    let controller = Arc::new(Controller {
        scales: Scales::new(shared.clone()),
        shared,
        events,
        budgets: View::new(),
        queue: Queue::new(FIRST_PAUSE, LONGEST_PAUSE),
    });
    controller.listen();
    let work = async {
        let shared = &controller.shared;
        tokio::join!(
            controller.budgets.listed(),
            shared.pods.listed(),
            shared.replica_sets.listed(),
            shared.deployments.listed()
        );
        queue::work(&controller.queue, WORKERS, |key| controller.clone().handle(key)).await
    };
    let client = controller.shared.client.clone();
    tokio::select! {
        biased;
        never = controller.budgets.follow(Api::all(client)) => never,
        never = work => never,
    }
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        // Views outlive the controllers that listen to them.
        let this = Arc::downgrade(self);
        self.budgets.on_change(move |before, after| {
            if let (Some(this), Some(budget)) = (this.upgrade(), after.or(before)) {
                this.queue.add(Key::of(&**budget));
            }
        });
        let this = Arc::downgrade(self);
        self.shared.pods.on_change(move |before, after| {
            let Some(this) = this.upgrade() else { return };
            if let (Some(before), Some(after)) = (before, after)
                && shows(before) == shows(after)
            {
                return;
            }
            if let Some(before) = before {
                this.budgets_of(before).iter().for_each(|budget| this.queue.add(Key::of(&**budget)));
            }
            if let Some(after) = after {
                this.pod_changed(after);
            }
        });
        let shared = &self.shared;
        self.on_scale(&shared.replica_sets, |set| set.spec.as_ref()?.replicas);
        self.on_scale(&shared.deployments, |deployment| deployment.spec.as_ref()?.replicas);
        self.on_scale(&shared.stateful_sets, |set| set.spec.as_ref()?.replicas);
        self.on_scale(&shared.replication_controllers, |controller| controller.spec.as_ref()?.replicas);
    }

    /// Has the budgets of a namespace looked at when something there is scaled.
    fn on_scale<K>(self: &Arc<Self>, view: &View<K>, wish: fn(&K) -> Option<i32>)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let this = Arc::downgrade(self);
        view.on_change(move |before, after| {
            let Some(this) = this.upgrade() else { return };
            if before.map(|one| wish(one)) != after.map(|one| wish(one)) {
                this.add_all_in(after.or(before).and_then(|one| one.namespace()));
            }
        });
    }

    fn budgets_of(&self, pod: &Pod) -> Vec<Arc<PodDisruptionBudget>> {
        let mut budgets = self.budgets.in_namespace(&pod.namespace().unwrap_or_default());
        budgets.retain(|budget| selector(budget).is_some_and(|selector| selector.matches(pod.labels())));
        budgets
    }

    fn pod_changed(&self, pod: &Pod) {
        let budgets = self.budgets_of(pod);
        if let [first, _, ..] = budgets.as_slice() {
            let message = format!(
                "Pod {:?}/{:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
                pod.namespace().unwrap_or_default(),
                pod.name_any(),
                first.name_any()
            );
            self.events.tell(pod, Weight::Warning, "MultiplePodDisruptionBudgets", message);
        }
        // All of them are counted nevertheless: which one a later eviction meets is not ours to know.
        for budget in budgets {
            self.queue.add(Key::of(&*budget));
        }
    }

    fn add_all_in(&self, namespace: Option<String>) {
        for budget in self.budgets.in_namespace(&namespace.unwrap_or_default()) {
            self.queue.add(Key::of(&*budget));
        }
    }

    async fn handle(self: Arc<Self>, key: Key) -> Next {
        let Some(budget) = self.budgets.get(&key) else { return Next::Done };
        match self.look_and_write(&budget).await {
            Ok(next) => next,
            Err(error) if error.is_object_absent() => Next::Done,
            Err(error) => {
                tracing::debug!(%key, %error, "disruption: will try again");
                Next::Retry
            }
        }
    }

    async fn look_and_write(&self, budget: &PodDisruptionBudget) -> Result<Next, Error> {
        let pods = self.pods(budget);
        let namespace = budget.namespace().unwrap_or_default();
        let mut scales = BTreeMap::new();
        let owners = pods.iter().filter_map(|pod| plan::controller(pod.owner_references()));
        for owner in owners.filter(|_| plan::needs_scales(budget)) {
            if !scales.contains_key(&owner.uid)
                && let Some(scale) = self.scales.find(owner, &namespace).await?
            {
                scales.insert(owner.uid.clone(), scale);
            }
        }
        let now = self.shared.clock.now();
        let plan = plan::plan(&Look { budget, pods: &pods, scales: &scales, now });
        self.tell(budget, &pods, &plan);
        if let Some(status) = plan.status {
            let mut budget = budget.clone();
            budget.status = Some(status);
            let api: Api<PodDisruptionBudget> = Api::namespaced(self.shared.client.clone(), &namespace);
            let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
            let written = within_deadline(api.replace_status(&budget.name_any(), &params, &budget)).await?;
            self.budgets.learn(written);
        }
        if plan.failure.is_some() {
            // The controller may only not have been seen yet.
            return Ok(Next::Retry);
        }
        let wait = plan.recheck.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        Ok(wait.map_or(Next::Done, |wait| Next::After(wait + LATE)))
    }

    fn pods(&self, budget: &PodDisruptionBudget) -> Vec<Arc<Pod>> {
        let Some(selector) = selector(budget) else { return Vec::new() };
        let mut pods = self.shared.pods.in_namespace(&budget.namespace().unwrap_or_default());
        pods.retain(|pod| selector.matches(pod.labels()));
        pods
    }

    /// Says what is strange, once for each change of the status.
    fn tell(&self, budget: &PodDisruptionBudget, pods: &[Arc<Pod>], plan: &Plan) {
        if plan.status.is_none() {
            return;
        }
        if pods.is_empty() {
            self.events.tell(budget, Weight::Normal, "NoPods", "No matching pods found");
        }
        if let Some(failure) = &plan.failure {
            let message = format!("Failed to calculate the number of expected pods: {failure}");
            self.events.tell(budget, Weight::Warning, "CalculateExpectedPodCountFailed", message);
        }
        if plan.unmanaged {
            let message = "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, \
                           the status of the PDB cannot be calculated correctly, which may result in undefined \
                           behavior. To account for these pods please set \".spec.minAvailable\" field of the \
                           PDB to an integer value.";
            self.events.tell(budget, Weight::Warning, "UnmanagedPods", message);
        }
        for pod in pods.iter().filter(|pod| plan.kept.contains(&pod.name_any())) {
            let message = format!("Pod was expected by PDB {} to be deleted but it wasn't", Key::of(budget));
            self.events.tell(&**pod, Weight::Warning, "NotDeleted", message);
        }
    }
}

/// None selects nothing; an empty one selects all.
fn selector(budget: &PodDisruptionBudget) -> Option<Selector> {
    let selector = budget.spec.as_ref()?.selector.clone()?;
    Selector::try_from(selector).ok()
}

/// What of a pod a budget counts.
fn shows(pod: &Pod) -> impl PartialEq + '_ {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    let owner = plan::controller(pod.owner_references()).map(|owner| &owner.uid);
    (pod.labels(), &pod.metadata.uid, pod.metadata.deletion_timestamp.is_some(), ready, owner)
}
