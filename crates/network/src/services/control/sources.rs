//! What is known of all members, and who has to hear when it changes.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Weak};

use koinon_api::names::network::{IMPORT_SLICES_MANAGER, SLICES_MANAGER};
use koinon_control::Key;
use koinon_fleet::{ClusterId, Fleet, Index, News, Record, Selection, Unserved};
use parking_lot::RwLock;
use tokio::sync::watch;

use super::books::{Books, Concerned};
use super::looks::Looks;
use super::origins::Ear;
use super::post::{Inbox, Job};
use super::quota::Limits;
use super::resolve::{Resolve, Resolver};
use crate::services::mcs::{Export, Offer};
use crate::services::model::{Joining, Kind, Reach, Source};
use crate::services::records::{Alive, Node, Occupant, SourceSlice};
use crate::services::render::SLICE_MANAGED_BY;

/// Compact records of all members, followed once for all posts.
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
    pub(super) desk: Arc<Desk>,
    pub(super) resolver: Arc<Resolver>,
}

/// Where news arrive and are passed on.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) books: RwLock<Books>,
    pub(super) looks: Looks,
    posts: RwLock<Vec<Weak<Inbox>>>,
    /// Others who want to hear of federated Services.
    pub(super) ears: RwLock<Vec<Weak<dyn Ear>>>,
    /// Whether anybody is reached by nodes, so that they have to be known.
    nodes_matter: watch::Sender<bool>,
    /// Whether anybody exports a Service.
    exports_matter: watch::Sender<bool>,
}

impl Sources {
    pub(super) fn new(fleet: Arc<Fleet>, resolve: Option<Resolve>) -> Arc<Sources> {
        let books = RwLock::new(Books::limited(Limits::default()));
        let desk = Arc::new(Desk { books, ..Desk::default() });
        let sources = Sources {
            fleet,
            services: Index::new(),
            natives: Index::new(),
            slices: Index::new(),
            nodes: Index::new(),
            namespaces: Index::new(),
            exports: Index::new(),
            offers: Index::new(),
            resolver: Resolver::new(resolve, desk.clone()),
            desk,
        };
        sources.listen();
        Arc::new(sources)
    }

