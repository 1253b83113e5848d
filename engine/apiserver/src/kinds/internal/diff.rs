//! Unified diffs, found the way Python's difflib (and Go's copy of it) finds them, because its choice of
//! what counts as unchanged shows in messages.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

const CONTEXT: usize = 3;
/// From this many lines on, lines that are everywhere no longer anchor a match.
const POPULAR_FROM: usize = 200;

/// What turns `old` into `new`, line by line, with three lines of context and no header.
pub(super) fn unified(old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut text = String::new();
    for hunk in hunks(changes(&a, &b), a.len(), b.len()) {
        let (first, last) = (&hunk[0], &hunk[hunk.len() - 1]);
        let range = |start: usize, end: usize| match end - start {
            1 => format!("{}", start + 1),
            0 => format!("{start},0"),
            length => format!("{},{length}", start + 1),
        };
        let (was, is) = (range(first.a.start, last.a.end), range(first.b.start, last.b.end));
        writeln!(text, "@@ -{was} +{is} @@").expect("writing to a string does not fail");
        for part in &hunk {
            let mut lines = |mark: char, lines: &[&str]| {
                for line in lines {
                    text.push(mark);
                    text.push_str(line);
                    text.push('\n');
                }
            };
            if part.same {
                lines(' ', &a[part.a.clone()]);
            } else {
                lines('-', &a[part.a.clone()]);
                lines('+', &b[part.b.clone()]);
            }
        }
    }
    text
}

#[derive(Clone)]
struct Part {
    same: bool,
    a: Range<usize>,
    b: Range<usize>,
}

/// Both texts cut into parts that are the same and parts that are not.
fn changes(a: &[&str], b: &[&str]) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut at_a, mut at_b) = (0, 0);
    let mut blocks = matching_blocks(a, b);
    blocks.push((a.len(), b.len(), 0));
    for (start_a, start_b, size) in blocks {
        if at_a < start_a || at_b < start_b {
            parts.push(Part { same: false, a: at_a..start_a, b: at_b..start_b });
        }
        if size > 0 {
            parts.push(Part { same: true, a: start_a..start_a + size, b: start_b..start_b + size });
        }
        (at_a, at_b) = (start_a + size, start_b + size);
    }
    parts
}

/// Parts that belong together: what is unchanged between two changes is cut where it is long.
fn hunks(mut parts: Vec<Part>, len_a: usize, len_b: usize) -> Vec<Vec<Part>> {
    if parts.is_empty() {
        parts.push(Part { same: true, a: 0..len_a.min(1), b: 0..len_b.min(1) });
    }
    if let Some(first) = parts.first_mut().filter(|part| part.same) {
        first.a.start = first.a.start.max(first.a.end.saturating_sub(CONTEXT));
        first.b.start = first.b.start.max(first.b.end.saturating_sub(CONTEXT));
    }
    if let Some(last) = parts.last_mut().filter(|part| part.same) {
        last.a.end = last.a.end.min(last.a.start + CONTEXT);
        last.b.end = last.b.end.min(last.b.start + CONTEXT);
    }
    let mut hunks = Vec::new();
    let mut hunk: Vec<Part> = Vec::new();
    for part in parts {
        if part.same && part.a.len() > 2 * CONTEXT {
            let Part { a, b, .. } = part.clone();
            hunk.push(Part { same: true, a: a.start..a.start + CONTEXT, b: b.start..b.start + CONTEXT });
            hunks.push(std::mem::take(&mut hunk));
            hunk.push(Part { same: true, a: a.end - CONTEXT..a.end, b: b.end - CONTEXT..b.end });
        } else {
            hunk.push(part);
        }
    }
    hunks.push(hunk);
    hunks.retain(|hunk| hunk.iter().any(|part| !part.same));
    hunks
}

fn matching_blocks(a: &[&str], b: &[&str]) -> Vec<(usize, usize, usize)> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in b.iter().enumerate() {
        places.entry(line).or_default().push(index);
    }
    if b.len() >= POPULAR_FROM {
        places.retain(|_, indexes| indexes.len() <= b.len() / 100 + 1);
    }
    let mut found = Vec::new();
    let mut left = vec![(0..a.len(), 0..b.len())];
    while let Some((in_a, in_b)) = left.pop() {
        let (start_a, start_b, size) = longest_match(a, b, &places, in_a.clone(), in_b.clone());
        if size == 0 {
            continue;
        }
        found.push((start_a, start_b, size));
        if in_a.start < start_a && in_b.start < start_b {
            left.push((in_a.start..start_a, in_b.start..start_b));
        }
        if start_a + size < in_a.end && start_b + size < in_b.end {
            left.push((start_a + size..in_a.end, start_b + size..in_b.end));
        }
    }
    found.sort_unstable();
    // Blocks that touch are one.
    let mut blocks: Vec<(usize, usize, usize)> = Vec::new();
    for (start_a, start_b, size) in found {
        match blocks.last_mut() {
            Some((a, b, length)) if *a + *length == start_a && *b + *length == start_b => *length += size,
            _ => blocks.push((start_a, start_b, size)),
        }
    }
    blocks
}

fn longest_match(
    a: &[&str],
    b: &[&str],
    places: &HashMap<&str, Vec<usize>>,
    in_a: Range<usize>,
    in_b: Range<usize>,
) -> (usize, usize, usize) {
    let (mut best_a, mut best_b, mut best) = (in_a.start, in_b.start, 0);
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for i in in_a.clone() {
        let mut next = HashMap::new();
        for &j in places.get(a[i]).into_iter().flatten() {
            if j < in_b.start {
                continue;
            }
            if j >= in_b.end {
                break;
            }
            let length = j.checked_sub(1).and_then(|before| lengths.get(&before)).copied().unwrap_or(0) + 1;
            next.insert(j, length);
            if length > best {
                (best_a, best_b, best) = (i + 1 - length, j + 1 - length, length);
            }
        }
        lengths = next;
    }
    // Lines that were too common to anchor a match may still extend one.
    while best_a > in_a.start && best_b > in_b.start && a[best_a - 1] == b[best_b - 1] {
        (best_a, best_b, best) = (best_a - 1, best_b - 1, best + 1);
    }
    while best_a + best < in_a.end && best_b + best < in_b.end && a[best_a + best] == b[best_b + best] {
        best += 1;
    }
    (best_a, best_b, best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_with_their_context() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk";
        let new = "a\nb\nc\nd\nX\nf\ng\nh\ni\nj\nk\nl";
        assert_eq!(unified(old, new), "@@ -2,10 +2,11 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n i\n j\n k\n+l\n");
        assert_eq!(unified("a", "a"), "");
    }
}
