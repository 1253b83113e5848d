//! Tells contents apart in eight bytes, the same on every machine and in every release.

use serde_json::Value;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;
/// Neither vowels nor what looks alike: no name made of these is a word.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const LENGTH: usize = 10;

/// A number that differs where contents do, in whatever order their fields come.
pub(crate) fn digest(value: &Value) -> u64 {
    let mut state = OFFSET;
    visit(value, &mut |bytes| {
        for byte in bytes {
            state = (state ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    });
    state
}

/// The number as the last part of a name.
pub(crate) fn letters(mut digest: u64) -> String {
    let mut letter = || {
        let at = usize::try_from(digest % LETTERS.len() as u64).unwrap_or_default();
        digest /= LETTERS.len() as u64;
        char::from(LETTERS[at])
    };
    (0..LENGTH).map(|_| letter()).collect()
}

fn visit(value: &Value, take: &mut impl FnMut(&[u8])) {
    match value {
        Value::Null => take(b"n"),
        Value::Bool(bool) => take(if *bool { b"t" } else { b"f" }),
        Value::Number(number) => text(b'#', &number.to_string(), take),
        Value::String(string) => text(b'"', string, take),
        Value::Array(items) => {
            take(b"[");
            items.iter().for_each(|item| visit(item, take));
            take(b"]");
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            take(b"{");
            for (name, value) in fields {
                text(b'"', name, take);
                visit(value, take);
            }
            take(b"}");
        }
    }
}

/// The length keeps two texts apart from one that looks like both.
fn text(mark: u8, text: &str, take: &mut impl FnMut(&[u8])) {
    take(&[mark]);
    take(&(text.len() as u64).to_le_bytes());
    take(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn order_does_not_matter_and_content_does() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#).unwrap();
        let same: Value = serde_json::from_str(r#"{"b":{"d":null,"c":[1,2]},"a":1}"#).unwrap();
        assert_eq!(digest(&one), digest(&same));
        for other in [json!({"a": 1}), json!({"a": "1"}), json!(["ab", "c"]), json!(["a", "bc"]), json!({})] {
            assert_ne!(digest(&one), digest(&other));
        }
        assert_ne!(digest(&json!(["ab", "c"])), digest(&json!(["a", "bc"])));
    }

    #[test]
    fn names_stay_what_they_are() {
        assert_eq!(letters(digest(&json!({"spec": {"containers": []}}))).len(), LENGTH);
        assert_eq!(letters(0), "bbbbbbbbbb");
        assert_ne!(letters(1), letters(27));
    }
}
