//! Environment variables of containers and where their values come from.

use serde_json::Value;

use super::volumes::no_back_steps;
use crate::field::Error;
use crate::kinds::quantity::Quantity;
use crate::kinds::walk::{At, Faults, list};
use crate::names;

const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const BYTE_DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub(super) fn validate_env(variables: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    for variable in variables.items() {
        faults.extend(variable.child("name").required_and(names::env_var_name));
        let from = variable.child("valueFrom");
        if from.is_set() {
            faults.extend(validate_value_from(&from, variable.text("value")));
        }
    }
    faults
}

/// What is wrong with one place that a value may come from.
type Rule = fn(&At<'_>) -> Faults;

fn validate_value_from(from: &At<'_>, value: &str) -> Faults {
    let mut faults = Faults::new();
    let mut sources = 0;
    let rules: [(&str, Rule); 5] = [
        ("fieldRef", |source| validate_field_selector(source, &FIELDS)),
        ("resourceFieldRef", |source| validate_resource_selector(source, false)),
        ("configMapKeyRef", validate_key_selector),
        ("secretKeyRef", validate_key_selector),
        ("fileKeyRef", validate_file_key),
    ];
    for (name, rule) in rules {
        let source = from.child(name);
        if source.is_set() {
            sources += 1;
            faults.extend(rule(&source));
        }
    }
    let wrong = match sources {
        0 => Some(
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if !value.is_empty() => Some("may not be specified when `value` is not empty"),
        1 => None,
        _ => Some("may not have more than one field specified at a time"),
    };
    faults.extend(wrong.map(|why| Error::invalid(&from.path, "", why)));
    faults
}

pub(super) fn validate_env_from(sources: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    for source in sources.items() {
        let prefix = source.child("prefix");
        if !prefix.str().is_empty() {
            faults.extend(prefix.obey(names::env_var_name));
        }
        let kinds = ["configMapRef", "secretRef"].map(|kind| source.child(kind));
        let set: Vec<_> = kinds.iter().filter(|kind| kind.is_set()).collect();
        for kind in &set {
            let name = kind.child("name");
            if name.str().is_empty() {
                faults.push(name.required(""));
            } else {
                let wrong = names::dns1123_subdomain(&names::mask_trailing_dash(name.str()));
                faults.extend(wrong.into_iter().map(|why| name.invalid(why)));
            }
        }
        let wrong = match set.len() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        faults.push(Error::invalid(&sources.path, "", wrong));
    }
    faults
}

/// A field of the pod itself: only `supported` ones, and labels and annotations by key.
pub(super) fn validate_field_selector(selector: &At<'_>, supported: &[&str]) -> Faults {
    let (version, field) = (selector.child("apiVersion"), selector.child("fieldPath"));
    if version.str().is_empty() {
        return vec![version.required("")];
    }
    if field.str().is_empty() {
        return vec![field.required("")];
    }
    let subscript = field.str().strip_suffix("']").and_then(|rest| rest.split_once("['"));
    let problem = match subscript {
        _ if version.str() != "v1" => Some(format!("unsupported pod version: {}", version.str())),
        Some(("metadata.annotations" | "metadata.labels", _)) => None,
        Some(_) => Some(format!("field label does not support subscript: {}", field.str())),
        None if KNOWN_FIELDS.contains(&field.str()) || FIELDS.contains(&field.str()) => None,
        None => Some(format!("field label not supported: {}", field.str())),
    };
    if let Some(problem) = problem {
        return vec![field.invalid(format!("error converting fieldPath: {problem}"))];
    }
    match subscript {
        Some((map, key)) => {
            let key = if map == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
            let wrong = names::qualified_name(&key);
            wrong.into_iter().map(|why| Error::invalid(&selector.path, key.as_str(), why)).collect()
        }
        None => {
            // An old name that is still understood.
            let name = if field.str() == "spec.host" { "spec.nodeName" } else { field.str() };
            let fine = supported.contains(&name);
            let wrong = (!fine).then(|| Error::not_supported(&field.path, name, supported));
            wrong.into_iter().collect()
        }
    }
}

const KNOWN_FIELDS: [&str; 6] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
    "spec.host",
];

/// A resource of a container; outside a container it must say of which.
pub(super) fn validate_resource_selector(selector: &At<'_>, needs_container: bool) -> Faults {
    let mut faults = Faults::new();
    let resource = selector.child("resource");
    let pages =
        ["requests.hugepages-", "limits.hugepages-"].iter().any(|prefix| resource.str().starts_with(prefix));
    if needs_container && selector.text("containerName").is_empty() {
        faults.push(selector.child("containerName").required(""));
    } else if resource.str().is_empty() {
        faults.push(resource.required(""));
    } else if !RESOURCES.contains(&resource.str()) && !pages {
        faults.push(resource.not_supported(&RESOURCES));
    }
    let divisor = selector.child("divisor");
    let amount = Quantity::of(divisor.value);
    if amount.is_zero() {
        return faults;
    }
    let (supported, what): (&[&str], _) = match resource.str().split_once('.').map_or("", |(_, name)| name) {
        "cpu" => (&["1m", "1"], "1m and 1 are supported with the cpu resource".to_owned()),
        "memory" => (&BYTE_DIVISORS, bytes_with("memory")),
        "ephemeral-storage" => (&BYTE_DIVISORS, bytes_with("local ephemeral storage")),
        _ if pages => (&BYTE_DIVISORS, bytes_with("hugepages")),
        _ => return faults,
    };
    if !supported.contains(&amount.to_string().as_str()) {
        faults.push(Error::invalid(&divisor.path, resource.str(), format!("only divisor's values {what}")));
    }
    faults
}

fn bytes_with(resource: &str) -> String {
    format!("{} are supported with the {resource} resource", BYTE_DIVISORS.join(", "))
}

fn validate_key_selector(selector: &At<'_>) -> Faults {
    let mut faults = selector.child("name").obey(names::dns1123_subdomain);
    faults.extend(selector.child("key").required_and(names::config_map_key));
    faults
}

fn validate_file_key(selector: &At<'_>) -> Faults {
    let mut faults = selector.child("key").required_and(names::env_var_name);
    faults.extend(selector.child("volumeName").required_and(names::dns1123_label));
    let path = selector.child("path");
    if path.str().is_empty() {
        faults.push(path.required(""));
    } else {
        faults.extend(no_back_steps(&path));
    }
    faults
}

/// Files that variables are read from must lie in a volume that containers of the pod fill.
pub(super) fn validate_file_volumes(spec: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    for container in super::containers::all(spec) {
        for variable in container.child("env").items() {
            let source = variable.child("valueFrom").child("fileKeyRef");
            if !source.is_set() {
                continue;
            }
            let name = source.child("volumeName");
            match super::volumes::find(spec.value, name.str()) {
                None => faults.push(Error::not_found(&name.path, name.str())),
                Some(volume) if volume.get("emptyDir").is_none_or(Value::is_null) => {
                    faults.push(name.invalid("referenced volume must be of type emptyDir"));
                }
                Some(_) => {}
            }
        }
    }
    faults
}

/// Whether any container of the list has such a name.
pub(super) fn names_of<'a>(containers: &At<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    list(containers.value).iter().map(|container| crate::kinds::walk::text(container, "name"))
}
