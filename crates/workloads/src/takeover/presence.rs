//! What members answered when they were asked for an object by name. A member that has not answered is unknown, not empty.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use koinon_control::Key;
use koinon_fleet::member::Error;
use koinon_fleet::{ClusterId, Member};
use kube::{Api, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Policy, difference};
use crate::content;
use crate::rollout::Reach;
use crate::writing::{Expected, Why, Written};

/// Members are asked for so long before the decision goes on without those that have not answered.
const PATIENCE: Duration = Duration::from_secs(2);
/// A member that could not be asked is asked again after this long.
const AGAIN: Duration = Duration::from_secs(5);
/// No watch tells of what is not ours: it is read again after this long.
const REFRESH: Duration = Duration::from_secs(30);

/// An object under the workload's name that no watch of ours carries.
#[derive(Debug)]
pub(crate) struct Found<R> {
    pub(crate) record: Arc<R>,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    /// We wrote it, with the label of an earlier release.
    pub(crate) ours: bool,
    /// Where it says something else than the federated one.
    pub(crate) differs: Vec<String>,
}

/// What is known of one member.
#[derive(Debug)]
enum Sighting<R> {
    /// It was not asked, or has not answered.
    Unknown,
    /// It has none, or none that could be taken over.
    Absent,
    Found(Arc<Found<R>>),
}

/// A member, by its watch or else by what it answered.
pub(crate) struct Seen<R> {
    pub(crate) record: Option<Arc<R>>,
    /// An object of somebody else that is not taken over.
    pub(crate) withheld: Option<Arc<Found<R>>>,
    pub(crate) reach: Reach,
}

impl<R> Found<R> {
    /// That it becomes ours.
    pub(crate) fn take_over(&self) -> Why {
        let expected = Expected { uid: self.uid.clone(), generation: self.generation };
        Why::TakenOver(expected, self.differs.clone())
    }
}

/// The answers of all members, by workload.
pub(crate) struct Presence<R: Written> {
    book: Arc<Book<R>>,
    /// Ends with the controller.
    tasks: Mutex<JoinSet<()>>,
}

struct Book<R> {
    answers: Mutex<HashMap<Key, BTreeMap<ClusterId, Entry<R>>>>,
    done: Box<dyn Fn(&Key) + Send + Sync>,
}

struct Entry<R> {
    /// Another cluster under the same name has not answered.
    of: Weak<Member>,
    asked: bool,
    /// Not asked again before.
    again: Instant,
    answer: Option<Answer<R>>,
}

struct Answer<R> {
    at: Instant,
    /// The federated object's generation that it was compared with.
    generation: i64,
    found: Option<Arc<Found<R>>>,
}

impl<R: Written> Presence<R> {
    /// Calls `done` with a workload about which a member answered when nobody waited for it any more.
    pub(crate) fn new(done: impl Fn(&Key) + Send + Sync + 'static) -> Presence<R> {
        let book = Book { answers: Mutex::default(), done: Box::new(done) };
        Presence { book: Arc::new(book), tasks: Mutex::default() }
    }

    fn at(&self, key: &Key, member: &Arc<Member>) -> Sighting<R> {
        let answers = self.book.answers.lock();
        let entry = answers.get(key).and_then(|of| of.get(member.name()));
        match entry.filter(|entry| entry.is_of(member)).and_then(|entry| entry.answer.as_ref()) {
            None => Sighting::Unknown,
            Some(Answer { found: None, .. }) => Sighting::Absent,
            Some(Answer { found: Some(found), .. }) => Sighting::Found(found.clone()),
        }
    }

