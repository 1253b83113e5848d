//! The work at one post: every federated Service, as it should be in the member that is led.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::names::{MANAGED_BY, MANAGER};
use koinon_control::Key;
use koinon_control::queue::{Next, Queue, work};
use koinon_fleet::{ClusterId, Index, Knowledge, News, Selection, Unserved};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::books::Books;
use super::sources::Sources;
use super::undone::Undone;
use super::{Options, look};
use crate::post::Post;
use crate::services::machines::{Machine, MachineService};
use crate::services::mcs::{Derived, Import};
use crate::services::metrics::Metrics;
use crate::services::model::{Kind, Source};
use crate::services::plan::{Plan, SliceStep, balancers, plan};
use crate::services::records::{Manager, Occupant, OwnSlice};
use crate::services::render::SLICE_MANAGED_BY;
use crate::services::standing::Sight;
use crate::services::telling::Notice;
use crate::services::view::{Dns, Site};

/// So many federated Services are worked on at a time.
const AT_ONCE: usize = 8;
/// For so long members that come and go are gathered, after the first of them.
const GATHERED_FOR: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Job {
    /// A federated Service.
    Federated(Key),
    /// A Service of virtual machines.
    Machines(Key),
    /// An import.
    Import(Key),
    /// The import behind which a Service stands.
    Derived(Key),
    /// All imports.
    Imports,
    /// A member of this cluster, which may have to be told something.
    Member(Source),
    /// Everything there is.
    All,
}

/// What waits to be looked at, and since when.
pub(super) struct Inbox {
    pub(super) cluster: ClusterId,
    queue: Queue<Job>,
    since: Mutex<BTreeMap<Key, Instant>>,
}

impl Inbox {
    pub(super) fn add(&self, job: Job) {
        if let Job::Federated(key) = &job {
            self.since.lock().entry(key.clone()).or_insert_with(Instant::now);
        }
        self.queue.add(job);
    }
}

/// A post and what is known there.
pub(super) struct At {
    pub(super) post: Post,
    pub(super) sources: Arc<Sources>,
    pub(super) options: Options,
    pub(super) metrics: Metrics,
    /// What we generated in the member that is led.
    pub(super) own: Arc<Index<OwnSlice>>,
    /// Whether news of it are of what was written this very moment.
    writing: Arc<AtomicBool>,
    /// Which of it belongs to which federated Service.
    owners: Arc<Mutex<Books>>,
    /// Virtual machines of the member that is led, and the Services that were made for them.
    pub(super) machines: Arc<Index<Machine>>,
    pub(super) machine_services: Arc<Index<MachineService>>,
    /// Which machines ask for which Service.
    pub(super) asked: Arc<Mutex<Books>>,
    /// Imports of the member that is led, and the Services behind them.
    pub(super) imports: Arc<Index<Import>>,
    pub(super) derived: Arc<Index<Derived>>,
    /// Which import a Service stands behind.
    pub(super) derived_names: Mutex<BTreeMap<Key, Key>>,
    /// Names of such Services that somebody else's have.
    pub(super) taken: Mutex<BTreeSet<Key>>,
    /// Values of `trafficDistribution` that the member that is led does not take.
    pub(super) unsupported: Mutex<BTreeSet<String>>,
    /// Federated Services of which all is known, with members here that say how they stand.
    pub(super) seen_clearly: Mutex<BTreeSet<Key>>,
    pub(super) inbox: Arc<Inbox>,
    /// Until when members of a federated Service that come and go are gathered.
    gathered: Mutex<BTreeMap<Key, Instant>>,
    /// What was told last, by what it was about.
    pub(super) told: Mutex<BTreeMap<Job, Vec<Notice>>>,
}

