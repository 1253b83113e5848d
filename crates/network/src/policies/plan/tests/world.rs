//! A handful of members with one policy, and what leaders do there, without any server.

use std::collections::BTreeSet;

use koinon_fleet::ClusterId;

use crate::policies::accept::Accept;
use crate::policies::content::{Marked, Sighting};
use crate::policies::key::PolicyKey;
use crate::policies::ledger::{Entry, Place, State};
use crate::policies::plan::{Act, Case, Ground, Knows, Object, Other, Plan, Why, plan, rejoin};
use crate::policies::version::{Hash, Version};

pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

/// A policy in a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Policy {
    pub(super) says: u8,
    pub(super) federated: bool,
    pub(super) stamp: Option<Version>,
    pub(super) uid: u8,
}

/// Whether a cluster is a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Membership {
    #[default]
    In,
    Out {
        /// The others have waited long enough for it.
        given_up: bool,
    },
    /// It is to be put right before it counts.
    Returning,
}

/// A member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Site {
    pub(super) membership: Membership,
    pub(super) policy: Option<Policy>,
    pub(super) entry: Option<Entry>,
    pub(super) floor: u64,
}

/// How far a leader comes before it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// It does not.
    End,
    /// What comes before the object is touched.
    Intent,
    /// The object was touched, and nobody wrote that down.
    Object,
}

/// What a leader was last told of another ledger.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Word {
    Unknown,
    Returning,
    Says(Option<Entry>),
}

/// What a leader was last told of the ledgers of others.
pub(super) type Told = [Word; 3];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) sites: [Site; 3],
    pub(super) told: [Told; 3],
}

pub(super) fn id(name: &str) -> ClusterId {
    ClusterId::new(name).unwrap()
}

pub(super) fn hash(says: u8) -> Hash {
    static HASHES: std::sync::LazyLock<Vec<Hash>> =
        std::sync::LazyLock::new(|| (0..=u8::MAX).map(|says| Hash::of(&[says])).collect());
    HASHES[usize::from(says)]
}

impl Policy {
    pub(super) fn sighting(&self) -> Sighting {
        Sighting {
            uid: self.uid.to_string(),
            resource_version: "1".into(),
            hash: hash(self.says),
            marked: Marked { federated: self.federated, contradicts: false },
            stamp: self.stamp.clone(),
            going: false,
            tier: None,
        }
    }
}

impl World {
    /// All know of all.
    pub(super) fn new() -> World {
        let told = [const { [const { Word::Says(None) }; 3] }; 3];
        World { sites: Default::default(), told }
    }

    /// What the leader of a member decides.
    pub(super) fn plan(&self, me: usize, waited: bool) -> Plan {
        self.with_case(me, waited, plan)
    }

