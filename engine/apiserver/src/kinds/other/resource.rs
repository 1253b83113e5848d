//! `resource.k8s.io`: devices and claims on them. Selectors are checked for being there, not compiled.

use serde_json::Value;

use super::look::{
    Faults, default_empty, each, each_wrong, has, immutable, int, list, one_of, repeats, text, unshown,
    within,
};
use super::rules;
use crate::field::{Error, Path};
use crate::kinds::{Generation, Strategy};
use crate::names;

static CLASS: Strategy = Strategy {
    validate: validate_class,
    validate_update: |new, _| validate_class(new),
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

static CLAIM: Strategy = Strategy {
    default: |claim| {
        if let Some(spec) = within(claim, "spec") {
            default_claim(spec);
        }
    },
    validate: |claim| validate_claim(&claim["spec"], &Path::new("spec")),
    validate_update: |new, old| immutable(&new["spec"], &old["spec"], &Path::new("spec")),
    status: true,
    ..Strategy::PLAIN
};

static TEMPLATE: Strategy = Strategy {
    default: |template| {
        if let Some(spec) = within(template, "spec").and_then(|outer| within(outer, "spec")) {
            default_claim(spec);
        }
    },
    validate: validate_template,
    validate_update: |new, old| {
        [validate_template(new), immutable(&new["spec"], &old["spec"], &Path::new("spec"))].concat()
    },
    ..Strategy::PLAIN
};

static SLICE: Strategy = Strategy {
    validate: validate_slice,
    validate_update: |new, old| {
        let mut faults = validate_slice(new);
        let path = Path::new("spec");
        let (after, before) = (&new["spec"], &old["spec"]);
        faults.extend(immutable(&after["driver"], &before["driver"], &path.child("driver")));
        let pool = path.child("pool").child("name");
        faults.extend(immutable(&after["pool"]["name"], &before["pool"]["name"], &pool));
        faults.extend(immutable(&after["nodeName"], &before["nodeName"], &path.child("nodeName")));
        faults
    },
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    match kind {
        "DeviceClass" => Some(&CLASS),
        "ResourceClaim" => Some(&CLAIM),
        "ResourceClaimTemplate" => Some(&TEMPLATE),
        "ResourceSlice" => Some(&SLICE),
        _ => None,
    }
}

const MOST: usize = 32;
const MOST_SUBREQUESTS: usize = 8;

fn default_claim(spec: &mut Value) {
    let request = |request: &mut Value| {
        default_empty(request, "allocationMode", "ExactCount");
        if text(request, "allocationMode") == "ExactCount" {
            default_empty(request, "count", 1);
        }
    };
    let Some(devices) = within(spec, "devices") else { return };
    for one in each(devices, "requests") {
        if let Some(exactly) = within(one, "exactly") {
            request(exactly);
        }
        each(one, "firstAvailable").for_each(request);
    }
}

fn validate_template(template: &Value) -> Faults {
    validate_claim(&template["spec"]["spec"], &Path::new("spec.spec"))
}

fn validate_class(class: &Value) -> Faults {
    let path = Path::new("spec");
    let mut faults = validate_selectors(&class["spec"], &path);
    for (index, config) in list(&class["spec"], "config").iter().enumerate() {
        faults.extend(validate_config(config, &path.child("config").index(index)));
    }
    faults
}

fn validate_claim(spec: &Value, path: &Path) -> Faults {
    let devices = &spec["devices"];
    let path = path.child("devices");
    let requests = list(devices, "requests");
    let mut faults = validate_named(requests, MOST, &path.child("requests"), validate_request);
    for (index, constraint) in list(devices, "constraints").iter().enumerate() {
        let path = path.child("constraints").index(index);
        faults.extend(validate_names(constraint, requests, &path));
        if !has(constraint, "matchAttribute") && !has(constraint, "distinctAttribute") {
            faults.push(Error::required(&path.child("matchAttribute"), ""));
        }
    }
    for (index, config) in list(devices, "config").iter().enumerate() {
        let path = path.child("config").index(index);
        faults.extend(validate_names(config, requests, &path));
        faults.extend(validate_config(config, &path));
    }
    faults
}

/// A list of things told apart by their names.
fn validate_named(items: &[Value], most: usize, path: &Path, rule: fn(&Value, &Path) -> Faults) -> Faults {
    let mut faults = Vec::new();
    if items.len() > most {
        faults.push(Error::too_many(path, items.len(), most));
    }
    for (index, item) in items.iter().enumerate() {
        faults.extend(rule(item, &path.index(index)));
    }
    let repeated = repeats(items, |item| text(item, "name"));
    faults.extend(repeated.map(|(index, name)| Error::duplicate(&path.index(index), name)));
    faults
}

/// The requests that a constraint or a configuration is about.
fn validate_names(value: &Value, requests: &[Value], path: &Path) -> Faults {
    let known = |name: &str| {
        let (first, second) = name.split_once('/').map_or((name, None), |(a, b)| (a, Some(b)));
        requests.iter().filter(|request| text(request, "name") == first).any(|request| {
            second.is_none_or(|second| {
                list(request, "firstAvailable").iter().any(|sub| text(sub, "name") == second)
            })
        })
    };
    let mut faults = Vec::new();
    for (index, name) in list(value, "requests").iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !known(name) {
            let why = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
            faults.push(Error::invalid(&path.child("requests").index(index), name, why));
        }
    }
    faults
}

