//! The scheduler: every pod that has no place gets the node that it fits on best, or is told why it waits.
//!
//! ```text
//! nodes, pods ─► ledger (what is taken where) ─► decide (pure) ─► binding, or a condition that says why not
//!                line (who is next, who waits)
//! ```
//!
//! Pods that fit nowhere are tried again when room appears, never by the clock. Pods of higher priority come
//! first, but nobody is sent away for them: there is no preemption.

mod amounts;
mod decide;
mod ledger;
mod line;
mod neighbours;
mod selector;
#[cfg(test)]
mod tests;

pub use self::amounts::is_positive;
use std::convert::Infallible;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use koinon_control::call::{Error, within_deadline};
use koinon_control::events::{self, Recorder, Weight};
use koinon_control::{Clock, Key, View};
use kube::api::PostParams;
use kube::core::Status;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::decide::Decision;
use self::ledger::{Gain, Ledger, node_of};
use self::line::Line;
pub(crate) use self::selector::{matches_taint, tolerates, wants_node};
use crate::kubelet::is_finished;
use crate::shared::Shared;

/// The name that pods ask for this scheduler by, and that it writes under.
pub const NAME: &str = "default-scheduler";
/// Calls at a time.
const CALLS: usize = 16;

/// Whether pods get events about where they went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Events {
    /// All that a cluster writes.
    #[default]
    All,
    /// Only what users must know: that a pod fits nowhere. A large fleet saves one write for each pod.
    WarningsOnly,
}

/// The scheduler of one cluster.
pub struct Scheduler {
    client: Client,
    clock: Clock,
    pods: Arc<View<Pod>>,
    shared: Shared,
    events: Events,
}

impl Scheduler {
    pub fn new(shared: &Shared) -> Scheduler {
        Scheduler {
            client: shared.client.clone(),
            clock: shared.clock.clone(),
            pods: shared.pods.clone(),
            shared: shared.clone(),
            events: Events::default(),
        }
    }

    /// Which events it writes.
    pub fn events(self, events: Events) -> Scheduler {
        Scheduler { events, ..self }
    }

    /// Places pods for as long as it is polled.
    pub async fn run(self) -> Infallible {
        let (recorder, writer) = events::recorder(self.client.clone(), NAME, self.clock.clone());
        let hall = Arc::new(Hall::default());
        let work = async {
            // A node that is not known yet, or a pod, would make others look better or emptier than they are.
            self.shared.nodes.listed().await;
            self.pods.listed().await;
            self.shared.namespaces.listed().await;
            listen(&self.shared, &hall);
            self.place_all(&hall, &recorder).await
        };
        tokio::select! {
            biased;
            never = work => never,
            () = writer.run() => unreachable!("the scheduler keeps a recorder"),
        }
    }

