//! Keeps the external entities of a member that is led as they should be.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use koinon_api::names::{MANAGED_BY, MANAGER};
use koinon_control::Key;
use koinon_control::call::within_deadline;
use koinon_control::queue::{Next, Queue, work};
use koinon_fleet::member::Error;
use koinon_fleet::{ClusterId, Index, Knowledge, News, Record, Selection, Unserved};
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::plan::{Made, Side, Step, place, service_of, step};
use super::roll::Roll;
use crate::leader_context::LeaderContext;
use crate::policies::caches::{Listener, PolicyCaches};
use crate::policies::key::PolicyKey;
use crate::policies::names;
use crate::policies::version::Version;

/// Services that are looked at at once.
const AT_ONCE: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A kind that is gone is tried again after this time, unless the watch says so before.
const SERVED_AGAIN: Duration = Duration::from_secs(30);

impl Record for Made {
    type Object = DynamicObject;

    fn fold(object: &DynamicObject) -> Option<Made> {
        Some(Made::of(object))
    }
}

/// What waits to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    All,
    /// The entities of one federated Service.
    Service(Key),
    /// An entity that is of none.
    Stray(Key),
}

/// The external entities of one member that is led.
pub(in crate::policies) struct Keeper {
    leader: LeaderContext,
    caches: Arc<PolicyCaches>,
    roll: Arc<Roll>,
    made: Arc<Index<Made>>,
    queue: Queue<Item>,
    /// Until when nothing is tried, because the server said that it knows no such kind.
    pause: Mutex<Option<Instant>>,
}

