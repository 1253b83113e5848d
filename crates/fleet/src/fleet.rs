//! The members that are wanted, each with its client and its health.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use koinon_api::membership::{Claims, ClusterId, Phase};
use koinon_control::client::Keepalive;
use koinon_control::{Clock, permission};
use kube::{Api, Client};
use parking_lot::RwLock;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use crate::health::Thresholds;
use crate::index::{Index, Record};
use crate::member::{Credentials, Limits, MemberClient};
use crate::metrics::Metrics;
use crate::probe::probe;
use crate::task::Task;
use crate::watch::{Selection, Shared, Watch};

/// So many lists may be on their way at once, however many members there are.
const LISTS_AT_ONCE: usize = 32;

/// How a fleet works.
#[derive(Clone, Debug)]
pub struct Options {
    pub thresholds: Thresholds,
    pub limits: Limits,
    /// Where members keep their claims: a cluster that is seen for the first time has to claim the ID it is
    /// known by. Without, whoever is seen first is the member.
    pub claims: Option<String>,
    /// Watches of new members begin within this time, each at its own moment.
    pub spread: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            thresholds: Thresholds::default(),
            limits: Limits::default(),
            claims: None,
            spread: Duration::from_secs(1),
        }
    }
}

/// A member that should be there.
#[derive(Clone)]
pub struct Wanted {
    pub link: Link,
    /// The UID of its `kube-system` namespace, where somebody wrote it down.
    pub uid: Option<String>,
}

/// The way to a member.
#[derive(Clone)]
pub enum Link {
    /// Over the network, as its Secret says.
    Login(Credentials),
    /// A server in this process, or whatever else answers like one.
    Direct(Client),
    /// There is none, for this reason.
    Missing(String),
}

impl Link {
    /// Whether this leads to the same place in the same way.
    fn is_as(&self, other: &Link) -> bool {
        match (self, other) {
            (Link::Login(one), Link::Login(other)) => one == other,
            (Link::Missing(one), Link::Missing(other)) => one == other,
            (Link::Direct(_), Link::Direct(_)) => true,
            _ => false,
        }
    }

    /// The address that it leads to, where it is one.
    fn server(&self) -> Option<&str> {
        match self {
            Link::Login(credentials) => Some(credentials.server()),
            Link::Direct(_) | Link::Missing(_) => None,
        }
    }

    async fn open(&self, member: &ClusterId, keepalive: Keepalive) -> Client {
        match self {
            Link::Login(credentials) => match credentials.connect(keepalive).await {
                Ok(client) => permission::telling(client, member.as_str()),
                Err(error) => unusable(error.to_string()),
            },
            Link::Direct(client) => client.clone(),
            Link::Missing(why) => unusable(why.clone()),
        }
    }
}

/// How a member is at the moment.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub phase: Phase,
    pub since: Timestamp,
    /// What is wrong, if anything is.
    pub why: Option<String>,
    pub version: Option<String>,
    pub uid: Option<String>,
    /// What it says of itself, once it was asked.
    pub claims: Option<Claims>,
    pub last_seen: Option<Timestamp>,
    /// The address at which it answered.
    pub server: Option<String>,
}

/// A member of the fleet.
pub struct Member {
    pub(crate) client: MemberClient,
    pub(crate) state: RwLock<State>,
    link: RwLock<Link>,
    /// Tells it from others that had the same name before.
    pub(crate) serial: u64,
    /// Wakes the probe before its time.
    pub(crate) probe_now: Notify,
}

impl Member {
    pub fn name(&self) -> &ClusterId {
        self.client.name()
    }

    /// The only way to reach it.
    pub fn client(&self) -> &MemberClient {
        &self.client
    }

    pub fn state(&self) -> State {
        self.state.read().clone()
    }

    pub fn is_reachable(&self) -> bool {
        self.state.read().phase == Phase::Reachable
    }

    /// The address that the way to it leads to.
    pub(crate) fn server(&self) -> Option<String> {
        self.link.read().server().map(ToOwned::to_owned)
    }

    /// Whether this is the cluster with that UID, as far as either is known.
    fn may_be(&self, uid: Option<&str>) -> bool {
        let known = self.client.uid();
        known.as_deref().zip(uid).is_none_or(|(known, uid)| known == uid)
    }
}

/// All members, shared by everything that works with them.
pub struct Fleet {
    members: RwLock<BTreeMap<ClusterId, Running>>,
    changed: watch::Sender<u64>,
    serials: AtomicU64,
    pub(crate) options: Options,
    shared: Shared,
    pub(crate) start: Instant,
}

struct Running {
    member: Arc<Member>,
    _probing: Task,
}

impl Fleet {
    pub fn new(options: Options, metrics: Metrics, clock: Clock) -> Arc<Fleet> {
        let turnstile = Arc::new(Semaphore::new(LISTS_AT_ONCE));
        let shared = Shared { turnstile, metrics, clock, spread: options.spread };
        Arc::new(Fleet {
            members: RwLock::default(),
            changed: watch::Sender::new(0),
            serials: AtomicU64::new(1),
            options,
            shared,
            start: Instant::now(),
        })
    }

