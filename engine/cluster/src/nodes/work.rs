//! Does for nodes and their pods what was decided: the only part of this controller that writes.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus, Taint};
use koinon_control::Key;
use koinon_control::call::{Error, within_deadline};
use koinon_control::events::{self, Recorder, Weight};
use koinon_control::queue::{self, Next, Queue};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;

use super::health::{self, Heard};
use super::pods::{self, Leave};
use super::taints::{self, MayEmpty, Mood};
use super::{NodeLifecycle, Settings};
use crate::MANAGER;
use crate::kubelet::is_finished;
use crate::shared::Shared;

const WORKERS: usize = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What waits to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Node(String),
    Pod(Key),
    /// The name of a node that pods speak of and that nobody knows.
    Missing(String),
    Finished,
}

struct Keeper {
    shared: Shared,
    settings: Settings,
    queue: Queue<Work>,
    memory: Mutex<Memory>,
    nodes_say: Recorder,
    taints_say: Recorder,
}

#[derive(Default)]
struct Memory {
    heard: Heard,
    /// When each taint of a node was seen first.
    tainted: BTreeMap<(String, String), Timestamp>,
    /// When a node of each zone was last told to empty itself.
    emptied: BTreeMap<String, Timestamp>,
    /// Pods that came to their end, oldest first.
    finished: BTreeSet<(Option<Timestamp>, Key)>,
}

pub(super) async fn run(lifecycle: NodeLifecycle) -> Infallible {
    let NodeLifecycle { shared, leases, settings } = lifecycle;
    let recorder = |component| events::recorder(shared.client.clone(), component, shared.clock.clone());
    let (nodes_say, nodes_write) = recorder("node-controller");
    let (taints_say, taints_write) = recorder("taint-eviction-controller");
    let keeper = Arc::new(Keeper {
        shared: shared.clone(),
        settings,
        queue: Queue::new(FIRST_PAUSE, LONGEST_PAUSE),
        memory: Mutex::default(),
        nodes_say,
        taints_say,
    });
    let work = async {
        // Who is silent and what is missing is known only then.
        shared.nodes.listed().await;
        shared.pods.listed().await;
        leases.listed().await;
        let weak = Arc::downgrade(&keeper);
        leases.on_change(move |_, after| {
            if let (Some(keeper), Some(lease)) = (weak.upgrade(), after) {
                keeper.memory.lock().heard.lease(lease, keeper.shared.clock.now());
            }
        });
        listen(&keeper);
        queue::work(&keeper.queue, WORKERS, |item| keeper.clone().handle(item)).await
    };
    tokio::select! {
        biased;
        never = work => never,
        () = nodes_write.run() => unreachable!("the keeper has a recorder"),
        () = taints_write.run() => unreachable!("the keeper has a recorder"),
    }
}

/// Has the keeper look at what changes. The views may outlive it, so they hold it only weakly.
fn listen(keeper: &Arc<Keeper>) {
    let weak = Arc::downgrade(keeper);
    keeper.shared.nodes.on_change(move |before, after| {
        let Some(keeper) = weak.upgrade() else { return };
        let Some(node) = after else {
            if let Some(before) = before {
                keeper.gone(&before.name_any());
            }
            return keeper.look_at_waiting_nodes();
        };
        keeper.memory.lock().heard.node(node, keeper.shared.clock.now());
        keeper.queue.add(Work::Node(node.name_any()));
        // Whether others may be emptied depends on how many work.
        if before.is_none_or(|before| health::is_ready(before) != health::is_ready(node)) {
            keeper.look_at_waiting_nodes();
        }
    });
    let weak = Arc::downgrade(keeper);
    keeper.shared.pods.on_change(move |before, after| {
        let Some(keeper) = weak.upgrade() else { return };
        keeper.note(before, after);
    });
}

impl Keeper {
    fn gone(&self, name: &str) {
        let mut memory = self.memory.lock();
        memory.heard.forget(name);
        memory.tainted.retain(|(node, _), _| node != name);
        self.queue.add_after(Work::Missing(name.to_owned()), self.settings.quarantine);
    }

    fn look_at_waiting_nodes(&self) {
        for node in self.shared.nodes.all().iter().filter(|node| !health::is_ready(node)) {
            self.queue.add(Work::Node(node.name_any()));
        }
    }

