//! Completion indexes as ordered intervals, in the form that the status of an Indexed Job has: `1,3-5,7`.

use std::fmt;

/// A set of completion indexes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Indexes(Vec<Interval>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Interval {
    first: usize,
    last: usize,
}

impl Indexes {
    /// Reads indexes below `completions`; intervals that make no sense are left out.
    pub(super) fn parse(text: &str, completions: usize) -> Indexes {
        let mut intervals: Vec<Interval> = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let mut limits = part.split('-');
            let Some(first) = limits.next().and_then(|first| first.parse::<usize>().ok()) else { continue };
            if first >= completions {
                break;
            }
            let last = match limits.next() {
                Some(last) => match last.parse::<usize>() {
                    Ok(last) => last.min(completions - 1),
                    Err(_) => continue,
                },
                None => first,
            };
            match intervals.last_mut() {
                Some(before) if before.last + 1 == first => before.last = last,
                _ => intervals.push(Interval { first, last }),
            }
        }
        Indexes(intervals)
    }

    /// These and those, given in increasing order.
    pub(super) fn with(&self, ordered: impl IntoIterator<Item = usize>) -> Indexes {
        self.merge(&Indexes(
            ordered.into_iter().map(|index| Interval { first: index, last: index }).collect(),
        ))
    }

    pub(super) fn merge(&self, other: &Indexes) -> Indexes {
        let (mut mine, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut merged: Vec<Interval> = Vec::new();
        loop {
            let next = match (mine.peek(), others.peek()) {
                (Some(one), Some(other)) if one.first < other.first => mine.next(),
                (_, Some(_)) => others.next(),
                (_, None) => mine.next(),
            };
            let Some(next) = next else { return Indexes(merged) };
            match merged.last_mut() {
                Some(before) if next.first <= before.last + 1 => before.last = before.last.max(next.last),
                _ => merged.push(*next),
            }
        }
    }

    pub(super) fn total(&self) -> usize {
        self.0.iter().map(|interval| interval.last + 1 - interval.first).sum()
    }

    pub(super) fn has(&self, index: usize) -> bool {
        let place = self.0.partition_point(|interval| interval.last < index);
        self.0.get(place).is_some_and(|interval| interval.first <= index)
    }

    /// How many indexes both have.
    pub(super) fn common(&self, other: &Indexes) -> usize {
        let (mut mine, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = 0;
        while let (Some(one), Some(another)) = (mine.peek(), others.peek()) {
            common += (one.last.min(another.last) + 1).saturating_sub(one.first.max(another.first));
            if one.last <= another.last {
                mine.next();
            } else {
                others.next();
            }
        }
        common
    }

    /// The first so many indexes below `completions` that are not among these.
    pub(super) fn missing(&self, count: usize, completions: usize) -> Vec<usize> {
        let mut found = Vec::with_capacity(count.min(completions));
        let mut candidate = 0;
        let end = Interval { first: completions, last: completions };
        for interval in self.0.iter().chain([&end]) {
            while candidate < interval.first.min(completions) && found.len() < count {
                found.push(candidate);
                candidate += 1;
            }
            candidate = candidate.max(interval.last + 1);
        }
        found
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, Interval { first, last }) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, completions: usize, expected: &str, total: usize) {
        let indexes = Indexes::parse(text, completions);
        assert_eq!((indexes.to_string().as_str(), indexes.total()), (expected, total), "{text}");
    }

    #[test]
    fn texts_are_read_up_to_the_completions() {
        check("", 5, "", 0);
        check("0", 5, "0", 1);
        check("0,1", 5, "0,1", 2);
        check("0-2", 5, "0-2", 3);
        check("0,2-4,7", 10, "0,2-4,7", 5);
        check("1,2,3", 10, "1-3", 3);
        check("0-9", 5, "0-4", 5);
        check("3,7", 5, "3", 1);
        check("a,2", 5, "2", 1);
        check("1-b,2", 5, "2", 1);
        check("-1,2", 5, "2", 1);
    }

    #[test]
    fn sets_are_joined_and_compared() {
        let parse = |text: &str| Indexes::parse(text, 100);
        let joined = |one: &str, other: &str| parse(one).merge(&parse(other)).to_string();
        assert_eq!(joined("", "1,3"), "1,3");
        assert_eq!(joined("0,2,4", "1,3"), "0-4");
        assert_eq!(joined("1-3", "2-5"), "1-5");
        assert_eq!(joined("1-9", "3,4"), "1-9");
        assert_eq!(joined("1,7", "3-5"), "1,3-5,7");
        assert_eq!(parse("0,2").with([1, 5]).to_string(), "0-2,5");
        assert_eq!(parse("0-3,7").common(&parse("2-8")), 3);
        assert_eq!(parse("0-3").common(&parse("4-8")), 0);
        assert_eq!(parse("0-9").common(&parse("1,3,5-7")), 5);
        for (index, expected) in [(0, false), (1, true), (2, false), (4, true), (6, false)] {
            assert_eq!(parse("1,3-5").has(index), expected, "{index}");
        }
    }

    #[test]
    fn what_is_missing_comes_in_order() {
        let missing = |text: &str, count, completions| Indexes::parse(text, 100).missing(count, completions);
        assert_eq!(missing("", 3, 5), [0, 1, 2]);
        assert_eq!(missing("0,2-3", 3, 5), [1, 4]);
        assert_eq!(missing("0,2-3", 1, 5), [1]);
        assert_eq!(missing("0-4", 2, 5), [0; 0]);
        assert_eq!(missing("1,7-9", 10, 5), [0, 2, 3, 4]);
    }
}
