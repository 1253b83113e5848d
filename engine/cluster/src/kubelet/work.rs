//! Does for nodes and pods what was decided: the only part of the kubelet that writes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use koinon_control::call::{Error, within_deadline};
use koinon_control::events::{self, Recorder, Weight};
use koinon_control::queue::{self, Next, Queue};
use koinon_control::{Key, View};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;

use super::behaviour::Behaviour;
use super::memory::{Memory, Novelty, node_of};
use super::node::{self, LEASES};
use super::pod::{self, Act, Container, Place, Told};
use super::{Kubelet, Settings};
use koinon_control::Clock;

const MANAGER: &str = "kubelet";
/// Calls at a time; each is short, and the cluster has other clients.
const WORKERS: usize = 16;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What waits to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Register(String),
    Node(String),
    Heartbeat(String),
    Pod(Key),
}

struct Worker {
    client: kube::Client,
    clock: Clock,
    nodes: Arc<View<Node>>,
    pods: Arc<View<Pod>>,
    settings: Settings,
    queue: Queue<Work>,
    memory: Mutex<Memory>,
    leases: Mutex<BTreeMap<String, Lease>>,
    /// Nodes as we last tried to write them: the server may have done so although it did not answer. They get
    /// their addresses one after the other, so that no two get the same.
    attempts: tokio::sync::Mutex<BTreeMap<String, Arc<Node>>>,
    recorder: Recorder,
}

pub(super) async fn run(kubelet: Kubelet) -> Infallible {
    let (recorder, writer) = events::recorder(kubelet.client.clone(), MANAGER, kubelet.clock.clone());
    let worker = Arc::new(Worker {
        client: kubelet.client,
        clock: kubelet.clock,
        nodes: kubelet.nodes,
        pods: kubelet.pods,
        settings: kubelet.settings,
        queue: Queue::new(FIRST_PAUSE, LONGEST_PAUSE),
        memory: Mutex::default(),
        leases: Mutex::default(),
        attempts: tokio::sync::Mutex::default(),
        recorder,
    });
    let work = async {
        // Which names and addresses are taken is known only then.
        worker.nodes.listed().await;
        worker.pods.listed().await;
        listen(&worker);
        for number in 1..=worker.settings.nodes {
            worker.queue.add(Work::Register(format!("{}{number}", worker.settings.name_prefix)));
        }
        queue::work(&worker.queue, WORKERS, |item| worker.clone().handle(item)).await
    };
    tokio::select! {
        biased;
        never = work => never,
        () = writer.run() => unreachable!("the worker keeps a recorder"),
    }
}

/// Has the worker look at what changes. The views may outlive it, so they hold it only weakly.
fn listen(worker: &Arc<Worker>) {
    let weak: Weak<Worker> = Arc::downgrade(worker);
    worker.pods.on_change(move |before, after| {
        let Some(worker) = weak.upgrade() else { return };
        let replaced = before.filter(|before| after.is_none_or(|after| after.uid() != before.uid()));
        if let Some(gone) = replaced {
            worker.memory.lock().forget(gone);
        }
        let Some(after) = after.filter(|after| node_of(after).is_some()) else { return };
        // The watch shows once more what we wrote ourselves.
        if before.is_some_and(|before| before.resource_version() == after.resource_version()) {
            return;
        }
        worker.memory.lock().note(after);
        worker.queue.add(Work::Pod(Key::of(&**after)));
    });
    let weak = Arc::downgrade(worker);
    worker.nodes.on_change(move |before, after| {
        let Some(worker) = weak.upgrade() else { return };
        let Some(after) = after.filter(|after| node::is_simulated(after)) else { return };
        let spoke = before.is_some_and(|before| before.uid() == after.uid() && node::speaks(before));
        worker.queue.add(Work::Node(after.name_any()));
        if node::speaks(after) && !spoke {
            worker.queue.add(Work::Heartbeat(after.name_any()));
        }
    });
}

