//! Managers that write an object through different versions of its kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::testing::{Origin, schema};
use super::super::{ApplyError, Elsewhere, FieldSet, Force, Kind, Writer, apply, display, update};
use crate::schema::Schema;

/// What is `size` in the first version is `weight` in the second; only the second has `extra`.
#[derive(Debug)]
struct Renamed;

impl Elsewhere for Renamed {
    fn schema(&self, api_version: &str) -> Option<Schema> {
        let spec = match api_version {
            "g/v1" => json!({"size": "integer", "color": "string"}),
            "g/v2" => json!({"weight": "integer", "color": "string", "extra": "string"}),
            _ => return None,
        };
        let metadata = json!({"name": "string", "managedFields": ["atomic", "any"]});
        let object = json!({"apiVersion": "string", "kind": "string", "metadata": metadata, "spec": spec});
        Some(schema(Origin::Custom, &object))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Value {
        let mut object = object.clone();
        let (from, to) = if api_version == "g/v2" { ("size", "weight") } else { ("weight", "size") };
        if let Some(spec) = object["spec"].as_object_mut()
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.to_owned(), value);
        }
        object["apiVersion"] = api_version.into();
        object
    }

    fn resets(&self, _: &str) -> bool {
        true
    }
}

fn through<T>(api_version: &str, run: impl FnOnce(&Kind<'_>) -> T) -> T {
    let schema = Renamed.schema(api_version).expect("a version");
    run(&Kind {
        schema: &schema,
        api_version,
        kind: "Test",
        versions: &["g/v1", "g/v2"],
        elsewhere: Some(&Renamed),
        reset: &FieldSet::new(),
    })
}

fn object(api_version: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": "Test", "metadata": {"name": "a"}, "spec": spec})
}

fn applied(
    live: Option<&Value>,
    name: &str,
    api_version: &str,
    spec: Value,
    force: Force,
) -> Result<Value, ApplyError> {
    let writer = Writer { name, subresource: "", now: Timestamp::UNIX_EPOCH };
    let live = live.map(|live| Renamed.convert(live, api_version));
    through(api_version, |kind| apply(kind, live.as_ref(), &object(api_version, spec), &writer, force))
}

/// Who owns what: the manager with its version, and its fields.
fn owners(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let show = |entry: &Value| {
        (
            format!("{} {}", text(entry, "manager"), text(entry, "apiVersion")),
            entry["fieldsV1"]["f:spec"].clone(),
        )
    };
    entries.iter().map(show).collect()
}

#[test]
fn what_changes_is_taken_under_the_name_that_its_owner_knows() {
    let live = applied(None, "one", "g/v1", json!({"size": 1, "color": "red"}), Force::No).expect("new");
    let live = Renamed.convert(&live, "g/v2");
    let mut new = live.clone();
    new["spec"]["weight"] = 2.into();
    let writer = Writer { name: "two", subresource: "", now: Timestamp::UNIX_EPOCH };
    through("g/v2", |kind| update(kind, Some(&live), &mut new, &writer));
    let expected =
        [("one g/v1".to_owned(), json!({"f:color": {}})), ("two g/v2".to_owned(), json!({"f:weight": {}}))];
    assert_eq!(owners(&new), expected);
}

#[test]
fn a_conflict_is_told_in_the_version_of_the_other() {
    let live = applied(None, "one", "g/v1", json!({"size": 1}), Force::No).expect("new");
    let refused = applied(Some(&live), "two", "g/v2", json!({"weight": 2}), Force::No);
    let Err(ApplyError::Conflicts(conflicts)) = refused else { panic!("{refused:?}") };
    let paths: Vec<String> = conflicts.iter().map(|conflict| display(&conflict.path)).collect();
    assert_eq!(paths, [".spec.size"]);
    let forced = applied(Some(&live), "two", "g/v2", json!({"weight": 2}), Force::Yes).expect("forced");
    assert_eq!(owners(&forced), [("two g/v2".to_owned(), json!({"f:weight": {}}))]);
}

#[test]
fn an_applier_may_go_over_to_another_version() {
    let live = applied(None, "one", "g/v1", json!({"size": 1, "color": "red"}), Force::No).expect("new");
    let later = applied(Some(&live), "one", "g/v2", json!({"weight": 1}), Force::No).expect("again");
    assert_eq!(later["spec"], json!({"weight": 1}));
    assert_eq!(owners(&later), [("one g/v2".to_owned(), json!({"f:weight": {}}))]);
}

#[test]
fn an_object_that_another_manager_could_not_see_has_no_owners() {
    let live = applied(None, "one", "g/v1", json!({"size": 1}), Force::No).expect("new");
    let live = Renamed.convert(&live, "g/v2");
    let mut new = live.clone();
    new["spec"]["extra"] = "x".into();
    let writer = Writer { name: "two", subresource: "", now: Timestamp::UNIX_EPOCH };
    through("g/v2", |kind| update(kind, Some(&live), &mut new, &writer));
    assert_eq!(owners(&new), []);
}
