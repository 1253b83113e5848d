//! `networking.k8s.io`: ingresses, network policies, and the addresses of Services.

mod ingress;
mod policy;

use serde_json::Value;

use super::addresses::Cidr;
use super::look::{
    Faults, IMMUTABLE, default, each_wrong, has, immutable, list, one_of, shown, text, texts, within,
};
use super::rules;
use crate::field::{Error, Path};
use crate::kinds::{Generation, Strategy};
use crate::names;

static INGRESS_CLASS: Strategy = Strategy {
    default: |class| {
        if let Some(parameters) = within(class, "spec").and_then(|spec| within(spec, "parameters")) {
            default(parameters, "scope", "Cluster");
        }
    },
    validate: validate_class,
    validate_update: |new, old| {
        let path = Path::new("spec").child("controller");
        let mut faults = immutable(&new["spec"]["controller"], &old["spec"]["controller"], &path);
        faults.extend(validate_class(new));
        faults
    },
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

static IP_ADDRESS: Strategy = Strategy {
    validate: validate_address,
    validate_update: validate_address_update,
    name: names::ip,
    ..Strategy::PLAIN
};

static SERVICE_CIDR: Strategy = Strategy {
    validate: validate_service_cidr,
    validate_update: validate_service_cidr_update,
    status: true,
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    match kind {
        "Ingress" => Some(&ingress::STRATEGY),
        "IngressClass" => Some(&INGRESS_CLASS),
        "NetworkPolicy" => Some(&policy::STRATEGY),
        "IPAddress" => Some(&IP_ADDRESS),
        "ServiceCIDR" => Some(&SERVICE_CIDR),
        _ => None,
    }
}

fn validate_class(class: &Value) -> Faults {
    const MOST: usize = 250;
    let spec = &class["spec"];
    let path = Path::new("spec");
    let controller = text(spec, "controller");
    let mut faults = Vec::new();
    if controller.len() > MOST {
        faults.push(Error::too_long(&path.child("controller"), MOST));
    }
    faults.extend(rules::domain_prefixed_path(&path.child("controller"), controller));
    if has(spec, "parameters") {
        faults.extend(validate_parameters(&spec["parameters"], &path.child("parameters")));
    }
    faults
}

fn validate_parameters(parameters: &Value, path: &Path) -> Faults {
    let mut faults = reference(parameters, path);
    let scope = text(parameters, "scope");
    let namespace = path.child("namespace");
    if !has(parameters, "scope") {
        faults.push(Error::required(&path.child("scope"), ""));
    } else if scope == "Namespace" {
        if has(parameters, "namespace") {
            let name = text(parameters, "namespace");
            faults.extend(each_wrong(&namespace, name, names::dns1123_label(name)));
        } else {
            faults.push(Error::required(&namespace, "`parameters.scope` is set to 'Namespace'"));
        }
    } else if scope == "Cluster" {
        if has(parameters, "namespace") {
            faults.push(Error::forbidden(&namespace, "`parameters.scope` is set to 'Cluster'"));
        }
    } else {
        faults.extend(one_of(scope, &path.child("scope"), &["Cluster", "Namespace"]));
    }
    faults
}

/// A reference to an object of any kind: its group, kind and name.
fn reference(value: &Value, path: &Path) -> Faults {
    let mut faults = Vec::new();
    if has(value, "apiGroup") {
        let group = text(value, "apiGroup");
        faults.extend(each_wrong(&path.child("apiGroup"), group, names::dns1123_subdomain(group)));
    }
    for key in ["kind", "name"] {
        faults.extend(segment(value, key, path));
    }
    faults
}

/// A field that must be there and can be part of a URL.
fn segment(value: &Value, key: &str, path: &Path) -> Faults {
    match text(value, key) {
        "" => vec![Error::required(&path.child(key), "")],
        given => each_wrong(&path.child(key), given, names::path_segment(given)),
    }
}

fn validate_address(address: &Value) -> Faults {
    let path = Path::new("spec").child("parentRef");
    let parent = &address["spec"]["parentRef"];
    if parent.is_null() {
        return vec![Error::required(&path, "")];
    }
    let mut faults = Vec::new();
    let group = text(parent, "group");
    if !group.is_empty() {
        faults.extend(each_wrong(&path.child("group"), group, names::dns1123_subdomain(group)));
    }
    faults.extend(segment(parent, "resource", &path));
    faults.extend(segment(parent, "name", &path));
    let namespace = text(parent, "namespace");
    if !namespace.is_empty() {
        faults.extend(each_wrong(&path.child("namespace"), namespace, names::path_segment(namespace)));
    }
    faults
}

fn validate_address_update(new: &Value, old: &Value) -> Faults {
    let mut faults = validate_address(new);
    let (new, old) = (&new["spec"]["parentRef"], &old["spec"]["parentRef"]);
    if !super::look::same(new, old) {
        // The names and the order that Go gives the fields inside the server.
        let value = format!(
            r#"{{"Group":{:?},"Resource":{:?},"Namespace":{:?},"Name":{:?}}}"#,
            text(new, "group"),
            text(new, "resource"),
            text(new, "namespace"),
            text(new, "name"),
        );
        faults.push(shown(&Path::new("spec.parentRef"), &value, IMMUTABLE));
    }
    faults
}

fn validate_service_cidr(object: &Value) -> Faults {
    let path = Path::new("spec").child("cidrs");
    let blocks = texts(&object["spec"], "cidrs");
    match blocks.len() {
        0 => return vec![Error::required(&path, "at least one CIDR required")],
        1 | 2 => {}
        _ => {
            // The name that Go gives the field inside the server.
            let value = format!(r#"{{"CIDRs":{}}}"#, object["spec"]["cidrs"]);
            return vec![shown(&path, &value, "may only hold up to 2 values")];
        }
    }
    let mut faults = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        faults.extend(each_wrong(&path.index(index), block, names::cidr(block)));
    }
    let families: Vec<Option<bool>> =
        blocks.iter().map(|block| Cidr::parse(block).map(|block| block.is_ipv4())).collect();
    if let &[Some(first), Some(second)] = families.as_slice()
        && first == second
    {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        faults.push(Error::invalid(&path, object["spec"]["cidrs"].clone(), why));
    }
    faults
}

fn validate_service_cidr_update(new: &Value, old: &Value) -> Faults {
    let path = Path::new("spec").child("cidrs");
    let (after, before) = (list(&new["spec"], "cidrs"), list(&old["spec"], "cidrs"));
    let changed = |index: usize| {
        (after[index] != before[index])
            .then(|| Error::invalid(&path.index(index), after[index].clone(), IMMUTABLE))
    };
    match (before.len(), after.len()) {
        (one, other) if one == other => (0..one).filter_map(changed).collect(),
        (1, 2) => changed(0).into_iter().chain(validate_service_cidr(new)).collect(),
        _ => vec![Error::invalid(&path, new["spec"]["cidrs"].clone(), IMMUTABLE)],
    }
}
