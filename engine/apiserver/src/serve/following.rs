//! What the server itself needs to know of its objects: which resources CRDs add, who may do what, and which policies
//! requests are held against.
//!
//! All follow the store by cursors that are caught up before every request, so a request sees all that
//! was answered before it, and no task has to run for it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use serde_json::Value;

use super::object::{self, Naming};
use super::{bootstrap, incoming};
use crate::admission::policy::{self, Policies};
use crate::auth::rbac;
use crate::catalog::Catalog;
use crate::crd::Crd;
use crate::store::{Event, EventKind, Item, ListQuery, Store, Watch};

const CRDS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// The four kinds that RBAC is made of, by where they are stored.
const RULES: [(&str, &str); 4] = [
    ("rbac.authorization.k8s.io/roles", "Role"),
    ("rbac.authorization.k8s.io/clusterroles", "ClusterRole"),
    ("rbac.authorization.k8s.io/rolebindings", "RoleBinding"),
    ("rbac.authorization.k8s.io/clusterrolebindings", "ClusterRoleBinding"),
];

/// Admission policies and their bindings, by where they are stored.
const POLICIES: [(&str, policy::Kind); 4] = [
    ("admissionregistration.k8s.io/validatingadmissionpolicies", policy::Kind::Policy),
    ("admissionregistration.k8s.io/validatingadmissionpolicybindings", policy::Kind::Binding),
    ("admissionregistration.k8s.io/mutatingadmissionpolicies", policy::Kind::MutatingPolicy),
    ("admissionregistration.k8s.io/mutatingadmissionpolicybindings", policy::Kind::MutatingBinding),
];

pub(crate) struct Following {
    cursors: Mutex<Cursors>,
    /// The store's revision at the last catch-up.
    seen: AtomicU64,
    catalog: RwLock<Catalog>,
    rules: RwLock<rbac::Index>,
    policies: RwLock<Arc<Policies>>,
}

struct Cursors {
    crds: Option<Watch>,
    rules: [Option<Watch>; 4],
    policies: [Option<Watch>; 4],
    served: BTreeMap<String, Arc<Crd>>,
}

impl Following {
    pub(crate) fn new(store: &Store) -> Self {
        let following = Following {
            cursors: Mutex::new(Cursors {
                crds: None,
                rules: [None, None, None, None],
                policies: [None, None, None, None],
                served: BTreeMap::new(),
            }),
            seen: AtomicU64::new(u64::MAX),
            catalog: RwLock::new(Catalog::default()),
            rules: RwLock::new(bootstrap::rules().clone()),
            policies: RwLock::default(),
        };
        following.catch_up(store);
        following
    }

    pub(crate) fn catalog(&self) -> Catalog {
        self.catalog.read().clone()
    }

