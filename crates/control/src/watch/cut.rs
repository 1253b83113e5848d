//! Why a watch was cut, and what follows from that for the next round.

use kube::core::Status;

use super::Unserved;
use super::source::Meta;
use crate::bounds::Excess;
use crate::call;

/// Nothing in Kubernetes has longer names, nor versions and tokens that need more.
const LONGEST_NAME: usize = 253;
const LONGEST_VERSION: usize = 128;
pub(super) const LONGEST_TOKEN: usize = 8192;

/// Pages that are too much are asked for smaller by this factor.
const SMALLER: u32 = 5;
/// A link that cannot carry a page of this size in time carries nothing.
const SMALLEST_PAGE: u32 = 16;

/// Why a round of a watch ended.
#[derive(Debug, thiserror::Error)]
pub enum Cut {
    #[error("the server ended the watch")]
    Over,
    /// Somebody wants a list, or the time for one has come.
    #[error("it is listed again")]
    Relist,
    #[error("the version to go on from is not known there any more, or not yet")]
    Expired,
    #[error("the server does not list in streams")]
    Unstreamed,
    #[error("the server knows no such kind")]
    Unserved,
    /// A page is more than may come as one answer, or than comes in time. The next is smaller.
    #[error(transparent)]
    LargePage(call::Error),
    /// The server sends what no API server does, or more than may be held of it.
    #[error("{0}")]
    Hostile(String),
    #[error(transparent)]
    Failed(call::Error),
}

impl From<kube::Error> for Cut {
    fn from(error: kube::Error) -> Cut {
        match Excess::within(&error) {
            Some(excess) => Cut::Hostile(excess.to_string()),
            None => Cut::of(error.into()),
        }
    }
}

impl Cut {
    /// Whether the server did not answer, or not as it should. The others are part of every watch's life.
    pub fn is_failure(&self) -> bool {
        matches!(self, Cut::LargePage(_) | Cut::Hostile(_) | Cut::Failed(_))
    }

    pub(super) fn of(error: call::Error) -> Cut {
        match &error {
            call::Error::Refused(status) if status.code == 410 => Cut::Expired,
            _ => Cut::Failed(error),
        }
    }

    /// The error by which the server ended a watch.
    pub(super) fn ended_by(status: Box<Status>) -> Cut {
        Cut::of(call::Error::Refused(status))
    }

    /// Why a watch could not begin at the version it should go on from. A server that was restored from a backup has not
    /// come to that version yet: only a list helps.
    pub(super) fn at_resume(error: call::Error, unserved: Unserved) -> Cut {
        match error.code() {
            Some(404) if unserved == Unserved::Empty => Cut::Unserved,
            Some(400 | 404 | 410) => Cut::Expired,
            _ if is_ahead(&error) => Cut::Expired,
            _ => Cut::from_call(error),
        }
    }

    /// Why a list that streams could not begin.
    pub(super) fn at_stream(error: call::Error, unserved: Unserved) -> Cut {
        match error.code() {
            Some(404) if unserved == Unserved::Empty => Cut::Unserved,
            Some(400 | 404 | 405 | 415 | 422) => Cut::Unstreamed,
            _ => Cut::from_call(error),
        }
    }

    /// Why a page of so many objects did not come.
    pub(super) fn at_page(error: call::Error, unserved: Unserved, page: u32) -> Cut {
        match &error {
            call::Error::Refused(status) if status.code == 404 && unserved == Unserved::Empty => {
                Cut::Unserved
            }
            call::Error::NoAnswer(_) if page > SMALLEST_PAGE => Cut::LargePage(error),
            call::Error::Failed(source) if page > 1 && is_long(source) => Cut::LargePage(error),
            _ => Cut::from_call(error),
        }
    }

    fn from_call(error: call::Error) -> Cut {
        match error {
            call::Error::Failed(source) => Cut::from(source),
            error => Cut::of(error),
        }
    }
}

/// Says that the server has not come to the version that it was asked for.
fn is_ahead(error: &call::Error) -> bool {
    let call::Error::Refused(status) = error else { return false };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "ResourceVersionTooLarge")
}

/// The size of the page after one that was too much: too long in time, or in bytes.
pub(super) fn smaller(page: u32, error: &call::Error) -> u32 {
    let smallest = if matches!(error, call::Error::NoAnswer(_)) { SMALLEST_PAGE } else { 1 };
    (page / SMALLER).max(smallest)
}

fn is_long(error: &kube::Error) -> bool {
    matches!(Excess::within(error), Some(Excess::Answer(_)))
}

/// Refuses what no object of an API server has: names beyond all measure.
pub(super) fn check(meta: Meta<'_>) -> Result<(), Cut> {
    short("name", meta.name, LONGEST_NAME)?;
    short("namespace", meta.namespace, LONGEST_NAME)?;
    short("UID", meta.uid, LONGEST_VERSION)?;
    short("version", meta.version, LONGEST_VERSION)
}

/// The version that a list or a bookmark ends at.
pub(super) fn checked_version(version: String) -> Result<String, Cut> {
    short("version", &version, LONGEST_VERSION)?;
    if version.is_empty() {
        return Err(Cut::Hostile("it says no version to go on from".into()));
    }
    Ok(version)
}

pub(super) fn short(what: &str, text: &str, most: usize) -> Result<(), Cut> {
    if text.len() <= most {
        return Ok(());
    }
    Err(Cut::Hostile(format!("it sends a {what} of {} characters: no API server does", text.len())))
}
