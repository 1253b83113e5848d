//! `storage.k8s.io`: classes, drivers and attachments of volumes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::look::{
    Faults, default, default_empty, each_wrong, entries, fields, has, immutable, int, list, not_negative,
    one_of, same, shown, text, texts,
};
use super::{quantity_is_negative, rules};
use crate::field::{Error, Path};
use crate::kinds::Strategy;
use crate::names;

const MOST_PARAMETERS: usize = 512;
const MOST_PARAMETER_BYTES: usize = 256 << 10;

static STORAGE_CLASS: Strategy = Strategy {
    default: |class| {
        default(class, "reclaimPolicy", "Delete");
        default(class, "volumeBindingMode", "Immediate");
    },
    validate: validate_class,
    validate_update: |new, old| {
        let frozen = ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"];
        [validate_class(new), all_immutable(new, old, &frozen)].concat()
    },
    ..Strategy::PLAIN
};

static ATTRIBUTES_CLASS: Strategy = Strategy {
    validate: validate_attributes_class,
    validate_update: |new, old| {
        let mut faults: Faults = ["driverName", "parameters"]
            .into_iter()
            .filter(|key| !same(&new[*key], &old[*key]))
            .map(|key| Error::forbidden(&Path::new(key), format!("updates to {key} are forbidden.")))
            .collect();
        faults.extend(validate_attributes_class(new));
        faults
    },
    ..Strategy::PLAIN
};

static DRIVER: Strategy = Strategy {
    default: default_driver,
    prepare_create: drop_disabled,
    // Unlike other kinds a driver starts without a generation, so that the generic rule does not fit.
    prepare_update: |new, old| {
        drop_disabled(new);
        super::raise_generation(new, old, !same(&new["spec"], &old["spec"]));
    },
    validate: validate_driver,
    validate_update: |new, old| {
        let (after, before) = (&new["spec"], &old["spec"]);
        let mut faults = validate_driver(new);
        let attached = Path::new("spec.attachedRequired");
        faults.extend(immutable(&after["attachRequired"], &before["attachRequired"], &attached));
        let modes = "volumeLifecycleModes";
        faults.extend(immutable(&after[modes], &before[modes], &Path::new("spec").child(modes)));
        faults
    },
    unconditional_update: false,
    ..Strategy::PLAIN
};

static NODE: Strategy = Strategy {
    validate: validate_node,
    validate_update: validate_node_update,
    unconditional_update: false,
    ..Strategy::PLAIN
};

static ATTACHMENT: Strategy = Strategy {
    validate: validate_attachment,
    validate_update: |new, old| {
        let mut faults = validate_attachment(new);
        faults.extend(immutable(&new["spec"], &old["spec"], &Path::new("spec")));
        faults
    },
    validate_status: |new, _| validate_attachment(new),
    status: true,
    unconditional_update: false,
    ..Strategy::PLAIN
};

static CAPACITY: Strategy = Strategy {
    validate: validate_capacity,
    validate_update: |new, old| {
        [validate_capacity(new), all_immutable(new, old, &["nodeTopology", "storageClassName"])].concat()
    },
    unconditional_update: false,
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    match kind {
        "StorageClass" => Some(&STORAGE_CLASS),
        "VolumeAttributesClass" => Some(&ATTRIBUTES_CLASS),
        "CSIDriver" => Some(&DRIVER),
        "CSINode" => Some(&NODE),
        "VolumeAttachment" => Some(&ATTACHMENT),
        "CSIStorageCapacity" => Some(&CAPACITY),
        _ => None,
    }
}

fn all_immutable(new: &Value, old: &Value, keys: &[&str]) -> Faults {
    keys.iter().flat_map(|key| immutable(&new[*key], &old[*key], &Path::new(key))).collect()
}

// === classes ===

fn validate_class(class: &Value) -> Faults {
    let mut faults = provisioner(class, "provisioner");
    faults.extend(parameters(class));
    let policy = text(class, "reclaimPolicy");
    if !policy.is_empty() {
        faults.extend(one_of(policy, &Path::new("reclaimPolicy"), &["Delete", "Retain"]));
    }
    let mode = Path::new("volumeBindingMode");
    if has(class, "volumeBindingMode") {
        faults.extend(one_of(
            text(class, "volumeBindingMode"),
            &mode,
            &["Immediate", "WaitForFirstConsumer"],
        ));
    } else {
        faults.push(Error::required(&mode, ""));
    }
    faults.extend(topologies(list(class, "allowedTopologies")));
    faults
}

