//! What a kube-apiserver of the release answered, with what it had stored at that time; and webhooks, whose
//! answers are made up here.

use std::cell::RefCell;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::webhook::{self, Endpoint, Target};
use super::{Attributes, Lookup, Operation, Served, admit};
use crate::cel::rights::{Account, Authority, Verdict, What};
use crate::context::Context;
use crate::kinds::strategy;
use crate::kinds::walk::{get, same, text};
use crate::status::Error;

/// Objects of a test, found by what their kind is called.
pub(super) struct Stored(pub(super) Vec<Value>);

/// `horizontalpodautoscalers` of `HorizontalPodAutoscaler`.
fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('s') {
        Some(_) => format!("{lower}es"),
        None => format!("{lower}s"),
    }
}

fn group_of(object: &Value) -> &str {
    text(object, "apiVersion").split_once('/').map_or("", |(group, _)| group)
}

fn version_of(object: &Value) -> &str {
    text(object, "apiVersion").rsplit('/').next().unwrap_or_default()
}

impl Lookup for Stored {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let all = self.list(group, resource, namespace).into_iter();
        all.into_iter().find(|object| text(&object["metadata"], "name") == name)
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Value> {
        let wanted = |object: &&Value| {
            group_of(object) == group
                && plural(text(object, "kind")) == resource
                && (namespace.is_empty() || text(&object["metadata"], "namespace") == namespace)
        };
        self.0.iter().filter(wanted).cloned().collect()
    }

    fn resource_of(&self, api_version: &str, kind: &str) -> Option<Served> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        (kind != "Unknown").then(|| Served {
            group: group.to_owned(),
            resource: plural(kind),
            namespaced: true,
        })
    }
}

/// Only the account `ops/robot` may do anything.
struct OnlyRobot;

impl Authority for OnlyRobot {
    fn decide(&self, account: Option<Account<'_>>, _: &What<'_>) -> Verdict {
        Verdict { allowed: account == Some(("ops", "robot")), reason: "asked".to_owned() }
    }
}

/// Futures here never wait for anything.
fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(future)
}

fn context() -> Context {
    Context::seeded(1, || Timestamp::UNIX_EPOCH)
}

