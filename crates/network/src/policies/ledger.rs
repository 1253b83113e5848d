//! What a member remembers of its policies, so that "a user removed it" can be told from "it never came".
//!
//! A ledger is a set of ConfigMaps in the member: pages with an entry for each policy, and one document about
//! members. Only the member's leader writes there.

use std::collections::{BTreeMap, BTreeSet};

use koinon_fleet::ClusterId;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::key::{PAGES, PolicyKey};
use super::names::LEDGER;
use super::version::{HIGHEST, Hash, Version};

/// The most that a page may hold, in bytes; a ConfigMap may have a mebibyte in all.
pub const LARGEST_PAGE: usize = 900 * 1024;
/// As much of a refusal as is written down.
const LONGEST_WHY: usize = 300;

/// What a member knows of one policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub version: Version,
    pub state: State,
}

/// How far a member is with a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The policy was here as the version says.
    Applied {
        /// What the server made of it, if that is not what it was given.
        local: Option<Hash>,
        /// On which ground: a namespace that is another now takes its policies with it, and no user did that.
        place: Place,
    },
    /// It is to go, this very object as it was: written before it is deleted.
    Removing { uid: String, local: Hash },
    /// It is not here.
    Removed,
    /// It is not here, and every member has said so.
    Settled,
    /// It was removed by somebody whose word does not count here, and stays as it is.
    Kept { local: Hash },
}

impl Entry {
    pub fn removed(version: Version) -> Entry {
        Entry { version, state: State::Removed }
    }

    /// What the object looks like if nobody touched it.
    pub fn untouched(&self) -> Option<Hash> {
        match &self.state {
            State::Applied { local, .. } => local.or(self.version.content),
            State::Kept { local } | State::Removing { local, .. } => Some(*local),
            State::Removed | State::Settled => None,
        }
    }
}

/// The ground that a policy stands on: its namespace and the definition of its kind, neither of which is the
/// same after it was made anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Place(u32);

impl Place {
    pub fn of(namespace_uid: &str, definition_uid: &str) -> Place {
        let text = format!("{namespace_uid}/{definition_uid}");
        let mut short = [0; 4];
        short.copy_from_slice(&digest(&SHA256, text.as_bytes()).as_ref()[..4]);
        Place(u32::from_be_bytes(short))
    }
}

/// That a member cannot take a version, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Refusal {
    pub rev: u64,
    pub origin: String,
    pub why: String,
}

impl Refusal {
    pub fn of(version: &Version, why: &str) -> Refusal {
        let why = why.chars().take(LONGEST_WHY).collect();
        Refusal { rev: version.rev, origin: version.origin.as_str().into(), why }
    }

    pub fn is_of(&self, version: &Version) -> bool {
        self.rev == version.rev && self.origin == version.origin.as_str()
    }
}

/// One page of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Page {
    /// The highest revision of anything that was removed and is forgotten: whatever comes is higher.
    pub floor: u64,
    pub entries: BTreeMap<PolicyKey, Entry>,
    pub refused: BTreeMap<PolicyKey, Refusal>,
}

impl Page {
    /// Takes down where a policy is; what was refused before does not matter any more.
    pub fn note(&mut self, key: &PolicyKey, entry: Entry) {
        self.refused.remove(key);
        self.entries.insert(key.clone(), entry);
    }

    /// Forgets a policy. A version that was forgotten is not used again.
    pub fn forget(&mut self, key: &PolicyKey) {
        self.refused.remove(key);
        if let Some(entry) = self.entries.remove(key)
            && !entry.version.is_live()
        {
            self.floor = self.floor.max(entry.version.rev);
        }
    }

