//! Whether the API server that a role works with answers, told in the log: once when it stops, now and then while it does not,
//! and once when it answers again. A role tries on by itself, so nothing else would say so.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Response, StatusCode};
use kube::client::Body;
use tokio::time::Instant;

use crate::access::{Place, innermost};

/// While it does not answer, it is told again after this time.
const AGAIN: Duration = Duration::from_secs(60);

/// When it was last told of each server that it does not answer. For all clients of the process: a role may make itself a new
/// one whenever its credentials change.
static SILENT: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

/// What to tell.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Nothing,
    Silent,
    Back,
}

fn news(told: Option<Instant>, now: Instant, is_well: bool) -> News {
    match (told, is_well) {
        (None, true) => News::Nothing,
        (Some(_), true) => News::Back,
        (Some(told), false) if now.saturating_duration_since(told) < AGAIN => News::Nothing,
        (_, false) => News::Silent,
    }
}

/// Takes in what became of a request.
pub(crate) fn note(place: &Place, answer: &kube::Result<Response<Body>>) {
    let trouble = match answer {
        Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED => Some(refusal(place)),
        Ok(_) => None,
        Err(error) => Some(format!(
            "{place} does not answer: {}; see that it runs and that this machine reaches it",
            innermost(error)
        )),
    };
    let (key, now) = (place.to_string(), Instant::now());
    let mut silent = SILENT.lock().unwrap_or_else(PoisonError::into_inner);
    match news(silent.get(&key).copied(), now, trouble.is_none()) {
        News::Nothing => {}
        News::Silent => {
            let server = place.server();
            tracing::warn!(
                server,
                reason = "ServerLost",
                "{}; it is tried again",
                trouble.unwrap_or_default()
            );
            silent.insert(key, now);
        }
        News::Back => {
            tracing::info!(server = place.server(), reason = "ServerBack", "{place} answers again");
            silent.remove(&key);
        }
    }
}

/// What an answer of 401 means to a user.
pub(crate) fn refusal(place: &Place) -> String {
    format!("{place} refuses the credentials that it names: they may have ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_told_at_once_and_then_now_and_then() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(news(None, at(0), true), News::Nothing);
        assert_eq!(news(None, at(0), false), News::Silent);
        assert_eq!(news(Some(at(0)), at(59), false), News::Nothing);
        assert_eq!(news(Some(at(0)), at(60), false), News::Silent);
        assert_eq!(news(Some(at(60)), at(61), true), News::Back);
    }
}
