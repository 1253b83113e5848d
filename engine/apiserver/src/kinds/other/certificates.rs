//! `certificates.k8s.io`: requests for certificates. Their bytes are read as PEM, their signature is not
//! checked.

use serde_json::{Value, json};

use super::look::{Faults, fields, has, int, list, one_of, same, text, texts};
use crate::auth::csr;
use crate::field::{Error, Path};
use crate::kinds::Strategy;
use crate::names;

static REQUEST: Strategy = Strategy {
    prepare_create: |request| {
        if let Some(fields) = fields(request) {
            fields.insert("status".to_owned(), json!({}));
        }
    },
    // A request never changes once it was made.
    prepare_update: |new, old| {
        if let Some(fields) = fields(new) {
            fields.insert("spec".to_owned(), old["spec"].clone());
        }
    },
    validate: |request| validate(request, None),
    validate_update: |new, old| validate_update(new, old, Writer::Anyone),
    validate_status: |new, old| validate_update(new, old, Writer::Signer),
    name: |_| Vec::new(),
    status: true,
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    (kind == "CertificateSigningRequest").then_some(&REQUEST)
}

/// What is wrong with a write through `/approval` (`new`, `old`).
pub fn validate_approval(new: &Value, old: &Value) -> Faults {
    validate_update(new, old, Writer::Approver)
}

/// What a write to `/status` may not decide: whether a request is approved, and when conditions changed.
pub fn prepare_status(new: &mut Value, old: &Value, now: &str) {
    let before = list(&old["status"], "conditions");
    for kind in ["Approved", "Denied"] {
        let known: Vec<&Value> = before.iter().filter(|one| text(one, "type") == kind).collect();
        let given: Vec<&mut Value> =
            conditions_mut(new).iter_mut().filter(|one| text(one, "type") == kind).collect();
        // Another number of them is refused later.
        if known.len() == given.len() {
            known.into_iter().zip(given).for_each(|(known, given)| *given = known.clone());
        }
    }
    prepare_approval(new, old, now);
}

fn conditions_mut(request: &mut Value) -> &mut [Value] {
    let conditions = request.get_mut("status").and_then(|status| status.get_mut("conditions"));
    conditions.and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// What a write to `/approval` may leave out: when conditions changed.
pub fn prepare_approval(new: &mut Value, old: &Value, now: &str) {
    let before = list(&old["status"], "conditions");
    for condition in conditions_mut(new) {
        let unset = |condition: &Value, key: &str| text(condition, key).is_empty();
        if unset(condition, "lastUpdateTime") {
            condition["lastUpdateTime"] = now.into();
        }
        if unset(condition, "lastTransitionTime") {
            let alike = |one: &&Value| {
                one["type"] == condition["type"]
                    && one["status"] == condition["status"]
                    && !unset(one, "lastTransitionTime")
            };
            let since = before.iter().find(alike).map(|one| one["lastTransitionTime"].clone());
            condition["lastTransitionTime"] = since.unwrap_or_else(|| now.into());
        }
    }
}

/// Which part of the status a write may touch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Anyone,
    Signer,
    Approver,
}

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn validate(request: &Value, old: Option<&Value>) -> Faults {
    let spec = &request["spec"];
    let path = Path::new("spec");
    let mut faults = Vec::new();
    // What an older server let in stays.
    let checked = if old.is_none() { csr::check } else { csr::check_block };
    if let Err(why) = checked(text(spec, "request")) {
        faults.push(Error::invalid(&path.child("request"), spec["request"].clone(), why));
    }
    let usages = texts(spec, "usages");
    let at = path.child("usages");
    if usages.is_empty() {
        faults.push(Error::required(&at, ""));
    }
    // What an older server let in stays.
    if old.is_none() {
        for (index, usage) in usages.iter().enumerate() {
            faults.extend(one_of(usage, &at.index(index), &USAGES));
        }
        for (index, usage) in usages.iter().enumerate() {
            if usages[..index].contains(usage) {
                faults.push(Error::duplicate(&at.index(index), *usage));
            }
        }
    }
    faults.extend(validate_signer(text(spec, "signerName"), &path.child("signerName")));
    if let Some(seconds) = int(spec, "expirationSeconds").filter(|seconds| *seconds < 600) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        faults.push(Error::invalid(&path.child("expirationSeconds"), seconds, why));
    }
    faults.extend(validate_conditions(list(&request["status"], "conditions")));
    faults
}

