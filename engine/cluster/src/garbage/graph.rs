//! Who owns whom: every object that was seen, and owners that so far are only spoken of.
//!
//! A *virtual* node stands for an owner that dependents name but no watch has shown, or no longer shows. It
//! proves nothing by itself: the server is asked for that very object before anything follows from its absence.
//! It stays for as long as anything names it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::names::{Kind, Names, Uid};

/// Which object: what an owner reference says, with the namespace it is said in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) kind: Kind,
    /// Empty for objects of the whole cluster.
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) uid: Uid,
}

/// One owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: Uid,
    pub(super) kind: Kind,
    pub(super) name: Arc<str>,
    /// The owner, if it is deleted in the foreground, waits for this dependent.
    pub(super) blocks: bool,
}

/// How far an object's deletion has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deletion {
    pub(super) started: bool,
    /// It waits until its dependents are deleted.
    pub(super) foreground: bool,
    /// It waits until its dependents are let go.
    pub(super) orphan: bool,
}

/// What a watch showed of an object.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) identity: Identity,
    pub(super) owners: Vec<Owner>,
    pub(super) deletion: Deletion,
}

/// What to look at after a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Job {
    /// Should this object be collected? Is this virtual node real?
    Collect(Uid),
    /// The same, but without hurry: it was just looked at under another name.
    CollectLater(Uid),
    /// Let its dependents go.
    Orphan(Uid),
    /// Tell that a dependent names an owner of another namespace.
    ReportForeign { dependent: Uid, owner: Uid },
}

#[derive(Debug)]
struct Node {
    identity: Identity,
    owners: Box<[Owner]>,
    dependents: BTreeSet<Uid>,
    deletion: Deletion,
    presence: Presence,
}

/// What is known of an object's existence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Observed,
    /// Only spoken of.
    Virtual,
    /// A watch reported its deletion.
    Reported,
    /// The server, asked for it, said that it is not there.
    Absent,
}

/// The graph. Every method is synchronous and gives back what to look at next.
#[derive(Default)]
pub(super) struct Graph {
    nodes: BTreeMap<Uid, Node>,
    pub(super) names: Names,
}

/// A node as a worker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) identity: Identity,
    pub(super) deletion: Deletion,
    pub(super) observed: bool,
    /// A watch reported that it was deleted.
    pub(super) reported_deleted: bool,
}

/// A dependent as its owner's worker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dependent {
    pub(super) identity: Identity,
    pub(super) blocks: bool,
    pub(super) foreground: bool,
}

impl Graph {
    /// An object was created or changed, or is shown by a list.
    pub(super) fn observe(&mut self, seen: Seen) -> Vec<Job> {
        let mut jobs = Vec::new();
        let uid = seen.identity.uid.clone();
        let before = match self.nodes.get_mut(&uid) {
            Some(node) if node.presence == Presence::Observed => Some(node.deletion),
            Some(_) => {
                self.reveal(&seen.identity, &mut jobs);
                None
            }
            None => {
                let node = Node {
                    identity: seen.identity.clone(),
                    owners: Box::default(),
                    dependents: BTreeSet::new(),
                    deletion: seen.deletion,
                    presence: Presence::Observed,
                };
                self.nodes.insert(uid.clone(), node);
                None
            }
        };
        self.set_owners(&uid, seen.owners, &mut jobs);
        let Some(node) = self.nodes.get_mut(&uid) else { return jobs };
        node.deletion = seen.deletion;
        let before = before.unwrap_or_default();
        if seen.deletion.orphan && !before.orphan {
            jobs.push(Job::Orphan(uid));
        } else if seen.deletion.foreground && !before.foreground {
            jobs.extend(node.dependents.iter().cloned().map(Job::Collect));
            jobs.push(Job::Collect(uid));
        }
        jobs
    }

    /// A watch reported that an object was deleted.
    pub(super) fn removed(&mut self, uid: &Uid) -> Vec<Job> {
        self.lose(uid, Presence::Reported)
    }

    /// A complete list of a kind showed no more than `shown`. The rest is not taken for deleted: if anything
    /// depends on it, the server is asked.
    pub(super) fn relisted(&mut self, kind: &Kind, shown: &BTreeSet<Uid>) -> Vec<Job> {
        let missing: Vec<Uid> = self.observed_of(kind).filter(|uid| !shown.contains(uid)).cloned().collect();
        missing.iter().flat_map(|uid| self.lose(uid, Presence::Virtual)).collect()
    }

    /// A kind is no longer watched: what was seen of it is only spoken of from now on.
    pub(super) fn unwatched(&mut self, kind: &Kind) -> Vec<Job> {
        self.relisted(kind, &BTreeSet::new())
    }