    fn with_case<T>(&self, me: usize, waited: bool, decide: impl FnOnce(&Case<'_>) -> T) -> T {
        let names = NAMES.map(id);
        let sights: Vec<Option<Sighting>> =
            self.sites.iter().map(|site| site.policy.as_ref().map(Policy::sighting)).collect();
        let given_up = |other: usize| self.sites[other].membership == Membership::Out { given_up: true };
        let others = (0..3).filter(|other| *other != me && !given_up(*other)).map(|other| Other {
            member: &names[other],
            ledger: match &self.told[me][other] {
                Word::Unknown => Knows::Unknown,
                Word::Returning => Knows::Returning,
                Word::Says(entry) => Knows::Known(entry.as_ref()),
            },
            floor: self.sites[other].floor,
            object: sights[other].as_ref(),
            refused: None,
        });
        let (key, accept, tiers) = (PolicyKey::cluster("x"), Accept::All, BTreeSet::new());
        let site = &self.sites[me];
        decide(&Case {
            key: &key,
            me: &names[me],
            mine: site.entry.as_ref(),
            refused: None,
            floor: site.floor,
            object: sights[me].as_ref().map_or(Object::Absent, Object::Here),
            ground: Ground::Here(Place::default()),
            accept: &accept,
            tiers: Some(&tiers),
            others: others.collect(),
            waited,
        })
    }

    /// Does what the leader of a member decides; says whether that changed anything.
    pub(super) fn act(&mut self, me: usize, until: Until) -> bool {
        let before = self.sites[me].clone();
        let act = match before.membership {
            Membership::In => self.plan(me, true).act,
            Membership::Out { .. } => return false,
            Membership::Returning => self.with_case(me, true, rejoin),
        };
        match act {
            Act::Rest(Why::InStep | Why::Nowhere) if before.membership == Membership::Returning => {
                self.sites[me].membership = Membership::In;
            }
            Act::Rest(_) | Act::Refuse(_) => {}
            Act::Discard { .. } => {
                if until != Until::Intent {
                    self.sites[me].policy = None;
                }
                if until == Until::End {
                    self.sites[me].entry = None;
                }
            }
            Act::AssignRevision(_, entry) | Act::Note(entry) => self.note(me, entry),
            Act::Forget(_) => {
                let site = &mut self.sites[me];
                if let Some(entry) = site.entry.take().filter(|entry| !entry.version.is_live()) {
                    site.floor = site.floor.max(entry.version.rev);
                }
            }
            Act::Write(write) => {
                let content = write.version.content.unwrap();
                let source = self.sites.iter().filter_map(|site| site.policy.as_ref());
                let source = source.clone().find(|policy| hash(policy.says) == content).unwrap().clone();
                if until != Until::Intent {
                    let uid =
                        self.sites[me].policy.as_ref().map_or_else(|| self.fresh(me), |policy| policy.uid);
                    let stamp = Some(write.version.clone());
                    self.sites[me].policy = Some(Policy { stamp, uid, ..source });
                }
                if until == Until::End {
                    let state = State::Applied { local: None, place: write.place };
                    self.note(me, Entry { version: write.version, state });
                }
            }
            Act::Erase { entry, .. } => {
                self.note(me, entry.clone());
                if until != Until::Intent {
                    self.sites[me].policy = None;
                }
                if until == Until::End {
                    self.note(me, Entry::removed(entry.version));
                }
            }
        }
        self.sites[me] != before
    }

    fn note(&mut self, me: usize, entry: Entry) {
        self.sites[me].entry = Some(entry);
    }

    /// One leader hears of another member's ledger; says whether that was news.
    pub(super) fn hear(&mut self, me: usize, other: usize) -> bool {
        let now = match self.sites[other].membership {
            Membership::In => Word::Says(self.sites[other].entry.clone()),
            Membership::Out { .. } => Word::Unknown,
            Membership::Returning => Word::Returning,
        };
        std::mem::replace(&mut self.told[me][other], now.clone()) != now
    }

    /// Another object than the one before.
    fn fresh(&self, me: usize) -> u8 {
        match (&self.sites[me].policy, &self.sites[me].entry) {
            (Some(policy), _) => 1 - policy.uid,
            (None, Some(Entry { state: State::Removing { uid, .. }, .. })) if uid == "0" => 1,
            _ => 0,
        }
    }

    /// A user makes a policy, or another one in its place.
    pub(super) fn create(&mut self, me: usize, says: u8) {
        let uid = self.fresh(me);
        self.sites[me].policy = Some(Policy { says, federated: true, stamp: None, uid });
    }

    pub(super) fn edit(&mut self, me: usize, says: u8) {
        self.sites[me].policy.as_mut().unwrap().says = says;
    }

    pub(super) fn remove(&mut self, me: usize) {
        self.sites[me].policy = None;
    }

    pub(super) fn leave(&mut self, me: usize) {
        self.sites[me].policy.as_mut().unwrap().federated = false;
    }

    /// A user writes on a policy that it is a copy of this revision.
    pub(super) fn forge(&mut self, me: usize, says: u8, rev: u64, origin: usize) {
        let uid = self.sites[me].policy.as_ref().map_or_else(|| self.fresh(me), |policy| policy.uid);
        let stamp = Version { rev, base: 0, origin: id(NAMES[origin]), content: Some(hash(says)) };
        self.sites[me].policy = Some(Policy { says, federated: true, stamp: Some(stamp), uid });
    }

    /// A cluster leaves; leaders may hear of it late.
    pub(super) fn depart(&mut self, me: usize) {
        self.sites[me].membership = Membership::Out { given_up: false };
    }

    /// The others wait no longer for a cluster that left.
    pub(super) fn give_up(&mut self, me: usize) {
        self.sites[me].membership = Membership::Out { given_up: true };
        self.told.iter_mut().for_each(|told| told[me] = Word::Unknown);
    }

    pub(super) fn come_back(&mut self, me: usize) {
        self.sites[me].membership = Membership::Returning;
        // Whoever leads it then reads the other ledgers first.
        self.told[me] = [const { Word::Unknown }; 3];
    }

    /// Whether a member has the policy, federated.
    pub(super) fn holds(&self, me: usize) -> bool {
        let site = &self.sites[me];
        site.membership == Membership::In && site.policy.as_ref().is_some_and(|policy| policy.federated)
    }

    /// Lets everybody hear and act until nothing changes any more.
    pub(super) fn settle(&mut self) {
        for _ in 0..100 {
            let mut changed = false;
            for me in 0..3 {
                for other in (0..3).filter(|other| *other != me) {
                    changed |= self.hear(me, other);
                }
                changed |= self.act(me, Until::End);
            }
            if !changed {
                return;
            }
        }
        panic!("it never comes to rest: {self:#?}");
    }

    /// What the members have: `a=1 b=1 c=-`; a plain policy has a star.
    pub(super) fn shows(&self) -> String {
        let one = |site: &Site| match &site.policy {
            Some(policy) if policy.federated => policy.says.to_string(),
            Some(policy) => format!("{}*", policy.says),
            None => "-".into(),
        };
        let all = NAMES.iter().zip(&self.sites).map(|(name, site)| format!("{name}={}", one(site)));
        all.collect::<Vec<_>>().join(" ")
    }
}
