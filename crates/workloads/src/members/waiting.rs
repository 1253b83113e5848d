//! Which pods of which workload wait for a node, and since when.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use koinon_control::Key;
use koinon_fleet::{ClusterId, Index, News};
use parking_lot::Mutex;

use super::records::{Kind, WaitingPod};
use crate::placing::Wait;

/// Pods without a node in all members, by the workload that they belong to.
pub(crate) struct Waiting {
    pub(crate) index: Arc<Index<WaitingPod>>,
    book: Arc<Mutex<Book>>,
}

type Workload = (Kind, Key);
type PodId = (ClusterId, Key);

#[derive(Default)]
struct Book {
    workloads: HashMap<PodId, Workload>,
    pods: BTreeMap<Workload, BTreeMap<PodId, Wait>>,
}

impl Waiting {
    /// Calls `told` with each workload whose pods changed, and with each member of which more or less is known.
    pub(crate) fn new(told: impl Fn(Told<'_>) + Send + Sync + 'static) -> Waiting {
        let (index, book) = (Index::<WaitingPod>::new(), Arc::new(Mutex::new(Book::default())));
        let (records, notes) = (Arc::downgrade(&index), book.clone());
        index.on_change(move |news| match news {
            News::Record(member, key) => {
                let record = records.upgrade().and_then(|index| index.get(member.as_str(), key));
                let changed = notes.lock().note((*member).clone(), key, record.as_deref());
                for (kind, key) in &changed {
                    told(Told::Workload(*kind, key));
                }
            }
            News::Knowledge(..) => told(Told::Knowledge),
        });
        Waiting { index, book }
    }

    /// How pods of a workload have been waiting, by member.
    pub(crate) fn of(&self, kind: Kind, key: &Key) -> BTreeMap<ClusterId, Vec<Wait>> {
        let book = self.book.lock();
        let mut by_member: BTreeMap<ClusterId, Vec<Wait>> = BTreeMap::new();
        for ((member, _), wait) in book.pods.get(&(kind, key.clone())).into_iter().flatten() {
            by_member.entry(member.clone()).or_default().push(*wait);
        }
        by_member
    }
}

/// What changed.
pub(crate) enum Told<'a> {
    Workload(Kind, &'a Key),
    Knowledge,
}

impl Book {
    /// Takes in what is known of a pod now; gives the workloads that this concerns.
    fn note(&mut self, member: ClusterId, key: &Key, record: Option<&WaitingPod>) -> Vec<Workload> {
        let pod = (member, key.clone());
        let mut changed = Vec::new();
        if let Some(workload) = self.workloads.remove(&pod) {
            if let Some(pods) = self.pods.get_mut(&workload) {
                pods.remove(&pod);
                if pods.is_empty() {
                    self.pods.remove(&workload);
                }
            }
            changed.push(workload);
        }
        if let Some(record) = record {
            let workload = (record.kind, Key::new(key.namespace.clone(), record.workload.as_ref()));
            self.workloads.insert(pod.clone(), workload.clone());
            self.pods.entry(workload.clone()).or_default().insert(pod, record.wait);
            if !changed.contains(&workload) {
                changed.push(workload);
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn pods_come_go_and_change_their_workload() {
        let mut book = Book::default();
        let (member, key) = (ClusterId::new("a").unwrap(), Key::new("default", "web-1"));
        let pod = |workload: &str, second| WaitingPod {
            kind: Kind::ReplicaSet,
            workload: workload.into(),
            wait: Wait::Unseen(Timestamp::from_second(second).unwrap()),
        };
        let names = |changed: Vec<Workload>| changed.into_iter().map(|(_, key)| key.name).collect::<Vec<_>>();
        assert_eq!(names(book.note(member.clone(), &key, Some(&pod("web", 1)))), ["web"]);
        assert_eq!(names(book.note(member.clone(), &key, Some(&pod("api", 2)))), ["web", "api"]);
        assert_eq!(book.pods.len(), 1);
        assert_eq!(names(book.note(member.clone(), &key, None)), ["api"]);
        assert!(book.pods.is_empty() && book.workloads.is_empty());
        assert!(book.note(member, &key, None).is_empty());
    }
}
