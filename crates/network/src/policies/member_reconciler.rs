//! The reconciler of one led member: what is known of it, and the queue of policies to reconcile.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use koinon_control::Key;
use koinon_control::queue::{Next, Queue, work};
use koinon_fleet::{ClusterId, Knowledge};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Options;
use super::accept::Accept;
use super::caches::{Document, Listener, PolicyCaches, Says};
use super::content::Sighting;
use super::entities::Roll;
use super::key::{Kind, PolicyKey};
use super::ledger::{Page, Place, Roster};
use super::metrics::{Metrics, Unsettled};
use super::notices::Notices;
use super::participants::Participants;
use super::plan::roster::Present;
use super::plan::{Case, Ground, Knows, Object, Other};
use super::source::Source;
use crate::leader_context::LeaderContext;

/// Pages that are worked on at once.
const AT_ONCE: usize = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A leader waits so long for those that it cannot reach before it numbers what users did without them.
const PATIENCE: Duration = Duration::from_secs(15);

/// What waits to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Roster,
    Page(u8),
}

/// Policies to look at, and since when.
pub(super) type Dirty = BTreeMap<PolicyKey, Instant>;

/// A member that is led.
pub(super) struct MemberReconciler {
    pub(super) leader: LeaderContext,
    pub(super) caches: Arc<PolicyCaches>,
    pub(super) source: Arc<Source>,
    /// Which Services are federated.
    pub(super) roll: Arc<Roll>,
    pub(super) notices: Notices,
    pub(super) queue: Queue<Item>,
    dirty: Mutex<BTreeMap<u8, Dirty>>,
    /// Pages of which every policy is to be looked at, and since when. Which ones those are is found out then.
    all_dirty: Mutex<BTreeMap<u8, Instant>>,
    /// Of each policy that is not as it should be here, how it is instead.
    pub(super) unsettled: Mutex<BTreeMap<PolicyKey, Unsettled>>,
    /// Of each page, how many policies are applied and how many bytes it has.
    pub(super) tallies: Mutex<BTreeMap<u8, (usize, usize)>>,
    pub(super) metrics: Metrics,
    left_after: Duration,
    started: Instant,
    /// Whether the member's word counts, and who counts is written down.
    ready: AtomicBool,
    /// Since when members of the roster are not listed.
    missing: Mutex<BTreeMap<ClusterId, Instant>>,
    /// The UIDs of the definitions of policies, once they were read.
    pub(super) definitions: Mutex<BTreeMap<Kind, String>>,
}

/// All that is known of the ledgers' pages of one number.
pub(super) struct Pages {
    /// Of the member that is led, if it was ever written.
    mine: Option<Arc<Document>>,
    others: Vec<(ClusterId, Theirs)>,
}

impl Pages {
    /// The page of the member that is led.
    pub(super) fn mine(&self) -> &Page {
        static EMPTY: LazyLock<Page> = LazyLock::new(Page::default);
        self.mine.as_deref().and_then(Document::page).unwrap_or(&EMPTY)
    }

    /// The version that it was read in.
    pub(super) fn version(&self) -> Option<&str> {
        self.mine.as_deref().map(|document| &*document.resource_version)
    }
}

enum Theirs {
    Unknown,
    /// Of a member that returns: it was read, and does not count yet.
    Returning(Option<Arc<Document>>),
    Known(Option<Arc<Document>>),
}

impl Theirs {
    fn page(&self) -> Option<&Page> {
        match self {
            Theirs::Known(document) | Theirs::Returning(document) => document.as_deref()?.page(),
            Theirs::Unknown => None,
        }
    }

    fn knows(&self, key: &PolicyKey) -> Knows<'_> {
        let entry = self.page().and_then(|page| page.entries.get(key));
        match self {
            Theirs::Unknown => Knows::Unknown,
            Theirs::Returning(_) => Knows::Returning,
            Theirs::Known(_) => Knows::Known(entry),
        }
    }
}

/// What the watches show of one policy, or what a look past them showed here.
pub(super) struct Seen {
    pub(super) object: Option<Arc<Sighting>>,
    pub(super) object_known: bool,
    pub(super) ground: Ground,
    pub(super) elsewhere: BTreeMap<ClusterId, Arc<Sighting>>,
}

/// What all policies of a member share.
pub(super) struct Terms {
    accept: Accept,
    tiers: Option<BTreeSet<String>>,
    waited: bool,
}

