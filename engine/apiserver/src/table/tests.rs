use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

/// Objects and the rows that a real server made of them, at the time it did.
const RECORDED: &str = include_str!("recorded.jsonl");

fn recorded() -> Vec<Value> {
    RECORDED.lines().map(|line| serde_json::from_str(line).expect("a recorded row is JSON")).collect()
}

fn now(recorded: &Value) -> Timestamp {
    recorded["now"].as_str().and_then(|now| now.parse().ok()).expect("a recorded time")
}

/// The printer of a recorded kind; the recorded CRD tells about custom ones.
fn printer(api_version: &str, kind: &str, all: &[Value]) -> Printer {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let crd = all
        .iter()
        .map(|row| &row["object"])
        .find(|object| object["spec"]["group"] == group && object["kind"] == "CustomResourceDefinition");
    let Some(crd) = crd else { return Printer::built_in(group, version, kind) };
    let versions = crd["spec"]["versions"].as_array().expect("versions");
    let version = versions.iter().find(|one| one["name"] == version).expect("the recorded version");
    Printer::Custom(CustomColumns::new(&version["additionalPrinterColumns"]))
}

#[test]
fn rows_are_those_of_the_real_server() {
    let all = recorded();
    assert!(all.len() > 200, "the recording is there");
    let mut wrong = Vec::new();
    for one in &all {
        let (api_version, kind) =
            (one["apiVersion"].as_str().expect("a version"), one["kind"].as_str().expect("a kind"));
        let printer = printer(api_version, kind, &all);
        let row = row(&printer, &one["object"], Include::None, MetaVersion::V1, now(one));
        let found = (Value::Array(row.cells), row.conditions.unwrap_or_default());
        let expected = (one["cells"].clone(), one["conditions"].clone());
        if found != expected {
            let name = &one["object"]["metadata"]["name"];
            wrong.push(format!("{api_version} {kind} {name}\n  expected {expected:?}\n  found    {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_row_fits_its_columns() {
    let all = recorded();
    for one in &all {
        let (api_version, kind) =
            (one["apiVersion"].as_str().unwrap_or(""), one["kind"].as_str().unwrap_or(""));
        let printer = printer(api_version, kind, &all);
        // The age of an address is sent without a column for it.
        let extra = usize::from(kind == "IPAddress");
        for object in [&one["object"], &Value::Null, &json!({"metadata": {"resourceVersion": "7"}})] {
            let cells = printer.cells(object, now(one));
            assert_eq!(cells.len(), printer.columns().len() + extra, "{api_version} {kind}");
        }
    }
}

#[test]
fn every_kind_with_columns_has_its_cells() {
    let all = recorded();
    let known: Vec<(&str, &str)> = all
        .iter()
        .map(|one| {
            let api_version = one["apiVersion"].as_str().unwrap_or("");
            (api_version.split_once('/').map_or("", |(group, _)| group), one["kind"].as_str().unwrap_or(""))
        })
        .collect();
    let missing: Vec<String> = columns::kinds()
        .filter(|key| {
            let (kind, group) = key.split_once('.').unwrap_or((key, ""));
            !known.contains(&(group, kind))
        })
        .map(str::to_owned)
        .collect();
    assert_eq!(missing, [""; 0], "a kind whose rows were never compared with the real server's");
}

#[test]
fn columns_are_described() {
    let pod = columns("", "v1", "Pod");
    assert_eq!(
        serde_json::to_value(&pod[1]).expect("a column is JSON"),
        json!({"name": "Ready", "type": "string", "format": "", "priority": 0,
            "description": "The aggregate readiness state of this pod for accepting traffic."})
    );
    assert!(pod[0].description.starts_with("Name must be unique within a namespace. Is required"));
    assert_eq!((pod[0].format.as_ref(), pod[5].priority), ("name", 1));
    let plain = columns("example.com", "v1", "Unheard");
    let shapes: Vec<_> = plain.iter().map(|column| (&*column.name, &*column.kind, &*column.format)).collect();
    assert_eq!(shapes, [("Name", "string", "name"), ("Created At", "date", "")]);
    assert!(plain[1].description.starts_with("CreationTimestamp is a timestamp"));
}

#[test]
fn custom_columns_are_described() {
    let custom = CustomColumns::new(&json!([
        {"name": "A", "type": "string", "jsonPath": ".spec.a"},
        {"name": "B", "type": "string", "format": "password", "priority": 3, "description": "Own words.", "jsonPath": ".b"},
        {"name": "C", "type": "string", "jsonPath": ".c["},
        {"name": "D", "type": "string", "jsonPath": ".d"},
    ]));
    let shapes: Vec<_> = custom
        .columns()
        .into_iter()
        .map(|column| (column.name, column.kind, column.format, column.priority, column.description))
        .collect();
    let by_path = "Custom resource definition column (in JSONPath format): .spec.a";
    assert_eq!(shapes.len(), 3, "nothing follows a path that cannot be read");
    assert_eq!(shapes[1], ("A".into(), "string".into(), "".into(), 0, by_path.into()));
    assert_eq!(shapes[2], ("B".into(), "string".into(), "password".into(), 3, "Own words.".into()));
    let age = &CustomColumns::new(&Value::Null).columns()[1];
    assert_eq!((&*age.name, &*age.kind), ("Age", "date"));
    assert!(age.description.starts_with("CreationTimestamp is a timestamp"));
    let scale = CustomColumns::scale();
    let object = json!({"metadata": {"name": "t", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"replicas": 2}, "status": {"replicas": 0}});
    let later = "2026-01-01T00:01:05Z".parse().expect("a time");
    assert_eq!(Value::Array(scale.cells(&object, later)), json!(["t", 2, 0, "65s"]));
}

#[test]
fn a_table_is_put_together() {
    let printer = Printer::built_in("", "v1", "Namespace");
    let object = json!({"kind": "Namespace", "apiVersion": "v1", "status": {"phase": "Active"},
        "metadata": {"name": "default", "resourceVersion": "22", "uid": "u"}});
    let at = "2026-01-01T00:00:00Z".parse().expect("a time");
    let check = |include, expected: Value| {
        let rows = [row(&printer, &object, include, MetaVersion::V1, at)];
        let made = table(&printer, None, rows, &object["metadata"], MetaVersion::V1);
        let expected = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": null,
            "metadata": {"resourceVersion": "22"},
            "rows": [{"cells": ["default", "Active", "<unknown>"], "object": expected}]});
        assert_eq!(made, expected);
    };
    check(Include::None, Value::Null);
    check(Include::Object, object.clone());
    check(
        Include::Metadata,
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]}),
    );
    let meta = json!({"resourceVersion": "5", "continue": "abc", "remainingItemCount": 3, "selfLink": ""});
    let columns = printer.columns();
    let empty = table(&printer, Some(&columns), [], &meta, MetaVersion::V1Beta1);
    assert_eq!(empty["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(
        empty["metadata"],
        json!({"resourceVersion": "5", "continue": "abc", "remainingItemCount": 3})
    );
    assert_eq!(empty["rows"], json!([]));
    assert_eq!(empty["columnDefinitions"].as_array().map(Vec::len), Some(3));
    let unprinted = Printer::built_in("", "v1", "LimitRange");
    assert_eq!(table(&unprinted, None, [], &meta, MetaVersion::V1)["rows"], Value::Null);
    assert_eq!(partial_list([], &meta, MetaVersion::V1)["items"], Value::Null);
    assert_eq!(
        partial_list([&object], &json!({}), MetaVersion::V1Beta1),
        json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1beta1", "metadata": {},
            "items": [partial(&object, MetaVersion::V1Beta1)]})
    );
}

