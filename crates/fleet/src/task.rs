//! A task that ends with its owner, so that nothing runs on behind anybody's back.

use tokio::task::{JoinError, JoinHandle};

/// Work in the background that is cut off when this is dropped.
pub struct Task(JoinHandle<()>);

impl Task {
    pub fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(tokio::spawn(work))
    }

    /// Waits until it is done by itself.
    pub async fn done(mut self) -> Result<(), JoinError> {
        (&mut self.0).await
    }

    /// Cuts it off and waits until it ended, so that it does nothing after what comes next.
    pub async fn end(mut self) {
        self.0.abort();
        // It ends by being cut off, which counts as an error.
        let _ = (&mut self.0).await;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
