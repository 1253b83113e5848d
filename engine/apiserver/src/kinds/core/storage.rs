//! PersistentVolumes and the claims for them.

use serde_json::Value;

use super::{META_ONLY, Strategy};
use crate::field::{Error, Fault, Path};
use crate::kinds::claims::{NOT_POSITIVE, VOLUME_MODES, validate_access_modes, validate_claim_spec};
use crate::kinds::internal;
use crate::kinds::meta::{self, annotation};
use crate::kinds::pods::resources::validate_amount;
use crate::kinds::pods::volumes::{self as sources, required};
use crate::kinds::pods::{
    default_claim_spec, default_volume_source, round_resources, validate_node_selector,
};
use crate::kinds::quantity::Quantity;
use crate::kinds::walk::{
    At, Faults, IMMUTABLE, copy, find_mut, get, is_empty, map_mut, object_mut, remove, same, set_absent,
    set_zero, text,
};
use crate::names;

const ONE_TYPE: &str = "may not specify more than 1 volume type";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) const VOLUME: Strategy = Strategy {
    default: |volume| {
        set_zero(object_mut(volume, "status"), "phase", "Pending");
        let spec = object_mut(volume, "spec");
        set_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
        set_absent(spec, "volumeMode", "Filesystem");
        round_resources(spec, &["capacity"]);
        default_volume_source(spec);
    },
    prepare_create: |volume| {
        let created = get(volume, &["metadata", "creationTimestamp"]).clone();
        let status = object_mut(volume, "status");
        set_zero(status, "phase", "Pending");
        if created.is_string() {
            set_absent(status, "lastPhaseTransitionTime", created);
        }
    },
    validate: |volume| [meta::validate_builtin(volume), validate_volume(volume)].concat(),
    validate_update: validate_volume_update,
    validate_status: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        faults.extend(validate_version(new));
        faults
    },
    status: true,
    ..META_ONLY
};

pub(super) const CLAIM: Strategy = Strategy {
    default: default_claim,
    // Its phase is a default: it shows whenever the claim is read, and is stored with the first change.
    prepare_create: same_data_sources,
    prepare_update: |new, _| same_data_sources(new),
    validate: |claim| [meta::validate_builtin(claim), validate_claim_spec(&At::top(claim, "spec"))].concat(),
    validate_update: validate_claim_update,
    validate_status: validate_claim_status,
    status: true,
    ..META_ONLY
};

// === volumes ===

