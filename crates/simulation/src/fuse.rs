//! Ends a controller at one of its requests.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Ends a party after so many requests: the last one is carried out, and the party never hears of it.
#[derive(Clone)]
pub struct Fuse(Arc<Inner>);

struct Inner {
    left: Mutex<Option<usize>>,
    blown: watch::Sender<bool>,
}

impl Default for Fuse {
    fn default() -> Self {
        Fuse(Arc::new(Inner { left: Mutex::default(), blown: watch::Sender::new(false) }))
    }
}

impl Fuse {
    /// The party ends after so many more requests.
    pub fn after(&self, requests: usize) {
        *self.0.left.lock() = Some(requests);
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

    /// Counts a request; says whether it was the last.
    pub(crate) fn burns(&self) -> bool {
        let mut left = self.0.left.lock();
        if let Some(more) = &mut *left {
            *more = more.saturating_sub(1);
            if *more == 0 {
                self.0.blown.send_replace(true);
            }
        }
        self.is_blown()
    }
}
