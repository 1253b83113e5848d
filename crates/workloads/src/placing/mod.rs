//! How many replicas each member's object should ask for *now*, on the way to where the planner wants them.
//!
//! ```text
//! members as seen ─► candidates ─► planner ─► shares ─► moves ─► what each object asks for now
//! (and where the replicas were last)
//! ```
//!
//! - What a cluster has room for shows in what is stuck there: pods without a node, or that could not be created, for longer
//!   than the patience lasts (`stuck`).
//! - What a cluster *has* is what was last decided for it, as long as the workload is the same: replicas on their way are no
//!   reason to decide again (`candidates`).
//! - A move is made before it is broken: more there, within the surge, and less here only once that many are available
//!   (`moves`).
//!
//! It is a function of what is seen and of the time; it knows no client and no clock.

mod candidates;
mod moves;
mod stuck;
mod surge;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use koinon_api::placement::Placement;
use koinon_api::preferences::{ClusterPreference, Preferences, ScaleDown};

pub use moves::Held;
pub use stuck::{Stuck, Wait};
pub use surge::{BadSurge, Surge};

use crate::planner::{self, Candidate, MinimumCut, PROBES, Reason, Share};
use crate::rollout::{Counting, Reach};

/// So many refusals in a row, and a cluster's replicas go elsewhere.
pub const REFUSALS: u32 = 2;

/// What is to be placed.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// `namespace/name`.
    pub key: &'a str,
    /// Its `metadata.generation`.
    pub generation: i64,
    /// Its `spec.replicas`.
    pub replicas: i64,
    /// Where they should be.
    pub preferences: &'a Preferences,
    /// Who decides how many replicas a member has that has some already.
    pub counting: Counting,
    /// How many more there may be while some move.
    pub surge: Surge,
    /// How many more the user lets there be while pods are replaced, if any are: what moves then is part of those.
    pub cap: Option<i64>,
    /// For how long a pod may wait for a node before it counts as stuck.
    pub patience: Duration,
}

/// One member, as seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Whether what is seen can be relied on.
    pub reach: Reach,
    /// Its object. None means that it has none if it is online, else that nothing is known.
    pub local: Option<Local>,
    /// Its pods without a node.
    pub waiting: Vec<Wait>,
    /// How often in a row it refused what was written to it.
    pub refusals: u32,
    /// How much fits there, where that is known though nothing shows it at the moment.
    pub room: Option<i64>,
    /// While its pods are replaced by others: how many more than it is asked for it may run of its own accord.
    pub replaces: Option<i64>,
    /// Whether its replicas wait for it while it is offline.
    pub waited_for: bool,
    /// Whether nothing was heard of it since the role began.
    pub unheard: bool,
}

impl Member {
    /// Whether it has no part in what is decided.
    fn is_left_out(&self) -> bool {
        self.reach == Reach::Offline && !self.waited_for
    }

    fn is_waited_for(&self) -> bool {
        self.reach == Reach::Offline && self.waited_for
    }

    /// Whether it keeps exactly what it was last meant to have: nothing goes to it, and nothing leaves it. `settled` says that the user
    /// has asked for nothing else since.
    fn is_kept(&self, settled: bool) -> bool {
        self.is_waited_for()
            || (settled && self.unheard && self.reach == Reach::Unsure && self.local.is_none())
    }
}

/// A member's object in counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Local {
    /// What it asks for.
    pub spec_replicas: i64,
    /// Pods that there are.
    pub replicas: i64,
    /// Those that have been ready for long enough.
    pub available: i64,
    /// Since when pods could not even be created.
    pub failing_since: Option<Timestamp>,
    /// Whether its status speaks of its present spec.
    pub observed: bool,
}

/// Where the replicas go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placed {
    /// By cluster; those that are offline have none.
    pub clusters: BTreeMap<String, Spot>,
    /// Replicas that found no cluster.
    pub unplaced: i64,
    /// When time alone changes the answer.
    pub look_again: Option<Duration>,
}

/// One cluster's part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// What it should have in the end.
    pub share: Share,
    /// What its object should ask for now.
    pub now: i64,
    /// What is stuck there.
    pub stuck: Stuck,
    /// What keeps it from what it should have in the end.
    pub held: Option<Held>,
}

impl Spot {
    /// The share as it is now, on the way to the one in the end.
    pub fn share_now(&self) -> Share {
        let probes = self.share.overflow.min(PROBES).min(self.now);
        if self.now == self.share.spec_replicas() {
            return self.share.clone();
        }
        Share { replicas: self.now - probes, overflow: probes, reason: self.share.reason.clone() }
    }
}

