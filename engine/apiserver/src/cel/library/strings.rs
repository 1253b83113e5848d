//! Functions on texts.

use std::sync::Arc;

use regex::Regex;

use super::super::meter::{Meter, VALUE};
use super::super::value::{Error, LONGEST_TEXT, List, Result, Text, Value};
use super::text_format;
use crate::schema::validate::pattern;

/// Bytes of a compiled pattern that are as much work as one value.
const COMPILED: usize = 16;

pub(super) fn call<'a>(function: &str, args: &[Value<'a>], meter: &Meter<'_>) -> Option<Result<Value<'a>>> {
    use Value::{Int, String as Text};
    if let ("join", [Value::List(list), rest @ ..]) = (function, args) {
        return join(list, rest, meter);
    }
    let (Text(text), rest) = args.split_first()? else { return None };
    let made = |result: String| meter.make(result.len()).map(|()| Value::string(result));
    Some(match (function, rest) {
        ("contains", [Text(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Text(part)]) => {
            meter.scan(part.len()).map(|()| Value::Bool(text.starts_with(&**part)))
        }
        ("endsWith", [Text(part)]) => meter.scan(part.len()).map(|()| Value::Bool(text.ends_with(&**part))),
        ("matches", [Text(regex)]) => compiled(regex, meter).map(|regex| Value::Bool(regex.is_match(text))),
        ("find", [Text(regex)]) => legal(regex, meter)
            .and_then(|regex| made(regex.find(text).map_or("", |found| found.as_str()).to_owned())),
        ("findAll", [Text(regex)]) => find_all(text, regex, -1, meter),
        ("findAll", [Text(regex), Int(most)]) => find_all(text, regex, *most, meter),
        ("charAt", [Int(at)]) => char_at(text, *at),
        ("indexOf", [Text(part)]) => index_of(text, part, 0),
        ("indexOf", [Text(part), Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Text(part)]) => last_index_of(text, part, None),
        ("lastIndexOf", [Text(part), Int(from)]) => last_index_of(text, part, Some(*from)),
        ("lowerAscii", []) => made(text.to_ascii_lowercase()),
        ("upperAscii", []) => made(text.to_ascii_uppercase()),
        ("trim", []) => made(text.trim().to_owned()),
        ("replace", [Text(old), Text(new)]) => replace(text, old, new, -1, meter),
        ("replace", [Text(old), Text(new), Int(most)]) => replace(text, old, new, *most, meter),
        ("split", [Text(separator)]) => split(text, separator, -1, meter),
        ("split", [Text(separator), Int(most)]) => split(text, separator, *most, meter),
        ("substring", [Int(start)]) => substring(text, *start, None).and_then(made),
        ("substring", [Int(start), Int(end)]) => substring(text, *start, Some(*end)).and_then(made),
        ("format", [Value::List(list)]) => text_format::format(text, list, meter).map(Value::string),
        ("strings.quote", []) => made(quote(text)),
        ("jsonpatch.escapeKey", []) => made(text.replace('~', "~0").replace('/', "~1")),
        _ => return None,
    })
}

/// A pattern. Only one that the expression itself has is kept: there are as many others as there are objects.
fn compiled(regex: &Text<'_>, meter: &Meter<'_>) -> Result<Arc<Regex>> {
    let compiled = match regex {
        Text::Literal(text) => pattern::compiled(text),
        other => {
            let (compiled, bytes) = pattern::compiled_once(other);
            // To compile takes much longer than to make as many bytes.
            meter.touch(bytes / COMPILED)?;
            compiled
        }
    };
    compiled.ok_or_else(|| {
        let why = pattern::objection(regex).unwrap_or_default();
        Error::new(format!("error parsing regexp: {why}"))
    })
}

fn legal(regex: &Text<'_>, meter: &Meter<'_>) -> Result<Arc<Regex>> {
    compiled(regex, meter).map_err(|error| match meter.is_spent() {
        true => error,
        false => Error::new(format!("Illegal regex: {}", error.0)),
    })
}

fn find_all<'a>(text: &str, regex: &Text<'_>, most: i64, meter: &Meter<'_>) -> Result<Value<'a>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let regex = legal(regex, meter)?;
    parts(regex.find_iter(text).take(most).map(|found| found.as_str()), meter)
}

/// A list of texts, each counted before it is made.
fn parts<'a, 't>(parts: impl Iterator<Item = &'t str>, meter: &Meter<'_>) -> Result<Value<'a>> {
    let mut list = Vec::new();
    for part in parts {
        // The text has a place of its own, with a count of those who hold it.
        meter.touch(1)?;
        meter.make(2 * VALUE + part.len())?;
        list.push(Value::string(part));
    }
    Ok(Value::list(list))
}