/// Calls `then` with the attributes of a request that writes `object`.
pub(super) fn with_request<T>(
    operation: Operation,
    object: &Value,
    then: impl FnOnce(&Attributes<'_>) -> T,
) -> T {
    let resource = plural(text(object, "kind")).replace("ingresss", "ingresses");
    let (user, options) = (json!({"username": "tester", "groups": ["testers"]}), json!(null));
    let context = context();
    then(&Attributes {
        operation,
        group: group_of(object),
        version: version_of(object),
        resource: &resource,
        kind: text(object, "kind"),
        subresource: "",
        namespace: text(&object["metadata"], "namespace"),
        name: text(&object["metadata"], "name"),
        user: &user,
        dry_run: false,
        options: &options,
        context: &context,
        authority: &OnlyRobot,
    })
}

// === plugins ===

fn answer(case: &Value) -> Result<Value, Error> {
    let stored = Stored(case["setup"].as_array().cloned().unwrap_or_default());
    let mut object = case["create"].clone();
    (strategy(group_of(&object), text(&object, "kind")).default)(&mut object);
    let given = object.clone();
    with_request(Operation::Create, &given, |request| admit(request, &mut object, None, &stored))?;
    Ok(object)
}

/// Names that were made up are not compared.
fn comparable(object: &Value) -> Value {
    let mut told = object.to_string();
    while let Some(at) = told.find("kube-api-access-") {
        let end = at + "kube-api-access-".len() + 5;
        told.replace_range(at..end, "TOKEN");
    }
    serde_json::from_str(&told).expect("still JSON")
}

#[test]
fn plugins_answer_as_the_real_servers() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("testdata/answers.json")).expect("the answers are JSON");
    let mut wrong = Vec::new();
    for case in &cases {
        let differs = match (answer(case), case["error"].as_str()) {
            (Err(error), Some(expected)) => {
                let details = error.details.as_deref().unwrap_or(&Value::Null);
                (error.message != expected || details != &case["details"]).then(|| {
                    format!(
                        "said      {} {details}\n    expected  {expected} {}",
                        error.message, case["details"]
                    )
                })
            }
            (Err(error), None) => Some(format!("refused   {}", error.message)),
            (Ok(_), Some(expected)) => Some(format!("accepted, expected  {expected}")),
            (Ok(object), None) => {
                let (made, expected) = (comparable(&object), comparable(&case["result"]));
                let spec = |object: &Value| object["spec"].clone();
                let meta = |object: &Value, key: &str| get(object, &["metadata", key]).clone();
                let like = same(&spec(&made), &spec(&expected))
                    && ["annotations", "finalizers"]
                        .iter()
                        .all(|key| same(&meta(&made, key), &meta(&expected, key)));
                (!like).then(|| format!("made      {made}\n    expected  {expected}"))
            }
        };
        wrong.extend(differs.map(|why| format!("{}\n    {why}", case["what"])));
    }
    assert!(!cases.is_empty());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn namespaces_come_first() {
    let refuse = |operation, object: &Value, stored: Vec<Value>| {
        let mut written = object.clone();
        let stored = Stored(stored);
        with_request(operation, object, |request| admit(request, &mut written, None, &stored))
            .map_err(|error| error.message)
    };
    let namespace = |phase: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "status": {"phase": phase}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}});
    assert_eq!(
        refuse(Operation::Create, &map, vec![namespace("Terminating")]).unwrap_err(),
        r#"configmaps "c" is forbidden: unable to create new content in namespace n because it is being terminated"#
    );
    assert_eq!(refuse(Operation::Update, &map, vec![namespace("Terminating")]), Ok(()));
    assert_eq!(refuse(Operation::Delete, &map, vec![]), Ok(()));
    assert_eq!(refuse(Operation::Update, &map, vec![]).unwrap_err(), r#"namespaces "n" not found"#);
    for name in ["default", "kube-system", "kube-public"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        assert_eq!(
            refuse(Operation::Delete, &object, vec![]).unwrap_err(),
            format!("namespaces {name:?} is forbidden: this namespace may not be deleted")
        );
    }
}

#[test]
fn claims_grow_only_where_they_can() {
    let claim = |size: &str, phase: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "n"},
            "spec": {"storageClassName": "s", "resources": {"requests": {"storage": size}}}, "status": {"phase": phase},
        })
    };
    let class = |grows: bool| json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"}, "allowVolumeExpansion": grows});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let grow = |phase: &str, grows: bool| {
        let mut new = claim("2Gi", phase);
        let stored = Stored(vec![class(grows), namespace.clone()]);
        let given = new.clone();
        with_request(Operation::Update, &given, |request| {
            admit(request, &mut new, Some(&claim("1Gi", phase)), &stored)
        })
        .map_err(|error| error.message)
    };
    assert_eq!(grow("Bound", true), Ok(()));
    assert_eq!(
        grow("Pending", true).unwrap_err(),
        r#"persistentvolumeclaims "c" is forbidden: Only bound persistent volume claims can be expanded"#
    );
    assert!(grow("Bound", false).unwrap_err().contains("must support resize"));
}

// === webhooks ===

fn configuration(change: impl FnOnce(&mut Value)) -> Vec<Value> {
    let mut webhook = json!({
        "name": "check.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"service": {"namespace": "hooks", "name": "hook", "path": "/check", "port": 8443}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "scope": "*"}],
        "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
        "timeoutSeconds": 3,
    });
    change(&mut webhook);
    vec![json!({"metadata": {"name": "hooks"}, "webhooks": [webhook]})]
}

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "labels": {"app": "web"}}})
}

/// The same as [`ask`], where a refusal is all that counts.
fn decide(
    object: &Value,
    configurations: &[Value],
    reply: impl Fn(&Value) -> Result<Value, String>,
) -> (Result<webhook::Outcome, Error>, Vec<(Target, Value)>) {
    let (mut outcome, sent) = ask(object, configurations, reply);
    (outcome.refusal.take().map_or(Ok(outcome), Err), sent)
}