fn validate_attributes_class(class: &Value) -> Faults {
    let mut faults = provisioner(class, "driverName");
    faults.extend(parameters(class));
    if entries(class, "parameters").next().is_none() {
        faults.push(Error::required(&Path::new("parameters"), "must contain at least one key/value pair"));
    }
    faults
}

fn provisioner(class: &Value, key: &str) -> Faults {
    let path = Path::new(key);
    match text(class, key) {
        "" => vec![Error::required(&path, "")],
        name => {
            let name = name.to_lowercase();
            each_wrong(&path, &name, names::qualified_name(&name))
        }
    }
}

fn parameters(class: &Value) -> Faults {
    let path = Path::new("parameters");
    let size = |(key, value): (&str, &Value)| key.len() + value.as_str().map_or(0, str::len);
    if entries(class, "parameters").count() > MOST_PARAMETERS {
        return vec![Error::too_long(&path, MOST_PARAMETERS)];
    }
    let mut faults = Vec::new();
    if has(&class["parameters"], "") {
        faults.push(Error::invalid(&path, "", "field can not be empty."));
    }
    if entries(class, "parameters").map(size).sum::<usize>() > MOST_PARAMETER_BYTES {
        faults.push(Error::too_long(&path, MOST_PARAMETER_BYTES));
    }
    faults
}

fn topologies(terms: &[Value]) -> Faults {
    let path = Path::new("allowedTopologies");
    let mut faults = Vec::new();
    let mut seen: BTreeSet<BTreeMap<&str, BTreeSet<&str>>> = BTreeSet::new();
    for (index, term) in terms.iter().enumerate() {
        let path = path.index(index).child("matchLabelExpressions");
        let mut keys = BTreeMap::new();
        for (index, expression) in list(term, "matchLabelExpressions").iter().enumerate() {
            let path = path.index(index);
            let values = texts(expression, "values");
            if values.is_empty() {
                faults.push(Error::required(&path.child("values"), ""));
            }
            let mut set = BTreeSet::new();
            for (index, value) in values.into_iter().enumerate() {
                if !set.insert(value) {
                    faults.push(Error::duplicate(&path.child("values").index(index), value));
                }
            }
            let key = text(expression, "key");
            faults.extend(each_wrong(&path.child("key"), key, names::qualified_name(key)));
            if keys.insert(key, set).is_some() {
                faults.push(Error::duplicate(&path.child("key"), key));
            }
        }
        if !seen.insert(keys) {
            faults.push(Error::duplicate(&path, ""));
        }
    }
    faults
}

// === drivers ===

fn default_driver(driver: &mut Value) {
    let Some(spec) = fields(driver).map(|fields| fields.entry("spec").or_insert_with(|| json!({}))) else {
        return;
    };
    default(spec, "attachRequired", true);
    default(spec, "podInfoOnMount", false);
    default(spec, "storageCapacity", false);
    default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    default_empty(spec, "volumeLifecycleModes", json!(["Persistent"]));
    default(spec, "requiresRepublish", false);
    default(spec, "seLinuxMount", false);
}

/// A field whose feature is off unless asked for.
fn drop_disabled(driver: &mut Value) {
    if let Some(spec) = driver.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("preventPodSchedulingIfMissing");
    }
}

fn validate_driver(driver: &Value) -> Faults {
    let spec = &driver["spec"];
    let path = Path::new("spec");
    let mut faults = Vec::new();
    // The real server says `attachedRequired` of a field that is called `attachRequired`.
    for (key, said) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !has(spec, key) {
            faults.push(Error::required(&path.child(said), ""));
        }
    }
    if has(spec, "fsGroupPolicy") {
        let known = ["File", "None", "ReadWriteOnceWithFSType"];
        faults.extend(one_of(text(spec, "fsGroupPolicy"), &path.child("fsGroupPolicy"), &known));
    }
    faults.extend(token_requests(list(spec, "tokenRequests"), &path.child("tokenRequests")));
    for mode in texts(spec, "volumeLifecycleModes") {
        faults.extend(one_of(mode, &path.child("volumeLifecycleModes"), &["Persistent", "Ephemeral"]));
    }
    if !has(spec, "seLinuxMount") {
        faults.push(Error::required(&path.child("seLinuxMount"), ""));
    }
    if let Some(period) = int(spec, "nodeAllocatableUpdatePeriodSeconds")
        && period < 10
    {
        let at = path.child("nodeAllocatableUpdatePeriodSeconds");
        faults.push(Error::invalid(&at, period, "must be greater than or equal to 10 seconds"));
    }
    let tokens = "serviceAccountTokenInSecrets";
    if has(spec, tokens) && list(spec, "tokenRequests").is_empty() {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        faults.push(Error::invalid(&path.child(tokens), spec[tokens].clone(), why));
    }
    faults
}

