//! One member that is led: what is known of it, and what waits to be looked at.

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
use super::census::Census;
use super::content::Sighting;
use super::entities::Roll;
use super::key::{Kind, PolicyKey};
use super::ledger::{Page, Place, Roster};
use super::metrics::{Metrics, Unsettled};
use super::plan::{Case, Ground, Knows, Object, Other};
use super::sight::{Document, Listener, Says, Sight};
use super::source::Source;
use super::telling::Telling;
use crate::post::Post;

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
pub(super) struct Led {
    pub(super) post: Post,
    pub(super) sight: Arc<Sight>,
    pub(super) source: Arc<Source>,
    /// Which Services are federated.
    pub(super) roll: Arc<Roll>,
    pub(super) telling: Telling,
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
    Blank,
    Page(Arc<Document>),
}

impl Theirs {
    fn page(&self) -> Option<&Page> {
        match self {
            Theirs::Page(document) => document.page(),
            Theirs::Unknown | Theirs::Blank => None,
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

impl Led {
    pub(super) fn new(
        post: Post,
        sight: Arc<Sight>,
        source: Arc<Source>,
        roll: Arc<Roll>,
        options: &Options,
        metrics: Metrics,
    ) -> Arc<Led> {
        let telling = Telling::new(post.recorder.clone());
        let led = Arc::new(Led {
            post,
            sight,
            source,
            roll,
            telling,
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
        let listener: Arc<dyn Listener> = led.clone();
        led.post.fleet.metrics().queue("policies", &led, |led| led.queue.waiting());
        led.sight.register(Arc::downgrade(&listener));
        led
    }

    pub(super) fn me(&self) -> &ClusterId {
        self.post.name()
    }

    /// Looks after the member for as long as it is polled.
    pub(super) async fn run(self: Arc<Self>) -> Infallible {
        self.everything();
        let wake = async {
            let mut members = self.post.fleet.changes();
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
            let led = self.clone();
            // Boxed, so that the tables of many workers stay small.
            let handled: futures::future::BoxFuture<'static, Next> = match item {
                Item::Roster => Box::pin(async move { led.look_after_roster().await }),
                Item::Page(number) => Box::pin(async move { led.look_after_page(number).await }),
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
        let pages = self.sight.catalogue.in_use();
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
            for key in self.sight.catalogue.page(number) {
                keys.entry(key).or_insert(since);
            }
        }
        keys
    }

    /// All members that take part in policies.
    pub(super) fn listed(&self, census: &Census) -> BTreeSet<ClusterId> {
        let mut listed = census.taking_part.clone();
        listed.insert(self.me().clone());
        listed
    }

    /// Of the members on a roster, those that have left, and when to look again for the others that are missing. `present` are
    /// all that take part, and those of which it is not known whether they do.
    pub(super) fn left(
        &self,
        roster: Option<&Roster>,
        present: &BTreeSet<ClusterId>,
    ) -> (BTreeSet<ClusterId>, Option<Duration>) {
        let now = Instant::now();
        let mut missing = self.missing.lock();
        let on_roster = roster.map(|roster| roster.members.clone()).unwrap_or_default();
        missing.retain(|member, _| on_roster.contains(member) && !present.contains(member));
        for member in on_roster.difference(present) {
            missing.entry(member.clone()).or_insert(now);
        }
        let (left, later): (Vec<_>, Vec<_>) =
            missing.iter().partition(|(_, since)| now.duration_since(**since) >= self.left_after);
        let again = later.iter().map(|(_, since)| **since + self.left_after - now).min();
        (left.into_iter().map(|(member, _)| member.clone()).collect(), again)
    }

    /// The pages of one number, or `None` while that of this member is not known or not understood.
    pub(super) fn pages(&self, number: u8) -> Option<Pages> {
        let me = self.me();
        if self.sight.ledgers.knowledge(me.as_str()) != Knowledge::Complete {
            return None;
        }
        let census = self.sight.census();
        let mut pages = self.sight.pages(number);
        let mine = pages.remove(me);
        if mine.as_deref().is_some_and(|document| document.page().is_none()) {
            return None;
        }
        let on_roster = census.rosters.get(me).into_iter().flat_map(|roster| &roster.members);
        // Who may take part may know of something too.
        let mut not_listed: BTreeSet<&ClusterId> = census.unsure.iter().chain(on_roster).collect();
        not_listed.retain(|member| !census.taking_part.contains(*member));
        let theirs = |member: &ClusterId| {
            if !census.heard.contains(member) {
                return Theirs::Unknown;
            }
            match pages.get(member) {
                None => Theirs::Blank,
                Some(document) if document.says == Says::Unreadable => Theirs::Unknown,
                Some(document) => Theirs::Page(document.clone()),
            }
        };
        let others = census.taking_part.iter().chain(not_listed).filter(|member| *member != me);
        let others = others.map(|member| (member.clone(), theirs(member))).collect();
        Some(Pages { mine, others })
    }

    /// What all policies of the member share, once it is known what it takes.
    pub(super) fn terms(&self) -> Option<Terms> {
        let me = self.me().as_str();
        let waited = self.started.elapsed() >= PATIENCE;
        Some(Terms { accept: self.sight.accept(me)?, tiers: self.sight.tiers(me), waited })
    }

    /// What the watches show of a policy.
    pub(super) fn seen(&self, key: &PolicyKey) -> Seen {
        let me = self.me().as_str();
        let index = self.sight.policies(key.kind);
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
                let found = self.sight.namespaces.get(me, &Key::new("", key.namespace.as_str()));
                match found {
                    Some(namespace) if namespace.ending => return Ground::Missing,
                    Some(namespace) => namespace.uid.clone(),
                    None if self.sight.namespaces.knowledge(me) == Knowledge::Complete => {
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
            ledger: match theirs {
                Theirs::Unknown => Knows::Unknown,
                Theirs::Blank => Knows::Known(None),
                Theirs::Page(_) => Knows::Known(theirs.page().and_then(|page| page.entries.get(key))),
            },
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
