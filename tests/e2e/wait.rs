//! Waiting for a state of the world, bounded and with a word on what it was when time ran out.

use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::Instant;

/// Longer than anything takes on a busy machine: running out of it means that it never comes.
const LONG: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(50);

/// For so long something has to stay as it is, where it is not to change at all. Conformance suites look for as long.
const WHILE: Duration = Duration::from_secs(5);

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

/// Looks again and again for a while, and fails as soon as it is not as it should be.
pub(crate) async fn throughout(
    what: &str,
    look: impl AsyncFn() -> anyhow::Result<Look<()>>,
) -> anyhow::Result<()> {
    let end = Instant::now() + WHILE;
    while Instant::now() < end {
        match look().await.with_context(|| format!("while {what}"))? {
            Look::Found(()) => tokio::time::sleep(PAUSE).await,
            Look::NotYet(state) => bail!("it did not stay so that {what}: {state}"),
        }
    }
    Ok(())
}