#[test]
fn the_end_of_initial_events_is_always_told() {
    let bookmark = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "247",
        "annotations": {"k8s.io/initial-events-end": "true"}}});
    let printer = Printer::built_in("", "v1", "Pod");
    let row = row(&printer, &bookmark, Include::None, MetaVersion::V1, Timestamp::UNIX_EPOCH);
    assert_eq!(row.object, partial(&bookmark, MetaVersion::V1));
    assert_eq!(
        Value::Array(row.cells),
        json!(["", "0/0", "", "0", "<unknown>", "<none>", "<none>", "<none>", "<none>"])
    );
    let printer = Printer::built_in("", "v1", "LimitRange");
    assert_eq!(
        Value::Array(printer.cells(&bookmark, Timestamp::UNIX_EPOCH)),
        json!(["", "0001-01-01T00:00:00Z"])
    );
}

#[test]
fn what_rows_include_is_asked_for() {
    assert_eq!(Include::parse(""), Ok(Include::Metadata));
    assert_eq!(Include::parse("Object"), Ok(Include::Object));
    let error = Include::parse("none").expect_err("names are exact");
    assert_eq!((error.code, error.reason), (400, "BadRequest"));
    assert_eq!(
        error.message,
        "Unable to convert to Table as requested: includeObject: Invalid value: \"none\": must be 'Metadata', 'Object', 'None', or empty"
    );
}

#[test]
fn flow_schemas_are_listed_as_they_are_tried() {
    let order =
        Printer::built_in("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema").order().expect("its own");
    let schema = |name: &str, precedence: i64| json!({"metadata": {"name": name}, "spec": {"matchingPrecedence": precedence}});
    let mut schemas = [schema("b", 10), schema("z", 2), schema("a", 10)];
    schemas.sort_by(order);
    assert_eq!(schemas.map(|schema| schema["metadata"]["name"].clone()), ["z", "a", "b"]);
    assert!(Printer::built_in("", "v1", "Pod").order().is_none());
}

#[test]
fn lists_and_single_objects_are_not_confused() {
    for (printer, single) in [
        (Printer::built_in("", "v1", "Namespace"), "*core.Namespace"),
        (Printer::built_in("events.k8s.io", "v1", "Event"), "*core.Event"),
        (Printer::built_in("rbac.authorization.k8s.io", "v1", "Role"), "*rbac.Role"),
        (Printer::Custom(CustomColumns::new(&Value::Null)), "*unstructured.Unstructured"),
    ] {
        let error = not_a_list(&printer);
        assert_eq!((error.code, error.reason), (406, "NotAcceptable"));
        assert_eq!(
            error.message,
            format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({single})"
            )
        );
        assert_eq!(
            not_a_single_object(&printer).message,
            format!("you requested PartialObjectMetadata, but the requested object is a list ({single}List)")
        );
    }
}
