//! Whether a connection is alive: it is asked with a PING once nothing came for a while, and is dead where nothing comes back.

use std::time::Duration;

use tokio::time::Instant;

/// No server is asked more often: it would be busy with that.
const SHORTEST: Duration = Duration::from_millis(500);

/// How long a connection may be quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// After so long without a byte the server is sent a PING.
    pub quiet: Duration,
    /// A server that sends nothing for so long after it is taken for dead.
    pub patience: Duration,
}

impl Default for Keepalive {
    /// As client-go does it.
    fn default() -> Self {
        Keepalive { quiet: Duration::from_secs(30), patience: Duration::from_secs(15) }
    }
}

impl Keepalive {
    /// Finds a dead connection no later than this, and never later than by default.
    pub fn within(time: Duration) -> Keepalive {
        let usual = Keepalive::default();
        Keepalive {
            quiet: usual.quiet.min(time * 2 / 3).max(SHORTEST),
            patience: usual.patience.min(time / 3).max(SHORTEST),
        }
    }

    /// How long nothing came when a connection is taken for dead.
    pub(super) fn silence(&self) -> Duration {
        self.quiet + self.patience
    }
}

/// What was read of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// How often something was read: two reads in one moment are two.
    pub(super) reads: u64,
    pub(super) last: Instant,
}

/// What to do about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    LookAgain(Instant),
    /// Send a PING, and look again then.
    Ping(Instant),
    Dead,
}

/// Decides when a connection is asked and when it is given up.
#[derive(Debug)]
pub(super) struct Pulse {
    keepalive: Keepalive,
    /// When it was asked, and how much was heard by then.
    asked: Option<(Instant, u64)>,
}

impl Pulse {
    pub(super) fn new(keepalive: Keepalive) -> Pulse {
        Pulse { keepalive, asked: None }
    }

    /// `doubted`: a request got no answer in time, so that the connection is asked at once.
    pub(super) fn step(&mut self, now: Instant, heard: Heard, doubted: bool) -> Step {
        if let Some((at, reads)) = self.asked {
            // Anything that came is a sign of life: the answer to a PING may be behind a long list.
            if heard.reads == reads {
                let end = at + self.keepalive.patience;
                return if now >= end { Step::Dead } else { Step::LookAgain(end) };
            }
            self.asked = None;
        }
        let due = heard.last + self.keepalive.quiet;
        if doubted || now >= due {
            self.asked = Some((now, heard.reads));
            return Step::Ping(now + self.keepalive.patience);
        }
        Step::LookAgain(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_quiet_connection_is_asked_and_a_silent_one_is_dead() {
        let start = Instant::now();
        let at = |seconds| start + second(seconds);
        let heard = |reads, seconds| Heard { reads, last: at(seconds) };
        let mut pulse = Pulse::new(Keepalive::default());
        assert_eq!(pulse.step(at(10), heard(1, 5), false), Step::LookAgain(at(35)));
        assert_eq!(pulse.step(at(35), heard(1, 5), false), Step::Ping(at(50)));
        assert_eq!(pulse.step(at(40), heard(1, 5), true), Step::LookAgain(at(50)), "it is asked already");
        // Even if it came in the same moment.
        assert_eq!(pulse.step(at(50), heard(2, 35), false), Step::LookAgain(at(65)));
        assert_eq!(pulse.step(at(65), heard(2, 35), false), Step::Ping(at(80)));
        assert_eq!(pulse.step(at(80), heard(2, 35), false), Step::Dead);
    }

    #[test]
    fn who_is_doubted_is_asked_at_once() {
        let start = Instant::now();
        let mut pulse = Pulse::new(Keepalive::default());
        let heard = Heard { reads: 1, last: start };
        assert_eq!(pulse.step(start + second(1), heard, true), Step::Ping(start + second(16)));
        assert_eq!(pulse.step(start + second(16), heard, false), Step::Dead);
    }

    #[test]
    fn a_dead_connection_is_found_before_its_member_counts_as_offline() {
        assert_eq!(Keepalive::within(second(600)), Keepalive::default());
        for time in [second(2), second(9), second(30), second(45)] {
            assert!(Keepalive::within(time).silence() <= time, "{time:?}");
        }
        assert_eq!(Keepalive::within(Duration::ZERO).silence(), second(1));
    }
}