type Rule = fn(&At<'_>) -> Faults;

const SOURCES: [(&str, &str, Rule); 21] = [
    ("hostPath", "hostPath", sources::host_path),
    ("gcePersistentDisk", "gcePersistentDisk", |source| {
        sources::gce_disk(&At::new(source.value, Path::new("spec").child("persistentDisk")))
    }),
    ("awsElasticBlockStore", "awsElasticBlockStore", sources::aws_disk),
    ("glusterfs", "glusterfs", glusterfs),
    ("flocker", "flocker", sources::flocker),
    ("nfs", "nfs", sources::nfs),
    ("rbd", "rbd", |source| required(source, &["monitors", "image"])),
    ("quobyte", "quobyte", sources::quobyte),
    ("cephfs", "cephFS", |source| required(source, &["monitors"])),
    ("iscsi", "iscsi", iscsi),
    ("cinder", "cinder", |source| [required(source, &["volumeID"]), secret(source)].concat()),
    ("fc", "fc", sources::fibre_channel),
    ("flexVolume", "flexVolume", sources::flex),
    ("azureFile", "azureFile", azure_file),
    ("vsphereVolume", "vsphereVolume", |source| required(source, &["volumePath"])),
    ("photonPersistentDisk", "photonPersistentDisk", |source| required(source, &["pdID"])),
    ("portworxVolume", "portworxVolume", |source| required(source, &["volumeID"])),
    ("azureDisk", "azureDisk", sources::azure_disk),
    ("scaleIO", "scaleIO", |source| required(source, &["gateway", "system", "volumeName"])),
    ("local", "local", local),
    ("storageos", "storageos", |source| [sources::storage_os(source), secret(source)].concat()),
];

fn validate_volume(volume: &Value) -> Faults {
    let spec = At::top(volume, "spec");
    let (modes, capacity) = (spec.child("accessModes"), spec.child("capacity"));
    let mut faults = Faults::new();
    if is_empty(modes.value) {
        faults.push(modes.required(""));
    }
    faults.extend(validate_access_modes(&modes));
    faults.extend(validate_capacity(&capacity));
    let policy = spec.child("persistentVolumeReclaimPolicy");
    let policies = ["Delete", "Recycle", "Retain"];
    if !policy.str().is_empty() && !policies.contains(&policy.str()) {
        faults.push(policy.not_supported(&policies));
    }
    let affinity = spec.child("nodeAffinity");
    if affinity.is_set() {
        let nodes = affinity.child("required");
        if nodes.is_set() {
            faults.extend(validate_node_selector(&nodes));
        } else {
            faults.push(nodes.required("must specify required node constraints"));
        }
    }
    faults.extend(validate_source(&spec, &volume["metadata"]));
    if text(&spec.value["hostPath"], "path").trim_end_matches('/').is_empty()
        && spec.has("hostPath")
        && text(&spec.value["hostPath"], "path").starts_with('/')
        && policy.str() == "Recycle"
    {
        faults.push(policy.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
    }
    let class = spec.child("storageClassName");
    if !class.str().is_empty() {
        faults.extend(class.obey(names::dns1123_subdomain));
    }
    let mode = spec.child("volumeMode");
    if mode.is_set() && !VOLUME_MODES.contains(&mode.str()) {
        faults.push(mode.not_supported(&VOLUME_MODES));
    }
    let attributes = spec.child("volumeAttributesClassName");
    if attributes.is_set() {
        if attributes.str().is_empty() {
            faults.push(attributes.required("an empty string is disallowed"));
        } else {
            faults.extend(attributes.obey(names::dns1123_subdomain));
        }
        if !spec.has("csi") {
            let why = "has to be specified when using volumeAttributesClassName";
            faults.push(spec.child("csi").required(why));
        }
    }
    faults
}

fn validate_capacity(capacity: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    if is_empty(capacity.value) {
        faults.push(capacity.required(""));
    }
    let count = capacity.entries().count();
    if !capacity.has("storage") || count > 1 {
        faults.push(Error {
            fault: Fault::NotSupported,
            path: capacity.path.clone(),
            value: Some(capacity.value.clone()),
            detail: "supported values: \"storage\"".to_owned(),
        });
    }
    for (_, at) in capacity.entries() {
        let amount = Quantity::of(at.value);
        faults.extend(validate_basic(&at));
        if !amount.is_positive() {
            faults.push(Error::invalid(&at.path, amount.to_string(), NOT_POSITIVE));
        }
    }
    faults
}

fn validate_basic(at: &At<'_>) -> Option<Error> {
    let units = Quantity::of(at.value).value();
    (units < 0).then(|| Error::invalid(&at.path, units, "must be a valid resource quantity"))
}

fn validate_source(spec: &At<'_>, meta: &Value) -> Faults {
    let mut faults = Faults::new();
    let mut found = false;
    for (name, too_many, rule) in SOURCES {
        let source = spec.child(name);
        if !source.is_set() {
            continue;
        }
        // This one alone does not mind another before it.
        if found && name != "flexVolume" {
            faults.push(spec.child(too_many).forbidden(ONE_TYPE));
            continue;
        }
        if name == "iscsi" && source.has("initiatorName") {
            let portal = At::new(source.child("targetPortal").value, source.path.child("targetportal"));
            if text(meta, "name").len() + 1 + portal.str().len() > 64 {
                faults.push(portal.invalid("Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."));
            }
        }
        faults.extend(rule(&source));
        if name == "local" && !spec.has("nodeAffinity") {
            faults.push(spec.child("nodeAffinity").required("Local volume requires node affinity"));
        }
        found = true;
    }
    let csi = spec.child("csi");
    if csi.is_set() && found {
        faults.push(csi.forbidden(ONE_TYPE));
    } else if csi.is_set() {
        faults.extend(validate_csi(&csi));
    } else if !found {
        faults.push(spec.required("must specify a volume type"));
    }
    faults
}

fn secret(source: &At<'_>) -> Faults {
    let secret = source.child("secretRef");
    if secret.is_set() { required(&secret, &["name", "namespace"]) } else { Faults::new() }
}

fn glusterfs(source: &At<'_>) -> Faults {
    let mut faults = required(source, &["endpoints", "path"]);
    let namespace = source.child("endpointsNamespace");
    if namespace.is_set() && namespace.str().is_empty() {
        faults.push(namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name"));
    } else if namespace.is_set() {
        faults.extend(namespace.obey(names::dns1123_label));
    }
    faults
}

fn iscsi(source: &At<'_>) -> Faults {
    let mut faults = required(source, &["targetPortal"]);
    faults.extend(sources::iscsi_rest(source, "must be valid format"));
    let secret = source.child("secretRef");
    if secret.is_set() {
        faults.extend(required(&secret, &["name"]));
    }
    faults
}

fn azure_file(source: &At<'_>) -> Faults {
    let mut faults = required(source, &["secretName", "shareName"]);
    let namespace = source.child("secretNamespace");
    if namespace.is_set() && namespace.str().is_empty() {
        faults.push(namespace.required(""));
    }
    faults
}

fn local(source: &At<'_>) -> Faults {
    let path = source.child("path");
    if path.str().is_empty() {
        return vec![path.required("")];
    }
    sources::no_back_steps(&path).into_iter().collect()
}

fn validate_csi(csi: &At<'_>) -> Faults {
    let mut faults = sources::csi_driver(&csi.child("driver"));
    faults.extend(required(csi, &["volumeHandle"]));
    for name in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = csi.child(name);
        if secret.is_set() {
            faults.extend(secret.child("name").required_and(names::dns1123_subdomain));
            faults.extend(secret.child("namespace").required_and(names::dns1123_label));
        }
    }
    faults
}

/// Every field of the spec that is not about where the data is.
const NOT_SOURCES: [&str; 9] = [
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

fn source_of(volume: &Value) -> Value {
    let mut spec = volume["spec"].clone();
    NOT_SOURCES.iter().for_each(|name| remove(&mut spec, name));
    spec
}

fn validate_volume_update(new: &Value, old: &Value) -> Faults {
    let again = || {
        let mut faults = meta::validate_builtin_again(new, false, names::dns1123_subdomain);
        faults.extend(validate_volume(new));
        faults
    };
    let mut faults = [again(), again()].concat();
    let (mut source, old_source) = (source_of(new), source_of(old));
    let secret = |source: &Value| get(source, &["csi", "controllerExpandSecretRef"]).is_null();
    if old_source.get("csi").is_some() && secret(&old_source) && !secret(&source) {
        remove(object_mut(&mut source, "csi"), "controllerExpandSecretRef");
    }
    if !same(&source, &old_source) {
        let diff = internal::diff("PersistentVolumeSource", &old_source, &source);
        let why = format!("spec.persistentvolumesource is immutable after creation\n{diff}");
        faults.push(Error::forbidden(&Path::new("spec").child("persistentvolumesource"), why));
    }
    let (spec, old_spec) = (&new["spec"], &old["spec"]);
    faults.extend(immutable(spec, old_spec, "volumeMode", IMMUTABLE));
    if old_spec.get("nodeAffinity").is_some_and(|affinity| !affinity.is_null()) {
        let affinity = internal::show("VolumeNodeAffinity", &spec["nodeAffinity"]);
        let why = format!("{affinity}: {IMMUTABLE}, except for updating from beta label to GA");
        let changed = immutable(spec, old_spec, "nodeAffinity", &why);
        faults.extend(changed.map(|fault| Error { value: None, ..fault }));
    }
    let class = "volumeAttributesClassName";
    if spec[class].is_null() && !old_spec[class].is_null() {
        let why = "update from non-nil value to nil is forbidden";
        faults.push(Error::forbidden(&Path::new("spec").child(class), why));
    }
    faults
}

/// Here messages leave `spec` out of the path.
fn immutable(new: &Value, old: &Value, name: &str, why: &str) -> Option<Error> {
    let changed = !same(&new[name], &old[name]);
    changed.then(|| Error::invalid(&Path::new(name), new[name].clone(), why))
}

fn validate_version(object: &Value) -> Option<Error> {
    let missing = text(&object["metadata"], "resourceVersion").is_empty();
    missing.then(|| Error::required(&Path::new("resourceVersion"), ""))
}

// === claims ===

/// What a claim becomes, also as a template in a StatefulSet.
pub(in crate::kinds) fn default_claim(claim: &mut Value) {
    let status = object_mut(claim, "status");
    set_zero(status, "phase", "Pending");
    round_resources(status, &["capacity", "allocatedResources"]);
    default_claim_spec(object_mut(claim, "spec"));
}

/// `dataSourceRef` is the newer form of `dataSource`; each fills the other where it can.
fn same_data_sources(claim: &mut Value) {
    let Some(spec) = find_mut(claim, "spec") else { return };
    // Only volumes and snapshots can be said in the older form.
    let known = |source: &Value| {
        let kind = (text(source, "apiGroup"), text(source, "kind"));
        [("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")].contains(&kind)
    };
    // Sources in other namespaces are behind a feature that is off in this release.
    if !text(get(spec, &["dataSourceRef"]), "namespace").is_empty() {
        remove(spec, "dataSourceRef");
    }
    if find_mut(spec, "dataSource").is_some_and(|source| !known(source)) && !spec["dataSourceRef"].is_object()
    {
        remove(spec, "dataSource");
    }
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source @ Value::Object(_)), None | Some(Value::Null)) => {
            map_mut(spec).insert("dataSourceRef".into(), source);
        }
        (None | Some(Value::Null), Some(reference @ Value::Object(_))) => {
            map_mut(spec).insert("dataSource".into(), reference);
        }
        _ => {}
    }
}

