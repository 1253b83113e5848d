//! The history of writes to members: what each took, refused or changed back, as far as the next decision has to know.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use koinon_control::Key;
use koinon_fleet::ClusterId;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::members::Kind;

/// So many repairs within this time are repeated drift.
const CONTESTED: u32 = 5;
const LATELY: Duration = Duration::from_secs(60);

/// One workload's object in one member.
pub(crate) type Place = (Kind, Key, ClusterId);

/// The history of writes.
pub(crate) struct WriteHistory {
    /// What was refused is tried again after this long.
    try_again: Duration,
    /// By workload, so that whoever decides about one finds all of its members at once.
    states: Mutex<HashMap<(Kind, Key), BTreeMap<ClusterId, WriteState>>>,
}

/// How one workload stands with one member.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteState {
    /// Sent, and not yet answered: the count that was asked for.
    pub(crate) on_its_way: Option<Option<i64>>,
    pub(crate) refusal: Option<Refusal>,
    taken: Option<Taken>,
    repairs: Option<Repairs>,
    /// Since when every write that was answered failed, without being refused.
    failing: Option<Instant>,
    /// Its workload is no more: the line goes with the answer that it waits for.
    forgotten: bool,
}

/// How often something was put right lately.
#[derive(Debug, Clone, Copy)]
struct Repairs {
    count: u32,
    since: Instant,
}

/// What a member last took from us.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Taken {
    content: u64,
    /// What it made of that: defaults of its own, and what others added.
    actual: u64,
    replicas: Option<i64>,
    template: Option<Arc<str>>,
}

/// How what a member has, apart from its count, compares with what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Has {
    /// What we say.
    This,
    /// Something else, as we said something else before, or nobody knows.
    Other,
    /// Something else than what it took from us.
    Drifted,
}

/// A member that does not want what it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    /// How often in a row it was the same.
    pub(crate) times: u32,
    pub(crate) message: String,
    content: u64,
    subject: u64,
    until: Instant,
}

impl Refusal {
    /// How long to wait before the same is tried again.
    pub(crate) fn pause(&self, content: u64) -> Option<Duration> {
        self.left().filter(|_| self.content == content)
    }

    /// How long what was refused is not tried again.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

impl WriteState {
    /// The name of the template that the member took, as long as it has what it took.
    pub(crate) fn template(&self, actual: u64) -> Option<Arc<str>> {
        self.taken.as_ref().filter(|taken| taken.actual == actual).and_then(|taken| taken.template.clone())
    }

    /// How what the member has, `actual`, compares with `content`.
    pub(crate) fn has(&self, content: u64, actual: u64) -> Has {
        match &self.taken {
            Some(taken) if taken.content == content && taken.actual == actual => Has::This,
            _ if content == actual => Has::This,
            Some(taken) if taken.content == content => Has::Drifted,
            _ => Has::Other,
        }
    }

    /// Whether the member ever took anything from us.
    pub(crate) fn took(&self) -> bool {
        self.taken.is_some()
    }

    /// The count that the member last took from us.
    pub(crate) fn told(&self) -> Option<i64> {
        self.taken.as_ref().and_then(|taken| taken.replicas)
    }
}

impl WriteHistory {
    /// An empty history, in which refusals stand for so long.
    pub(crate) fn new(try_again: Duration) -> WriteHistory {
        WriteHistory { try_again, states: Mutex::default() }
    }

    /// How many workloads it has an entry for.
    pub(crate) fn len(&self) -> usize {
        self.states.lock().len()
    }

    /// How a workload stands with all members.
    pub(crate) fn of(&self, kind: Kind, key: &Key) -> BTreeMap<ClusterId, WriteState> {
        self.states.lock().get(&(kind, key.clone())).cloned().unwrap_or_default()
    }

    /// How a workload stands with one member.
    pub(crate) fn at(&self, (kind, key, member): &Place) -> WriteState {
        let states = self.states.lock();
        states.get(&(*kind, key.clone())).and_then(|of| of.get(member)).cloned().unwrap_or_default()
    }

    fn change<T>(&self, (kind, key, member): &Place, change: impl FnOnce(&mut WriteState) -> T) -> T {
        let mut states = self.states.lock();
        change(states.entry((*kind, key.clone())).or_default().entry(member.clone()).or_default())
    }

    pub(super) fn send(&self, place: &Place, replicas: Option<i64>) {
        self.change(place, |standing| {
            standing.on_its_way = Some(replicas);
            standing.forgotten = false;
        });
    }

    /// What was sent was answered, and what came of it is written down.
    pub(super) fn answered(&self, place: &Place) {
        let (kind, key, member) = place;
        let mut states = self.states.lock();
        let Some(of) = states.get_mut(&(*kind, key.clone())) else { return };
        let Some(standing) = of.get_mut(member) else { return };
        standing.on_its_way = None;
        if standing.forgotten {
            of.remove(member);
        }
        if of.is_empty() {
            states.remove(&(*kind, key.clone()));
        }
    }

