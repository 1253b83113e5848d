//! The words are those that a stock server uses: the conformance tests ask both.

use serde_json::{Value, json};

use super::super::tests::{Stored, with_request};
use super::*;
use crate::admission::Operation;

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": data})
}

fn cluster() -> Stored {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"team": "a"}}});
    Stored(vec![namespace, config_map("limits", json!({"most": "3"}))])
}

/// A policy for ConfigMaps with a rule that is changed, bound with what is given.
fn policies(change: impl FnOnce(&mut Value), binding: Value) -> Policies {
    let rule =
        json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
    let mut spec = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.data.size() < 2", "message": "too much"}],
    });
    change(&mut spec);
    let mut bound = json!({"policyName": "p", "validationActions": ["Deny"]});
    bound.as_object_mut().expect("a map").extend(binding.as_object().expect("a map").clone());
    let mut policies = Policies::default();
    policies.put(Kind::Policy, "p", json!({"spec": spec}));
    policies.put(Kind::Binding, "b", json!({"spec": bound}));
    policies
}

fn ask(policies: &Policies, object: &Value) -> Result<Vec<String>, String> {
    let said = with_request(Operation::Create, object, |request| {
        validate(request, Some(object), None, policies, &cluster())
    });
    match said.refusal {
        Some(error) => Err(format!("{} {} {}", error.code, error.reason, error.message)),
        None => Ok(said.warnings),
    }
}

fn denied(name: &str, why: &str) -> Result<Vec<String>, String> {
    let by = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request";
    Err(format!("422 Invalid configmaps \"{name}\" is forbidden: {by}: {why}"))
}

#[test]
fn a_rule_that_does_not_hold_refuses_or_warns() {
    let (good, bad) = (config_map("x", json!({})), config_map("x", json!({"a": "", "b": ""})));
    let denies = policies(|_| {}, json!({}));
    assert_eq!(ask(&denies, &good), Ok(Vec::new()));
    assert_eq!(ask(&denies, &bad), denied("x", "too much"));
    let warns = policies(|_| {}, json!({"validationActions": ["Warn"]}));
    let warning = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': too much";
    assert_eq!(ask(&warns, &bad), Ok(vec![warning.to_owned()]));
    let elsewhere =
        policies(|_| {}, json!({"matchResources": {"namespaceSelector": {"matchLabels": {"team": "b"}}}}));
    assert_eq!(ask(&elsewhere, &bad), Ok(Vec::new()));
}

#[test]
fn what_cannot_be_evaluated_refuses_unless_that_is_ignored() {
    let rule = |spec: &mut Value| spec["validations"][0]["expression"] = json!("object.spec.x == 1");
    let object = config_map("x", json!({}));
    let why = "expression 'object.spec.x == 1' resulted in error: no such key: spec";
    assert_eq!(ask(&policies(rule, json!({})), &object), denied("x", why));
    let ignored = |spec: &mut Value| {
        rule(spec);
        spec["failurePolicy"] = json!("Ignore");
    };
    assert_eq!(ask(&policies(ignored, json!({})), &object), Ok(Vec::new()));
}

#[test]
fn variables_parameters_and_namespaces_are_seen() {
    let rule = |spec: &mut Value| {
        spec["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        spec["variables"] = json!([
            {"name": "unused", "expression": "object.nothing"},
            {"name": "most", "expression": "int(params.data.most)"},
        ]);
        spec["validations"][0] = json!({
            "expression": "object.data.size() <= variables.most",
            "messageExpression": "'the team ' + namespaceObject.metadata.labels.team + ' has at most ' + string(variables.most)",
        });
    };
    let most = json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}});
    let limited = policies(rule, most);
    assert_eq!(ask(&limited, &config_map("x", json!({"a": "", "b": "", "c": ""}))), Ok(Vec::new()));
    let bad = config_map("x", json!({"a": "", "b": "", "c": "", "d": ""}));
    assert_eq!(ask(&limited, &bad), denied("x", "the team a has at most 3"));
    let lost = policies(rule, json!({"paramRef": {"name": "lost", "parameterNotFoundAction": "Deny"}}));
    let why =
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert_eq!(ask(&lost, &bad), denied("x", why));
    let allowed = policies(rule, json!({"paramRef": {"name": "lost", "parameterNotFoundAction": "Allow"}}));
    assert_eq!(ask(&allowed, &bad), Ok(Vec::new()));
}

#[test]
fn a_policy_is_not_asked_without_a_binding_nor_after_it_went() {
    let mut policies = policies(|_| {}, json!({}));
    let bad = config_map("x", json!({"a": "", "b": ""}));
    assert!(ask(&policies, &bad).is_err() && !policies.is_idle());
    policies.remove(Kind::Binding, "b");
    assert_eq!(ask(&policies, &bad), Ok(Vec::new()));
    assert!(policies.is_idle());
}
