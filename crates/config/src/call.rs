//! Calls with a deadline of their own, and failures as a status can tell them.

use std::error::Error as _;
use std::time::Duration;

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
        self.code.is_some_and(|code| (400..500).contains(&code) && ![401, 408, 429].contains(&code))
    }
}

/// Waits for a call, but not longer than `deadline`.
pub(crate) async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failure> {
    let failure = |text| Failure { code: None, namespace_missing: false, text };
    match tokio::time::timeout(deadline, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(Failure {
            code: Some(status.code),
            namespace_missing: status.code == 404
                && status.details.as_ref().is_some_and(|details| details.kind == "namespaces"),
            text: if status.message.is_empty() {
                format!("the server answered {} {}", status.code, status.reason)
            } else {
                status.message.clone()
            },
        }),
        Ok(Err(error)) => Err(failure(sentence(&error))),
        Err(_) => {
            Err(failure(format!("the server gave no answer within {} seconds", deadline.as_secs_f32())))
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
