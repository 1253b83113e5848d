//! Semantic versions.

use std::cmp::Ordering;
use std::rc::Rc;

use super::super::value::{Error, Result, Value};

/// A version; what follows a plus does not count.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Semver {
    numbers: [u64; 3],
    before: Vec<Identifier>,
}

/// A part of what follows a dash: numbers come before words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Semver {
    pub(in super::super) fn compare(&self, other: &Semver) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.before.is_empty(), other.before.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.before.cmp(&other.before),
            }
        })
    }

    fn parse(text: &str) -> std::result::Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, before) =
            rest.split_once('-').map_or((rest, None), |(patch, before)| (patch, Some(before)));
        let numbers = [number("Major", major)?, number("Minor", minor)?, number("Patch", patch)?];
        let mut identifiers = Vec::new();
        for part in before.into_iter().flat_map(|before| before.split('.')) {
            identifiers.push(identifier(part)?);
        }
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                return Err(format!("Invalid character(s) found in build meta data {part:?}"));
            }
        }
        Ok(Semver { numbers, before: identifiers })
    }
}

fn number(name: &str, text: &str) -> std::result::Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(format!("Invalid character(s) found in {} number {text:?}", name.to_lowercase()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{name} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"))
}

fn identifier(part: &str) -> std::result::Result<Identifier, String> {
    if part.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if part.bytes().all(|byte| byte.is_ascii_digit()) {
        if part.len() > 1 && part.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {part:?}"));
        }
        return part.parse().map(Identifier::Number).map_err(|_| "value out of range".to_owned());
    }
    match part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        true => Ok(Identifier::Word(part.to_owned())),
        false => Err(format!("Invalid character(s) found in prerelease {part:?}")),
    }
}

/// A version that leaves out numbers, starts with a `v` or pads with zeros.
fn loose(text: &str) -> std::result::Result<Semver, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| match part.trim_start_matches('0') {
            _ if part.len() <= 1 => part.to_owned(),
            bare if bare.starts_with(|letter: char| letter.is_ascii_digit()) => bare.to_owned(),
            bare => format!("0{bare}"),
        })
        .collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    Semver::parse(&parts.join("."))
}

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    use Value::{Bool, Int, Semver as Version};
    let parse = |text: &str, normalize: bool| if normalize { loose(text) } else { Semver::parse(text) };
    let version = |text: &str, normalize: bool| {
        parse(text, normalize).map(|version| Version(Rc::new(version))).map_err(Error)
    };
    Some(match (function, args) {
        ("semver", [Value::String(text)]) => version(text, false),
        ("semver", [Value::String(text), Bool(normalize)]) => version(text, *normalize),
        ("isSemver", [Value::String(text)]) => Ok(Bool(parse(text, false).is_ok())),
        ("isSemver", [Value::String(text), Bool(normalize)]) => Ok(Bool(parse(text, *normalize).is_ok())),
        ("major", [Version(version)]) => Ok(Int(version.numbers[0] as i64)),
        ("minor", [Version(version)]) => Ok(Int(version.numbers[1] as i64)),
        ("patch", [Version(version)]) => Ok(Int(version.numbers[2] as i64)),
        ("isGreaterThan", [Version(left), Version(right)]) => Ok(Bool(left.compare(right).is_gt())),
        ("isLessThan", [Version(left), Version(right)]) => Ok(Bool(left.compare(right).is_lt())),
        ("compareTo", [Version(left), Version(right)]) => Ok(Int(left.compare(right) as i64)),
        _ => return None,
    })
}