    pub fn read(text: &str) -> Result<Page, serde_json::Error> {
        let written: Written = serde_json::from_str(text)?;
        let key = |text: &String| {
            PolicyKey::parse(text).ok_or_else(|| serde::de::Error::custom(format!("no policy: {text}")))
        };
        if written.floor > HIGHEST {
            return Err(serde::de::Error::custom("nobody counted to its floor"));
        }
        let mut page = Page { floor: written.floor, ..Page::default() };
        for (text, line) in &written.policies {
            let entry = line.entry().ok_or_else(|| serde::de::Error::custom(format!("not read: {text}")))?;
            page.entries.insert(key(text)?, entry);
        }
        for (text, refusal) in &written.refused {
            page.refused.insert(key(text)?, refusal.clone());
        }
        Ok(page)
    }

    pub fn write(&self) -> String {
        let written = Written {
            floor: self.floor,
            policies: self.entries.iter().map(|(key, entry)| (key.to_string(), Line::of(entry))).collect(),
            refused: self.refused.iter().map(|(key, why)| (key.to_string(), why.clone())).collect(),
        };
        serde_json::to_string(&written).expect("a page has only plain values")
    }

    /// The name of the ConfigMap that holds it.
    pub fn name(number: u8) -> String {
        format!("{LEDGER}-{number:02}")
    }

    /// The number of the page that a ConfigMap of this name holds.
    pub fn number(name: &str) -> Option<u8> {
        let number = name.strip_prefix(LEDGER)?.strip_prefix('-')?;
        number.parse().ok().filter(|number| *number < PAGES && name == Page::name(*number))
    }
}

/// What a member's ledger says about members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Roster {
    /// How often this member had left when its ledger was last put right.
    pub epoch: u64,
    /// The UID of the member's own Federation under which its ledger was put right: a cluster that left and returned has
    /// another one, whoever saw it leave. Empty while it takes no part; nothing in a ledger of before this was written.
    pub joined: Option<String>,
    /// Who counts: nothing is forgotten before they all know of it.
    pub members: BTreeSet<ClusterId>,
    /// Those of them that are not listed at the moment, and whose departure is counted already.
    pub away: BTreeSet<ClusterId>,
    /// How often others were seen to leave.
    pub departed: BTreeMap<ClusterId, u64>,
}

impl Roster {
    /// Whether the ledger was put right while the member had this Federation.
    pub fn is_of(&self, federation: &str) -> bool {
        self.joined.as_deref().is_none_or(|joined| joined == federation)
    }

    pub fn read(text: &str) -> Result<Roster, serde_json::Error> {
        let written: WrittenRoster = serde_json::from_str(text)?;
        let id = |text: &String| ClusterId::new(text).map_err(serde::de::Error::custom);
        Ok(Roster {
            epoch: written.epoch,
            joined: written.joined,
            members: written.members.iter().map(id).collect::<Result<_, serde_json::Error>>()?,
            away: written.away.iter().map(id).collect::<Result<_, serde_json::Error>>()?,
            departed: written
                .departed
                .iter()
                .map(|(name, count)| Ok((id(name)?, *count)))
                .collect::<Result<_, serde_json::Error>>()?,
        })
    }

    pub fn write(&self) -> String {
        let names = |ids: &BTreeSet<ClusterId>| ids.iter().map(|id| id.as_str().to_owned()).collect();
        let written = WrittenRoster {
            epoch: self.epoch,
            joined: self.joined.clone(),
            members: names(&self.members),
            away: names(&self.away),
            departed: self.departed.iter().map(|(id, count)| (id.as_str().to_owned(), *count)).collect(),
        };
        serde_json::to_string(&written).expect("a roster has only plain values")
    }
}

#[derive(Serialize, Deserialize)]
struct WrittenRoster {
    epoch: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    joined: Option<String>,
    members: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    away: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    departed: BTreeMap<String, u64>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    floor: u64,
    policies: BTreeMap<String, Line>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    refused: BTreeMap<String, Refusal>,
}

