//! The caches of policies, ledgers, namespaces and tiers of all members, each fed by one watch.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, LazyLock, Weak};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use koinon_api::membership::{Federation, NETWORK_NAMESPACE};
use koinon_control::Key;
use koinon_fleet::{ClusterId, Fleet, Index, Knowledge, News, Record, Selection, Unserved};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Resource as _, ResourceExt as _};
use parking_lot::{Mutex, RwLock};

use super::accept::Accept;
use super::catalogue::Catalogue;
use super::content::Sighting;
use super::key::{Kind, PAGES, PolicyKey};
use super::ledger::{Page, Roster};
use super::names;
use super::participants::Counted;
use super::version::Version;

/// Whoever wants to know what changed.
pub(super) trait Listener: Send + Sync {
    /// The policy is another in a member.
    fn policy(&self, member: &ClusterId, key: &PolicyKey);
    /// A member's ledger says something else of these policies: it has this version now, or a word on a refusal.
    fn entries(&self, member: &ClusterId, changed: &BTreeMap<PolicyKey, Option<Version>>);
    /// All of them may.
    fn everything(&self);
    /// The ground changed in a member: a namespace there, or with an empty name its tiers.
    fn ground(&self, member: &ClusterId, namespace: &str);
}

impl Record for Sighting {
    type Object = DynamicObject;

    fn fold(object: &DynamicObject) -> Option<Sighting> {
        let kind = if object.namespace().is_some() { Kind::Namespaced } else { Kind::Cluster };
        Some(Sighting::of(&PolicyKey::of(kind, &Key::of(object)), object))
    }
}

/// One ConfigMap of a ledger.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) resource_version: String,
    /// How many bytes it has.
    pub(super) size: usize,
    pub(super) says: Says,
}

#[derive(Debug, PartialEq)]
pub(super) enum Says {
    Page(u8, Page),
    Roster(Roster),
    /// Nobody understands it; it is not written over.
    Unreadable,
}

impl Document {
    /// What it says of policies, if it is about them and understood.
    pub(super) fn page(&self) -> Option<&Page> {
        match &self.says {
            Says::Page(_, page) => Some(page),
            Says::Roster(_) | Says::Unreadable => None,
        }
    }

    /// Which members it lists, if it is about them and understood.
    pub(super) fn roster(&self) -> Option<&Roster> {
        match &self.says {
            Says::Roster(roster) => Some(roster),
            Says::Page(..) | Says::Unreadable => None,
        }
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Document) -> bool {
        self.says == other.says
    }
}

impl Record for Document {
    type Object = ConfigMap;

    fn fold(map: &ConfigMap) -> Option<Document> {
        let name = map.name_any();
        let text = map.data.as_ref().and_then(|data| data.get(names::LEDGER_KEY)).map_or("", String::as_str);
        let says = if name == names::LEDGER {
            Roster::read(text).map(Says::Roster)
        } else {
            let number = Page::number(&name)?;
            Page::read(text).map(|page| Says::Page(number, page))
        };
        let says = says.unwrap_or_else(|error| {
            tracing::warn!(name, %error, "a page of a policy ledger is not understood");
            Says::Unreadable
        });
        let resource_version = map.resource_version().unwrap_or_default();
        Some(Document { resource_version, size: text.len(), says })
    }
}

#[derive(Debug, PartialEq)]
pub(super) struct SeenNamespace {
    pub(super) uid: String,
    pub(super) ending: bool,
}

impl Record for SeenNamespace {
    type Object = Namespace;

    fn fold(namespace: &Namespace) -> Option<SeenNamespace> {
        let ending = namespace.meta().deletion_timestamp.is_some();
        Some(SeenNamespace { uid: namespace.uid().unwrap_or_default(), ending })
    }
}

#[derive(Debug, PartialEq)]
pub(super) struct SeenTier;

impl Record for SeenTier {
    type Object = DynamicObject;

    fn fold(_: &DynamicObject) -> Option<SeenTier> {
        Some(SeenTier)
    }
}

/// Whose policies a cluster takes, as one of its Federations says.
#[derive(Debug, PartialEq)]
pub(super) struct Terms {
    /// The oldest Federation is the one that counts.
    created: Option<Timestamp>,
    /// Another Federation of the same name is another membership.
    pub(super) uid: String,
    accept: Accept,
}

impl Record for Terms {
    type Object = Federation;

    fn fold(federation: &Federation) -> Option<Terms> {
        if federation.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let created = federation.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let text = federation.annotations().get(names::ACCEPT);
        let uid = federation.uid().unwrap_or_default();
        Some(Terms { created, uid, accept: Accept::parse(text.map(String::as_str)) })
    }
}

/// Of a cluster's Federations the one that counts.
pub(super) fn oldest<T: Borrow<Terms>>(all: Vec<(Key, T)>) -> Option<T> {
    all.into_iter()
        .min_by(|(one, first), (other, second)| {
            (first.borrow().created, one).cmp(&(second.borrow().created, other))
        })
        .map(|(_, terms)| terms)
}

