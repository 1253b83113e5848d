//! The health of a member, from the answers to its probes. Flapping is damped.

use std::time::Duration;

use koinon_api::membership::Phase;

/// A point in time, counted from some start; never the time of day, which may jump.
pub type Moment = Duration;

/// How patient to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds {
    pub probe_every: Duration,
    /// A member that fails for so long is offline.
    pub offline_after: Duration,
    /// An offline member that answers for so long is back.
    pub online_after: Duration,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            probe_every: Duration::from_secs(10),
            offline_after: Duration::from_secs(30),
            online_after: Duration::from_secs(10),
        }
    }
}

impl Thresholds {
    /// Between two probes of a member that answers: twice at least before silence would count.
    pub(crate) fn usual_pause(&self) -> Duration {
        self.probe_every.min(self.offline_after / 2)
    }
}

/// What one probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    Answered,
    /// No answer, or none that helps.
    Failed(String),
    /// Somebody else answered.
    Another(String),
}

/// How a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub phase: Phase,
    pub since: Moment,
    /// What is wrong, if anything is; also while that does not count yet.
    pub why: Option<String>,
    /// When it last answered, or, where it never did, when it was named.
    heard: Moment,
    /// Since when an unreachable one answers every probe.
    answers_since: Option<Moment>,
}

impl Health {
    /// A member that was just named.
    pub fn joining(now: Moment) -> Health {
        Health { phase: Phase::Joining, since: now, why: None, heard: now, answers_since: None }
    }

    /// The next state after a probe that ended at `now`.
    pub fn step(&self, now: Moment, probe: &Probe, thresholds: &Thresholds) -> Health {
        let why = match probe {
            Probe::Answered => None,
            Probe::Failed(why) | Probe::Another(why) => Some(why.clone()),
        };
        let heard = if *probe == Probe::Answered { now } else { self.heard };
        let stay = |answers_since| Health {
            phase: self.phase,
            since: self.since,
            why: why.clone(),
            heard,
            answers_since,
        };
        let become_ = |phase| Health { phase, since: now, why: why.clone(), heard, answers_since: None };
        let answers_since = self.answers_since.unwrap_or(now);
        match (self.phase, probe) {
            // Whoever answers there, the member does not.
            (Phase::Unreachable, Probe::Another(_) | Probe::Failed(_)) => stay(None),
            (_, Probe::Another(_)) => become_(Phase::Unreachable),
            (Phase::Joining, Probe::Answered) => become_(Phase::Reachable),
            (Phase::Reachable, Probe::Answered) => stay(None),
            (Phase::Unreachable, Probe::Answered)
                if now.saturating_sub(answers_since) >= thresholds.online_after =>
            {
                become_(Phase::Reachable)
            }
            (Phase::Unreachable, Probe::Answered) => Health {
                why: Some("it answers again, but not for long enough yet".into()),
                ..stay(Some(answers_since))
            },
            (Phase::Joining | Phase::Reachable, Probe::Failed(_)) if self.left(now, thresholds).is_zero() => {
                become_(Phase::Unreachable)
            }
            (Phase::Joining | Phase::Reachable, Probe::Failed(_)) => stay(None),
        }
    }

    /// How long it may still be silent before it is offline, counted from its last answer.
    fn left(&self, now: Moment, thresholds: &Thresholds) -> Duration {
        (self.heard + thresholds.offline_after).saturating_sub(now)
    }

    /// When to probe next: sooner while a decision is near, and twice at least before silence counts.
    pub fn next_probe(&self, now: Moment, thresholds: &Thresholds) -> Duration {
        let usual = thresholds.usual_pause();
        let left = match (self.phase, self.answers_since) {
            (Phase::Unreachable, None) => return thresholds.probe_every,
            (Phase::Unreachable, Some(since)) => (since + thresholds.online_after).saturating_sub(now),
            (Phase::Joining | Phase::Reachable, _) if self.why.is_some() => self.left(now, thresholds),
            (Phase::Joining | Phase::Reachable, _) => usual,
        };
        left.clamp(MIN_PAUSE.min(usual), usual)
    }

    /// How long a probe that begins now may wait for its answer, however long probes may take: when the time is up, what it
    /// would still say comes too late.
    pub fn patience(&self, now: Moment, thresholds: &Thresholds) -> Duration {
        match self.phase {
            Phase::Unreachable => Duration::MAX,
            Phase::Joining | Phase::Reachable => self.left(now, thresholds).max(MIN_PAUSE),
        }
    }
}

