//! What users of a federation's API server are told as they write, where it does something else than one cluster would.
//!
//! ValidatingAdmissionPolicies that warn say it, which every engine has: no webhook is needed, and nothing is ever refused for it.

use koinon_api::names::workloads;
use serde_json::{Value, json};

/// What would run somewhere if the federation were a cluster, by its group.
const NOT_CARRIED: [(&str, &[&str]); 5] = [
    ("", &["pods", "replicationcontrollers"]),
    ("apps", &["statefulsets", "daemonsets"]),
    ("batch", &["jobs", "cronjobs"]),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("networking.k8s.io", &["ingresses"]),
];

/// The policies and their bindings, for the federation's API server.
pub fn warnings() -> Vec<Value> {
    [not_carried(), left_running()].concat()
}

/// Kinds that are stored here and that no role carries to members.
fn not_carried() -> Vec<Value> {
    let rules = NOT_CARRIED.iter().map(|(group, resources)| rule(group, "CREATE", resources));
    let told = "'no role of Koinon carries a ' + request.kind.kind + ' to members: it is stored here and nothing runs. \
                What is carried are Deployments and ReplicaSets'";
    let shortly = "no role of Koinon carries this kind to members: it is stored here and nothing runs";
    policy("koinon-not-carried", rules.collect(), "false", shortly, told)
}

/// Deletions that leave what members run: all but those in the foreground and those with the annotation.
fn left_running() -> Vec<Value> {
    let rules = vec![rule("apps", "DELETE", &["deployments", "replicasets"])];
    let (placement, cascade, members) =
        (workloads::PLACEMENT, workloads::CASCADE, workloads::CASCADE_MEMBERS);
    let annotations = "oldObject.metadata.annotations";
    let placed = format!("has({annotations}) && '{placement}' in {annotations}");
    let cascades = format!("'{cascade}' in {annotations} && {annotations}['{cascade}'] == '{members}'");
    let foreground = "has(request.options) && request.options != null && has(request.options.propagationPolicy) \
                      && request.options.propagationPolicy == 'Foreground'";
    let fine = format!("!({placed}) || ({cascades}) || ({foreground})");
    let told = "'members go on running this ' + request.kind.kind + '. To remove it there too: koinon clean ' + \
                request.resource.resource + '/' + oldObject.metadata.name + ' -n ' + oldObject.metadata.namespace + \
                ' (or, the next time, kubectl delete --cascade=foreground)'";
    let shortly = "members go on running it: koinon clean removes it there too";
    policy("koinon-left-running", rules, &fine, shortly, told)
}

fn rule(group: &str, operation: &str, resources: &[&str]) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["*"], "operations": [operation], "resources": resources})
}

/// A policy that warns unless `fine` holds, and its binding. `shortly` is said where `told` cannot be worked out.
fn policy(name: &str, rules: Vec<Value>, fine: &str, shortly: &str, told: &str) -> Vec<Value> {
    let validation = json!({"expression": fine, "message": shortly, "messageExpression": told});
    vec![
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                // A word to the user is no reason to refuse anything.
                "failurePolicy": "Ignore",
                "matchConstraints": {"resourceRules": rules},
                "validations": [validation],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Warn"]},
        }),
    ]
}
