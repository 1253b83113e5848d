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

/// What a client is told: the message, and what each cause is about.
#[derive(Debug, Default, PartialEq, Deserialize)]
struct Answer {
    answer: String,
    causes: Vec<String>,
}

fn refusal(object: &Value, faults: &[crate::field::Error]) -> Answer {
    let (group, _, kind) = kind_of(object);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let status = Error::invalid(group, kind, name, faults).to_status();
    let word = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    Answer {
        answer: word(&status, "message"),
        causes: causes.map(|cause| format!("{} {}", word(cause, "reason"), word(cause, "field"))).collect(),
    }
}

/// What a client is told of a new object; nothing if it is taken.
fn refused(object: &Value) -> Option<Answer> {
    let value = created(object);
    let strategy = strategy_of(object);
    let namespaced = !CLUSTER_WIDE.contains(&kind_of(object).2);
    let mut faults = meta::validate_meta(&value, namespaced, strategy.name);
    faults.extend((strategy.validate)(&value));
    (!faults.is_empty()).then(|| refusal(&value, &faults))
}

/// What a client is told of a change; nothing if it is taken.
fn change_refused(new: &Value, old: &Value, part: Option<&str>) -> Option<Answer> {
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

impl Answer {
    fn is(&self, real: &Answer, any_order: bool) -> bool {
        if !any_order {
            return self == real;
        }
        let sorted = |answer: &Answer| {
            let mut causes = answer.causes.clone();
            causes.sort();
            causes
        };
        unordered(&self.answer) == unordered(&real.answer) && sorted(self) == sorted(real)
    }
}

/// What is wrong, all at once.
#[track_caller]
fn expect_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn differ(what: &Value, real: &Answer, ours: &Answer) -> String {
    let causes = if real.causes == ours.causes {
        String::new()
    } else {
        format!("\n  causes: {:?}\n  ours:   {:?}", real.causes, ours.causes)
    };
    format!("{what}\n  real: {}\n  ours: {}{causes}", real.answer, ours.answer)
}

#[derive(Deserialize)]
struct Refused {
    object: Value,
    #[serde(flatten)]
    answer: Answer,
    #[serde(default)]
    unordered: bool,
}

#[test]
fn what_the_real_server_refuses_is_refused_alike() {
    let cases: Vec<Refused> = serde_json::from_str(include_str!("testdata/refused.json")).unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let ours = refused(&case.object).unwrap_or_default();
        if !ours.is(&case.answer, case.unordered) {
            wrong.push(differ(&case.object, &case.answer, &ours));
        }
    }
    expect_none(&wrong);
}

#[derive(Deserialize)]
struct Change {
    old: Value,
    new: Value,
    part: Option<String>,
    #[serde(flatten)]
    answer: Answer,
    #[serde(default)]
    unordered: bool,
}

#[test]
fn changes_that_the_real_server_refuses_are_refused_alike() {
    let cases: Vec<Change> = serde_json::from_str(include_str!("testdata/changes.json")).unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let ours = change_refused(&case.new, &case.old, case.part.as_deref()).unwrap_or_default();
        if !ours.is(&case.answer, case.unordered) {
            wrong.push(differ(&case.new, &case.answer, &ours));
        }
    }
    expect_none(&wrong);
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
    let mut wrong = Vec::new();
    for case in cases {
        assert_eq!(refused(&case.object), None);
        let mut ours = without_what_others_add(created(&case.object));
        // The real server was asked for it, and reading sets defaults again.
        (strategy_of(&case.object).default)(&mut ours);
        if ours != case.result {
            wrong.push(format!("{}\n  real: {}\n  ours: {ours}", case.object, case.result));
        }
    }
    expect_none(&wrong);
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

#[derive(Deserialize)]
struct Updated {
    old: Value,
    new: Value,
    result: Value,
}

#[test]
fn what_the_real_server_makes_of_changes_we_make_of_them() {
    let cases: Vec<Updated> = serde_json::from_str(include_str!("testdata/updated.json")).unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        assert_eq!(change_refused(&case.new, &case.old, None), None);
        let mut ours = read(&case.new);
        let strategy = strategy_of(&case.old);
        if strategy.status {
            super::walk::copy(&mut ours, &case.old, "status");
        }
        (strategy.prepare_update)(&mut ours, &case.old);
        // The generic path counts changes.
        super::walk::copy(&mut ours["metadata"], &case.result["metadata"], "generation");
        if ours != case.result {
            wrong.push(format!("{}\n  real: {}\n  ours: {ours}", case.new, case.result));
        }
    }
    expect_none(&wrong);
}