impl Worker {
    async fn handle(self: Arc<Self>, item: Work) -> Next {
        let outcome = match &item {
            Work::Register(name) => self.register(name).await,
            Work::Node(name) => self.node(name).await,
            Work::Heartbeat(name) => self.heartbeat(name).await,
            Work::Pod(key) => self.pod(key).await,
        };
        match outcome {
            Ok(next) => next,
            // Gone: the watch will say so too.
            Err(error) if error.is_object_absent() && !matches!(item, Work::Heartbeat(_)) => Next::Done,
            // What the server does not accept will not be accepted the next time either: somebody should know.
            Err(error) if matches!(error.code(), Some(400 | 403 | 422)) => {
                tracing::warn!(?item, %error, "kubelet: refused");
                Next::Retry
            }
            Err(error) => {
                tracing::debug!(?item, %error, "kubelet: will try again");
                Next::Retry
            }
        }
    }

    /// Registers a node once; whoever deletes it later means it.
    async fn register(&self, name: &str) -> Result<Next, Error> {
        let mut attempts = self.attempts.lock().await;
        let all = self.all_nodes(&attempts, name);
        let node = node::registration(&self.settings, name, &all, self.clock.now());
        if node::pieces(&node).len() < self.settings.pod_ranges.len() {
            tracing::warn!(
                name,
                "kubelet: no addresses are left for the pods of this node; choose a larger range"
            );
        }
        attempts.insert(name.to_owned(), Arc::new(node.clone()));
        let api: Api<Node> = Api::all(self.client.clone());
        match within_deadline(api.create(&written(), &node)).await {
            Ok(node) => self.nodes.learn(node),
            Err(error) if error.is_conflict() => {
                // Somebody has this name, or an earlier answer was lost: the node itself tells.
                let known = within_deadline(api.get_opt(name)).await?;
                let Some(known) = known else { return Err(error) };
                if !node::is_simulated(&known) {
                    tracing::warn!(
                        name,
                        "kubelet: there is a node of this name that is not simulated, and it is left alone; \
                         choose another name prefix"
                    );
                }
                self.nodes.learn(known);
            }
            Err(error) => return Err(error),
        }
        attempts.remove(name);
        Ok(Next::Done)
    }

    /// All nodes that there are or may be.
    fn all_nodes(&self, attempts: &BTreeMap<String, Arc<Node>>, but: &str) -> Vec<Arc<Node>> {
        let mut all = self.nodes.all();
        all.extend(attempts.iter().filter(|(name, _)| *name != but).map(|(_, node)| node.clone()));
        all
    }

    async fn node(&self, name: &str) -> Result<Next, Error> {
        let Some(node) = self.node_that_speaks(name) else { return Ok(Next::Done) };
        let mut attempts = self.attempts.lock().await;
        let all = self.all_nodes(&attempts, name);
        let lacks = node::lacks(&self.settings, &node, &all);
        let api: Api<Node> = Api::all(self.client.clone());
        if lacks != node::Lacks::default() {
            let mut change =
                json!({"metadata": {"resourceVersion": node.resource_version(), "labels": lacks.labels}});
            if !lacks.pieces.is_empty() {
                let spec = node::spec_of(&lacks.pieces);
                change["spec"] = json!(spec);
                attempts.insert(name.to_owned(), Arc::new(Node { spec: Some(spec), ..Node::default() }));
            }
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            let node = within_deadline(api.patch(name, &params, &Patch::Merge(change))).await?;
            attempts.remove(name);
            self.nodes.learn(node);
            // What it learnt brings the node here again.
            return Ok(Next::Done);
        }
        let now = self.clock.now();
        let free = node::free_addresses(&self.settings, &all);
        let Some(status) = node::status(&self.settings, &node, &free, now) else {
            let last = node.status.as_ref().and_then(node::last_heartbeat).unwrap_or(now);
            let since = Duration::try_from(now.duration_since(last)).unwrap_or_default();
            return Ok(Next::After(self.settings.status_every.saturating_sub(since)));
        };
        let changed = Node { status: Some(status), ..Node::clone(&node) };
        attempts.insert(name.to_owned(), Arc::new(changed.clone()));
        self.nodes.learn(within_deadline(api.replace_status(name, &written(), &changed)).await?);
        attempts.remove(name);
        Ok(Next::Done)
    }