/// Writes `object` before webhooks that answer by `reply`; gives the outcome and the reviews that were sent.
fn ask(
    object: &Value,
    configurations: &[Value],
    reply: impl Fn(&Value) -> Result<Value, String>,
) -> (webhook::Outcome, Vec<(Target, Value)>) {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"team": "a"}}});
    let stored = Stored(vec![namespace]);
    let sent = RefCell::new(Vec::new());
    let call = |target: Target, body: Vec<u8>| {
        let review: Value = serde_json::from_slice(&body).expect("a review is JSON");
        let answer = reply(&review).map(|response| {
            let review =
                json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
            review.to_string().into_bytes()
        });
        sent.borrow_mut().push((target, review));
        std::future::ready(answer)
    };
    let outcome = with_request(Operation::Create, object, |request| {
        block_on(webhook::validate(request, Some(object), None, configurations, &stored, call))
    });
    (outcome, sent.into_inner())
}

fn allow(review: &Value) -> Result<Value, String> {
    Ok(json!({"uid": review["request"]["uid"], "allowed": true}))
}

#[test]
fn a_webhook_is_asked_and_heard() {
    let (outcome, sent) = decide(&pod(), &configuration(|_| {}), |review| {
        Ok(json!({
            "uid": review["request"]["uid"], "allowed": true, "warnings": ["mind the gap"],
            "auditAnnotations": {"key": "value"},
        }))
    });
    let outcome = outcome.expect("allowed");
    assert_eq!(outcome.warnings, ["mind the gap"]);
    assert_eq!(outcome.audit_annotations["check.example.com/key"], "value");
    let [(target, review)] = sent.as_slice() else { panic!("one call") };
    assert_eq!(target.timeout.as_secs(), 3);
    let service = Endpoint::Service {
        namespace: "hooks".to_owned(),
        name: "hook".to_owned(),
        path: "/check".to_owned(),
        port: 8443,
    };
    assert_eq!(target.endpoint, service);
    let expected = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": review["request"]["uid"],
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "name": "p", "namespace": "n", "operation": "CREATE",
            "userInfo": {"username": "tester", "groups": ["testers"]},
            "object": pod(), "oldObject": null, "dryRun": false, "options": null,
        },
    });
    assert_eq!(review, &expected);
}