fn validate_request(request: &Value, path: &Path) -> Faults {
    let mut faults = label(request, "name", path);
    let alternatives = list(request, "firstAvailable");
    match (has(request, "exactly"), alternatives.is_empty()) {
        (false, true) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required";
            faults.push(Error::required(path, why));
        }
        (true, false) => {
            let why =
                "null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            faults.push(unshown(path, why));
        }
        (true, true) => faults.extend(validate_exact(&request["exactly"], &path.child("exactly"))),
        (false, false) => {
            let at = path.child("firstAvailable");
            faults.extend(validate_named(alternatives, MOST_SUBREQUESTS, &at, |sub, path| {
                [label(sub, "name", path), validate_exact(sub, path)].concat()
            }));
        }
    }
    faults
}

fn label(value: &Value, key: &str, path: &Path) -> Faults {
    let given = text(value, key);
    each_wrong(&path.child(key), given, names::dns1123_label(given))
}

fn validate_exact(request: &Value, path: &Path) -> Faults {
    let at = path.child("deviceClassName");
    let mut faults = match text(request, "deviceClassName") {
        "" => vec![Error::required(&at, "")],
        name => each_wrong(&at, name, names::dns1123_subdomain(name)),
    };
    faults.extend(validate_selectors(request, path));
    let count = int(request, "count").unwrap_or_default();
    match text(request, "allocationMode") {
        "All" if count != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            faults.push(Error::invalid(&path.child("count"), count, why));
        }
        "ExactCount" if count <= 0 => {
            faults.push(Error::invalid(&path.child("count"), count, "must be greater than zero"));
        }
        mode => faults.extend(one_of(mode, &path.child("allocationMode"), &["All", "ExactCount"])),
    }
    faults
}

fn validate_selectors(value: &Value, path: &Path) -> Faults {
    let selectors = list(value, "selectors");
    let path = path.child("selectors");
    let mut faults = Vec::new();
    if selectors.len() > MOST {
        faults.push(Error::too_many(&path, selectors.len(), MOST));
    }
    for (index, selector) in selectors.iter().enumerate() {
        if !has(selector, "cel") {
            faults.push(Error::required(&path.index(index).child("cel"), ""));
        }
    }
    faults
}

fn validate_config(config: &Value, path: &Path) -> Faults {
    let at = path.child("opaque");
    if !has(config, "opaque") {
        return vec![Error::required(&at, "")];
    }
    let opaque = &config["opaque"];
    let mut faults = rules::csi_driver_name(&at.child("driver"), text(opaque, "driver"));
    if !has(opaque, "parameters") {
        faults.push(Error::required(&at.child("parameters"), ""));
    }
    faults
}

fn validate_slice(slice: &Value) -> Faults {
    const MOST_DEVICES: usize = 128;
    let spec = &slice["spec"];
    let path = Path::new("spec");
    let mut faults = rules::csi_driver_name(&path.child("driver"), text(spec, "driver"));
    let pool = path.child("pool");
    match text(&spec["pool"], "name") {
        "" => faults.push(Error::required(&pool.child("name"), "")),
        name => {
            for part in name.split('/') {
                faults.extend(each_wrong(&pool.child("name"), part, names::dns1123_subdomain(part)));
            }
        }
    }
    if int(&spec["pool"], "resourceSliceCount").unwrap_or_default() <= 0 {
        let count = int(&spec["pool"], "resourceSliceCount").unwrap_or_default();
        faults.push(Error::invalid(&pool.child("resourceSliceCount"), count, "must be greater than zero"));
    }
    faults.extend(validate_named(
        list(spec, "devices"),
        MOST_DEVICES,
        &path.child("devices"),
        |device, path| label(device, "name", path),
    ));
    faults
}