    async fn heartbeat(&self, name: &str) -> Result<Next, Error> {
        let Some(node) = self.node_that_speaks(name) else {
            self.leases.lock().remove(name);
            return Ok(Next::Done);
        };
        let api: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let now = self.clock.now();
        let known = self.leases.lock().remove(name);
        let known = known.filter(|lease| {
            lease
                .metadata
                .owner_references
                .iter()
                .flatten()
                .any(|owner| Some(&owner.uid) == node.metadata.uid.as_ref())
        });
        let is_first = known.is_none();
        let fresh = node::lease(&self.settings, &node, now);
        let mut lease = match known {
            Some(mut lease) => {
                if let Some(spec) = &mut lease.spec {
                    spec.renew_time = Some(MicroTime(now));
                }
                within_deadline(api.replace(name, &written(), &lease)).await?
            }
            None => match within_deadline(api.get_opt(name)).await? {
                None => within_deadline(api.create(&written(), &fresh)).await?,
                Some(mut lease) => {
                    lease.spec = fresh.spec;
                    lease.metadata.owner_references = fresh.metadata.owner_references;
                    within_deadline(api.replace(name, &written(), &lease)).await?
                }
            },
        };
        lease.metadata.managed_fields = None;
        self.leases.lock().insert(name.to_owned(), lease);
        if is_first {
            self.look_at_pods_of(name);
        }
        Ok(Next::After(self.settings.heartbeat))
    }

    /// After a node came, or came back, its pods may have waited for it.
    fn look_at_pods_of(&self, node: &str) {
        for pod in self.pods.all().iter().filter(|pod| node_of(pod) == Some(node)) {
            self.queue.add(Work::Pod(Key::of(&**pod)));
        }
    }

    async fn pod(&self, key: &Key) -> Result<Next, Error> {
        let Some(pod) = self.pods.get(key) else { return Ok(Next::Done) };
        let Some(node) = node_of(&pod).and_then(|name| self.node_that_speaks(name)) else {
            return Ok(Next::Done);
        };
        let uid = pod.uid().unwrap_or_default();
        let now = self.clock.now();
        let (behaviour, complaints) = Behaviour::read(&self.settings, pod.metadata.annotations.as_ref());
        let host = node::addresses(&node);
        let next = {
            let mut memory = self.memory.lock();
            let (times, deletion) = memory.times(&pod, now);
            let addresses = memory.addresses(&uid, &node.name_any(), &node::pieces(&node));
            if deletion == Novelty::News {
                self.tell(&pod, &node, &pod::told_of_deletion(&pod));
            }
            if memory.complaints(&uid, &complaints) == Novelty::News {
                self.complain(&pod, &node, &complaints);
            }
            pod::next(&pod, Place { host: &host, addresses: &addresses, behaviour: &behaviour }, times)
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        match next.act {
            Act::Nothing => {}
            Act::Write(status) => {
                let changed = Pod { status: Some(*status), ..Pod::clone(&pod) };
                let answer = within_deadline(api.replace_status(&key.name, &written(), &changed)).await?;
                self.memory.lock().entered(&uid, next.stage, next.since);
                self.tell(&pod, &node, &next.told);
                self.pods.learn(answer);
            }
            Act::Delete => {
                let preconditions = Preconditions { uid: Some(uid), resource_version: None };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                within_deadline(api.delete(&key.name, &params.grace_period(0))).await?;
            }
        }
        Ok(match next.again {
            Some(again) => Next::After(Duration::try_from(again.duration_since(now)).unwrap_or_default()),
            None => Next::Done,
        })
    }

    fn node_that_speaks(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.get(&Key::new("", name)).filter(|node| node::speaks(node))
    }

    fn tell(&self, pod: &Pod, node: &Node, told: &[Told]) {
        if !self.settings.events {
            return;
        }
        let recorder = self.recorder.on_host(&node.name_any());
        for told in told {
            let path = match &told.container {
                Container::Init(name) => format!("spec.initContainers{{{name}}}"),
                Container::Regular(name) => format!("spec.containers{{{name}}}"),
            };
            let about = ObjectReference { field_path: Some(path), ..pod.object_ref(&()) };
            recorder.tell_about(about, told.weight, told.reason, told.message.clone());
        }
    }

    /// Wrong annotations are told even where other events are not: nothing else would say so.
    fn complain(&self, pod: &Pod, node: &Node, complaints: &[String]) {
        for complaint in complaints {
            let recorder = self.recorder.on_host(&node.name_any());
            recorder.tell(pod, Weight::Warning, "InvalidSimulation", complaint.clone());
        }
    }
}

fn written() -> PostParams {
    PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() }
}
