//! Answers of a stock kube-apiserver, and that ours are the same.
//!
//! `testdata/refused.json` has objects with the message that refused them, `changes.json` updates with
//! theirs, `accepted.json` objects with what was made of them.

use serde::Deserialize;
use serde_json::Value;

use super::{Strategy, meta, strategy};
use crate::catalog::builtin_schema;
use crate::schema::{decode, default};
use crate::status::Error;

const NAMESPACE: &str = "kinds-core";
const CLUSTER_WIDE: [&str; 3] = ["Namespace", "Node", "PersistentVolume"];

/// The group, the version and the kind of an object.
fn kind_of(object: &Value) -> (&str, &str, &str) {
    let version = object["apiVersion"].as_str().unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    (group, version, object["kind"].as_str().unwrap())
}

fn strategy_of(object: &Value) -> &'static Strategy {
    let (group, _, kind) = kind_of(object);
    strategy(group, kind)
}

/// An object as it is after it was read.
fn read(object: &Value) -> Value {
    let (group, version, kind) = kind_of(object);
    let schema = builtin_schema(group, version, kind).unwrap();
    let mut value = decode::decode(&schema, object.clone()).unwrap().value;
    default::default(&schema, &mut value);
    (strategy_of(object).default)(&mut value);
    if !CLUSTER_WIDE.contains(&kind) {
        value["metadata"]["namespace"] = NAMESPACE.into();
    }
    value
}

/// An object as it is stored when it is created.
fn created(object: &Value) -> Value {
    let mut value = read(object);
    let (group, version, kind) = kind_of(object);
    let strategy = strategy_of(object);
    if value["metadata"]["name"].is_null() {
        let prefix = value["metadata"]["generateName"].as_str().unwrap_or_default().to_owned();
        value["metadata"]["name"] = format!("{prefix}xxxxx").into();
    }
    if strategy.status && kind != "Node" {
        value.as_object_mut().unwrap().remove("status");
    }
    // Addresses are given out elsewhere.
    if let Some(ip) = value["spec"].get("clusterIP").cloned() {
        value["spec"]["clusterIPs"] = serde_json::json!([ip]);
    }
    let schema = builtin_schema(group, version, kind).unwrap();
    value = decode::decode(&schema, value).unwrap().value;
    (strategy.prepare_create)(&mut value);
    value
}

fn refusal(object: &Value, faults: &[crate::field::Error]) -> String {
    let (group, _, kind) = kind_of(object);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Error::invalid(group, kind, name, faults).message
}

/// What a client is told of a new object; nothing if it is taken.
fn refused(object: &Value) -> Option<String> {
    let value = created(object);
    let strategy = strategy_of(object);
    let namespaced = !CLUSTER_WIDE.contains(&kind_of(object).2);
    let mut faults = meta::validate_meta(&value, namespaced, strategy.name);
    faults.extend((strategy.validate)(&value));
    (!faults.is_empty()).then(|| refusal(&value, &faults))
}

/// What a client is told of a change; nothing if it is taken.
fn change_refused(new: &Value, old: &Value, part: Option<&str>) -> Option<String> {
    let strategy = strategy_of(old);
    let mut value = read(new);
    let faults = match part {
        None => {
            if strategy.status {
                super::walk::copy(&mut value, old, "status");
            }
            (strategy.prepare_update)(&mut value, old);
            strategy.validate_update
        }
        Some(_) => {
            super::walk::copy(&mut value, old, "spec");
            strategy.validate_status
        }
    };
    let mut all = meta::validate_meta_update(&value, old);
    all.extend(faults(&value, old));
    (!all.is_empty()).then(|| refusal(old, &all))
}

/// The parts of a message, sorted: maps of the real server have no order.
fn unordered(message: &str) -> Vec<String> {
    let all = message.split_once("is invalid: ").map_or(message, |(_, rest)| rest);
    let mut parts: Vec<String> = all.trim_matches(['[', ']']).split(", ").map(str::to_owned).collect();
    parts.sort();
    parts
}

#[track_caller]
fn check(cases: impl Iterator<Item = (String, String, String, bool)>) {
    let mut wrong = Vec::new();
    for (what, ours, real, any_order) in cases {
        let same = if any_order { unordered(&ours) == unordered(&real) } else { ours == real };
        if !same {
            wrong.push(format!("{what}\n  real: {real}\n  ours: {ours}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[derive(Deserialize)]
struct Refused {
    object: Value,
    answer: String,
    #[serde(default)]
    unordered: bool,
}

#[test]
fn what_the_real_server_refuses_is_refused_alike() {
    let cases: Vec<Refused> = serde_json::from_str(include_str!("testdata/refused.json")).unwrap();
    check(cases.into_iter().map(|case| {
        let ours = refused(&case.object).unwrap_or_default();
        (case.object.to_string(), ours, case.answer, case.unordered)
    }));
}

#[derive(Deserialize)]
struct Change {
    old: Value,
    new: Value,
    part: Option<String>,
    answer: String,
    #[serde(default)]
    unordered: bool,
}

#[test]
fn changes_that_the_real_server_refuses_are_refused_alike() {
    let cases: Vec<Change> = serde_json::from_str(include_str!("testdata/changes.json")).unwrap();
    check(cases.into_iter().map(|case| {
        let ours = change_refused(&case.new, &case.old, case.part.as_deref()).unwrap_or_default();
        (case.new.to_string(), ours, case.answer, case.unordered)
    }));
}

#[derive(Deserialize)]
struct Accepted {
    object: Value,
    result: Value,
}

/// What others add: addresses, times, and what admission sets.
fn without_what_others_add(mut value: Value) -> Value {
    if value["metadata"]["name"].is_null() {
        value["metadata"].as_object_mut().unwrap().remove("name");
    }
    for name in ["creationTimestamp", "managedFields"] {
        value["metadata"].as_object_mut().unwrap().remove(name);
    }
    value
}

#[test]
fn what_the_real_server_makes_of_objects_we_make_of_them() {
    let cases: Vec<Accepted> = serde_json::from_str(include_str!("testdata/accepted.json")).unwrap();
    check(cases.into_iter().map(|case| {
        assert_eq!(refused(&case.object), None);
        let ours = without_what_others_add(created(&case.object));
        (case.object.to_string(), ours.to_string(), case.result.to_string(), false)
    }));
}

#[test]
fn defaults_change_nothing_the_second_time() {
    let cases: Vec<Accepted> = serde_json::from_str(include_str!("testdata/accepted.json")).unwrap();
    for case in cases {
        let default = strategy_of(&case.object).default;
        for once in [read(&case.object), read(&case.result)] {
            let mut twice = once.clone();
            default(&mut twice);
            assert_eq!(once, twice);
        }
        // What is stored has its defaults already.
        let mut again = case.result.clone();
        default(&mut again);
        assert_eq!(again, case.result);
    }
}
