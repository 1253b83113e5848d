//! What counts, how much, and when it is said.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use serde_json::{Value, json};

use super::plan::{Counted, Look, Plan, Subject, plan, subject, subjects};

const NOW: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn parsed<T: serde::de::DeserializeOwned>(values: &[Value]) -> Vec<Arc<T>> {
    values.iter().map(|value| Arc::new(serde_json::from_value(value.clone()).unwrap())).collect()
}

fn quota(hard: &[&str], more: Value) -> ResourceQuota {
    let hard: BTreeMap<&str, &str> = hard.iter().map(|name| (*name, "10")).collect();
    let mut spec = json!({"hard": hard});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": "q", "namespace": "ns"}, "spec": spec})).unwrap()
}

fn decide(
    quota: &ResourceQuota,
    pods: &[Value],
    services: &[Value],
    claims: Option<&[Value]>,
    secrets: Option<usize>,
) -> Plan {
    let kind = Counted { group: String::new(), resource: "secrets".into() };
    let counts = secrets.map(|count| (kind, count)).into_iter().collect();
    let claims = claims.map(parsed);
    let (pods, services) = (parsed::<Pod>(pods), parsed(services));
    plan(&Look {
        quota,
        pods: &pods,
        services: &services,
        claims: claims.as_deref(),
        counts: &counts,
        now: at(NOW),
    })
}

fn used(plan: &Plan) -> Value {
    serde_json::to_value(plan.status.as_ref().unwrap().used.as_ref().unwrap()).unwrap()
}

fn pod(resources: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}]}})
}

#[test]
fn pods_use_what_they_ask_for_while_they_live() {
    let hard = [
        "pods",
        "count/pods",
        "cpu",
        "requests.memory",
        "limits.cpu",
        "limits.memory",
        "requests.example.com/gpu",
    ];
    let asks = pod(
        json!({"requests": {"cpu": "250m", "memory": "64Mi", "example.com/gpu": "1"}, "limits": {"cpu": "1"}}),
    );
    let mut ended = asks.clone();
    ended["status"] = json!({"phase": "Succeeded"});
    let mut lost = asks.clone();
    lost["metadata"]["deletionTimestamp"] = at(NOW - 31).to_string().into();
    lost["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    let mut going = lost.clone();
    going["metadata"]["deletionTimestamp"] = at(NOW - 10).to_string().into();
    let plan = decide(&quota(&hard, json!({})), &[asks.clone(), ended, lost, going, asks], &[], None, None);
    let expected = json!({
        "pods": "3", "count/pods": "5", "cpu": "750m", "requests.memory": "192Mi", "limits.cpu": "3",
        "limits.memory": "0", "requests.example.com/gpu": "3",
    });
    assert_eq!(used(&plan), expected);
    assert_eq!(plan.recheck, Some(at(NOW + 20)));
}

#[test]
fn those_who_initialise_count_by_their_peak_and_sidecars_always() {
    let mut pod = pod(json!({"requests": {"cpu": "1"}}));
    let container = |cpu: &str, policy: Value| json!({"name": "i", "restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}});
    pod["spec"]["initContainers"] = json!([
        container("500m", "Always".into()),
        container("2", Value::Null),
        container("100m", Value::Null)
    ]);
    pod["spec"]["overhead"] = json!({"cpu": "10m"});
    let plan = decide(&quota(&["cpu"], json!({})), &[pod], &[], None, None);
    // At its peak the second one runs beside the sidecar.
    assert_eq!(used(&plan), json!({"cpu": "2510m"}));
}

#[test]
fn scopes_choose_what_counts() {
    let mut urgent = pod(json!({}));
    urgent["spec"]["priorityClassName"] = "high".into();
    let mut brief = pod(json!({"requests": {"cpu": "1"}}));
    brief["spec"]["activeDeadlineSeconds"] = 5.into();
    let pods = [urgent, brief, pod(json!({}))];
    let selector = |operator: &str, values: Value| json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}});
    let cases = [
        (json!({}), "3"),
        (json!({"scopes": ["Terminating"]}), "1"),
        (json!({"scopes": ["NotTerminating"]}), "2"),
        (json!({"scopes": ["BestEffort"]}), "2"),
        (json!({"scopes": ["NotBestEffort", "NotTerminating"]}), "0"),
        (selector("In", json!(["high", "low"])), "1"),
        (selector("NotIn", json!(["high"])), "2"),
        (selector("Exists", json!([])), "1"),
        (selector("DoesNotExist", json!([])), "2"),
    ];
    for (scope, expected) in cases {
        let plan = decide(&quota(&["pods"], scope.clone()), &pods, &[], None, None);
        assert_eq!(used(&plan), json!({"pods": expected}), "{scope}");
    }
}

