//! The caches of all members, each fed by one watch, and the subscribers that hear of changes.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Weak};

use koinon_api::names::network::{IMPORT_SLICES_MANAGER, SLICES_MANAGER};
use koinon_control::Key;
use koinon_fleet::{ClusterId, Fleet, Index, News, Record, Selection, Unserved};
use parking_lot::RwLock;
use tokio::sync::watch;

use super::inbox::{Inbox, Job};
use super::join_index::{Concerned, JoinIndex};
use super::origins::ServiceListener;
use super::quota::Limits;
use super::resolve::{Resolve, Resolver};
use super::snapshot_cache::SnapshotCache;
use crate::services::mcs::{Export, Offer};
use crate::services::model::{Joining, Kind, Reach, Source};
use crate::services::records::{Alive, Node, Occupant, SourceSlice};
use crate::services::render::SLICE_MANAGED_BY;

/// Compact records of all members, followed once for all led members.
pub(super) struct Sources {
    pub(super) fleet: Arc<Fleet>,
    pub(super) services: Arc<Index<Occupant>>,
    pub(super) natives: Arc<Index<Joining>>,
    pub(super) slices: Arc<Index<SourceSlice>>,
    pub(super) nodes: Arc<Index<Node>>,
    pub(super) namespaces: Arc<Index<Alive>>,
    pub(super) exports: Arc<Index<Export>>,
    /// What all Services offer, once anybody exports one.
    pub(super) offers: Arc<Index<Offer>>,
    pub(super) subscribers: Arc<Subscribers>,
    pub(super) resolver: Arc<Resolver>,
}

/// Where news arrive and are passed on.
#[derive(Default)]
pub(super) struct Subscribers {
    pub(super) joins: RwLock<JoinIndex>,
    pub(super) snapshots: SnapshotCache,
    inboxes: RwLock<Vec<Weak<Inbox>>>,
    /// Others who want to hear of federated Services.
    pub(super) listeners: RwLock<Vec<Weak<dyn ServiceListener>>>,
    /// Whether anybody is reached by nodes, so that they have to be known.
    nodes_matter: watch::Sender<bool>,
    /// Whether anybody exports a Service.
    exports_matter: watch::Sender<bool>,
}

impl Sources {
    pub(super) fn new(fleet: Arc<Fleet>, resolve: Option<Resolve>) -> Arc<Sources> {
        let joins = RwLock::new(JoinIndex::limited(Limits::default()));
        let subscribers = Arc::new(Subscribers { joins, ..Subscribers::default() });
        let sources = Sources {
            fleet,
            services: Index::new(),
            natives: Index::new(),
            slices: Index::new(),
            nodes: Index::new(),
            namespaces: Index::new(),
            exports: Index::new(),
            offers: Index::new(),
            resolver: Resolver::new(resolve, subscribers.clone()),
            subscribers,
        };
        sources.listen();
        Arc::new(sources)
    }

