//! The wall clock, given from outside so that a simulation can own it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

/// Tells the time of day. Waiting is never done with it: that is tokio's part.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Clock(Arc::new(now))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    /// The machine's clock.
    fn default() -> Self {
        Clock::new(koinon_context::wall_clock)
    }
}

/// Roughly how long, as people say it.
pub fn age(time: SignedDuration) -> String {
    match time.as_secs().max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}
