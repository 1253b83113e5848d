//! One member of the fleet, and the only way to reach it.

mod circuit;
pub mod credentials;
mod error;
mod guard;
mod identity;
mod saying;

use std::sync::Arc;
use std::time::Duration;

use koinon_api::membership::{Claims, ClusterId};
use koinon_control::bounds::{Bounds, Held};
use kube::core::{ApiResource, NamespaceResourceScope};
use kube::{Api, Client, Resource};
use tokio::sync::SemaphorePermit;

pub use self::credentials::Credentials;
pub(crate) use self::error::cause;
pub use self::error::{Away, Class, Error, Failure};
use self::guard::{Guard, Lane};
pub(crate) use self::identity::Seen;
use crate::election::Fence;
use crate::metrics::Metrics;

/// How much a member may cost.
#[derive(Clone, Debug)]
pub struct Limits {
    /// No call takes longer, waiting included. For a watch that is the time to its first answer.
    pub deadline: Duration,
    /// So many calls may be on their way at once.
    pub concurrency: usize,
    /// A call that finds all of them taken waits so long for its turn.
    pub patience: Duration,
    pub probe_deadline: Duration,
    /// Before a write and before a watch, the identity of the cluster was confirmed at most so long ago.
    pub identity_fresh_for: Duration,
    /// How much may come as one answer or as one line of a watch; the answer to a write is one object too.
    pub bounds: Bounds,
    /// How much may come as one page of a list. A longer one is asked for with fewer objects.
    pub page: u64,
    /// How much may come as the answer to a probe.
    pub probe_answer: u64,
    /// How many bytes may be held because of it at a time: answers that are being read, and records of its objects.
    pub held: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            deadline: Duration::from_secs(10),
            concurrency: 16,
            patience: Duration::from_secs(1),
            probe_deadline: Duration::from_secs(5),
            identity_fresh_for: Duration::from_secs(15),
            // One object is never so long: etcd takes 1.5 MiB where nobody raised that.
            bounds: Bounds { line: 8 << 20, ..Bounds::default() },
            page: 16 << 20,
            probe_answer: 1 << 20,
            held: 256 << 20,
        }
    }
}

/// Reaches one member. Whatever is asked through it has a deadline, takes one of the member's permits, is not
/// sent while the member is known to be away, and is never written to another cluster behind the same
/// address. Clones are the same client.
#[derive(Clone)]
pub struct MemberClient {
    name: ClusterId,
    guard: Arc<Guard>,
    /// A client on top of the guard: it cannot go around it.
    client: Client,
    /// The same with a permit of its own.
    reserved: Client,
}

impl MemberClient {
    /// A member behind `link`, which retries nothing by itself; `uid` is the UID of its `kube-system`
    /// namespace. Until that is known nothing but probes reaches the member.
    pub fn new(name: ClusterId, link: Client, uid: Option<String>, limits: Limits, metrics: Metrics) -> Self {
        let guard = Arc::new(Guard::new(name.clone(), link, uid, limits, metrics));
        guard.show_held();
        let (client, reserved) =
            (through(&guard, Lane::Ordinary, None), through(&guard, Lane::Reserved, None));
        MemberClient { name, guard, client, reserved }
    }

    /// The same for a leader: what it writes is sent only while its fence holds, and is over before that ends. A call's own
    /// deadline may be longer than the time between the end of a fence and the next leader.
    #[must_use]
    pub fn under(&self, fence: &Fence) -> MemberClient {
        let client = through(&self.guard, Lane::Ordinary, Some(fence));
        MemberClient { client, ..self.clone() }
    }

    pub fn name(&self) -> &ClusterId {
        &self.name
    }

    /// The objects of a kind in one namespace.
    pub fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The same, by a permit that is there for nothing else: for the Lease by which a member is led, whose renewal must not
    /// wait behind all that its leader writes.
    pub fn reserved<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.reserved.clone(), namespace)
    }

    /// The objects of a kind in all namespaces, or of a kind that has none.
    pub fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// The objects of a kind that is known at run time only; without a namespace, all of them.
    pub fn dynamic<K>(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = kube::core::DynamicResourceScope>,
    {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }

    /// A client for what takes one and no kind: all that is said of this one holds for it too.
    pub fn guarded(&self) -> Client {
        self.client.clone()
    }

    /// Waits for a call and says in whose name it failed.
    pub async fn call<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
        call.await.map_err(|error| Error::of(&self.name, error))
    }

    /// Done when calls go through: at once, unless the member is known to be away.
    pub async fn admitted(&self) {
        self.guard.admitted().await;
    }

    /// The UID by which the cluster is known again, once it is known.
    pub fn uid(&self) -> Option<String> {
        self.guard.uid()
    }

    /// Whether a connection failed since it was last seen who is there.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.guard.is_in_doubt()
    }

    /// Takes in that an open connection failed.
    pub(crate) fn doubt(&self) {
        self.guard.doubt();
    }

    /// From now on nothing that it does is measured.
    pub(crate) fn retire(&self) {
        self.guard.retire();
    }

    pub(crate) fn relink(&self, link: Client) {
        self.guard.relink(link);
    }

    pub(crate) fn expect(&self, uid: Option<String>) {
        self.guard.expect(uid);
    }

    /// What is held because of it.
    pub(crate) fn held(&self) -> &Arc<Held> {
        self.guard.held()
    }

    /// Waits until it may be listed: not all of its kinds at once.
    pub(crate) async fn list_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.guard.list_turn().await
    }

    /// Asks who is there, for no longer than `patience`, and gives the UID; the answer also decides whether other calls go
    /// through.
    pub(crate) async fn probe(&self, patience: Duration) -> Result<(String, Seen), String> {
        self.guard.probe(patience).await
    }

    /// What the cluster there says of itself.
    pub(crate) async fn claims(&self, namespace: &str, patience: Duration) -> Result<Claims, String> {
        self.guard.claims(namespace, patience).await.map_err(|error| error::cause(&*error))
    }

    pub(crate) fn away(&self, why: &str) {
        self.guard.open(why);
    }

    pub(crate) async fn version(&self, patience: Duration) -> Option<String> {
        self.guard.version(patience).await.ok()
    }
}

/// A client that cannot go around the guard.
fn through(guard: &Arc<Guard>, lane: Lane, fence: Option<&Fence>) -> Client {
    let (guard, fence) = (guard.clone(), fence.cloned());
    let service = tower::service_fn(move |request| {
        let (guard, fence) = (guard.clone(), fence.clone());
        async move { guard.send(request, lane, fence.as_ref()).await }
    });
    Client::new(service, "default")
}