    fn listen(&self) {
        let desk = self.desk.clone();
        listen(&self.services, &self.desk, move |index, cluster, key| {
            let record = index.get(cluster.as_str(), key);
            let joining = match record.as_deref() {
                Some(Occupant::Member(joining)) => Some(joining),
                _ => None,
            };
            desk.member_changed(Kind::Service, cluster, key, joining);
            let is_ours = matches!(record.as_deref(), Some(Occupant::Ours(_)));
            if is_ours || desk.books.read().has_members(key) {
                desk.tell_post(cluster, &Job::Federated(key.clone()));
            }
            desk.tell_post(cluster, &Job::Machines(key.clone()));
        });
        let desk = self.desk.clone();
        listen(&self.natives, &self.desk, move |index, cluster, key| {
            let record = index.get(cluster.as_str(), key);
            desk.member_changed(Kind::NativeService, cluster, key, record.as_ref());
        });
        let (desk, exports) = (self.desk.clone(), Arc::downgrade(&self.exports));
        listen(&self.slices, &self.desk, move |index, cluster, key| {
            let record = index.get(cluster.as_str(), key);
            let service = record.as_ref().map(|slice| (slice.service.as_str(), slice.endpoints.len()));
            let (services, concerned) = desk.books.write().own(cluster, key, service);
            desk.tell_concerned(cluster, concerned);
            for service in services {
                if exports.upgrade().is_some_and(|exports| exports.get(cluster.as_str(), &service).is_some())
                {
                    desk.tell_posts(&Job::Import(service.clone()));
                }
                let source = Source { cluster: cluster.clone(), kind: Kind::Service, key: service };
                let joined = desk.books.read().joined_by(&source).to_vec();
                desk.tell_all(joined);
            }
        });
        let (desk, services) = (self.desk.clone(), Arc::downgrade(&self.services));
        listen(&self.nodes, &self.desk, move |_, cluster, _| {
            let Some(services) = services.upgrade() else { return };
            let concerned: BTreeSet<Key> = {
                let books = desk.books.read();
                let in_cluster = books.in_cluster(cluster).filter(|(source, _)| {
                    let record = services.get(cluster.as_str(), &source.key);
                    matches!(record.as_deref(), Some(Occupant::Member(one)) if matches!(one.reach, Reach::Nodes(_)))
                });
                in_cluster.flat_map(|(_, joins)| joins.iter().cloned()).collect()
            };
            desk.tell_all(concerned);
        });
        let desk = self.desk.clone();
        listen(&self.exports, &self.desk, move |index, cluster, key| {
            let created = index.get(cluster.as_str(), key).map(|export| export.created);
            let source = Source { cluster: cluster.clone(), kind: Kind::ServiceExport, key: key.clone() };
            let concerned = desk.books.write().export(source.clone(), created);
            desk.tell_concerned(cluster, concerned);
            desk.tell_post(cluster, &Job::Member(source));
            desk.exports_matter.send_if_modified(|matter| !std::mem::replace(matter, true));
            desk.tell_posts(&Job::Import(key.clone()));
        });
        let (desk, exports) = (self.desk.clone(), Arc::downgrade(&self.exports));
        listen(&self.offers, &self.desk, move |_, cluster, key| {
            if exports.upgrade().is_some_and(|exports| exports.get(cluster.as_str(), key).is_some()) {
                desk.tell_posts(&Job::Import(key.clone()));
            }
        });
        let desk = self.desk.clone();
        listen(&self.namespaces, &self.desk, move |_, cluster, key| {
            desk.tell_post(cluster, &Job::Imports);
            let federated = desk.books.read().federated().cloned().collect::<Vec<_>>();
            for one in federated.into_iter().filter(|one| one.namespace == key.name) {
                desk.tell_post(cluster, &Job::Federated(one));
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
            let mut matter = self.desk.nodes_matter.subscribe();
            let _ = matter.wait_for(|matter| *matter).await;
            fleet.follow(self.nodes.clone(), Selection::default(), |member| member.all()).await
        };
        let offers = async {
            let mut matter = self.desk.exports_matter.subscribe();
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

impl Desk {
    fn member_changed(&self, kind: Kind, cluster: &ClusterId, key: &Key, joining: Option<&Arc<Joining>>) {
        let source = Source { cluster: cluster.clone(), kind, key: key.clone() };
        let joins = joining.map(|one| one.joins.as_slice()).unwrap_or_default();
        let created = joining.map(|one| one.created).unwrap_or_default();
        if joining.is_some_and(|one| matches!(one.reach, Reach::Nodes(_))) {
            self.nodes_matter.send_if_modified(|matter| !std::mem::replace(matter, true));
        }
        let mut books = self.books.write();
        let concerned = books.join(source.clone(), created, joins);
        let concerns_nobody = joining.is_some_and(|joining| books.is_same_member(&source, joining));
        drop(books);
        if !concerns_nobody {
            self.tell_concerned(cluster, concerned);
        }
        self.tell_post(cluster, &Job::Member(source));
    }

    fn tell_concerned(&self, cluster: &ClusterId, concerned: Concerned) {
        self.tell_all(concerned.keys);
        for source in concerned.moved {
            if source.kind == Kind::ServiceExport {
                self.tell_posts(&Job::Import(source.key.clone()));
            }
            self.tell_post(cluster, &Job::Member(source));
        }
    }

    /// Has a federated Service looked at everywhere.
    pub(super) fn tell_all(&self, concerned: impl IntoIterator<Item = Key>) {
        let (posts, ears) = (self.posts.read(), self.ears.read());
        for key in concerned {
            self.looks.forget(&key);
            ears.iter().filter_map(Weak::upgrade).for_each(|ear| ear.federated(&key));
            for post in posts.iter().filter_map(Weak::upgrade) {
                post.add(Job::Federated(key.clone()));
            }
        }
    }

    fn tell_posts(&self, job: &Job) {
        for post in self.posts.read().iter().filter_map(Weak::upgrade) {
            post.add(job.clone());
        }
    }

    fn tell_post(&self, cluster: &ClusterId, job: &Job) {
        let posts = self.posts.read();
        for post in posts.iter().filter_map(Weak::upgrade).filter(|post| &post.cluster == cluster) {
            post.add(job.clone());
        }
    }

    /// Has everything looked at again, everywhere.
    fn tell_everything(&self) {
        self.looks.forget_all();
        self.ears.read().iter().filter_map(Weak::upgrade).for_each(|ear| ear.everything());
        self.tell_posts(&Job::All);
    }

    /// From now on a post hears of news, for as long as it is there.
    pub(super) fn open(&self, inbox: &Arc<Inbox>) {
        let mut posts = self.posts.write();
        posts.retain(|post| post.strong_count() > 0);
        posts.push(Arc::downgrade(inbox));
    }
}

/// Hears of records that change, and of more or less being known.
fn listen<R: Record>(
    index: &Arc<Index<R>>,
    desk: &Arc<Desk>,
    on_record: impl Fn(&Index<R>, &ClusterId, &Key) + Send + Sync + 'static,
) {
    let (weak, desk) = (Arc::downgrade(index), desk.clone());
    index.on_change(move |news| match news {
        News::Record(cluster, key) => {
            if let Some(index) = weak.upgrade() {
                on_record(&index, cluster, key);
            }
        }
        News::Knowledge(..) => desk.tell_everything(),
    });
}
