//! JSON as it was written: key order, repeated keys and number literals survive, which messages of the
//! real server show and `serde_json::Value` does not keep.

use std::collections::HashSet;

use serde_json::{Map, Number, Value};

/// How deep objects and lists of a request may nest. What is stored nests less.
const DEEPEST: usize = 128;
/// Deeper than anything that was ever stored, and not too deep for the stack.
const DEEPEST_STORED: usize = 512;
/// How many repeated keys are told of, as of other findings.
const MOST_DUPLICATES: usize = 100;

/// A JSON value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    /// The literal.
    Number(Box<str>),
    String(String),
    Array(Vec<Json>),
    /// In the order of the document; a key may be there twice.
    Object(Vec<(String, Json)>),
}

/// The text is not JSON; the message is what Go says of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SyntaxError(String);

impl Json {
    /// Reads a whole document.
    pub fn parse(text: &[u8]) -> Result<Json, SyntaxError> {
        Self::parse_within(text, DEEPEST)
    }

    /// Reads a document of the store, where objects may be from before there was a limit to what is stored.
    pub(crate) fn parse_stored(text: &[u8]) -> Result<Json, SyntaxError> {
        Self::parse_within(text, DEEPEST_STORED)
    }

    fn parse_within(text: &[u8], deepest: usize) -> Result<Json, SyntaxError> {
        let mut reader = Reader { text, at: 0, depth: 0, deepest };
        reader.space();
        let value = reader.value()?;
        reader.space();
        match reader.peek() {
            None => Ok(value),
            Some(byte) => Err(unexpected(byte, "after top-level value")),
        }
    }

    /// What Go calls this kind of value when it does not fit.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "bool",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// The value as Go's untyped decoding sees it; of a repeated key the last one counts.
    pub fn into_value(self) -> Value {
        self.convert(number)
    }

    /// The value where Go keeps the text itself: `1.0` stays a float.
    pub(crate) fn into_verbatim_value(self) -> Value {
        self.convert(verbatim_number)
    }

