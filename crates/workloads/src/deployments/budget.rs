//! One availability budget for all clusters: the part of it that each cluster which is being updated may use.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::rollout::Amount;

/// How much of a Deployment may be missing, and how much more there may be, while it is updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    pub(super) max_unavailable: Amount,
    pub(super) max_surge: Amount,
}

/// What one cluster may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Part {
    pub(super) unavailable: i64,
    pub(super) surge: i64,
}

/// A cluster that is being updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Claim {
    /// What it should run.
    pub(super) share: i64,
    /// What of that is not available, whatever is done.
    pub(super) short: i64,
    /// How many more it has already.
    pub(super) more: i64,
}

/// What has been used already, by nobody who is being updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Used {
    /// Replicas that are not available in the other clusters.
    pub(super) missing: i64,
    /// Replicas that there are more than there should be, as some move.
    pub(super) added: i64,
}

impl Part {
    /// With neither, nothing could ever be replaced.
    fn is_nothing(self) -> bool {
        self.unavailable == 0 && self.surge == 0
    }
}

impl Budget {
    /// What the user allows for so many replicas, with Kubernetes' rounding.
    pub(super) fn of(self, replicas: i64) -> Part {
        let surge = self.max_surge.rounded_up(replicas);
        let unavailable = self.max_unavailable.of(replicas);
        let part = Part { unavailable, surge };
        if part.is_nothing() { Part { unavailable: 1, ..part } } else { part }
    }

    /// How many clusters can be updated at a time without anybody having nothing to use.
    pub(super) fn clusters(self, replicas: i64) -> usize {
        let all = self.of(replicas);
        usize::try_from(all.unavailable.saturating_add(all.surge)).unwrap_or(usize::MAX).max(1)
    }

    /// The part of each cluster that is being updated; none where the user's own words do.
    ///
    /// To replace what is not available anyway costs nothing: a cluster that is short may do that, as fast as the user allows.
    /// Any other for which nothing is left must wait: its part is nothing.
    pub(super) fn parts<'a>(
        self,
        replicas: i64,
        updating: &BTreeMap<&'a str, Claim>,
        used: Used,
    ) -> BTreeMap<&'a str, Option<Part>> {
        let all = self.of(replicas);
        let mut left = Part {
            unavailable: (all.unavailable - used.missing).max(0),
            surge: (all.surge - used.added).max(0),
        };
        let own: Vec<(&str, Claim, Part)> =
            updating.iter().map(|(name, claim)| (*name, *claim, self.of(claim.share))).collect();
        let sum = own.iter().fold(Part::default(), |sum, (_, _, part)| Part {
            unavailable: sum.unavailable + part.unavailable,
            surge: sum.surge + part.surge,
        });
        if sum.unavailable <= left.unavailable && sum.surge <= left.surge {
            return own.into_iter().map(|(name, ..)| (name, None)).collect();
        }
        let surges = surges(&own, left.surge);
        let mut clusters = i64::try_from(own.len()).unwrap_or(i64::MAX);
        let mut parts = BTreeMap::new();
        for (name, claim, own) in own {
            let unavailable = own.unavailable.min(fair(left.unavailable, clusters));
            left.unavailable -= unavailable;
            clusters -= 1;
            let unavailable = unavailable.max(claim.short.min(own.unavailable.max(1)));
            let part = Part { unavailable, surge: surges[name] };
            parts.insert(name, (part != own).then_some(part));
        }
        parts
    }
}

/// How many more each may have. Whoever has more already comes first, and what it has is used until it is gone: nobody else may
/// have that too.
fn surges<'a>(own: &[(&'a str, Claim, Part)], mut left: i64) -> BTreeMap<&'a str, i64> {
    let mut by_use: Vec<_> = own.iter().collect();
    by_use.sort_by_key(|(_, claim, _)| Reverse(claim.more));
    let clusters = (1..=i64::try_from(own.len()).unwrap_or(i64::MAX)).rev();
    let surge = |((name, claim, own), clusters): (&(&'a str, Claim, Part), i64)| {
        let surge = own.surge.min(fair(left, clusters));
        left = (left - surge.max(claim.more)).max(0);
        (*name, surge)
    };
    by_use.into_iter().zip(clusters).map(surge).collect()
}

