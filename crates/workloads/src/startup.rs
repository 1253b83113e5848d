//! Why pods that have a node do not run: from one look at the pods of a workload that is stuck in a member, never from a watch of all.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use koinon_control::Key;
use koinon_control::words::{SENTENCE, clean};
use koinon_fleet::{ClusterId, Member};
use kube::api::ListParams;
use kube::core::Selector;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::members::{Kind, belongs};

/// A workload that stays stuck is looked at again after this long.
const AGAIN: Duration = Duration::from_secs(300);
/// So many pods tell enough.
const MOST: u32 = 50;

/// How many pods of a workload a member has, as far as that shows whether it is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Stands for what its object says: another one is another matter.
    pub(crate) content: u64,
    /// Pods that have a node.
    pub(crate) scheduled: i64,
    pub(crate) available: i64,
    /// Whether the member's own controller gave up waiting.
    pub(crate) gave_up: bool,
}

impl Counts {
    fn are_short(self) -> bool {
        self.available < self.scheduled
    }
}

/// What one look showed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cause {
    container: String,
    reason: String,
    message: String,
}

/// What is known of stuck workloads, by member.
pub(crate) struct Startup {
    kind: Kind,
    book: Arc<Book>,
    patience: Duration,
    /// Ends with the controller.
    tasks: Mutex<JoinSet<()>>,
}

struct Book {
    looks: Mutex<HashMap<Key, BTreeMap<ClusterId, Look>>>,
    done: Box<dyn Fn(&Key) + Send + Sync>,
}

struct Look {
    /// Another cluster under the same name was not looked at.
    of: Weak<Member>,
    content: u64,
    available: i64,
    /// Since when it has had no more available pods.
    since: Instant,
    /// When it was last looked at, or began to be.
    looked: Option<Instant>,
    cause: Option<Cause>,
}

impl Startup {
    /// A workload whose pods did not become available for `patience` is stuck. Calls `done` with one that was looked at.
    pub(crate) fn new(
        kind: Kind,
        patience: Duration,
        done: impl Fn(&Key) + Send + Sync + 'static,
    ) -> Startup {
        let book = Book { looks: Mutex::default(), done: Box::new(done) };
        Startup { kind, book: Arc::new(book), patience, tasks: Mutex::default() }
    }

    /// Why pods of a workload do not run in a member, if that is known. One that is stuck is looked at.
    pub(crate) fn why(
        &self,
        key: &Key,
        member: &Arc<Member>,
        counts: Counts,
        selector: Option<&LabelSelector>,
    ) -> Option<String> {
        let now = Instant::now();
        let mut looks = self.book.looks.lock();
        if !counts.are_short() {
            forget_one(&mut looks, key, member.name());
            return None;
        }
        let of = looks.entry(key.clone()).or_default();
        let look = of.entry(member.name().clone()).or_insert_with(|| Look::new(member, counts, now));
        if !look.is_of(member) || look.content != counts.content || look.available < counts.available {
            *look = Look::new(member, counts, now);
        }
        look.available = counts.available;
        let is_stuck = counts.gave_up || now.duration_since(look.since) >= self.patience;
        let is_due = look.looked.is_none_or(|at| now.duration_since(at) >= AGAIN);
        if let Some(selector) = selector.filter(|_| is_stuck && is_due) {
            look.looked = Some(now);
            self.look(key.clone(), member.clone(), selector);
        }
        look.cause.as_ref().map(Cause::to_string)
    }

    /// When a workload has to be looked at again, if it has.
    pub(crate) fn look_again(&self, key: &Key) -> Option<Duration> {
        let looks = self.book.looks.lock();
        let left = |look: &Look| match look.looked {
            Some(at) => AGAIN.saturating_sub(at.elapsed()),
            None => self.patience.saturating_sub(look.since.elapsed()),
        };
        looks.get(key)?.values().map(left).min()
    }

    /// How many workloads it has an entry for.
    pub(crate) fn len(&self) -> usize {
        self.book.looks.lock().len()
    }

    /// Forgets a workload that is no more.
    pub(crate) fn forget(&self, key: &Key) {
        self.book.looks.lock().remove(key);
    }