    fn convert(self, number: fn(&str) -> Value) -> Value {
        match self {
            Json::Null => Value::Null,
            Json::Bool(flag) => Value::Bool(flag),
            Json::Number(literal) => number(&literal),
            Json::String(text) => Value::String(text),
            Json::Array(items) => Value::Array(items.into_iter().map(|item| item.convert(number)).collect()),
            Json::Object(entries) => {
                let entries = entries.into_iter().map(|(key, value)| (key, value.convert(number)));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    /// The paths of keys that are there twice, for an object that has no Go type; of very many the first.
    pub fn duplicates(&self) -> Vec<String> {
        let mut found = Vec::new();
        collect_duplicates(self, "", &mut found);
        found
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Json::Null,
            Value::Bool(flag) => Json::Bool(flag),
            Value::Number(number) => Json::Number(number.to_string().into()),
            Value::String(text) => Json::String(text),
            Value::Array(items) => Json::Array(items.into_iter().map(Json::from).collect()),
            Value::Object(entries) => {
                Json::Object(entries.into_iter().map(|(key, value)| (key, Json::from(value))).collect())
            }
        }
    }
}

/// A literal as a number: integers that fit 64 bits stay integers, and so does a float without a
/// fraction, because Go writes `1.0` as `1`.
pub(crate) fn number(literal: &str) -> Value {
    match verbatim_number(literal) {
        Value::Number(number) => whole(number).into(),
        other => other,
    }
}

/// A float without a fraction as the integer that Go writes for it.
pub(crate) fn whole(number: Number) -> Number {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => {
            (float as i64).into()
        }
        _ => number,
    }
}

fn verbatim_number(literal: &str) -> Value {
    if let Ok(integer) = literal.parse::<i64>() {
        return integer.into();
    }
    let float: f64 = literal.parse().unwrap_or(f64::MAX);
    Number::from_f64(float).map_or(Value::Null, Value::Number)
}

fn collect_duplicates(json: &Json, path: &str, found: &mut Vec<String>) {
    if found.len() >= MOST_DUPLICATES {
        return;
    }
    match json {
        Json::Object(entries) => {
            let mut seen = HashSet::with_capacity(entries.len());
            for (key, value) in entries {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let again = !seen.insert(key.as_str());
                if again && found.len() < MOST_DUPLICATES && !found.contains(&below) {
                    found.push(below.clone());
                }
                collect_duplicates(value, &below, found);
            }
        }
        Json::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                collect_duplicates(item, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

fn unexpected(byte: u8, context: &str) -> SyntaxError {
    let shown = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x20..=0x7e => format!("'{}'", byte as char),
        _ => match char::from(byte) {
            shown if byte >= 0xa1 => format!("'{shown}'"),
            _ => format!("'\\x{byte:02x}'"),
        },
    };
    SyntaxError(format!("invalid character {shown} {context}"))
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    deepest: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The next byte, which must be there.
    fn next(&mut self) -> Result<u8, SyntaxError> {
        let byte = self.peek().ok_or_else(|| SyntaxError("unexpected end of JSON input".to_owned()))?;
        self.at += 1;
        Ok(byte)
    }

    fn value(&mut self) -> Result<Json, SyntaxError> {
        match self.next()? {
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b'"' => self.string().map(Json::String),
            b't' => self.literal("true", Json::Bool(true)),
            b'f' => self.literal("false", Json::Bool(false)),
            b'n' => self.literal("null", Json::Null),
            first @ (b'-' | b'0'..=b'9') => self.number(first),
            other => Err(unexpected(other, "looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Json, SyntaxError>) -> Result<Json, SyntaxError> {
        self.depth += 1;
        if self.depth > self.deepest {
            return Err(SyntaxError("exceeded max depth".to_owned()));
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Json, SyntaxError> {
        let mut entries = Vec::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(entries));
        }
        loop {
            self.space();
            match self.next()? {
                b'"' => {}
                other => return Err(unexpected(other, "looking for beginning of object key string")),
            }
            let key = self.string()?;
            self.space();
            match self.next()? {
                b':' => {}
                other => return Err(unexpected(other, "after object key")),
            }
            self.space();
            let value = self.value()?;
            entries.push((key, value));
            self.space();
            match self.next()? {
                b',' => {}
                b'}' => return Ok(Json::Object(entries)),
                other => return Err(unexpected(other, "after object key:value pair")),
            }
        }
    }

    fn array(&mut self) -> Result<Json, SyntaxError> {
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            self.space();
            items.push(self.value()?);
            self.space();
            match self.next()? {
                b',' => {}
                b']' => return Ok(Json::Array(items)),
                other => return Err(unexpected(other, "after array element")),
            }
        }
    }

    fn literal(&mut self, word: &'static str, value: Json) -> Result<Json, SyntaxError> {
        for expected in word.chars().skip(1) {
            let byte = self.next()?;
            if byte != expected as u8 {
                return Err(unexpected(byte, &format!("in literal {word} (expecting '{expected}')")));
            }
        }
        Ok(value)
    }

    fn number(&mut self, first: u8) -> Result<Json, SyntaxError> {
        let start = self.at - 1;
        let lead = if first == b'-' { self.next()? } else { first };
        match lead {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            other => return Err(unexpected(other, "in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.one_digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.one_digit("in exponent of numeric literal")?;
            self.digits();
        }
        // Only ASCII was accepted.
        Ok(Json::Number(String::from_utf8_lossy(&self.text[start..self.at]).into()))
    }

    fn one_digit(&mut self, context: &str) -> Result<(), SyntaxError> {
        match self.next()? {
            b'0'..=b'9' => Ok(()),
            other => Err(unexpected(other, context)),
        }
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Result<String, SyntaxError> {
        let mut bytes = Vec::new();
        loop {
            match self.next()? {
                b'"' => break,
                b'\\' => self.escape(&mut bytes)?,
                control @ 0..=0x1f => return Err(unexpected(control, "in string literal")),
                byte => bytes.push(byte),
            }
        }
        // Go puts the replacement character where UTF-8 is broken.
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned()))
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), SyntaxError> {
        let byte = match self.next()? {
            plain @ (b'"' | b'\\' | b'/') => plain,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let unit = self.hex4()?;
                let character = self.combine(unit);
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            other => return Err(unexpected(other, "in string escape code")),
        };
        bytes.push(byte);
        Ok(())
    }

    fn hex4(&mut self) -> Result<u32, SyntaxError> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.next()?;
            let digit = char::from(byte)
                .to_digit(16)
                .ok_or_else(|| unexpected(byte, "in \\u hexadecimal character escape"))?;
            unit = unit * 16 + digit;
        }
        Ok(unit)
    }

    /// A surrogate takes the one that follows; alone it has no meaning.
    fn combine(&mut self, unit: u32) -> char {
        if (0xd800..0xdc00).contains(&unit) && self.text[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            match self.hex4() {
                Ok(low) if (0xdc00..0xe000).contains(&low) => {
                    let point = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    return char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER);
                }
                _ => self.at = before,
            }
        }
        char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_repeats_and_literals_survive() {
        let json = Json::parse(br#" {"b":1e3,"a":[1.0,{"x":1,"x":2}],"b":"\u00e9\ud83d\ude00"} "#).unwrap();
        assert_eq!(json.duplicates(), ["a[1].x", "b"]);
        let Json::Object(entries) = &json else { panic!("an object") };
        assert_eq!(entries[0], ("b".to_owned(), Json::Number("1e3".into())));
        assert_eq!(json.into_value(), serde_json::json!({"a": [1, {"x": 2}], "b": "é😀"}));
    }

    #[test]
    fn syntax_errors_read_as_in_go() {
        for (text, message) in [
            ("{", "unexpected end of JSON input"),
            ("", "unexpected end of JSON input"),
            ("{\"a\":x}", "invalid character 'x' looking for beginning of value"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} {}", "invalid character '{' after top-level value"),
            ("[1.x]", "invalid character 'x' after decimal point in numeric literal"),
            ("[-]", "invalid character ']' in numeric literal"),
            ("[nul1]", "invalid character '1' in literal null (expecting 'l')"),
            ("[\"\\q\"]", "invalid character 'q' in string escape code"),
            ("[\"\n\"]", "invalid character '\\n' in string literal"),
        ] {
            assert_eq!(Json::parse(text.as_bytes()).unwrap_err().to_string(), message, "{text}");
        }
    }
}