    /// The server was asked for exactly this object and has none with its uid. The namespace is empty for a
    /// kind without namespaces.
    pub(super) fn absent(&mut self, gone: &Identity) -> Vec<Job> {
        let Some(node) = self.nodes.get_mut(&gone.uid) else { return Vec::new() };
        if gone.namespace.is_empty() && node.identity.kind == gone.kind {
            node.identity.namespace = gone.namespace.clone();
        }
        let same = node.identity == *gone;
        let observed = node.presence == Presence::Observed;
        let node = &self.nodes[&gone.uid];
        let (matching, others) = self.by_reference(node, gone);
        if observed && !same {
            return matching.into_iter().map(Job::Collect).collect();
        }
        if !observed && !others.is_empty() {
            let mut jobs: Vec<Job> = matching.into_iter().map(Job::Collect).collect();
            if same && let Some(other) = self.alternative(&others, gone) {
                if let Some(node) = self.nodes.get_mut(&gone.uid) {
                    node.identity = other;
                    node.presence = Presence::Virtual;
                }
                jobs.push(Job::CollectLater(gone.uid.clone()));
            }
            return jobs;
        }
        let dependents: Vec<Job> = node.dependents.iter().cloned().map(Job::Collect).collect();
        let mut jobs = self.lose(&gone.uid, Presence::Absent);
        // It is known by now: its dependents are next, not it.
        jobs.retain(|job| *job != Job::Collect(gone.uid.clone()));
        jobs.extend(dependents);
        jobs
    }

    /// Whether the server said before that the owner, as this reference from this namespace names it, is absent.
    pub(super) fn is_known_absent(&self, owner: &Owner, namespace: &str) -> bool {
        self.nodes.get(&owner.uid).is_some_and(|node| {
            node.presence == Presence::Absent
                && names(owner, &node.identity)
                && (node.identity.namespace.is_empty() || &*node.identity.namespace == namespace)
        })
    }

    /// Whether a watch reported that this owner was deleted.
    pub(super) fn is_reported_deleted(&self, uid: &Uid) -> bool {
        self.nodes.get(uid).is_some_and(|node| matches!(node.presence, Presence::Reported | Presence::Absent))
    }

    pub(super) fn item(&self, uid: &Uid) -> Option<Item> {
        self.nodes.get(uid).map(|node| Item {
            identity: node.identity.clone(),
            deletion: node.deletion,
            observed: node.presence == Presence::Observed,
            reported_deleted: node.presence == Presence::Reported,
        })
    }

    /// The owners of an object as last seen.
    pub(super) fn owners(&self, uid: &Uid) -> &[Owner] {
        self.nodes.get(uid).map_or(&[], |node| &node.owners)
    }

    pub(super) fn dependents(&self, uid: &Uid) -> Vec<Dependent> {
        let Some(node) = self.nodes.get(uid) else { return Vec::new() };
        let dependents = node.dependents.iter().filter_map(|dependent| self.nodes.get(dependent));
        dependents
            .map(|dependent| Dependent {
                identity: dependent.identity.clone(),
                blocks: dependent.owners.iter().any(|owner| owner.uid == *uid && owner.blocks),
                foreground: dependent.deletion.foreground,
            })
            .collect()
    }

