//! Paths into objects, and what is wrong at them, in the words Kubernetes uses.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use crate::schema::depth;

/// A path to a field: `spec.template.spec.containers[0].name`, `metadata.labels[app]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path(String);

impl Path {
    /// The object itself.
    pub fn root() -> Self {
        Path(String::new())
    }

    /// A path that starts at a field of the object; dots may be part of it.
    pub fn new(name: &str) -> Self {
        Path(name.to_owned())
    }

    /// The field `name` below this one.
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Path(name.to_owned()) } else { Path(format!("{}.{name}", self.0)) }
    }

    /// The item of a list.
    pub fn index(&self, index: usize) -> Self {
        Path(format!("{}[{index}]", self.0))
    }

    /// The entry of a map.
    pub fn key(&self, key: &str) -> Self {
        Path(format!("{}[{key}]", self.0))
    }

    /// The path as text; an empty one stands for the object itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The real server prints a nil path this way, and clients show it.
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// What kind of fault a field has. The names are the `reason` of a cause in a Status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooShort,
    TooMany,
    TooFew,
    Internal,
    TypeInvalid,
}

impl Fault {
    /// The machine-readable name, as in `details.causes[].reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Fault::NotFound => "FieldValueNotFound",
            Fault::Required => "FieldValueRequired",
            Fault::Duplicate => "FieldValueDuplicate",
            Fault::Invalid => "FieldValueInvalid",
            Fault::NotSupported => "FieldValueNotSupported",
            Fault::Forbidden => "FieldValueForbidden",
            Fault::TooLong => "FieldValueTooLong",
            Fault::TooShort => "FieldValueTooShort",
            Fault::TooMany => "FieldValueTooMany",
            Fault::TooFew => "FieldValueTooFew",
            Fault::Internal => "InternalError",
            Fault::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Fault::NotFound => "Not found",
            Fault::Required => "Required value",
            Fault::Duplicate => "Duplicate value",
            Fault::Invalid | Fault::TypeInvalid => "Invalid value",
            Fault::NotSupported => "Unsupported value",
            Fault::Forbidden => "Forbidden",
            Fault::TooLong => "Too long",
            Fault::TooShort => "Too short",
            Fault::TooMany => "Too many",
            Fault::TooFew => "Too few",
            Fault::Internal => "Internal error",
        }
    }
}

/// One thing that is wrong with one field.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    pub fault: Fault,
    pub path: Path,
    /// The offending value, where the message shows it.
    pub value: Option<Value>,
    pub detail: String,
}

impl Error {
    fn new(fault: Fault, path: &Path, value: Option<Value>, detail: impl Into<String>) -> Self {
        Error { fault, path: path.clone(), value, detail: detail.into() }
    }

    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(Fault::Required, path, None, detail)
    }

    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(Fault::Invalid, path, Some(value.into()), detail)
    }

    pub fn type_invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(Fault::TypeInvalid, path, Some(value.into()), detail)
    }

    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(Fault::Duplicate, path, Some(value.into()), "")
    }

    pub fn not_found(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(Fault::NotFound, path, Some(value.into()), "")
    }

    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(Fault::Forbidden, path, None, detail)
    }

    /// `supported` is shown in the order given.
    pub fn not_supported(path: &Path, value: impl Into<Value>, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let detail =
            if list.is_empty() { String::new() } else { format!("supported values: {}", list.join(", ")) };
        Self::new(Fault::NotSupported, path, Some(value.into()), detail)
    }

    pub fn too_long(path: &Path, most: usize) -> Self {
        let unit = if most == 1 { "byte" } else { "bytes" };
        Self::new(Fault::TooLong, path, None, format!("may not be more than {most} {unit}"))
    }

    pub fn too_many(path: &Path, actual: usize, most: usize) -> Self {
        let unit = if most == 1 { "item" } else { "items" };
        Self::new(Fault::TooMany, path, Some(actual.into()), format!("must have at most {most} {unit}"))
    }

    pub fn internal(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(Fault::Internal, path, None, detail)
    }

    /// About how much of an answer the value takes.
    fn value_size(&self) -> usize {
        match &self.value {
            Some(Value::String(text)) => text.len().min(MOST_OF_VALUE),
            Some(value) => depth::written_size(value).min(MOST_OF_VALUE),
            None => 0,
        }
    }

    /// The message without the field's name, as in `details.causes[].message`.
    pub fn body(&self) -> String {
        let mut text = self.fault.words().to_owned();
        let shows_value = !matches!(
            self.fault,
            Fault::Required | Fault::Forbidden | Fault::TooLong | Fault::TooShort | Fault::Internal
        );
        if let (true, Some(value)) = (shows_value, &self.value) {
            match value {
                Value::String(value) => {
                    text.push_str(": ");
                    text.push_str(&shortened(go_quoted(value), MOST_OF_VALUE));
                }
                other => {
                    text.push_str(": ");
                    text.push_str(&shortened(other.to_string(), MOST_OF_VALUE));
                }
            }
        }
        if !self.detail.is_empty() {
            text.push_str(&format!(": {}", self.detail));
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

/// A string as Go's `%q` writes it.
fn go_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Of more faults than this an answer lists the first.
pub const MOST_FAULTS: usize = 1000;
/// Faults are listed until their words are this long.
const MOST_TEXT: usize = 128 * 1024;
/// Of a value that is longer than this a fault shows the beginning.
const MOST_OF_VALUE: usize = 8 * 1024;

/// The faults that an answer lists: as many as a reader can use. An object of a few megabytes can have
/// hundreds of thousands, and each may quote it.
pub fn listed(errors: &[Error]) -> &[Error] {
    let mut length = 0;
    let fits = errors.iter().take(MOST_FAULTS).take_while(|error| {
        let before = length;
        length += error.path.as_str().len() + error.detail.len() + error.value_size();
        before < MOST_TEXT
    });
    &errors[..fits.count()]
}

/// The text, or the beginning of one that is longer than `most` bytes.
pub fn shortened(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}... ({} more bytes)", &text[..end], text.len() - end)
}

/// Many faults as one line: alone as it is, several in brackets, the same one only once.
pub fn aggregate(errors: &[Error]) -> String {
    let shown = listed(errors);
    let mut seen = HashSet::with_capacity(shown.len());
    let mut texts: Vec<String> =
        shown.iter().map(Error::to_string).filter(|text| seen.insert(text.clone())).collect();
    if shown.len() < errors.len() {
        texts.push(format!("and {} more", errors.len() - shown.len()));
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_like_the_real_servers() {
        let path = Path::new("spec").child("containers").index(0).child("name");
        assert_eq!(Error::required(&path, "").to_string(), "spec.containers[0].name: Required value");
        assert_eq!(
            Error::invalid(&path, "a_b", "no underscores").to_string(),
            r#"spec.containers[0].name: Invalid value: "a_b": no underscores"#
        );
        assert_eq!(
            Error::not_supported(&path, "x", &["A", "B"]).to_string(),
            r#"spec.containers[0].name: Unsupported value: "x": supported values: "A", "B""#
        );
        let twice = [Error::required(&path, ""), Error::required(&path, "")];
        assert_eq!(aggregate(&twice), "spec.containers[0].name: Required value");
    }
}
