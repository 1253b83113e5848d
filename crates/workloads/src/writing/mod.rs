//! The executor of writes to members: all at once, none waits for another, and a slow one is left to itself.

mod apply;
mod foreign;
mod history;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use koinon_api::placement::ClusterPlacement;
use koinon_control::Key;
use koinon_control::events::{Recorder, Weight};
use koinon_fleet::member::Class;
use koinon_fleet::{Index, Member, Record};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub(crate) use self::apply::Expected;
use self::apply::{Failure, Keep, Target};
pub(crate) use self::history::{Has, Place, WriteHistory, WriteState};
use crate::content;
use crate::members::Kind;
use crate::messages::several;
use crate::takeover::Presence;

/// Writes that take longer go on by themselves; whoever ordered them goes on without.
const PATIENCE: Duration = Duration::from_secs(2);

/// A kind that is written to members.
pub(crate) trait Written:
    Record<Object: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize>
{
    const KIND: Kind;
    /// Stands for what the object says, apart from its count.
    fn content(&self) -> u64;
}

/// Who decides the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// We do.
    Of(i64),
    /// The member does.
    AsItIs,
}

/// Where the pod template comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Template {
    /// It is in the manifest, and known by this name where templates have names.
    Said(Option<Arc<str>>),
    /// The member keeps its own.
    AsItIs,
}

impl Count {
    fn ours(self) -> Option<i64> {
        match self {
            Count::Of(replicas) => Some(replicas),
            Count::AsItIs => None,
        }
    }
}

/// One write.
pub(crate) struct Order {
    pub(crate) member: Arc<Member>,
    pub(crate) key: Key,
    /// What the object should be, with its count where that is ours.
    pub(crate) manifest: Value,
    /// Stands for the manifest, apart from its count.
    pub(crate) content: u64,
    pub(crate) count: Count,
    pub(crate) template: Template,
    pub(crate) why: Why,
    /// The federated object, for events.
    pub(crate) about: ObjectReference,
    /// The federation's namespace: one that the member lacks is created like it.
    pub(crate) namespace: Option<Arc<Namespace>>,
}

/// Why something is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is not there yet.
    New,
    /// It was there, and somebody deleted it.
    Deleted,
    /// Something else is wanted.
    Changed,
    /// Somebody changed what is ours.
    Drifted,
    /// Somebody else made it, and it becomes ours; these are the differences.
    TakenOver(Expected, Vec<String>),
}

impl Why {
    /// Why something is written where nothing is. `took` says whether the member ever took it from us: an object that is going
    /// may lose its pods before it is gone, as when it is deleted without them, so the last count alone does not tell.
    pub(crate) fn missing(last: Option<&ClusterPlacement>, took: bool) -> Why {
        let had = last.is_some_and(|last| last.replicas > 0 || took && last.desired > 0);
        if had { Why::Deleted } else { Why::New }
    }
}

/// Carries writes out.
pub(crate) struct Writer<R: Written> {
    executor: Arc<Executor<R>>,
    /// Ends with the writer, so that nobody writes who should not any more.
    tasks: Mutex<JoinSet<()>>,
}

struct Executor<R: Written> {
    index: Arc<Index<R>>,
    history: Arc<WriteHistory>,
    presence: Arc<Presence<R>>,
    recorder: Recorder,
    done: Box<dyn Fn(&Key) + Send + Sync>,
}

impl<R: Written> Writer<R> {
    /// A writer that calls `done` after a write that nobody waited for any more.
    pub(crate) fn new(
        index: Arc<Index<R>>,
        history: Arc<WriteHistory>,
        presence: Arc<Presence<R>>,
        recorder: Recorder,
        done: impl Fn(&Key) + Send + Sync + 'static,
    ) -> Writer<R> {
        let executor = Arc::new(Executor { index, history, presence, recorder, done: Box::new(done) });
        Writer { executor, tasks: Mutex::default() }
    }

    /// Sends all of them and waits until all are answered, but not for long.
    pub(crate) async fn carry_out(&self, orders: Vec<Order>) {
        let (running, mut all_done) = mpsc::channel::<()>(1);
        let left_alone = Arc::new(AtomicBool::new(false));
        {
            let mut tasks = self.tasks.lock();
            while tasks.try_join_next().is_some() {}
            for order in orders {
                let (executor, running, left_alone) =
                    (self.executor.clone(), running.clone(), left_alone.clone());
                executor.history.send(&order.place::<R>(), order.count.ours());
                tasks.spawn(async move {
                    let key = order.key.clone();
                    executor.carry_out(order).await;
                    drop(running);
                    if left_alone.load(Ordering::Acquire) {
                        (executor.done)(&key);
                    }
                });
            }
        }
        drop(running);
        // Nobody ever sends: it ends when the last one is done.
        let _ = tokio::time::timeout(PATIENCE, all_done.recv()).await;
        // Set before anybody looks again: what was answered until then is seen, what comes later is told.
        left_alone.store(true, Ordering::Release);
    }
}

