//! Decisions, case by case: the acceptance list of the cr-syncer, its traps, and laws that hold for any pair.

mod cases;
mod laws;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

fn rules() -> Rules {
    Rules {
        source: Source::Cloud,
        filter: Filter::Everything,
        subtree: None,
        observed: Observed::Verbatim,
        robot: "r1".into(),
        downstream_status: true,
    }
}

fn filtered() -> Rules {
    Rules { filter: Filter::OwnLabel, ..rules() }
}

/// An object from `{labels, annotations, spec, status, uid, generation, terminating}`.
fn object(from: Value) -> Object {
    let pairs = |key: &str| -> BTreeMap<String, String> {
        from.get(key).map(|map| serde_json::from_value(map.clone()).unwrap()).unwrap_or_default()
    };
    Object {
        uid: from["uid"].as_str().unwrap_or("u").into(),
        version: "7".into(),
        generation: from["generation"].as_i64().unwrap_or(1),
        terminating: from["terminating"] == true,
        labels: pairs("labels"),
        annotations: pairs("annotations"),
        spec: from.get("spec").cloned(),
        status: from.get("status").cloned(),
    }
}

/// The copy that we would make of an original, with some of its parts replaced.
fn copy_of(rules: &Rules, original: &Object, replaced: Value) -> Object {
    let made = copy::create(rules, original);
    let mut from = made["metadata"].clone();
    from["spec"] = made["spec"].clone();
    from["uid"] = "c".into();
    for (key, value) in replaced.as_object().unwrap() {
        from[key] = value.clone();
    }
    object(from)
}

fn seen(object: &Option<Object>) -> Seen<'_> {
    object.as_ref().map_or(Seen::Absent, Seen::Known)
}

/// A plan in few words. The guard of each patch is checked and left out.
fn shown(plan: &Plan) -> String {
    let patch = |patch: &Patch| {
        let ops: Vec<_> = patch.0.iter().map(|op| serde_json::to_value(op).unwrap()).collect();
        assert_eq!(ops[0], json!({"op": "add", "path": "/metadata/resourceVersion", "value": "7"}));
        let ops: Vec<_> = ops[1..]
            .iter()
            .map(|op| {
                let path = op["path"].as_str().unwrap().replace("~1", "/");
                match op.get("value") {
                    Some(_) if path.ends_with(names::LEDGER) => "ledger".into(),
                    Some(value) => format!("{path}={value}"),
                    None => format!("-{path}"),
                }
            })
            .collect();
        ops.join(" ")
    };
    let down = match &plan.down {
        Down::Nothing(why) => format!("nothing ({why:?})"),
        Down::Create(_) => "create".into(),
        Down::Update { uid, patch: ops } => format!("update {uid}: {}", patch(ops)),
        Down::Delete { uid, why } => format!("delete {uid} ({why:?})"),
    };
    let up = match &plan.up {
        Up::Nothing(why) => format!("nothing ({why:?})"),
        Up::Status { uid, patch: ops } => format!("status {uid}: {}", patch(ops)),
    };
    format!("{down} | {up}")
}

#[track_caller]
fn check(rules: &Rules, original: &Option<Object>, copy: &Option<Object>, expected: &str) {
    check_knowing(rules, original, copy, Known::default(), expected);
}

#[track_caller]
fn check_knowing(
    rules: &Rules,
    original: &Option<Object>,
    copy: &Option<Object>,
    known: Known,
    expected: &str,
) {
    assert_eq!(shown(&plan(rules, seen(original), seen(copy), known)), expected);
}
