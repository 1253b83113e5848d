//! Rules and objects with what a stock server says about them.

use serde_json::{Value, json};

use super::{Validator, check};
use crate::crd;
use crate::field::Path;

fn recorded(text: &str) -> Value {
    serde_json::from_str(text).expect("recorded data is JSON")
}

/// Rules that a stock server was given in a CRD, and why it refused them.
#[test]
fn rules_compile_as_on_a_stock_server() {
    let recorded = recorded(include_str!("testdata/compile.json"));
    let mut wrong = Vec::new();
    for case in recorded["cases"].as_array().into_iter().flatten() {
        let mut schema = recorded["schema"].clone();
        schema["x-kubernetes-validations"] = json!([{"rule": case[0]}]);
        let schema = json!({"type": "object", "properties": {"spec": schema}});
        let found: Vec<Value> = check(&schema, &Path::new("schema"))
            .iter()
            .map(|error| {
                let body = error.body();
                let why = body.split_once("\"OptionalOldSelf\":null}: ").map(|(_, why)| why.to_owned());
                why.unwrap_or(body).into()
            })
            .collect();
        if Value::from(found.clone()) != case[1] {
            wrong.push(format!("{}\n   wanted {}\n   found  {}", case[0], case[1], Value::from(found)));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Definitions with rules in odd places, and what is wrong with them.
#[test]
fn definitions_are_refused_as_on_a_stock_server() {
    let recorded = recorded(include_str!("testdata/check.json"));
    let mut wrong = Vec::new();
    for case in recorded.as_array().into_iter().flatten() {
        let mut definition = json!({
            "metadata": {"name": "probes.cel.example.com"},
            "spec": {
                "group": "cel.example.com",
                "scope": "Cluster",
                "names": {"plural": "probes", "kind": "Probe"},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": case[0]}}
                ],
            },
        });
        crd::default(&mut definition);
        crd::prepare_create(&mut definition);
        let mut found: Vec<String> = crd::validate(&definition).iter().map(ToString::to_string).collect();
        found.sort();
        if json!(found) != case[1] {
            wrong.push(format!("{}\n   wanted {}\n   found  {}", case[0], case[1], json!(found)));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Rules held against objects.
#[test]
fn rules_judge_as_on_a_stock_server() {
    let recorded = recorded(include_str!("testdata/judge.json"));
    let mut wrong = Vec::new();
    for group in recorded.as_array().into_iter().flatten() {
        let validator = Validator::compile(&group["schema"]).expect("the schema has rules");
        for case in group["cases"].as_array().into_iter().flatten() {
            let old = case.get("old").filter(|old| !old.is_null());
            let findings = validator.find(&case["new"], old);
            let errors: Vec<String> = findings.errors.iter().map(ToString::to_string).collect();
            let found = json!({"errors": errors, "warnings": findings.warnings});
            if found["errors"] != case["errors"] || found["warnings"] != case["warnings"] {
                let wanted = json!({"errors": case["errors"], "warnings": case["warnings"]});
                wrong.push(format!("{}\n   wanted {wanted}\n   found  {found}", case["new"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whoever writes a rule must not be able to bring the server down with it.
#[test]
fn rules_without_measure_are_stopped() {
    let judged = |rule: &str| {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule, "message": "m"}]});
        let validator = Validator::compile(&schema).expect("the schema has rules");
        let errors = validator.validate(&json!({}), None);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let limit = "<nil>: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: m";
    let nested = |open: &str, middle: &str, close: &str, times: usize| {
        format!("{}{middle}{}", open.repeat(times), close.repeat(times))
    };
    let deep = ["expression recursion limit exceeded: 250", "max recursion depth exceeded"]
        .map(|why| format!("<nil>: Invalid value: \"object\": rule compile error: compilation failed: ERROR: <input>:-1:0: {why}"));
    let cases = [
        (nested("(", "true", ")", 249), ""),
        (nested("(", "true", ")", 260), &deep[0]),
        (nested("[", "", "]", 249) + " == []", ""),
        (nested("", "true", " == true", 249), ""),
        (nested("", "true", " == true", 260), &deep[1]),
        (nested("(", "true", " == true)", 240), ""),
        (nested("(", "true", &(" == true".repeat(200) + ")"), 200), &deep[1]),
        (["true"; 5000].join(" || "), ""),
        ("'a'".to_owned() + &".replace('a', 'aaaaaaaaaa')".repeat(30) + " == ''", limit),
        ("lists.range(1000000000).size() == 0".to_owned(), limit),
        (
            "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0)))"
                .to_owned(),
            limit,
        ),
    ];
    for (rule, wanted) in cases {
        let found = judged(&rule);
        // Comparing nested lists fails, and that is no matter here.
        let found = if wanted.is_empty() { found.replace("<nil>: Invalid value: m", "") } else { found };
        assert_eq!(found, wanted, "{}", &rule[..rule.len().min(80)]);
    }
}
