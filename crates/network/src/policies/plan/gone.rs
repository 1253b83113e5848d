//! The end of a policy that was removed: kept in mind until every member knows, then forgotten by all.
//!
//! Everybody says that it is gone (`Removed`), then that everybody said so (`Settled`), then it is forgotten. Who
//! finds another ledger without it knows by its own word what that means: before it is settled itself, the other
//! has not heard yet; afterwards, the other has forgotten already. And who has nothing to say about it need not
//! speak up while all others only wait to forget.

use super::{Act, Case, Knows, Why};
use crate::policies::ledger::{Entry, State};
use crate::policies::version::Version;

/// The policy is not here, and the greatest revision says that it should not be.
pub(super) fn acknowledge(case: &Case<'_>, removed: &Version) -> Act {
    let settled = || Act::Note(Entry { version: removed.clone(), state: State::Settled });
    match case.mine.filter(|mine| mine.version == *removed).map(|mine| &mine.state) {
        Some(State::Settled) => {
            if all(case, |other| other.is_none_or(|other| is_at(other, removed, &[Word::Settled]))) {
                Act::Forget(Why::Done)
            } else {
                Act::Rest(Why::Acknowledging)
            }
        }
        Some(State::Removed) => {
            let said = [Word::Removed, Word::Settled];
            if all(case, |other| other.is_some_and(|other| is_at(other, removed, &said))) {
                settled()
            } else {
                Act::Rest(Why::Acknowledging)
            }
        }
        // It was kept, and others may have forgotten it since.
        Some(State::Kept { .. }) => settled(),
        None if case.mine.is_none() && is_over(case, removed) => Act::Rest(Why::Done),
        Some(State::Removing { .. } | State::Applied { .. }) | None => {
            Act::Note(Entry::removed(removed.clone()))
        }
    }
}

/// Whether whoever still speaks of it has heard from everybody.
fn is_over(case: &Case<'_>, removed: &Version) -> bool {
    let mut entries = case.others.iter().filter_map(|other| other.ledger.entry());
    entries.all(|entry| entry.version != *removed || is_at(entry, removed, &[Word::Settled]))
}

#[derive(PartialEq)]
enum Word {
    Removed,
    Settled,
}

fn is_at(entry: &Entry, removed: &Version, words: &[Word]) -> bool {
    let word = match entry.state {
        State::Removed => Word::Removed,
        // Who keeps it has nothing more to say about it.
        State::Settled | State::Kept { .. } => Word::Settled,
        State::Applied { .. } | State::Removing { .. } => return false,
    };
    entry.version == *removed && words.contains(&word)
}

fn all(case: &Case<'_>, holds: impl Fn(Option<&Entry>) -> bool) -> bool {
    case.others.iter().all(|other| match other.ledger {
        Knows::Unknown | Knows::Returning => false,
        Knows::Known(entry) => holds(entry),
    })
}
