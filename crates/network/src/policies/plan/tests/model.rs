//! Every order of everything that can happen to one policy in three members, as long as users do two things: each
//! leader hears of each other ledger early or late, acts, or dies halfway. A member may leave, be given up by the others,
//! and return; and users may write on a policy that it is a revision that nobody made.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::world::{Membership, NAMES, Site, Until, World, hash, id};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Moment {
    world: World,
    /// Things that users still may do.
    left: u8,
    /// Leaders that still may die halfway.
    crashes: u8,
    /// How often the last member still may leave.
    departures: u8,
    /// Whether users forge revisions.
    forging: bool,
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
enum UserChange {
    Create,
    Edit,
    Remove,
    Leave,
    /// As a revision of this number, of a member counted from here.
    Forge(u64, usize),
}

const CHANGES: [UserChange; 7] = [
    UserChange::Create,
    UserChange::Edit,
    UserChange::Remove,
    UserChange::Leave,
    UserChange::Forge(FORGED, 0),
    UserChange::Forge(FORGED, 1),
    UserChange::Forge(2, 1),
];

/// More than anybody can count to here.
const FORGED: u64 = 9;
/// The member that leaves and returns.
const LEAVER: usize = 2;

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
    fn changes(&self, at_rest: bool) -> Vec<Moment> {
        let mut next = self.comings_and_goings();
        if self.left == 0 {
            return next;
        }
        for me in 0..3 {
            let policy = self.world.sites[me].policy.clone();
            let is_member = self.world.sites[me].membership == Membership::In;
            for change in CHANGES {
                let mut then = self.clone();
                let says = 10 * (me as u8 + 1) + self.left;
                match (change, policy.as_ref().map(|policy| policy.federated)) {
                    (UserChange::Create, None) => then.world.create(me, says),
                    (UserChange::Edit, Some(true)) => then.world.edit(me, says),
                    (UserChange::Remove, Some(true)) => then.world.remove(me),
                    (UserChange::Leave, Some(true)) => then.world.leave(me),
                    (UserChange::Forge(rev, step), None | Some(true)) if self.forging => {
                        then.world.forge(me, says, rev, (me + step) % 3);
                    }
                    _ => continue,
                }
                then.left -= 1;
                let removes = matches!(change, UserChange::Remove | UserChange::Leave);
                // In a cluster that is no member that is nobody's removal, unless nobody else had it.
                then.removed |= removes && (is_member || !(0..3).any(|other| then.world.holds(other)));
                // Who leaves before anybody wrote it down has not removed it.
                let stays = is_member && (me != LEAVER || self.departures == 0);
                then.cleanly = removes && at_rest && stays && self.away_with_a_copy_at_most();
                next.push(then);
            }
        }
        next
    }

    /// The last member leaves, is given up, or returns.
    fn comings_and_goings(&self) -> Vec<Moment> {
        let with = |change: fn(&mut World, usize)| {
            let mut then = self.clone();
            change(&mut then.world, LEAVER);
            then
        };
        match self.world.sites[LEAVER].membership {
            Membership::In if self.departures > 0 => {
                vec![Moment { departures: self.departures - 1, ..with(World::depart) }]
            }
            Membership::In | Membership::Returning => Vec::new(),
            Membership::Out { given_up: false } => vec![with(World::give_up), with(World::come_back)],
            Membership::Out { given_up: true } => vec![with(World::come_back)],
        }
    }

    /// Whether a cluster that is no member, or can still leave, has nothing that is its users' own to bring along.
    fn away_with_a_copy_at_most(&self) -> bool {
        let site = &self.world.sites[LEAVER];
        let stamp = |says| {
            site.policy
                .as_ref()
                .and_then(|policy| policy.stamp.as_ref())
                .filter(|stamp| stamp.origin != id(NAMES[LEAVER]) && stamp.content == Some(hash(says)))
        };
        match &site.policy {
            Some(policy) if site.membership != Membership::In || self.departures > 0 => {
                stamp(policy.says).is_some()
            }
            _ => true,
        }
    }

    /// No ledger ever has what nobody made: each content comes from where it was made, and no revision is skipped.
    fn check(&self) {
        for entry in self.world.sites.iter().filter_map(|site| site.entry.as_ref()) {
            let version = &entry.version;
            assert!(version.rev < FORGED, "{:#?}", self.world);
            // A copy that nobody came to write down, of what its author took along, is its cluster's own.
            if !self.forging {
                continue;
            }
            let author = (10..40u8).find(|says| version.content == Some(hash(*says)));
            if let Some(author) = author.map(|says| NAMES[usize::from(says / 10 - 1)]) {
                assert_eq!(version.origin, id(author), "{:#?}", self.world);
            }
        }
    }

    fn check_end(&self) {
        assert!(
            self.world.sites.iter().all(|site| site.membership != Membership::Returning),
            "it is never put right: {:#?}",
            self.world
        );
        let shows = self.world.shows();
        let federated: Vec<_> = self
            .world
            .sites
            .iter()
            .filter(|site| site.membership == Membership::In)
            .filter_map(|site| {
                site.policy.as_ref().filter(|policy| policy.federated).map(|policy| policy.says)
            })
            .collect();
        let members = self.world.sites.iter().filter(|site| site.membership == Membership::In);
        let plain = members.clone().flat_map(|site| &site.policy).filter(|policy| !policy.federated).count();
        let agree = federated.windows(2).all(|pair| pair[0] == pair[1])
            && (federated.is_empty() || federated.len() + plain == members.clone().count());
        assert!(agree, "they do not agree: {shows}");
        // Who is away may have the only one, and bring it along.
        let all_here = members.clone().count() == NAMES.len();
        assert!(self.removed || !all_here || !federated.is_empty(), "it was lost: {shows} {:#?}", self.world);
        assert!(!self.cleanly || federated.is_empty(), "it came back: {shows} {:#?}", self.world);
        let is_awaited = |site: &Site| site.membership == Membership::Out { given_up: false };
        let awaited = self.world.sites.iter().any(is_awaited);
        for site in members {
            let live = site.entry.as_ref().is_some_and(|entry| entry.version.is_live());
            let is_over = awaited || site.entry.is_some() == live;
            assert!(is_over, "what is over is forgotten: {:#?}", self.world);
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
        moment.check();
        ways.insert(moment.digest(), next.iter().map(Moment::digest).collect());
        let changes = moment.changes(next.is_empty());
        for then in next.into_iter().chain(changes) {
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
fn check(world: World, changes: u8, crashes: u8, hearing: &'static [&'static [usize]]) {
    check_from(start(world, changes, crashes, hearing));
}

fn start(world: World, changes: u8, crashes: u8, hearing: &'static [&'static [usize]]) -> Moment {
    // Without a policy nothing can be lost.
    let removed = world.sites.iter().all(|site| site.policy.is_none());
    Moment { world, left: changes, crashes, departures: 0, forging: false, hearing, removed, cleanly: false }
}

#[track_caller]
fn check_from(start: Moment) {
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

#[test]
fn a_member_leaves_and_returns_while_two_things_are_done() {
    check_from(Moment { departures: 1, ..start(everywhere(), 2, 0, TOGETHER) });
}

#[test]
fn a_policy_of_a_member_that_leaves_and_returns() {
    let mut world = World::new();
    world.create(LEAVER, 1);
    world.settle();
    check_from(Moment { departures: 1, ..start(world, 1, 0, TOGETHER) });
}

#[test]
fn users_forge_revisions() {
    check_from(Moment { forging: true, ..start(World::new(), 2, 0, TOGETHER) });
    check_from(Moment { forging: true, ..start(everywhere(), 2, 0, TOGETHER) });
    check_from(Moment { forging: true, ..start(everywhere(), 1, 1, APART) });
}

#[test]
fn users_forge_revisions_where_a_member_leaves_and_returns() {
    check_from(Moment { forging: true, departures: 1, ..start(everywhere(), 1, 0, TOGETHER) });
}
