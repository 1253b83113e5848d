//! Of each policy: its revision, where it is applied, pending or in conflict, and why. For people who ask.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use koinon_fleet::ClusterId;
use kube::ResourceExt as _;
use serde::Serialize;

use super::accept::Accept;
use super::content::Sighting;
use super::key::{Kind, PolicyKey};
use super::ledger::{Entry, Page, Refusal, Roster, State};
use super::names::{LEDGER, LEDGER_KEY};
use super::plan::roster;
use super::version::Version;

/// A member's ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    pub roster: Option<Roster>,
    pub entries: BTreeMap<PolicyKey, Entry>,
    pub refused: BTreeMap<PolicyKey, Refusal>,
}

impl Ledger {
    /// Reads a ledger from its ConfigMaps: those with the label of ledgers.
    pub fn of<'a>(maps: impl IntoIterator<Item = &'a ConfigMap>) -> Result<Ledger, serde_json::Error> {
        let mut ledger = Ledger::default();
        for map in maps {
            let text = map.data.as_ref().and_then(|data| data.get(LEDGER_KEY)).map_or("", String::as_str);
            if map.name_any() == LEDGER {
                ledger.roster = Some(Roster::read(text)?);
            } else if Page::number(&map.name_any()).is_some() {
                let page = Page::read(text)?;
                ledger.entries.extend(page.entries);
                ledger.refused.extend(page.refused);
            }
        }
        Ok(ledger)
    }
}

/// What was read of one member.
#[derive(Clone, Debug, Default)]
pub struct Member {
    pub ledger: Ledger,
    pub policies: BTreeMap<PolicyKey, Sighting>,
    pub namespaces: BTreeSet<String>,
    pub accept: Accept,
}

/// How one policy is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// `acnp/NAME` or `anp/NAMESPACE/NAME`.
    pub policy: String,
    pub revision: u64,
    /// The member where a user last changed or removed it.
    pub origin: String,
    /// It was removed, and not everybody has heard of it.
    pub removed: bool,
    pub members: BTreeMap<String, Whereabouts>,
}

/// How a policy is in one member.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state", content = "why")]
pub enum Whereabouts {
    Applied,
    /// On its way, or not looked at yet.
    Pending,
    /// A policy of somebody's own has its name.
    Conflict,
    Refused(String),
    NoNamespace,
    /// The member does not take it from there.
    Declined,
    /// Removed there, and remembered until all have heard of it.
    Gone,
    /// The member could not be asked.
    Unknown,
}

/// Says of every federated policy where it is; `None` stands for a member that could not be asked.
pub fn survey(members: &BTreeMap<ClusterId, Option<Member>>) -> Vec<Report> {
    let known: BTreeMap<&ClusterId, &Member> =
        members.iter().filter_map(|(id, member)| Some((id, member.as_ref()?))).collect();
    let rosters: BTreeMap<ClusterId, Roster> = known
        .iter()
        .filter_map(|(id, member)| Some(((*id).clone(), member.ledger.roster.clone()?)))
        .collect();
    let mut winners: BTreeMap<&PolicyKey, &Version> = BTreeMap::new();
    for (id, member) in &known {
        if roster::is_of_this_epoch(id, &rosters) {
            for (key, entry) in &member.ledger.entries {
                let winner = winners.entry(key).or_insert(&entry.version);
                *winner = (*winner).max(&entry.version);
            }
        }
    }
    let reports = winners.into_iter().map(|(key, winner)| Report {
        policy: key.to_string(),
        revision: winner.rev,
        origin: winner.origin.as_str().to_owned(),
        removed: !winner.is_live(),
        members: members
            .iter()
            .map(|(id, member)| {
                let place =
                    member.as_ref().map_or(Whereabouts::Unknown, |member| place(id, member, key, winner));
                (id.as_str().to_owned(), place)
            })
            .collect(),
    });
    reports.collect()
}

