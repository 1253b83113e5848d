//! Calls to the server: each has a deadline, and its failure says what a controller needs to know.

use std::time::Duration;

use kube::core::Status;

/// No single call may take longer; a controller that hangs on one would keep the others waiting.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
const NAMESPACE_ENDING: &str = "NamespaceTerminating";

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the server gave no answer within {} seconds", .0.as_secs_f32())]
    NoAnswer(Duration),
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    #[error("the server could not be asked")]
    Failed(#[source] kube::Error),
}

/// Waits for a call, but not forever.
pub async fn within_deadline<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    within(DEADLINE, call).await
}

/// Waits for a call, but not longer than `deadline`.
pub async fn within<T>(deadline: Duration, call: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    match tokio::time::timeout(deadline, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Error::NoAnswer(deadline)),
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Error {
        match error {
            kube::Error::Api(status) => Error::Refused(status),
            error => Error::Failed(error),
        }
    }
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It may work later as it is.
    Retry,
    /// Look again first: somebody else was faster.
    Conflict,
    /// What it was about is not there, or not any more.
    Gone,
    /// It is refused, and will be until somebody changes something.
    Terminal,
}

impl Class {
    /// The class of an answer with this HTTP status, or of none at all.
    pub fn of(code: Option<u16>) -> Class {
        match code {
            None | Some(401 | 408 | 429 | 500..) => Class::Retry,
            Some(409) => Class::Conflict,
            Some(404 | 410) => Class::Gone,
            Some(_) => Class::Terminal,
        }
    }
}

/// Says that the object asked for is not there. A path that nobody serves answers 404 too, but names no
/// object: about the object itself that says nothing.
pub fn is_object_absent(status: &Status) -> bool {
    status.code == 404 && status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

impl Error {
    pub fn class(&self) -> Class {
        Class::of(self.code())
    }

    /// The HTTP status that the server answered with, if it answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Refused(status) => Some(status.code),
            Error::NoAnswer(_) | Error::Failed(_) => None,
        }
    }

    /// See [`is_object_absent`].
    pub fn is_object_absent(&self) -> bool {
        match self {
            Error::Refused(status) => is_object_absent(status),
            Error::NoAnswer(_) | Error::Failed(_) => false,
        }
    }

    /// Says that nothing at all is served at this path.
    pub fn is_path_unknown(&self) -> bool {
        self.code() == Some(404) && !self.is_object_absent()
    }

    /// Says that it is the object's namespace that is not there.
    pub fn is_namespace_missing(&self) -> bool {
        match self {
            Error::Refused(status) => {
                status.code == 404
                    && status.details.as_ref().is_some_and(|details| details.kind == "namespaces")
            }
            Error::NoAnswer(_) | Error::Failed(_) => false,
        }
    }

    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Says that nothing can be created here any more because the namespace itself goes.
    pub fn is_namespace_ending(&self) -> bool {
        match self {
            Error::Refused(status) => status
                .details
                .as_ref()
                .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == NAMESPACE_ENDING)),
            Error::NoAnswer(_) | Error::Failed(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusDetails;
    use serde_json::json;

    use super::*;

    fn refused(code: u16, name: &str) -> Error {
        let details = StatusDetails {
            name: name.into(),
            group: String::new(),
            kind: "pods".into(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        };
        Error::Refused(Status::failure("", "NotFound").with_code(code).with_details(details).boxed())
    }

    #[test]
    fn only_an_answer_about_the_object_says_that_it_is_absent() {
        assert!(refused(404, "a").is_object_absent());
        assert!(refused(404, "").is_path_unknown());
        for unknown in [refused(404, ""), refused(403, "a"), refused(503, "a"), Error::NoAnswer(DEADLINE)] {
            assert!(!unknown.is_object_absent(), "{unknown:?}");
        }
    }

    #[test]
    fn a_class_says_what_to_do_next() {
        for retried in [None, Some(401), Some(408), Some(429), Some(500), Some(503)] {
            assert_eq!(Class::of(retried), Class::Retry, "{retried:?}");
        }
        assert_eq!(refused(409, "a").class(), Class::Conflict);
        assert_eq!([404, 410].map(|code| refused(code, "a").class()), [Class::Gone; 2]);
        assert_eq!([400, 403, 422].map(|code| refused(code, "a").class()), [Class::Terminal; 3]);
    }

    #[test]
    fn only_the_cause_says_that_a_namespace_goes() {
        let mut ending = refused(403, "a");
        assert!(!ending.is_namespace_ending());
        if let Error::Refused(status) = &mut ending {
            let cause = json!({"reason": "NamespaceTerminating", "field": "metadata.namespace"});
            status.details.as_mut().unwrap().causes.push(serde_json::from_value(cause).unwrap());
        }
        assert!(ending.is_namespace_ending());
    }
}