    fn observed_of<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = &'a Uid> {
        let of_kind = move |node: &&Node| node.presence == Presence::Observed && node.identity.kind == *kind;
        self.nodes.values().filter(of_kind).map(|node| &node.identity.uid)
    }

    /// A virtual node turned out to be real. Dependents that named it otherwise are looked at again.
    fn reveal(&mut self, identity: &Identity, jobs: &mut Vec<Job>) {
        let Some(node) = self.nodes.get(&identity.uid) else { return };
        if node.identity != *identity {
            let (_, others) = self.by_reference(node, identity);
            for dependent in others {
                let foreign = !identity.namespace.is_empty()
                    && self
                        .nodes
                        .get(&dependent)
                        .is_some_and(|node| node.identity.namespace != identity.namespace);
                if foreign {
                    jobs.push(Job::ReportForeign {
                        dependent: dependent.clone(),
                        owner: identity.uid.clone(),
                    });
                }
                jobs.push(Job::Collect(dependent));
            }
        }
        if let Some(node) = self.nodes.get_mut(&identity.uid) {
            node.identity = identity.clone();
            node.presence = Presence::Observed;
        }
    }

    fn set_owners(&mut self, uid: &Uid, owners: Vec<Owner>, jobs: &mut Vec<Job>) {
        let Some(node) = self.nodes.get_mut(uid) else { return };
        if *node.owners == *owners {
            return;
        }
        let before = std::mem::replace(&mut node.owners, owners.clone().into());
        let holds = |owners: &[Owner], wanted: &Owner| owners.iter().any(|owner| owner.uid == wanted.uid);
        // An owner that waits for its blocking dependents waits for this one no longer.
        for old in before.iter().filter(|owner| owner.blocks) {
            let still = owners.iter().any(|owner| owner.uid == old.uid && owner.blocks);
            if !still && self.nodes.contains_key(&old.uid) {
                jobs.push(Job::Collect(old.uid.clone()));
            }
        }
        let added: Vec<Owner> = owners.iter().filter(|owner| !holds(&before, owner)).cloned().collect();
        self.link(uid, &added, jobs);
        for old in before.iter().filter(|owner| !holds(&owners, owner)) {
            self.unlink(uid, &old.uid);
        }
    }

    /// Adds a dependent to its owners, which may be unknown, or known by other coordinates.
    fn link(&mut self, uid: &Uid, owners: &[Owner], jobs: &mut Vec<Job>) {
        let Some(namespace) = self.nodes.get(uid).map(|node| node.identity.namespace.clone()) else { return };
        let mut doubtful = false;
        for owner in owners {
            let node = self.nodes.entry(owner.uid.clone()).or_insert_with(|| Node {
                identity: Identity {
                    kind: owner.kind.clone(),
                    namespace: namespace.clone(),
                    name: owner.name.clone(),
                    uid: owner.uid.clone(),
                },
                owners: Box::default(),
                dependents: BTreeSet::new(),
                deletion: Deletion::default(),
                presence: Presence::Virtual,
            });
            node.dependents.insert(uid.clone());
            let observed = node.presence == Presence::Observed;
            let foreign = !node.identity.namespace.is_empty() && node.identity.namespace != namespace;
            if !observed {
                jobs.push(Job::Collect(owner.uid.clone()));
            }
            if foreign && observed {
                jobs.push(Job::ReportForeign { dependent: uid.clone(), owner: owner.uid.clone() });
            }
            let scope_in_doubt = !observed && node.identity.namespace != namespace;
            doubtful |= foreign || !names(owner, &node.identity) || scope_in_doubt;
        }
        if doubtful {
            jobs.push(Job::Collect(uid.clone()));
        }
    }

    fn unlink(&mut self, uid: &Uid, owner: &Uid) {
        let Some(node) = self.nodes.get_mut(owner) else { return };
        node.dependents.remove(uid);
        if node.dependents.is_empty() && node.presence != Presence::Observed {
            self.nodes.remove(owner);
        }
    }

    /// An object is not seen any more. While anything depends on it, a virtual node stays in its place.
    fn lose(&mut self, uid: &Uid, presence: Presence) -> Vec<Job> {
        let Some(node) = self.nodes.get_mut(uid) else { return Vec::new() };
        let owners = std::mem::take(&mut node.owners);
        node.deletion = Deletion::default();
        node.presence = presence;
        let mut jobs = Vec::new();
        if node.dependents.is_empty() {
            self.nodes.remove(uid);
        } else {
            jobs.push(Job::Collect(uid.clone()));
        }
        for owner in &owners {
            self.unlink(uid, &owner.uid);
            if self.nodes.get(&owner.uid).is_some_and(|owner| owner.deletion.foreground) {
                jobs.push(Job::Collect(owner.uid.clone()));
            }
        }
        jobs
    }

    /// The dependents that name an object exactly so, and those that name it otherwise.
    fn by_reference(&self, node: &Node, identity: &Identity) -> (Vec<Uid>, Vec<Uid>) {
        let (mut matching, mut others) = (Vec::new(), Vec::new());
        for (uid, dependent) in node.dependents.iter().filter_map(|uid| Some((uid, self.nodes.get(uid)?))) {
            if !identity.namespace.is_empty() && identity.namespace != dependent.identity.namespace {
                others.push(uid.clone());
                continue;
            }
            let mut references = dependent.owners.iter().filter(|owner| owner.uid == identity.uid);
            if references.clone().any(|owner| names(owner, identity)) {
                matching.push(uid.clone());
            }
            if references.any(|owner| !names(owner, identity)) {
                others.push(uid.clone());
            }
        }
        (matching, others)
    }

    /// Another name under which dependents know an owner: the next one after `gone`, so that all get their turn.
    fn alternative(&self, dependents: &[Uid], gone: &Identity) -> Option<Identity> {
        let mut all = BTreeSet::new();
        for dependent in dependents.iter().filter_map(|uid| self.nodes.get(uid)) {
            for owner in dependent.owners.iter().filter(|owner| owner.uid == gone.uid) {
                let clusterwide = gone.namespace.is_empty() && owner.kind == gone.kind;
                let other = Identity {
                    kind: owner.kind.clone(),
                    namespace: if clusterwide {
                        gone.namespace.clone()
                    } else {
                        dependent.identity.namespace.clone()
                    },
                    name: owner.name.clone(),
                    uid: owner.uid.clone(),
                };
                if other != *gone {
                    all.insert(other);
                }
            }
        }
        let next = all.range(gone..).next().or_else(|| all.first())?;
        Some(next.clone())
    }
}

fn names(owner: &Owner, identity: &Identity) -> bool {
    owner.uid == identity.uid && owner.kind == identity.kind && owner.name == identity.name
}
