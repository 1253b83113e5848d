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

/// A mutating policy for ConfigMaps with these mutations.
fn mutating(mutations: Value, change: impl FnOnce(&mut Value)) -> Policies {
    let rule =
        json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}, "mutations": mutations});
    change(&mut spec);
    let mut policies = Policies::default();
    policies.put(Kind::MutatingPolicy, "p", json!({"spec": spec}));
    policies.put(Kind::MutatingBinding, "b", json!({"spec": {"policyName": "p"}}));
    policies
}

fn applied(expression: &str) -> Value {
    json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}])
}

fn patched(expression: &str) -> Value {
    json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}])
}

/// Objects that are taken as they are.
struct Plain;

impl mutating::Typing for Plain {
    fn schema(&self, group: &str, version: &str, kind: &str) -> Option<crate::schema::Schema> {
        crate::catalog::builtin_schema(group, version, kind)
    }

    fn again(&self, changed: Value) -> Result<Value> {
        Ok(changed)
    }
}

fn turn(policies: &Policies, object: &mut Value, turns: &mut mutating::Turns) -> Result<(), String> {
    let given = object.clone();
    let done = with_request(Operation::Create, &given, |request| {
        mutating::mutate(request, object, None, policies, &cluster(), &Plain, turns)
    });
    done.map_err(|error| format!("{} {} {}", error.code, error.reason, error.message))
}

fn made_of(policies: &Policies, data: Value) -> Result<Value, String> {
    let mut object = config_map("x", data);
    turn(policies, &mut object, &mut mutating::Turns::default())?;
    Ok(object["data"].clone())
}

#[test]
fn a_configuration_is_laid_over_the_object() {
    let policy = mutating(applied("Object{data: {'added': object.metadata.name}}"), |_| {});
    assert_eq!(made_of(&policy, json!({"a": "1"})), Ok(json!({"a": "1", "added": "x"})));
    let named = mutating(
        applied("Object{metadata: Object.metadata{labels: {'team': namespaceObject.metadata.labels.team}}}"),
        |_| {},
    );
    let mut object = config_map("x", json!({}));
    assert_eq!(turn(&named, &mut object, &mut mutating::Turns::default()), Ok(()));
    assert_eq!(object["metadata"]["labels"], json!({"team": "a"}));
}

#[test]
fn a_patch_is_carried_out_unless_its_test_fails() {
    let add = "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b~c'), value: 'y'}]";
    assert_eq!(made_of(&mutating(patched(add), |_| {}), json!({})), Ok(json!({"a/b~c": "y"})));
    let some = "has(object.data.a) ? [JSONPatch{op: 'remove', path: '/data/a'}] : []";
    let policy = mutating(patched(some), |_| {});
    assert_eq!(made_of(&policy, json!({"a": "1", "b": "2"})), Ok(json!({"b": "2"})));
    assert_eq!(made_of(&policy, json!({"b": "2"})), Ok(json!({"b": "2"})));
    let tested =
        "[JSONPatch{op: 'test', path: '/data/a', value: '2'}, JSONPatch{op: 'remove', path: '/data/a'}]";
    for data in [json!({"a": "1"}), json!({"b": "1"})] {
        assert_eq!(made_of(&mutating(patched(tested), |_| {}), data.clone()), Ok(data));
    }
}

#[test]
fn a_mutation_that_fails_refuses_unless_that_is_ignored() {
    let refused = |why: &str| Err(format!("403 Invalid policy 'p' with binding 'b' denied request: {why}"));
    let wrong = mutating(applied("Object{metadata: Object.wrong{}}"), |_| {});
    let why = "type mismatch: unexpected type name \"Object.wrong\", expected \"Object.metadata\", which matches field name path from root Object type";
    assert_eq!(made_of(&wrong, json!({})), refused(why));
    let unknown = applied("Object{nonsense: 'x'}");
    let why = "error applying patch: failed to convert patch object to typed object: .nonsense: field not declared in schema";
    assert_eq!(made_of(&mutating(unknown.clone(), |_| {}), json!({})), refused(why));
    let ignored = mutating(unknown, |spec| spec["failurePolicy"] = json!("Ignore"));
    assert_eq!(made_of(&ignored, json!({"a": "1"})), Ok(json!({"a": "1"})));
    let conditional = mutating(applied("Object{nonsense: 'x'}"), |spec| {
        spec["matchConditions"] = json!([{"name": "c", "expression": "object.metadata.name == 'y'"}]);
    });
    assert_eq!(made_of(&conditional, json!({})), Ok(json!({})));
}

#[test]
fn what_is_replaced_as_a_whole_is_not_applied() {
    let mut policies = Policies::default();
    let rule = json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
    let mutations = applied("Object{spec: Object.spec{nodeSelector: {'a': 'b'}}}");
    let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "mutations": mutations});
    policies.put(Kind::MutatingPolicy, "p", json!({"spec": spec}));
    policies.put(Kind::MutatingBinding, "b", json!({"spec": {"policyName": "p"}}));
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "n"}, "spec": {}});
    let why = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.nodeSelector";
    let refused = format!("403 Invalid policy 'p' with binding 'b' denied request: {why}");
    assert_eq!(turn(&policies, &mut pod, &mut mutating::Turns::default()), Err(refused));
}

#[test]
fn only_those_that_ask_for_it_have_a_second_turn() {
    let count = "Object{data: {'turns': string(int(object.data.turns) + 1)}}";
    for (policy, expected) in [("IfNeeded", "2"), ("Never", "1")] {
        let policies = mutating(applied(count), |spec| spec["reinvocationPolicy"] = json!(policy));
        let mut object = config_map("x", json!({"turns": "0"}));
        let mut turns = mutating::Turns::default();
        assert_eq!(turn(&policies, &mut object, &mut turns), Ok(()));
        turns.begin_second();
        assert_eq!(turn(&policies, &mut object, &mut turns), Ok(()));
        assert_eq!(object["data"]["turns"], expected, "{policy}");
    }
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
