//! Refuses what a user says of a workload and nobody could follow, in the words that the controllers would use later. No IO.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use koinon_api::failover::Failover;
use koinon_api::names::workloads;
use koinon_webhook::{Operation, Request, Verdict};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::deployments::desired;
use crate::intent::intent;
use crate::rollout::Counting;
use crate::takeover::Policy;

const GROUP: &str = "apps";
/// What can be malformed.
const ANNOTATIONS: [&str; 6] = [
    workloads::REPLICA_SET_PREFERENCES,
    workloads::DEPLOYMENT_PREFERENCES,
    workloads::CLUSTER_ORDER,
    workloads::MAX_CONCURRENT_CLUSTERS,
    workloads::TAKE_OVER,
    workloads::FAILOVER,
];

/// The writes that are looked at, as a webhook's rules.
pub fn rules() -> Value {
    json!([{
        "apiGroups": [GROUP], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["deployments", "replicasets"], "scope": "Namespaced",
    }])
}

/// Without any of the annotations there is nothing to look at, as a webhook's condition. It holds for other kinds.
pub fn condition() -> Value {
    let names = ANNOTATIONS.map(|name| format!("'{name}'")).join(", ");
    let expression = format!(
        "request.resource.group != '{GROUP}' || \
         (has(object.metadata.annotations) && [{names}].exists(name, name in object.metadata.annotations))"
    );
    json!({"name": "says-something-about-clusters", "expression": expression})
}

/// Decides about one write.
pub fn review(request: &Request) -> Verdict {
    let looked_at = matches!(request.operation, Operation::Create | Operation::Update);
    if request.group != GROUP || !request.subresource.is_empty() || !looked_at {
        return Verdict::Allow;
    }
    let known = faults(&request.resource, &request.old);
    let (old, new): (Vec<String>, Vec<String>) =
        faults(&request.resource, &request.object).into_iter().partition(|fault| known.contains(fault));
    if !new.is_empty() {
        return Verdict::Refuse(new.join("; "));
    }
    // What got in before must not keep anybody, us included, from changing something else.
    if old.is_empty() { Verdict::Allow } else { Verdict::Warn(old) }
}

fn faults(resource: &str, object: &Value) -> Vec<String> {
    // What is no such object at all is the API server's business.
    match resource {
        "deployments" => serde_json::from_value(object.clone()).map(of_deployment).unwrap_or_default(),
        "replicasets" => serde_json::from_value(object.clone()).map(of_set).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn of_deployment(deployment: Deployment) -> Vec<String> {
    let mut faults: Vec<String> =
        of_preferences(deployment.annotations(), workloads::DEPLOYMENT_PREFERENCES).into_iter().collect();
    if let Some(spec) = &deployment.spec {
        faults.extend(desired(&deployment, spec, Counting::Federation).1);
    }
    faults
}

fn of_set(set: ReplicaSet) -> Vec<String> {
    // Shadows only mirror what members run.
    if set.annotations().contains_key(workloads::SHADOW) {
        return Vec::new();
    }
    let preferences = of_preferences(set.annotations(), workloads::REPLICA_SET_PREFERENCES);
    let failover = Failover::fault(set.annotations());
    preferences.into_iter().chain(Policy::fault(set.annotations())).chain(failover).collect()
}

fn of_preferences(annotations: &BTreeMap<String, String>, name: &str) -> Option<String> {
    intent(annotations, name, 0, None).fault
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(annotations: &[(&str, &str)]) -> Value {
        let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
        let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        json!({"metadata": {"name": "web", "annotations": annotations}, "spec": {"selector": {}, "template": template}})
    }

    fn ask(resource: &str, old: Value, object: Value) -> Verdict {
        let operation = if old.is_null() { Operation::Create } else { Operation::Update };
        review(&Request {
            operation,
            group: GROUP.into(),
            resource: resource.into(),
            object,
            old,
            ..Request::default()
        })
    }

    /// What is said about these annotations on a new object.
    fn check(resource: &str, annotations: &[(&str, &str)], expected: &[&str]) {
        let verdict = ask(resource, Value::Null, object(annotations));
        let expected = match expected {
            [] => Verdict::Allow,
            faults => Verdict::Refuse(faults.join("; ")),
        };
        assert_eq!(verdict, expected, "{annotations:?}");
    }

    #[test]
    fn malformed_annotations_are_refused_in_the_words_of_the_controllers() {
        let deployment = |text, fault: &str| {
            let name = workloads::DEPLOYMENT_PREFERENCES;
            let fault =
                format!("the annotation {name} cannot be used, so replicas stay where they are: {fault}");
            check("deployments", &[(name, text)], &[&fault]);
            let name = workloads::REPLICA_SET_PREFERENCES;
            let fault = fault.replace("deployment-preferences", "replica-set-preferences");
            check("replicasets", &[(name, text)], &[&fault]);
            // The annotation of the other kind means nothing.
            check("deployments", &[(name, text)], &[]);
        };
        deployment(
            r#"{"clusters":{"a":{"weigth":1}}}"#,
            "clusters.a.weigth is not known: minReplicas, maxReplicas and weight are",
        );
        deployment(
            r#"{"clusters":{"a":{"weight":-1}}}"#,
            "clusters.a.weight is -1: it must be a whole number from 0",
        );
        deployment(
            r#"{"clusters":{"a":{"minReplicas":3,"maxReplicas":2}}}"#,
            "clusters.a.minReplicas is 3, more than maxReplicas, which is 2: lower the one or raise the other",
        );
        let order = (workloads::CLUSTER_ORDER, "a,,b");
        let at_once = (workloads::MAX_CONCURRENT_CLUSTERS, "none");
        let faults = [
            "the annotation koinon.dev/cluster-order cannot be used: the order \"a,,b\" has an empty name: write the \
             clusters separated by commas, as in b,a,c",
            "the annotation koinon.dev/max-concurrent-clusters cannot be used: \"none\" is no number of clusters: write a \
             whole number from 1, or all",
        ];
        check("deployments", &[order, at_once], &faults);
        check("replicasets", &[order, at_once], &[]);
        let take_over = "the annotation koinon.dev/take-over cannot be used: \"yes\" is none of always, if-same and never";
        check("deployments", &[(workloads::TAKE_OVER, "yes")], &[take_over]);
        check("replicasets", &[(workloads::TAKE_OVER, "yes")], &[take_over]);
        check(
            "deployments",
            &[(workloads::CLUSTER_ORDER, "b,a"), (workloads::MAX_CONCURRENT_CLUSTERS, "all")],
            &[],
        );
    }

    #[test]
    fn what_was_wrong_before_hinders_nobody() {
        let bad = (workloads::CLUSTER_ORDER, "a,,b");
        let old = object(&[bad]);
        assert!(matches!(ask("deployments", old.clone(), object(&[bad, ("other", "x")])), Verdict::Warn(_)));
        assert_eq!(ask("deployments", old.clone(), object(&[])), Verdict::Allow);
        assert!(matches!(
            ask("deployments", old, object(&[(workloads::CLUSTER_ORDER, "a,a")])),
            Verdict::Refuse(_)
        ));
    }

    #[test]
    fn shadows_and_other_kinds_are_let_through() {
        let bad = (workloads::REPLICA_SET_PREFERENCES, "{");
        assert!(matches!(ask("replicasets", Value::Null, object(&[bad])), Verdict::Refuse(_)));
        assert_eq!(
            ask("replicasets", Value::Null, object(&[bad, (workloads::SHADOW, "true")])),
            Verdict::Allow
        );
        assert_eq!(ask("statefulsets", Value::Null, object(&[bad])), Verdict::Allow);
    }
}
