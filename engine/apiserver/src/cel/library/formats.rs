//! Formats that texts can be held against.

use super::super::value::{Result, Value};
use super::url;
use crate::names;
use crate::schema::validate::formats::has_format;

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    let named = |name: &str| NAMES.iter().find(|known| **known == name).map(|name| Value::Format(name));
    Some(Ok(match (function, args) {
        ("format.named", [Value::String(name)]) => named(name).map_or(Value::Optional(None), Value::some),
        ("validate", [Value::Format(name), Value::String(text)]) => {
            let wrong = validate(name, text);
            match wrong.is_empty() {
                true => Value::Optional(None),
                false => Value::some(Value::list(wrong.into_iter().map(Value::string).collect())),
            }
        }
        (function, []) => named(function.strip_prefix("format.")?)?,
        _ => return None,
    }))
}

fn validate(name: &str, text: &str) -> Vec<String> {
    let demand = |format: &str, why: &str| match has_format(format, text) {
        true => Vec::new(),
        false => vec![why.to_owned()],
    };
    match name {
        "dns1123Label" => names::dns1123_label(text),
        "dns1123Subdomain" => names::dns1123_subdomain(text),
        "dns1035Label" => names::dns1035_label(text),
        "dns1123LabelPrefix" => names::dns1123_label(&names::mask_trailing_dash(text)),
        "dns1123SubdomainPrefix" => names::dns1123_subdomain(&names::mask_trailing_dash(text)),
        "dns1035LabelPrefix" => names::dns1035_label(&names::mask_trailing_dash(text)),
        "qualifiedName" => names::qualified_name(text),
        "labelValue" => names::label_value(text),
        "uri" => match url::parse(text) {
            Ok(_) => Vec::new(),
            Err(why) => vec![format!("parse {text:?}: {why}")],
        },
        "uuid" => demand("uuid", "does not match the UUID format"),
        "byte" => demand("byte", "invalid base64"),
        "date" => demand("date", "invalid date"),
        _ => demand("datetime", "invalid datetime"),
    }
}
