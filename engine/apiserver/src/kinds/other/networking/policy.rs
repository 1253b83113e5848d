//! Network policies.

use serde_json::{Value, json};

use crate::field::{Error, Path};
use crate::kinds::other::addresses::Cidr;
use crate::kinds::other::look::{
    Faults, default, default_empty, each, each_wrong, has, int, list, one_of, text, texts,
};
use crate::kinds::other::{rules, selector};
use crate::kinds::{Generation, Strategy};
use crate::names;

pub(super) static STRATEGY: Strategy = Strategy {
    default: default_policy,
    validate: |policy| validate(policy, &[]),
    validate_update: |new, old| validate(new, &blocks(old)),
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

/// The two directions: what holds the rules, and what holds the peers of a rule.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn default_policy(policy: &mut Value) {
    let Some(spec) = policy.get_mut("spec") else { return };
    for (direction, _) in DIRECTIONS {
        for rule in each(spec, direction) {
            for port in each(rule, "ports") {
                default(port, "protocol", "TCP");
            }
        }
    }
    let types =
        if list(spec, "egress").is_empty() { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
    default_empty(spec, "policyTypes", types);
}

/// Every block of addresses a policy names: an update may keep them, valid or not.
fn blocks(policy: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    for (direction, peers) in DIRECTIONS {
        for rule in list(&policy["spec"], direction) {
            for peer in list(rule, peers).iter().filter(|peer| has(peer, "ipBlock")) {
                found.push(text(&peer["ipBlock"], "cidr"));
                found.extend(texts(&peer["ipBlock"], "except"));
            }
        }
    }
    found
}

fn validate(policy: &Value, kept: &[&str]) -> Faults {
    let spec = &policy["spec"];
    let path = Path::new("spec");
    let mut faults = selector(&spec["podSelector"], &path.child("podSelector"));
    for (direction, peers) in DIRECTIONS {
        for (index, rule) in list(spec, direction).iter().enumerate() {
            let path = path.child(direction).index(index);
            for (index, port) in list(rule, "ports").iter().enumerate() {
                faults.extend(validate_port(port, &path.child("ports").index(index)));
            }
            for (index, peer) in list(rule, peers).iter().enumerate() {
                faults.extend(validate_peer(peer, &path.child(peers).index(index), kept));
            }
        }
    }
    let types = texts(spec, "policyTypes");
    let path = path.child("policyTypes");
    if types.len() > 2 {
        let why = "may not specify more than two policyTypes";
        faults.push(Error::invalid(&path, spec["policyTypes"].clone(), why));
        return faults;
    }
    for (index, one) in types.into_iter().enumerate() {
        faults.extend(one_of(one, &path.index(index), &["Ingress", "Egress"]));
    }
    faults
}

fn validate_port(value: &Value, path: &Path) -> Faults {
    let mut faults = Vec::new();
    if has(value, "protocol") {
        faults.extend(one_of(text(value, "protocol"), &path.child("protocol"), &["TCP", "UDP", "SCTP"]));
    }
    let end = int(value, "endPort");
    let end_path = path.child("endPort");
    match (&value["port"], end) {
        (Value::Number(port), end) => {
            let port = port.as_i64().unwrap_or_default();
            faults.extend(rules::port(port, &path.child("port")));
            if let Some(end) = end {
                if end < port {
                    let why = "must be greater than or equal to `port`";
                    faults.push(Error::invalid(&end_path, port, why));
                }
                faults.extend(rules::port(end, &end_path));
            }
        }
        (Value::String(name), end) => {
            if let Some(end) = end {
                let why = "may not be specified when `port` is non-numeric";
                faults.push(Error::invalid(&end_path, end, why));
            }
            faults.extend(each_wrong(&path.child("port"), name, names::port_name(name)));
        }
        (_, Some(end)) => {
            faults.push(Error::invalid(&end_path, end, "may not be specified when `port` is not specified"));
        }
        (_, None) => {}
    }
    faults
}

fn validate_peer(peer: &Value, path: &Path, kept: &[&str]) -> Faults {
    let mut faults = Vec::new();
    let selectors: Vec<&str> =
        ["podSelector", "namespaceSelector"].into_iter().filter(|key| has(peer, key)).collect();
    for key in &selectors {
        faults.extend(selector(&peer[*key], &path.child(key)));
    }
    let block = has(peer, "ipBlock");
    if block {
        faults.extend(validate_block(&peer["ipBlock"], &path.child("ipBlock"), kept));
    }
    if selectors.is_empty() && !block {
        faults.push(Error::required(path, "must specify a peer"));
    } else if !selectors.is_empty() && block {
        faults.push(Error::forbidden(path, "may not specify both ipBlock and another peer"));
    }
    faults
}

fn validate_block(block: &Value, path: &Path, kept: &[&str]) -> Faults {
    let rule = |path: &Path, text: &str| {
        if kept.contains(&text) { Vec::new() } else { each_wrong(path, text, names::legacy_cidr(text)) }
    };
    let cidr = text(block, "cidr");
    if cidr.is_empty() {
        return vec![Error::required(&path.child("cidr"), "")];
    }
    let mut faults = rule(&path.child("cidr"), cidr);
    let Some(whole) = Cidr::parse(cidr) else { return faults };
    for (index, except) in texts(block, "except").into_iter().enumerate() {
        let at = path.child("except").index(index);
        faults.extend(rule(&at, except));
        let Some(part) = Cidr::parse(except) else { continue };
        if !whole.contains(&part) || whole.bits >= part.bits {
            faults.push(Error::invalid(&at, except, "must be a strict subset of `cidr`"));
        }
    }
    faults
}
