//! Who may do what: RBAC, certificates, admission, and the flow of requests.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::Value;

use super::read::{Read, age, human};

pub(super) fn cells(group: &str, kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    match group {
        "admissionregistration.k8s.io" => admission(kind, object, now),
        "certificates.k8s.io" => certificates(kind, object, now),
        "flowcontrol.apiserver.k8s.io" => flow_control(kind, object, now),
        "rbac.authorization.k8s.io" => rbac(kind, object, now),
        _ => None,
    }
}

/// Flow schemas are listed in the order in which they are tried.
pub(super) fn flow_schema_order(a: &Value, b: &Value) -> Ordering {
    let key =
        |schema: &Value| (schema.int("spec.matchingPrecedence"), schema.text("metadata.name").to_owned());
    key(a).cmp(&key(b))
}

fn admission(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let name = object.text("metadata.name");
    let age = age(object, now);
    let rules = match kind {
        "ValidatingAdmissionPolicy" => "spec.validations",
        "MutatingAdmissionPolicy" => "spec.mutations",
        _ => "webhooks",
    };
    let rules = object.list(rules).len();
    Some(match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            vec![name.into(), rules.into(), age.into()]
        }
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            let parameter = object.at("spec.paramKind");
            let parameter = match parameter.is_null() {
                true => "<unset>".to_owned(),
                false => format!("{}/{}", parameter.text("apiVersion"), parameter.text("kind")),
            };
            vec![name.into(), rules.into(), parameter.into(), age.into()]
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => vec![
            name.into(),
            object.text("spec.policyName").into(),
            parameter_reference(object.at("spec.paramRef")).into(),
            age.into(),
        ],
        _ => return None,
    })
}

fn parameter_reference(reference: &Value) -> String {
    match (reference.text("namespace"), reference.text("name")) {
        (_, "") if reference.has("selector") => go_selector(reference.at("selector")),
        (_, "") => "<unset>".to_owned(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// A label selector as Go prints the struct.
fn go_selector(selector: &Value) -> String {
    let labels = selector.at("matchLabels").as_object().into_iter().flatten();
    let labels: String =
        labels.map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default())).collect();
    let expressions: String = selector
        .list("matchExpressions")
        .iter()
        .map(|expression| {
            let values: Vec<&str> = expression.list("values").iter().filter_map(Value::as_str).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                expression.text("key"),
                expression.text("operator"),
                values.join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn certificates(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    if kind != "CertificateSigningRequest" {
        return None;
    }
    let expiration = object.at("spec.expirationSeconds").as_i64();
    let requested = expiration.map(|seconds| human(jiff::SignedDuration::from_secs(seconds)));
    Some(vec![
        object.text("metadata.name").into(),
        age(object, now).into(),
        object.text_or("spec.signerName", "<none>").into(),
        object.text("spec.username").into(),
        requested.unwrap_or_else(|| "<none>".to_owned()).into(),
        request_status(object).into(),
    ])
}

fn request_status(request: &Value) -> String {
    let has = |kind: &str| request.condition(kind).is_some();
    let mut status = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !request.text("status.certificate").is_empty() {
        status.push_str(",Issued");
    }
    status
}

fn flow_control(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let name = object.text("metadata.name");
    Some(match kind {
        "FlowSchema" => {
            let distinguisher = object.at("spec.distinguisherMethod");
            vec![
                name.into(),
                object.text("spec.priorityLevelConfiguration.name").into(),
                object.int("spec.matchingPrecedence").into(),
                if distinguisher.is_null() { "<none>" } else { distinguisher.text("type") }.into(),
                age(object, now).into(),
                object.condition("Dangling").unwrap_or("?").into(),
            ]
        }
        "PriorityLevelConfiguration" => {
            let limited = object.at("spec.limited");
            let queuing = limited.at("limitResponse.queuing");
            let number = |of: &Value, field: &str| match of.is_null() {
                true => Value::from("<none>"),
                false => Value::from(of.int(field)),
            };
            vec![
                name.into(),
                object.text("spec.type").into(),
                number(limited, "nominalConcurrencyShares"),
                number(queuing, "queues"),
                number(queuing, "handSize"),
                number(queuing, "queueLengthLimit"),
                age(object, now).into(),
            ]
        }
        _ => return None,
    })
}

fn rbac(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    if !matches!(kind, "RoleBinding" | "ClusterRoleBinding") {
        return None;
    }
    let subjects = |kind: &str| {
        let subjects = object.list("subjects").iter().filter(|subject| subject.text("kind") == kind);
        let names = subjects.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", subject.text("namespace"), subject.text("name")),
            _ => subject.text("name").to_owned(),
        });
        Value::from(names.collect::<Vec<_>>().join(", "))
    };
    Some(vec![
        object.text("metadata.name").into(),
        format!("{}/{}", object.text("roleRef.kind"), object.text("roleRef.name")).into(),
        age(object, now).into(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ])
}