fn validate_signer(name: &str, path: &Path) -> Faults {
    if name.is_empty() {
        return vec![Error::required(path, "")];
    }
    if name == "kubernetes.io/legacy-unknown" {
        return vec![Error::invalid(path, name, "the legacy signerName is not allowed via this API version")];
    }
    let [domain, rest] = name.split('/').collect::<Vec<_>>()[..] else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return vec![Error::invalid(path, name, why)];
    };
    let mut faults = Vec::new();
    if domain.len() > 253 {
        faults.push(Error::too_long(path, 253));
    }
    faults.extend(first_bad_part(domain, path, names::dns1123_label));
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        faults.push(Error::invalid(path, domain, why));
    }
    faults.extend(first_bad_part(rest, path, names::dns1123_subdomain));
    faults
}

/// What is wrong with the first part that is not as it should be: the others would say the same.
fn first_bad_part(text: &str, path: &Path, rule: fn(&str) -> Vec<String>) -> Faults {
    let bad = text.split('.').find(|part| !rule(part).is_empty());
    let say = |part: &str| {
        let wrong = rule(part).into_iter();
        wrong
            .map(|why| Error::invalid(path, text, format!("validating label {part:?}: {why}")))
            .collect::<Faults>()
    };
    bad.map(say).unwrap_or_default()
}

fn validate_conditions(conditions: &[Value]) -> Faults {
    let path = Path::new("status.conditions");
    let mut faults = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = path.index(index);
        let kind = text(condition, "type");
        if kind.is_empty() {
            faults.push(Error::required(&at.child("type"), ""));
        }
        let allowed: &[&str] = match kind {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        match text(condition, "status") {
            "" => faults.push(Error::required(&at.child("status"), "")),
            status => faults.extend(one_of(status, &at.child("status"), allowed)),
        }
        let earlier = |kind: &str| conditions[..index].iter().any(|one| text(one, "type") == kind);
        if (kind == "Approved" && earlier("Denied")) || (kind == "Denied" && earlier("Approved")) {
            let why = "Approved and Denied conditions are mutually exclusive";
            faults.push(Error::invalid(&path, kind, why));
        }
        if earlier(kind) {
            faults.push(Error::duplicate(&at.child("type"), kind));
        }
    }
    faults
}

fn validate_update(new: &Value, old: &Value, writer: Writer) -> Faults {
    let mut faults = validate(new, Some(old));
    let path = Path::new("status.conditions");
    let of = |request: &Value, kind: &str| -> Vec<Value> {
        let conditions = list(&request["status"], "conditions").iter();
        conditions.filter(|one| text(one, "type") == kind).cloned().collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(new, kind).len() < of(old, kind).len() {
            let why = format!("updates may not remove a condition of type {kind:?}");
            faults.push(Error::forbidden(&path, why));
        }
    }
    if writer != Writer::Approver {
        for kind in ["Approved", "Denied"] {
            let (after, before) = (of(new, kind), of(old, kind));
            if after.len() > before.len() {
                let why = format!("updates may not add a condition of type {kind:?}");
                faults.push(Error::forbidden(&path, why));
            } else if after.len() == before.len() && !same(&json!(after), &json!(before)) {
                let why = format!("updates may not modify a condition of type {kind:?}");
                faults.push(Error::forbidden(&path, why));
            }
        }
    }
    if text(&new["status"], "certificate") != text(&old["status"], "certificate") {
        let path = Path::new("status.certificate");
        if writer != Writer::Signer {
            faults.push(Error::forbidden(&path, "updates may not set certificate content"));
        } else if has(&old["status"], "certificate") {
            let why = "updates may not modify existing certificate content";
            faults.push(Error::forbidden(&path, why));
        }
    }
    faults
}