    /// Whether a member that has to be asked should be now.
    pub(crate) fn is_stale(&self, key: &Key, member: &Arc<Member>, generation: i64) -> bool {
        let answers = self.book.answers.lock();
        let entry = answers.get(key).and_then(|of| of.get(member.name()));
        let Some(entry) = entry.filter(|entry| entry.is_of(member)) else { return true };
        let old = |answer: &Answer<R>| {
            answer.found.is_some() && (answer.generation != generation || answer.at.elapsed() >= REFRESH)
        };
        !entry.asked && entry.again <= Instant::now() && entry.answer.as_ref().is_none_or(old)
    }

    /// A member as it is seen: `record` is what a watch tells of it, and `due` says that it has to be asked where none does.
    pub(crate) fn see(
        &self,
        key: &Key,
        member: &Arc<Member>,
        record: Option<Arc<R>>,
        reach: Reach,
        due: bool,
        policy: Policy,
    ) -> Seen<R> {
        if record.is_some() || reach != Reach::Online {
            return Seen { record, withheld: None, reach };
        }
        match self.at(key, member) {
            Sighting::Found(found) if !found.ours && policy.withholds(&found.differs) => {
                Seen { record, withheld: Some(found), reach }
            }
            Sighting::Found(found) => Seen { record: Some(found.record.clone()), withheld: None, reach },
            Sighting::Unknown if due || self.is_doubted(key, member.name()) => {
                Seen { record, withheld: None, reach: Reach::Unsure }
            }
            Sighting::Unknown | Sighting::Absent => Seen { record, withheld: None, reach },
        }
    }

    /// The object there that is not known by a watch, and is taken over or ours already.
    pub(crate) fn taken(&self, key: &Key, member: &Arc<Member>, policy: Policy) -> Option<Arc<Found<R>>> {
        match self.at(key, member) {
            Sighting::Found(found) if found.ours || !policy.withholds(&found.differs) => Some(found),
            _ => None,
        }
    }

    /// When somebody has to be asked about a workload again, if anybody has.
    pub(crate) fn look_again(&self, key: &Key) -> Option<Duration> {
        let answers = self.book.answers.lock();
        let again = |entry: &Entry<R>| match &entry.answer {
            None => Some(AGAIN),
            Some(answer) => answer.found.as_ref().map(|_| REFRESH),
        };
        answers.get(key)?.values().filter_map(again).min()
    }

    /// Whether something was met there that nobody had seen.
    pub(crate) fn is_doubted(&self, key: &Key, member: &ClusterId) -> bool {
        let answers = self.book.answers.lock();
        answers.get(key).and_then(|of| of.get(member)).is_some_and(|entry| entry.answer.is_none())
    }

    /// What is known of a member does not hold any more: it is to be asked again.
    pub(crate) fn doubt(&self, key: &Key, member: &Arc<Member>) {
        let mut answers = self.book.answers.lock();
        let entry = Entry::new(member);
        answers.entry(key.clone()).or_default().insert(member.name().clone(), entry);
    }

    /// Forgets one member, as when a watch tells of its object now.
    pub(crate) fn drop(&self, key: &Key, member: &ClusterId) {
        let mut answers = self.book.answers.lock();
        let Some(of) = answers.get_mut(key) else { return };
        of.remove(member);
        if of.is_empty() {
            answers.remove(key);
        }
    }

    /// How many workloads it has an entry for.
    pub(crate) fn len(&self) -> usize {
        self.book.answers.lock().len()
    }

    /// Forgets a workload that is no more.
    pub(crate) fn forget(&self, key: &Key) {
        self.book.answers.lock().remove(key);
    }

