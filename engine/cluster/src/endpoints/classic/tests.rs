//! What Endpoints say, over plain values.

use k8s_openapi::api::core::v1::Endpoints;
use serde_json::{Value, json};

use super::super::tests::{pod, service, unready};
use super::plan::{Look, Plan, plan};

fn look(service: &Value, pods: &[Value]) -> Look {
    let read = |pod: &Value| std::sync::Arc::new(serde_json::from_value(pod.clone()).unwrap());
    Look {
        service: std::sync::Arc::new(serde_json::from_value(service.clone()).unwrap()),
        pods: pods.iter().map(read).collect(),
        current: None,
        trigger: None,
    }
}

/// What a server has once the plan is carried out; nothing is left to do then.
#[track_caller]
fn settled(look: &mut Look) -> Endpoints {
    let endpoints = match plan(look) {
        Plan::Nothing => panic!("nothing to do: {look:#?}"),
        Plan::Create(new) | Plan::Update(new) => *new,
    };
    look.current = Some(std::sync::Arc::new(endpoints.clone()));
    assert_eq!(plan(look), Plan::Nothing);
    endpoints
}

fn said(endpoints: &Endpoints) -> Value {
    let brief = |list: &Value| -> Vec<String> {
        let list = list.as_array().cloned().unwrap_or_default();
        list.iter().map(|one| one["ip"].as_str().unwrap().to_owned()).collect()
    };
    let subsets = serde_json::to_value(&endpoints.subsets).unwrap();
    let subsets = subsets.as_array().cloned().unwrap_or_default();
    let subset = |subset: &Value| {
        let ports = subset["ports"].as_array().cloned().unwrap_or_default();
        let ports: Vec<Value> = ports.iter().map(|port| port["port"].clone()).collect();
        json!({"ready": brief(&subset["addresses"]), "not": brief(&subset["notReadyAddresses"]), "ports": ports})
    };
    subsets.iter().map(subset).collect()
}

#[test]
fn ready_pods_and_others_share_a_subset() {
    let mut look = look(&service(), &[pod("a", 1), unready(pod("b", 2))]);
    let endpoints = settled(&mut look);
    assert_eq!(said(&endpoints), json!([{"ready": ["10.1.0.2"], "not": ["10.1.0.3"], "ports": [8080]}]));
    let address = &endpoints.subsets.as_ref().unwrap()[0].addresses.as_ref().unwrap()[0];
    assert_eq!(address.node_name.as_deref(), Some("node"));
    assert_eq!(address.target_ref.as_ref().unwrap().name.as_deref(), Some("a"));
    let labels = endpoints.metadata.labels.unwrap();
    assert_eq!(labels["endpoints.kubernetes.io/managed-by"], "endpoint-controller");
    assert_eq!(labels["app"], "web");
}

#[test]
fn a_pod_that_leaves_is_left_out_unless_all_are_published() {
    let mut leaving = pod("a", 1);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let mut ended = pod("b", 2);
    ended["status"]["phase"] = "Failed".into();
    assert_eq!(said(&settled(&mut look(&service(), &[leaving.clone(), ended.clone()]))), json!([]));
    let mut all = service();
    all["spec"]["publishNotReadyAddresses"] = true.into();
    let endpoints = settled(&mut look(&all, &[unready(leaving), ended]));
    assert_eq!(said(&endpoints), json!([{"ready": ["10.1.0.2"], "not": [], "ports": [8080]}]));
}

#[test]
fn a_headless_service_needs_no_ports_and_says_what_it_is() {
    let mut headless = service();
    headless["spec"]["clusterIP"] = "None".into();
    headless["spec"]["ports"] = json!([]);
    headless["spec"]["ipFamilies"] = json!(["IPv6"]);
    let endpoints = settled(&mut look(&headless, &[pod("a", 1)]));
    assert_eq!(said(&endpoints), json!([{"ready": ["fd00::2"], "not": [], "ports": []}]));
    assert_eq!(endpoints.metadata.labels.unwrap()["service.kubernetes.io/headless"], "");
}

#[test]
fn what_changed_is_written_under_the_version_that_was_seen() {
    let mut look = look(&service(), &[pod("a", 1)]);
    let mut current = settled(&mut look);
    current.metadata.resource_version = Some("7".into());
    current.metadata.annotations = Some([("own".to_owned(), "kept".to_owned())].into());
    look.current = Some(std::sync::Arc::new(current));
    assert_eq!(plan(&look), Plan::Nothing);
    look.pods.clear();
    let Plan::Update(new) = plan(&look) else { panic!("an update") };
    assert_eq!(new.metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(new.metadata.annotations.unwrap()["own"], "kept");
    assert_eq!(new.subsets, None);
}

#[test]
fn more_than_a_thousand_addresses_are_cut_short_and_said_to_be() {
    let pods: Vec<Value> = (0..1001).map(|number| pod(&format!("p{number}"), number)).collect();
    let endpoints = settled(&mut look(&service(), &pods));
    assert_eq!(said(&endpoints)[0]["ready"].as_array().unwrap().len(), 1000);
    let annotations = endpoints.metadata.annotations.unwrap();
    assert_eq!(annotations["endpoints.kubernetes.io/over-capacity"], "truncated");
    let mut some: Vec<Value> = pods[..999].to_vec();
    some.extend(pods[999..].iter().cloned().map(unready));
    let endpoints = settled(&mut look(&service(), &some));
    let lengths = ["ready", "not"].map(|key| said(&endpoints)[0][key].as_array().unwrap().len());
    assert_eq!(lengths, [999, 1]);
}
