//! What a watch asks for, and how patient it is.

use std::time::Duration;

use crate::attempts::Backoff;
use crate::call;

/// Which objects of a kind to follow, and how.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub labels: Option<String>,
    pub fields: Option<String>,
    pub lists: Lists,
    /// What a server that does not serve the kind says about its objects.
    pub unserved: Unserved,
}

/// What it means that a server does not serve a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unserved {
    /// Nothing: every server should serve it.
    #[default]
    Unknown,
    /// There are no such objects, for now.
    Empty,
}

/// How the first look at the objects is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lists {
    /// In the stream of the watch where the server can, in pages where it refuses.
    #[default]
    Streamed,
    Paged,
}

/// How patient a watch is, and how much it asks for at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Objects of a list come in pages of this size, so that a large list is never in memory at once.
    pub page: u32,
    /// The deadline of a page, and of the begin of a watch.
    pub answer: Duration,
    /// The deadline of a whole list, where others wait for its turn to end.
    pub list: Option<Duration>,
    /// The server ends a watch after this time, and after some more that differs from watch to watch, so that they do
    /// not all come back at once.
    pub round: Duration,
    pub round_spread: Duration,
    /// A watch that the server should have ended so long ago is dead.
    pub grace: Duration,
    /// How often to list again even if nothing seems to be missing.
    pub resync: Option<Duration>,
    /// After failures. Each pause is cut short by up to half of it, so that watches do not come back together.
    pub backoff: Backoff,
    /// New watches begin within this time, each at its own moment.
    pub spread: Duration,
}

impl Default for Timing {
    /// For a controller beside its API server.
    fn default() -> Self {
        Timing {
            page: 250,
            answer: call::DEADLINE,
            list: None,
            round: Duration::from_secs(290),
            round_spread: Duration::ZERO,
            grace: Duration::from_secs(5),
            resync: None,
            // Short enough that a server which comes back is noticed while a user still waits for it.
            backoff: Backoff::new(Duration::from_millis(200), Duration::from_secs(5)),
            spread: Duration::ZERO,
        }
    }
}
