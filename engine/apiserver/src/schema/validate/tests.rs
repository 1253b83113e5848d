//! Expectations are the real server's own answers, kept in `testdata/custom.json`.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::crd::structural::structural;
use crate::names;
use crate::schema::decode::tests::document;
use crate::schema::default::default;
use crate::schema::prune::{coerce, decode_custom};
use crate::schema::raw::Json;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

fn labels_only(metadata: &Value, path: &Path) -> Vec<field::Error> {
    let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
    let wrong = labels.flat_map(|(key, _)| names::qualified_name(key).into_iter().map(move |why| (key, why)));
    wrong.map(|(key, why)| field::Error::invalid(&path.child("labels"), key.as_str(), why)).collect()
}

fn custom() -> (Schema, Schema, Vec<Value>) {
    let data: Value = serde_json::from_str(include_str!("../testdata/custom.json")).unwrap();
    let object_meta = document().definition(OBJECT_META).unwrap();
    let schema = structural(&data["schema"], Some(&object_meta));
    (schema, object_meta, data["cases"].as_array().unwrap().clone())
}

fn whole(body: &Value) -> Value {
    let mut object =
        json!({"apiVersion": "probe.example.com/v1", "kind": "Thing", "metadata": {"name": "x"}});
    for (key, value) in body.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

/// The object with what a request gets: the outcome in the form of the test data.
fn answer(schema: &Schema, object_meta: &Schema, body: &Value) -> Value {
    let text = whole(body).to_string();
    let decoded = match decode_custom(schema, object_meta, Json::parse(text.as_bytes()).unwrap()) {
        Ok(decoded) => decoded,
        Err(error) => return json!({"refused": error.to_string()}),
    };
    let mut object = decoded.value;
    default(schema, &mut object);
    let errors = validate(schema, &object, labels_only);
    let mut answer = if errors.is_empty() {
        let shown = object.as_object_mut().unwrap();
        shown.retain(|key, value| !META.contains(&key.as_str()) || *value == Value::Null);
        json!({"object": object})
    } else {
        json!({"invalid": field::aggregate(&errors)})
    };
    if !decoded.strict.is_empty() {
        answer["strict"] = decoded.strict.into();
    }
    answer
}

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

#[test]
fn custom_resources_get_the_answers_of_the_real_server() {
    let (schema, object_meta, cases) = custom();
    assert!(cases.len() > 100);
    for case in cases {
        assert_eq!(answer(&schema, &object_meta, &case[0]), case[1], "{}", case[0]);
    }
}

#[test]
fn what_did_not_change_is_tolerated() {
    let (schema, ..) = custom();
    let check = |old: Value, new: Value, expected: &[&str]| {
        let errors = validate_update(&schema, &json!({"spec": new}), &json!({"spec": old}), labels_only);
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected);
    };
    let replicas =
        "spec.replicas: Invalid value: 99: spec.replicas in body should be less than or equal to 10";
    check(json!({"size": "S"}), json!({"size": "S", "replicas": 99}), &[replicas]);
    check(json!({"size": "S", "replicas": 99}), json!({"size": "M", "replicas": 99}), &[]);
    check(json!({"replicas": 99}), json!({"replicas": 99, "even": 2}), &["spec.size: Required value"]);
    let old = json!({"size": "S", "ports": [{"name": "a", "proto": "TCP", "num": "x"}]});
    let new = json!({"size": "S", "ports": [{"name": "b", "proto": "TCP"}, {"name": "a", "proto": "TCP", "num": "x"}]});
    check(old, new, &[]);
    let twice = json!([{"name": "a"}, {"name": "a"}]);
    check(json!({"size": "S", "single": twice}), json!({"size": "M", "single": twice}), &[]);
}

#[test]
fn status_alone_is_told_below_status() {
    let schema = structural(&json!({"type": "object", "properties": {"n": {"type": "integer"}}}), None);
    let errors = validate_values(&schema, &Path::new("status"), &json!({"n": "x"}), None);
    let expected = r#"status.n: Invalid value: "string": n in body must be of type integer: "string""#;
    assert_eq!(field::aggregate(&errors), expected);
}

#[test]
fn rules_are_not_evaluated_on_objects_of_the_wrong_shape() {
    let path = Path::new("spec");
    assert!(blocks_rules(&[field::Error::invalid(&path, 1, "")]).is_none());
    let error = blocks_rules(&[field::Error::required(&path, "")]).unwrap();
    assert!(error.to_string().starts_with("<nil>: Invalid value: null: some validation rules"));
}

fn any_spec() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..20).prop_map(Value::from),
        "[a-zS]{0,3}".prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "size",
        "replicas",
        "tags",
        "ports",
        "name",
        "proto",
        "nested",
        "arr",
        "d",
        "x",
        "any",
        "pres",
        "known",
        "a",
        "map",
        "emb",
        "apiVersion",
        "kind",
        "metadata",
        "labels",
        "one",
        "nul",
        "other",
    ]);
    leaf.prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_and_defaulting_twice_change_nothing(spec in any_spec()) {
        let (schema, object_meta, _) = custom();
        let mut object = whole(&json!({"spec": spec}));
        if coerce(&schema, &object_meta, &mut object).is_ok() {
            let pruned = object.clone();
            prop_assert!(coerce(&schema, &object_meta, &mut object).unwrap().is_empty());
            prop_assert_eq!(&object, &pruned);
            default(&schema, &mut object);
            let defaulted = object.clone();
            default(&schema, &mut object);
            prop_assert_eq!(&object, &defaulted);
            prop_assert!(coerce(&schema, &object_meta, &mut object).unwrap().is_empty());
            validate(&schema, &object, labels_only);
        }
    }
}
