//! What was written to members and how they took it, as far as the next decision has to know.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use koinon_control::Key;
use koinon_fleet::ClusterId;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::members::Kind;

/// So many repairs within this time are a quarrel.
const CONTESTED: u32 = 5;
const LATELY: Duration = Duration::from_secs(60);

/// One workload's object in one member.
pub(crate) type Place = (Kind, Key, ClusterId);

/// The book of writes.
pub(crate) struct Ledger {
    /// What was refused is tried again after this long.
    try_again: Duration,
    /// Sent, and not yet answered: the count that was asked for.
    on_their_way: Mutex<BTreeMap<Place, Option<i64>>>,
    refusals: Mutex<BTreeMap<Place, Refusal>>,
    taken: Mutex<HashMap<Place, Taken>>,
    repairs: Mutex<HashMap<Place, Repairs>>,
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
    /// How often in a row.
    pub(crate) times: u32,
    pub(crate) message: String,
    content: u64,
    until: Instant,
}

impl Refusal {
    /// How long to wait before the same is tried again.
    pub(crate) fn pause(&self, content: u64) -> Option<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        (self.content == content && !left.is_zero()).then_some(left)
    }
}

impl Ledger {
    /// An empty book, in which refusals stand for so long.
    pub(crate) fn new(try_again: Duration) -> Ledger {
        Ledger {
            try_again,
            on_their_way: Mutex::default(),
            refusals: Mutex::default(),
            taken: Mutex::default(),
            repairs: Mutex::default(),
        }
    }

    /// The count that is on its way to a member, if anything is.
    pub(crate) fn on_its_way(&self, place: &Place) -> Option<Option<i64>> {
        self.on_their_way.lock().get(place).copied()
    }

    pub(super) fn send(&self, place: &Place, replicas: Option<i64>) {
        self.on_their_way.lock().insert(place.clone(), replicas);
    }

    pub(super) fn answered(&self, place: &Place) {
        self.on_their_way.lock().remove(place);
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
        self.refusals.lock().remove(place);
        self.taken.lock().insert(place.clone(), Taken { content, actual, replicas, template });
    }

    /// Somebody took `content`, and has `actual` now.
    pub(crate) fn note(&self, place: &Place, content: u64, actual: u64) {
        self.taken(place, content, actual, None, None);
    }

    /// The name of the template that a member took, as long as it has what it took.
    pub(crate) fn template(&self, place: &Place, actual: u64) -> Option<Arc<str>> {
        let taken = self.taken.lock();
        taken.get(place).filter(|taken| taken.actual == actual).and_then(|taken| taken.template.clone())
    }

    /// How what a member has, `actual`, compares with `content`.
    pub(crate) fn has(&self, place: &Place, content: u64, actual: u64) -> Has {
        match self.taken.lock().get(place) {
            Some(taken) if taken.content == content && taken.actual == actual => Has::This,
            _ if content == actual => Has::This,
            Some(taken) if taken.content == content => Has::Drifted,
            _ => Has::Other,
        }
    }

    /// Whether a member ever took anything from us.
    pub(crate) fn took(&self, place: &Place) -> bool {
        self.taken.lock().contains_key(place)
    }

    /// The count that a member last took from us.
    pub(crate) fn told(&self, place: &Place) -> Option<i64> {
        self.taken.lock().get(place).and_then(|taken| taken.replicas)
    }

    /// The member refused; says how often in a row.
    pub(crate) fn refused(&self, place: &Place, content: u64, message: &str) -> u32 {
        let mut refusals = self.refusals.lock();
        let times = refusals.get(place).map_or(0, |refusal| refusal.times).saturating_add(1);
        let refusal =
            Refusal { times, message: message.to_owned(), content, until: Instant::now() + self.try_again };
        refusals.insert(place.clone(), refusal);
        times
    }

    /// Something was put right; says whether that happens so often that somebody there must be putting it wrong on purpose.
    pub(super) fn repaired(&self, place: &Place) -> bool {
        let now = Instant::now();
        let mut repairs = self.repairs.lock();
        let lately = repairs.entry(place.clone()).or_insert(Repairs { count: 0, since: now });
        if now.duration_since(lately.since) > LATELY {
            *lately = Repairs { count: 0, since: now };
        }
        lately.count += 1;
        lately.count >= CONTESTED
    }

    pub(crate) fn refusal(&self, place: &Place) -> Option<Refusal> {
        self.refusals.lock().get(place).cloned()
    }

    /// Forgets a workload that is no more.
    pub(crate) fn forget(&self, kind: Kind, key: &Key) {
        let other = |place: &Place| (place.0, &place.1) != (kind, key);
        self.refusals.lock().retain(|place, _| other(place));
        self.taken.lock().retain(|place, _| other(place));
        self.repairs.lock().retain(|place, _| other(place));
    }
}