    /// Finds the work that a change of a pod makes; for most there is none.
    fn note(&self, before: Option<&Arc<Pod>>, after: Option<&Arc<Pod>>) {
        let place =
            |pod: &Arc<Pod>| (pod.metadata.creation_timestamp.as_ref().map(|time| time.0), Key::of(&**pod));
        if let Some(before) = before.filter(|before| is_finished(before)) {
            self.memory.lock().finished.remove(&place(before));
        }
        let Some(pod) = after else { return };
        if is_finished(pod) {
            let mut memory = self.memory.lock();
            memory.finished.insert(place(pod));
            if memory.finished.len() > self.settings.keep_finished {
                self.queue.add(Work::Finished);
            }
        }
        let name = node_of(pod);
        let node = name.and_then(|name| self.shared.nodes.get(&Key::new("", name)));
        match (name, &node) {
            (Some(name), None) => {
                self.queue.add_after(Work::Missing(name.to_owned()), self.settings.quarantine);
            }
            (Some(name), Some(node)) if !health::is_ready(node) || no_execute(node).next().is_some() => {
                self.queue.add(Work::Node(name.to_owned()));
            }
            _ => {}
        }
        if pods::is_stuck(pod, node.as_deref()) {
            self.queue.add(Work::Pod(Key::of(&**pod)));
        }
    }

    async fn handle(self: Arc<Self>, item: Work) -> Next {
        let outcome = match &item {
            Work::Node(name) => self.node(name).await,
            Work::Pod(key) => self.pod(key).await,
            Work::Missing(name) => self.missing(name).await,
            Work::Finished => self.finished().await,
        };
        match outcome {
            Ok(next) => next,
            Err(error) if error.is_object_absent() && matches!(item, Work::Node(_) | Work::Pod(_)) => {
                Next::Done
            }
            Err(error) => {
                tracing::debug!(?item, %error, "nodes: will try again");
                Next::Retry
            }
        }
    }

    async fn node(&self, name: &str) -> Result<Next, Error> {
        let key = Key::new("", name);
        let Some(node) = self.shared.nodes.get(&key) else { return Ok(Next::Done) };
        let api: Api<Node> = Api::all(self.shared.client.clone());
        let now = self.shared.clock.now();
        let until = self.memory.lock().heard.until(&self.settings, &node);
        let mut again = Some(until).filter(|until| *until > now);
        if until <= now
            && let Some(conditions) = health::unknown(&node, now)
        {
            let mut changed = Node::clone(&node);
            changed.status.get_or_insert_default().conditions = Some(conditions);
            let answer = within_deadline(api.replace_status(name, &written(), &changed)).await?;
            if health::is_ready(&node) {
                let message = format!("Node {name} status is now: NodeNotReady");
                self.nodes_say.tell(&*node, Weight::Normal, "NodeNotReady", message);
            }
            // What was learnt brings the node here again.
            self.shared.nodes.learn(answer);
            return Ok(Next::Done);
        }
        let (taints, may_empty_at) = self.taints(&node, now);
        if let Some(taints) = taints {
            let taints = (!taints.is_empty()).then_some(taints);
            let change =
                json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": taints}});
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            let answer = within_deadline(api.patch(name, &params, &Patch::Merge(change))).await?;
            self.shared.nodes.learn(answer);
            return Ok(Next::Done);
        }
        again = earliest(again, may_empty_at);
        if !health::is_ready(&node) || no_execute(&node).next().is_some() {
            again = earliest(again, self.look_after_pods(&node, now).await?);
        }
        Ok(after(again, now))
    }

    /// The taints that a node should get now, and when it may be emptied if it has to wait for that.
    fn taints(&self, node: &Node, now: Timestamp) -> (Option<Vec<Taint>>, Option<Timestamp>) {
        let all = self.shared.nodes.all();
        let zone = taints::zone(node);
        let mood = taints::moods(all.iter().map(|node| &**node)).get(&zone).copied().unwrap_or(Mood::Normal);
        let mut memory = self.memory.lock();
        let waits = taints::waits_to_empty(node) && mood == Mood::Normal;
        let free_at =
            memory.emptied.get(&zone).and_then(|last| last.checked_add(self.settings.empty_every).ok());
        let free_at = free_at.filter(|free_at| *free_at > now);
        if waits && free_at.is_some() {
            return (taints::change(node, mood, MayEmpty::NotYet, now), free_at);
        }
        if waits {
            memory.emptied.insert(zone, now);
        }
        (taints::change(node, mood, MayEmpty::Now, now), None)
    }

    /// Marks and sends away the pods of a node that does not work, or that is tainted so; says when the next
    /// has to leave.
    async fn look_after_pods(&self, node: &Node, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        let name = node.name_any();
        let taints: Vec<Taint> = no_execute(node).cloned().collect();
        let mut next = None;
        let pods = self.shared.pods.all();
        for pod in pods.iter().filter(|pod| node_of(pod) == Some(&name) && !is_finished(pod)) {
            if !health::is_ready(node)
                && let Some(status) = pods::not_ready(pod, now)
            {
                self.write(pod, status).await?;
                self.nodes_say.tell(&**pod, Weight::Warning, "NodeNotReady", "Node is not ready");
                continue;
            }
            if pods::is_stuck(pod, Some(node)) {
                self.queue.add(Work::Pod(Key::of(&**pod)));
            }
            if pod.metadata.deletion_timestamp.is_some() {
                continue;
            }
            match pods::leave(pod, &taints, |taint| self.seen(&name, taint, now)) {
                Leave::Never => {}
                Leave::At(time) if time > now => next = earliest(next, Some(time)),
                Leave::At(_) => self.send_away(pod, now).await?,
            }
        }
        Ok(next)
    }