fn place(id: &ClusterId, member: &Member, key: &PolicyKey, winner: &Version) -> Whereabouts {
    let sighting = member.policies.get(key);
    let entry = member.ledger.entries.get(key);
    if !winner.is_live() {
        let here = sighting.is_some_and(Sighting::is_federated);
        let kept = entry.is_some_and(|entry| matches!(entry.state, State::Kept { .. }));
        return match (here, kept) {
            (true, true) => Whereabouts::Declined,
            (true, false) => Whereabouts::Pending,
            (false, _) => Whereabouts::Gone,
        };
    }
    if let (Some(entry), Some(sighting)) = (entry, sighting)
        && entry.version == *winner
        && entry.untouched() == Some(sighting.hash)
    {
        return Whereabouts::Applied;
    }
    if !member.accept.takes(id, &winner.origin) {
        return Whereabouts::Declined;
    }
    if key.kind == Kind::Namespaced && !member.namespaces.contains(&key.namespace) {
        return Whereabouts::NoNamespace;
    }
    if let Some(refusal) = member.ledger.refused.get(key).filter(|refusal| refusal.is_of(winner)) {
        return Whereabouts::Refused(refusal.why.clone());
    }
    match sighting {
        Some(sighting) if !sighting.is_federated() => Whereabouts::Conflict,
        _ => Whereabouts::Pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::content::Marked;
    use crate::policies::ledger::Place;
    use crate::policies::version::Hash;

    fn id(name: &str) -> ClusterId {
        ClusterId::new(name).unwrap()
    }

    fn sighting(says: &str, federated: bool) -> Sighting {
        Sighting {
            uid: "u".into(),
            resource_version: "1".into(),
            hash: Hash::of(says.as_bytes()),
            marked: Marked { federated, contradicts: false },
            stamp: None,
            going: false,
            tier: None,
        }
    }

    fn member(entry: Option<Entry>, policy: Option<Sighting>) -> Member {
        let key = PolicyKey::namespaced("prod", "web");
        Member {
            ledger: Ledger {
                roster: Some(Roster::default()),
                entries: entry.map(|entry| (key.clone(), entry)).into_iter().collect(),
                refused: BTreeMap::new(),
            },
            policies: policy.map(|policy| (key, policy)).into_iter().collect(),
            namespaces: ["prod".to_owned()].into(),
            accept: Accept::All,
        }
    }

    #[test]
    fn where_a_policy_is() {
        let live = Version { rev: 2, base: 1, origin: id("a"), content: Some(Hash::of(b"new")) };
        let applied = |version: &Version| Entry {
            version: version.clone(),
            state: State::Applied { local: None, place: Place::default() },
        };
        let old = Version { rev: 1, base: 0, origin: id("b"), content: Some(Hash::of(b"old")) };
        let key = PolicyKey::namespaced("prod", "web");
        let mut refusing = member(None, None);
        refusing.ledger.refused.insert(key, Refusal::of(&live, "no Tier"));
        let mut bare = member(None, None);
        bare.namespaces.clear();
        let mut wary = member(None, None);
        wary.accept = Accept::parse(Some("b"));
        let members = BTreeMap::from([
            (id("a"), Some(member(Some(applied(&live)), Some(sighting("new", true))))),
            (id("b"), Some(member(Some(applied(&old)), Some(sighting("old", true))))),
            (id("c"), Some(member(None, Some(sighting("own", false))))),
            (id("d"), Some(refusing)),
            (id("e"), Some(bare)),
            (id("f"), Some(wary)),
            (id("g"), None),
        ]);
        let reports = survey(&members);
        assert_eq!(reports.len(), 1);
        let (report, places) = (&reports[0], &reports[0].members);
        assert_eq!(
            (&*report.policy, report.revision, &*report.origin, report.removed),
            ("anp/prod/web", 2, "a", false)
        );
        let expected = [
            ("a", Whereabouts::Applied),
            ("b", Whereabouts::Pending),
            ("c", Whereabouts::Conflict),
            ("d", Whereabouts::Refused("no Tier".into())),
            ("e", Whereabouts::NoNamespace),
            ("f", Whereabouts::Declined),
            ("g", Whereabouts::Unknown),
        ];
        for (name, place) in expected {
            assert_eq!(places[name], place, "{name}");
        }
    }

    #[test]
    fn where_a_removed_policy_still_is() {
        let removed = Version { rev: 3, base: 2, origin: id("a"), content: None };
        let kept = Entry { version: removed.clone(), state: State::Kept { local: Hash::of(b"x") } };
        let members = BTreeMap::from([
            (id("a"), Some(member(Some(Entry::removed(removed)), None))),
            (id("b"), Some(member(None, Some(sighting("x", true))))),
            (id("c"), Some(member(Some(kept), Some(sighting("x", true))))),
        ]);
        let reports = survey(&members);
        assert!(reports[0].removed);
        let places: Vec<_> = reports[0].members.values().collect();
        assert_eq!(places, [&Whereabouts::Gone, &Whereabouts::Pending, &Whereabouts::Declined]);
    }
}
