//! What holds for every set and every configuration.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::testing::{Origin, schema};
use super::super::{Element, FieldSet, Force, Kind, Path, Writer, apply, update};

fn element() -> impl Strategy<Value = Element> {
    let value = prop_oneof![
        (0..3i64).prop_map(Value::from),
        "[a-c<&\"]{0,2}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(json!(1.5)),
    ];
    prop_oneof![
        "[a-c.:]{1,2}".prop_map(|name| Element::field(&name)),
        value.clone().prop_map(Element::Value),
        (0..3i64).prop_map(Element::Index),
        (value.clone(), value).prop_map(|(a, b)| Element::Key([("a".into(), a), ("b".into(), b)].into())),
    ]
}

fn set() -> impl Strategy<Value = FieldSet> {
    prop::collection::vec(prop::collection::vec(element(), 1..4), 0..8).prop_map(|paths: Vec<Path>| {
        let mut set = FieldSet::new();
        paths.iter().for_each(|path| set.insert(path));
        set
    })
}

fn config() -> impl Strategy<Value = Value> {
    let text = prop_oneof![Just(json!("1")), Just(json!("2"))];
    let names = prop::sample::subsequence(vec!["a", "b", "c"], 0..=3).prop_shuffle();
    let list = (names, text.clone()).prop_map(|(names, value)| {
        names.iter().map(|name| json!({"name": name, "v": value})).collect::<Vec<Value>>()
    });
    let set = prop::sample::subsequence(vec!["p", "q", "r"], 0..=3).prop_shuffle();
    let free = prop_oneof![
        text.clone().prop_map(|value| json!({"k": {"l": value}})),
        Just(json!({})),
        Just(json!([1]))
    ];
    let parts =
        (prop::option::of(text), prop::option::of(list), prop::option::of(set), prop::option::of(free));
    parts.prop_map(|(a, list, set, free)| {
        let mut config = json!({"apiVersion": "g/v1", "kind": "Test", "spec": {}});
        let spec = &mut config["spec"];
        a.into_iter().for_each(|a| spec["a"] = a);
        list.into_iter().for_each(|list| spec["list"] = list.into());
        set.into_iter().for_each(|set| spec["set"] = set.into());
        free.into_iter().for_each(|free| spec["free"] = free);
        config
    })
}

/// What `second` makes of an object when it is applied once and twice, after somebody else applied `first` and an
/// editor wrote `written`.
fn applied_twice(first: &Value, written: Value, second: &Value) -> (Value, Value) {
    let notation = json!({
        "apiVersion": "string", "kind": "string",
        "metadata": {"managedFields": ["atomic", "any"]},
        "spec": {
            "a": "string", "list": ["map", "name", {"name": "string", "v": "string"}],
            "set": ["set", "string"], "free": "any",
        },
    });
    let (schema, reset) = (schema(Origin::Custom, &notation), FieldSet::new());
    let kind = Kind {
        schema: &schema,
        api_version: "g/v1",
        kind: "Test",
        versions: &[],
        elsewhere: None,
        reset: &reset,
    };
    let writer =
        |name, second| Writer { name, subresource: "", now: Timestamp::from_second(second).expect("a time") };
    let live = apply(&kind, None, first, &writer("one", 1), Force::Yes).expect("fits");
    let mut changed = written;
    changed["metadata"] = live["metadata"].clone();
    update(&kind, Some(&live), &mut changed, &writer("editor", 2));
    let once = apply(&kind, Some(&changed), second, &writer("two", 3), Force::Yes).expect("fits");
    let twice = apply(&kind, Some(&once), second, &writer("two", 4), Force::No).expect("no conflict");
    (once, twice)
}

proptest! {
    #[test]
    fn sets_survive_their_json(set in set()) {
        prop_assert_eq!(&FieldSet::from_json(&set.to_json()).expect("our own JSON"), &set);
        let text = serde_json::to_string(&set).expect("a set is JSON");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        prop_assert_eq!(value, set.to_json());
    }

    #[test]
    fn sets_are_sets(a in set(), b in set(), c in set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(&a.union(&a), &a);
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(&a.intersection(&b).union(&a.difference(&b)), &a);
        prop_assert_eq!(a.difference(&b).intersection(&b), FieldSet::new());
        prop_assert_eq!(a.difference(&a), FieldSet::new());
        let all = a.union(&b);
        prop_assert!(a.paths().iter().chain(&b.paths()).all(|path| all.contains(path)));
        for path in a.recursive_difference(&b).paths() {
            prop_assert!((1..=path.len()).all(|end| !b.contains(&path[..end])));
        }
        for leaf in a.leaves().paths() {
            prop_assert!(a.contains(&leaf));
            prop_assert!(!a.paths().iter().any(|path| path.len() > leaf.len() && path.starts_with(&leaf)));
        }
    }

    #[test]
    fn applying_twice_is_applying_once(first in config(), second in config(), written in config()) {
        prop_assume!(second["spec"] != json!({}));
        let (once, twice) = applied_twice(&first, written, &second);
        prop_assert_eq!(once.to_string(), twice.to_string());

        // All that was applied is there, and its manager owns it.
        let spec = |object: &Value, name: &str| object["spec"].get(name).cloned();
        if let Some(a) = spec(&second, "a") {
            prop_assert_eq!(spec(&twice, "a"), Some(a));
        }
        for item in spec(&second, "set").iter().flat_map(|set| set.as_array().into_iter().flatten()) {
            let set = spec(&twice, "set");
            prop_assert!(set.is_some_and(|set| set.as_array().is_some_and(|set| set.contains(item))));
        }
    }
}

/// The one exception to the law, as a real server has it: who applies a map without a field owns the map as a
/// whole, and the second time takes away what is in it.
#[test]
fn an_empty_map_applied_twice_is_emptied() {
    let spec = |spec: Value| json!({"apiVersion": "g/v1", "kind": "Test", "spec": spec});
    let first = spec(json!({"free": {"k": {"l": "1"}}}));
    let written = spec(json!({"free": {}, "set": []}));
    let (once, twice) = applied_twice(&first, written, &spec(json!({})));
    assert_eq!(once["spec"], json!({"free": {}, "set": []}));
    assert_eq!(twice.get("spec"), None);
    let entries = twice["metadata"]["managedFields"].as_array().expect("entries");
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["fieldsV1"], json!({"f:spec": {}}));
}

#[test]
fn keys_are_in_the_servers_order() {
    let mut set = FieldSet::new();
    let key = |port: u16| Element::Key([("port".into(), json!(port))].into());
    for step in [key(443), key(80), Element::field("z"), Element::Value(json!("<b>")), Element::Index(2)] {
        set.insert(&[Element::field("f"), step]);
    }
    set.insert(&[Element::field("f")]);
    assert_eq!(
        serde_json::to_string(&set).expect("a set is JSON"),
        r#"{"f:f":{".":{},"f:z":{},"k:{\"port\":80}":{},"k:{\"port\":443}":{},"v:\"\\u003cb\\u003e\"":{},"i:2":{}}}"#
    );
    assert_eq!(FieldSet::from_json(&set.to_json()).expect("our own JSON"), set);
}

#[test]
fn what_cannot_be_read_is_an_error_and_what_is_new_is_skipped() {
    assert!(FieldSet::from_json(&json!({"x": {}})).is_err());
    assert!(FieldSet::from_json(&json!({"k:{": {}})).is_err());
    assert!(FieldSet::from_json(&json!([])).is_err());
    let set =
        FieldSet::from_json(&json!({"z:new": {}, "f:a": {}})).expect("a later kind of element is skipped");
    assert_eq!(set, FieldSet::of(&["a"]));
}
