//! Make before break: more there within the surge, less here only once enough are available.

use std::collections::BTreeMap;

use super::{Member, Wanted};
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

/// A cluster that is on its way from what it asks for to what it should.
struct Seat {
    /// Whether what is seen of it can be relied on; else it is left as it is.
    certain: bool,
    target: i64,
    /// What only waits for room is no replica that anybody counts on.
    probes: i64,
    available: i64,
    /// Pods that there are, those that it was just asked to end included.
    pods: i64,
    /// More that may come of its own accord.
    surges: i64,
    /// Those that are surely not available; clusters end these first.
    idle: i64,
    waits: bool,
    next: i64,
}

impl Seat {
    fn new(share: &Share, member: &Member) -> Seat {
        let target = share.spec_replicas();
        let asked = member.local.map_or(0, |local| local.spec_replicas).max(0);
        // What was available before it was asked for less says nothing of what remains.
        let available = member.local.map_or(0, |local| local.available.clamp(0, asked));
        let certain = member.reach == Reach::Online;
        let observed = member.local.is_some_and(|local| local.observed);
        Seat {
            certain,
            target,
            probes: target - share.replicas,
            available: if certain { available } else { 0 },
            pods: member.local.map_or(0, |local| local.replicas),
            surges: member.replaces.unwrap_or(0),
            // Where pods are replaced, old and new ones go by turns, whichever of them is available.
            idle: if observed && member.replaces.is_none() { asked - available } else { 0 },
            waits: !member.waiting.is_empty(),
            next: asked,
        }
    }

    /// How many there may be of it before it has done what it is asked for.
    fn crest(&self) -> i64 {
        ((self.next + self.surges).max(self.pods) - self.probes).max(0)
    }
}

/// What each cluster's object should ask for now, and what keeps it from more or less, in the order of the plan. `settled` says that nobody asked for a
/// change: whatever moves is moved by us, and not to where pods wait already.
pub(super) fn next(
    wanted: &Wanted<'_>,
    plan: &Plan,
    members: &BTreeMap<String, Member>,
    settled: bool,
) -> Vec<(i64, Option<Held>)> {
    let total: i64 = plan.clusters.values().map(|share| share.replicas).sum();
    let mut seats: Vec<Seat> =
        plan.clusters.iter().map(|(name, share)| Seat::new(share, &members[name])).collect();
    shrink(&mut seats, total);
    let surge = wanted.surge.of(total).min(wanted.cap.unwrap_or(i64::MAX));
    let mut most = total + surge - seats.iter().map(Seat::crest).sum::<i64>();
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
            (seat.next > seat.target).then(|| Held::Staying(seat.next - seat.target))
        };
        (seat.next, held)
    };
    seats.into_iter().map(next).collect()
}

/// Takes away what is not available anyway, and of what is, no more than there are too many.
fn shrink(seats: &mut [Seat], total: i64) {
    let available: i64 = seats.iter().map(|seat| seat.available).sum();
    let mut spare = (available - total).max(0);
    for seat in seats.iter_mut().filter(|seat| seat.certain && seat.next > seat.target) {
        let too_many = seat.next - seat.target;
        let idle = too_many.min(seat.idle);
        let costly = (too_many - idle).min(spare);
        spare -= costly;
        seat.next -= idle + costly;
    }
}
