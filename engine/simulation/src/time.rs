//! The wall clock of a simulation: it runs with tokio's time, and for each cluster as wrong as one likes.

use jiff::{SignedDuration, Timestamp};
use koinon_control::Clock;
use tokio::time::Instant;

/// When a simulation began.
#[derive(Clone, Copy, Debug)]
pub struct Time(Instant);

impl Time {
    /// Begins now, which is the year 2027.
    pub fn begin() -> Time {
        Time(Instant::now())
    }

    /// How long ago it began.
    pub fn elapsed(&self) -> std::time::Duration {
        self.0.elapsed()
    }

    /// A clock that is right.
    pub fn clock(&self) -> Clock {
        self.skewed(SignedDuration::ZERO)
    }

    /// A clock that is wrong by this much.
    pub fn skewed(&self, by: SignedDuration) -> Clock {
        let start = self.0;
        let begin = Timestamp::from_second(1_800_000_000).expect("2027 is within range") + by;
        Clock::new(move || begin + start.elapsed())
    }
}
