//! Plans over plain values: what they write, and that they come to rest.

mod laws;
mod tables;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::plan::{Look, Plan, plan};

/// A Service with one named port in one family.
pub(super) fn service() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web", "labels": {"app": "web"}},
        "spec": {
            "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    })
}

/// A ready pod on `node`, reachable under an address for each family.
pub(super) fn pod(name: &str, number: usize) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"app": "web"}},
        "spec": {"nodeName": "node", "containers": [{"name": "c"}]},
        "status": {
            "phase": "Running",
            "podIPs": [
                {"ip": format!("10.1.{}.{}", number / 250, number % 250 + 1)},
                {"ip": format!("fd00::{:x}", number + 1)},
            ],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

pub(super) fn unready(mut pod: Value) -> Value {
    pod["status"]["conditions"][0]["status"] = "False".into();
    pod
}

fn look(service: &Value, pods: &[Value]) -> Look {
    let pod = |pod: &Value| Arc::new(serde_json::from_value::<Pod>(pod.clone()).unwrap());
    Look {
        service: Arc::new(serde_json::from_value::<Service>(service.clone()).unwrap()),
        pods: pods.iter().map(pod).collect(),
        zones: [("node".to_owned(), Some("zone".to_owned()))].into(),
        slices: Vec::new(),
        trigger: None,
    }
}

/// What a server does with a plan.
fn apply(look: &mut Look, plan: &Plan) {
    let mut slices: Vec<EndpointSlice> = look.slices.iter().map(|slice| (**slice).clone()).collect();
    slices.retain(|slice| !plan.delete.iter().any(|gone| gone.name_any() == slice.name_any()));
    for update in &plan.update {
        let old = slices.iter_mut().find(|slice| slice.name_any() == update.name_any());
        *old.expect("only what is there is updated") = update.clone();
    }
    for new in &plan.create {
        let mut new = new.clone();
        let taken =
            |slices: &[EndpointSlice], name: &str| slices.iter().any(|slice| slice.name_any() == name);
        let name = (0..).map(|number| format!("web-{number}")).find(|name| !taken(&slices, name));
        new.metadata.name = name;
        slices.push(new);
    }
    look.slices = slices.into_iter().map(Arc::new).collect();
}

fn settle(look: &mut Look) -> Plan {
    let first = plan(look);
    apply(look, &first);
    let rest = plan(look);
    assert!(is_empty(&rest), "{rest:#?}");
    first
}

fn is_empty(plan: &Plan) -> bool {
    plan.create.is_empty() && plan.update.is_empty() && plan.delete.is_empty()
}

fn writes(plan: &Plan) -> usize {
    plan.create.len() + plan.update.len() + plan.delete.len()
}