    fn listen(&self) {
        let subscribers = self.subscribers.clone();
        listen(&self.services, &self.subscribers, move |index, cluster, key| {
            let record = index.get(cluster.as_str(), key);
            let joining = match record.as_deref() {
                Some(Occupant::Member(joining)) => Some(joining),
                _ => None,
            };
            subscribers.member_changed(Kind::Service, cluster, key, joining);
            let is_ours = matches!(record.as_deref(), Some(Occupant::Ours(_)));
            if is_ours || subscribers.joins.read().has_members(key) {
                subscribers.tell_leader(cluster, &Job::Federated(key.clone()));
            }
            subscribers.tell_leader(cluster, &Job::Machines(key.clone()));
        });
        let subscribers = self.subscribers.clone();
        listen(&self.natives, &self.subscribers, move |index, cluster, key| {
            let record = index.get(cluster.as_str(), key);
            subscribers.member_changed(Kind::NativeService, cluster, key, record.as_ref());
        });
        let (subscribers, exports) = (self.subscribers.clone(), Arc::downgrade(&self.exports));
        listen(&self.slices, &self.subscribers, move |index, cluster, key| {
            let record = index.get(cluster.as_str(), key);
            let service = record.as_ref().map(|slice| (slice.service.as_str(), slice.endpoints.len()));
            let (services, concerned) = subscribers.joins.write().own(cluster, key, service);
            subscribers.tell_concerned(cluster, concerned);
            for service in services {
                if exports.upgrade().is_some_and(|exports| exports.get(cluster.as_str(), &service).is_some())
                {
                    subscribers.tell_leaders(&Job::Import(service.clone()));
                }
                let source = Source { cluster: cluster.clone(), kind: Kind::Service, key: service };
                let joined = subscribers.joins.read().joined_by(&source).to_vec();
                subscribers.tell_all(joined);
            }
        });
        let (subscribers, services) = (self.subscribers.clone(), Arc::downgrade(&self.services));
        listen(&self.nodes, &self.subscribers, move |_, cluster, _| {
            let Some(services) = services.upgrade() else { return };
            let concerned: BTreeSet<Key> = {
                let joins = subscribers.joins.read();
                let in_cluster = joins.in_cluster(cluster).filter(|(source, _)| {
                    let record = services.get(cluster.as_str(), &source.key);
                    matches!(record.as_deref(), Some(Occupant::Member(one)) if matches!(one.reach, Reach::Nodes(_)))
                });
                in_cluster.flat_map(|(_, joins)| joins.iter().cloned()).collect()
            };
            subscribers.tell_all(concerned);
        });
        let subscribers = self.subscribers.clone();
        listen(&self.exports, &self.subscribers, move |index, cluster, key| {
            let created = index.get(cluster.as_str(), key).map(|export| export.created);
            let source = Source { cluster: cluster.clone(), kind: Kind::ServiceExport, key: key.clone() };
            let concerned = subscribers.joins.write().export(source.clone(), created);
            subscribers.tell_concerned(cluster, concerned);
            subscribers.tell_leader(cluster, &Job::Member(source));
            subscribers.exports_matter.send_if_modified(|matter| !std::mem::replace(matter, true));
            subscribers.tell_leaders(&Job::Import(key.clone()));
        });
        let (subscribers, exports) = (self.subscribers.clone(), Arc::downgrade(&self.exports));
        listen(&self.offers, &self.subscribers, move |_, cluster, key| {
            if exports.upgrade().is_some_and(|exports| exports.get(cluster.as_str(), key).is_some()) {
                subscribers.tell_leaders(&Job::Import(key.clone()));
            }
        });
        let subscribers = self.subscribers.clone();
        listen(&self.namespaces, &self.subscribers, move |_, cluster, key| {
            subscribers.tell_leader(cluster, &Job::Imports);
            let federated = subscribers.joins.read().federated().cloned().collect::<Vec<_>>();
            for one in federated.into_iter().filter(|one| one.namespace == key.name) {
                subscribers.tell_leader(cluster, &Job::Federated(one));
            }
        });
    }

    /// Follows all members, for as long as it is polled.
    pub(super) async fn follow(&self) -> Infallible {
        let fleet = &self.fleet;
        let others = Selection {
            labels: Some(format!("{SLICE_MANAGED_BY} notin ({SLICES_MANAGER},{IMPORT_SLICES_MANAGER})")),
            ..Selection::default()
        };
        let optional = Selection { unserved: Unserved::Empty, ..Selection::default() };
        let nodes = async {
            let mut matter = self.subscribers.nodes_matter.subscribe();
            let _ = matter.wait_for(|matter| *matter).await;
            fleet.follow(self.nodes.clone(), Selection::default(), |member| member.all()).await
        };
        let offers = async {
            let mut matter = self.subscribers.exports_matter.subscribe();
            let _ = matter.wait_for(|matter| *matter).await;
            fleet.follow(self.offers.clone(), Selection::default(), |member| member.all()).await
        };
        tokio::select! {
            biased;
            never = fleet.follow(self.exports.clone(), optional.clone(), |member| member.all()) => never,
            never = offers => never,
            never = fleet.follow(self.services.clone(), Selection::default(), |member| member.all()) => never,
            never = fleet.follow(self.slices.clone(), others, |member| member.all()) => never,
            never = fleet.follow(self.natives.clone(), optional, |member| member.all()) => never,
            never = fleet.follow(self.namespaces.clone(), Selection::default(), |member| member.all()) => never,
            never = nodes => never,
            never = self.resolver.run() => never,
        }
    }
}

