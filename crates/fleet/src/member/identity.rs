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
    /// Why it is another cluster, by its UID.
    other: Option<Arc<str>>,
    /// Why it is another cluster, by what it claims to be.
    claims: Option<Arc<str>>,
}

impl Identity {
    pub(super) fn new(expected: Option<String>) -> Identity {
        Identity { expected, confirmed: None, other: None, claims: None }
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

    /// Takes in who answered. The first ever seen is the member.
    pub(super) fn saw(&mut self, uid: &str, now: Instant) -> Result<(), Arc<str>> {
        let expected = self.expected.get_or_insert_with(|| uid.to_owned());
        if expected == uid {
            self.confirmed = Some(now);
            self.other = None;
            return Ok(());
        }
        let why: Arc<str> = format!(
            "another cluster answers at its address (its kube-system namespace has the UID {uid}, the member's is \
             {expected}); if it was replaced on purpose, unjoin it and join it again"
        )
        .into();
        self.confirmed = None;
        self.other = Some(why.clone());
        Err(why)
    }

    /// Takes in whether the cluster claims to be another one.
    pub(super) fn claims(&mut self, other: Option<&str>) {
        self.claims = other.map(Into::into);
    }

    /// From now on, ask before writing.
    pub(super) fn doubt(&mut self) {
        self.confirmed = None;
    }

    pub(super) fn other(&self) -> Option<Arc<str>> {
        self.other.clone().or_else(|| self.claims.clone())
    }

    pub(super) fn is_fresh(&self, now: Instant, fresh_for: Duration) -> bool {
        self.confirmed.is_some_and(|at| now.saturating_duration_since(at) <= fresh_for)
    }
}
