//! The sync of one CRD: two watches, two lanes of work, and a gate for deletions.
//!
//! ```text
//! upstream ──watch──► side ─┐                    ┌─ down lane ─► (gate) ─► copies
//!                           ├─ key ─► plan ──────┤
//! downstream ─watch─► side ─┘                    └─ up lane ───────────► status
//! ```

mod down;
mod gatekeeper;
mod hearing;
mod up;

use std::sync::Arc;
use std::time::Duration;

use koinon_control::Key;
use koinon_control::call;
use koinon_control::queue::{Next, work};
use tokio::sync::{Notify, watch};

use self::hearing::Hearing;
use crate::access::Access;
use crate::board::Link;
use crate::end::End;
use crate::follow::follow;
use crate::gate::Gate;
use crate::lane::{Direction, Lane};
use crate::metrics::Metrics;
use crate::origin::Memory;
use crate::plan::Rules;
use crate::record::{Record, Wire};
use crate::report::Reporter;
use crate::side::Name;

/// Refusals are told once they are no accident.
const TELL_AFTER: u32 = 3;

/// The sync of one CRD.
pub(crate) struct Pipeline {
    pub(crate) crd: String,
    pub(crate) rules: Rules,
    pub(crate) up: End,
    pub(crate) down: End,
    pub(crate) up_link: Arc<Link>,
    pub(crate) down_link: Arc<Link>,
    pub(crate) lanes: [Lane; 2],
    pub(crate) gate: Gate,
    /// What is remembered of the upstream side.
    pub(crate) memory: Arc<Memory>,
    /// Where the CRD is whose annotations count.
    pub(crate) robot: Access,
    /// How many held deletions a human confirmed.
    pub(crate) confirmed: watch::Receiver<Option<usize>>,
    pub(crate) options: Options,
    pub(crate) reporter: Reporter,
    pub(crate) metrics: Metrics,
    pub(crate) ready: watch::Sender<bool>,
    /// One side no longer serves what was agreed on.
    pub(crate) lost: Notify,
    /// One side may serve something else than what was agreed on.
    pub(crate) doubt: Notify,
}

/// How one CRD is synced, beyond what it says itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) resync: Duration,
    /// Of a hundred copies, so many may go at once.
    pub(crate) max_delete: u8,
    /// Writes at a time, in each direction.
    pub(crate) writes: usize,
}

impl Pipeline {
    /// Keeps the objects of the CRD in step until one side no longer serves what was agreed on.
    pub(crate) async fn run(&self) {
        let [down, up] = &self.lanes;
        let limit = self.options.writes;
        tokio::select! {
            biased;
            never = follow(self.up.source(self.options.resync), Hearing::of(self, &self.up, &self.up_link)) => match never {},
            never = follow(self.down.source(self.options.resync), Hearing::of(self, &self.down, &self.down_link)) => match never {},
            never = work(&down.queue, limit, |key| self.work_down(key)) => match never {},
            never = work(&up.queue, limit, |key| self.work_up(key)) => match never {},
            never = self.keep_gate() => match never {},
            never = self.keep_memory() => match never {},
            () = self.lost.notified() => {}
        }
    }

    pub(crate) fn lane(&self, direction: Direction) -> &Lane {
        match direction {
            Direction::Down => &self.lanes[0],
            Direction::Up => &self.lanes[1],
        }
    }

    /// What came from one side, sharing what it has in common with the other.
    fn shared(&self, end: &End, item: Wire) -> (Name, Record) {
        let (key, mut record) = item.keep();
        let other = if std::ptr::eq(end, &self.up) { &self.down } else { &self.up };
        let name = match other.side.kept(&key) {
            Some((name, counterpart)) => {
                record.share_with(&counterpart);
                name
            }
            None => key.into(),
        };
        (name, record)
    }

    fn look_at(&self, keys: impl IntoIterator<Item = Name>) {
        if !*self.ready.borrow() {
            return;
        }
        for key in keys {
            self.lanes.iter().for_each(|lane| lane.add(key.clone()));
        }
    }

    /// Counts a write.
    fn count(&self, direction: Direction, verb: &'static str, key: &Key, error: Option<&call::Error>) {
        let outcome = match error {
            None => "ok".into(),
            Some(call::Error::NoAnswer(_)) => "timeout".into(),
            Some(call::Error::Refused(status)) => status.code.to_string(),
            Some(call::Error::Failed(_)) => "unreachable".into(),
        };
        self.metrics.wrote(&self.crd, direction, verb, outcome);
        if error.is_none() {
            self.metrics.waited(direction, self.lane(direction).waited(key).as_secs_f64());
        }
    }

    /// A write failed: finds out whether we were behind, and tells if it keeps failing.
    async fn recover(&self, direction: Direction, key: &Name, what: &str, error: call::Error) -> Next {
        let (lane, end) = match direction {
            Direction::Down => (self.lane(direction), &self.down),
            Direction::Up => (self.lane(direction), &self.up),
        };
        let attempts = lane.queue.attempts(key);
        lane.failed(key, error.to_string());
        tracing::debug!(crd = self.crd, %key, what, attempts, %error, "a write failed");
        // Where a status is no subresource any more, a server says that the object is not there.
        if direction == Direction::Up && end.status && error.code() == Some(404) {
            self.doubt.notify_one();
        }
        // A patch that does not fit may be refused as invalid before its version is looked at.
        if matches!(error.code(), Some(404 | 409 | 422))
            && let Ok(Some(changed)) = end.refresh(key).await
        {
            self.look_at([changed]);
            // A watch that is behind again and again is no watch.
            if attempts >= TELL_AFTER {
                end.kick.notify_one();
            }
        }
        let told = if error.is_conflict() { 3 * TELL_AFTER } else { TELL_AFTER };
        if error.code().is_some_and(|code| code != 401) && attempts >= told && attempts.is_power_of_two() {
            self.reporter
                .warn("WriteRefused", format!("{key}: {what} in the {} was refused: {error}", end.place));
        }
        Next::Retry
    }
}