/// Decides what each cluster should have in the end, and what its object should ask for now. `before` is where the replicas
/// were last.
pub fn place(
    now: Timestamp,
    wanted: &Wanted<'_>,
    members: &BTreeMap<String, Member>,
    before: Option<&Placement>,
) -> Placed {
    let settled = before.filter(|before| before.observed_generation == wanted.generation);
    let stuck: BTreeMap<&str, Stuck> = members
        .iter()
        .filter(|(_, member)| member.reach != Reach::Offline)
        .map(|(name, member)| (name.as_str(), Stuck::of(now, wanted.patience, member)))
        .collect();
    let candidates = candidates::candidates(members, &stuck, before, settled.is_some());
    let existing: i64 = candidates.values().map(|candidate| candidate.existing).sum();
    // More than wanted, and the user did not ask for less: a cluster came back with what it had. No order among clusters
    // is worth ending all of anybody's replicas for.
    let mut preferences = wanted.preferences.clone();
    if settled.is_some() && existing > wanted.replicas {
        preferences.scale_down = ScaleDown::Weighted;
    }
    let keeping = |settled: bool| {
        let mut preferences = preferences.clone();
        for (name, _) in members.iter().filter(|(_, member)| member.is_kept(settled)) {
            let exactly = candidates[name].existing;
            // Its weight is what it was: the others' shares and reasons stay what they are.
            let weight = preferences.for_cluster(name).map_or(0, |own| own.weight);
            let kept = ClusterPreference { min_replicas: exactly, max_replicas: Some(exactly), weight };
            preferences.clusters.insert(name.clone(), kept);
        }
        let workload =
            planner::Workload { key: wanted.key, replicas: wanted.replicas, preferences: &preferences };
        planner::plan(&workload, &candidates)
    };
    let mut plan = keeping(settled.is_some());
    // Who was not heard of is no reason to run less: the user may want it to have what others had.
    if plan.unplaced > 0 {
        plan = keeping(false);
    }
    let preferences = &preferences;
    plan.clusters.values_mut().for_each(wait_for_minimum);
    for (_, share) in plan.clusters.iter_mut().filter(|(name, _)| members[*name].is_waited_for()) {
        *share = Share { reason: Reason::Waits, overflow: 0, ..share.clone() };
    }
    for (name, share) in &mut plan.clusters {
        if members[name].refusals >= REFUSALS && wanted.replicas > 0 {
            ask_again(share, preferences.for_cluster(name));
        }
    }
    let available = |name: &String| members[name].local.map_or(0, |local| local.available);
    let found = plan.clusters.iter().all(|(name, share)| available(name) >= share.replicas);
    if !found {
        for (name, share) in &mut plan.clusters {
            let waiting = i64::try_from(members[name].waiting.len()).unwrap_or(i64::MAX);
            let missing = stuck.get(name.as_str()).map_or(0, |stuck| stuck.missing);
            wait_until_found(share, &candidates[name], waiting.saturating_add(missing));
        }
    }
    if wanted.counting == Counting::Member {
        return by_members(plan, &stuck, members);
    }
    let next = moves::next(wanted, &plan, members, &stuck, settled.is_some());
    let clusters = plan
        .clusters
        .into_iter()
        .zip(next)
        .map(|((name, share), (now, held))| {
            let stuck = stuck.get(name.as_str()).copied().unwrap_or_default();
            (name, Spot { share, now, stuck, held })
        })
        .collect();
    let look_again = members
        .values()
        .filter(|member| member.reach != Reach::Offline)
        .filter_map(|member| stuck::next_change(now, wanted.patience, member))
        .min();
    Placed { clusters, unplaced: plan.unplaced, look_again }
}

/// Nothing moves where members decide for themselves: whoever has nothing yet gets its share at once, and the others have what
/// they say.
fn by_members(
    plan: planner::Plan,
    stuck: &BTreeMap<&str, Stuck>,
    members: &BTreeMap<String, Member>,
) -> Placed {
    let spot = |(name, share): (String, Share)| {
        let share = match members[&name].local {
            Some(local) => Share { replicas: local.spec_replicas, overflow: 0, reason: Reason::Own },
            None => share,
        };
        let stuck = stuck.get(name.as_str()).copied().unwrap_or_default();
        let now = share.spec_replicas();
        (name, Spot { share, now, stuck, held: None })
    };
    let clusters = plan.clusters.into_iter().map(spot).collect();
    Placed { clusters, unplaced: 0, look_again: None }
}

/// A cluster without room for its minimum keeps a couple waiting, though others have its replicas: without them nothing would
/// show that there is no room, and it would be asked for all of them again and again.
fn wait_for_minimum(share: &mut Share) {
    if let Reason::Parts(parts) = &mut share.reason
        && parts.cut == Some(MinimumCut::Capacity)
    {
        share.overflow = share.overflow.max(parts.minimum_wanted - parts.minimum);
        parts.waiting = share.overflow;
    }
}

/// A cluster that refuses is asked for one at least: what it takes shows that it refuses no more, and nothing else would.
fn ask_again(share: &mut Share, preference: Option<&ClusterPreference>) {
    let most = preference.and_then(|preference| preference.max_replicas).unwrap_or(i64::MAX);
    if let Reason::Parts(parts) = &mut share.reason
        && share.overflow == 0
        && parts.weight > 0
        && share.replicas < most
    {
        share.overflow = 1;
        parts.waiting = 1;
    }
}

/// A cluster that gives up what found no room keeps a couple of those waiting until all are available elsewhere: two full
/// clusters would else forget that they are, and send them to each other for ever.
fn wait_until_found(share: &mut Share, candidate: &Candidate, waiting: i64) {
    let full = candidate.capacity.is_some_and(|room| share.replicas >= room);
    if let Reason::Parts(parts) = &mut share.reason
        && full
        && share.overflow == 0
        && parts.weight > 0
        && waiting > 0
    {
        share.overflow = waiting.min(PROBES);
        parts.waiting = share.overflow;
    }
}