/// The part of one of so many, rounded up.
fn fair(left: i64, clusters: i64) -> i64 {
    (left + clusters - 1) / clusters.max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(budget: (Amount, Amount), replicas: i64, shares: &[i64], missing: i64, expected: &str) {
        let claims: Vec<Claim> =
            shares.iter().map(|share| Claim { share: *share, ..Claim::default() }).collect();
        check_used(budget, replicas, &claims, Used { missing, added: 0 }, expected);
    }

    fn check_used(budget: (Amount, Amount), replicas: i64, claims: &[Claim], used: Used, expected: &str) {
        let names = ["a", "b", "c", "d"];
        let updating = names.into_iter().zip(claims.iter().copied()).collect();
        let budget = Budget { max_unavailable: budget.0, max_surge: budget.1 };
        let parts: Vec<String> = budget
            .parts(replicas, &updating, used)
            .into_iter()
            .map(|(name, part)| match part {
                None => format!("{name} as said"),
                Some(part) => format!("{name} -{} +{}", part.unavailable, part.surge),
            })
            .collect();
        assert_eq!(parts.join(", "), expected);
    }

    #[test]
    fn the_users_own_words_do_where_they_fit() {
        use Amount::{Count, Percent};
        let quarter = (Percent(25), Percent(25));
        check(quarter, 50, &[17], 0, "a as said");
        check(quarter, 50, &[17, 17], 0, "a as said, b as said");
        // Three times five would be more than thirteen.
        check(quarter, 50, &[17, 17, 16], 0, "a as said, b -4 +4, c as said");
        check((Count(2), Count(0)), 50, &[17, 17], 0, "a -1 +0, b -1 +0");
        check((Count(2), Count(0)), 50, &[17], 1, "a -1 +0");
        check((Count(2), Count(0)), 50, &[17], 2, "a -0 +0");
        check((Count(0), Count(1)), 50, &[17, 17], 0, "a as said, b -0 +0");
    }

    #[test]
    fn what_is_short_is_replaced_for_nothing_and_what_moves_added_is_used() {
        use Amount::Count;
        let short = |share, short| Claim { share, short, more: 0 };
        let used = |missing, added| Used { missing, added };
        check_used((Count(1), Count(0)), 9, &[short(3, 3)], used(6, 0), "a as said");
        check_used((Count(2), Count(0)), 9, &[short(3, 1)], used(6, 0), "a -1 +0");
        check_used((Count(2), Count(0)), 9, &[short(3, 0)], used(6, 0), "a -0 +0");
        check_used((Count(2), Count(0)), 9, &[short(3, 3), short(3, 0)], used(3, 0), "a as said, b -0 +0");
        check_used((Count(3), Count(3)), 12, &[short(12, 0)], used(0, 0), "a as said");
        check_used((Count(3), Count(3)), 12, &[short(12, 0)], used(0, 3), "a -3 +0");
        check_used((Count(0), Count(3)), 12, &[short(12, 2)], used(0, 3), "a -1 +0");
        // What another has more already is not given away a second time.
        let more = |share, more| Claim { share, short: 0, more };
        check_used((Count(0), Count(3)), 12, &[more(6, 0), more(6, 2)], used(0, 0), "a -0 +1, b -0 +2");
        check_used((Count(0), Count(3)), 12, &[more(6, 0), more(6, 3)], used(0, 0), "a -0 +0, b -0 +2");
    }

    fn amount() -> impl Strategy<Value = Amount> {
        prop_oneof![(0i64..20).prop_map(Amount::Count), (0i64..101).prop_map(Amount::Percent)]
    }

    proptest! {
        #[test]
        fn the_parts_never_exceed_the_whole(
            unavailable in amount(), surge in amount(),
            claims in prop::collection::vec((0i64..50, 0i64..50, 0i64..10), 1..5),
            missing in 0i64..10, added in 0i64..10,
        ) {
            let budget = Budget { max_unavailable: unavailable, max_surge: surge };
            let replicas: i64 = claims.iter().map(|(share, ..)| share).sum();
            let all = budget.of(replicas);
            let claims = claims.into_iter();
            let claims = claims.map(|(share, short, more)| Claim { share, short: short.min(share), more });
            let updating: BTreeMap<&str, Claim> = ["a", "b", "c", "d"].into_iter().zip(claims).collect();
            let parts = budget.parts(replicas, &updating, Used { missing, added });
            let part = |name: &str, claim: &Claim| parts[name].unwrap_or_else(|| budget.of(claim.share));
            let surge: i64 = updating.iter().map(|(name, claim)| part(name, claim).surge).sum();
            prop_assert!(surge <= (all.surge - added).max(0));
            // Whoever has more already gives that up in its own time: nobody else is let have it meanwhile.
            let more = |(name, claim): (&&str, &Claim)| part(name, claim).surge.max(claim.more);
            let kept: i64 = updating.values().map(|claim| claim.more).sum();
            let crest: i64 = updating.iter().map(more).sum();
            prop_assert!(crest <= (all.surge - added).max(0).max(kept));
            // What is not available anyway is in no count.
            let costs = |(name, claim): (&&str, &Claim)| (part(name, claim).unavailable - claim.short).max(0);
            let unavailable: i64 = updating.iter().map(costs).sum();
            prop_assert!(unavailable <= (all.unavailable - missing).max(0));
            for (name, claim) in updating.iter().filter(|(_, claim)| claim.short > 0) {
                prop_assert!(!part(name, claim).is_nothing(), "{name} is short and waits");
            }
        }
    }
}
