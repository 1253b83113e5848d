//! The same thing has one log line a minute, with how often it came meanwhile.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// For so long what has a line gets no other.
const EVERY: SignedDuration = SignedDuration::from_mins(1);
/// So many are remembered. Where there are more, one may have a line too many.
const REMEMBERED: usize = 1024;

/// What was logged lately, by what it was about.
#[derive(Debug, Default)]
pub struct Repeats(Mutex<BTreeMap<String, Told>>);

#[derive(Debug)]
struct Told {
    what: String,
    at: Timestamp,
    /// How often it came since.
    since: u64,
}

impl Repeats {
    /// Something has come, about this. Gives how often it came without a line before this one, or nothing if there is no line for
    /// it now. What is not the last that was told about it has a line at once.
    pub fn another(&self, about: String, what: &str, now: Timestamp) -> Option<u64> {
        let mut known = self.0.lock();
        if let Some(told) = known.get_mut(&about) {
            let same = told.what == what;
            if same && now.duration_since(told.at) < EVERY {
                told.since += 1;
                return None;
            }
            let before = std::mem::replace(told, Told { what: what.to_owned(), at: now, since: 0 });
            return Some(if same { before.since } else { 0 });
        }
        if known.len() >= REMEMBERED {
            known.retain(|_, told| now.duration_since(told.at) < EVERY);
        }
        if known.len() < REMEMBERED {
            known.insert(about, Told { what: what.to_owned(), at: now, since: 0 });
        }
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn the_same_has_one_line_a_minute() {
        let repeats = Repeats::default();
        let lines: Vec<_> = (0..150)
            .filter_map(|second| Some((second, repeats.another("a".into(), "it fails", at(second))?)))
            .collect();
        assert_eq!(lines, [(0, 0), (60, 59), (120, 59)]);
        assert_eq!(repeats.another("b".into(), "it fails", at(150)), Some(0), "about something else");
    }

    #[test]
    fn what_comes_again_after_something_else_is_news() {
        let repeats = Repeats::default();
        let line = |what, second| repeats.another("a".into(), what, at(second)).is_some();
        assert!(line("rolled out", 0) && line("updating", 1) && line("rolled out", 2));
        assert!(!line("rolled out", 3));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let repeats = Repeats::default();
        for number in 0..10 * REMEMBERED {
            assert_eq!(repeats.another(number.to_string(), "", at(0)), Some(0));
        }
        assert_eq!(repeats.0.lock().len(), REMEMBERED);
        repeats.another("a".into(), "", at(120));
        assert_eq!(repeats.0.lock().len(), 1, "what is over is forgotten");
    }
}
