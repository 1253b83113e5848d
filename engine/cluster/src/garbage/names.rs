//! Small forms of what a graph of many objects repeats: uids, kinds and namespaces.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// An object's uid: sixteen bytes where it is a UUID, as it nearly always is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Uid(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Uuid([u8; 16]),
    Other(Arc<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let uid = Uid(parse_uuid(text).map_or_else(|| Form::Other(text.into()), Form::Uuid));
        debug_assert_eq!(uid.to_string(), text);
        uid
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Other(text) => f.write_str(text),
            Form::Uuid(bytes) => {
                for (i, byte) in bytes.iter().enumerate() {
                    if matches!(i, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Only the form that comes out again letter for letter: lower case with its four dashes.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (i, &letter) in text.iter().enumerate() {
        if matches!(i, 8 | 13 | 18 | 23) {
            if letter != b'-' {
                return None;
            }
            continue;
        }
        let value = match letter {
            b'0'..=b'9' => letter - b'0',
            b'a'..=b'f' => letter - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] = bytes[digits / 2] << 4 | value;
        digits += 1;
    }
    Some(bytes)
}

/// An API version and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind(Arc<(String, String)>);

impl Kind {
    pub(super) fn api_version(&self) -> &str {
        &self.0.0
    }

    pub(super) fn name(&self) -> &str {
        &self.0.1
    }
}

/// Gives equal names one place in memory.
#[derive(Default)]
pub(super) struct Names {
    kinds: BTreeSet<Kind>,
    texts: BTreeSet<Arc<str>>,
}

impl Names {
    pub(super) fn kind(&mut self, api_version: &str, kind: &str) -> Kind {
        let wanted = Kind(Arc::new((api_version.to_owned(), kind.to_owned())));
        match self.kinds.get(&wanted) {
            Some(known) => known.clone(),
            None => {
                self.kinds.insert(wanted.clone());
                wanted
            }
        }
    }

    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        match self.texts.get(text) {
            Some(known) => known.clone(),
            None => {
                let text: Arc<str> = text.into();
                self.texts.insert(text.clone());
                text
            }
        }
    }

    /// Lets go of what nobody uses any more.
    pub(super) fn sweep(&mut self) {
        self.kinds.retain(|kind| Arc::strong_count(&kind.0) > 1);
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_come_out_as_they_went_in() {
        for text in [
            "6f2c1a90-0b7e-4c55-9d39-8a1f00ff1234",
            "6F2C1A90-0b7e-4c55-9d39-8a1f00ff1234",
            "6f2c1a90-0b7e-4c55-9d39+8a1f00ff1234",
            "not-a-uuid",
            "",
        ] {
            assert_eq!(Uid::from(text).to_string(), text);
        }
        assert!(size_of::<Uid>() <= 24);
    }
}
