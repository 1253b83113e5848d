//! Who counts in the federation of policies, and whose word does not count yet.

use std::collections::{BTreeMap, BTreeSet};

use koinon_fleet::ClusterId;

use crate::policies::ledger::Roster;

/// What the document about members should become, and what may be done meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct RosterPlan {
    /// To be written first, if it is not as it should be.
    pub write: Option<Roster>,
    /// Whether what this member brings along has to be put right before it counts.
    pub rejoining: bool,
}

impl RosterPlan {
    /// Whether policies may be looked after.
    pub fn is_ready(&self) -> bool {
        self.write.is_none() && !self.rejoining
    }
}

/// Who is a member at the moment, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Present {
    /// All members of the federation that take part.
    pub listed: BTreeSet<ClusterId>,
    /// Those on the roster that certainly do not at the moment.
    pub missing: BTreeSet<ClusterId>,
    /// Those that have not for so long that they are not waited for any more.
    pub left: BTreeSet<ClusterId>,
}

/// Decides about the roster of the member that is led, whose own Federation has this UID. `rosters` are those of all
/// members as far as they are known.
///
/// Whoever is not listed has left, from the first moment: what happens there is nobody's removal. How long it is
/// missing only says when it is not waited for any more.
pub fn plan(
    me: &ClusterId,
    federation: &str,
    mine: Option<&Roster>,
    present: &Present,
    rosters: &BTreeMap<ClusterId, Roster>,
) -> RosterPlan {
    let epoch = epoch_of(me, rosters);
    let Some(mine) = mine.filter(|mine| mine.epoch >= epoch && mine.is_of(federation)) else {
        return RosterPlan { write: None, rejoining: true };
    };
    let mut next = mine.clone();
    next.joined = Some(federation.to_owned());
    next.members.extend(present.listed.iter().filter(|member| *member != me).cloned());
    next.away.retain(|member| !present.listed.contains(member));
    let missing = present.missing.iter().filter(|member| !present.listed.contains(*member));
    for member in missing.filter(|member| mine.members.contains(*member)) {
        if next.away.insert(member.clone()) {
            let times = next.departed.entry(member.clone()).or_default();
            *times = times.saturating_add(1);
        }
        if present.left.contains(member) {
            next.members.remove(member);
            next.away.remove(member);
        }
    }
    RosterPlan { write: (next != *mine).then_some(next), rejoining: false }
}

/// The roster of a member that counts from now on.
pub fn admitted(
    me: &ClusterId,
    federation: &str,
    mine: Option<&Roster>,
    rosters: &BTreeMap<ClusterId, Roster>,
) -> Roster {
    let joined = Some(federation.to_owned());
    Roster { epoch: epoch_of(me, rosters), joined, ..mine.cloned().unwrap_or_default() }
}

/// The roster of a member that takes no part: whatever happens there from now on, it has to be put right before it counts
/// again. Nothing where that is written already, or where there is no ledger.
pub fn withdrawn(mine: Option<&Roster>) -> Option<Roster> {
    let mine = mine.filter(|mine| mine.joined.as_deref() != Some(""))?;
    Some(Roster { joined: Some(String::new()), ..mine.clone() })
}

/// Whether what a member's ledger says counts, where its own Federation has this UID.
pub fn counts(member: &ClusterId, federation: Option<&str>, rosters: &BTreeMap<ClusterId, Roster>) -> bool {
    let is_put_right = |roster: &Roster| federation.is_some_and(|federation| roster.is_of(federation));
    is_of_this_epoch(member, rosters) && rosters.get(member).is_some_and(is_put_right)
}

/// Whether nobody has seen a member leave since its ledger was put right.
pub fn is_of_this_epoch(member: &ClusterId, rosters: &BTreeMap<ClusterId, Roster>) -> bool {
    rosters.get(member).is_some_and(|roster| roster.epoch >= epoch_of(member, rosters))
}