    fn look(&self, key: Key, member: Arc<Member>, selector: &LabelSelector) {
        let Ok(selector) = Selector::try_from(selector.clone()) else { return };
        let params = ListParams::default().labels_from(&selector).limit(MOST);
        let (book, kind) = (self.book.clone(), self.kind);
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let client = member.client();
            match client.call(client.namespaced::<Pod>(&key.namespace).list(&params)).await {
                Ok(mut pods) => {
                    pods.items.retain(|pod| belongs(pod, kind, &key.name));
                    book.looked(&key, &member, &causes(&pods.items));
                }
                // It is looked at again in its time.
                Err(error) => tracing::debug!(%key, %error, "the pods of a stuck workload were not read"),
            }
        });
    }
}

fn forget_one(looks: &mut HashMap<Key, BTreeMap<ClusterId, Look>>, key: &Key, member: &ClusterId) {
    let Some(of) = looks.get_mut(key) else { return };
    of.remove(member);
    if of.is_empty() {
        looks.remove(key);
    }
}

impl Book {
    fn looked(&self, key: &Key, member: &Arc<Member>, found: &[Cause]) {
        let changed = {
            let mut looks = self.looks.lock();
            // It was forgotten meanwhile, or is another one by now.
            let look = looks.get_mut(key).and_then(|of| of.get_mut(member.name()));
            let Some(look) = look.filter(|look| look.is_of(member)) else { return };
            let cause = settled(look.cause.as_ref(), found);
            std::mem::replace(&mut look.cause, cause.clone()) != cause
        };
        if changed {
            (self.done)(key);
        }
    }
}

/// The cause that is told: the one that was, as long as it is among those that are found. A kubelet words the same trouble in
/// turns, and each would be another status.
fn settled(before: Option<&Cause>, found: &[Cause]) -> Option<Cause> {
    let same = |one: &&Cause| {
        before.is_some_and(|before| before.container == one.container && before.reason == one.reason)
    };
    match found.iter().find(same) {
        Some(_) => before.cloned(),
        None => found.first().cloned(),
    }
}

impl Look {
    fn new(member: &Arc<Member>, counts: Counts, now: Instant) -> Look {
        Look {
            of: Arc::downgrade(member),
            content: counts.content,
            available: counts.available,
            since: now,
            looked: None,
            cause: None,
        }
    }