fn out_of_range(at: i64) -> Error {
    Error::new(format!("index out of range: {at}"))
}

fn char_at<'a>(text: &str, at: i64) -> Result<Value<'a>> {
    let index = usize::try_from(at).map_err(|_| out_of_range(at))?;
    match text.chars().nth(index) {
        Some(letter) => Ok(Value::string(letter.to_string())),
        None if text.chars().count() == index => Ok(Value::string("")),
        None => Err(out_of_range(at)),
    }
}

/// The byte at which a letter starts, counted in letters; the end of the text is one, too.
fn byte_of(text: &str, letter: usize) -> Option<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(letter)
}

fn index_of<'a>(text: &str, part: &str, from: i64) -> Result<Value<'a>> {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let start = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let found = byte_of(text, start).and_then(|byte| Some(byte + text[byte..].find(part)?));
    Ok(letters_before(text, found))
}

fn last_index_of<'a>(text: &str, part: &str, from: Option<i64>) -> Result<Value<'a>> {
    let letters = text.chars().count() as i64;
    if part.is_empty() {
        return Ok(Value::Int(from.unwrap_or(letters)));
    }
    if from.is_none() && text.len() < part.len() {
        return Ok(Value::Int(-1));
    }
    let from = from.unwrap_or(letters - 1);
    let last = usize::try_from(from).map_err(|_| out_of_range(from))?;
    if last as i64 >= letters {
        return Ok(Value::Int(-1));
    }
    // What starts at this letter or before it ends no later than a part's length behind.
    let end = byte_of(text, last).map_or(text.len(), |byte| byte.saturating_add(part.len()));
    let end = (end..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let found = text[..end].rfind(part);
    Ok(letters_before(text, found))
}

fn letters_before<'a>(text: &str, byte: Option<usize>) -> Value<'a> {
    Value::Int(byte.map_or(-1, |byte| text[..byte].chars().count() as i64))
}

/// As Go splits: nothing between letters when the separator is empty.
fn split<'a>(text: &str, separator: &str, most: i64, meter: &Meter<'_>) -> Result<Value<'a>> {
    let most = match usize::try_from(most) {
        Ok(0) => return Ok(Value::list(Vec::new())),
        Ok(most) => most,
        Err(_) => usize::MAX,
    };
    if !separator.is_empty() {
        return parts(text.splitn(most, separator), meter);
    }
    let (mut rest, mut count) = (text, 0);
    let letters = std::iter::from_fn(|| {
        let letter = rest.chars().next()?;
        count += 1;
        let end = if count == most { rest.len() } else { letter.len_utf8() };
        let (first, tail) = rest.split_at(end);
        rest = tail;
        Some(first)
    });
    parts(letters, meter)
}

fn replace<'a>(text: &str, old: &str, new: &str, most: i64, meter: &Meter<'_>) -> Result<Value<'a>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let count = text.matches(old).count().min(most);
    let length = count.saturating_mul(new.len()).saturating_add(text.len());
    if length > LONGEST_TEXT {
        return Err(Error::too_much());
    }
    meter.make(length)?;
    Ok(Value::string(text.replacen(old, new, most)))
}

fn substring(text: &str, start: i64, end: Option<i64>) -> Result<String> {
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(Error::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let byte = |at: i64| {
        usize::try_from(at).ok().and_then(|letter| byte_of(text, letter)).ok_or_else(|| out_of_range(at))
    };
    let first = byte(start)?;
    let behind = end.map_or(Ok(text.len()), byte)?;
    Ok(text[first..behind].to_owned())
}

fn join<'a>(list: &List<'a>, rest: &[Value<'a>], meter: &Meter<'_>) -> Option<Result<Value<'a>>> {
    let separator: &str = match rest {
        [] => "",
        [Value::String(separator)] => separator,
        _ => return None,
    };
    Some(joined(list, separator, meter))
}

fn joined<'a>(list: &List<'a>, separator: &str, meter: &Meter<'_>) -> Result<Value<'a>> {
    let mut text = String::new();
    for (at, item) in list.iter().enumerate() {
        meter.touch(1)?;
        let Value::String(part) = item else {
            return Err(Error::new(format!("join: invalid input: {item}")));
        };
        let separator = if at == 0 { "" } else { separator };
        meter.make(separator.len() + part.len())?;
        if text.len() + separator.len() + part.len() > LONGEST_TEXT {
            return Err(Error::too_much());
        }
        text.push_str(separator);
        text.push_str(&part);
    }
    Ok(Value::string(text))
}

fn quote(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
