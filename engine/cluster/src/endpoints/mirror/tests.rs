//! What is mirrored, over plain values.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::plan::{Mirror, is_mirrored, plan};

fn endpoints(subsets: Value) -> Endpoints {
    let metadata = json!({
        "name": "db", "namespace": "default", "uid": "uid-db", "labels": {"tier": "data"},
        "annotations": {
            "kept": "yes", "endpoints.kubernetes.io/last-change-trigger-time": "x",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    });
    serde_json::from_value(json!({"metadata": metadata, "subsets": subsets})).unwrap()
}

/// Carries a plan out.
fn applied(mirror: &Mirror, slices: &[Arc<EndpointSlice>]) -> Vec<Arc<EndpointSlice>> {
    let gone =
        |slice: &Arc<EndpointSlice>| mirror.plan.delete.iter().any(|one| one.name_any() == slice.name_any());
    let mut all: Vec<Arc<EndpointSlice>> = slices.iter().filter(|slice| !gone(slice)).cloned().collect();
    for update in &mirror.plan.update {
        let old = all.iter_mut().find(|slice| slice.name_any() == update.name_any());
        *old.expect("only what is there is updated") = Arc::new(update.clone());
    }
    for new in &mirror.plan.create {
        let mut new = new.clone();
        new.metadata.name = Some(format!("db-{}", all.len()));
        all.push(Arc::new(new));
    }
    all
}

/// The slices once all is written; nothing is left to do then.
#[track_caller]
fn settled(endpoints: &Endpoints, slices: &[Arc<EndpointSlice>]) -> Vec<Arc<EndpointSlice>> {
    let slices = applied(&plan(endpoints, slices), slices);
    assert_eq!(plan(endpoints, &slices).plan, Default::default());
    slices
}

fn brief(slices: &[Arc<EndpointSlice>]) -> Vec<String> {
    let brief = slices.iter().map(|slice| {
        let ports: Vec<String> =
            slice.ports.iter().flatten().map(|port| port.port.unwrap().to_string()).collect();
        let endpoints = slice.endpoints.iter().flatten().map(|one| {
            let ready = one.conditions.as_ref().unwrap().ready == Some(true);
            format!("{}{}", one.addresses[0], if ready { "" } else { " not ready" })
        });
        let endpoints: Vec<String> = endpoints.collect();
        format!("{} {} {}", slice.address_type, ports.join("+"), endpoints.join(", "))
    });
    brief.collect()
}

fn port() -> Value {
    json!([{"port": 80, "protocol": "TCP"}])
}

#[test]
fn each_family_and_set_of_ports_has_its_slice() {
    let mut own = endpoints(json!([
        {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "notReadyAddresses": [{"ip": "10.0.0.2"}], "ports": port()},
        {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 81, "protocol": "TCP"}]},
    ]));
    let slices = settled(&own, &[]);
    let expected = ["IPv4 81 10.0.0.1", "IPv4 80 10.0.0.1, 10.0.0.2 not ready", "IPv6 80 fd00::1"];
    let mut got = brief(&slices);
    got.sort_unstable();
    let mut wanted = expected.map(str::to_owned);
    wanted.sort_unstable();
    assert_eq!(got, wanted);
    let labels = slices[0].labels();
    assert_eq!(labels["kubernetes.io/service-name"], "db");
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "endpointslicemirroring-controller.k8s.io");
    assert_eq!(labels["tier"], "data");
    assert_eq!(slices[0].annotations().keys().collect::<Vec<_>>(), ["kept"]);
    assert_eq!(slices[0].owner_references()[0].kind, "Endpoints");

    own.subsets = None;
    assert!(settled(&own, &slices).is_empty());
}

#[test]
fn a_slice_of_other_ports_is_used_again() {
    let slices = settled(&endpoints(json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": port()}])), &[]);
    let other =
        endpoints(json!([{"addresses": [{"ip": "10.0.0.9"}], "ports": [{"port": 81, "protocol": "TCP"}]}]));
    let changed = plan(&other, &slices);
    assert_eq!((changed.plan.create.len(), changed.plan.update.len(), changed.plan.delete.len()), (0, 1, 0));
    assert_eq!(brief(&settled(&other, &slices)), ["IPv4 81 10.0.0.9"]);
}

#[test]
fn endpoints_that_were_made_anew_own_their_slices() {
    let first = endpoints(json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": port()}]));
    let slices = settled(&first, &[]);
    let mut second = first;
    second.metadata.uid = Some("another".into());
    assert_eq!(settled(&second, &slices)[0].owner_references()[0].uid, "another");
}

#[test]
fn what_cannot_be_mirrored_is_counted() {
    let many: Vec<Value> =
        (0..1001).map(|n| json!({"ip": format!("10.0.{}.{}", n / 250, n % 250)})).collect();
    let mirror = plan(
        &endpoints(json!([
            {"addresses": many, "ports": port()},
            {"addresses": [{"ip": "nonsense"}], "ports": [{"port": 81, "protocol": "TCP"}]},
        ])),
        &[],
    );
    assert_eq!((mirror.invalid, mirror.skipped), (1, 1));
}

#[test]
fn only_endpoints_that_users_keep_are_mirrored() {
    let service = |selector: Value| -> Service {
        serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": {"selector": selector}})).unwrap()
    };
    let plain = endpoints(json!([]));
    assert!(is_mirrored(&plain, Some(&service(Value::Null))));
    assert!(!is_mirrored(&plain, Some(&service(json!({"app": "db"})))));
    assert!(!is_mirrored(&plain, None));
    let mut skipped = plain.clone();
    skipped
        .metadata
        .labels
        .as_mut()
        .unwrap()
        .insert("endpointslice.kubernetes.io/skip-mirror".into(), "true".into());
    assert!(!is_mirrored(&skipped, Some(&service(Value::Null))));
    let mut lock = plain;
    lock.annotations_mut().insert("control-plane.alpha.kubernetes.io/leader".into(), "{}".into());
    assert!(!is_mirrored(&lock, Some(&service(Value::Null))));
}
