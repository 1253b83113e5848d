//! PEM as Go reads it: anything that is no well-formed block is passed over.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// Base64 as Go reads it: bits that are left over at the end count for nothing.
const STANDARD: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The bytes of a field that JSON carries in base64. Line breaks in it count for nothing.
pub(crate) fn field(encoded: &str) -> Option<Vec<u8>> {
    let text: Vec<u8> = encoded.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    STANDARD.decode(text).ok()
}

/// One block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) label: String,
    pub(crate) bytes: Vec<u8>,
}

/// All blocks of an input.
pub(crate) fn blocks(mut input: &[u8]) -> Vec<Block> {
    let mut blocks = Vec::new();
    while let Some(end) = find(input, END) {
        let (before, from_end) = input.split_at(end);
        let after_marker = &from_end[END.len()..];
        match read(before, after_marker) {
            Some(block) => {
                blocks.push(block);
                input = line(after_marker).1;
            }
            None => input = after_marker,
        }
    }
    blocks
}

/// The block between the last BEGIN of `before` and an END that `after` continues.
fn read(before: &[u8], after: &[u8]) -> Option<Block> {
    let begin = before.windows(BEGIN.len()).rposition(|window| window == BEGIN)?;
    if begin > 0 && before[begin - 1] != b'\n' {
        return None;
    }
    let (first, mut body) = line(&before[begin + BEGIN.len()..]);
    let label = first.strip_suffix(DASHES)?;
    let closing = after.strip_prefix(label)?.strip_prefix(DASHES)?;
    if !line(closing).0.is_empty() || !(body.is_empty() || body.ends_with(b"\n")) {
        return None;
    }
    while let (header, rest) = line(body)
        && header.contains(&b':')
    {
        body = rest;
    }
    let text: Vec<u8> =
        body.iter().copied().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).collect();
    let bytes = STANDARD.decode(text).ok()?;
    Some(Block { label: String::from_utf8_lossy(label).into_owned(), bytes })
}

/// The first line, without blanks at its end, and what follows it.
fn line(input: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match input.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &input[input.len()..]),
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let blanks = line.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    (&line[..line.len() - blanks], rest)
}

fn find(input: &[u8], marker: &[u8]) -> Option<usize> {
    input.windows(marker.len()).position(|window| window == marker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &str, expected: &[(&str, &str)]) {
        let found = blocks(input.as_bytes());
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|block| (block.label.as_str(), std::str::from_utf8(&block.bytes).unwrap()))
            .collect();
        assert_eq!(found, expected, "{input}");
    }

    #[test]
    fn blocks_are_found_among_other_text() {
        check("", &[]);
        check("-----BEGIN A-----\naGk=\n-----END A-----", &[("A", "hi")]);
        check("text\n-----BEGIN A-----\r\naGk=\r\n-----END A-----\r\nmore", &[("A", "hi")]);
        check("-----BEGIN A-----\nK: v\n\naGk=\n-----END A-----\n", &[("A", "hi")]);
        check(
            "-----BEGIN A B-----\naGk=\n-----END A B-----\n-----BEGIN C-----\naG8=\n-----END C-----\n",
            &[("A B", "hi"), ("C", "ho")],
        );
    }

    #[test]
    fn base64_is_read_as_go_reads_it() {
        // Left-over bits, and line breaks where JSON carries a field.
        check("-----BEGIN A-----\naGl=\n-----END A-----", &[("A", "hi")]);
        assert_eq!(field("aG\r\nk=").as_deref(), Some(&b"hi"[..]));
        assert_eq!(field("aGl=").as_deref(), Some(&b"hi"[..]));
        assert_eq!(field("a k="), None);
        // A form feed is no blank: the block is passed over.
        check("-----BEGIN A-----\naG\x0ck=\n-----END A-----", &[]);
    }

    #[test]
    fn what_is_malformed_is_passed_over() {
        check(
            "-----BEGIN A-----\n!!\n-----END A-----\n-----BEGIN C-----\naG8=\n-----END C-----\n",
            &[("C", "ho")],
        );
        check("-----BEGIN A-----\naGk=\n-----END B-----\n", &[]);
        check("x-----BEGIN A-----\naGk=\n-----END A-----\n", &[]);
        check("-----BEGIN X-----\n-----BEGIN A-----\naGk=\n-----END A-----\n", &[("A", "hi")]);
    }
}