impl Keeper {
    pub(in crate::policies) fn new(
        leader: LeaderContext,
        caches: Arc<PolicyCaches>,
        roll: Arc<Roll>,
    ) -> Arc<Keeper> {
        let (made, queue) = (Index::new(), Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
        let keeper = Arc::new(Keeper { leader, caches, roll, made, queue, pause: Mutex::default() });
        let me = Arc::downgrade(&keeper);
        keeper.made.on_change(move |news| {
            let Some(me) = me.upgrade() else { return };
            match news {
                News::Record(_, key) => {
                    me.look_at(&service_of(key));
                    me.sort_out(key);
                }
                News::Knowledge(..) => me.look_at_all(),
            }
        });
        keeper.roll.open(&keeper);
        keeper.leader.fleet.metrics().queue("entities", &keeper, |keeper| keeper.queue.waiting());
        let listener: Arc<dyn Listener> = keeper.clone();
        keeper.caches.register(Arc::downgrade(&listener));
        keeper
    }

    /// Looks after them for as long as it is polled.
    pub(in crate::policies) async fn run(self: Arc<Self>) -> Infallible {
        let ours = Selection { labels: Some(selector()), unserved: Unserved::Empty, ..Selection::default() };
        let entities = self.leader.client().dynamic(&resource(), None);
        let members = async {
            let mut changes = self.leader.fleet.changes();
            loop {
                self.look_at_all();
                if changes.changed().await.is_err() {
                    // The fleet is ours, so its sender is there.
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            biased;
            never = self.leader.fleet.follow_member(&self.leader.member, self.made.clone(), ours, entities) => never,
            never = members => never,
            never = work(&self.queue, AT_ONCE, |item| self.handle(item)) => never,
        }
    }

    pub(super) fn look_at(&self, service: &Key) {
        self.queue.add(Item::Service(service.clone()));
    }

    pub(super) fn look_at_all(&self) {
        self.queue.add(Item::All);
    }

    /// Has an entity looked at that belongs to no Service and member.
    fn sort_out(&self, key: &Key) {
        let is_member = |cluster: &str| self.leader.fleet.get(cluster).is_some();
        if self.made.get(self.me(), key).is_some_and(|made| made.is_stray(key, is_member)) {
            self.queue.add(Item::Stray(key.clone()));
        }
    }

    fn me(&self) -> &str {
        self.leader.name().as_str()
    }

    /// Whether it is known which there are, and there can be any. What becomes known announces itself.
    fn is_known(&self) -> bool {
        self.made.knowledge(self.me()) == Knowledge::Complete && !self.made.is_unserved(self.me())
    }

    async fn handle(&self, item: Item) -> Next {
        if !self.is_known() {
            return Next::Done;
        }
        let pause = self.pause.lock().map(|until| until.saturating_duration_since(Instant::now()));
        if let Some(pause) = pause.filter(|pause| !pause.is_zero()) {
            return Next::After(pause);
        }
        let outcome = match &item {
            Item::All => {
                self.roll.federated().iter().for_each(|service| self.look_at(service));
                for (key, _) in self.made.of_member(self.me()) {
                    self.look_at(&service_of(&key));
                    self.sort_out(&key);
                }
                return Next::Done;
            }
            Item::Service(service) => self.put_right(service).await,
            Item::Stray(key) => self.discard(key).await.map(|()| Next::Done),
        };
        outcome.unwrap_or_else(|failed| self.failed(&item, failed))
    }

    fn failed(&self, item: &Item, failed: Failed) -> Next {
        let member = self.me();
        match failed {
            Failed::NotLeading => Next::Retry,
            // Nothing can be written until it is there again, so nobody else tries either.
            Failed::Member(error) if error.code() == Some(404) && !error.is_object_absent() => {
                tracing::debug!(member, ?item, "external entities are served no more");
                *self.pause.lock() = Some(Instant::now() + SERVED_AGAIN);
                Next::After(SERVED_AGAIN)
            }
            Failed::Member(error) => {
                tracing::debug!(member, ?item, %error, "an external entity was not written");
                Next::Retry
            }
        }
    }

    /// Writes what differs of one federated Service, one entity after the other.
    async fn put_right(&self, service: &Key) -> Result<Next, Failed> {
        let namespace = self.caches.namespaces.get(self.me(), &Key::new("", service.namespace.as_str()));
        if namespace.is_none_or(|namespace| namespace.ending) {
            // Where it is not there nothing can be; it announces itself when it comes.
            return Ok(Next::Done);
        }
        let sums = self.roll.sums(service);
        for (cluster, sum) in &sums.clusters {
            let side = if cluster == self.leader.name() { Side::Home } else { Side::Elsewhere };
            let key = place(service, cluster.as_str());
            let made = self.made.get(self.me(), &key);
            if let Some(step) = step(sum.seen_from(side), made.as_deref()) {
                self.take(&key, step, service, cluster, side).await?;
            }
        }
        let now = self.leader.clock().now();
        let left = sums.due.map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
        Ok(left.map_or(Next::Done, |left| Next::After(left.max(Duration::from_secs(1)))))
    }

    async fn take(
        &self,
        key: &Key,
        step: Step,
        service: &Key,
        cluster: &ClusterId,
        side: Side,
    ) -> Result<(), Failed> {
        let over = match step {
            Step::Delete { uid, version } => return self.delete(key, &uid, &version).await,
            Step::Create => None,
            Step::Replace(version) => Some(version),
        };
        // What became of it meanwhile announces itself.
        let Some(entity) = self.roll.entity(service, cluster, side) else { return Ok(()) };
        let Ok(object) = serde_json::from_value(entity.object(key, over.as_deref())) else { return Ok(()) };
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let api = self.api(key);
        let written = match over {
            None => self.write(api.create(&params, &object)).await?,
            Some(_) => self.write(api.replace(&key.name, &params, &object)).await?,
        };
        self.made.learn(self.leader.name(), &written);
        Ok(())
    }

    /// Deletes an entity that belongs to no Service and member, if that is still so.
    async fn discard(&self, key: &Key) -> Result<(), Failed> {
        let is_member = |cluster: &str| self.leader.fleet.get(cluster).is_some();
        match self.made.get(self.me(), key).filter(|made| made.is_stray(key, is_member)) {
            Some(made) => self.delete(key, &made.uid, &made.resource_version).await,
            None => Ok(()),
        }
    }

    /// Deletes an entity as it was seen: another leader may have made it right since, and then the watch will show it.
    async fn delete(&self, key: &Key, uid: &str, version: &str) -> Result<(), Failed> {
        match self.write(self.api(key).delete(&key.name, &only(uid, version))).await {
            Ok(_) => {}
            Err(Failed::Member(error)) if error.is_object_absent() => {}
            Err(failed) => return Err(failed),
        }
        self.made.forget(self.leader.name(), key, uid);
        Ok(())
    }

    fn api(&self, key: &Key) -> Api<DynamicObject> {
        self.leader.client().dynamic(&resource(), Some(&key.namespace))
    }

    async fn write<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, Failed> {
        if !self.leader.fence.holds() {
            return Err(Failed::NotLeading);
        }
        Ok(self.leader.client().call(call).await?)
    }
}

/// Why something was not written.
enum Failed {
    NotLeading,
    Member(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Member(error)
    }
}

/// A namespace that comes has room for entities.
impl Listener for Keeper {
    fn policy(&self, _: &ClusterId, _: &PolicyKey) {}

    fn entries(&self, _: &ClusterId, _: &BTreeMap<PolicyKey, Option<Version>>) {}

    fn everything(&self) {
        self.look_at_all();
    }

    fn ground(&self, member: &ClusterId, namespace: &str) {
        if member == self.leader.name() && !namespace.is_empty() {
            let federated = self.roll.federated();
            federated.iter().filter(|one| one.namespace == namespace).for_each(|one| self.look_at(one));
        }
    }
}

/// Removes the external entities of a cluster that takes part no more; says whether all are gone.
pub async fn withdraw(cluster: Client) -> bool {
    let api: Api<DynamicObject> = Api::all_with(cluster.clone(), &resource());
    let found = match within_deadline(api.list(&ListParams::default().labels(&selector()))).await {
        Ok(found) => found,
        Err(error) => return error.is_path_unknown(),
    };
    let mut all_well = true;
    for entity in found {
        let key = Key::of(&entity);
        let api: Api<DynamicObject> = Api::namespaced_with(cluster.clone(), &key.namespace, &resource());
        let (uid, version) =
            (entity.uid().unwrap_or_default(), entity.resource_version().unwrap_or_default());
        if let Err(error) = within_deadline(api.delete(&key.name, &only(&uid, &version))).await {
            all_well &= error.is_object_absent();
        }
    }
    all_well
}

fn only(uid: &str, version: &str) -> DeleteParams {
    let preconditions =
        Preconditions { uid: Some(uid.to_owned()), resource_version: Some(version.to_owned()) };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

fn selector() -> String {
    format!("{MANAGED_BY}={MANAGER},{}={}", names::ENTITY_KIND, names::ENTITY_KIND_VALUE)
}

fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(names::GROUP, names::ENTITY_VERSION, "ExternalEntity");
    ApiResource::from_gvk_with_plural(&kind, "externalentities")
}
