//! How an update of a federated Deployment passes over its clusters.
//!
//! ```text
//! members ─► member_state ─► turns ─► steps, record ─► status, shadows, placement
//! (view)     (of each)   (who may start)
//! ```
//!
//! Every member has a whole Deployment of its own, which rolls its pods by itself. What is decided here is which
//! template each member should have *now*: the new one goes to one cluster after another, in the order that the
//! user wrote, and the next one starts only when all of the last one runs. Counts follow the planner at any time.
//!
//! - What is known of the members may be stale. Who was started is therefore kept in a [`Record`] on the federated
//!   Deployment, written *before* the member is, with its resource version as precondition: two looks at the same stale
//!   view cannot start two clusters.
//! - A cluster is finished when its old pods are gone, and every new one is available or known to be stuck for want of
//!   room. Pods that found no node before the update do not hold it up; pods that crash do.
//! - A cluster that is offline is left alone and left out, and takes its turn when it returns.
//!
//! Everything is a function of `(now, desired, view)`. The shell that calls it reads members, writes the record, then the
//! steps, then status and shadows, and looks again when told.

mod check;
mod foresee;
mod homeless;
mod input;
mod member_state;
mod output;
mod placement;
mod shadows;
mod status;
mod turns;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

pub use check::{Violation, check};
pub use foresee::foresee;
pub use input::{
    Amount, Counting, Desired, Local, Member, Reach, Record, Said, Shadow, Started, Strategy, View,
};
pub use member_state::Unfinished;
pub use output::{Condition, Phase, Plan, ShadowWanted, Shadows, Status, Step, Template, WaitingOn, Warning};
pub use placement::placement;

use self::member_state::{Homes, MemberState, Supply, Totals};

/// Someone is being updated: even if no event comes, look again after this long.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Decides what every member should have now.
pub fn plan(now: Timestamp, desired: &Desired, view: &View) -> Plan {
    let totals = Totals { supply: supply(desired, view), homes: homes(desired, view) };
    let states: BTreeMap<&str, MemberState> = view
        .members
        .iter()
        .map(|(name, member)| {
            let started = view.record.clusters.get(name);
            (name.as_str(), MemberState::of(now, desired, member, started, totals))
        })
        .collect();
    let turns = turns::decide(desired, view, &states);
    let record = turns::record(now, desired, view, &states, &turns);
    let steps = turns::steps(desired, view, &states, &turns);
    let shadows = shadows::wanted(desired, view);
    let (status, deadline) = status::aggregate(now, desired, view, &states, &turns.waiting);
    let unknown = desired.order.unknown(|name| view.members.contains_key(name));
    Plan {
        look_again: look_again(now, desired, &record).into_iter().chain(deadline).min(),
        warnings: unknown.map(|name| Warning::UnknownInOrder { cluster: name.to_owned() }).collect(),
        started: turns.started.iter().map(|name| (*name).to_owned()).collect(),
        waiting: turns.waiting,
        record,
        steps,
        shadows,
        status,
    }
}

/// Whether all clusters together have what they should, whoever has it.
fn supply(desired: &Desired, view: &View) -> Supply {
    let there = view.members.values().filter(|member| member.reach == Reach::Online);
    let available: i64 = there.filter_map(|member| Some(member.local.as_ref()?.available)).sum();
    if available >= desired.replicas { Supply::Enough } else { Supply::Short }
}

/// Whether every replica has a cluster, whether or not it runs there yet.
fn homes(desired: &Desired, view: &View) -> Homes {
    let shares = view.members.values().filter_map(|member| member.share.as_ref());
    let placed: i64 = shares.map(|share| share.replicas).sum();
    if placed >= desired.replicas { Homes::Enough } else { Homes::Short }
}

/// Members tell when they make progress; time alone matters when one does not.
fn look_again(now: Timestamp, desired: &Desired, record: &Record) -> Option<Duration> {
    let until_deadline = |started: &Started| {
        let deadline = desired.progress_deadline?;
        let left = deadline.saturating_sub(member_state::elapsed(started.since, now));
        (!left.is_zero()).then_some(left)
    };
    record
        .clusters
        .values()
        .map(|started| until_deadline(started).map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN)))
        .min()
}
