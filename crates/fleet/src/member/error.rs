//! Why a call to a member did not succeed, in words for people.

use std::sync::Arc;
use std::time::Duration;

use koinon_api::membership::ClusterId;
use koinon_control::call;
pub use koinon_control::call::Class;
use koinon_control::words::{SENTENCE, clean};
use kube::core::Status;

/// A call to a member that did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("cluster {member} {failure}")]
pub struct Error {
    pub member: ClusterId,
    #[source]
    pub failure: Failure,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Nothing was sent, or nothing came back.
    #[error(transparent)]
    Away(#[from] Away),
    #[error("refused: {}", .0.message)]
    Refused(Box<Status>),
    #[error("could not be asked: {}", cause(.0))]
    Failed(#[source] kube::Error),
}

/// Why a member was not asked, or gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Away {
    #[error("is offline: {0}")]
    Offline(Arc<str>),
    /// Another cluster answers in its place; it is not written to.
    #[error("identity mismatch: {0}")]
    Another(Arc<str>),
    #[error("is busy: {0} calls are on their way to it already")]
    Busy(usize),
    #[error("gave no answer within {} s", .0.as_secs_f32())]
    NoAnswer(Duration),
    /// This process leads it no more, so nothing was sent.
    #[error("was not written to: its lead is lost")]
    NotLed,
}

impl Away {
    /// The reason that a client's error carries, if the fleet gave it.
    pub(crate) fn within(error: &kube::Error) -> Option<&Away> {
        match error {
            kube::Error::Service(source) => source.downcast_ref(),
            _ => None,
        }
    }
}

impl Error {
    pub(crate) fn of(member: &ClusterId, error: kube::Error) -> Error {
        let failure = match error {
            kube::Error::Api(status) => Failure::Refused(status),
            kube::Error::Service(source) => match source.downcast::<Away>() {
                Ok(away) => Failure::Away(*away),
                Err(source) => Failure::Failed(kube::Error::Service(source)),
            },
            error => Failure::Failed(error),
        };
        Error { member: member.clone(), failure }
    }

    /// The HTTP status that the member answered with, if it answered.
    pub fn code(&self) -> Option<u16> {
        match &self.failure {
            Failure::Refused(status) => Some(status.code),
            Failure::Away(_) | Failure::Failed(_) => None,
        }
    }

    /// See [`call::is_object_absent`].
    pub fn is_object_absent(&self) -> bool {
        match &self.failure {
            Failure::Refused(status) => call::is_object_absent(status),
            Failure::Away(_) | Failure::Failed(_) => false,
        }
    }

    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Whether the member was not reached at all.
    pub fn is_away(&self) -> bool {
        matches!(self.failure, Failure::Away(_) | Failure::Failed(_))
    }

    pub fn class(&self) -> Class {
        Class::of(self.code())
    }

    /// One word for metrics, events and conditions.
    pub fn reason(&self) -> &'static str {
        match &self.failure {
            Failure::Away(Away::Offline(_)) => "MemberOffline",
            Failure::Away(Away::Another(_)) => "MemberReplaced",
            Failure::Away(Away::Busy(_)) => "MemberBusy",
            Failure::Away(Away::NoAnswer(_)) => "MemberNoAnswer",
            Failure::Away(Away::NotLed) => "MemberNotLed",
            Failure::Failed(_) => "MemberUnreachable",
            Failure::Refused(status) if status.code == 401 => "MemberCredentials",
            Failure::Refused(status) if status.code == 403 => "MemberForbidden",
            Failure::Refused(_) => "MemberRefused",
        }
    }
}

/// The innermost cause says the most: "connection refused" rather than "client error".
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.to_string() {
        // What a timer says of itself says nothing about the member.
        text if text == "deadline has elapsed" => "no connection in time".into(),
        // It may quote what the member sent.
        text => clean(&text, SENTENCE),
    }
}
