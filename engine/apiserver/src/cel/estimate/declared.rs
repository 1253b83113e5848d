//! How large values of a schema can be.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::path::Path;
use super::size::Size;
use crate::cel::escape::escape;
use crate::cel::text;

/// The largest request that a stock server takes.
const REQUEST: i64 = 3 * 1024 * 1024;
const TEXT: i64 = 2;
const BOOL: i64 = 4;
const NUMBER: i64 = 1;
const DATE: i64 = 12;
const TIME: i64 = 21;
const DURATION: i64 = 3;
/// The longest duration or time.
const LONGEST_TIME: i64 = 32;

/// A schema's values as far as their sizes go.
#[derive(Debug, Default)]
pub(in crate::cel) struct Declared {
    /// Elements, entries or bytes at most; of objects, numbers and truth values none are counted.
    most: u64,
    /// The bytes of the shortest JSON text of a value.
    least_bytes: i64,
    inside: Inside,
}

#[derive(Debug, Default)]
enum Inside {
    #[default]
    Nothing,
    Items(Box<Declared>),
    Values(Box<Declared>),
    Fields(BTreeMap<String, Declared>),
}

impl Declared {
    /// `None` where expressions cannot see the values.
    pub(in crate::cel) fn parse(schema: &Json, is_resource: bool) -> Option<Declared> {
        if flag(schema, "x-kubernetes-int-or-string") {
            let most = max(schema, "maxLength").map_or(REQUEST - 2, |most| most.saturating_mul(4));
            return Some(Declared::simple(NUMBER, most));
        }
        let below = |schema: &Json| Declared::parse(schema, flag(schema, "x-kubernetes-embedded-resource"));
        Some(match text(schema, "type") {
            "array" => {
                let items = below(schema.get("items").filter(|items| items.is_object())?)?;
                let most = max(schema, "maxItems").unwrap_or((REQUEST - 2) / (items.least_bytes + 1));
                Declared { inside: Inside::Items(Box::new(items)), ..Declared::simple(2, most) }
            }
            "object" => match schema.get("additionalProperties").filter(|values| values.is_object()) {
                Some(values) => {
                    let values = below(values)?;
                    let entry = values.least_bytes + 6;
                    let most = max(schema, "maxProperties").unwrap_or((REQUEST - 2) / entry);
                    Declared { inside: Inside::Values(Box::new(values)), ..Declared::simple(2, most) }
                }
                None => object(schema, is_resource, below),
            },
            "string" => string(schema),
            "boolean" => Declared::simple(BOOL, 0),
            "number" | "integer" => Declared::simple(NUMBER, 0),
            _ => return None,
        })
    }

    fn simple(least_bytes: i64, most: i64) -> Declared {
        Declared { most: u64::try_from(most).unwrap_or_default(), least_bytes, inside: Inside::Nothing }
    }

    /// How many values of this schema fit into a request.
    pub(in crate::cel) fn most_in_a_request(&self) -> u64 {
        u64::try_from(REQUEST / (self.least_bytes + 1)).unwrap_or_default()
    }

    /// The size of what lies at a path, whichever variable it begins with.
    pub(super) fn size_at(&self, path: &Path) -> Option<Size> {
        if path.is_empty() {
            return None;
        }
        let keys = Declared::default();
        let mut here = self;
        for part in &path.parts()[1..] {
            here = match (&**part, &here.inside) {
                ("@items" | "@values", Inside::Items(one) | Inside::Values(one)) => one,
                ("@keys", Inside::Values(_)) => &keys,
                ("@items" | "@values" | "@keys", _) => return None,
                (name, Inside::Fields(fields)) => fields.get(name)?,
                _ => return None,
            };
        }
        Some(Size { min: 0, max: here.most })
    }
}

fn object(schema: &Json, is_resource: bool, below: impl Fn(&Json) -> Option<Declared>) -> Declared {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(&empty);
    let own = (is_resource && !names_itself(properties)).then(metadata).unwrap_or_default();
    let written = properties.iter().filter(|(name, _)| !own.contains_key(*name));
    let required = schema.get("required").and_then(Json::as_array).into_iter().flatten();
    let required: BTreeSet<&str> = required.filter_map(Json::as_str).collect();
    let (mut fields, mut least_bytes) = (BTreeMap::new(), 2);
    for (name, schema) in written.chain(&own) {
        let Some(field) = below(schema) else { continue };
        // What has a default may be left out.
        if required.contains(name.as_str()) && schema.get("default").is_none_or(Json::is_null) {
            least_bytes += name.len() as i64 + field.least_bytes + 4;
        }
        if let Some(name) = escape(name) {
            fields.insert(name, field);
        }
    }
    Declared { most: 0, least_bytes, inside: Inside::Fields(fields) }
}

/// Whether a resource's schema says all that rules see of its metadata.
fn names_itself(properties: &Map<String, Json>) -> bool {
    let is = |schema: Option<&Json>, kind: &str| schema.is_some_and(|schema| text(schema, "type") == kind);
    let metadata = properties.get("metadata");
    let inside = |name: &str| metadata.and_then(|metadata| metadata.get("properties")?.get(name));
    is(properties.get("kind"), "string")
        && is(properties.get("apiVersion"), "string")
        && is(metadata, "object")
        && is(inside("name"), "string")
        && is(inside("generateName"), "string")
}

/// What rules see of each resource.
fn metadata() -> Map<String, Json> {
    let string = serde_json::json!({"type": "string"});
    let metadata =
        serde_json::json!({"type": "object", "properties": {"name": string, "generateName": string}});
    Map::from_iter([
        ("kind".to_owned(), string.clone()),
        ("apiVersion".to_owned(), string),
        ("metadata".to_owned(), metadata),
    ])
}

fn string(schema: &Json) -> Declared {
    let longest = max(schema, "maxLength");
    match text(schema, "format") {
        "byte" => Declared::simple(TEXT, longest.unwrap_or(REQUEST - 2)),
        "duration" => Declared::simple(DURATION, LONGEST_TIME),
        "date" => Declared::simple(DATE, DATE),
        "date-time" => Declared::simple(TIME, LONGEST_TIME),
        _ => {
            let listed = schema.get("enum").and_then(Json::as_array).filter(|values| !values.is_empty());
            let most = match (longest, listed) {
                // A letter has up to four bytes.
                (Some(longest), _) => longest.saturating_mul(4),
                (None, Some(values)) => {
                    values.iter().filter_map(Json::as_str).map(|text| text.len() as i64).max().unwrap_or(0)
                }
                (None, None) => REQUEST - 2,
            };
            Declared::simple(TEXT, most)
        }
    }
}

fn flag(schema: &Json, key: &str) -> bool {
    schema.get(key).and_then(Json::as_bool).unwrap_or_default()
}

fn max(schema: &Json, key: &str) -> Option<i64> {
    schema.get(key).and_then(Json::as_i64).map(|most| most.max(0))
}
