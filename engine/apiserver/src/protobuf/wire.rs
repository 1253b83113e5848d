//! The wire format: tags, varints and pieces with a length. Reads as the code generated for Kubernetes'
//! Go types reads, with its errors.

use super::Fault;

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const DELIMITED: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// What precedes a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) number: i32,
    pub(super) wire: u8,
}

/// Walks over the fields of one message.
pub(super) struct Reader<'a> {
    /// What Go calls the message.
    message: &'static str,
    data: &'a [u8],
    at: usize,
}

impl Tag {
    /// Go's name of the field is for the message.
    pub(super) fn expect(self, wire: u8, go_name: impl std::fmt::Display) -> Result<(), Fault> {
        if self.wire == wire {
            return Ok(());
        }
        Err(Fault(format!("proto: wrong wireType = {} for field {go_name}", self.wire)))
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'static str, data: &'a [u8]) -> Self {
        Reader { message, data, at: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.at >= self.data.len()
    }

    /// The next tag, `None` at the end of the message.
    pub(super) fn tag(&mut self) -> Result<Option<Tag>, Fault> {
        if self.is_done() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let message = self.message;
        let (number, wire) = ((tag >> 3) as i32, (tag & 7) as u8);
        if wire == END_GROUP {
            return Err(Fault(format!("proto: {message}: wiretype end group for non-group")));
        }
        if number <= 0 {
            return Err(Fault(format!("proto: {message}: illegal tag {number} (wire type {tag})")));
        }
        Ok(Some(Tag { number, wire }))
    }

    /// Bits beyond the 64th are dropped, as in Go; an eleventh byte is an error.
    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.data.get(self.at).ok_or_else(Fault::truncated)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Fault("proto: integer overflow".into()))
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, Fault> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were taken")))
    }

    /// A length and that many bytes.
    pub(super) fn delimited(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.varint()?;
        self.take(length)
    }

    /// Go's lengths are signed, and so is the position that they lead to.
    fn take(&mut self, length: u64) -> Result<&'a [u8], Fault> {
        let end = i64::try_from(length).ok().and_then(|length| length.checked_add(self.at as i64));
        let end = end.ok_or_else(Fault::negative_length)? as usize;
        let taken = self.data.get(self.at..end).ok_or_else(Fault::truncated)?;
        self.at = end;
        Ok(taken)
    }

    /// Passes over the value of a field that nobody knows, groups and what is in them included.
    pub(super) fn skip(&mut self, tag: Tag) -> Result<(), Fault> {
        let (mut wire, mut depth) = (tag.wire, 0usize);
        loop {
            match wire {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.take(8)?),
                DELIMITED => drop(self.delimited()?),
                START_GROUP => depth += 1,
                END_GROUP if depth == 0 => return Err(Fault("proto: unexpected end of group".into())),
                END_GROUP => depth -= 1,
                FIXED32 => drop(self.take(4)?),
                other => return Err(Fault(format!("proto: illegal wireType {other}"))),
            }
            if depth == 0 {
                return Ok(());
            }
            wire = (self.varint()? & 7) as u8;
        }
    }
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_tag(out: &mut Vec<u8>, number: u16, wire: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire));
}

pub(super) fn put_bytes(out: &mut Vec<u8>, number: u16, bytes: &[u8]) {
    put_tag(out, number, DELIMITED);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A field whose bytes `write` appends. Most are short: one byte is kept free for the length, and the
/// rest moves up when that is not enough.
pub(super) fn put_nested(out: &mut Vec<u8>, number: u16, write: impl FnOnce(&mut Vec<u8>)) {
    put_tag(out, number, DELIMITED);
    let start = out.len();
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
        return;
    }
    let mut prefix = Vec::with_capacity(10);
    put_varint(&mut prefix, length as u64);
    out.splice(start..=start, prefix);
}