/// How often a member was seen to leave.
fn epoch_of(member: &ClusterId, rosters: &BTreeMap<ClusterId, Roster>) -> u64 {
    let others = rosters.iter().filter(|(other, _)| *other != member);
    others.filter_map(|(_, roster)| roster.departed.get(member).copied()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &str) -> BTreeSet<ClusterId> {
        names.split_whitespace().map(|name| ClusterId::new(name).unwrap()).collect()
    }

    fn id(name: &str) -> ClusterId {
        ClusterId::new(name).unwrap()
    }

    /// Members of whom those with a star are away.
    fn roster(epoch: u64, members: &str, departed: &[(&str, u64)]) -> Roster {
        let departed = departed.iter().map(|(name, count)| (id(name), *count)).collect();
        let away = members.split_whitespace().filter_map(|name| name.strip_suffix('*')).map(id).collect();
        Roster { epoch, joined: Some("now".into()), members: ids(&members.replace('*', "")), away, departed }
    }

    #[track_caller]
    fn check(
        mine: Option<Roster>,
        (listed, missing, left): (&str, &str, &str),
        others: &[(&str, Roster)],
        expected: RosterPlan,
    ) {
        let mut rosters: BTreeMap<_, _> =
            others.iter().map(|(name, roster)| (id(name), roster.clone())).collect();
        if let Some(mine) = &mine {
            rosters.insert(id("m"), mine.clone());
        }
        let present = Present { listed: ids(listed), missing: ids(missing), left: ids(left) };
        let plan = plan(&id("m"), "now", mine.as_ref(), &present, &rosters);
        assert_eq!(plan, expected);
    }

    fn ready() -> RosterPlan {
        RosterPlan { write: None, rejoining: false }
    }

    fn writes(roster: Roster) -> RosterPlan {
        RosterPlan { write: Some(roster), rejoining: false }
    }

    fn rejoins() -> RosterPlan {
        RosterPlan { write: None, rejoining: true }
    }

    #[test]
    fn who_counts_is_written_down_first() {
        check(None, ("m a", "", ""), &[], rejoins());
        check(Some(roster(0, "", &[])), ("m a", "", ""), &[], writes(roster(0, "a", &[])));
        check(Some(roster(0, "a", &[])), ("m a", "", ""), &[], ready());
        // Of whom it is not known whether it takes part.
        check(Some(roster(0, "a b", &[])), ("m a", "", ""), &[], ready());
        // Not listed for a moment: still waited for, but it has left, once.
        let gone = roster(0, "a b*", &[("b", 1)]);
        check(Some(roster(0, "a b", &[])), ("m a", "b", ""), &[], writes(gone.clone()));
        check(Some(gone.clone()), ("m a", "b", ""), &[], ready());
        check(Some(gone.clone()), ("m a", "", ""), &[], ready());
        check(Some(gone.clone()), ("m a b", "", ""), &[], writes(roster(0, "a b", &[("b", 1)])));
        check(Some(gone), ("m a", "b", "b"), &[], writes(roster(0, "a", &[("b", 1)])));
        check(Some(roster(0, "a b", &[])), ("m a", "b", "b"), &[], writes(roster(0, "a", &[("b", 1)])));
        // Back: it counts once more from now on.
        check(
            Some(roster(0, "a", &[("b", 1)])),
            ("m a b", "", ""),
            &[],
            writes(roster(0, "a b", &[("b", 1)])),
        );
        check(
            Some(roster(0, "a b", &[("b", 1)])),
            ("m a", "b", ""),
            &[],
            writes(roster(0, "a b*", &[("b", 2)])),
        );
        // Gone and back before anybody looked.
        check(Some(roster(0, "a b", &[])), ("m a b", "b", "b"), &[], ready());
    }

    #[test]
    fn who_was_seen_to_leave_is_put_right_before_it_counts() {
        let saw = [("a", roster(0, "m", &[("m", 2)])), ("b", roster(0, "m", &[("m", 1)]))];
        check(Some(roster(1, "a b", &[])), ("m a b", "", ""), &saw, rejoins());
        check(Some(roster(2, "a b", &[])), ("m a b", "", ""), &saw, ready());
        let rosters: BTreeMap<_, _> = saw.iter().map(|(name, roster)| (id(name), roster.clone())).collect();
        assert_eq!(
            admitted(&id("m"), "now", Some(&roster(1, "a", &[("x", 1)])), &rosters),
            roster(2, "a", &[("x", 1)])
        );
        assert!(counts(&id("a"), Some("now"), &rosters));
        assert!(!counts(&id("m"), Some("now"), &rosters), "no ledger at all");
    }

    #[test]
    fn who_has_another_federation_has_left_whoever_saw_it() {
        let before = Roster { joined: Some("before".into()), ..roster(0, "a", &[]) };
        check(Some(before.clone()), ("m a", "", ""), &[], rejoins());
        let rosters = BTreeMap::from([(id("m"), before)]);
        assert!(counts(&id("m"), Some("before"), &rosters));
        assert!(!counts(&id("m"), Some("now"), &rosters));
        assert!(!counts(&id("m"), None, &rosters), "it has no Federation");
        assert_eq!(admitted(&id("m"), "now", rosters.get(&id("m")), &rosters), roster(0, "a", &[]));
        // A ledger of an earlier release does not say; from now on it does.
        let silent = Roster { joined: None, ..roster(0, "a", &[]) };
        check(Some(silent), ("m a", "", ""), &[], writes(roster(0, "a", &[])));
    }

    #[test]
    fn who_takes_no_part_is_put_right_when_it_does_again() {
        let out = withdrawn(Some(&roster(3, "a", &[]))).unwrap();
        assert_eq!(withdrawn(Some(&out)), None);
        assert_eq!(withdrawn(None), None);
        check(Some(out.clone()), ("m a", "", ""), &[], rejoins());
        assert!(!counts(&id("m"), Some("now"), &BTreeMap::from([(id("m"), out)])));
    }
}
