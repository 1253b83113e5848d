//! Addresses of the web, read as Go's `net/url` reads them.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::value::{Error, Map, Result, Value};

/// A parsed URL.
#[derive(Debug)]
pub(in super::super) struct Url {
    text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Url {
    pub(in super::super) fn text(&self) -> &str {
        &self.text
    }

    fn hostname(&self) -> &str {
        let host = match self
            .host
            .rfind(':')
            .filter(|at| self.host[at + 1..].bytes().all(|byte| byte.is_ascii_digit()))
        {
            Some(at) if !self.host.ends_with(']') => &self.host[..at],
            _ => &self.host,
        };
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    fn port(&self) -> &str {
        match self.host.rfind(':') {
            Some(at) if self.host[at + 1..].bytes().all(|byte| byte.is_ascii_digit()) => &self.host[at + 1..],
            _ => "",
        }
    }
}

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    Some(Ok(match (function, args) {
        ("url", [Value::String(text)]) => {
            return Some(parse(text).map(|url| Value::Url(Rc::new(url))).map_err(|why| {
                Error::new(format!("URL parse error during conversion from string: parse {text:?}: {why}"))
            }));
        }
        ("isURL", [Value::String(text)]) => Value::Bool(parse(text).is_ok()),
        ("getScheme", [Value::Url(url)]) => Value::string(&url.scheme),
        ("getHost", [Value::Url(url)]) => Value::string(&url.host),
        ("getHostname", [Value::Url(url)]) => Value::string(url.hostname()),
        ("getPort", [Value::Url(url)]) => Value::string(url.port()),
        ("getEscapedPath", [Value::Url(url)]) => Value::string(escaped(&url.path)),
        ("getQuery", [Value::Url(url)]) => query(&url.query),
        _ => return None,
    }))
}

/// A URL with a scheme, or a path that starts with a slash.
pub(super) fn parse(text: &str) -> std::result::Result<Url, String> {
    if let Some(control) = text.bytes().find(|byte| *byte < b' ' || *byte == 0x7f) {
        let _ = control;
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() {
        return Err("empty url".to_owned());
    }
    let (scheme, rest) = split_scheme(text)?;
    // A request's URI has no fragment; conversion reads it again and cuts it off.
    let without_fragment = rest.split_once('#').map_or(rest, |(rest, _)| rest);
    if !rest.starts_with('/') {
        if scheme.is_empty() {
            return Err("invalid URI for request".to_owned());
        }
        let url = Url {
            text: text.to_owned(),
            scheme,
            host: String::new(),
            path: String::new(),
            query: String::new(),
        };
        return Ok(url);
    }
    let (path, query) = without_fragment.split_once('?').unwrap_or((without_fragment, ""));
    let (host, path) =
        match path.strip_prefix("//").filter(|_| !scheme.is_empty() || !path.starts_with("///")) {
            Some(rest) if !scheme.is_empty() => {
                let at = rest.find('/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(at);
                (authority.rsplit_once('@').map_or(authority, |(_, host)| host), path)
            }
            _ => ("", path),
        };
    check_host(host)?;
    check_escapes(path)?;
    Ok(Url {
        text: text.to_owned(),
        scheme,
        host: host.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
    })
}

fn split_scheme(text: &str) -> std::result::Result<(String, &str), String> {
    for (at, letter) in text.char_indices() {
        match letter {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((text[..at].to_lowercase(), &text[at + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn check_host(host: &str) -> std::result::Result<(), String> {
    let port = match host.rfind(']') {
        Some(end) => &host[end + 1..],
        None if host.starts_with('[') => return Err("missing ']' in host".to_owned()),
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || (!port.is_empty() && !port.starts_with(':')) {
        return Err(format!("invalid port {port:?} after host"));
    }
    match host
        .chars()
        .find(|letter| matches!(letter, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}'))
    {
        Some(letter) => Err(format!("invalid character {:?} in host name", letter.to_string())),
        None => Ok(()),
    }
}

fn check_escapes(path: &str) -> std::result::Result<(), String> {
    let bytes = path.as_bytes();
    for (at, _) in path.match_indices('%') {
        let hex = bytes.get(at + 1..at + 3).is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit));
        if !hex {
            let end = (at + 3).min(path.len());
            let shown = path.get(at..end).unwrap_or("%");
            return Err(format!("invalid URL escape {shown:?}"));
        }
    }
    Ok(())
}

/// The path with everything escaped that must be.
fn escaped(path: &str) -> String {
    path.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(byte.into()),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@'
            | b'%' => {
                out.push(byte.into());
            }
            b'!' | b'\'' | b'(' | b')' | b'*' | b'[' | b']' => out.push(byte.into()),
            other => out.push_str(&format!("%{other:02X}")),
        }
        out
    })
}

fn query<'a>(text: &str) -> Value<'a> {
    let mut values: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
    for (key, value) in form_urlencoded::parse(text.as_bytes()) {
        values.entry(key.into_owned()).or_default().push(Value::string(value));
    }
    let mut map = Map::new();
    for (key, values) in values {
        let key = Value::string(key);
        if let Some(place) = key.key() {
            map.insert(place, (key, Value::list(values)));
        }
    }
    Value::Map(Rc::new(map))
}