    /// When a taint that does not say was seen first.
    fn seen(&self, node: &str, taint: &Taint, now: Timestamp) -> Timestamp {
        let what = format!("{}={}", taint.key, taint.value.as_deref().unwrap_or_default());
        *self.memory.lock().tainted.entry((node.to_owned(), what)).or_insert(now)
    }

    async fn send_away(&self, pod: &Pod, now: Timestamp) -> Result<(), Error> {
        let message = format!("Marking for deletion Pod {}", Key::of(pod));
        self.taints_say.tell(pod, Weight::Normal, "TaintManagerEviction", message);
        if let Some(status) = pods::sent_away(pod, now) {
            self.write(pod, status).await?;
        }
        self.delete(pod, DeleteParams::default()).await
    }

    /// A pod that nobody else would ever end.
    async fn pod(&self, key: &Key) -> Result<Next, Error> {
        let Some(pod) = self.shared.pods.get(key) else { return Ok(Next::Done) };
        let node = node_of(&pod).and_then(|name| self.shared.nodes.get(&Key::new("", name)));
        if pods::is_stuck(&pod, node.as_deref()) {
            self.clear_away(&pod, pods::failed(&pod)).await?;
        }
        Ok(Next::Done)
    }

    /// The pods of a node that nobody knows: only when the server itself says that there is no such node, they
    /// are lost.
    async fn missing(&self, name: &str) -> Result<Next, Error> {
        if self.shared.nodes.get(&Key::new("", name)).is_some() {
            return Ok(Next::Done);
        }
        let pods = self.shared.pods.all();
        let pods: Vec<_> = pods.iter().filter(|pod| node_of(pod) == Some(name)).collect();
        // Those that only a finalizer holds are not ours to move.
        let pods: Vec<_> =
            pods.into_iter().filter(|pod| pod.metadata.deletion_grace_period_seconds != Some(0)).collect();
        if pods.is_empty() {
            return Ok(Next::Done);
        }
        let api: Api<Node> = Api::all(self.shared.client.clone());
        match within_deadline(api.get(name)).await {
            Ok(node) => {
                self.shared.nodes.learn(node);
                return Ok(Next::Done);
            }
            Err(error) if error.is_object_absent() => {}
            Err(error) => return Err(error),
        }
        let now = self.shared.clock.now();
        for pod in pods {
            self.clear_away(pod, pods::lost_its_node(pod, now)).await?;
        }
        Ok(Next::Done)
    }

    async fn finished(&self) -> Result<Next, Error> {
        let (all, keep) = (self.memory.lock().finished.clone(), self.settings.keep_finished);
        for (_, key) in all.iter().take(all.len().saturating_sub(keep)) {
            let Some(pod) = self.shared.pods.get(key).filter(|pod| is_finished(pod)) else { continue };
            if pod.metadata.deletion_grace_period_seconds != Some(0) {
                self.clear_away(&pod, None).await?;
            }
        }
        Ok(Next::Done)
    }

    /// Ends a pod without asking its node.
    async fn clear_away(&self, pod: &Pod, status: Option<PodStatus>) -> Result<(), Error> {
        if let Some(status) = status {
            match self.write(pod, status).await {
                Err(error) if error.is_object_absent() => return Ok(()),
                outcome => outcome?,
            }
        }
        self.delete(pod, DeleteParams::default().grace_period(0)).await
    }

    async fn write(&self, pod: &Pod, status: PodStatus) -> Result<(), Error> {
        let changed = Pod { status: Some(status), ..pod.clone() };
        let call = self.pods_like(pod);
        let answer = within_deadline(call.replace_status(&pod.name_any(), &written(), &changed)).await?;
        self.shared.pods.learn(answer);
        Ok(())
    }

    async fn delete(&self, pod: &Pod, params: DeleteParams) -> Result<(), Error> {
        let preconditions = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..params };
        match within_deadline(self.pods_like(pod).delete(&pod.name_any(), &params)).await {
            Err(error) if !error.is_object_absent() => Err(error),
            _ => Ok(()),
        }
    }

    fn pods_like(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.shared.client.clone(), &pod.namespace().unwrap_or_default())
    }
}

fn no_execute(node: &Node) -> impl Iterator<Item = &Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute")
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    [a, b].into_iter().flatten().min()
}

fn after(time: Option<Timestamp>, now: Timestamp) -> Next {
    match time {
        Some(time) => Next::After(Duration::try_from(time.duration_since(now)).unwrap_or_default()),
        None => Next::Done,
    }
}

fn written() -> PostParams {
    PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() }
}
