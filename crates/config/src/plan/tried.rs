//! What was written to one object of a member before, so that nobody writes the same thing for ever.

use std::time::Duration;

use koinon_control::attempts::{Attempts, Backoff};

use crate::model::Carried;

/// Somebody may really want to see it changed back now and then; more often is a fight.
const REPAIRS_AT_ONCE: u32 = 3;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
/// After so long, what was tried says nothing any more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// Two writers that meet now and then are no news.
const QUIET_CONFLICTS: u32 = 3;

/// What came of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was taken; the object then had this version. A deletion has none.
    Done {
        resource_version: Option<String>,
    },
    /// The object was not the one that had been looked at.
    Conflict,
    Failed(String),
}

/// The last write to one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// What it should have become; nothing for a deletion.
    pub wanted: Option<Carried>,
    pub outcome: Outcome,
    /// How often in a row the same was tried.
    pub attempts: Attempts,
}

/// Whether a write is due.
#[derive(Debug, PartialEq)]
pub(super) enum Gate {
    Go,
    /// Not before this time; what is wrong meanwhile, if it is worth telling.
    Wait(Duration, Option<String>),
    /// Writing again would change nothing.
    Stuck(String),
}

impl Tried {
    /// What is remembered after one more write.
    pub fn after(before: Option<&Tried>, wanted: Option<Carried>, outcome: Outcome, at: Duration) -> Tried {
        let same = before.filter(|before| before.wanted == wanted).map(|before| before.attempts);
        Tried { wanted, outcome, attempts: Attempts::after(same, at, FORGOTTEN_AFTER) }
    }

    /// Whether it is too long ago to matter.
    pub fn is_forgotten(&self, now: Duration) -> bool {
        self.attempts.is_forgotten(now, FORGOTTEN_AFTER)
    }

    /// Whether to write `wanted` to the object that now has `resource_version`.
    pub(super) fn gate(&self, now: Duration, wanted: Option<&Carried>, resource_version: &str) -> Gate {
        if self.wanted.as_ref() != wanted || self.is_forgotten(now) {
            return Gate::Go;
        }
        let count = self.attempts.count;
        let (free, why) = match &self.outcome {
            Outcome::Done { resource_version: Some(ours) } if ours == resource_version => {
                return Gate::Stuck(
                    "it is not kept as it was written; is the definition of its kind another one there?"
                        .into(),
                );
            }
            Outcome::Done { .. } => (
                REPAIRS_AT_ONCE - 1,
                Some(format!("something else changes it there; it was put right {count} times")),
            ),
            Outcome::Conflict => {
                let why = "something else changes it there at the same time";
                (0, (count > QUIET_CONFLICTS).then(|| why.to_owned()))
            }
            Outcome::Failed(why) => (0, Some(why.clone())),
        };
        let due = self.attempts.due(free, BACKOFF);
        if now >= due { Gate::Go } else { Gate::Wait(due, why) }
    }

    /// What is wrong, for as long as the object is not as it should be.
    pub(super) fn complaint(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Failed(why) => Some(why),
            Outcome::Done { .. } | Outcome::Conflict => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(outcome: Outcome, count: u32) -> Tried {
        Tried { wanted: None, outcome, attempts: Attempts { count, last: Duration::from_secs(100) } }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn failures_wait_ever_longer_and_say_why() {
        let failed = |count| tried(Outcome::Failed("no".into()), count);
        assert_eq!(
            failed(1).gate(at(100), None, "1"),
            Gate::Wait(Duration::from_millis(100_500), Some("no".into()))
        );
        assert_eq!(failed(3).gate(at(100), None, "1"), Gate::Wait(at(102), Some("no".into())));
        assert_eq!(failed(60).gate(at(100), None, "1"), Gate::Wait(at(130), Some("no".into())));
        assert_eq!(failed(3).gate(at(102), None, "1"), Gate::Go);
        assert_eq!(failed(3).gate(at(100), Some(&Carried::default()), "1"), Gate::Go);
    }

    #[test]
    fn what_the_server_alters_is_not_written_again() {
        let done = tried(Outcome::Done { resource_version: Some("7".into()) }, 1);
        assert!(matches!(done.gate(at(101), None, "7"), Gate::Stuck(_)));
        assert_eq!(done.gate(at(101), None, "8"), Gate::Go);
        assert_eq!(done.gate(at(701), None, "7"), Gate::Go);
    }

    #[test]
    fn a_fight_is_slowed_down() {
        let done = |count| tried(Outcome::Done { resource_version: Some("7".into()) }, count);
        assert_eq!(done(2).gate(at(100), None, "8"), Gate::Go);
        assert!(matches!(done(3).gate(at(100), None, "8"), Gate::Wait(_, Some(_))));
        assert!(matches!(done(40).gate(at(129), None, "8"), Gate::Wait(_, Some(_))));
        assert_eq!(done(40).gate(at(130), None, "8"), Gate::Go);
    }

    #[test]
    fn only_the_same_wish_counts_on() {
        let first = Tried::after(None, None, Outcome::Conflict, at(1));
        let second = Tried::after(Some(&first), None, Outcome::Conflict, at(2));
        assert_eq!(second.attempts.count, 2);
        assert_eq!(
            Tried::after(Some(&second), Some(Carried::default()), Outcome::Conflict, at(3)).attempts.count,
            1
        );
        assert_eq!(Tried::after(Some(&second), None, Outcome::Conflict, at(700)).attempts.count, 1);
    }
}
