//! Ends a controller at one of its requests.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Ends a party after so many requests: the last one is carried out, and the party never hears of it.
#[derive(Clone)]
pub struct Fuse(Arc<Inner>);

struct Inner {
    left: Mutex<Option<Left>>,
    blown: watch::Sender<bool>,
}

/// What is still to come before the end.
#[derive(Clone, Copy)]
enum Left {
    Requests(usize),
    Writes(usize),
}

impl Default for Fuse {
    fn default() -> Self {
        Fuse(Arc::new(Inner { left: Mutex::default(), blown: watch::Sender::new(false) }))
    }
}

impl Fuse {
    /// The party ends after so many more requests.
    pub fn after(&self, requests: usize) {
        *self.0.left.lock() = Some(Left::Requests(requests));
    }

    /// The party ends after so many more of those writes that are in the trace.
    pub fn after_writes(&self, writes: usize) {
        *self.0.left.lock() = Some(Left::Writes(writes));
    }

    /// A new one, for a party that starts again.
    pub fn renew(&self) {
        *self.0.left.lock() = None;
        self.0.blown.send_replace(false);
    }

    pub fn is_blown(&self) -> bool {
        *self.0.blown.borrow()
    }

    /// Ready once it is blown: whoever runs the party drops it then.
    pub async fn blown(&self) {
        // The sender lives as long as this.
        let _ = self.0.blown.subscribe().wait_for(|blown| *blown).await;
    }

    /// Counts a request, which may be a write that is in the trace; says whether it was the last.
    pub(crate) fn burns(&self, is_noted: bool) -> bool {
        let mut left = self.0.left.lock();
        let more = match &mut *left {
            Some(Left::Requests(more)) => Some(more),
            Some(Left::Writes(more)) if is_noted => Some(more),
            Some(Left::Writes(_)) | None => None,
        };
        if let Some(more) = more {
            *more = more.saturating_sub(1);
            if *more == 0 {
                self.0.blown.send_replace(true);
            }
        }
        self.is_blown()
    }
}
