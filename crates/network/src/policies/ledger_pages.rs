//! A batching writer: one page of the led member's ledger at a time. What was planned for its policies is written down, done, and
//! written down as done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use koinon_control::queue::Next;
use koinon_fleet::member::Error;
use kube::core::DynamicObject;
use kube::{Resource as _, ResourceExt as _};

use super::content::{Content, Sighting};
use super::key::{Kind, PolicyKey};
use super::ledger::{Entry, Page, Place, Refusal, State};
use super::member_reconciler::{Dirty, Item, MemberReconciler, Pages, Terms};
use super::metrics::{self, Unsettled, Written};
use super::plan::{Act, Ground, Over, Plan, UserChange, Why, Write, plan};
use super::rules;
use super::writer::Failed;

/// So many policies are written at once.
const AT_ONCE: usize = 8;
/// What was done is written down after what is on its way to other members, but at most so much later.
const LET_PASS: Duration = Duration::from_millis(100);
/// A member without Antrea is looked at again after this time.
const INSTALLED_YET: Duration = Duration::from_secs(30);

/// What was planned for the policies of a page.
type Plans = BTreeMap<PolicyKey, Plan>;

/// What came of touching a policy.
enum Outcome {
    /// It is so now.
    Noted(Entry),
    /// The server does not take it.
    Refused(Refusal),
    /// Something came in between: look again.
    Again,
    /// It did not work for now.
    Failed,
}

impl MemberReconciler {
    pub(super) async fn look_after_page(&self, number: u8) -> Next {
        if !self.is_ready() {
            return Next::Done;
        }
        let keys = self.take_dirty(number);
        // What changes while it is looked at must not pass unnoticed.
        self.unsettle(keys.keys());
        let Some(pages) = self.pages(number).filter(|_| !keys.is_empty()) else {
            // What is not known yet announces itself when it is.
            self.keep(number, keys);
            return Next::Done;
        };
        let kinds = self.know_definitions(keys.keys().map(|key| key.kind)).await;
        let Some(terms) = self.terms() else {
            self.keep(number, keys);
            return Next::Done;
        };
        let mut plans = Plans::new();
        for key in keys.keys() {
            let seen = self.seen(key);
            let plan = plan(&self.case(key, &pages, &seen, &terms));
            let uid = seen.object.as_ref().map_or("", |object| &*object.uid);
            self.notices.now(key, uid, &plan.news);
            self.classify(key, Unsettled::of(&plan.act));
            if plan.act == Act::Rest(Why::Nowhere) {
                self.caches.strike(key);
            }
            plans.insert(key.clone(), plan);
        }
        let carried_out = self.carry_out(number, &pages, &terms, plans, &keys).await;
        self.tally(number);
        match carried_out {
            Ok(true) => {}
            Ok(false) => {
                self.keep(number, keys);
                return Next::Retry;
            }
            Err(failed) => {
                tracing::debug!(member = %self.me(), number, error = %failed, "a page of policies was not written");
                if failed.is_conflict() {
                    self.refresh(&Page::name(number)).await;
                }
                self.keep(number, keys);
                return Next::Retry;
            }
        }
        match kinds {
            Some(wait) => {
                self.keep(number, keys);
                Next::After(wait)
            }
            None => Next::Done,
        }
    }