fn validate_claim_update(new: &Value, old: &Value) -> Faults {
    let mut faults = meta::validate_builtin_update(new, old);
    faults.extend(meta::validate_builtin_again(new, true, names::dns1123_subdomain));
    faults.extend(validate_claim_spec(&At::top(new, "spec")));
    let (mut spec, mut old_spec) = (new["spec"].clone(), old["spec"].clone());
    if text(&old_spec, "volumeName").is_empty() {
        let from = spec.clone();
        copy(&mut old_spec, &from, "volumeName");
    }
    let (class, old_class) = (spec["storageClassName"].clone(), old_spec["storageClassName"].clone());
    let (noted, old_noted) = (annotation(new, CLASS_ANNOTATION), annotation(old, CLASS_ANNOTATION));
    let moved_from_annotation = old_noted.is_some()
        && old_class.is_null()
        && class.as_str() == old_noted
        && (noted.is_none() || noted == old_noted);
    if moved_from_annotation {
        remove(&mut spec, "storageClassName");
    } else {
        if noted.unwrap_or_default() != old_noted.unwrap_or_default() {
            let path = Path::new("metadata").child("annotations").child(CLASS_ANNOTATION);
            faults.push(Error::invalid(&path, noted.unwrap_or_default(), IMMUTABLE));
        }
        let fits = old_noted.is_none() || class.as_str() == old_noted;
        if class.is_string() && old_class.is_null() && fits {
            remove(&mut spec, "storageClassName");
        }
    }
    let bound = text(&new["status"], "phase") == "Bound";
    let storage = |object: &Value| get(object, &["spec", "resources", "requests", "storage"]).clone();
    if bound {
        if let Some(requests) =
            spec.get_mut("resources").and_then(|resources| find_mut(resources, "requests"))
        {
            map_mut(requests).insert("storage".into(), storage(old));
        }
        let from = old_spec.clone();
        copy(&mut spec, &from, "volumeAttributesClassName");
    }
    if !same(&spec, &old_spec) {
        let diff = internal::diff("PersistentVolumeClaimSpec", &old_spec, &spec);
        let why = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{diff}"
        );
        faults.push(Error::forbidden(&Path::new("spec"), why));
    }
    let (size, old_size) = (Quantity::of(&storage(new)), Quantity::of(&storage(old)));
    let granted = Quantity::of(get(old, &["status", "capacity", "storage"]));
    if size < old_size && size <= granted {
        let path = Path::new("spec").child("resources").child("requests").child("storage");
        faults.push(Error::forbidden(&path, "field can not be less than status.capacity"));
    }
    faults.extend(immutable(&new["spec"], &old["spec"], "volumeMode", IMMUTABLE));
    let attributes = "volumeAttributesClassName";
    let wanted = &new["spec"][attributes];
    if *wanted != old["spec"][attributes]
        && !get(old, &["status", "currentVolumeAttributesClassName"]).is_null()
    {
        let to = match wanted.as_str() {
            None => Some("nil"),
            Some("") => Some("empty string"),
            Some(_) => None,
        };
        faults.extend(to.map(|to| {
            let why = format!(
                "update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil"
            );
            Error::forbidden(&Path::new("spec").child(attributes), why)
        }));
    }
    faults
}

