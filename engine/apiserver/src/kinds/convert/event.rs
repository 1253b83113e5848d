//! Events: the core group's form, and the newer one that renamed most of it.

use serde_json::{Map, Value, json};

use super::omit_empty;
use crate::kinds::walk::set_absent;

/// The fields that have another name: in the core group, and in `events.k8s.io`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(super) fn to_core(event: Value) -> Value {
    let mut event = rename(event, "v1", |(core, newer)| (newer, core));
    for key in ["reportingComponent", "reportingInstance"] {
        set_absent(&mut event, key, "");
    }
    for key in ["message", "count", "reason", "type", "action"] {
        omit_empty(&mut event, key);
    }
    finish(event, ["involvedObject", "source"], ["firstTimestamp", "lastTimestamp"])
}

pub(super) fn from_core(event: Value) -> Value {
    let mut event = rename(event, "events.k8s.io/v1", |names| names);
    for key in
        ["note", "deprecatedCount", "reportingController", "reportingInstance", "reason", "type", "action"]
    {
        omit_empty(&mut event, key);
    }
    let times = ["deprecatedFirstTimestamp", "deprecatedLastTimestamp"];
    finish(event, ["regarding", "deprecatedSource"], times)
}

fn rename(
    event: Value,
    version: &str,
    way: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let Value::Object(fields) = event else { return event };
    let named = |key: String| {
        let new = RENAMED.iter().map(|names| way(*names)).find(|(from, _)| *from == key);
        new.map_or(key, |(_, to)| to.to_owned())
    };
    let mut renamed: Map<String, Value> =
        fields.into_iter().map(|(key, value)| (named(key), value)).collect();
    renamed.insert("apiVersion".to_owned(), version.into());
    Value::Object(renamed)
}

/// Go writes structs even if they are empty, and times even if they are not set.
fn finish(mut event: Value, structs: [&str; 2], times: [&str; 2]) -> Value {
    for key in structs {
        set_absent(&mut event, key, json!({}));
    }
    for key in times.into_iter().chain(["eventTime"]) {
        if event.get(key).is_none() {
            event[key] = Value::Null;
        }
    }
    event
}