    /// Does what was planned; says whether all of it worked.
    async fn carry_out(
        &self,
        number: u8,
        pages: &Pages,
        terms: &Terms,
        plans: Plans,
        since: &Dirty,
    ) -> Result<bool, Failed> {
        if plans.values().all(|plan| matches!(plan.act, Act::Rest(_))) {
            return Ok(true);
        }
        let mut all_well = true;
        let mut page = pages.mine().clone();
        let (mut changes, mut touches, mut to_assign) = (Vec::new(), Vec::new(), Vec::new());
        for (key, plan) in plans {
            match plan.act {
                Act::Rest(_) | Act::Discard { .. } => {}
                Act::Note(entry) => page.note(&key, entry),
                Act::Refuse(refusal) => drop(page.refused.insert(key, refusal)),
                // A page that says so already need not be written again.
                Act::Erase { ref entry, .. } => {
                    page.note(&key, entry.clone());
                    touches.push((key, plan.act));
                }
                Act::Write(_) => touches.push((key, plan.act)),
                Act::AssignRevision(..) | Act::Forget(_) => to_assign.push(key),
            }
        }
        let looks = stream::iter(to_assign).map(|key| async {
            let decided = self.look_again(&key, pages, terms).await;
            (key, decided)
        });
        let looked: Vec<_> = looks.buffer_unordered(AT_ONCE).collect().await;
        let changes_count = self.changes_count(&looked).await;
        for (key, decided) in looked {
            match decided {
                // Done in a cluster that is no member, or in one that has to be put right first.
                Ok(Some(Decided::Revision(_))) if !changes_count => {
                    self.queue.add(Item::Roster);
                    all_well = false;
                }
                Ok(Some(Decided::Revision(assigned))) => {
                    // Others may ask for it as soon as it is written down.
                    if let (Some(hash), Some((_, content))) =
                        (assigned.entry.version.content, &assigned.found)
                    {
                        self.source.remember(hash, content);
                    }
                    page.note(&key, assigned.entry.clone());
                    changes.push((key, *assigned));
                }
                Ok(Some(Decided::Forget)) => page.forget(&key),
                Ok(None) => self.mark([key]),
                Err(error) => {
                    tracing::debug!(member = %self.me(), %key, %error, "a policy was not looked at");
                    all_well = false;
                }
            }
        }
        let mut version = pages.version().map(str::to_owned);
        if page != *pages.mine() {
            version = Some(self.write_page(number, version.as_deref(), &page).await?);
        }
        self.announce(changes);
        let before = page.clone();
        let mut noted = Vec::new();
        let on_way = self.source.barrier.set_out(touches.len());
        let outcomes = stream::iter(touches).map(|(key, act)| async {
            let outcome = self.apply(&key, act).await;
            (key, outcome)
        });
        for (key, outcome) in outcomes.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
            match outcome {
                Outcome::Noted(entry) => {
                    if let Some(since) = since.get(&key) {
                        self.metrics.propagated(since.elapsed());
                    }
                    page.note(&key, entry);
                    noted.push(key);
                }
                Outcome::Refused(refusal) => {
                    page.refused.insert(key, refusal);
                    all_well = false;
                }
                Outcome::Again => self.mark([key]),
                Outcome::Failed => all_well = false,
            }
        }
        drop(on_way);
        if page != before {
            // A copy says itself what it is, so that writing it down can wait for those that are still to be made.
            self.source.barrier.pass(LET_PASS).await;
            self.write_page(number, version.as_deref(), &page).await?;
        }
        noted.iter().for_each(|key| self.classify(key, None));
        Ok(all_well)
    }

    /// Whether what users did counts: whether the member still has the Federation under which its ledger was put right.
    /// Asked past the watch, and after the look at the policies: whoever left and removed them then is seen to have left.
    async fn changes_count(&self, looked: &[(PolicyKey, Result<Option<Decided>, Error>)]) -> bool {
        if !looked.iter().any(|(_, decided)| matches!(decided, Ok(Some(Decided::Revision(_))))) {
            return true;
        }
        match self.leader.read_federation().await {
            Ok(federation) => {
                let roster = self.caches.participants().rosters.get(self.me()).cloned();
                federation.zip(roster).is_some_and(|(federation, roster)| roster.is_of(&federation))
            }
            Err(error) => {
                tracing::debug!(member = %self.me(), %error, "the member's Federation was not read");
                false
            }
        }
    }

    async fn write_page(&self, number: u8, over: Option<&str>, page: &Page) -> Result<String, Failed> {
        let map = self.leader.write_document(&Page::name(number), over, page.write()).await;
        let map = self.counted(Written::Ledger, map)?;
        let version = map.resource_version().unwrap_or_default();
        self.caches.ledgers.learn(self.me(), &map);
        Ok(version)
    }

    /// Reads a document past the watch, because somebody else wrote it.
    pub(super) async fn refresh(&self, name: &str) {
        if let Ok(Some(map)) = self.leader.read_document(name).await {
            self.caches.ledgers.learn(self.me(), &map);
        }
    }

    /// Learns the UIDs of definitions; says when to come back where one is not there.
    async fn know_definitions(&self, kinds: impl Iterator<Item = Kind>) -> Option<Duration> {
        let mut again = None;
        for kind in kinds.collect::<std::collections::BTreeSet<_>>() {
            if self.definitions.lock().contains_key(&kind) {
                continue;
            }
            match self.leader.read_definition(kind).await {
                Ok(Some(uid)) => drop(self.definitions.lock().insert(kind, uid)),
                Ok(None) => again = Some(INSTALLED_YET),
                Err(error) => {
                    tracing::debug!(member = %self.me(), %error, "the definition of policies was not read");
                    again = Some(Duration::from_secs(1));
                }
            }
        }
        again
    }

    /// Looks past the watches at what is to be decided, and judges it anew.
    async fn look_again(
        &self,
        key: &PolicyKey,
        pages: &Pages,
        terms: &Terms,
    ) -> Result<Option<Decided>, Error> {
        let (object, ground) = futures::try_join!(self.leader.read_policy(key), self.look_at_ground(key))?;
        let mut seen = self.seen(key);
        self.learn(key, object.as_ref(), seen.object.as_deref());
        seen.object = object.as_ref().map(|object| Arc::new(Sighting::of(key, object)));
        seen.object_known = true;
        seen.ground = ground;
        let plan = plan(&self.case(key, pages, &seen, terms));
        Ok(match plan.act {
            Act::AssignRevision(change, entry) => {
                let found =
                    object.as_ref().map(|object| (object.uid().unwrap_or_default(), Content::of(object)));
                Some(Decided::Revision(Box::new(Assigned { change, entry, found })))
            }
            Act::Forget(_) => Some(Decided::Forget),
            _ => None,
        })
    }

    async fn look_at_ground(&self, key: &PolicyKey) -> Result<Ground, Error> {
        let Some(definition) = self.leader.read_definition(key.kind).await? else {
            return Ok(Ground::Unknown);
        };
        self.definitions.lock().insert(key.kind, definition.clone());
        if key.kind == Kind::Cluster {
            return Ok(Ground::Here(Place::of("", &definition)));
        }
        Ok(match self.leader.read_namespace(&key.namespace).await? {
            Some(namespace) if namespace.meta().deletion_timestamp.is_none() => {
                Ground::Here(Place::of(&namespace.uid().unwrap_or_default(), &definition))
            }
            Some(_) | None => Ground::Missing,
        })
    }

    /// Takes in what the server showed past the watch.
    pub(super) fn learn(&self, key: &PolicyKey, object: Option<&DynamicObject>, before: Option<&Sighting>) {
        let index = self.caches.policies(key.kind);
        match (object, before) {
            (Some(object), _) => index.learn(self.me(), object),
            (None, Some(before)) => index.forget(self.me(), &key.object(), &before.uid),
            (None, None) => {}
        }
    }

    /// What users did is written down: now the content can go anywhere, and they are told.
    fn announce(&self, changes: Vec<(PolicyKey, Assigned)>) {
        let members = self.listed(&self.caches.participants()).len();
        for (key, Assigned { change, entry, found }) in changes {
            let uid = found.as_ref().map(|(uid, _)| uid.clone()).unwrap_or_default();
            self.notices.change(&key, &uid, change, &entry.version, members);
            if let (Some(_), Some((_, content))) = (entry.version.content, found) {
                self.notices.local_rules(&key, &uid, self.local_rules(&key, &content));
            }
        }
    }

    fn local_rules(&self, key: &PolicyKey, content: &Content) -> Vec<String> {
        rules::warnings(key, &content.spec, |service| self.roll.is_plain(service))
    }

    async fn apply(&self, key: &PolicyKey, act: Act) -> Outcome {
        match act {
            Act::Write(write) => self.copy(key, write).await,
            Act::Erase { entry, uid, resource_version } => {
                let over = Over { uid, resource_version };
                let deleted = self.leader.delete_policy(key, &over).await;
                match self.counted(Written::Policy, deleted) {
                    Ok(()) => {
                        self.caches.policies(key.kind).forget(self.me(), &key.object(), &over.uid);
                        self.notices.erased(key, &over.uid, &entry.version);
                        // Something may still hold it: then it is seen going, and noted when it is gone.
                        self.confirm_gone(key, entry).await
                    }
                    Err(failed) => self.failed(key, failed).await,
                }
            }
            _ => Outcome::Again,
        }
    }

    async fn confirm_gone(&self, key: &PolicyKey, entry: Entry) -> Outcome {
        match self.leader.read_policy(key).await {
            Ok(None) => Outcome::Noted(Entry::removed(entry.version)),
            Ok(Some(object)) => {
                self.learn(key, Some(&object), None);
                Outcome::Again
            }
            Err(_) => Outcome::Failed,
        }
    }

    async fn copy(&self, key: &PolicyKey, write: Write) -> Outcome {
        let Write { version, from, over, place } = write;
        let Some(hash) = version.content else { return Outcome::Again };
        let Some(content) = self.source.content(&self.leader.fleet, key, hash, &from).await else {
            return Outcome::Failed;
        };
        let written = match &over {
            Some(over) => self.leader.change_policy(key, &version, &content, over).await,
            None => self.leader.create_policy(key, &version, &content).await,
        };
        match self.counted(Written::Policy, written) {
            Ok(object) => {
                self.learn(key, Some(&object), None);
                let made = Sighting::of(key, &object);
                let local = (made.hash != hash).then_some(made.hash);
                if local.is_some() {
                    self.notices.shaped(key, &made.uid, &version);
                }
                Outcome::Noted(Entry { version, state: State::Applied { local, place } })
            }
            Err(failed) => match failed.refusal() {
                Some(why) => {
                    tracing::info!(member = %self.me(), %key, why, "a policy was refused");
                    Outcome::Refused(Refusal::of(&version, &why))
                }
                None => self.failed(key, failed).await,
            },
        }
    }

    /// Counts a write by how it ended.
    pub(super) fn counted<T>(&self, kind: Written, written: Result<T, Failed>) -> Result<T, Failed> {
        let outcome = match &written {
            Ok(_) => metrics::Outcome::Done,
            Err(failed) if failed.is_conflict() => metrics::Outcome::Conflict,
            Err(failed) if failed.refusal().is_some() => metrics::Outcome::Refused,
            Err(_) => metrics::Outcome::Failed,
        };
        self.metrics.wrote(self.me().as_str(), kind, outcome);
        written
    }

    async fn failed(&self, key: &PolicyKey, failed: Failed) -> Outcome {
        tracing::debug!(member = %self.me(), %key, error = %failed, "a policy was not written");
        if !failed.is_conflict() {
            return Outcome::Failed;
        }
        match self.leader.read_policy(key).await {
            Ok(object) => {
                let before = self.seen(key).object;
                self.learn(key, object.as_ref(), before.as_deref());
                Outcome::Again
            }
            Err(_) => Outcome::Failed,
        }
    }
}

/// What a look past the watches confirmed.
enum Decided {
    Revision(Box<Assigned>),
    Forget,
}

/// What a user did, what the ledger will say of it, and the object's UID and content where it is there.
struct Assigned {
    change: UserChange,
    entry: Entry,
    found: Option<(String, Content)>,
}
