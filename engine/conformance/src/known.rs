//! Differences that stay, each with its reason in `docs/differences.md`.

use crate::sequence::{Observed, Step};

/// One difference, and how to tell it.
pub struct Known {
    /// Its id, the same as in the document.
    pub id: &'static str,
    /// Whether a pair of answers differs for this reason; stock first.
    pub matches: fn(&Step, &Observed, &Observed) -> bool,
}

/// All of them.
pub const KNOWN: &[Known] = &[
    Known { id: "typed-errors", matches: typed_errors },
    Known { id: "bounded-quotes", matches: bounded_quotes },
];

/// A text that Koinon prints where a stock server prints another.
pub struct KnownText {
    /// Its id, the same as in the document.
    pub id: &'static str,
    /// What Koinon prints.
    pub koinon: &'static str,
    /// What a stock server prints.
    pub stock: &'static str,
}

/// All of them, as far as kubectl shows them.
pub const KNOWN_TEXTS: &[KnownText] = &[
    KnownText { id: "version", koinon: "+koinon", stock: "" },
    KnownText { id: "token-signature", koinon: "\"ES256\"", stock: "\"RS256\"" },
];

/// The known reason for a difference, if there is one.
pub fn reason(step: &Step, stock: &Observed, subject: &Observed) -> Option<&'static str> {
    KNOWN.iter().find(|known| (known.matches)(step, stock, subject)).map(|known| known.id)
}

/// Both refuse a request for the same reason, in a text that quotes what was sent: a stock server all of it.
fn bounded_quotes(_: &Step, stock: &Observed, subject: &Observed) -> bool {
    /// What is quoted of a value at most.
    const QUOTED: usize = 8 << 10;
    let refused =
        |observed: &Observed| (observed.status, observed.body["reason"].as_str().map(str::to_owned));
    let (Some(all), Some(some)) = (stock.body["message"].as_str(), subject.body["message"].as_str()) else {
        return false;
    };
    let same = all.bytes().zip(some.bytes()).take_while(|(one, other)| one == other).count();
    refused(stock) == refused(subject) && some.len() < all.len() && same >= QUOTED
}

/// Both refuse an applied configuration that does not fit its schema; which of its errors a stock server
/// lists depends on the order of a Go map.
fn typed_errors(_: &Step, stock: &Observed, subject: &Observed) -> bool {
    let errors = |observed: &Observed| -> Option<Vec<String>> {
        let message = observed.body["message"].as_str()?;
        let (_, errors) = message.strip_prefix("failed to create typed patch object (")?.split_once("): ")?;
        let lines = errors.lines().filter(|line| *line != "errors:");
        Some(lines.map(|line| line.trim().to_owned()).collect())
    };
    match (errors(stock), errors(subject)) {
        (Some(stock), Some(subject)) => {
            let within = |some: &[String], all: &[String]| some.iter().all(|line| all.contains(line));
            within(&stock, &subject) || within(&subject, &stock)
        }
        _ => false,
    }
}
