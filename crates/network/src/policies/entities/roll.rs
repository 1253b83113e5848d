//! What there should be of each federated Service for each cluster, worked out once for all members that are led.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use jiff::Timestamp;
use koinon_control::Key;
use koinon_fleet::{ClusterId, Fleet};
use parking_lot::{Mutex, RwLock};

use super::keep::Keeper;
use super::plan::{Entity, Side, entity};
use crate::policies::version::Hash;
use crate::services::Origins;
use crate::services::control::ServiceListener;

/// What there should be for one cluster, told apart by sums: the entities themselves are large, and needed only where they
/// are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sum {
    home: Option<Hash>,
    elsewhere: Option<Hash>,
}

impl Sum {
    pub(super) fn seen_from(&self, side: Side) -> Option<Hash> {
        match side {
            Side::Home => self.home,
            Side::Elsewhere => self.elsewhere,
        }
    }
}

/// All of one federated Service.
#[derive(Debug)]
pub(super) struct Sums {
    /// Nothing is said of a cluster that is not known: it may well have members.
    pub(super) clusters: BTreeMap<ClusterId, Sum>,
    /// When to look again even if nothing changes.
    pub(super) due: Option<Timestamp>,
}

/// The sums of all federated Services, for as long as nothing changed that they depend on.
pub(in crate::policies) struct Roll {
    fleet: Arc<Fleet>,
    origins: Origins,
    memo: Mutex<Memo>,
    keepers: RwLock<Vec<Weak<Keeper>>>,
}

#[derive(Default)]
struct Memo {
    /// How often somebody was heard, and how often the fleet changed.
    heard: u64,
    fleet: u64,
    sums: BTreeMap<Key, Arc<Sums>>,
}

impl Roll {
    pub(in crate::policies) fn new(fleet: Arc<Fleet>, origins: Origins) -> Arc<Roll> {
        let roll = Arc::new(Roll { fleet, origins, memo: Mutex::default(), keepers: RwLock::default() });
        let listener: Arc<dyn ServiceListener> = roll.clone();
        roll.origins.tell(Arc::downgrade(&listener));
        roll
    }

    /// Has a keeper hear of changes, for as long as it is there.
    pub(super) fn open(&self, keeper: &Arc<Keeper>) {
        let mut keepers = self.keepers.write();
        keepers.retain(|keeper| keeper.strong_count() > 0);
        keepers.push(Arc::downgrade(keeper));
    }

    pub(super) fn federated(&self) -> BTreeSet<Key> {
        self.origins.federated()
    }

    /// Whether a Service certainly has no members in any cluster, and so is no federated one.
    pub(in crate::policies) fn is_plain(&self, service: &Key) -> bool {
        let (clusters, ..) = self.origins.look(service);
        clusters.values().all(|cluster| cluster.known && cluster.members.is_empty())
    }

    /// What there should be of one federated Service.
    pub(super) fn sums(&self, service: &Key) -> Arc<Sums> {
        let (fleet, now) = (*self.fleet.changes().borrow(), self.fleet.clock().now());
        // Read before what is summed up: what changes meanwhile outdates the result.
        let heard = {
            let mut memo = self.memo.lock();
            if memo.fleet != fleet {
                memo.sums.clear();
                memo.fleet = fleet;
            }
            if let Some(sums) = memo.sums.get(service).filter(|sums| sums.due.is_none_or(|due| now < due)) {
                return sums.clone();
            }
            memo.heard
        };
        let sums = Arc::new(self.sum_up(service));
        let mut memo = self.memo.lock();
        // Of what nobody federates nothing is remembered: it would never be struck out.
        let is_any = sums.clusters.values().any(|sum| sum.home.is_some() || sum.elsewhere.is_some());
        if is_any && (memo.heard, memo.fleet) == (heard, fleet) {
            memo.sums.insert(service.clone(), sums.clone());
        }
        sums
    }

    fn sum_up(&self, service: &Key) -> Sums {
        let (clusters, resolved, due) = self.origins.look(service);
        let known = clusters.iter().filter(|(_, cluster)| cluster.known).map(|(id, cluster)| {
            let of = |side| entity(service, id, cluster, &resolved, side).map(|entity| entity.sum());
            (id.clone(), Sum { home: of(Side::Home), elsewhere: of(Side::Elsewhere) })
        });
        Sums { clusters: known.collect(), due }
    }

    /// The entity of a federated Service for one cluster, as it should be now.
    pub(super) fn entity(&self, service: &Key, id: &ClusterId, side: Side) -> Option<Entity> {
        let (clusters, resolved, _) = self.origins.look(service);
        entity(service, id, clusters.get(id).filter(|cluster| cluster.known)?, &resolved, side)
    }

    fn outdate(&self, what: impl FnOnce(&mut BTreeMap<Key, Arc<Sums>>)) {
        let mut memo = self.memo.lock();
        memo.heard += 1;
        what(&mut memo.sums);
    }

    fn tell(&self, what: impl Fn(&Keeper)) {
        self.keepers.read().iter().filter_map(Weak::upgrade).for_each(|keeper| what(&keeper));
    }
}

impl ServiceListener for Roll {
    fn federated(&self, key: &Key) {
        self.outdate(|sums| drop(sums.remove(key)));
        self.tell(|keeper| keeper.look_at(key));
    }

    fn everything(&self) {
        self.outdate(BTreeMap::clear);
        self.tell(Keeper::look_at_all);
    }
}
