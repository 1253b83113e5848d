//! How deep values nest.
//!
//! Whatever walks a value calls itself once for each level, and what reads the store's JSON stops at 127 of them, so a
//! value that is taken in has fewer: the record of who owns which field nests a few levels deeper than the object itself.

use serde_json::Value;

/// How many objects and lists of an object's own may be inside each other.
pub(crate) const DEEPEST: usize = 100;
/// The same for all that is stored of it, the record of its owners included.
pub(crate) const DEEPEST_STORED: usize = 120;

/// Whether an object may be stored.
pub(crate) fn may_be_stored(object: &Value) -> bool {
    let own = |(key, value): (&String, &Value)| key == "managedFields" || at_most(value, DEEPEST - 2);
    let fields = object.as_object().into_iter().flatten();
    at_most(object, DEEPEST_STORED)
        && fields.into_iter().all(|(key, value)| match value.as_object().filter(|_| key == "metadata") {
            Some(metadata) => metadata.iter().all(own),
            None => at_most(value, DEEPEST - 1),
        })
}

/// Whether at most `levels` objects and lists are inside each other here.
pub(crate) fn at_most(value: &Value, levels: usize) -> bool {
    match value {
        Value::Object(fields) => levels > 0 && fields.values().all(|one| at_most(one, levels - 1)),
        Value::Array(items) => levels > 0 && items.iter().all(|one| at_most(one, levels - 1)),
        _ => true,
    }
}

/// How many bytes the value takes as JSON.
pub(crate) fn written_size(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("counting does not fail");
    count.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn levels_are_counted_along_the_longest_way() {
        let value = json!({"a": [1, {"b": {}}], "c": 2});
        assert!(at_most(&value, 4) && !at_most(&value, 3));
        assert!(at_most(&json!("text"), 0) && !at_most(&json!([]), 0));
        assert_eq!(written_size(&value), value.to_string().len());
    }
}