impl At {
    pub(super) fn new(post: Post, sources: Arc<Sources>, options: Options, metrics: Metrics) -> At {
        let inbox = Arc::new(Inbox {
            cluster: post.name().clone(),
            queue: Queue::new(FIRST_PAUSE, LONGEST_PAUSE),
            since: Mutex::default(),
        });
        post.fleet.metrics().queue("services", &inbox, |inbox| inbox.queue.waiting());
        let (own, owners) = (Index::<OwnSlice>::new(), Arc::new(Mutex::new(Books::default())));
        let (weak, books, to) = (Arc::downgrade(&own), owners.clone(), inbox.clone());
        let writing = Arc::new(AtomicBool::new(false));
        let is_written = writing.clone();
        own.on_change(move |news| match news {
            News::Record(cluster, key) => {
                let Some(index) = weak.upgrade() else { return };
                let record = index.get(cluster.as_str(), key);
                let service = record.as_ref().map(|one| (one.service.as_str(), one.endpoints as usize));
                let (services, _) = books.lock().own(cluster, key, service);
                let manager = record.map(|one| one.manager);
                if manager == Some(Manager::Federation) && is_written.load(Ordering::Relaxed) {
                    // A plan wrote it this very moment: it is as it should be.
                    return;
                }
                for key in services {
                    match manager {
                        Some(Manager::Federation) => to.add(Job::Federated(key)),
                        Some(Manager::Machines) => to.add(Job::Machines(key)),
                        Some(Manager::Imports) => to.add(Job::Derived(key)),
                        // It is gone, and with it whose it was.
                        None => {
                            to.add(Job::Federated(key.clone()));
                            to.add(Job::Machines(key.clone()));
                            to.add(Job::Derived(key));
                        }
                    }
                }
            }
            News::Knowledge(..) => to.add(Job::All),
        });
        let (machines, asked) = (Index::<Machine>::new(), Arc::new(Mutex::new(Books::default())));
        let (weak, books, to) = (Arc::downgrade(&machines), asked.clone(), inbox.clone());
        let had_any = AtomicBool::new(false);
        machines.on_change(move |news| match *news {
            News::Record(cluster, key) => {
                let Some(index) = weak.upgrade() else { return };
                let has_any = !index.is_empty();
                if had_any.swap(has_any, Ordering::Relaxed) != has_any {
                    // With the first machine there is somebody to whom every federated Service needs a name.
                    to.add(Job::All);
                }
                let machine = index.get(cluster.as_str(), key);
                let services = machine.iter().flat_map(|one| one.asks.keys());
                let services: Vec<Key> =
                    services.map(|name| Key::new(key.namespace.as_str(), name.as_str())).collect();
                let source =
                    Source { cluster: cluster.clone(), kind: Kind::VirtualMachine, key: key.clone() };
                let concerned = books.lock().join(source.clone(), Timestamp::UNIX_EPOCH, &services);
                concerned.keys.into_iter().for_each(|key| to.add(Job::Machines(key)));
                to.add(Job::Member(source));
            }
            News::Knowledge(..) => to.add(Job::All),
        });
        let machine_services = Index::<MachineService>::new();
        let to = inbox.clone();
        machine_services.on_change(move |news| match *news {
            News::Record(_, key) => to.add(Job::Machines(key.clone())),
            News::Knowledge(..) => to.add(Job::All),
        });
        let (imports, derived) = (Index::<Import>::new(), Index::<Derived>::new());
        let to = inbox.clone();
        imports.on_change(move |news| match *news {
            News::Record(_, key) => to.add(Job::Import(key.clone())),
            News::Knowledge(..) => to.add(Job::All),
        });
        let to = inbox.clone();
        derived.on_change(move |news| match *news {
            News::Record(_, key) => to.add(Job::Derived(key.clone())),
            News::Knowledge(..) => to.add(Job::All),
        });
        At {
            post,
            sources,
            options,
            metrics,
            own,
            writing,
            owners,
            machines,
            machine_services,
            asked,
            imports,
            derived,
            derived_names: Mutex::default(),
            taken: Mutex::default(),
            unsupported: Mutex::default(),
            seen_clearly: Mutex::default(),
            inbox,
            gathered: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// Works for as long as it is polled.
    pub(super) async fn run(self) -> Infallible {
        let _forgets = Forgets { metrics: &self.metrics, member: self.post.name() };
        self.sources.desk.open(&self.inbox);
        self.inbox.add(Job::All);
        let ours = Selection {
            labels: Some(format!(
                "{SLICE_MANAGED_BY} in ({},{},{})",
                Manager::Federation.as_str(),
                Manager::Machines.as_str(),
                Manager::Imports.as_str(),
            )),
            ..Selection::default()
        };
        let made = Selection { labels: Some(format!("{MANAGED_BY}={MANAGER}")), ..Selection::default() };
        let optional = Selection { unserved: Unserved::Empty, ..Selection::default() };
        let (member, fleet) = (&self.post.member, &self.post.fleet);
        tokio::select! {
            biased;
            never = fleet.follow_member(member, self.own.clone(), ours, member.client().all()) => never,
            never = fleet.follow_member(member, self.machines.clone(), optional.clone(), member.client().all()) => never,
            never = fleet.follow_member(member, self.imports.clone(), optional, member.client().all()) => never,
            never = fleet.follow_member(member, self.derived.clone(), made.clone(), member.client().all()) => never,
            never = fleet.follow_member(member, self.machine_services.clone(), made, member.client().all()) => never,
            never = self.hear_of_members() => never,
            never = work(&self.inbox.queue, AT_ONCE, |job| self.handle(job)) => never,
        }
    }

    /// A member that comes, goes or changes its health concerns everything.
    async fn hear_of_members(&self) -> Infallible {
        let mut changes = self.post.fleet.changes();
        let mut known = Vec::new();
        loop {
            changes.borrow_and_update();
            let members = self.post.fleet.members();
            let now: Vec<_> = members.iter().map(|one| (one.name().clone(), one.state().phase)).collect();
            if now != known {
                known = now;
                self.sources.desk.looks.forget_all();
                self.inbox.add(Job::All);
            }
            if changes.changed().await.is_err() {
                // The fleet is ours, so its sender is there.
                std::future::pending::<()>().await;
            }
        }
    }

    async fn handle(&self, job: Job) -> Next {
        match job {
            Job::All => {
                self.measure();
                self.everything().into_iter().for_each(|key| self.inbox.add(Job::Federated(key)));
                self.everything_of_machines().into_iter().for_each(|key| self.inbox.add(Job::Machines(key)));
                self.inbox.add(Job::Imports);
                self.flawed().into_iter().for_each(|source| self.inbox.add(Job::Member(source)));
                Next::Done
            }
            Job::Member(source) => {
                self.tell(Job::Member(source.clone()), self.flaws(&source));
                self.stand(&source).await
            }
            Job::Machines(key) => self.machines(&key).await,
            Job::Imports => {
                self.everything_of_imports().into_iter().for_each(|key| self.inbox.add(Job::Import(key)));
                Next::Done
            }
            Job::Import(key) => self.import(&key).await,
            Job::Derived(key) => {
                let import = self.derived_names.lock().get(&key).cloned();
                if let Some(import) = import {
                    self.inbox.add(Job::Import(import));
                }
                Next::Done
            }
            Job::Federated(key) => self.federated(&key).await,
        }
    }

    /// Says how much there is, whenever that may have changed.
    fn measure(&self) {
        let federated = self.sources.desk.books.read().federated().len();
        self.metrics.stands(self.post.name().as_str(), federated, self.own.len(), self.inbox.queue.waiting());
    }

    /// All federated Services that there are, or that something of is here.
    fn everything(&self) -> BTreeSet<Key> {
        let here = self.post.name().as_str();
        let mut all: BTreeSet<Key> = self.sources.desk.books.read().federated().cloned().collect();
        let services = self.sources.services.of_member(here).into_iter();
        all.extend(services.filter(|(_, one)| matches!(**one, Occupant::Ours(_))).map(|(key, _)| key));
        let slices = self.own.of_member(here);
        all.extend(slices.into_iter().map(|(key, slice)| Key::new(key.namespace, slice.service.as_str())));
        all
    }

    /// All Services of machines that there are, or should be.
    fn everything_of_machines(&self) -> BTreeSet<Key> {
        let here = self.post.name().as_str();
        let mut all: BTreeSet<Key> = self.asked.lock().federated().cloned().collect();
        all.extend(self.machine_services.of_member(here).into_iter().map(|(key, _)| key));
        all
    }

    async fn federated(&self, key: &Key) -> Next {
        let here = self.post.name();
        // What was not listed yet is unknown: nothing is written where it is not known what is there.
        let is_known = self.own.knowledge(here.as_str()) != Knowledge::Unknown
            && self.sources.services.knowledge(here.as_str()) != Knowledge::Unknown
            && self.sources.namespaces.knowledge(here.as_str()) != Knowledge::Unknown;
        if !is_known {
            return Next::Done;
        }
        let since = self.inbox.since.lock().remove(key);
        self.measure();
        let (clusters, again) = look::clusters_at(&self.sources, here, key, &self.options.stale);
        let site = self.site(key, self.sources.resolver.look(key, balancers(&clusters)));
        let plan = plan(here, key, &clusters, &site);
        tracing::trace!(%here, %key, why = plan.why, "looked at");
        if let Some(left) = self.gathers(key, &plan) {
            if let Some(since) = since {
                self.inbox.since.lock().entry(key.clone()).or_insert(since);
            }
            return Next::After(left);
        }
        let undone = if plan.is_settled() { Undone::default() } else { self.act(key, &plan).await };
        let mut notices = plan.notices.clone();
        if self.learn_unsupported(&undone, plan.traffic_distribution()) {
            return Next::Retry;
        }
        let uid = match site.occupant.as_deref() {
            Some(Occupant::Ours(published)) => published.uid.as_str(),
            _ => "",
        };
        notices.extend(undone.told(Kind::Service, key, uid));
        let local = clusters.get(here).map(|cluster| cluster.members.as_slice()).unwrap_or_default();
        notices.extend(undone.told_to_members(local));
        let is_changed = self.tell(Job::Federated(key.clone()), notices);
        let sight = if clusters.values().all(|one| one.known) { Sight::Clear } else { Sight::Dim };
        self.stands(key, local, sight, is_changed);
        if undone.is_empty() {
            if let (Some(since), false) = (since, plan.is_settled()) {
                self.metrics.propagated(since.elapsed());
            }
            return self.look_again(again);
        }
        if let Some(since) = since {
            self.inbox.since.lock().entry(key.clone()).or_insert(since);
        }
        tracing::debug!(%here, %key, ?undone, "not as it should be yet");
        Next::Retry
    }

    /// How long what members come and go is still gathered, if it is. The first of them is told at once. Who comes right after it is
    /// told together with others: where many clusters join within a moment, and then use their own members alone, most of what each
    /// would be told in between is over before it is written. Changes of endpoints wait for nothing.
    fn gathers(&self, key: &Key, plan: &Plan) -> Option<Duration> {
        let comes_or_goes =
            |step: &SliceStep| matches!(step, SliceStep::Create { .. } | SliceStep::Delete { .. });
        if !plan.slices.iter().any(comes_or_goes) {
            return None;
        }
        let now = Instant::now();
        let mut gathered = self.gathered.lock();
        gathered.retain(|_, until| *until > now);
        if let Some(until) = gathered.get(key) {
            return Some(*until - now);
        }
        gathered.insert(key.clone(), now + GATHERED_FOR);
        None
    }

    /// Whether a cluster refused a Service for a field that older servers do not know: it goes without from now on.
    pub(super) fn learn_unsupported(&self, undone: &Undone, value: Option<&str>) -> bool {
        let Some(value) = value.filter(|_| undone.is_about("trafficDistribution")) else { return false };
        self.unsupported.lock().insert(value.to_owned())
    }

    pub(super) fn look_again(&self, due: Option<Timestamp>) -> Next {
        let now = self.post.clock().now();
        let left = due.map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
        left.map_or(Next::Done, |left| Next::After(left.max(Duration::from_secs(1))))
    }

    fn site(&self, key: &Key, resolved: crate::services::endpoints::Resolved) -> Site {
        let here = self.post.name();
        Site {
            namespace: self.sources.namespaces.get(here.as_str(), &Key::new("", &*key.namespace)).is_some(),
            occupant: self.sources.services.get(here.as_str(), key),
            slices: self.own_slices(key, Manager::Federation),
            resolved,
            dns: self.dns(),
            unsupported: self.unsupported.lock().clone(),
            locality: self.options.locality,
        }
    }

    /// Takes in an EndpointSlice as it was written.
    pub(super) fn learn_slice(&self, slice: &EndpointSlice) {
        self.writing.store(true, Ordering::Relaxed);
        self.own.learn(self.post.name(), slice);
        self.writing.store(false, Ordering::Relaxed);
    }

    /// The EndpointSlices that were generated for one Service, by name.
    pub(super) fn own_slices(&self, key: &Key, manager: Manager) -> BTreeMap<String, Arc<OwnSlice>> {
        let here = self.post.name();
        let names: Vec<Key> = {
            let owners = self.owners.lock();
            owners.slices_of(here, key).map(|name| Key::new(key.namespace.as_str(), name)).collect()
        };
        let slices = names.into_iter().filter_map(|key| {
            let slice = self.own.get(here.as_str(), &key)?;
            (slice.manager == manager).then_some((key.name, slice))
        });
        slices.collect()
    }

    /// Virtual machines that are looked after here look for names outside the cluster.
    fn dns(&self) -> Dns {
        match &self.options.dns_suffix {
            None => Dns::Nowhere,
            Some(_) if self.machines.knowledge(self.post.name().as_str()) == Knowledge::Unknown => {
                Dns::Unknown
            }
            Some(_) if self.machines.is_empty() => Dns::Nowhere,
            Some(suffix) => Dns::Under(suffix.clone()),
        }
    }
}

struct Forgets<'a> {
    metrics: &'a Metrics,
    member: &'a ClusterId,
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        self.metrics.forget(self.member.as_str());
    }
}
