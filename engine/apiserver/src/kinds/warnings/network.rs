//! Services, what stands behind them, and who may talk to whom.

use serde_json::Value;

use super::super::walk::{At, is_empty};
use super::{addresses, annotation, at, label};

const EXTERNAL_NAME: &str = "ExternalName";

pub(super) fn service(service: &Value) -> Vec<String> {
    const OLD_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    const HINTS: &str = "service.kubernetes.io/topology-mode";
    let spec = At::top(service, "spec");
    let external = spec.child("externalIPs");
    let (kind, cluster_ip) = (spec.text("type"), spec.text("clusterIP"));
    let headless = kind == "ClusterIP" && cluster_ip == "None";
    let mut warnings = Vec::new();
    if annotation(service, OLD_HINTS).is_some() {
        warnings.push(format!("annotation {OLD_HINTS} is deprecated, please use {HINTS} instead"));
    }
    if !["", "None"].contains(&cluster_ip) {
        warnings.extend(spec.child("clusterIPs").items().filter_map(|ip| addresses::address(&ip)));
    }
    if headless {
        let mut ignored = |name: &str| warnings.push(format!("spec.{name} is ignored for headless services"));
        if !spec.text("loadBalancerIP").is_empty() {
            ignored("loadBalancerIP");
        }
        if !is_empty(external.value) {
            ignored("externalIPs");
        }
        if spec.text("sessionAffinity") != "None" {
            ignored("SessionAffinity");
        }
    }
    warnings.extend(external.items().filter_map(|ip| addresses::address(&ip)));
    if !is_empty(external.value) && !headless && kind != EXTERNAL_NAME {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    warnings.extend(addresses::address(&spec.child("loadBalancerIP")));
    warnings.extend(spec.child("loadBalancerSourceRanges").items().flat_map(|cidr| addresses::range(&cidr)));
    if kind == EXTERNAL_NAME && !is_empty(external.value) {
        warnings.push(format!("spec.externalIPs is ignored when spec.type is {EXTERNAL_NAME:?}"));
    }
    if kind != EXTERNAL_NAME && !spec.text("externalName").is_empty() {
        warnings.push(format!("spec.externalName is ignored when spec.type is not {EXTERNAL_NAME:?}"));
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        warnings.push(
            r#"spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone""#.to_owned(),
        );
    }
    warnings
}

/// Services and Ingresses are told alike where traffic enters.
pub(super) fn load_balancer_status(object: &Value) -> Vec<String> {
    let ingress = At::top(object, "status").child("loadBalancer").child("ingress");
    let shown = |entry: At<'_>| addresses::address(&At { value: entry.child("ip").value, path: entry.path });
    ingress.items().filter_map(shown).collect()
}

pub(super) fn pod_status(pod: &Value) -> Vec<String> {
    let status = At::top(pod, "status");
    let ips = |name: &str| status.child(name).items().map(|entry| entry.child("ip"));
    ips("podIPs").chain(ips("hostIPs")).filter_map(|ip| addresses::address(&ip)).collect()
}

pub(super) fn ingress(ingress: &Value) -> Vec<String> {
    const CLASS: &str = "kubernetes.io/ingress.class";
    let named = !ingress["spec"]["ingressClassName"].is_null();
    if named || annotation(ingress, CLASS).is_none() {
        return Vec::new();
    }
    vec![format!("annotation {CLASS:?} is deprecated, please use 'spec.ingressClassName' instead")]
}

pub(super) fn policy(policy: &Value) -> Vec<String> {
    let spec = At::top(policy, "spec");
    let mut warnings = Vec::new();
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.child(rules).items() {
            for peer in rule.child(peers).items() {
                let block = peer.child("ipBlock");
                warnings.extend(addresses::range(&block.child("cidr")));
                warnings.extend(block.child("except").items().flat_map(|cidr| addresses::range(&cidr)));
            }
        }
    }
    warnings
}

pub(super) fn endpoints(endpoints: &Value) -> Vec<String> {
    // The controller writes addresses well, and often.
    if label(endpoints, "endpoints.kubernetes.io/managed-by") == Some("endpoint-controller") {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for subset in At::top(endpoints, "subsets").items() {
        for name in ["addresses", "notReadyAddresses"] {
            let all = subset.child(name);
            warnings.extend(all.items().filter_map(|address| addresses::address(&address.child("ip"))));
        }
    }
    warnings
}

pub(super) fn endpoint_slice(slice: &Value, old: Option<&Value>) -> Vec<String> {
    const CONTROLLERS: [&str; 2] =
        ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
    let mut warnings = Vec::new();
    let kind = At::top(slice, "addressType");
    if old.is_none() && kind.str() == "FQDN" {
        // The real server names a field that there is not.
        let place = crate::field::Path::new("spec").child("addressType");
        warnings.push(at(&place, "FQDN endpoints are deprecated"));
    }
    let manager = label(slice, "endpointslice.kubernetes.io/managed-by").unwrap_or_default();
    if !CONTROLLERS.contains(&manager) {
        for endpoint in At::top(slice, "endpoints").items() {
            let all = endpoint.child("addresses");
            warnings.extend(all.items().filter_map(|address| addresses::address(&address)));
        }
    }
    warnings
}
