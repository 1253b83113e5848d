//! `apiregistration.k8s.io`: which server answers for a group and version.

use serde_json::{Value, json};

use super::look::{Faults, default, each_wrong, fields, flag, has, int, list, name, one_of, text, within};
use super::rules;
use crate::field::{Error, Path};
use crate::kinds::Strategy;
use crate::names;

static API_SERVICE: Strategy = Strategy {
    default: |service| {
        if let Some(reference) = within(service, "spec").and_then(|spec| within(spec, "service")) {
            default(reference, "port", 443);
        }
    },
    prepare_create: |service| {
        // What this server answers itself is available at once.
        if !has(&service["spec"], "service")
            && let Some(fields) = fields(service)
        {
            let condition = json!({
                "type": "Available", "status": "True", "reason": "Local",
                "message": "Local APIServices are always available",
                "lastTransitionTime": fields.get("metadata").map(|meta| meta["creationTimestamp"].clone()),
            });
            fields.insert("status".to_owned(), json!({"conditions": [condition]}));
        }
    },
    validate,
    validate_update: |new, _| validate(new),
    validate_status: |new, _| {
        let path = Path::new("status.conditions");
        let conditions = list(&new["status"], "conditions").iter().enumerate();
        conditions
            .flat_map(|(index, one)| {
                one_of(text(one, "status"), &path.index(index).child("status"), &["True", "False", "Unknown"])
            })
            .collect()
    },
    name: names::path_segment,
    status: true,
    unconditional_update: false,
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    (kind == "APIService").then_some(&API_SERVICE)
}

fn validate(service: &Value) -> Faults {
    let spec = &service["spec"];
    let path = Path::new("spec");
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    let mut faults = Vec::new();
    let required = format!("{version}.{group}");
    let name = name(service);
    if names::path_segment(name).is_empty() && name != required {
        let why = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
        faults.push(Error::invalid(&Path::new("metadata.name"), name, why));
    }
    if group.is_empty() {
        if version != "v1" {
            let why = "only v1 may have an empty group and it better be legacy kube";
            faults.push(Error::required(&path.child("group"), why));
        }
    } else {
        faults.extend(each_wrong(&path.child("group"), group, names::dns1123_subdomain(group)));
    }
    faults.extend(each_wrong(&path.child("version"), version, names::dns1035_label(version)));
    for (key, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let priority = int(spec, key).unwrap_or_default();
        if priority <= 0 || priority > most {
            let why = format!("must be positive and less than {most}");
            faults.push(Error::invalid(&path.child(key), priority, why));
        }
    }
    let insecure = flag(spec, "insecureSkipTLSVerify");
    let bundle = text(spec, "caBundle");
    if !has(spec, "service") {
        if !bundle.is_empty() {
            let size = format!("{} bytes", super::decoded_length(bundle));
            let why = "local APIServices may not have a caBundle";
            faults.push(Error::invalid(&path.child("caBundle"), size, why));
        }
        if insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            faults.push(Error::invalid(&path.child("insecureSkipTLSVerify"), true, why));
        }
        return faults;
    }
    let reference = &spec["service"];
    let at = path.child("service");
    for key in ["namespace", "name"] {
        if text(reference, key).is_empty() {
            faults.push(Error::required(&at.child(key), ""));
        }
    }
    let port = int(reference, "port").unwrap_or_default();
    faults.extend(rules::service_port(port, &at.child("port")));
    if insecure && !bundle.is_empty() {
        let why = "may not be true if caBundle is present";
        faults.push(Error::invalid(&path.child("insecureSkipTLSVerify"), true, why));
    }
    faults
}