#[test]
fn what_one_refuses_others_may_have_warned_of() {
    let mut configurations = configuration(|hook| hook["name"] = "a.example.com".into());
    configurations.extend(configuration(|hook| hook["name"] = "b.example.com".into()));
    configurations[1]["metadata"]["name"] = "later".into();
    let answers = std::cell::Cell::new(0);
    let (outcome, sent) = ask(&pod(), &configurations, |review| {
        answers.set(answers.get() + 1);
        let warning = format!("warning {}", answers.get());
        Ok(json!({"uid": review["request"]["uid"], "allowed": answers.get() > 1, "warnings": [warning]}))
    });
    assert_eq!(sent.len(), 2);
    assert_eq!(outcome.warnings, ["warning 1", "warning 2"]);
    let why = outcome.refusal.expect("refused").message;
    assert!(why.starts_with(r#"admission webhook "a.example.com" denied the request"#), "{why}");
}

#[test]
fn only_webhooks_that_match_are_asked() {
    let asked = |change: &dyn Fn(&mut Value)| {
        let (outcome, sent) = decide(&pod(), &configuration(change), allow);
        assert_eq!(outcome, Ok(webhook::Outcome::default()));
        !sent.is_empty()
    };
    assert!(asked(&|_| {}));
    assert!(asked(&|hook| hook["rules"][0]["resources"] = json!(["*"])));
    assert!(asked(&|hook| hook["rules"][0]["resources"] = json!(["*/*"])));
    assert!(asked(&|hook| hook["rules"][0]["resources"] = json!(["pods/*"])));
    assert!(!asked(&|hook| hook["rules"][0]["resources"] = json!(["pods/log"])));
    assert!(!asked(&|hook| hook["rules"][0]["resources"] = json!(["*/status"])));
    assert!(!asked(&|hook| hook["rules"][0]["operations"] = json!(["UPDATE"])));
    assert!(asked(&|hook| hook["rules"][0]["operations"] = json!(["*"])));
    assert!(!asked(&|hook| hook["rules"][0]["apiGroups"] = json!(["apps"])));
    assert!(!asked(&|hook| hook["rules"][0]["apiVersions"] = json!(["v2"])));
    assert!(!asked(&|hook| hook["rules"][0]["scope"] = json!("Cluster")));
    assert!(asked(&|hook| hook["rules"][0]["scope"] = json!("Namespaced")));
    assert!(asked(&|hook| hook["namespaceSelector"] = json!({"matchLabels": {"team": "a"}})));
    assert!(!asked(&|hook| hook["namespaceSelector"] = json!({"matchLabels": {"team": "b"}})));
    assert!(asked(&|hook| hook["objectSelector"] = json!({"matchLabels": {"app": "web"}})));
    assert!(!asked(&|hook| hook["objectSelector"] = json!({"matchLabels": {"app": "db"}})));
    let condition = |hook: &mut Value, expression: &str| {
        hook["matchConditions"] =
            json!([{"name": "a", "expression": "true"}, {"name": "b", "expression": expression}]);
    };
    assert!(asked(&|hook| condition(hook, "object.metadata.labels.app == 'web'")));
    assert!(!asked(&|hook| condition(hook, "request.userInfo.username != 'tester'")));
    assert!(!asked(&|hook| condition(hook, "authorizer.requestResource.check('get').allowed()")));
    let robot = "authorizer.serviceAccount('ops', 'robot').path('/x').check('get').reason() == 'asked'";
    assert!(asked(&|hook| condition(hook, robot)));
    assert!(!asked(&|hook| {
        hook["failurePolicy"] = json!("Ignore");
        condition(hook, "object.nothing == 1");
    }));
}

#[test]
fn a_condition_that_cannot_be_evaluated_refuses_and_nobody_is_asked() {
    let configurations = configuration(|hook| {
        hook["matchConditions"] = json!([{"name": "a", "expression": "object.nothing == 1"}]);
    });
    let (outcome, sent) = decide(&pod(), &configurations, allow);
    let why = "expression 'object.nothing == 1' resulted in error: no such key: nothing";
    let refusal = outcome.expect_err("it is refused");
    assert_eq!(refusal.message, format!("pods \"p\" is forbidden: {why}"));
    assert_eq!((refusal.code, refusal.reason, sent.len()), (403, "Forbidden", 0));
}

#[test]
fn an_equivalent_version_is_converted() {
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "namespace": "n"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                 "metrics": [crate::kinds::other::autoscaling::cpu_utilization(50)]},
    });
    let rule = json!([{"operations": ["*"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}]);
    let sent = |policy: &'static str| {
        let configurations = configuration(|hook| {
            hook["rules"] = rule.clone();
            hook["matchPolicy"] = policy.into();
        });
        decide(&autoscaler, &configurations, allow).1
    };
    assert!(sent("Exact").is_empty());
    let sent = sent("Equivalent");
    let request = &sent[0].1["request"];
    assert_eq!(request["kind"]["version"], "v1");
    assert_eq!(request["requestKind"]["version"], "v2");
    assert_eq!(request["object"]["apiVersion"], "autoscaling/v1");
    assert_eq!(request["object"]["spec"]["targetCPUUtilizationPercentage"], 50);
}