    /// The member took `content` with a count and the template of this name, and has `actual` now.
    pub(super) fn taken(
        &self,
        place: &Place,
        content: u64,
        actual: u64,
        replicas: Option<i64>,
        template: Option<Arc<str>>,
    ) {
        self.change(place, |standing| {
            standing.refusal = None;
            standing.failing = None;
            standing.taken = Some(Taken { content, actual, replicas, template });
        });
    }

    /// Somebody took `content`, and has `actual` now.
    pub(crate) fn note(&self, place: &Place, content: u64, actual: u64) {
        self.taken(place, content, actual, None, None);
    }

    /// The member refused this content, which is about `subject`; says how often in a row that was the same.
    pub(crate) fn refused(&self, place: &Place, (content, subject): (u64, u64), message: &str) -> u32 {
        let until = Instant::now() + self.try_again;
        self.change(place, |standing| {
            let before = standing.refusal.as_ref().filter(|refusal| refusal.subject == subject);
            let times = before.map_or(0, |refusal| refusal.times).saturating_add(1);
            standing.refusal = Some(Refusal { times, message: message.to_owned(), content, subject, until });
            times
        })
    }

    /// The member answered that it failed; says whether it does nothing else for so long that it might as well refuse.
    pub(super) fn failed(&self, place: &Place) -> bool {
        let now = Instant::now();
        self.change(place, |standing| {
            let since = *standing.failing.get_or_insert(now);
            now.duration_since(since) >= self.try_again
        })
    }

    /// Something was put right; says whether that happens so often that somebody there must be putting it wrong on purpose.
    pub(super) fn repaired(&self, place: &Place) -> bool {
        let now = Instant::now();
        self.change(place, |standing| {
            let lately = standing.repairs.get_or_insert(Repairs { count: 0, since: now });
            if now.duration_since(lately.since) > LATELY {
                *lately = Repairs { count: 0, since: now };
            }
            lately.count += 1;
            lately.count >= CONTESTED
        })
    }

    /// Forgets a workload that is no more, but not what is still on its way.
    pub(crate) fn forget(&self, kind: Kind, key: &Key) {
        let mut states = self.states.lock();
        let Some(of) = states.get_mut(&(kind, key.clone())) else { return };
        of.retain(|_, standing| {
            *standing =
                WriteState { on_its_way: standing.on_its_way, forgotten: true, ..WriteState::default() };
            standing.on_its_way.is_some()
        });
        if of.is_empty() {
            states.remove(&(kind, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_answered_after_its_workload_went_leaves_nothing() {
        let history = WriteHistory::new(Duration::from_secs(1));
        let place = |member: &str| {
            (Kind::ReplicaSet, Key::new("default", "web"), ClusterId::new(member).expect("a name"))
        };
        let of = || history.of(Kind::ReplicaSet, &Key::new("default", "web"));
        history.send(&place("a"), Some(3));
        history.send(&place("b"), Some(3));
        history.taken(&place("b"), 1, 1, Some(3), None);
        history.answered(&place("b"));
        history.forget(Kind::ReplicaSet, &Key::new("default", "web"));
        assert_eq!(of().into_keys().map(|member| member.to_string()).collect::<Vec<_>>(), ["a"]);
        assert!(of().values().all(|standing| standing.on_its_way.is_some()));
        history.taken(&place("a"), 1, 1, Some(3), None);
        history.answered(&place("a"));
        assert!(history.states.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_only_fails_for_long_is_as_good_as_refused() {
        let history = WriteHistory::new(Duration::from_secs(60));
        let place = (Kind::ReplicaSet, Key::new("default", "web"), ClusterId::new("a").expect("a name"));
        assert!(!history.failed(&place));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(!history.failed(&place));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(history.failed(&place));
        history.taken(&place, 1, 1, Some(3), None);
        assert!(!history.failed(&place), "it begins anew");
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_counted_as_long_as_it_is_the_same_that_is_refused() {
        let history = WriteHistory::new(Duration::from_secs(60));
        let place = (Kind::ReplicaSet, Key::new("default", "web"), ClusterId::new("a").expect("a name"));
        assert_eq!([history.refused(&place, (0, 1), "no"), history.refused(&place, (1, 1), "no")], [1, 2]);
        assert_eq!(history.at(&place).refusal.and_then(|one| one.pause(2)), None, "another is tried at once");
        assert_eq!(history.refused(&place, (2, 2), "no"), 1);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(history.at(&place).refusal.and_then(|one| one.left()), None);
    }

    #[test]
    fn a_workload_of_the_same_name_is_not_forgotten_with_the_first() {
        let history = WriteHistory::new(Duration::from_secs(1));
        let key = Key::new("default", "web");
        let place = (Kind::ReplicaSet, key.clone(), ClusterId::new("a").expect("a name"));
        history.send(&place, Some(3));
        history.forget(Kind::ReplicaSet, &key);
        history.send(&place, Some(5));
        history.taken(&place, 1, 1, Some(5), None);
        history.answered(&place);
        assert_eq!(history.at(&place).told(), Some(5));
    }
}
