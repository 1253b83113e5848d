//! Reviews, held against a recording of the real server.

use super::*;
use crate::auth::recorded::{index, rows, user};

fn spec_of(attributes: Value) -> Value {
    json!({"spec": attributes})
}

/// The message of a refused review.
fn refused(answer: Result<Value>) -> String {
    let error = answer.unwrap_err();
    assert_eq!((error.code, error.reason), (422, "Invalid"));
    assert_eq!(error.to_status()["details"]["group"], GROUP);
    error.message
}

#[test]
fn answers_as_the_real_server() {
    let index = index();
    for row in rows("decisions") {
        let body = json!({"kind": "SubjectAccessReview", "spec": row["spec"], "status": {"allowed": true}});
        let answer = access(body, &index).unwrap();
        assert_eq!(answer["status"]["allowed"], row["status"]["allowed"], "{row}");
        assert_eq!(answer["spec"], row["spec"]);
        let own = self_access(spec_of(row["spec"].clone()), &user(&row["spec"]), &index).unwrap();
        assert_eq!(own["status"], answer["status"]);
    }
}

#[test]
fn lists_the_rules_that_the_real_server_lists() {
    let index = index();
    let sorted = |value: &Value| {
        let mut all: Vec<String> = value.as_array().unwrap().iter().map(Value::to_string).collect();
        all.sort();
        all
    };
    // Anonymous requests were not let through to be answered.
    for row in rows("rules").iter().filter(|row| row["answer"]["kind"] == "SelfSubjectRulesReview") {
        let mut answer =
            self_rules(&spec_of(json!({"namespace": "auth-record"})), &user(&row["user"]), &index).unwrap();
        let mut expected = row["answer"].clone();
        for key in ["resourceRules", "nonResourceRules"] {
            let (own, real) = (answer["status"][key].take(), expected["status"][key].take());
            assert_eq!(sorted(&own), sorted(&real), "{row}");
        }
        // The order in which missing roles are met is nobody's promise.
        let words = |value: Value| {
            let mut words: Vec<String> = value
                .as_str()
                .unwrap_or_default()
                .split(['[', ']', ','])
                .map(|one| one.trim().to_owned())
                .collect();
            words.sort();
            words
        };
        let (own, real) =
            (answer["status"]["evaluationError"].take(), expected["status"]["evaluationError"].take());
        assert_eq!(words(own), words(real), "{row}");
        assert_eq!(answer, expected);
    }
    let error = self_rules(&spec_of(json!({})), &User::anonymous(), &index).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (400, "no namespace on request"));
}

#[test]
fn a_review_asks_exactly_one_thing() {
    let index = index();
    let ask = |body: Value| refused(self_access(body, &User::anonymous(), &index));
    assert_eq!(
        ask(spec_of(json!({}))),
        ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
    );
    let both = json!({"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/x", "verb": "get"}});
    assert_eq!(
        ask(json!({"metadata": {"name": "x", "managedFields": []}, "spec": both})),
        ".authorization.k8s.io \"\" is invalid: [spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: cannot be specified in combination with resourceAttributes, metadata: Invalid value: {\"managedFields\":[],\"name\":\"x\"}: must be empty]"
    );
    assert_eq!(
        refused(access(spec_of(json!({})), &index)),
        ".authorization.k8s.io \"\" is invalid: [spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified, spec.user: Invalid value: \"\": at least one of user or group must be specified]"
    );
}

#[test]
fn selectors_are_checked() {
    let index = index();
    let ask = |resource: Value| {
        self_access(spec_of(json!({"resourceAttributes": resource})), &User::anonymous(), &index)
    };
    let check = |resource: Value, why: &str| {
        assert_eq!(refused(ask(resource)), format!(".authorization.k8s.io \"\" is invalid: {why}"));
    };
    check(
        json!({"fieldSelector": {}, "labelSelector": {"requirements": [{"key": "a b", "operator": "In"}], "rawSelector": "x"}}),
        "[spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required, spec.resourceAttributes.labelSelector.rawSelector: Invalid value: \"x\": may not specified at the same time as requirements, spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn', spec.resourceAttributes.labelSelector.requirements[0].key: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')]",
    );
    check(
        json!({"fieldSelector": {"requirements": [{"key": "", "operator": "In", "values": []}]},
            "labelSelector": {"requirements": [{"key": "a", "operator": "Foo"}, {"key": "a", "operator": "Exists", "values": ["x"]}]}}),
        "[spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified, spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn', spec.resourceAttributes.labelSelector.requirements[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist']",
    );
    let half = json!({"fieldSelector": {"requirements": [{"key": "a", "operator": "Exists"}]},
        "labelSelector": {"requirements": [{"key": "a", "operator": "Foo"}, {"key": "a", "operator": "Exists"}]}});
    assert_eq!(
        ask(half).unwrap()["status"],
        json!({"allowed": false, "evaluationError": "spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector partially ignored due to parse error"})
    );
}

#[test]
fn local_reviews_stay_in_their_namespace() {
    let index = index();
    let ask = |metadata: Value, spec: Value| {
        local_access(json!({"metadata": metadata, "spec": spec}), "auth-record", &index)
    };
    let pods = |namespace: &str| json!({"user": "alice", "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": namespace}});
    let answer = ask(Value::Null, pods("auth-record")).unwrap();
    assert_eq!(answer["metadata"], json!({"namespace": "auth-record"}));
    assert_eq!(answer["status"]["allowed"], true);
    assert_eq!(
        refused(ask(json!({"namespace": "auth-record"}), pods("other"))),
        ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace"
    );
    assert_eq!(
        refused(ask(
            Value::Null,
            json!({"user": "a", "nonResourceAttributes": {"path": "/x", "verb": "get"}})
        )),
        ".authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: disallowed on this kind of request"
    );
    assert_eq!(ask(json!({"namespace": "other"}), pods("other")).unwrap_err().code, 400);
}

#[test]
fn who_am_i() {
    let context = Context::seeded(1, || "2026-01-02T03:04:05.678Z".parse().unwrap());
    assert_eq!(
        self_subject(&User::new("bob", &["g"]), &context),
        json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": "2026-01-02T03:04:05Z"},
            "status": {"userInfo": {"username": "bob", "groups": ["g"]}}})
    );
}
