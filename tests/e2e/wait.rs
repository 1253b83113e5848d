//! Waiting for a state of the world, bounded and with a word on what it was when time ran out.

use std::time::Duration;

use anyhow::bail;
use tokio::time::Instant;

/// Longer than anything takes on a busy machine: running out of it means that it never comes.
const LONG: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(50);

/// What was found when looking.
pub(crate) enum Look<T> {
    /// It is as it should be.
    Found(T),
    /// Not yet: how it is instead.
    NotYet(String),
}

/// Looks again and again until it is found. An error of a look counts as not yet.
pub(crate) async fn until<T>(
    what: &str,
    look: impl AsyncFn() -> anyhow::Result<Look<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + LONG;
    loop {
        let state = match look().await {
            Ok(Look::Found(found)) => return Ok(found),
            Ok(Look::NotYet(state)) => state,
            Err(error) => format!("{error:#}"),
        };
        if Instant::now() > deadline {
            bail!("waited in vain until {what}; at last: {state}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}