/// However near a decision is, a member is not asked without pause.
const MIN_PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THRESHOLDS: Thresholds = Thresholds {
        probe_every: Duration::from_secs(10),
        offline_after: Duration::from_secs(30),
        online_after: Duration::from_secs(10),
    };

    fn probe(letter: char) -> Probe {
        match letter {
            '+' => Probe::Answered,
            '-' => Probe::Failed("no answer".into()),
            _ => Probe::Another("another".into()),
        }
    }

    /// Probes every ten seconds; a letter for each phase after each.
    fn check(probes: &str, phases: &str) {
        let mut health = Health::joining(Duration::ZERO);
        let mut seen = String::new();
        for (index, letter) in probes.chars().enumerate() {
            health = health.step(Duration::from_secs(10 * index as u64), &probe(letter), &THRESHOLDS);
            seen.push(health.phase.as_str().chars().next().unwrap());
        }
        assert_eq!(seen, phases, "{probes}");
    }

    #[test]
    fn phases_follow_probes_with_patience() {
        check("+", "R");
        check("----", "JJJU");
        check("--+", "JJR");
        check("+---++", "RRRUUR");
        check("+-+--+--+", "RRRRRRRRR");
        check("+----+-+-++", "RRRUUUUUUUR");
    }

    #[test]
    fn another_cluster_is_offline_at_once() {
        check("+?", "RU");
        check("?", "U");
        check("+?++", "RUUR");
        check("+?-+?+-++", "RUUUUUUUR");
    }

    #[test]
    fn since_and_why_tell_the_change() {
        let second = Duration::from_secs;
        let mut health = Health::joining(second(0)).step(second(1), &probe('+'), &THRESHOLDS);
        for at in [11, 21, 31] {
            health = health.step(second(at), &probe('-'), &THRESHOLDS);
        }
        assert_eq!((health.phase, health.since), (Phase::Unreachable, second(31)));
        assert_eq!(health.why.as_deref(), Some("no answer"));
        health = health.step(second(50), &probe('-'), &THRESHOLDS);
        assert_eq!(health.since, second(31));
        health = health.step(second(51), &probe('+'), &THRESHOLDS);
        assert_eq!(health.next_probe(second(52), &THRESHOLDS), second(9));
        health = health.step(second(61), &probe('+'), &THRESHOLDS);
        assert_eq!((health.phase, health.since, health.why), (Phase::Reachable, second(61), None));
    }

    /// When a member counts as offline that answered at 0 and never again, and whose probes may take so long.
    fn offline_at(thresholds: &Thresholds, probe_takes: Duration) -> Duration {
        let mut health = Health::joining(Duration::ZERO).step(Duration::ZERO, &probe('+'), thresholds);
        let mut now = Duration::ZERO;
        while health.phase == Phase::Reachable {
            now += health.next_probe(now, thresholds);
            now += probe_takes.min(health.patience(now, thresholds));
            health = health.step(now, &probe('-'), thresholds);
        }
        now
    }

    #[test]
    fn silence_counts_from_the_last_answer_however_long_probes_wait() {
        let second = Duration::from_secs;
        let with = |probe_every, offline_after| Thresholds {
            probe_every: second(probe_every),
            offline_after: second(offline_after),
            online_after: second(10),
        };
        // Refused at once, or silent for as long as a probe waits.
        for takes in [Duration::ZERO, second(5)] {
            assert_eq!(offline_at(&with(10, 30), takes), second(30), "{takes:?}");
            assert_eq!(offline_at(&with(1, 4), takes), second(4), "{takes:?}");
        }
        // However the numbers are, also where probes are further apart than silence may last, it is never sooner, and later by no more than the shortest pause and the shortest probe.
        for (every, after, takes) in [(7, 20, 3), (3, 10, 5), (9, 10, 5), (1, 2, 5), (10, 31, 1), (60, 30, 5)]
        {
            let at = offline_at(&with(every, after), second(takes));
            assert!(
                (second(after)..=second(after) + 2 * MIN_PAUSE).contains(&at),
                "{every} {after} {takes}: {at:?}"
            );
        }
    }

    proptest! {
        /// Whatever the probes say, a phase never changes against the last probe, and never sooner than the
        /// thresholds allow.
        #[test]
        fn no_change_without_its_reason(steps in prop::collection::vec((1u64..40, 0usize..20), 1..200)) {
            let mut now = Duration::ZERO;
            let mut health = Health::joining(now);
            let (mut good_since, mut heard) = (None, now);
            for (pause, kind) in steps {
                now += Duration::from_secs(pause);
                let result = probe(match kind { 0..=9 => '+', 10..=18 => '-', _ => '?' });
                match result {
                    Probe::Answered => { good_since.get_or_insert(now); heard = now; }
                    _ => good_since = None,
                }
                let next = health.step(now, &result, &THRESHOLDS);
                let good_for = good_since.map_or(Duration::ZERO, |since| now - since);
                let bad_for = now - heard;
                match (health.phase, next.phase, &result) {
                    (before, after, _) if before == after => prop_assert_eq!(health.since, next.since),
                    (Phase::Joining, Phase::Reachable, Probe::Answered) => {}
                    (Phase::Unreachable, Phase::Reachable, Probe::Answered) => prop_assert!(good_for >= THRESHOLDS.online_after),
                    (_, Phase::Unreachable, Probe::Failed(_)) => prop_assert!(bad_for >= THRESHOLDS.offline_after),
                    (_, Phase::Unreachable, Probe::Another(_)) => {}
                    change => prop_assert!(false, "{change:?}"),
                }
                // And it does change once the thresholds are passed.
                if bad_for >= THRESHOLDS.offline_after { prop_assert_eq!(next.phase, Phase::Unreachable); }
                if good_for >= THRESHOLDS.online_after { prop_assert_eq!(next.phase, Phase::Reachable); }
                health = next;
            }
        }
    }
}
