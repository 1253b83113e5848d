//! Make before break: more there within the surge, less here only once enough are available.

use std::collections::BTreeMap;
use std::fmt;

use super::{Member, Stuck, Wanted};
use crate::planner::{Plan, Share};
use crate::rollout::Reach;

/// What keeps a cluster from what it should have in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// So many stay until as many are available elsewhere.
    Staying(i64),
    /// So many come later: more would be too many at a time.
    Coming(i64),
    /// So many come once the pods that wait there for a node have found one.
    WaitingThere(i64),
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Held::Staying(count) => write!(f, "{count} more stay until others are available elsewhere"),
            Held::Coming(count) => {
                write!(f, "{count} of them come later, as more would be too many at a time")
            }
            Held::WaitingThere(count) => {
                write!(f, "{count} of them come once the pods that wait there have found a node")
            }
        }
    }
}

/// A cluster that is on its way from what it asks for to what it should.
struct Seat {
    /// Whether what is seen of it can be relied on; else it is left as it is.
    certain: bool,
    target: i64,
    /// What only waits for room is no replica that anybody counts on.
    probes: i64,
    available: i64,
    /// While its pods are replaced: how many more than it is asked for may come of its own accord.
    surges: Option<i64>,
    /// Pods that there are, those that it is asked to end included.
    pods: i64,
    /// Those that are surely not available; clusters end these first.
    idle: i64,
    waits: bool,
    next: i64,
}

impl Seat {
    fn new(share: &Share, member: &Member, stuck: Stuck) -> Seat {
        let target = share.spec_replicas();
        let asked = member.local.map_or(0, |local| local.spec_replicas).max(0);
        // What was available before it was asked for less says nothing of what remains.
        let available = member.local.map_or(0, |local| local.available.clamp(0, asked));
        let certain = member.reach == Reach::Online;
        let observed = member.local.is_some_and(|local| local.observed);
        let surges = member.replaces;
        let idle = match surges {
            // Where pods are replaced, old and new ones go by turns, whichever of them is available.
            Some(_) => stuck.all().min(asked - available),
            None if observed => asked - available,
            None => 0,
        };
        Seat {
            certain,
            target,
            probes: target - share.replicas,
            available: if certain { available } else { 0 },
            surges,
            pods: member.local.map_or(0, |local| local.replicas),
            idle,
            waits: !member.waiting.is_empty(),
            next: asked,
        }
    }

    /// What it asks for, but for what only waits.
    fn counted(&self) -> i64 {
        (self.next - self.probes).max(0)
    }

    /// How many there are before it has ended what it is asked to end, but for what only waits and what may come of its own accord.
    fn crest(&self) -> i64 {
        (self.next.max(self.pods - self.surges.unwrap_or(0)) - self.probes).max(0)
    }

    /// How many more it asks for than it should.
    fn too_many(&self) -> i64 {
        (self.next - self.target).max(0)
    }

    /// Whether it gives up pods while others of it are replaced.
    fn shrinks_replaced(&self) -> bool {
        self.certain && self.surges.is_some() && self.too_many() > 0
    }
}

/// What each cluster's object should ask for now, and what keeps it from more or less, in the order of the plan. `settled` says that nobody asked for a
/// change: whatever moves is moved by us, and not to where pods wait already.
pub(super) fn next(
    wanted: &Wanted<'_>,
    plan: &Plan,
    members: &BTreeMap<String, Member>,
    stuck: &BTreeMap<&str, Stuck>,
    settled: bool,
) -> Vec<(i64, Option<Held>)> {
    let total: i64 = plan.clusters.values().map(|share| share.replicas).sum();
    let seat = |(name, share): (&String, &Share)| {
        Seat::new(share, &members[name], stuck.get(name.as_str()).copied().unwrap_or_default())
    };
    let mut seats: Vec<Seat> = plan.clusters.iter().map(seat).collect();
    let surge = surge(wanted, &seats, total);
    shrink(&mut seats, total, surge);
    let crest: i64 = seats.iter().map(Seat::crest).sum();
    let mut most = total + surge - crest;
    let next = |mut seat: Seat| {
        let missing = (seat.target - seat.next).max(0);
        let held = if !seat.certain {
            None
        } else if missing > 0 && settled && seat.waits && seat.next > 0 {
            Some(Held::WaitingThere(missing))
        } else if missing > 0 {
            let free = (seat.probes - seat.next).clamp(0, missing);
            let more = missing.min(most.max(0) + free);
            most -= (more - free).max(0);
            seat.next += more;
            (more < missing).then_some(Held::Coming(missing - more))
        } else {
            (seat.too_many() > 0).then(|| Held::Staying(seat.too_many()))
        };
        (seat.next, held)
    };
    seats.into_iter().map(next).collect()
}

/// How many more there may be because some move. While pods are replaced, those that may come for that have a part of it, and
/// never more than all: what is missing somewhere comes whatever is going on.
fn surge(wanted: &Wanted<'_>, seats: &[Seat], total: i64) -> i64 {
    let surge = wanted.surge.of(total);
    let Some(cap) = wanted.cap else { return surge };
    let replaced: i64 = seats.iter().filter_map(|seat| seat.surges).sum();
    surge.min((cap - replaced).max(0))
}

/// Takes away what is not available anyway, then what nobody waits for, and of what is available no more than there are too many.
fn shrink(seats: &mut [Seat], total: i64, surge: i64) {
    let available: i64 = seats.iter().map(|seat| seat.available).sum();
    let mut spare = (available - total).max(0);
    for seat in seats.iter_mut().filter(|seat| seat.certain) {
        seat.next -= seat.too_many().min(seat.idle);
    }
    // To end as many as are not available costs as many as are, at worst, where pods are replaced. As long as others still have to
    // become available elsewhere these stand in for them, within the surge; beyond that the user wants fewer.
    let coming =
        |seat: &Seat| if seat.shrinks_replaced() { 0 } else { (seat.target - seat.available).max(0) };
    let coming: i64 = seats.iter().map(coming).sum();
    let mut needless = seats.iter().map(Seat::counted).sum::<i64>() - total - surge.min(coming);
    for seat in seats.iter_mut().filter(|seat| seat.shrinks_replaced()) {
        let gone = seat.too_many().min(seat.next - seat.available).min(needless).max(0);
        needless -= gone;
        spare -= gone;
        seat.next -= gone;
    }
    for seat in seats.iter_mut().filter(|seat| seat.certain) {
        let costly = seat.too_many().min(spare).max(0);
        spare -= costly;
        seat.next -= costly;
    }
}
