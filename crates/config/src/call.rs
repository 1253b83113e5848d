//! Calls with a deadline of their own, and failures as a status can tell them.

use std::error::Error as _;
use std::time::Duration;

use koinon_control::call::{self, Class};
use koinon_control::watch::Cut;

/// Why a call did not succeed, in words that stay the same while the cause does.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    /// The HTTP status, if there was an answer.
    pub(crate) code: Option<u16>,
    /// It was the object's namespace that is not there.
    pub(crate) namespace_missing: bool,
    text: String,
}

impl Failure {
    /// The server answered that this is not to be had. Anything else may be different in a moment.
    pub(crate) fn is_refusal(&self) -> bool {
        Class::of(self.code) != Class::Retry
    }
}

/// Waits for a call, but not longer than `deadline`.
pub(crate) async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failure> {
    call::within(deadline, call).await.map_err(|error| Failure::from(&error))
}

impl From<&call::Error> for Failure {
    fn from(error: &call::Error) -> Failure {
        let text = match error {
            call::Error::NoAnswer(_) => error.to_string(),
            call::Error::Refused(status) if status.message.is_empty() => {
                format!("the server answered {} {}", status.code, status.reason)
            }
            call::Error::Refused(status) => status.message.clone(),
            call::Error::Failed(error) => sentence(error),
        };
        Failure { code: error.code(), namespace_missing: error.is_namespace_missing(), text }
    }
}

impl From<&Cut> for Failure {
    fn from(cut: &Cut) -> Failure {
        match cut {
            Cut::Failed(error) | Cut::LargePage(error) => Failure::from(error),
            cut => Failure { code: None, namespace_missing: false, text: cut.to_string() },
        }
    }
}

/// An error and its causes in one line, each said once.
pub(crate) fn sentence(error: &kube::Error) -> String {
    let mut text = String::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&said);
        }
        next = cause.source();
    }
    if text.is_empty() { error.to_string() } else { text }
}
