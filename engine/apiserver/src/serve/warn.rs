//! Warnings: what a request is told besides its answer, and how much of that fits in headers.

use std::collections::HashSet;

use http::header::HeaderValue;
use serde_json::Value;

use super::call::Call;
use super::parts::Part;
use crate::catalog::Resource;
use crate::kinds::warnings;

/// More characters than this in total, and each warning is cut short.
const TOTAL_MOST: usize = 4 * 1024;
/// What is left of a warning that is cut short.
const ONE_MOST: usize = 256;

/// What is odd about a valid write.
pub(crate) fn of_write(call: &mut Call, part: Part, new: &Value, old: Option<&Value>) {
    let (group, kind) = (&*call.resource.group, &*call.resource.kind);
    let said = match part {
        _ if call.resource.custom.is_some() => {
            if part.is_whole() {
                warnings::custom_warnings(new, old)
            } else {
                Vec::new()
            }
        }
        Part::Whole | Part::Scale => warnings::warnings(group, kind, new, old),
        Part::Status => warnings::status_warnings(group, kind, new),
        // The others have nothing to say.
        _ => Vec::new(),
    };
    call.warnings.extend(said);
}

/// What is odd about a new object as the client wrote it, valid or not.
pub(crate) fn of_new(call: &mut Call, object: &Value) {
    call.warnings.extend(warnings::early_warnings(&call.resource.group, &call.resource.kind, object));
}

/// What is to be said of a type that is on its way out.
pub(crate) fn of_type(call: &mut Call) {
    let said = type_warning(&call.resource);
    call.warnings.extend(said);
}

pub(crate) fn type_warning(resource: &Resource) -> Option<String> {
    match &resource.custom {
        Some(custom) => warnings::custom_deprecation(&custom.crd, custom.index),
        None => warnings::deprecation(&resource.group, &resource.version, &resource.kind).map(str::to_owned),
    }
}

/// The values of the `Warning` headers: everything once, in order, and not too much of it.
pub(crate) fn headers(warnings: &[String]) -> Vec<HeaderValue> {
    let mut seen = HashSet::new();
    let mut told: Vec<&str> = Vec::new();
    let mut headers = Vec::new();
    let mut written = 0;
    let mut short = false;
    for warning in warnings {
        if short && written >= TOTAL_MOST {
            break;
        }
        if warning.is_empty() || !seen.insert(warning.as_str()) {
            continue;
        }
        told.push(warning);
        let Some((length, value)) = header(warning, short) else { continue };
        if short || written + length <= TOTAL_MOST {
            written += length;
            headers.push(value);
            continue;
        }
        short = true;
        let again: Vec<(usize, HeaderValue)> = told.iter().filter_map(|one| header(one, short)).collect();
        written = again.iter().map(|(length, _)| length).sum();
        headers = again.into_iter().map(|(_, value)| value).collect();
    }
    headers
}

/// One value and how many characters it tells; nothing where control characters would get in.
fn header(warning: &str, short: bool) -> Option<(usize, HeaderValue)> {
    if warning.contains(char::is_control) {
        return None;
    }
    let most = if short { ONE_MOST } else { usize::MAX };
    let text: String = warning.chars().take(most).collect();
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    let value = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()?;
    Some((text.chars().count(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(warnings: &[String], expected: &[String]) {
        let headers: Vec<String> = headers(warnings)
            .iter()
            .map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap())
            .collect();
        assert_eq!(headers, expected);
    }

    #[test]
    fn warnings_are_quoted_and_told_once() {
        let said = ["a \"b\" \\c", "ü", "two\nlines", "a \"b\" \\c", ""].map(str::to_owned);
        check(&said, &[r#"299 - "a \"b\" \\c""#.to_owned(), "299 - \"ü\"".to_owned()]);
    }

    #[test]
    fn too_much_is_cut_short() {
        let many = |count: usize, length: usize| -> Vec<String> {
            (0..count).map(|index| format!("{index:02}{}", "x".repeat(length - 2))).collect()
        };
        let quoted = |said: &[String], length: usize| -> Vec<String> {
            said.iter().map(|one| format!("299 - \"{}\"", &one[..length])).collect()
        };
        let fits = many(16, 256);
        check(&fits, &quoted(&fits, 256));
        let long = many(20, 300);
        check(&long, &quoted(&long[..16], 256));
        // The one that is too much is told still, and those after it until the sum is reached.
        let short = many(60, 150);
        check(&short, &quoted(&short[..28], 150));
    }
}