fn validate_claim_status(new: &Value, old: &Value) -> Faults {
    let mut faults = meta::validate_builtin_update(new, old);
    faults.extend(validate_version(new));
    if is_empty(get(new, &["spec", "accessModes"])) {
        faults.push(Error::required(&Path::new("Spec").child("accessModes"), ""));
    }
    let status = At::top(new, "status");
    faults.extend(status.child("capacity").entries().filter_map(|(_, at)| validate_basic(&at)));
    let states = status.child("allocatedResourceStatuses");
    let known = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    for (key, state) in states.entries() {
        faults.extend(validate_resource_key(key, &states.path));
        if !known.contains(&state.str()) {
            let mut sorted = known;
            sorted.sort_unstable();
            faults.push(Error::not_supported(&states.path, key, &sorted));
        }
    }
    let allocated = status.child("allocatedResources");
    for (key, at) in allocated.entries() {
        let wrong = validate_resource_key(key, &allocated.path);
        if wrong.is_empty() {
            let basic = validate_basic(&at);
            let rest = if basic.is_none() { validate_amount("storage", &at) } else { Faults::new() };
            faults.extend(basic.into_iter().chain(rest));
        }
        faults.extend(wrong);
    }
    faults
}

fn validate_resource_key(key: &str, path: &Path) -> Faults {
    let wrong = names::qualified_name(key);
    let native = !key.contains('/') || key.contains("kubernetes.io/");
    if wrong.is_empty() && native && key != "storage" {
        return vec![Error::not_supported(path, key, &["storage"])];
    }
    wrong.into_iter().map(|why| Error::invalid(path, key, why)).collect()
}