/// Everything that is seen of all members.
pub(super) struct PolicyCaches {
    pub(super) fleet: Arc<Fleet>,
    cluster: Arc<Index<Sighting>>,
    namespaced: Arc<Index<Sighting>>,
    pub(super) ledgers: Arc<Index<Document>>,
    pub(super) namespaces: Arc<Index<SeenNamespace>>,
    tiers: Arc<Index<SeenTier>>,
    terms: Arc<Index<Terms>>,
    pub(super) catalogue: Catalogue,
    pub(super) counted: Counted,
    listeners: RwLock<Vec<Weak<dyn Listener>>>,
    /// Ledgers as they were when last told of, to tell only what is new.
    told: Mutex<BTreeMap<(ClusterId, Key), Arc<Document>>>,
}

impl PolicyCaches {
    pub(super) fn new(fleet: Arc<Fleet>) -> Arc<PolicyCaches> {
        let caches = Arc::new(PolicyCaches {
            fleet,
            cluster: Index::new(),
            namespaced: Index::new(),
            ledgers: Index::new(),
            namespaces: Index::new(),
            tiers: Index::new(),
            terms: Index::new(),
            catalogue: Catalogue::default(),
            counted: Counted::default(),
            listeners: RwLock::default(),
            told: Mutex::default(),
        });
        caches.listen();
        caches
    }

    pub(super) fn policies(&self, kind: Kind) -> &Arc<Index<Sighting>> {
        match kind {
            Kind::Cluster => &self.cluster,
            Kind::Namespaced => &self.namespaced,
        }
    }

    pub(super) fn register(&self, listener: Weak<dyn Listener>) {
        let mut listeners = self.listeners.write();
        listeners.retain(|known| known.strong_count() > 0);
        listeners.push(listener);
    }

    fn tell(&self, tell: impl Fn(&dyn Listener)) {
        for listener in self.listeners.read().iter().filter_map(Weak::upgrade) {
            tell(&*listener);
        }
    }

    fn listen(self: &Arc<Self>) {
        for kind in Kind::ALL {
            let me = Arc::downgrade(self);
            self.policies(kind).on_change(move |news| {
                let Some(me) = me.upgrade() else { return };
                match news {
                    News::Record(member, key) => {
                        let key = PolicyKey::of(kind, key);
                        me.catalogue.add(&key);
                        me.tell(|listener| listener.policy(member, &key));
                    }
                    News::Knowledge(..) => me.tell(|listener| listener.everything()),
                }
            });
        }
        let me = Arc::downgrade(self);
        self.ledgers.on_change(move |news| {
            let Some(me) = me.upgrade() else { return };
            match news {
                News::Record(member, key) => me.ledger_changed(member, key),
                News::Knowledge(..) => {
                    me.counted.outdate();
                    me.tell(|listener| listener.everything());
                }
            }
        });
        let me = Arc::downgrade(self);
        self.namespaces.on_change(move |news| {
            let Some(me) = me.upgrade() else { return };
            match news {
                News::Record(member, key) => me.tell(|listener| listener.ground(member, &key.name)),
                News::Knowledge(..) => me.tell(|listener| listener.everything()),
            }
        });
        let me = Arc::downgrade(self);
        self.tiers.on_change(move |news| {
            let Some(me) = me.upgrade() else { return };
            let (News::Record(member, _) | News::Knowledge(member, _)) = news;
            me.tell(|listener| listener.ground(member, ""));
        });
        let me = Arc::downgrade(self);
        self.terms.on_change(move |_| {
            let Some(me) = me.upgrade() else { return };
            me.counted.outdate();
            me.tell(|listener| listener.everything());
        });
    }

    fn ledger_changed(&self, member: &ClusterId, key: &Key) {
        let now = self.ledgers.get(member.as_str(), key);
        let before = {
            let mut told = self.told.lock();
            let place = (member.clone(), key.clone());
            match &now {
                Some(now) => told.insert(place, now.clone()),
                None => told.remove(&place),
            }
        };
        let empty = Page::default();
        match (page_of(before.as_deref(), key, &empty), page_of(now.as_deref(), key, &empty)) {
            (Some(before), Some(now)) => {
                let changed = changed_entries(before, now);
                if !changed.is_empty() {
                    changed.keys().for_each(|key| self.catalogue.add(key));
                    self.tell(|listener| listener.entries(member, &changed));
                }
            }
            (_, now) => {
                let said = now.into_iter().flat_map(|page| page.entries.keys().chain(page.refused.keys()));
                said.for_each(|key| self.catalogue.add(key));
                self.counted.outdate();
                self.tell(|listener| listener.everything());
            }
        }
    }

    /// Strikes a policy off the catalogue if nobody has or remembers it.
    pub(super) fn strike(&self, key: &PolicyKey) {
        self.catalogue.strike(key, || {
            let remembers = |document: &Arc<Document>| {
                let page = document.page();
                page.is_some_and(|page| page.entries.contains_key(key) || page.refused.contains_key(key))
            };
            self.policies(key.kind).everywhere(&key.object()).is_empty()
                && !self.pages(key.page()).values().any(remembers)
        });
    }

