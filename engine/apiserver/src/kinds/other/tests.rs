//! What a kube-apiserver of the release answered to a corpus of objects, good and bad: whole messages and
//! whole objects must be the same here.
//!
//! A case creates an object, or creates it and then changes it or its status by a merge patch. Ids that the server made
//! up stand as `UID`.

use serde_json::Value;

use super::look::text;
use crate::kinds::walk::same;
use crate::kinds::{convert, meta, strategy};
use crate::status;

const CORPUS: [(&str, &str); 16] = [
    ("admissionregistration", include_str!("testdata/admissionregistration.json")),
    ("apiregistration", include_str!("testdata/apiregistration.json")),
    ("autoscaling", include_str!("testdata/autoscaling.json")),
    ("batch", include_str!("testdata/batch.json")),
    ("certificates", include_str!("testdata/certificates.json")),
    ("coordination", include_str!("testdata/coordination.json")),
    ("discovery", include_str!("testdata/discovery.json")),
    ("events", include_str!("testdata/events.json")),
    ("flowcontrol", include_str!("testdata/flowcontrol.json")),
    ("networking", include_str!("testdata/networking.json")),
    ("node", include_str!("testdata/node.json")),
    ("policy", include_str!("testdata/policy.json")),
    ("rbac", include_str!("testdata/rbac.json")),
    ("resource", include_str!("testdata/resource.json")),
    ("scheduling", include_str!("testdata/scheduling.json")),
    ("storage", include_str!("testdata/storage.json")),
];

fn group_of(object: &Value) -> &str {
    text(object, "apiVersion").split_once('/').map_or("", |(group, _)| group)
}

fn refused(object: &Value, faults: &[crate::field::Error]) -> Result<(), String> {
    if faults.is_empty() {
        return Ok(());
    }
    let name = text(&object["metadata"], "name");
    let group =
        convert::storage(group_of(object), text(object, "kind")).map_or_else(|| group_of(object), |to| to.0);
    Err(status::Error::invalid(group, text(object, "kind"), name, faults).message)
}

fn create(object: &Value) -> Result<Value, String> {
    let strategy = strategy(group_of(object), text(object, "kind"));
    let mut object = object.clone();
    object["metadata"]["uid"] = "UID".into();
    (strategy.default)(&mut object);
    let once = object.clone();
    (strategy.default)(&mut object);
    assert_eq!(once, object, "defaults change nothing the second time");
    if strategy.generation != crate::kinds::Generation::Never {
        object["metadata"]["generation"] = 1.into();
    }
    (strategy.prepare_create)(&mut object);
    let namespaced = object["metadata"]["namespace"].is_string();
    let mut faults = meta::validate_meta(&object, namespaced, strategy.name);
    faults.extend((strategy.validate)(&object));
    refused(&object, &faults).map(|()| object)
}

fn update(old: &Value, patch: &Value) -> Result<Value, String> {
    let strategy = strategy(group_of(old), text(old, "kind"));
    let mut new = old.clone();
    json_patch::merge(&mut new, patch);
    (strategy.default)(&mut new);
    let spec = |object: &Value| {
        let mut object = object.clone();
        let fields = object.as_object_mut().expect("an object");
        fields.remove("metadata");
        fields.remove("status");
        object
    };
    if strategy.generation != crate::kinds::Generation::Never && !same(&spec(&new), &spec(old)) {
        let before = old["metadata"]["generation"].as_i64().unwrap_or_default();
        new["metadata"]["generation"] = (before + 1).into();
    }
    (strategy.prepare_update)(&mut new, old);
    // Some kinds look at metadata once more, and the recorded objects have no revision.
    let revised = |object: &Value| {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = "1".into();
        object
    };
    let faults = (strategy.validate_update)(&revised(&new), &revised(old));
    refused(&new, &faults).map(|()| new)
}

fn update_status(old: &Value, patch: &Value) -> Result<Value, String> {
    let mut new = old.clone();
    json_patch::merge(&mut new, patch);
    let faults = (strategy(group_of(old), text(old, "kind")).validate_status)(&new, old);
    refused(&new, &faults).map(|()| new)
}

/// The object as it comes back: through the version it is stored in.
fn through_storage(object: Value) -> Value {
    let (kind, version) = (text(&object, "kind").to_owned(), text(&object, "apiVersion").to_owned());
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let Some((stored_group, stored_version)) = convert::storage(group, &kind) else { return object };
    let stored = convert::convert(group, version, &kind, object, stored_group, stored_version);
    convert::convert(stored_group, stored_version, &kind, stored, group, version)
}

/// What this server decides alone is compared; ids, times and status are not of this module.
fn comparable(mut object: Value) -> Value {
    let fields = object.as_object_mut().expect("an object");
    fields.remove("status");
    if let Some(meta) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("uid");
    }
    object
}

fn check(case: &Value) -> Result<(), String> {
    let created = create(&case["create"]);
    let answer = match (&created, case.get("update"), case.get("status")) {
        (Ok(old), Some(patch), _) => update(old, patch),
        (Ok(old), _, Some(patch)) => update_status(old, patch),
        _ => created,
    };
    match (answer, case["error"].as_str()) {
        (Err(message), Some(expected)) if message == expected => Ok(()),
        (Err(message), Some(expected)) => Err(format!("said      {message}\n    expected  {expected}")),
        (Err(message), None) => Err(format!("refused   {message}")),
        (Ok(_), Some(expected)) => Err(format!("accepted, expected  {expected}")),
        (Ok(object), None) => {
            let (object, expected) =
                (comparable(through_storage(object)), comparable(case["result"].clone()));
            if same(&object, &expected) {
                return Ok(());
            }
            Err(format!("made      {object}\n    expected  {expected}"))
        }
    }
}

#[test]
fn answers_are_the_real_servers() {
    let mut wrong = Vec::new();
    for (group, corpus) in CORPUS {
        let cases: Vec<Value> = serde_json::from_str(corpus).expect("the corpus is JSON");
        assert!(!cases.is_empty(), "{group}");
        for case in &cases {
            if let Err(why) = check(case) {
                wrong.push(format!("{}\n    {why}", case["what"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn stored_versions_are_what_the_rules_speak_of() {
    assert_eq!(convert::storage("autoscaling", "HorizontalPodAutoscaler"), Some(("autoscaling", "v2")));
    assert_eq!(convert::storage("events.k8s.io", "Event"), Some(("", "v1")));
    assert_eq!(convert::storage("batch", "Job"), None);
    assert!(strategy("none.example.com", "Thing").unconditional_update);
    assert!(strategy("apiextensions.k8s.io", "CustomResourceDefinition").status);
}
