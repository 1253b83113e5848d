//! Whether a member can be worked with, from what its probes say. A member that blinks stays what it is.

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
    /// The last probes in a row that speak against the phase began then.
    against_since: Option<Moment>,
}

impl Health {
    /// A member that was just named.
    pub fn joining(now: Moment) -> Health {
        Health { phase: Phase::Joining, since: now, why: None, against_since: None }
    }

    /// The next state after a probe that began at `now`.
    pub fn step(&self, now: Moment, probe: &Probe, thresholds: &Thresholds) -> Health {
        let why = match probe {
            Probe::Answered => None,
            Probe::Failed(why) | Probe::Another(why) => Some(why.clone()),
        };
        let stay =
            |against_since| Health { phase: self.phase, since: self.since, why: why.clone(), against_since };
        let become_ = |phase| Health { phase, since: now, why: why.clone(), against_since: None };
        let against_since = self.against_since.unwrap_or(now);
        let against_for = now.saturating_sub(against_since);
        match (self.phase, probe) {
            // Whoever answers there, the member does not.
            (Phase::Unreachable, Probe::Another(_) | Probe::Failed(_)) => stay(None),
            (_, Probe::Another(_)) => become_(Phase::Unreachable),
            (Phase::Joining, Probe::Answered) => become_(Phase::Reachable),
            (Phase::Reachable, Probe::Answered) => stay(None),
            (Phase::Unreachable, Probe::Answered) if against_for >= thresholds.online_after => {
                become_(Phase::Reachable)
            }
            (Phase::Unreachable, Probe::Answered) => Health {
                why: Some("it answers again, but not for long enough yet".into()),
                ..stay(Some(against_since))
            },
            (Phase::Joining | Phase::Reachable, Probe::Failed(_))
                if against_for >= thresholds.offline_after =>
            {
                become_(Phase::Unreachable)
            }
            (Phase::Joining | Phase::Reachable, Probe::Failed(_)) => stay(Some(against_since)),
        }
    }

    /// When to probe next: sooner while the last probes speak against the phase and a decision is near.
    pub fn next_probe(&self, now: Moment, thresholds: &Thresholds) -> Duration {
        let Some(against_since) = self.against_since else { return thresholds.probe_every };
        let needed = match self.phase {
            Phase::Unreachable => thresholds.online_after,
            Phase::Joining | Phase::Reachable => thresholds.offline_after,
        };
        let left = (against_since + needed).saturating_sub(now);
        left.clamp(MIN_PAUSE.min(thresholds.probe_every), thresholds.probe_every)
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
        check("+----++", "RRRRUUR");
        check("+-+--+---+", "RRRRRRRRRR");
        check("+-----+-+-++", "RRRRUUUUUUUR");
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
        for at in [11, 21, 31, 41] {
            health = health.step(second(at), &probe('-'), &THRESHOLDS);
        }
        assert_eq!((health.phase, health.since), (Phase::Unreachable, second(41)));
        assert_eq!(health.why.as_deref(), Some("no answer"));
        health = health.step(second(50), &probe('-'), &THRESHOLDS);
        assert_eq!(health.since, second(41));
        health = health.step(second(51), &probe('+'), &THRESHOLDS);
        assert_eq!(health.next_probe(second(52), &THRESHOLDS), second(9));
        health = health.step(second(61), &probe('+'), &THRESHOLDS);
        assert_eq!((health.phase, health.since, health.why), (Phase::Reachable, second(61), None));
    }

    proptest! {
        /// Whatever the probes say, a phase never changes against the last probe, and never sooner than the
        /// thresholds allow.
        #[test]
        fn no_change_without_its_reason(steps in prop::collection::vec((1u64..40, 0usize..20), 1..200)) {
            let mut now = Duration::ZERO;
            let mut health = Health::joining(now);
            let (mut good_since, mut bad_since) = (None, None);
            for (pause, kind) in steps {
                now += Duration::from_secs(pause);
                let result = probe(match kind { 0..=9 => '+', 10..=18 => '-', _ => '?' });
                match result {
                    Probe::Answered => { good_since.get_or_insert(now); bad_since = None; }
                    _ => { bad_since.get_or_insert(now); good_since = None; }
                }
                let next = health.step(now, &result, &THRESHOLDS);
                let good_for = good_since.map_or(Duration::ZERO, |since| now - since);
                let bad_for = bad_since.map_or(Duration::ZERO, |since| now - since);
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
