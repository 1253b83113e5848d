//! Whether the cluster behind a member's address is the one that was joined.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// What is known of who answers.
#[derive(Debug)]
pub(super) struct Identity {
    /// The UID of the `kube-system` namespace, once it is known.
    expected: Option<String>,
    confirmed: Option<Instant>,
    /// Why it is another cluster, if it is.
    other: Option<Arc<str>>,
}

/// Who answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Itself,
    /// Nobody knows yet who it should be.
    Stranger,
    Another(Arc<str>),
}

impl Identity {
    pub(super) fn new(expected: Option<String>) -> Identity {
        Identity { expected, confirmed: None, other: None }
    }

    pub(super) fn expected(&self) -> Option<&str> {
        self.expected.as_deref()
    }

    /// Takes over who it should be from what was written down; `None` leaves what was seen first.
    pub(super) fn expect(&mut self, uid: Option<String>) {
        if let Some(uid) = uid
            && self.expected.as_ref() != Some(&uid)
        {
            *self = Identity::new(Some(uid));
        }
    }

    /// Takes in who answered.
    pub(super) fn saw(&mut self, uid: &str, now: Instant) -> Seen {
        let Some(expected) = &self.expected else { return Seen::Stranger };
        if expected == uid {
            self.confirmed = Some(now);
            self.other = None;
            return Seen::Itself;
        }
        let why: Arc<str> = format!(
            "another cluster answers at its address (its kube-system namespace has the UID {uid}, the member's \
             has {expected}); if it was replaced on purpose, unjoin it and join it again"
        )
        .into();
        self.confirmed = None;
        self.other = Some(why.clone());
        Seen::Another(why)
    }

    /// From now on, ask before anything else.
    pub(super) fn doubt(&mut self) {
        self.confirmed = None;
    }

    pub(super) fn other(&self) -> Option<Arc<str>> {
        self.other.clone()
    }

    /// Whether it was confirmed since there was reason to doubt, and not longer ago than `within`.
    pub(super) fn is_confirmed(&self, now: Instant, within: Duration) -> bool {
        self.confirmed.is_some_and(|at| now.saturating_duration_since(at) <= within)
    }
}