    async fn place_all(&self, hall: &Hall, recorder: &Recorder) -> Infallible {
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < CALLS
                && let Some(key) = hall.state.lock().line.take(Instant::now())
            {
                running.push(self.place(hall, recorder, key));
            }
            let next = hall.state.lock().line.next_time();
            tokio::select! {
                biased;
                Some(()) = running.next(), if !running.is_empty() => {}
                () = hall.changed.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Does for one pod all that can be done now.
    async fn place(&self, hall: &Hall, recorder: &Recorder, key: Key) {
        let Some(pod) = self.pods.get(&key).filter(|pod| is_ours(pod)) else {
            return hall.state.lock().line.remove(&key);
        };
        let uid = pod.uid().unwrap_or_default();
        let assumed = hall.state.lock().ledger.assumed(&uid).map(str::to_owned);
        if assumed.is_some() {
            // An earlier binding was not answered: only the server knows what became of it.
            return self.ask(hall, &pod, &key).await;
        }
        let decision = {
            let mut state = hall.state.lock();
            let decision = decide::decide(&pod, &state.ledger);
            if let Decision::Place(node) = &decision {
                state.ledger.assume(&pod, node);
                state.line.gained(Gain::Neighbours);
            }
            decision
        };
        match decision {
            Decision::Place(node) => match self.bind(&pod, &key, &node).await {
                Ok(_) => {
                    hall.state.lock().line.remove(&key);
                    if self.events == Events::All {
                        let message =
                            format!("Successfully assigned {}/{} to {node}", key.namespace, key.name);
                        recorder.tell(&*pod, Weight::Normal, "Scheduled", message);
                    }
                }
                Err(error) => {
                    tracing::debug!(%key, node, %error, "scheduler: not bound");
                    self.ask(hall, &pod, &key).await;
                }
            },
            Decision::Wait(message) => match self.tell_why(&pod, &key, &message, recorder).await {
                Ok(()) => {
                    let needs = if neighbours::cares(&pod) { Gain::Neighbours } else { Gain::Room };
                    hall.state.lock().line.wait(&key, needs);
                }
                Err(error) if error.is_object_absent() => hall.state.lock().line.remove(&key),
                Err(error) => {
                    tracing::debug!(%key, %error, "scheduler: will try again");
                    hall.state.lock().line.try_again(&key, Instant::now());
                }
            },
        }
    }

    async fn bind(&self, pod: &Pod, key: &Key, node: &str) -> Result<Status, Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                uid: pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".into()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        within_deadline(api.create_subresource("binding", &key.name, &written(), &binding)).await
    }

    /// Finds out whether a pod was bound after all. As long as nobody knows, its room stays taken.
    async fn ask(&self, hall: &Hall, pod: &Pod, key: &Key) {
        let uid = pod.uid().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        match within_deadline(api.get(&key.name)).await {
            Ok(now) if now.uid().as_deref() == Some(&uid) && node_of(&now).is_some() => {
                hall.state.lock().line.remove(key);
                self.pods.learn(now);
            }
            Ok(now) => {
                let mut state = hall.state.lock();
                state.ledger.recall(&uid);
                state.line.try_again(key, Instant::now());
                drop(state);
                self.pods.learn(now);
            }
            Err(error) if error.is_object_absent() => {
                let mut state = hall.state.lock();
                state.ledger.recall(&uid);
                state.line.remove(key);
                state.line.gained(Gain::Room);
            }
            Err(error) => {
                tracing::debug!(%key, %error, "scheduler: not known whether it was bound");
                hall.state.lock().line.try_again(key, Instant::now());
            }
        }
    }

    /// Says on the pod why it waits, unless that stands there already.
    async fn tell_why(&self, pod: &Pod, key: &Key, message: &str, recorder: &Recorder) -> Result<(), Error> {
        let Some(conditions) = conditions(pod, message, self.clock.now()) else { return Ok(()) };
        let mut changed = pod.clone();
        changed.status.get_or_insert_default().conditions = Some(conditions);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let answer = within_deadline(api.replace_status(&key.name, &written(), &changed)).await?;
        recorder.tell(pod, Weight::Warning, "FailedScheduling", message);
        self.pods.learn(answer);
        Ok(())
    }
}

/// What the scheduler knows and whom it has to place.
#[derive(Default)]
struct Hall {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    ledger: Ledger,
    line: Line,
}

impl Hall {
    fn change(&self, change: impl FnOnce(&mut State) -> Gain) {
        let mut state = self.state.lock();
        let gain = change(&mut state);
        state.line.gained(gain);
        drop(state);
        self.changed.notify_one();
    }
}

/// Keeps ledger and line up to date. The views may outlive the scheduler, so they hold it only weakly.
fn listen(shared: &Shared, hall: &Arc<Hall>) {
    let weak = Arc::downgrade(hall);
    shared.namespaces.on_change(move |before, after| {
        let Some(hall) = weak.upgrade() else { return };
        hall.change(|state| {
            let labels = after.map(|after| after.metadata.labels.clone().unwrap_or_default());
            let name = after.or(before).map(|one| one.name_any()).unwrap_or_default();
            let old = match labels.clone() {
                Some(labels) => state.ledger.namespaces.insert(name, labels),
                None => state.ledger.namespaces.remove(&name),
            };
            if old == labels { Gain::Nothing } else { Gain::Neighbours }
        });
    });
    let weak = Arc::downgrade(hall);
    shared.nodes.on_change(move |before, after| {
        let Some(hall) = weak.upgrade() else { return };
        hall.change(|state| match (before, after) {
            (_, Some(after)) => state.ledger.put_node(after),
            (Some(before), None) => {
                state.ledger.drop_node(&before.name_any());
                // Those who wait hear that there is one node less.
                Gain::Room
            }
            (None, None) => Gain::Nothing,
        });
    });
    let weak = Arc::downgrade(hall);
    shared.pods.on_change(move |before, after| {
        let Some(hall) = weak.upgrade() else { return };
        hall.change(|state| {
            let replaced = before.filter(|before| after.is_none_or(|after| after.uid() != before.uid()));
            let mut gain = Gain::Nothing;
            if let Some(gone) = replaced {
                gain = state.ledger.drop_pod(&gone.uid().unwrap_or_default());
                state.line.remove(&Key::of(&**gone));
            }
            let Some(after) = after else { return gain };
            gain = gain.max(state.ledger.put_pod(after));
            let key = Key::of(&**after);
            if !is_ours(after) {
                state.line.remove(&key);
            } else if before.is_none_or(|before| matters(before) != matters(after)) {
                state.line.add(key, after.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0));
            }
            gain
        });
    });
}

/// What of a pod decides where it goes.
fn matters(pod: &Pod) -> impl PartialEq + '_ {
    (&pod.metadata.uid, &pod.metadata.labels, &pod.spec)
}

/// Whether this scheduler has to find a place for a pod.
fn is_ours(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    let named = spec.scheduler_name.as_deref().is_none_or(|name| name == NAME);
    node_of(pod).is_none()
        && named
        && !gated
        && !is_finished(pod)
        && pod.metadata.deletion_timestamp.is_none()
}

/// The conditions of a pod that fits nowhere, unless they say so already.
fn conditions(pod: &Pod, message: &str, now: jiff::Timestamp) -> Option<Vec<PodCondition>> {
    const SCHEDULED: &str = "PodScheduled";
    let before = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let old = before.iter().find(|condition| condition.type_ == SCHEDULED);
    let since = old.filter(|old| old.status == "False").and_then(|old| old.last_transition_time.clone());
    let condition = PodCondition {
        type_: SCHEDULED.to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        message: Some(message.to_owned()),
        observed_generation: pod.metadata.generation,
        last_probe_time: None,
        last_transition_time: since.or_else(|| jiff::Timestamp::from_second(now.as_second()).ok().map(Time)),
    };
    if old == Some(&condition) {
        return None;
    }
    let others = before.iter().filter(|condition| condition.type_ != SCHEDULED).cloned();
    Some(others.chain([condition]).collect())
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn written() -> PostParams {
    PostParams { field_manager: Some(NAME.into()), ..PostParams::default() }
}