/// An entry as people read it in the ConfigMap.
#[derive(Serialize, Deserialize)]
struct Line {
    rev: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    base: u64,
    origin: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<Hash>,
    phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    local: Option<Hash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Phase {
    Applied,
    Removing,
    Removed,
    Settled,
    Kept,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Line {
    fn of(entry: &Entry) -> Line {
        let Version { rev, base, origin, content } = &entry.version;
        let (phase, local, place, uid) = match &entry.state {
            State::Applied { local, place } => (Phase::Applied, *local, Some(*place), None),
            State::Removing { uid, local } => (Phase::Removing, Some(*local), None, Some(uid.clone())),
            State::Removed => (Phase::Removed, None, None, None),
            State::Settled => (Phase::Settled, None, None, None),
            State::Kept { local } => (Phase::Kept, Some(*local), None, None),
        };
        let origin = origin.as_str().to_owned();
        Line { rev: *rev, base: *base, origin, hash: *content, phase, local, place, uid }
    }

    fn entry(&self) -> Option<Entry> {
        if self.rev.max(self.base) > HIGHEST {
            return None;
        }
        let origin = ClusterId::new(&self.origin).ok()?;
        let version = Version { rev: self.rev, base: self.base, origin, content: self.hash };
        let state = match self.phase {
            Phase::Applied => State::Applied { local: self.local, place: self.place.unwrap_or_default() },
            Phase::Removing => State::Removing { uid: self.uid.clone()?, local: self.local? },
            Phase::Removed => State::Removed,
            Phase::Settled => State::Settled,
            Phase::Kept => State::Kept { local: self.local? },
        };
        // Only what lives is applied, and only what was removed goes.
        (version.is_live() == matches!(state, State::Applied { .. })).then_some(Entry { version, state })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry() -> impl Strategy<Value = Entry> {
        let hash = any::<u8>().prop_map(|seed| Hash::of(&[seed]));
        let version = (1..50u64, 0..50u64, "[a-c]{1,8}", hash.clone());
        let state = (0..5u8, proptest::option::of(hash), any::<u8>());
        (version, state).prop_map(|((rev, base, origin, content), (state, local, seed))| {
            let place = Place::of(&seed.to_string(), "");
            let state = match state {
                0 => State::Applied { local, place },
                1 => State::Removing { uid: format!("uid-{seed}"), local: content },
                2 => State::Removed,
                3 => State::Settled,
                _ => State::Kept { local: content },
            };
            let content = matches!(state, State::Applied { .. }).then_some(content);
            Entry { version: Version { rev, base, origin: ClusterId::new(&origin).unwrap(), content }, state }
        })
    }

    proptest! {
        #[test]
        fn a_page_reads_as_it_is_written(
            floor in 0..99u64,
            entries in proptest::collection::btree_map("[a-z]{1,6}", entry(), 0..20),
        ) {
            let mut page = Page { floor, ..Page::default() };
            for (index, (name, entry)) in entries.into_iter().enumerate() {
                let key = if index % 2 == 0 { PolicyKey::cluster(&name) } else { PolicyKey::namespaced("x", &name) };
                if index % 3 == 0 {
                    page.refused.insert(key.clone(), Refusal::of(&entry.version, "no Tier"));
                }
                page.entries.insert(key, entry);
            }
            prop_assert_eq!(Page::read(&page.write()).unwrap(), page);
        }
    }

    #[test]
    fn a_page_is_readable() {
        let mut page = Page { floor: 2, ..Page::default() };
        let origin = ClusterId::new("a").unwrap();
        let version = |content| Version { rev: 3, base: 2, origin: origin.clone(), content };
        let place = Place::of("u", "d");
        let applied = State::Applied { local: None, place };
        page.note(&PolicyKey::cluster("x"), Entry { version: version(Some(Hash::of(b"x"))), state: applied });
        page.note(&PolicyKey::namespaced("n", "y"), Entry::removed(version(None)));
        assert_eq!(
            page.write(),
            format!(
                "{{\"floor\":2,\"policies\":{{\"acnp/x\":{{\"rev\":3,\"base\":2,\"origin\":\"a\",\"hash\":\"{}\",\
                 \"phase\":\"applied\",\"place\":{}}},\"anp/n/y\":{{\"rev\":3,\"base\":2,\"origin\":\"a\",\"phase\":\"removed\"}}}}}}",
                Hash::of(b"x"),
                place.0
            )
        );
    }

    #[test]
    fn what_does_not_hold_together_is_not_read() {
        for bad in [
            "",
            "{}",
            r#"{"floor":0,"policies":{"x":{"rev":1,"origin":"a","phase":"removed"}}}"#,
            r#"{"floor":0,"policies":{"acnp/x":{"rev":1,"origin":"a","phase":"applied"}}}"#,
            r#"{"floor":0,"policies":{"acnp/x":{"rev":1,"origin":"A","phase":"removed"}}}"#,
            r#"{"floor":0,"policies":{"acnp/x":{"rev":1,"origin":"a","phase":"unknown"}}}"#,
            r#"{"floor":0,"policies":{"acnp/x":{"rev":18446744073709551615,"origin":"a","phase":"removed"}}}"#,
            r#"{"floor":9007199254740992,"policies":{}}"#,
        ] {
            assert!(Page::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_was_forgotten_raises_the_floor_only_if_it_was_removed() {
        let key = PolicyKey::cluster("x");
        let origin = ClusterId::new("a").unwrap();
        let mut page = Page::default();
        let live = Version { rev: 9, base: 0, origin: origin.clone(), content: Some(Hash::of(b"x")) };
        page.note(
            &key,
            Entry { version: live, state: State::Applied { local: None, place: Place::default() } },
        );
        page.forget(&key);
        assert_eq!(page.floor, 0);
        page.note(&key, Entry::removed(Version { rev: 9, base: 0, origin, content: None }));
        page.forget(&key);
        assert_eq!(page, Page { floor: 9, ..Page::default() });
    }

    #[test]
    fn ten_thousand_policies_fit_many_times() {
        let mut pages = vec![Page::default(); usize::from(PAGES)];
        let origin = ClusterId::new(&"a".repeat(60)).unwrap();
        for number in 0..10_000 {
            let key = PolicyKey::namespaced(&format!("team-{}", number % 97), &format!("allow-web-{number}"));
            let version =
                Version { rev: number, base: number, origin: origin.clone(), content: Some(Hash::of(b"x")) };
            let state = State::Applied { local: Some(Hash::of(b"y")), place: Place::of("u", "d") };
            pages[usize::from(key.page())].note(&key, Entry { version, state });
        }
        let largest = pages.iter().map(|page| page.write().len()).max().unwrap();
        assert!(largest < LARGEST_PAGE / 10, "{largest}");
    }

    #[test]
    fn pages_are_known_by_name() {
        assert_eq!(Page::number(&Page::name(7)), Some(7));
        for other in
            ["koinon-policies", "koinon-policies-7", "koinon-policies-64", "koinon-policies-x", "x-07"]
        {
            assert_eq!(Page::number(other), None, "{other}");
        }
    }

    #[test]
    fn a_roster_reads_as_it_is_written() {
        let id = |name: &str| ClusterId::new(name).unwrap();
        let roster = Roster {
            epoch: 2,
            joined: Some("uid".into()),
            members: [id("a"), id("b.c")].into(),
            away: [id("a")].into(),
            departed: [(id("x"), 3)].into(),
        };
        assert_eq!(Roster::read(&roster.write()).unwrap(), roster);
        // As it was written before members' Federations were.
        let old = Roster::read(r#"{"epoch":2,"members":["a"]}"#).unwrap();
        assert_eq!(old, Roster { epoch: 2, members: [id("a")].into(), ..Roster::default() });
        assert!(old.is_of("uid") && roster.is_of("uid") && !roster.is_of("another"));
        assert!(Roster::read("{}").is_err());
    }
}
