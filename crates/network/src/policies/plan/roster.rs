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

/// Decides about the roster of the member that is led. `listed` are all members of the federation that take part,
/// `left` those that certainly do not any more; `rosters` are those of all members as far as they are known.
pub fn plan(
    me: &ClusterId,
    mine: Option<&Roster>,
    listed: &BTreeSet<ClusterId>,
    left: &BTreeSet<ClusterId>,
    rosters: &BTreeMap<ClusterId, Roster>,
) -> RosterPlan {
    let epoch = epoch_of(me, rosters);
    let Some(mine) = mine.filter(|mine| mine.epoch >= epoch) else {
        return RosterPlan { write: None, rejoining: true };
    };
    let mut next = mine.clone();
    next.members.extend(listed.iter().filter(|member| *member != me).cloned());
    for member in left.iter().filter(|member| !listed.contains(*member)) {
        if next.members.remove(member) {
            let times = next.departed.entry(member.clone()).or_default();
            *times = times.saturating_add(1);
        }
    }
    RosterPlan { write: (next != *mine).then_some(next), rejoining: false }
}

/// The roster of a member that counts from now on.
pub fn admitted(me: &ClusterId, mine: Option<&Roster>, rosters: &BTreeMap<ClusterId, Roster>) -> Roster {
    Roster { epoch: epoch_of(me, rosters), ..mine.cloned().unwrap_or_default() }
}

/// Whether what a member's ledger says counts.
pub fn counts(member: &ClusterId, rosters: &BTreeMap<ClusterId, Roster>) -> bool {
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

    fn roster(epoch: u64, members: &str, departed: &[(&str, u64)]) -> Roster {
        let departed = departed.iter().map(|(name, count)| (id(name), *count)).collect();
        Roster { epoch, members: ids(members), departed }
    }

    #[track_caller]
    fn check(
        mine: Option<Roster>,
        listed: &str,
        left: &str,
        others: &[(&str, Roster)],
        expected: RosterPlan,
    ) {
        let mut rosters: BTreeMap<_, _> =
            others.iter().map(|(name, roster)| (id(name), roster.clone())).collect();
        if let Some(mine) = &mine {
            rosters.insert(id("m"), mine.clone());
        }
        let plan = plan(&id("m"), mine.as_ref(), &ids(listed), &ids(left), &rosters);
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
        check(None, "m a", "", &[], rejoins());
        check(Some(roster(0, "", &[])), "m a", "", &[], writes(roster(0, "a", &[])));
        check(Some(roster(0, "a", &[])), "m a", "", &[], ready());
        // Not listed for a moment: still counted.
        check(Some(roster(0, "a b", &[])), "m a", "", &[], ready());
        check(Some(roster(0, "a b", &[])), "m a", "b", &[], writes(roster(0, "a", &[("b", 1)])));
        check(Some(roster(0, "a", &[("b", 1)])), "m a b", "", &[], writes(roster(0, "a b", &[("b", 1)])));
        // Gone and back before anybody looked.
        check(Some(roster(0, "a b", &[])), "m a b", "b", &[], ready());
    }

    #[test]
    fn who_was_seen_to_leave_is_put_right_before_it_counts() {
        let saw = [("a", roster(0, "m", &[("m", 2)])), ("b", roster(0, "m", &[("m", 1)]))];
        check(Some(roster(1, "a b", &[])), "m a b", "", &saw, rejoins());
        check(Some(roster(2, "a b", &[])), "m a b", "", &saw, ready());
        let rosters: BTreeMap<_, _> = saw.iter().map(|(name, roster)| (id(name), roster.clone())).collect();
        assert_eq!(
            admitted(&id("m"), Some(&roster(1, "a", &[("x", 1)])), &rosters),
            roster(2, "a", &[("x", 1)])
        );
        assert!(counts(&id("a"), &rosters));
        assert!(!counts(&id("m"), &rosters), "no ledger at all");
    }
}