    /// Makes the members be these. Who is there already stays, with new credentials where they changed; another cluster
    /// under the same name is another member, of which nothing is known yet.
    pub async fn set(self: &Arc<Self>, wanted: BTreeMap<ClusterId, Wanted>) {
        let mut changed = self.drop_others(&wanted);
        for (name, wanted) in wanted {
            match self.get(name.as_str()).filter(|member| member.may_be(wanted.uid.as_deref())) {
                Some(member) => changed |= self.update(&member, wanted).await,
                None => {
                    self.add(name, wanted).await;
                    changed = true;
                }
            }
        }
        if changed {
            self.announce();
        }
    }

    fn drop_others(&self, wanted: &BTreeMap<ClusterId, Wanted>) -> bool {
        let mut members = self.members.write();
        let before = members.len();
        members.retain(|name, running| {
            let stays = wanted.contains_key(name);
            if !stays {
                tracing::info!(member = %name, reason = "MemberLeft", "the member belongs to the federation no more");
                // Its election may still be ending.
                running.member.client.retire();
                self.shared.metrics.forget(name.as_str());
            }
            stays
        });
        members.len() != before
    }

    /// A dead connection is found before its member counts as offline: a watch on it would else be silent for longer.
    fn keepalive(&self) -> Keepalive {
        Keepalive::within(self.options.thresholds.offline_after)
    }

    async fn update(&self, member: &Member, wanted: Wanted) -> bool {
        member.client.expect(wanted.uid);
        if member.link.read().is_as(&wanted.link) {
            return false;
        }
        member.client.relink(wanted.link.open(member.name(), self.keepalive()).await);
        *member.link.write() = wanted.link;
        member.probe_now.notify_one();
        true
    }

    async fn add(self: &Arc<Self>, name: ClusterId, wanted: Wanted) {
        let link = wanted.link.open(&name, self.keepalive()).await;
        let limits = self.options.limits.clone();
        let client =
            MemberClient::new(name.clone(), link, wanted.uid.clone(), limits, self.metrics().clone());
        let state = State {
            phase: Phase::Joining,
            since: self.shared.clock.now(),
            why: None,
            version: None,
            uid: wanted.uid,
            claims: None,
            last_seen: None,
            server: None,
        };
        let member = Arc::new(Member {
            client,
            state: RwLock::new(state),
            link: RwLock::new(wanted.link),
            serial: self.serials.fetch_add(1, Ordering::Relaxed),
            probe_now: Notify::new(),
        });
        let probing = Task::spawn(probe(Arc::downgrade(self), member.clone()));
        self.members.write().insert(name, Running { member, _probing: probing });
    }

    pub fn get(&self, name: &str) -> Option<Arc<Member>> {
        self.members.read().get(name).map(|running| running.member.clone())
    }

    /// All members, by name.
    pub fn members(&self) -> Vec<Arc<Member>> {
        self.members.read().values().map(|running| running.member.clone()).collect()
    }

    /// Marked as changed whenever a member comes, goes, or is otherwise than before.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Follows the objects of one kind in all members, also those that come later, for as long as it is
    /// polled. `api` says where in a member they are.
    pub async fn follow<R: Record>(
        &self,
        index: Arc<Index<R>>,
        selection: Selection,
        api: impl Fn(&MemberClient) -> Api<R::Object>,
    ) -> Infallible {
        let mut changes = self.changes();
        let mut watches: BTreeMap<ClusterId, (Arc<Member>, Task)> = BTreeMap::new();
        let mut kind = String::new();
        loop {
            changes.borrow_and_update();
            let members = self.members();
            // Who left and came back under the same name is another member.
            let left = watches
                .extract_if(.., |_, (watched, _)| !members.iter().any(|member| Arc::ptr_eq(member, watched)));
            for (name, (_, watch)) in left.collect::<Vec<_>>() {
                watch.end().await;
                index.leave(&name);
                self.metrics().watch_over(name.as_str(), &kind);
            }
            for member in members {
                watches.entry(member.name().clone()).or_insert_with(|| {
                    index.enter(member.name(), member.serial);
                    let api = api(member.client());
                    kind = kind_of::<R>(&api);
                    let watch = self.watch(&member, index.clone(), selection.clone(), api);
                    let task = Task::spawn(async move {
                        watch.run().await;
                    });
                    (member.clone(), task)
                });
            }
            if changes.changed().await.is_err() {
                // The fleet is borrowed, so its sender is there.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Follows the objects of one kind in one member, for as long as it is polled.
    pub async fn follow_member<R: Record>(
        &self,
        member: &Member,
        index: Arc<Index<R>>,
        selection: Selection,
        api: Api<R::Object>,
    ) -> Infallible {
        self.watch(member, index, selection, api).run().await
    }

    fn watch<R: Record>(
        &self,
        member: &Member,
        index: Arc<Index<R>>,
        selection: Selection,
        api: Api<R::Object>,
    ) -> Watch<R> {
        let kind = kind_of::<R>(&api);
        Watch { kind, api, member: member.client().clone(), index, selection, shared: self.shared.clone() }
    }

    pub(crate) fn announce(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

/// The plural of what is watched, from its path: it is known for dynamic kinds too.
fn kind_of<R: Record>(api: &Api<R::Object>) -> String {
    let path = api.resource_url();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// A client that answers every call with the reason why it cannot be made.
fn unusable(why: String) -> Client {
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let why = why.clone();
        async move { Err::<http::Response<kube::client::Body>, _>(why) }
    });
    Client::new(service, "default")
}