#[test]
fn refusals_and_failures_say_why() {
    let error = |change: fn(&mut Value), reply: fn(&Value) -> Result<Value, String>| {
        decide(&pod(), &configuration(change), reply)
            .0
            .map_err(|error| (error.code, error.reason, error.message))
    };
    fn deny(review: &Value, status: Value) -> Result<Value, String> {
        Ok(json!({"uid": review["request"]["uid"], "allowed": false, "status": status}))
    }
    let denied = r#"admission webhook "check.example.com" denied the request"#;
    let failed = r#"Internal error occurred: failed calling webhook "check.example.com": "#;
    assert_eq!(
        error(|_| {}, |review| deny(review, Value::Null)),
        Err((400, "", format!("{denied} without explanation")))
    );
    assert_eq!(
        error(|_| {}, |review| deny(review, json!({"code": 403, "reason": "Forbidden", "message": "no"}))),
        Err((403, "Forbidden", format!("{denied}: no")))
    );
    assert_eq!(
        error(|_| {}, |review| deny(review, json!({"code": 200, "reason": "Odd"}))),
        Err((400, "", format!("{denied}: Odd")))
    );
    assert_eq!(
        error(|_| {}, |_| Err("connection refused".to_owned())),
        Err((500, "InternalError", format!("{failed}failed to call webhook: connection refused")))
    );
    assert!(error(|hook| hook["failurePolicy"] = json!("Ignore"), |_| Err("down".to_owned())).is_ok());
    assert!(
        error(|hook| hook["failurePolicy"] = json!("Ignore"), |review| deny(review, Value::Null)).is_err()
    );
    let answered = error(|_| {}, |_| Ok(json!({"uid": "other", "allowed": true}))).unwrap_err().2;
    assert!(answered.contains("received invalid webhook response: expected response.uid="), "{answered}");
    let patched = error(
        |_| {},
        |review| Ok(json!({"uid": review["request"]["uid"], "allowed": true, "patch": "W10="})),
    );
    assert!(patched.unwrap_err().2.ends_with("validating webhook may not return response.patch"));
}

#[test]
fn a_dry_run_calls_nobody_who_does_things() {
    let configurations = configuration(|hook| hook["sideEffects"] = json!("Some"));
    let (stored, object) = (Stored(Vec::new()), pod());
    let outcome = with_request(Operation::Create, &object, |request| {
        let request = Attributes { dry_run: true, ..request.clone() };
        let call = |_: Target, _: Vec<u8>| std::future::ready(Err("called".to_owned()));
        block_on(webhook::validate(&request, Some(&object), None, &configurations, &stored, call))
    });
    let error = outcome.refusal.expect("refused");
    assert_eq!(
        (error.code, error.message.as_str()),
        (400, r#"admission webhook "check.example.com" does not support dry run"#)
    );
}

#[test]
fn mutating_webhooks_patch_one_after_the_other() {
    use base64::Engine as _;
    let two = |first: &str, second: &str| {
        let mut configurations = configuration(|hook| hook["name"] = first.into());
        configurations.extend(configuration(|hook| hook["name"] = second.into()));
        configurations[1]["metadata"]["name"] = "later".into();
        configurations
    };
    let stored = Stored(Vec::new());
    let call = |target: Target, body: Vec<u8>| {
        let review: Value = serde_json::from_slice(&body).expect("a review is JSON");
        let seen = get(&review, &["request", "object", "metadata", "annotations"]).clone();
        let patch = match target.name.as_str() {
            "a.example.com" => json!([{"op": "add", "path": "/metadata/annotations", "value": {"a": "1"}}]),
            _ => json!([{"op": "add", "path": "/metadata/annotations/seen", "value": seen["a"]}]),
        };
        let patch = base64::engine::general_purpose::STANDARD.encode(patch.to_string());
        let response = json!({"uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch", "patch": patch});
        let review =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        std::future::ready(Ok(review.to_string().into_bytes()))
    };
    let configurations = two("a.example.com", "b.example.com");
    let (object, outcome) = with_request(Operation::Create, &pod(), |request| {
        block_on(webhook::mutate(request, pod(), None, &configurations, &stored, call, Ok))
    });
    assert_eq!(outcome, webhook::Outcome::default());
    assert_eq!(object["metadata"]["annotations"], json!({"a": "1", "seen": "1"}));
}