impl Subscribers {
    fn member_changed(&self, kind: Kind, cluster: &ClusterId, key: &Key, joining: Option<&Arc<Joining>>) {
        let source = Source { cluster: cluster.clone(), kind, key: key.clone() };
        let joins = joining.map(|one| one.joins.as_slice()).unwrap_or_default();
        let created = joining.map(|one| one.created).unwrap_or_default();
        if joining.is_some_and(|one| matches!(one.reach, Reach::Nodes(_))) {
            self.nodes_matter.send_if_modified(|matter| !std::mem::replace(matter, true));
        }
        let mut index = self.joins.write();
        let concerned = index.join(source.clone(), created, joins);
        let concerns_nobody = joining.is_some_and(|joining| index.is_same_member(&source, joining));
        drop(index);
        if !concerns_nobody {
            self.tell_concerned(cluster, concerned);
        }
        self.tell_leader(cluster, &Job::Member(source));
    }

    fn tell_concerned(&self, cluster: &ClusterId, concerned: Concerned) {
        self.tell_all(concerned.keys);
        for source in concerned.moved {
            if source.kind == Kind::ServiceExport {
                self.tell_leaders(&Job::Import(source.key.clone()));
            }
            self.tell_leader(cluster, &Job::Member(source));
        }
    }

    /// Has a federated Service looked at everywhere.
    pub(super) fn tell_all(&self, concerned: impl IntoIterator<Item = Key>) {
        let (inboxes, listeners) = (self.inboxes.read(), self.listeners.read());
        for key in concerned {
            self.snapshots.forget(&key);
            listeners.iter().filter_map(Weak::upgrade).for_each(|listener| listener.federated(&key));
            for inbox in inboxes.iter().filter_map(Weak::upgrade) {
                inbox.add(Job::Federated(key.clone()));
            }
        }
    }

    fn tell_leaders(&self, job: &Job) {
        for inbox in self.inboxes.read().iter().filter_map(Weak::upgrade) {
            inbox.add(job.clone());
        }
    }

    fn tell_leader(&self, cluster: &ClusterId, job: &Job) {
        let inboxes = self.inboxes.read();
        for inbox in inboxes.iter().filter_map(Weak::upgrade).filter(|inbox| &inbox.cluster == cluster) {
            inbox.add(job.clone());
        }
    }

    /// Has everything looked at again, everywhere.
    fn tell_everything(&self) {
        self.snapshots.forget_all();
        self.listeners.read().iter().filter_map(Weak::upgrade).for_each(|listener| listener.everything());
        self.tell_leaders(&Job::All);
    }

    /// From now on the reconcilers of a led member hear of changes, for as long as they are there.
    pub(super) fn open(&self, inbox: &Arc<Inbox>) {
        let mut inboxes = self.inboxes.write();
        inboxes.retain(|inbox| inbox.strong_count() > 0);
        inboxes.push(Arc::downgrade(inbox));
    }
}

/// Hears of records that change, and of more or less being known.
fn listen<R: Record>(
    index: &Arc<Index<R>>,
    subscribers: &Arc<Subscribers>,
    on_record: impl Fn(&Index<R>, &ClusterId, &Key) + Send + Sync + 'static,
) {
    let (weak, subscribers) = (Arc::downgrade(index), subscribers.clone());
    index.on_change(move |news| match news {
        News::Record(cluster, key) => {
            if let Some(index) = weak.upgrade() {
                on_record(&index, cluster, key);
            }
        }
        News::Knowledge(..) => subscribers.tell_everything(),
    });
}