impl MemberReconciler {
    pub(super) fn new(
        leader: LeaderContext,
        caches: Arc<PolicyCaches>,
        source: Arc<Source>,
        roll: Arc<Roll>,
        options: &Options,
        metrics: Metrics,
    ) -> Arc<MemberReconciler> {
        let notices = Notices::new(leader.recorder.clone());
        let reconciler = Arc::new(MemberReconciler {
            leader,
            caches,
            source,
            roll,
            notices,
            queue: Queue::new(FIRST_PAUSE, LONGEST_PAUSE),
            dirty: Mutex::default(),
            all_dirty: Mutex::default(),
            unsettled: Mutex::default(),
            tallies: Mutex::default(),
            metrics,
            left_after: options.left_after,
            started: Instant::now(),
            ready: AtomicBool::new(false),
            missing: Mutex::default(),
            definitions: Mutex::default(),
        });
        let listener: Arc<dyn Listener> = reconciler.clone();
        reconciler
            .leader
            .fleet
            .metrics()
            .queue("policies", &reconciler, |reconciler| reconciler.queue.waiting());
        reconciler.caches.register(Arc::downgrade(&listener));
        reconciler
    }

    pub(super) fn me(&self) -> &ClusterId {
        self.leader.name()
    }

    /// Looks after the member for as long as it is polled.
    pub(super) async fn run(self: Arc<Self>) -> Infallible {
        self.everything();
        let wake = async {
            let mut members = self.leader.fleet.changes();
            let patience = tokio::time::sleep_until(self.started + PATIENCE);
            let mut patience = std::pin::pin!(patience);
            let mut waiting = true;
            loop {
                tokio::select! {
                    biased;
                    _ = members.changed() => {}
                    () = &mut patience, if waiting => waiting = false,
                }
                members.borrow_and_update();
                self.everything();
            }
        };
        let handle = |item| {
            let reconciler = self.clone();
            // Boxed, so that the tables of many workers stay small.
            let handled: futures::future::BoxFuture<'static, Next> = match item {
                Item::Roster => Box::pin(async move { reconciler.look_after_roster().await }),
                Item::Page(number) => Box::pin(async move { reconciler.look_after_page(number).await }),
            };
            handled
        };
        tokio::select! {
            biased;
            never = work(&self.queue, AT_ONCE, handle) => never,
            never = wake => never,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Says whether policies may be looked after; where that is new, all of them are.
    pub(super) fn set_ready(&self, ready: bool) {
        if self.ready.swap(ready, Ordering::AcqRel) != ready && ready {
            let mut pages: BTreeSet<u8> = self.dirty.lock().keys().copied().collect();
            pages.extend(self.all_dirty.lock().keys());
            for page in pages {
                self.queue.add(Item::Page(page));
            }
        }
    }

    /// Has every policy looked at.
    pub(super) fn mark_all(&self) {
        let pages = self.caches.catalogue.in_use();
        {
            let (mut all_dirty, now) = (self.all_dirty.lock(), Instant::now());
            for page in &pages {
                all_dirty.entry(*page).or_insert(now);
            }
        }
        if self.is_ready() {
            for page in pages {
                self.queue.add(Item::Page(page));
            }
        }
    }

    pub(super) fn mark(&self, keys: impl IntoIterator<Item = PolicyKey>) {
        let mut pages = BTreeSet::new();
        {
            let (mut dirty, now) = (self.dirty.lock(), Instant::now());
            for key in keys {
                let page = key.page();
                dirty.entry(page).or_default().entry(key).or_insert(now);
                pages.insert(page);
            }
        }
        if self.is_ready() {
            for page in pages {
                self.queue.add(Item::Page(page));
            }
        }
    }

    /// Keeps policies in mind for the next time that their page is looked at.
    pub(super) fn keep(&self, number: u8, keys: Dirty) {
        if !keys.is_empty() {
            self.dirty.lock().entry(number).or_default().extend(keys);
        }
    }

    pub(super) fn take_dirty(&self, number: u8) -> Dirty {
        let mut keys = self.dirty.lock().remove(&number).unwrap_or_default();
        if let Some(since) = self.all_dirty.lock().remove(&number) {
            for key in self.caches.catalogue.page(number) {
                keys.entry(key).or_insert(since);
            }
        }
        keys
    }

    /// All members that take part in policies.
    pub(super) fn listed(&self, participants: &Participants) -> BTreeSet<ClusterId> {
        let mut listed = participants.taking_part.clone();
        listed.insert(self.me().clone());
        listed
    }

    /// Who is there, and which of the members on a roster are not; and when to look again for those that are waited for.
    pub(super) fn present(
        &self,
        roster: Option<&Roster>,
        participants: &Participants,
    ) -> (Present, Option<Duration>) {
        let now = Instant::now();
        let listed = self.listed(participants);
        // Of whom it is not known whether they take part, they may.
        let present = &listed | &participants.unsure;
        let mut missing = self.missing.lock();
        let on_roster = roster.map(|roster| roster.members.clone()).unwrap_or_default();
        missing.retain(|member, _| on_roster.contains(member) && !present.contains(member));
        for member in on_roster.difference(&present) {
            missing.entry(member.clone()).or_insert(now);
        }
        let (left, later): (Vec<_>, Vec<_>) =
            missing.iter().partition(|(_, since)| now.duration_since(**since) >= self.left_after);
        let again = later.iter().map(|(_, since)| **since + self.left_after - now).min();
        let left = left.into_iter().map(|(member, _)| member.clone()).collect();
        (Present { listed, missing: missing.keys().cloned().collect(), left }, again)
    }

    /// The pages of one number, or `None` while that of this member is not known or not understood.
    pub(super) fn pages(&self, number: u8) -> Option<Pages> {
        let me = self.me();
        if self.caches.ledgers.knowledge(me.as_str()) != Knowledge::Complete {
            return None;
        }
        let participants = self.caches.participants();
        let mut pages = self.caches.pages(number);
        let mine = pages.remove(me);
        if mine.as_deref().is_some_and(|document| document.page().is_none()) {
            return None;
        }
        let on_roster = participants.rosters.get(me).into_iter().flat_map(|roster| &roster.members);
        // Who may take part may know of something too.
        let mut not_listed: BTreeSet<&ClusterId> = participants.unsure.iter().chain(on_roster).collect();
        not_listed.retain(|member| !participants.taking_part.contains(*member));
        let theirs = |member: &ClusterId| {
            let document = pages.get(member).cloned();
            if document.as_deref().is_some_and(|document| document.says == Says::Unreadable) {
                Theirs::Unknown
            } else if participants.heard.contains(member) {
                Theirs::Known(document)
            } else if participants.returning.contains(member) {
                Theirs::Returning(document)
            } else {
                Theirs::Unknown
            }
        };
        let others = participants.taking_part.iter().chain(not_listed).filter(|member| *member != me);
        let others = others.map(|member| (member.clone(), theirs(member))).collect();
        Some(Pages { mine, others })
    }

    /// What all policies of the member share, once it is known what it takes.
    pub(super) fn terms(&self) -> Option<Terms> {
        let me = self.me().as_str();
        let waited = self.started.elapsed() >= PATIENCE;
        Some(Terms { accept: self.caches.accept(me)?, tiers: self.caches.tiers(me), waited })
    }

    /// What the watches show of a policy.
    pub(super) fn seen(&self, key: &PolicyKey) -> Seen {
        let me = self.me().as_str();
        let index = self.caches.policies(key.kind);
        let mut elsewhere = index.everywhere(&key.object());
        let object = elsewhere.remove(me);
        let object_known = index.knowledge(me) == Knowledge::Complete;
        Seen { object, object_known, ground: self.ground(key), elsewhere }
    }

    fn ground(&self, key: &PolicyKey) -> Ground {
        let me = self.me().as_str();
        let namespace = match key.kind {
            Kind::Cluster => String::new(),
            Kind::Namespaced => {
                let found = self.caches.namespaces.get(me, &Key::new("", key.namespace.as_str()));
                match found {
                    Some(namespace) if namespace.ending => return Ground::Missing,
                    Some(namespace) => namespace.uid.clone(),
                    None if self.caches.namespaces.knowledge(me) == Knowledge::Complete => {
                        return Ground::Missing;
                    }
                    None => return Ground::Unknown,
                }
            }
        };
        match self.definitions.lock().get(&key.kind) {
            Some(definition) => Ground::Here(Place::of(&namespace, definition)),
            None => Ground::Unknown,
        }
    }

    /// Everything that counts for one policy.
    pub(super) fn case<'a>(
        &'a self,
        key: &'a PolicyKey,
        pages: &'a Pages,
        seen: &'a Seen,
        terms: &'a Terms,
    ) -> Case<'a> {
        let others = pages.others.iter().map(|(member, theirs)| Other {
            member,
            ledger: theirs.knows(key),
            floor: theirs.page().map_or(0, |page| page.floor),
            object: seen.elsewhere.get(member).map(|object| &**object),
            refused: theirs.page().and_then(|page| page.refused.get(key)),
        });
        Case {
            key,
            me: self.me(),
            mine: pages.mine().entries.get(key),
            refused: pages.mine().refused.get(key),
            floor: pages.mine().floor,
            object: match &seen.object {
                Some(object) => Object::Here(object),
                None if seen.object_known => Object::Absent,
                None => Object::Unknown,
            },
            ground: seen.ground,
            accept: &terms.accept,
            tiers: terms.tiers.as_ref(),
            others: others.collect(),
            waited: terms.waited,
        }
    }
}
