//! Every order of everything that can happen to one policy in three members, as long as users do two things: each
//! leader hears of each other ledger early or late, acts, or dies halfway.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::world::{NAMES, Until, World};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Moment {
    world: World,
    /// Things that users still may do.
    left: u8,
    /// Leaders that still may die halfway.
    crashes: u8,
    /// Of which others a leader may hear before it acts, counted from itself.
    hearing: &'static [&'static [usize]],
    /// What must be true at the end.
    removed: bool,
    /// The last thing that a user did was a removal, with everything at rest.
    cleanly: bool,
}

/// All or nothing, or each by itself.
const TOGETHER: &[&[usize]] = &[&[], &[1, 2]];
const APART: &[&[usize]] = &[&[], &[1], &[2], &[1, 2]];

#[derive(Clone, Copy, Debug)]
enum Deed {
    Create,
    Edit,
    Remove,
    Leave,
}

impl Moment {
    /// What can come next without users. To hear of something is of no consequence until the leader acts.
    fn next(&self) -> Vec<Moment> {
        let mut next = Vec::new();
        for me in 0..3 {
            for heard in self.hearing {
                let mut told = self.world.clone();
                for step in *heard {
                    told.hear(me, (me + step) % 3);
                }
                for until in [Until::End, Until::Object, Until::Intent] {
                    let crashes = self.crashes.checked_sub(u8::from(until != Until::End));
                    let Some(crashes) = crashes else { continue };
                    let mut world = told.clone();
                    if world.act(me, until) {
                        let then = Moment { world, crashes, ..self.clone() };
                        if !next.contains(&then) {
                            next.push(then);
                        }
                    }
                }
            }
        }
        next
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// What users can do.
    fn deeds(&self, at_rest: bool) -> Vec<Moment> {
        let mut next = Vec::new();
        if self.left == 0 {
            return next;
        }
        for me in 0..3 {
            let policy = self.world.sites[me].policy.clone();
            for deed in [Deed::Create, Deed::Edit, Deed::Remove, Deed::Leave] {
                let mut then = self.clone();
                let says = 10 * (me as u8 + 1) + self.left;
                match (deed, policy.as_ref().map(|policy| policy.federated)) {
                    (Deed::Create, None) => then.world.create(me, says),
                    (Deed::Edit, Some(true)) => then.world.edit(me, says),
                    (Deed::Remove, Some(true)) => then.world.remove(me),
                    (Deed::Leave, Some(true)) => then.world.leave(me),
                    _ => continue,
                }
                then.left -= 1;
                let removes = matches!(deed, Deed::Remove | Deed::Leave);
                then.removed |= removes;
                then.cleanly = removes && at_rest;
                next.push(then);
            }
        }
        next
    }

    fn check_end(&self) {
        let shows = self.world.shows();
        let federated: Vec<_> = self
            .world
            .sites
            .iter()
            .filter_map(|site| {
                site.policy.as_ref().filter(|policy| policy.federated).map(|policy| policy.says)
            })
            .collect();
        let plain =
            self.world.sites.iter().flat_map(|site| &site.policy).filter(|policy| !policy.federated).count();
        let agree = federated.windows(2).all(|pair| pair[0] == pair[1])
            && (federated.is_empty() || federated.len() + plain == NAMES.len());
        assert!(agree, "they do not agree: {shows}");
        assert!(self.removed || !federated.is_empty(), "it was lost: {shows}");
        assert!(!self.cleanly || federated.is_empty(), "it came back: {shows}");
        for site in &self.world.sites {
            let live = site.entry.as_ref().is_some_and(|entry| entry.version.is_live());
            assert_eq!(site.entry.is_some(), live, "what is over is forgotten: {:#?}", self.world);
            let here = site.policy.as_ref().is_some_and(|policy| policy.federated);
            assert_eq!(live, here, "{site:#?}");
        }
    }
}

/// Walks through everything that can come of a moment; gives how many moments there were, and how many ends.
fn explore(start: Moment) -> (usize, usize) {
    let mut seen: HashSet<u64> = HashSet::new();
    let mut ways: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut waiting = VecDeque::from([start.clone()]);
    let mut ends = 0;
    seen.insert(start.digest());
    while let Some(moment) = waiting.pop_front() {
        let next = moment.next();
        if next.is_empty() {
            ends += 1;
            moment.check_end();
        }
        ways.insert(moment.digest(), next.iter().map(Moment::digest).collect());
        let deeds = moment.deeds(next.is_empty());
        for then in next.into_iter().chain(deeds) {
            if seen.insert(then.digest()) {
                waiting.push_back(then);
            }
        }
    }
    check_ends(&ways);
    (seen.len(), ends)
}

/// Without users, every way has an end.
fn check_ends(ways: &HashMap<u64, Vec<u64>>) {
    let mut arrivals: HashMap<u64, usize> = HashMap::new();
    for to in ways.values().flatten() {
        *arrivals.entry(*to).or_default() += 1;
    }
    let mut open: Vec<u64> = ways.keys().filter(|from| !arrivals.contains_key(from)).copied().collect();
    let mut walked = 0;
    while let Some(from) = open.pop() {
        walked += 1;
        for to in &ways[&from] {
            let left = arrivals.get_mut(to).unwrap();
            *left -= 1;
            if *left == 0 {
                open.push(*to);
            }
        }
    }
    assert_eq!(walked, ways.len(), "leaders can go round in circles");
}

/// Everything that can come of a world.
#[track_caller]
fn check(world: World, deeds: u8, crashes: u8, hearing: &'static [&'static [usize]]) {
    // Without a policy nothing can be lost.
    let removed = world.sites.iter().all(|site| site.policy.is_none());
    let start = Moment { world, left: deeds, crashes, hearing, removed, cleanly: false };
    let (moments, ends) = explore(start);
    eprintln!("{moments} moments, {ends} ends");
    assert!(moments > 50 && ends > 1, "{moments} moments");
}

fn everywhere() -> World {
    let mut world = World::new();
    world.create(1, 1);
    world.settle();
    world
}

#[test]
fn nothing_then_two_deeds() {
    check(World::new(), 2, 0, TOGETHER);
}

#[test]
fn a_policy_everywhere_then_one_deed_and_crashes() {
    check(everywhere(), 1, 9, APART);
}

#[test]
fn a_policy_everywhere_then_two_deeds() {
    check(everywhere(), 2, 0, TOGETHER);
}

#[test]
fn nothing_then_two_deeds_and_a_crash() {
    check(World::new(), 2, 1, TOGETHER);
}

#[test]
fn a_policy_everywhere_then_two_deeds_and_a_crash() {
    check(everywhere(), 2, 1, TOGETHER);
}
