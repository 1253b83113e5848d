//! Status, from copies to originals.

use koinon_control::queue::Next;

use super::Pipeline;
use crate::drift::Verdict;
use crate::end::Part;
use crate::lane::Direction;
use crate::plan::{self, Idle, Known, Object, Observed, Seen, Up};
use crate::record::Record;
use crate::side::{Look, Name};

impl Pipeline {
    pub(super) async fn work_up(&self, key: Name) -> Next {
        let lane = self.lane(Direction::Up);
        let (above, below) = (self.up.side.look(&key), self.down.side.look(&key));
        let (Some(upper), Some(lower)) = (above.record(), below.record()) else {
            self.reporter.fine("StatusUnfit", &key);
            return lane.done(&key);
        };
        let (original, copy) = (Some(upper.open()), Some(lower.open()));
        let spec = (upper.print_of_spec(), lower.print_of_spec());
        let known = Known {
            settled: self.lane(Direction::Down).drift.is_settled(&key, spec.0, spec.1),
            reported: self.down.side.is_cleared(&key, &lower.uid),
        };
        let (from, now) = (self.source_of_status(upper, lower), upper.print_of_status());
        let patch = match plan::up(&self.rules, seen(&above, &original), seen(&below, &copy), known) {
            Up::Status { patch, .. } => patch,
            Up::Nothing(why) => {
                match why {
                    Idle::Unfit(why) => {
                        let message = format!("its status has no keys to choose from ({why:?})");
                        self.reporter.trouble("StatusUnfit", &key, &message);
                    }
                    _ => self.reporter.fine("StatusUnfit", &key),
                }
                return lane.done(&key);
            }
        };
        self.reporter.fine("StatusUnfit", &key);
        match lane.drift.judge(&key, from, now) {
            Verdict::Write => {}
            Verdict::Settled => return lane.done(&key),
            Verdict::Wait(left) => return Next::After(left),
        }
        let answer = self.up.patch(&key, Part::Status, &patch).await;
        self.count(Direction::Up, "status", &key, answer.as_ref().err());
        let mut record = match answer {
            Ok(record) => record,
            Err(error) => return self.recover(Direction::Up, &key, "a status", error).await,
        };
        let written = Some(record.open());
        let again = plan::up(&self.rules, seen(&above, &written), seen(&below, &copy), known);
        let shaped = matches!(again, Up::Status { .. });
        // A write that left the status as it was: it may have become a subresource meanwhile.
        if !self.up.status && record.print_of_status() == now {
            self.doubt.notify_one();
        }
        if let Some(times) = lane.drift.note(&key, from, record.print_of_status(), shaped) {
            let place = self.up.place;
            self.reporter.warn(
                "StatusContested",
                format!("{key}: somebody else wrote its status in the {place} {times} times in a row; only one may own it"),
            );
        }
        record.share_with(lower);
        let changed = self.up.side.learn(key.clone(), record);
        lane.done(&key);
        self.look_at(changed);
        Next::Done
    }

    /// One number for everything that the original's status is made from.
    fn source_of_status(&self, upper: &Record, lower: &Record) -> u64 {
        let mut print = lower.print_of_status();
        if self.rules.observed == Observed::Translate {
            for generation in [upper.generation(), lower.generation()] {
                print =
                    print.rotate_left(21) ^ generation.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
        print
    }
}

/// What a decision may know of one side.
pub(super) fn seen<'a>(look: &Look, object: &'a Option<Object>) -> Seen<'a> {
    match (look, object) {
        (Look::Unknown, _) => Seen::Unknown,
        (_, Some(object)) => Seen::Known(object),
        (_, None) => Seen::Absent,
    }
}
