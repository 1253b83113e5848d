//! Copies: made, changed and deleted.

use koinon_control::Key;
use koinon_control::call;
use koinon_control::queue::Next;
use serde_json::Value;

use super::Pipeline;
use crate::drift::Verdict;
use crate::end::{Deleted, Part};
use crate::gate::Pass;
use crate::lane::Direction;
use crate::origin::make_namespace;
use crate::plan::{self, Down, Idle, Known, Object, Seen};
use crate::record::Record;
use crate::side::Name;

impl Pipeline {
    pub(super) async fn work_down(&self, key: Name) -> Next {
        let lane = self.lane(Direction::Down);
        let (above, below) = (self.up.side.look(&key), self.down.side.look(&key));
        let (original, copy) =
            (above.record().map(|record| record.open()), below.record().map(|record| record.open()));
        let from = above.record().map_or(0, |record| record.print_of_spec());
        let now = below.record().map_or(0, |record| record.print_of_spec());
        let known = Known { settled: lane.drift.is_settled(&key, from, now), reported: false };
        let decided = plan::down(
            &self.rules,
            super::up::seen(&above, &original),
            super::up::seen(&below, &copy),
            known,
        );
        if !matches!(decided, Down::Delete { .. }) {
            self.gate.withdraw(&key);
        }
        match decided {
            Down::Nothing(Idle::NameTaken) => {
                self.tell_taken(&key);
                lane.done(&key)
            }
            Down::Nothing(_) => {
                self.reporter.fine("NameTaken", &key);
                lane.done(&key)
            }
            Down::Create(object) => match self.judged(&key, from, 0) {
                Some(next) => next,
                None => self.create(&key, original.as_ref(), from, object).await,
            },
            Down::Update { patch, .. } => match self.judged(&key, from, now) {
                Some(next) => next,
                None => {
                    let answer = self.down.patch(&key, Part::Main, &patch).await;
                    self.count(Direction::Down, "update", &key, answer.as_ref().err());
                    match answer {
                        Ok(record) => self.written(&key, original.as_ref(), from, record),
                        Err(error) => self.recover(Direction::Down, &key, "an update", error).await,
                    }
                }
            },
            Down::Delete { uid, .. } => match self.gate.ask(&key, &uid) {
                Pass::Granted => match copy {
                    Some(copy) => self.delete(&key, &copy).await,
                    None => lane.done(&key),
                },
                // The gate brings it back.
                Pass::Later => Next::Done,
            },
        }
    }

    /// What to do instead of a write, if anything.
    fn judged(&self, key: &Key, from: u64, now: u64) -> Option<Next> {
        let lane = self.lane(Direction::Down);
        match lane.drift.judge(key, from, now) {
            Verdict::Write => None,
            Verdict::Settled => Some(lane.done(key)),
            Verdict::Wait(left) => Some(Next::After(left)),
        }
    }

    async fn create(&self, key: &Name, original: Option<&Object>, from: u64, object: Value) -> Next {
        let mut answer = self.down.create(key, object.clone()).await;
        if answer.as_ref().is_err_and(|error| is_namespace_missing(error, key)) {
            match make_namespace(&self.down.access, &key.namespace).await {
                Ok(()) => answer = self.down.create(key, object).await,
                Err(error) => {
                    return self.recover(Direction::Down, key, "the namespace that it needs", error).await;
                }
            }
        }
        self.count(Direction::Down, "create", key, answer.as_ref().err());
        match answer {
            Ok(record) => self.written(key, original, from, record),
            Err(error) => {
                let exists = error.is_conflict();
                let next = self.recover(Direction::Down, key, "a new copy", error).await;
                // It is there, but not among those that we may look at.
                let attempts = self.lane(Direction::Down).queue.attempts(key);
                if exists && attempts >= super::TELL_AFTER && self.down.side.look(key).record().is_none() {
                    self.tell_taken(key);
                }
                next
            }
        }
    }

    fn written(&self, key: &Name, original: Option<&Object>, from: u64, mut record: Record) -> Next {
        let lane = self.lane(Direction::Down);
        self.reporter.fine("NameTaken", key);
        let copy = record.open();
        let shaped = original.is_some_and(|original| {
            let again = plan::down(&self.rules, Seen::Known(original), Seen::Known(&copy), Known::default());
            matches!(again, Down::Update { .. })
        });
        if let Some(times) = lane.drift.note(key, from, record.print_of_spec(), shaped) {
            let place = self.down.place;
            self.reporter.warn(
                "CopyContested",
                format!("{key}: somebody changed or deleted the copy in the {place} {times} times in a row; it belongs to its original"),
            );
        }
        if let Some((_, original)) = self.up.side.kept(key) {
            record.share_with(&original);
        }
        let changed = self.down.side.learn(key.clone(), record);
        lane.done(key);
        self.look_at(changed);
        Next::Done
    }

    async fn delete(&self, key: &Name, copy: &Object) -> Next {
        // The last look is past the watch: it may have stalled, or have shown another cluster's list for a while.
        let original = match self.up.peek(key).await {
            Ok((_, record)) => record.map(|record| record.open()),
            Err(error) => {
                return self.recover(Direction::Down, key, "a last look at the original", error).await;
            }
        };
        let last = plan::down(
            &self.rules,
            original.as_ref().map_or(Seen::Absent, Seen::Known),
            Seen::Known(copy),
            Known::default(),
        );
        let Down::Delete { uid, .. } = &last else {
            self.up.kick.notify_one();
            return Next::Retry;
        };
        let answer = self.down.delete(key, uid).await;
        self.count(Direction::Down, "delete", key, answer.as_ref().err());
        let changed = match answer {
            Ok(Deleted::Gone) => self.down.side.forget(key, uid),
            Ok(Deleted::Terminating(record)) => self.down.side.learn(key.clone(), record),
            Err(error) if error.is_object_absent() => self.down.side.forget(key, uid),
            Err(error) => return self.recover(Direction::Down, key, "a deletion", error).await,
        };
        self.gate.went(key);
        self.lane(Direction::Down).done(key);
        self.look_at(changed);
        Next::Done
    }

    /// Tells that a copy cannot be made.
    fn tell_taken(&self, key: &Name) {
        let place = self.down.place;
        let message =
            format!("the {place} has an object of this name that is not this robot's; it is left alone");
        self.reporter.trouble("NameTaken", key, &message);
    }
}

/// Whether a creation failed for want of a namespace.
fn is_namespace_missing(error: &call::Error, key: &Key) -> bool {
    let call::Error::Refused(status) = error else { return false };
    let about = status.details.as_ref();
    status.code == 404
        && !key.namespace.is_empty()
        && about.is_some_and(|details| details.kind == "namespaces" && details.name == key.namespace)
}