fn token_requests(requests: &[Value], path: &Path) -> Faults {
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, request) in requests.iter().enumerate() {
        let path = path.index(index);
        let audience = text(request, "audience");
        if !seen.insert(audience) {
            faults.push(Error::duplicate(&path.child("audience"), audience));
            continue;
        }
        let Some(seconds) = int(request, "expirationSeconds") else { continue };
        let at = path.child("expirationSeconds");
        if seconds < 600 {
            faults.push(Error::invalid(&at, seconds, "may not specify a duration less than 10 minutes"));
        }
        if seconds > 1 << 32 {
            faults.push(Error::invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds"));
        }
    }
    faults
}

// === nodes and attachments ===

fn validate_node(node: &Value) -> Faults {
    const MOST_ID: usize = 256;
    let path = Path::new("spec.drivers");
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, driver) in list(&node["spec"], "drivers").iter().enumerate() {
        let path = path.index(index);
        let name = text(driver, "name");
        faults.extend(rules::csi_driver_name(&path.child("name"), name));
        let id = text(driver, "nodeID");
        if id.is_empty() {
            faults.push(Error::required(&path.child("nodeID"), ""));
        }
        if id.len() > MOST_ID {
            faults.push(Error::invalid(&path.child("nodeID"), id, "must be 256 characters or less"));
        }
        faults.extend(not_negative(&driver["allocatable"], "count", &path.child("allocatable")));
        if !seen.insert(name) {
            faults.push(Error::duplicate(&path.child("name"), name));
        }
        let mut keys = BTreeSet::new();
        for key in texts(driver, "topologyKeys") {
            if key.is_empty() {
                faults.push(Error::required(&path, ""));
            }
            if !keys.insert(key) {
                faults.push(Error::duplicate(&path, key));
            }
            faults.extend(each_wrong(&path, key, names::qualified_name(key)));
        }
    }
    faults
}

fn validate_node_update(new: &Value, old: &Value) -> Faults {
    let mut faults = validate_node(new);
    let frozen = |driver: &Value| {
        let mut driver = driver.clone();
        driver.as_object_mut().map(|fields| fields.remove("allocatable"));
        driver
    };
    for before in list(&old["spec"], "drivers") {
        for after in list(&new["spec"], "drivers").iter().filter(|one| one["name"] == before["name"]) {
            if !same(&frozen(after), &frozen(before)) {
                // The names and the order that Go gives the fields inside the server.
                let value = format!(
                    r#"{{"Name":{},"NodeID":{},"TopologyKeys":{},"Allocatable":null}}"#,
                    after["name"], after["nodeID"], after["topologyKeys"],
                );
                faults.push(shown(&Path::new("spec.drivers"), &value, super::look::IMMUTABLE));
            }
        }
    }
    faults
}

fn validate_attachment(attachment: &Value) -> Faults {
    let spec = &attachment["spec"];
    let path = Path::new("spec");
    let mut faults = rules::csi_driver_name(&path.child("attacher"), text(spec, "attacher"));
    let source = &spec["source"];
    let at = path.child("source");
    let exactly = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let volume = text(source, "persistentVolumeName");
    match (has(source, "inlineVolumeSpec"), has(source, "persistentVolumeName")) {
        (false, false) => faults.push(Error::required(&at, exactly)),
        (true, true) => faults.push(Error::forbidden(&at, exactly)),
        (false, true) if volume.is_empty() => {
            let why = "must specify non empty persistentVolumeName";
            faults.push(Error::required(&at.child("persistentVolumeName"), why));
        }
        _ => {}
    }
    let node = text(spec, "nodeName");
    faults.extend(each_wrong(&path.child("nodeName"), node, names::dns1123_subdomain(node)));
    if has(source, "persistentVolumeName") {
        let at = at.child("persistentVolumeName");
        faults.extend(each_wrong(&at, volume, names::dns1123_subdomain(volume)));
    }
    faults
}

fn validate_capacity(capacity: &Value) -> Faults {
    let mut faults = super::selector(&capacity["nodeTopology"], &Path::new("nodeTopology"));
    let class = text(capacity, "storageClassName");
    faults.extend(each_wrong(&Path::new("storageClassName"), class, names::dns1123_subdomain(class)));
    if quantity_is_negative(&capacity["capacity"]) {
        let why = "must be greater than or equal to 0";
        faults.push(Error::invalid(&Path::new("capacity"), capacity["capacity"].clone(), why));
    }
    faults
}
