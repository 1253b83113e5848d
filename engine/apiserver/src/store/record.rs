//! How an entry is written in the journal: revision, labels, body.

use super::{Entry, Labels};

/// Writes an entry at the end of `out`. Lengths are 32 bits: a body is the rest.
pub(super) fn encode(entry: &Entry, out: &mut Vec<u8>) {
    out.extend_from_slice(&entry.revision.to_le_bytes());
    put_length(out, entry.labels.iter().len());
    for (key, value) in entry.labels.iter() {
        for text in [key, value] {
            put_length(out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
    }
    out.extend_from_slice(&entry.body);
}

/// Reads what `encode` wrote; nothing when it cannot have been that.
pub(super) fn decode(record: &[u8]) -> Option<Entry> {
    let (revision, mut rest) = record.split_first_chunk()?;
    let count = take_length(&mut rest)?;
    // Each label takes eight bytes at least, so a wild count is noticed before memory is taken for it.
    if count > rest.len() / 8 {
        return None;
    }
    let mut labels = Vec::with_capacity(count);
    for _ in 0..count {
        labels.push((take_text(&mut rest)?, take_text(&mut rest)?));
    }
    Some(Entry {
        revision: u64::from_le_bytes(*revision),
        labels: Labels::from_iter(labels),
        body: rest.into(),
    })
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).expect("labels are far shorter than 4 GiB");
    out.extend_from_slice(&length.to_le_bytes());
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let (length, after) = rest.split_first_chunk()?;
    *rest = after;
    usize::try_from(u32::from_le_bytes(*length)).ok()
}

fn take_text(rest: &mut &[u8]) -> Option<Box<str>> {
    let length = take_length(rest)?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    std::str::from_utf8(text).ok().map(Box::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_encoded(
            revision: u64,
            labels in proptest::collection::vec((".{0,9}", ".{0,9}"), 0..4),
            body in proptest::collection::vec(any::<u8>(), 0..99),
        ) {
            let entry = Entry { revision, labels: Labels::from_iter(labels), body: body.into() };
            let mut record = Vec::new();
            encode(&entry, &mut record);
            prop_assert_eq!(decode(&record), Some(entry));
        }

        #[test]
        fn decoding_anything_is_safe(record in proptest::collection::vec(any::<u8>(), 0..64)) {
            decode(&record);
        }
    }
}