    fn is_of(&self, member: &Arc<Member>) -> bool {
        std::ptr::eq(self.of.as_ptr(), Arc::as_ptr(member))
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pods do not run: container {}: {}", self.container, self.reason)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// What keeps pods that have a node from running, the most frequent first; what only takes its time comes last.
fn causes(pods: &[Pod]) -> Vec<Cause> {
    let mut counted: Vec<(usize, Cause)> = Vec::new();
    for cause in pods.iter().filter(|pod| waits(pod)).flat_map(of_pod) {
        let same = |(_, one): &&mut (usize, Cause)| {
            (&one.container, &one.reason) == (&cause.container, &cause.reason)
        };
        match counted.iter_mut().find(same) {
            Some((count, _)) => *count += 1,
            None => counted.push((1, cause)),
        }
    }
    let rank = |(count, one): &(usize, Cause)| {
        let patient = PATIENT.contains(&one.reason.as_str());
        (patient, std::cmp::Reverse(*count), one.container.clone(), one.reason.clone())
    };
    counted.sort_by_key(rank);
    counted.into_iter().map(|(_, cause)| cause).collect()
}

/// What containers say that only need more time, as far as they know.
const PATIENT: [&str; 3] = ["ContainerCreating", "PodInitializing", "NotReady"];

/// Whether a pod has a node and is not ready.
fn waits(pod: &Pod) -> bool {
    let scheduled =
        pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|n| !n.is_empty());
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
    scheduled && !ready && pod.metadata.deletion_timestamp.is_none()
}

fn of_pod(pod: &Pod) -> Vec<Cause> {
    let Some(status) = &pod.status else { return Vec::new() };
    let first = status.init_container_statuses.iter().flatten();
    first.chain(status.container_statuses.iter().flatten()).filter_map(of_container).collect()
}

fn of_container(status: &ContainerStatus) -> Option<Cause> {
    let state = status.state.as_ref();
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let ended = state.and_then(|state| state.terminated.as_ref());
    let before = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let cause = |reason: &str, message: &str| Cause {
        container: clean(&status.name, 63),
        reason: clean(reason, 63),
        message: clean(message, SENTENCE),
    };
    let failed = ended.or(before).filter(|end| end.exit_code != 0);
    // One that is started again and again waits, runs and ends by turns.
    if let Some(end) = failed {
        return Some(cause("CrashLoopBackOff", &format!("it ended with exit code {}", end.exit_code)));
    }
    if let Some(waiting) = waiting {
        let reason = waiting.reason.as_deref().unwrap_or("Waiting");
        // The same, between two tries.
        let reason = if reason == "ErrImagePull" { "ImagePullBackOff" } else { reason };
        return Some(cause(reason, waiting.message.as_deref().unwrap_or_default()));
    }
    let runs = state.is_some_and(|state| state.running.is_some());
    (runs && !status.ready).then(|| cause("NotReady", "it runs and is not ready"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(node: &str, containers: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "web-1"}, "spec": {"nodeName": node, "containers": []},
            "status": {"containerStatuses": containers},
        }))
        .unwrap()
    }

    fn container(state: Value, last: Value) -> Value {
        json!([{"name": "web", "image": "web:1", "imageID": "", "ready": false, "restartCount": 0,
            "state": state, "lastState": last}])
    }

    fn told(pods: &[Pod]) -> Vec<String> {
        causes(pods).iter().map(Cause::to_string).collect()
    }

    #[test]
    fn the_containers_own_words_are_told() {
        let waiting = |reason: &str, message: &str| {
            pod("n", container(json!({"waiting": {"reason": reason, "message": message}}), json!({})))
        };
        let missing = waiting("CreateContainerConfigError", "couldn't find key url in ConfigMap default/web");
        assert_eq!(
            told(&[missing]),
            [
                "pods do not run: container web: CreateContainerConfigError: couldn't find key url in ConfigMap default/web"
            ]
        );
        let ended = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
        let crashes = [
            pod("n", container(json!({"waiting": {"reason": "CrashLoopBackOff"}}), ended.clone())),
            pod("n", container(json!({"running": {}}), ended.clone())),
            pod("n", container(ended, json!({}))),
        ];
        let crash = "pods do not run: container web: CrashLoopBackOff: it ended with exit code 3";
        assert_eq!(told(&crashes), [crash]);
        let creating = waiting("ContainerCreating", "");
        assert_eq!(
            told(&[creating.clone(), creating, crashes[0].clone()]),
            [crash, "pods do not run: container web: ContainerCreating"],
            "what only takes its time comes last"
        );
        let slow = pod("n", container(json!({"running": {}}), json!({})));
        assert_eq!(told(&[slow]), ["pods do not run: container web: NotReady: it runs and is not ready"]);
        assert_eq!(told(&[pod("", container(json!({"waiting": {"reason": "X"}}), json!({})))]), [""; 0]);
    }

    #[test]
    fn the_same_trouble_in_other_words_is_the_same() {
        let pull = |reason: &str, message: &str| {
            causes(&[pod(
                "n",
                container(json!({"waiting": {"reason": reason, "message": message}}), json!({})),
            )])
        };
        let first = settled(None, &pull("ErrImagePull", "not found")).unwrap();
        assert_eq!(first.to_string(), "pods do not run: container web: ImagePullBackOff: not found");
        assert_eq!(settled(Some(&first), &pull("ImagePullBackOff", "Back-off pulling")).unwrap(), first);
        let other = settled(Some(&first), &pull("CreateContainerConfigError", "no key")).unwrap();
        assert_eq!(other.reason, "CreateContainerConfigError");
        assert_eq!(settled(Some(&first), &[]), None);
    }

    #[test]
    fn only_pods_with_a_node_are_short() {
        let counts = |scheduled, available| Counts { content: 1, scheduled, available, gave_up: false };
        assert!(counts(3, 2).are_short());
        assert!(!counts(3, 3).are_short());
        assert!(!counts(0, 0).are_short(), "none found a node");
    }
}