#[test]
fn services_claims_and_plain_counts() {
    let service = |spec: Value| json!({"metadata": {"name": "s"}, "spec": spec});
    let port = |number: i32| json!({"port": 80, "nodePort": number});
    let services = [
        service(json!({"type": "ClusterIP", "ports": [port(0)]})),
        service(json!({"type": "NodePort", "ports": [port(1), port(2)]})),
        service(json!({"type": "LoadBalancer", "ports": [port(3)]})),
        service(
            json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [port(0), port(4)]}),
        ),
    ];
    let claim = json!({"metadata": {"name": "c"}, "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "5Gi"}}}});
    let hard = [
        "services",
        "services.nodeports",
        "services.loadbalancers",
        "count/services",
        "requests.storage",
        "persistentvolumeclaims",
        "gold.storageclass.storage.k8s.io/requests.storage",
        "tin.storageclass.storage.k8s.io/persistentvolumeclaims",
        "secrets",
        "count/secrets",
        "strange",
    ];
    let plan = decide(&quota(&hard, json!({})), &[], &services, Some(&[claim.clone(), claim]), Some(7));
    let expected = json!({
        "services": "4", "services.nodeports": "4", "services.loadbalancers": "2", "count/services": "4",
        "requests.storage": "10Gi", "persistentvolumeclaims": "2",
        "gold.storageclass.storage.k8s.io/requests.storage": "10Gi",
        "tin.storageclass.storage.k8s.io/persistentvolumeclaims": "0", "secrets": "7", "count/secrets": "7",
    });
    assert_eq!(used(&plan), expected);
}

#[test]
fn unknown_is_not_zero_and_what_is_right_is_left_alone() {
    let mut quota = quota(&["pods", "secrets", "requests.storage"], json!({}));
    let first = decide(&quota, &[], &[], None, None);
    assert_eq!(used(&first), json!({"pods": "0"}));
    quota.status = decide(&quota, &[], &[], Some(&[]), Some(3)).status;
    let later = decide(&quota, &[pod(json!({}))], &[], None, None);
    assert_eq!(used(&later), json!({"pods": "1", "secrets": "3", "requests.storage": "0"}));
    assert_eq!(decide(&quota, &[], &[], None, None), Plan::default());
    // A limit that changed is said even if nothing else did.
    quota.spec.as_mut().unwrap().hard.as_mut().unwrap().remove("pods");
    let less = decide(&quota, &[], &[], None, None).status.unwrap();
    assert_eq!(less.hard.unwrap().len(), 2);
}

#[test]
fn names_tell_what_they_are_about() {
    let objects = |group: &str, resource: &str| {
        Some(Subject::Objects(Counted { group: group.into(), resource: resource.into() }))
    };
    assert_eq!(subject("count/deployments.apps"), objects("apps", "deployments"));
    assert_eq!(subject("count/widgets.play.example.com"), objects("play.example.com", "widgets"));
    assert_eq!(subject("configmaps"), objects("", "configmaps"));
    assert_eq!(subject("count/pods"), Some(Subject::Pods));
    assert_eq!(subject("limits.cpu"), Some(Subject::Pods));
    assert_eq!(subject("requests.hugepages-2Mi"), Some(Subject::Pods));
    assert_eq!(subject("strange"), None);
    assert_eq!(subject("count/events.events.k8s.io"), None);
    assert_eq!(subjects(&quota(&["cpu", "pods", "services"], json!({}))).len(), 2);
}