    pub(crate) fn rules(&self) -> RwLockReadGuard<'_, rbac::Index> {
        self.rules.read()
    }

    pub(crate) fn policies(&self) -> Arc<Policies> {
        self.policies.read().clone()
    }

    /// Takes in all that the store has published.
    pub(crate) fn catch_up(&self, store: &Store) {
        let revision = store.revision();
        if self.seen.load(Ordering::Acquire) == revision {
            return;
        }
        let mut cursors = self.cursors.lock();
        self.follow_crds(&mut cursors, store);
        for (index, (resource, kind)) in RULES.into_iter().enumerate() {
            self.follow_rules(&mut cursors.rules[index], store, resource, kind);
        }
        for (index, (resource, kind)) in POLICIES.into_iter().enumerate() {
            self.follow_policies(&mut cursors.policies[index], store, resource, kind);
        }
        self.seen.store(revision, Ordering::Release);
    }

    fn follow_crds(&self, cursors: &mut Cursors, store: &Store) {
        let Cursors { crds, served, .. } = cursors;
        let mut changed = false;
        follow(crds, store, CRDS, |change| {
            changed = true;
            match change {
                Change::Reset(_) => served.clear(),
                Change::Put(name, revision, body) => {
                    let naming =
                        Naming { kind: "CustomResourceDefinition", api_version: "apiextensions.k8s.io/v1" };
                    let Some(crd) = read(Some(naming), name, revision, body) else { return };
                    let mut crd = Crd::parse(&crd, Some(incoming::object_meta()));
                    // A new status changes nothing about the objects.
                    let same = served.get(name).filter(|before| before.source == crd.source);
                    crd.since = same.map_or(revision, |before| before.since);
                    match crd.established {
                        true => served.insert(name.to_owned(), Arc::new(crd)),
                        false => served.remove(name),
                    };
                }
                Change::Gone(_, name) => {
                    served.remove(name);
                }
            }
        });
        if changed {
            *self.catalog.write() = Catalog::with(served.values().cloned());
        }
    }

    fn follow_rules(&self, cursor: &mut Option<Watch>, store: &Store, resource: &str, kind: &str) {
        follow(cursor, store, resource, |change| {
            let mut rules = self.rules.write();
            match change {
                Change::Reset(listed) => {
                    let listed: HashSet<_> =
                        listed.iter().map(|item| (&*item.namespace, &*item.name)).collect();
                    rules.retain(kind, |namespace, name| listed.contains(&(namespace, name)));
                }
                Change::Put(name, revision, body) => {
                    let naming = Naming { kind, api_version: "rbac.authorization.k8s.io/v1" };
                    if let Some(rule) = read(Some(naming), name, revision, body) {
                        rules.apply(kind, &rule);
                    }
                }
                Change::Gone(namespace, name) => rules.remove(kind, namespace, name),
            }
        });
    }

    fn follow_policies(&self, cursor: &mut Option<Watch>, store: &Store, resource: &str, kind: policy::Kind) {
        follow(cursor, store, resource, |change| {
            let mut policies = self.policies.write();
            let policies = Arc::make_mut(&mut policies);
            match change {
                Change::Reset(_) => policies.clear(kind),
                Change::Put(name, revision, body) => {
                    if let Some(policy) = read(None, name, revision, body) {
                        policies.put(kind, name, policy);
                    }
                }
                Change::Gone(_, name) => policies.remove(kind, name),
            }
        });
    }
}

/// One object that cannot be read must not keep the server from starting.
fn read(naming: Option<Naming<'_>>, name: &str, revision: u64, body: &[u8]) -> Option<Value> {
    let read = object::try_decode(naming, revision, body);
    read.map_err(|error| tracing::error!(%error, name, "a stored object cannot be read; delete it")).ok()
}

enum Change<'a> {
    /// Forget all but these, which follow one by one.
    Reset(&'a [Item]),
    Put(&'a str, u64, &'a [u8]),
    Gone(&'a str, &'a str),
}

/// Brings a cursor up to date: by events, or by listing again where events are no longer kept.
fn follow(cursor: &mut Option<Watch>, store: &Store, resource: &str, mut take: impl FnMut(Change<'_>)) {
    loop {
        match cursor.as_mut().map(Watch::try_next) {
            Some(Ok(events)) if events.is_empty() => return,
            Some(Ok(events)) => events.iter().for_each(|event| take(change_of(event))),
            Some(Err(_)) | None => {
                let Ok(found) = store.list(&ListQuery::all(resource)) else { return };
                take(Change::Reset(&found.items));
                for Item { name, entry, .. } in &found.items {
                    take(Change::Put(name, entry.revision, &entry.body));
                }
                match store.watch(resource, found.revision) {
                    Ok(watch) => *cursor = Some(watch),
                    // More was written and dropped since the list: list again with the next request.
                    Err(_) => return,
                }
            }
        }
    }
}

fn change_of(event: &Event) -> Change<'_> {
    match event.kind {
        EventKind::Deleted => Change::Gone(&event.key.namespace, &event.key.name),
        EventKind::Added | EventKind::Modified => {
            Change::Put(&event.key.name, event.revision, &event.entry.body)
        }
    }
}
