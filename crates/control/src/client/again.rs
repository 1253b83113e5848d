//! Whether a request that failed is sent again, on another connection.

use http::Method;

/// So often a request is sent, whatever becomes of it.
const ATTEMPTS: u32 = 3;

/// How far a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was never sent, or the server says that it did nothing about it: with GOAWAY, or by refusing its stream.
    NotProcessed,
    /// It was sent, and the connection ended before its answer.
    Unknown,
}

/// What is to be decided on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) fate: Fate,
    /// How often it was sent already.
    pub(super) count: u32,
    /// Whether the server had answered anything on that connection. One that ends before is no chance.
    pub(super) answered_before: bool,
}

/// A write that may have been processed is not sent twice: the caller decides what to do about it.
pub(super) fn is_sent_again(method: &Method, attempt: Attempt) -> bool {
    let is_harmless = match attempt.fate {
        Fate::NotProcessed => true,
        Fate::Unknown => attempt.answered_before && matches!(*method, Method::GET | Method::HEAD),
    };
    is_harmless && attempt.count < ATTEMPTS
}

/// What an HTTP/2 error says of the request.
pub(super) fn fate(error: &h2::Error) -> Fate {
    let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    // A stream fails by the server's GOAWAY only if it is above the last one that the server looked at.
    if error.is_remote() && (error.is_go_away() || is_refused) { Fate::NotProcessed } else { Fate::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_does_no_harm_is_sent_again() {
        use Fate::{NotProcessed, Unknown};
        for (method, fate, count, answered_before, expected) in [
            (Method::PATCH, NotProcessed, 1, false, true),
            (Method::POST, NotProcessed, 2, true, true),
            (Method::POST, NotProcessed, 3, true, false),
            (Method::POST, Unknown, 1, true, false),
            (Method::PUT, Unknown, 1, true, false),
            (Method::DELETE, Unknown, 1, true, false),
            (Method::GET, Unknown, 1, true, true),
            (Method::GET, Unknown, 1, false, false),
            (Method::GET, Unknown, 3, true, false),
        ] {
            let attempt = Attempt { fate, count, answered_before };
            assert_eq!(is_sent_again(&method, attempt), expected, "{method} {attempt:?}");
        }
    }

    #[test]
    fn an_error_of_our_own_tells_nothing_about_the_request() {
        assert_eq!(fate(&h2::Error::from(h2::Reason::REFUSED_STREAM)), Fate::Unknown);
    }
}
