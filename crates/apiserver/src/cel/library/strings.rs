//! Functions on texts.

use super::super::value::{Error, LONGEST_TEXT, Result, Value};
use super::text_format;
use crate::schema::validate::pattern;

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    use Value::{Int, String as Text};
    if let ("join", [Value::List(list), rest @ ..]) = (function, args) {
        return join(&list.items, rest);
    }
    let (Text(text), rest) = args.split_first()? else { return None };
    Some(match (function, rest) {
        ("contains", [Text(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Text(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Text(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("matches", [Text(regex)]) => compiled(regex).map(|regex| Value::Bool(regex.is_match(text))),
        ("find", [Text(regex)]) => {
            legal(regex).map(|regex| Value::string(regex.find(text).map_or("", |found| found.as_str())))
        }
        ("findAll", [Text(regex)]) => find_all(text, regex, -1),
        ("findAll", [Text(regex), Int(most)]) => find_all(text, regex, *most),
        ("charAt", [Int(at)]) => char_at(text, *at),
        ("indexOf", [Text(part)]) => index_of(text, part, 0),
        ("indexOf", [Text(part), Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Text(part)]) => last_index_of(text, part, None),
        ("lastIndexOf", [Text(part), Int(from)]) => last_index_of(text, part, Some(*from)),
        ("lowerAscii", []) => Ok(Value::string(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::string(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::string(text.trim())),
        ("replace", [Text(old), Text(new)]) => replace(text, old, new, -1),
        ("replace", [Text(old), Text(new), Int(most)]) => replace(text, old, new, *most),
        ("split", [Text(separator)]) => Ok(split(text, separator, -1)),
        ("split", [Text(separator), Int(most)]) => Ok(split(text, separator, *most)),
        ("substring", [Int(start)]) => substring(text, *start, None),
        ("substring", [Int(start), Int(end)]) => substring(text, *start, Some(*end)),
        ("format", [Value::List(list)]) => text_format::format(text, &list.items).map(Value::string),
        ("strings.quote", []) => Ok(Value::string(quote(text))),
        _ => return None,
    })
}

fn compiled(regex: &str) -> Result<std::sync::Arc<regex::Regex>> {
    pattern::compiled(regex).ok_or_else(|| {
        let why = pattern::objection(regex).unwrap_or_default();
        Error::new(format!("error parsing regexp: {why}"))
    })
}

fn legal(regex: &str) -> Result<std::sync::Arc<regex::Regex>> {
    compiled(regex).map_err(|error| Error::new(format!("Illegal regex: {}", error.0)))
}

fn find_all<'a>(text: &str, regex: &str, most: i64) -> Result<Value<'a>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let regex = legal(regex)?;
    Ok(Value::list(regex.find_iter(text).take(most).map(|found| Value::string(found.as_str())).collect()))
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

fn index_of<'a>(text: &str, part: &str, from: i64) -> Result<Value<'a>> {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let start = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let (letters, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    let found = (start..letters.len()).find(|at| letters[*at..].starts_with(&part));
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

fn last_index_of<'a>(text: &str, part: &str, from: Option<i64>) -> Result<Value<'a>> {
    let (letters, wanted): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    if part.is_empty() {
        return Ok(Value::Int(from.unwrap_or(letters.len() as i64)));
    }
    if from.is_none() && text.len() < part.len() {
        return Ok(Value::Int(-1));
    }
    let from = from.unwrap_or(letters.len() as i64 - 1);
    let last = usize::try_from(from).map_err(|_| out_of_range(from))?;
    if last >= letters.len() {
        return Ok(Value::Int(-1));
    }
    let found = (0..=last).rev().find(|at| letters[*at..].starts_with(&wanted));
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

/// As Go splits: nothing between letters when the separator is empty.
fn split<'a>(text: &str, separator: &str, most: i64) -> Value<'a> {
    let most = match usize::try_from(most) {
        Ok(0) => return Value::list(Vec::new()),
        Ok(most) => most,
        Err(_) => usize::MAX,
    };
    let parts: Vec<Value<'a>> = if separator.is_empty() {
        let mut rest = text;
        let mut parts = Vec::new();
        while let Some(letter) = rest.chars().next() {
            if parts.len() + 1 == most {
                parts.push(Value::string(rest));
                break;
            }
            let (first, tail) = rest.split_at(letter.len_utf8());
            parts.push(Value::string(first));
            rest = tail;
        }
        parts
    } else {
        text.splitn(most, separator).map(Value::string).collect()
    };
    Value::list(parts)
}

fn replace<'a>(text: &str, old: &str, new: &str, most: i64) -> Result<Value<'a>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let count = text.matches(old).count().min(most);
    match count.saturating_mul(new.len()).saturating_add(text.len()) > LONGEST_TEXT {
        true => Err(Error::too_much()),
        false => Ok(Value::string(text.replacen(old, new, most))),
    }
}

fn substring<'a>(text: &str, start: i64, end: Option<i64>) -> Result<Value<'a>> {
    let letters: Vec<char> = text.chars().collect();
    let length = letters.len() as i64;
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(Error::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let end = end.unwrap_or(length);
    for at in [start, end] {
        if !(0..=length).contains(&at) {
            return Err(out_of_range(at));
        }
    }
    Ok(Value::string(letters[start as usize..end as usize].iter().collect::<String>()))
}

fn join<'a>(items: &[Value<'a>], rest: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    let separator = match rest {
        [] => "",
        [Value::String(separator)] => separator,
        _ => return None,
    };
    let mut parts = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::String(text) => parts.push(&**text),
            other => return Some(Err(Error::new(format!("join: invalid input: {other}")))),
        }
    }
    let length: usize = parts.iter().map(|part| part.len() + separator.len()).sum();
    match length > LONGEST_TEXT {
        true => Some(Err(Error::too_much())),
        false => Some(Ok(Value::string(parts.join(separator)))),
    }
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