impl Order {
    /// What it says, and what it is about.
    fn identity(&self) -> (u64, u64) {
        (self.content, content::subject(&self.manifest))
    }

    fn place<R: Written>(&self) -> Place {
        (R::KIND, self.key.clone(), self.member.name().clone())
    }
}

impl<R: Written> Executor<R> {
    async fn carry_out(&self, order: Order) {
        let place = order.place::<R>();
        let target = Target {
            client: order.member.client(),
            namespace: &order.key.namespace,
            name: &order.key.name,
            like: order.namespace.as_deref(),
        };
        let there = matches!(order.why, Why::Changed | Why::Drifted);
        let keep = Keep { count: order.count == Count::AsItIs, template: order.template == Template::AsItIs };
        let outcome = if let Why::TakenOver(expected, _) = &order.why {
            target.take_over::<R::Object>(&order.manifest, expected, keep.count).await
        } else if there && (keep.count || keep.template) {
            target.apply_keeping::<R::Object>(&order.manifest, keep).await
        } else {
            target.apply::<R::Object>(&order.manifest, there).await
        };
        match outcome {
            Ok(object) => {
                let actual = R::fold(&object).map_or(order.content, |record| record.content());
                let template = match &order.template {
                    Template::Said(name) => name.clone(),
                    Template::AsItIs => None,
                };
                self.history.taken(&place, order.content, actual, order.count.ours(), template);
                self.index.learn(order.member.name(), &object);
                self.tell(&order);
                if order.why == Why::Drifted && self.history.repaired(&place) {
                    self.history.refused(
                        &place,
                        order.identity(),
                        "somebody there changes it back again and again",
                    );
                }
                self.history.answered(&place);
            }
            Err(failure) => {
                if matches!(failure, Failure::Gone | Failure::Appeared | Failure::Replacing) {
                    self.presence.doubt(&order.key, &order.member);
                }
                self.failed(&order, &place, &failure);
                self.history.answered(&place);
            }
        }
    }

    fn tell(&self, order: &Order) {
        let (kind, name) = (R::KIND.as_str(), order.member.name());
        let told = match &order.why {
            Why::TakenOver(_, differs) if differs.is_empty() => Some((
                Weight::Normal,
                "TakenOver",
                format!(
                    "cluster {name} had this {kind} already: it was taken over, and nothing of it changes"
                ),
            )),
            Why::TakenOver(_, differs) => Some((
                Weight::Warning,
                "Overwritten",
                format!(
                    "cluster {name} had another {kind} of this name: it was taken over, and changed in {}",
                    several(differs, ", ")
                ),
            )),
            Why::Deleted => Some((
                Weight::Normal,
                "Recreated",
                format!("created again in cluster {name}: somebody deleted it there"),
            )),
            Why::Drifted => Some((
                Weight::Normal,
                "Repaired",
                format!("put right in cluster {name}: somebody changed there what comes from here"),
            )),
            Why::New | Why::Changed => None,
        };
        if let Some((weight, reason, message)) = told {
            self.recorder.tell_about(order.about.clone(), weight, reason, message);
        }
    }

    fn failed(&self, order: &Order, place: &Place, failure: &Failure) {
        let name = order.member.name();
        let refused = match failure {
            Failure::Call(error) if error.class() == Class::Terminal => true,
            // It answers, and with nothing else: an admission webhook there that is gone does not come back by itself.
            Failure::Call(error) => matches!(error.code(), Some(429 | 500..)) && self.history.failed(place),
            Failure::Belongs(_) => true,
            Failure::Replacing | Failure::Gone | Failure::Appeared => false,
        };
        tracing::debug!(member = %name, key = %order.key, %failure, "a write failed");
        if refused {
            let message = match failure {
                Failure::Call(error) => error.failure.to_string(),
                other => other.to_string(),
            };
            self.history.refused(place, order.identity(), &message);
            let told = format!("cluster {name}: {message}");
            self.recorder.tell_about(order.about.clone(), Weight::Warning, "Refused", told);
        }
        if let Failure::Replacing = failure {
            let told = format!(
                "cluster {name} had another {} of this name that selects other pods: it is replaced, and its pods stay",
                R::KIND.as_str()
            );
            self.recorder.tell_about(order.about.clone(), Weight::Warning, "Overwritten", told);
        }
    }
}
