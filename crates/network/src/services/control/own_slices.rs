//! The cache of EndpointSlices that we generated in one led member, with read-your-writes.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_control::Key;
use koinon_fleet::{ClusterId, Index, Knowledge, News, Selection};
use parking_lot::Mutex;

use super::inbox::{Inbox, Job};
use super::join_index::JoinIndex;
use crate::leader_context::LeaderContext;
use crate::services::records::{Manager, OwnSlice};
use crate::services::render::SLICE_MANAGED_BY;

pub(super) struct OwnSlices {
    here: ClusterId,
    index: Arc<Index<OwnSlice>>,
    /// Whether news of it are of what was written this very moment.
    writing: Arc<AtomicBool>,
    /// Which of them belong to which Service.
    owners: Arc<Mutex<JoinIndex>>,
}

impl OwnSlices {
    pub(super) fn new(here: &ClusterId, inbox: &Arc<Inbox>) -> OwnSlices {
        let (index, owners) = (Index::<OwnSlice>::new(), Arc::new(Mutex::new(JoinIndex::default())));
        let (weak, joins, to) = (Arc::downgrade(&index), owners.clone(), inbox.clone());
        let writing = Arc::new(AtomicBool::new(false));
        let is_written = writing.clone();
        index.on_change(move |news| match news {
            News::Record(cluster, key) => {
                let Some(index) = weak.upgrade() else { return };
                let record = index.get(cluster.as_str(), key);
                let service = record.as_ref().map(|one| (one.service.as_str(), one.endpoints as usize));
                let (services, _) = joins.lock().own(cluster, key, service);
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
        OwnSlices { here: here.clone(), index, writing, owners }
    }

    /// Watches them, for as long as it is polled.
    pub(super) async fn follow(&self, leader: &LeaderContext) -> Infallible {
        let managers = [Manager::Federation, Manager::Machines, Manager::Imports].map(Manager::as_str);
        let ours = Selection {
            labels: Some(format!("{SLICE_MANAGED_BY} in ({})", managers.join(","))),
            ..Selection::default()
        };
        let (member, fleet) = (&leader.member, &leader.fleet);
        fleet.follow_member(member, self.index.clone(), ours, member.client().all()).await
    }

    pub(super) fn is_known(&self) -> bool {
        self.index.knowledge(self.here.as_str()) != Knowledge::Unknown
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Records a slice as it was just written, before the watch shows it.
    pub(super) fn record_own_write(&self, slice: &EndpointSlice) {
        self.writing.store(true, Ordering::Relaxed);
        self.index.learn(&self.here, slice);
        self.writing.store(false, Ordering::Relaxed);
    }

    pub(super) fn forget(&self, key: &Key, uid: &str) {
        self.index.forget(&self.here, key, uid);
    }

    /// All Services that slices were generated for.
    pub(super) fn services(&self) -> BTreeSet<Key> {
        let slices = self.index.of_member(self.here.as_str()).into_iter();
        slices.map(|(key, slice)| Key::new(key.namespace, slice.service.as_str())).collect()
    }

    /// The slices that were generated for one Service, by name.
    pub(super) fn of_service(&self, key: &Key, manager: Manager) -> BTreeMap<String, Arc<OwnSlice>> {
        let names: Vec<Key> = {
            let owners = self.owners.lock();
            owners.slices_of(&self.here, key).map(|name| Key::new(key.namespace.as_str(), name)).collect()
        };
        let slices = names.into_iter().filter_map(|key| {
            let slice = self.index.get(self.here.as_str(), &key)?;
            (slice.manager == manager).then_some((key.name, slice))
        });
        slices.collect()
    }
}
