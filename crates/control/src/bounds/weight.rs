//! How much memory JSON becomes once it is read: three letters on the wire may be a struct of a kilobyte.

/// An object that stands in a list is read into a struct, whatever it says: `{}` is a whole Pod. Most take less than this; the
/// largest take up to four times as much.
const ELEMENT: u64 = 1024;
/// An object that says anything is, where its kind is not known, a node of a tree with room for more.
const MAP: u64 = 640;
/// Anything else that stands in a list or an object.
const VALUE: u64 = 64;

/// Weighs a text as it comes in, chunk by chunk. It need not be JSON: then it weighs something, and is refused later.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scale {
    weight: u64,
    inside: Inside,
    /// The last byte that means something, outside of strings.
    last: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Nothing,
    Text,
    /// After a backslash.
    Escape,
}

impl Scale {
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// Takes in the next bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.weight += bytes.len() as u64;
        for byte in bytes {
            self.inside = match (self.inside, byte) {
                (Inside::Text, b'\\') => Inside::Escape,
                (Inside::Text, b'"') => Inside::Nothing,
                (Inside::Text | Inside::Escape, _) => Inside::Text,
                (Inside::Nothing, b' ' | b'\n' | b'\r' | b'\t') => Inside::Nothing,
                (Inside::Nothing, byte) => {
                    self.weight += self.costs(*byte);
                    self.last = *byte;
                    if *byte == b'"' { Inside::Text } else { Inside::Nothing }
                }
            };
        }
    }

    /// What comes with a byte, beyond itself. Behind a comma or at the begin of a list, a brace opens an element; a field's value
    /// comes behind a colon.
    fn costs(&self, byte: u8) -> u64 {
        match (self.last, byte) {
            (b'[' | b',', b'{') => ELEMENT,
            (b'{', b'"') => MAP,
            (_, b',') => VALUE,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(text: &str) -> u64 {
        let mut whole = Scale::default();
        whole.add(text.as_bytes());
        // However it is cut, it weighs the same.
        for size in [1, 3, 7] {
            let mut cut = Scale::default();
            text.as_bytes().chunks(size).for_each(|chunk| cut.add(chunk));
            assert_eq!(cut.weight(), whole.weight(), "{text} {size}");
        }
        whole.weight() - text.len() as u64
    }

    #[test]
    fn elements_and_maps_weigh_what_they_become() {
        assert_eq!(weight("[{},{},{}]"), 3 * ELEMENT + 2 * VALUE);
        assert_eq!(weight("[ {} , \n {} ]"), 2 * ELEMENT + VALUE);
        assert_eq!(weight(r#"{"a":{},"b":{"c":[1,2]}}"#), 2 * MAP + 2 * VALUE);
        assert_eq!(weight(r#"{"items":[{"a":1}]}"#), 2 * MAP + ELEMENT);
    }

    #[test]
    fn texts_weigh_what_they_are_long() {
        assert_eq!(weight(r#"["[{},{},{}]","\"{,{,","\\"]"#), 2 * VALUE);
        assert_eq!(weight("no JSON at all"), 0);
    }

    /// What is read of the shortest text takes at most four times what it weighs, whichever kind it is.
    #[test]
    fn what_is_read_is_in_proportion_to_what_it_weighs() {
        use k8s_openapi::api::apps::v1::Deployment;
        use k8s_openapi::api::core::v1::{Container, PersistentVolume, Pod, Volume};
        let largest = [
            size_of::<Deployment>(),
            size_of::<Pod>(),
            size_of::<Container>(),
            size_of::<Volume>(),
            size_of::<PersistentVolume>(),
        ];
        assert!(largest.iter().all(|size| *size as u64 <= 4 * ELEMENT), "{largest:?}");
        assert!(size_of::<serde_json::Value>() as u64 <= VALUE);
    }
}