    /// Every policy that one member has or remembers.
    pub(super) fn keys_of(&self, member: &ClusterId) -> BTreeSet<PolicyKey> {
        let mut keys = BTreeSet::new();
        for kind in Kind::ALL {
            let seen = self.policies(kind).of_member(member.as_str());
            keys.extend(seen.iter().map(|(key, _)| PolicyKey::of(kind, key)));
        }
        for (_, document) in self.ledgers.of_member(member.as_str()) {
            if let Some(page) = document.page() {
                keys.extend(page.entries.keys().chain(page.refused.keys()).cloned());
            }
        }
        keys
    }

    /// Whose policies a member takes, where that is known: who was never asked may take none. Who has no Federation takes
    /// no part.
    pub(super) fn accept(&self, member: &str) -> Option<Accept> {
        // Asked first: what is known cannot be forgotten in between, but for a member that is none any more.
        if self.terms.knowledge(member) == Knowledge::Unknown {
            return None;
        }
        Some(self.terms_of(member).map_or(Accept::None, |terms| terms.accept.clone()))
    }

    /// The UID of a member's own Federation, if it is known to have one.
    pub(super) fn federation(&self, member: &str) -> Option<String> {
        self.terms_of(member).map(|terms| terms.uid.clone())
    }

    fn terms_of(&self, member: &str) -> Option<Arc<Terms>> {
        oldest(self.terms.of_member(member))
    }

    /// The tiers of a member, where they are known.
    pub(super) fn tiers(&self, member: &str) -> Option<BTreeSet<String>> {
        let known = self.tiers.knowledge(member) == Knowledge::Complete;
        known.then(|| self.tiers.of_member(member).into_iter().map(|(key, _)| key.name).collect())
    }

    /// What each known member's ledger says about members.
    pub(super) fn rosters(&self) -> BTreeMap<ClusterId, Roster> {
        let key = Key::new(NETWORK_NAMESPACE, names::LEDGER);
        let documents = self.ledgers.everywhere(&key).into_iter();
        let rosters = documents.filter_map(|(member, document)| Some((member, document.roster()?.clone())));
        rosters.collect()
    }

    /// One page of a member's ledger; one that was never written is empty.
    pub(super) fn page(&self, member: &str, number: u8) -> Option<Arc<Document>> {
        self.ledgers.get(member, page_key(number))
    }

    /// The pages of one number in all ledgers.
    pub(super) fn pages(&self, number: u8) -> BTreeMap<ClusterId, Arc<Document>> {
        self.ledgers.everywhere(page_key(number))
    }

    /// Follows all of it for as long as it is polled.
    pub(super) async fn follow(&self) -> Infallible {
        let optional = || Selection { unserved: Unserved::Empty, ..Selection::default() };
        let policies = |kind: Kind| {
            let resource = kind.resource();
            self.fleet.follow(self.policies(kind).clone(), optional(), move |member| {
                member.dynamic(&resource, None)
            })
        };
        let ledgers = Selection {
            labels: Some(format!("{}={}", names::LEDGER_LABEL, names::LEDGER_VALUE)),
            ..Selection::default()
        };
        let tier = tier_resource();
        tokio::select! {
            biased;
            never = policies(Kind::Cluster) => never,
            never = policies(Kind::Namespaced) => never,
            never = self.fleet.follow(self.ledgers.clone(), ledgers, |member| {
                member.namespaced(NETWORK_NAMESPACE)
            }) => never,
            never = self.fleet.follow(self.namespaces.clone(), Selection::default(), |member| member.all()) => never,
            never = self.fleet.follow(self.tiers.clone(), optional(), move |member| {
                member.dynamic(&tier, None)
            }) => never,
            never = self.fleet.follow(self.terms.clone(), optional(), |member| {
                member.namespaced(NETWORK_NAMESPACE)
            }) => never,
        }
    }
}

fn tier_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(names::GROUP, names::VERSION, "Tier");
    ApiResource::from_gvk_with_plural(&kind, "tiers")
}

/// Where the page of a number is; asked for too often to be made each time.
fn page_key(number: u8) -> &'static Key {
    static KEYS: LazyLock<Vec<Key>> =
        LazyLock::new(|| (0..PAGES).map(|number| Key::new(NETWORK_NAMESPACE, Page::name(number))).collect());
    &KEYS[usize::from(number)]
}

/// What a document says of policies; one that is not there says that there are none.
fn page_of<'a>(document: Option<&'a Document>, key: &Key, empty: &'a Page) -> Option<&'a Page> {
    match document {
        Some(document) => document.page(),
        None => (key.name != names::LEDGER).then_some(empty),
    }
}

/// The policies of which two versions of a page say something different, and the version in the second.
fn changed_entries(before: &Page, now: &Page) -> BTreeMap<PolicyKey, Option<Version>> {
    let of_both = [before, now].into_iter().flat_map(|page| page.entries.keys().chain(page.refused.keys()));
    let keys: BTreeSet<&PolicyKey> = of_both.collect();
    let changed = keys.into_iter().filter(|key| {
        before.entries.get(key) != now.entries.get(key) || before.refused.get(key) != now.refused.get(key)
    });
    changed.map(|key| (key.clone(), now.entries.get(key).map(|entry| entry.version.clone()))).collect()
}
