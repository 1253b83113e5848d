//! Replays of random writes to a custom resource, with the answers of kube-apiserver 1.36.3.

use serde_json::{Map, Value, json};

use super::super::testing::{Origin, schema};
use super::super::{ApplyError, FieldSet, Force, Kind, Writer, apply, keep_times, update};

const API_VERSION: &str = "patch.test/v1";

fn notation() -> Value {
    let text = json!("string");
    let item = json!({
        "name": text, "v": text,
        "sub": ["map", "port,protocol", {"port": "integer", "protocol=TCP": text, "w": text}],
    });
    json!({
        "apiVersion": text, "kind": text,
        "metadata": {
            "name": text, "namespace": text, "resourceVersion": text,
            "labels": {"*": text}, "annotations": {"*": text}, "finalizers": ["set", text],
            "managedFields": ["atomic", "any"],
        },
        "status": {"s": text, "set": ["set", text]},
        "spec": {
            "a": text, "n": "integer",
            "obj": {"x": text, "y": {"z": text}},
            "aobj": {"%atomic": {"x": text, "y": text}},
            "m": {"*": text},
            "mm": {"*": {"x": text, "y": text}},
            "set": ["set", text],
            "alist": ["atomic", text],
            "list": ["map", "name", item],
            "free": {"%preserve": {}},
            "half": {"%preserve": {"set": ["set", text]}},
            "ios": "int-or-string", "nul": text, "nobj": {"x": text},
        },
    })
}

#[test]
fn answers_as_the_real_server_did() {
    let recorded: Vec<Vec<Value>> =
        serde_json::from_str(include_str!("../testdata/custom.json")).expect("the recording is JSON");
    let schema = schema(Origin::Custom, &notation());
    for (story, steps) in recorded.iter().enumerate() {
        let mut live: Option<&Value> = None;
        let mut now = "2026-01-01T00:00:00Z".to_owned();
        for (at, step) in steps.iter().enumerate() {
            let code = step["code"].as_u64().expect("a code");
            let result = step.get("result");
            now = latest_time(result).max(now);
            let outcome = run(&schema, step, live, &now);
            let place = format!("story {story}, step {at}: {}", step["op"]);
            match (outcome, result) {
                (Ok(object), Some(expected)) => {
                    let (left, right) = (pretty(&object), pretty(expected));
                    assert_eq!(left, right, "{place}\nlive {}\nbody {}", show(live), step["body"]);
                    live = Some(expected);
                }
                (Err(error), None) => assert_eq!(
                    error.to_string(),
                    step["message"].as_str().expect("a message"),
                    "{place}\nlive {}\nbody {}",
                    show(live),
                    step["body"]
                ),
                // Refused by validation, which is not looked at here.
                (Ok(_), None) if code == 422 => {}
                (outcome, _) => {
                    panic!("{place}: {code} {} but got {outcome:?}\nlive {}", step["message"], show(live))
                }
            }
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a value is JSON")
}

fn show(live: Option<&Value>) -> String {
    live.map(Value::to_string).unwrap_or_default()
}

fn latest_time(result: Option<&Value>) -> String {
    let entries = result.and_then(|result| result.pointer("/metadata/managedFields"));
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(|entry| entry["time"].as_str()).max().unwrap_or_default().to_owned()
}

fn run(
    schema: &crate::schema::Schema,
    step: &Value,
    live: Option<&Value>,
    now: &str,
) -> Result<Value, ApplyError> {
    let op = step["op"].as_str().expect("an operation");
    let through_status = op.starts_with("status-");
    let reset = FieldSet::of(if through_status { &["metadata", "spec"] } else { &["status"] });
    let kind = Kind {
        schema,
        api_version: API_VERSION,
        kind: "Thing",
        versions: &[API_VERSION],
        elsewhere: None,
        reset: &reset,
    };
    let writer = Writer {
        name: step["manager"].as_str().expect("a manager"),
        subresource: if through_status { "status" } else { "" },
        now: now.parse().expect("a time"),
    };
    let body = &step["body"];
    let mut object = if op.ends_with("apply") {
        let force = if step["force"] == json!(true) { Force::Yes } else { Force::No };
        let mut object = apply(&kind, live, body, &writer, force)?;
        set_defaults(&mut object);
        object
    } else {
        let mut object = body.clone();
        set_defaults(&mut object);
        drop_empty_metadata(&mut object);
        update(&kind, live, &mut object, &writer);
        object
    };
    prepare(&mut object, live, through_status);
    if let Some(live) = live {
        keep_times(live, &mut object);
    }
    drop_empty_metadata(&mut object);
    Ok(object)
}

/// What decoding and encoding do: metadata goes through its Go type.
fn drop_empty_metadata(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        let is_empty = |value: &Value| value.is_null() || *value == json!({}) || *value == json!([]);
        metadata.retain(|name, value| name == "managedFields" || !is_empty(value));
    }
}

fn set_defaults(object: &mut Value) {
    let lists = object.pointer_mut("/spec/list").and_then(Value::as_array_mut);
    for item in lists.into_iter().flatten() {
        for sub in item.get_mut("sub").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(sub) = sub {
                sub.entry("protocol").or_insert(json!("TCP"));
            }
        }
    }
}

/// What the strategy of custom resources does: each endpoint writes its own part.
fn prepare(object: &mut Value, live: Option<&Value>, through_status: bool) {
    let nothing = json!({});
    let live = live.unwrap_or(&nothing);
    let Value::Object(fields) = object else { return };
    let keep = |fields: &mut Map<String, Value>, name: &str| match live.get(name) {
        Some(value) => {
            fields.insert(name.to_owned(), value.clone());
        }
        None => {
            fields.remove(name);
        }
    };
    if through_status {
        let managed = fields["metadata"].get("managedFields").cloned();
        keep(fields, "spec");
        keep(fields, "metadata");
        if let (Some(managed), Some(Value::Object(metadata))) = (managed, fields.get_mut("metadata")) {
            metadata.insert("managedFields".to_owned(), managed);
        }
    } else {
        keep(fields, "status");
    }
}