    /// Asks members for an object of this name and compares it with what the federated one says, of this generation. Waits for the
    /// answers, but not for long.
    pub(crate) async fn ask(&self, key: &Key, members: Vec<Arc<Member>>, said: Value, generation: i64) {
        if members.is_empty() {
            return;
        }
        let (running, mut all_done) = mpsc::channel::<()>(1);
        let (left_alone, said) = (Arc::new(AtomicBool::new(false)), Arc::new(said));
        {
            let mut tasks = self.tasks.lock();
            while tasks.try_join_next().is_some() {}
            for member in members {
                let (book, key, said) = (self.book.clone(), key.clone(), said.clone());
                let (running, left_alone) = (running.clone(), left_alone.clone());
                book.asked(&key, &member);
                tasks.spawn(async move {
                    let answer = read::<R>(&member, &key, &said).await;
                    book.answered(&key, &member, generation, answer);
                    drop(running);
                    if left_alone.load(Ordering::Acquire) {
                        (book.done)(&key);
                    }
                });
            }
        }
        drop(running);
        // Nobody ever sends: it ends when the last one is done.
        let _ = tokio::time::timeout(PATIENCE, all_done.recv()).await;
        left_alone.store(true, Ordering::Release);
    }
}

/// What one member has.
async fn read<R: Written>(member: &Arc<Member>, key: &Key, said: &Value) -> Result<Option<Found<R>>, Unread> {
    let client = member.client();
    let api: Api<R::Object> = client.namespaced(&key.namespace);
    let there = match client.call(api.get_opt(&key.name)).await {
        Ok(there) => there,
        // It answers and does not let us read. What is written there then is not forced, and so harms nothing either.
        Err(error) if error.code().is_some() => {
            tracing::debug!(member = %member.name(), %key, %error, "what it has under this name cannot be read");
            return Ok(None);
        }
        Err(error) => return Err(Unread::Failed(error)),
    };
    let Some(there) = there else { return Ok(None) };
    if there.meta().deletion_timestamp.is_some() {
        return Err(Unread::Going);
    }
    // One that a controller there owns is left alone, and what is written says so.
    if there.owner_references().iter().any(|owner| owner.controller == Some(true)) {
        return Ok(None);
    }
    let Some(record) = R::fold(&there) else { return Ok(None) };
    let whole = serde_json::to_value(&there).unwrap_or_default();
    Ok(Some(Found {
        record: Arc::new(record),
        uid: there.uid().unwrap_or_default(),
        generation: there.meta().generation.unwrap_or(0),
        ours: content::is_ours(there.labels()),
        differs: difference(said, &whole),
    }))
}

/// Why nothing is known.
enum Unread {
    Failed(Error),
    /// It is on its way out: what is there next shows then.
    Going,
}

impl<R> Book<R> {
    fn asked(&self, key: &Key, member: &Arc<Member>) {
        let mut answers = self.answers.lock();
        let of = answers.entry(key.clone()).or_default();
        let entry = of.entry(member.name().clone()).or_insert_with(|| Entry::new(member));
        if !entry.is_of(member) {
            *entry = Entry::new(member);
        }
        entry.asked = true;
    }

    fn answered(
        &self,
        key: &Key,
        member: &Arc<Member>,
        generation: i64,
        answer: Result<Option<Found<R>>, Unread>,
    ) {
        let mut answers = self.answers.lock();
        // It was forgotten meanwhile, or is another one by now.
        let entry = answers.get_mut(key).and_then(|of| of.get_mut(member.name()));
        let Some(entry) = entry.filter(|entry| entry.is_of(member)) else { return };
        entry.asked = false;
        match answer {
            Ok(found) => {
                let found = found.map(Arc::new);
                entry.answer = Some(Answer { at: Instant::now(), generation, found });
            }
            Err(unread) => {
                entry.again = Instant::now() + AGAIN;
                entry.answer = None;
                match unread {
                    Unread::Failed(error) => tracing::debug!(%key, %error, "a member was not asked"),
                    Unread::Going => {}
                }
            }
        }
    }
}

impl<R> Entry<R> {
    fn new(member: &Arc<Member>) -> Entry<R> {
        Entry { of: Arc::downgrade(member), asked: false, again: Instant::now(), answer: None }
    }

    fn is_of(&self, member: &Arc<Member>) -> bool {
        std::ptr::eq(self.of.as_ptr(), Arc::as_ptr(member))
    }
}
