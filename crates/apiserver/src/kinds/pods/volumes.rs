//! Volumes of pods: their names, that each has one source, and what each source asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::env::{validate_field_selector, validate_resource_selector};
use crate::field::Error;
use crate::kinds::claims;
use crate::kinds::quantity::Quantity;
use crate::kinds::walk::{At, Faults, get, is_empty, list};
use crate::names;

const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const ONE_TYPE: &str = "may not specify more than 1 volume type";
const LONG_PORTAL: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

/// The valid volumes of a pod, by name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// Where a pod's volumes are validated: a pod that exists asks more than a template.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    /// The metadata of the pod; `None` in a template.
    pub(super) pod: Option<&'a Value>,
}

impl<'a> Owner<'a> {
    pub(super) fn is_pod(self) -> bool {
        self.pod.is_some()
    }

    fn name(self) -> &'a str {
        self.pod.map_or("", |meta| crate::kinds::walk::text(meta, "name"))
    }
}

/// What is wrong with the volumes of a pod, and those that are fine.
pub(super) fn validate_volumes<'a>(volumes: &At<'a>, owner: Owner<'_>) -> (Volumes<'a>, Faults) {
    let mut faults = Faults::new();
    let mut fine = Volumes::new();
    let created: BTreeSet<String> = volumes
        .items()
        .filter(|volume| !owner.name().is_empty() && volume.has("ephemeral"))
        .map(|volume| format!("{}-{}", owner.name(), volume.text("name")))
        .collect();
    for volume in volumes.items() {
        let mut own = validate_source(&volume, owner);
        let name = volume.child("name");
        own.extend(name.required_and(names::dns1123_label));
        if fine.contains_key(name.str()) {
            own.push(name.duplicate());
        }
        if own.is_empty() {
            fine.insert(name.str(), volume.value);
        }
        faults.extend(own);
        let claim = volume.child("persistentVolumeClaim").child("claimName");
        if created.contains(claim.str()) {
            faults.push(claim.invalid("must not reference a PVC that gets created for an ephemeral volume"));
        }
    }
    (fine, faults)
}

type Rule = fn(&At<'_>) -> Faults;

/// Each source with the name messages use when it is one too many, in the order they are looked at.
const SOURCES: [(&str, &str, Rule); 28] = [
    ("hostPath", "hostPath", host_path),
    ("gitRepo", "gitRepo", git_repo),
    ("gcePersistentDisk", "gcePersistentDisk", |source| {
        gce_disk(&At::new(source.value, renamed(source, "persistentDisk")))
    }),
    ("awsElasticBlockStore", "awsElasticBlockStore", aws_disk),
    ("secret", "secret", |source| keyed_files(source, "secretName")),
    ("nfs", "nfs", nfs),
    ("iscsi", "iscsi", iscsi),
    ("glusterfs", "glusterfs", |source| required(source, &["endpoints", "path"])),
    ("flocker", "flocker", flocker),
    ("persistentVolumeClaim", "persistentVolumeClaim", |source| required(source, &["claimName"])),
    ("rbd", "rbd", |source| required(source, &["monitors", "image"])),
    ("cinder", "cinder", |source| [required(source, &["volumeID"]), secret_name(source)].concat()),
    ("cephfs", "cephFS", |source| required(source, &["monitors"])),
    ("quobyte", "quobyte", quobyte),
    ("downwardAPI", "downwarAPI", downward),
    ("fc", "fc", fibre_channel),
    ("flexVolume", "flexVolume", flex),
    ("configMap", "configMap", |source| keyed_files(source, "name")),
    ("azureFile", "azureFile", |source| required(source, &["secretName", "shareName"])),
    ("vsphereVolume", "vsphereVolume", |source| required(source, &["volumePath"])),
    ("photonPersistentDisk", "photonPersistentDisk", |source| required(source, &["pdID"])),
    ("portworxVolume", "portworxVolume", |source| required(source, &["volumeID"])),
    ("azureDisk", "azureDisk", azure_disk),
    ("storageos", "storageos", |source| [storage_os(source), secret_name(source)].concat()),
    ("projected", "projected", projected),
    ("scaleIO", "scaleIO", |source| required(source, &["gateway", "system", "volumeName"])),
    ("csi", "csi", csi),
    ("ephemeral", "ephemeral", ephemeral),
];

fn validate_source(volume: &At<'_>, owner: Owner<'_>) -> Faults {
    let mut faults = Faults::new();
    let empty_dir = volume.child("emptyDir");
    let mut found = empty_dir.is_set();
    if Quantity::of(get(empty_dir.value, &["sizeLimit"])).is_negative() {
        let why = "SizeLimit field must be a valid resource quantity";
        faults.push(empty_dir.child("sizeLimit").forbidden(why));
    }
    for (name, too_many, rule) in SOURCES {
        let source = volume.child(name);
        if !source.is_set() {
            continue;
        }
        if found {
            faults.push(volume.child(too_many).forbidden(ONE_TYPE));
        } else {
            faults.extend(rule(&source));
            if name == "ephemeral" {
                faults.extend(claim_name(volume, owner));
            }
        }
        found = true;
        if name == "iscsi" && source.has("initiatorName") {
            let name = volume.child("name");
            if name.str().len() + 1 + source.text("targetPortal").len() > 64 {
                faults.push(name.invalid(LONG_PORTAL));
            }
        }
    }
    let image = volume.child("image");
    if image.is_set() && found {
        faults.push(image.forbidden(ONE_TYPE));
    } else if image.is_set() {
        found = true;
        if owner.is_pod() {
            faults.extend(required(&image, &["reference"]));
        }
        faults.extend(super::containers::validate_pull_policy(&image.child("pullPolicy")));
    }
    if !found {
        faults.push(volume.required("must specify a volume type"));
    }
    faults
}

/// One fault for each of these fields that is empty.
pub(in crate::kinds) fn required(source: &At<'_>, names: &[&str]) -> Faults {
    names
        .iter()
        .map(|name| source.child(name))
        .filter(|field| is_empty(field.value))
        .map(|field| field.required(""))
        .collect()
}

fn renamed(source: &At<'_>, name: &str) -> crate::field::Path {
    let parent = source.path.as_str().rsplit_once('.').map_or("", |(parent, _)| parent);
    crate::field::Path::new(parent).child(name)
}

fn secret_name(source: &At<'_>) -> Faults {
    let secret = source.child("secretRef");
    if secret.is_set() { required(&secret, &["name"]) } else { Faults::new() }
}

fn file_mode(source: &At<'_>, name: &str) -> Option<Error> {
    let mode = source.child(name);
    let wrong = mode.value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode));
    wrong.then(|| mode.invalid(FILE_MODE))
}

/// Secrets and config maps: a name, and which key goes into which file.
fn keyed_files(source: &At<'_>, name: &str) -> Faults {
    let mut faults = required(source, &[name]);
    faults.extend(file_mode(source, "defaultMode"));
    faults.extend(source.child("items").items().flat_map(|item| key_to_path(&item)));
    faults
}

fn key_to_path(item: &At<'_>) -> Faults {
    let mut faults = required(item, &["key", "path"]);
    faults.extend(local_path_not_reserved(&item.child("path")));
    faults.extend(file_mode(item, "mode"));
    faults
}

/// A path that goes down from where it starts and does not look like what Kubernetes itself writes there.
fn local_path_not_reserved(path: &At<'_>) -> Faults {
    let mut faults = local_path(path);
    if path.str().starts_with("..") && !path.str().starts_with("../") {
        faults.push(path.invalid("must not start with '..'"));
    }
    faults
}

/// A path that goes down from where it starts.
pub(super) fn local_path(path: &At<'_>) -> Faults {
    let absolute = path.str().starts_with('/').then(|| path.invalid("must be a relative path"));
    absolute.into_iter().chain(no_back_steps(path)).collect()
}

pub(in crate::kinds) fn no_back_steps(path: &At<'_>) -> Option<Error> {
    path.str().split('/').any(|part| part == "..").then(|| path.invalid("must not contain '..'"))
}

pub(in crate::kinds) fn host_path(source: &At<'_>) -> Faults {
    let path = source.child("path");
    if path.str().is_empty() {
        return vec![path.required("")];
    }
    let kinds =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let kind = source.child("type");
    let wrong = (!kinds.contains(&kind.str())).then(|| kind.not_supported(&kinds));
    no_back_steps(&path).into_iter().chain(wrong).collect()
}

fn git_repo(source: &At<'_>) -> Faults {
    [required(source, &["repository"]), local_path(&source.child("directory"))].concat()
}

pub(in crate::kinds) fn gce_disk(source: &At<'_>) -> Faults {
    let mut faults = required(source, &["pdName"]);
    faults.extend(partition(source));
    faults
}

pub(in crate::kinds) fn aws_disk(source: &At<'_>) -> Faults {
    let mut faults = required(source, &["volumeID"]);
    faults.extend(partition(source));
    faults
}

fn partition(source: &At<'_>) -> Option<Error> {
    let partition = source.child("partition");
    // Zero is fine, whatever the message says.
    let wrong = partition.value.as_i64().is_some_and(|number| !(0..=255).contains(&number));
    wrong.then(|| partition.invalid(names::range(1, 255)))
}

pub(in crate::kinds) fn nfs(source: &At<'_>) -> Faults {
    let mut faults = required(source, &["server", "path"]);
    let path = source.child("path");
    if !path.str().starts_with('/') {
        faults.push(Error::invalid(&path.path, path.str(), "must be an absolute path"));
    }
    faults
}

static IQN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"iqn\.\d{4}-\d{2}\.([[:alnum:]\-.]+)(:[^,;*&$|\s]+)$").expect("a constant pattern")
});
static EUI: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^eui.[[:alnum:]]{16}$").expect("a constant pattern"));
static NAA: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^naa.[[:alnum:]]{32}$").expect("a constant pattern"));

fn iscsi(source: &At<'_>) -> Faults {
    let mut faults = required(source, &["targetPortal"]);
    faults.extend(iscsi_rest(source, "must be valid format starting with iqn, eui, or naa"));
    faults
}

/// What pods and persistent volumes ask of iSCSI alike; they differ in one sentence.
pub(in crate::kinds) fn iscsi_rest(source: &At<'_>, bad_start: &str) -> Faults {
    let mut faults = Faults::new();
    let name = source.child("iqn");
    if name.str().is_empty() {
        faults.push(name.required(""));
    } else {
        faults.extend(iscsi_name(&name, name.str(), bad_start));
    }
    let lun = source.child("lun");
    let number = lun.value.as_i64().unwrap_or(0);
    if !(0..=255).contains(&number) {
        faults.push(Error::invalid(&lun.path, number, names::range(0, 255)));
    }
    let secret = source.child("secretRef");
    if (source.is_true("chapAuthDiscovery") || source.is_true("chapAuthSession")) && !secret.is_set() {
        faults.push(secret.required(""));
    }
    if source.has("initiatorName") {
        let shown = At::new(source.child("initiatorName").value, source.path.child("initiatorname"));
        faults.extend(iscsi_name(&shown, shown.str(), bad_start));
    }
    faults
}

fn iscsi_name(at: &At<'_>, name: &str, bad_start: &str) -> Option<Error> {
    let fine = match name.get(..3) {
        Some("iqn") => IQN.is_match(name),
        Some("eui") => EUI.is_match(name),
        Some("naa") => NAA.is_match(name),
        _ => return Some(Error::invalid(&at.path, name, bad_start)),
    };
    (!fine).then(|| Error::invalid(&at.path, name, "must be valid format"))
}

pub(in crate::kinds) fn flocker(source: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let (name, uuid) = (source.child("datasetName"), source.text("datasetUUID"));
    match (name.str().is_empty(), uuid.is_empty()) {
        (true, true) => faults.push(source.required("one of datasetName and datasetUUID is required")),
        (false, false) => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            faults.push(Error::invalid(&source.path, "resource", why));
        }
        _ => {}
    }
    if name.str().contains('/') {
        faults.push(name.invalid("must not contain '/'"));
    }
    faults
}

pub(in crate::kinds) fn quobyte(source: &At<'_>) -> Faults {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let mut faults = Faults::new();
    let registry = source.child("registry");
    if registry.str().is_empty() {
        faults.push(registry.required(PAIRS));
    } else if source.text("tenant").len() >= 65 {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        faults.push(source.child("tenant").required(why));
    } else {
        let bad =
            registry.str().split(',').filter(|pair| pair.matches(':').count() != 1 && !pair.contains("]:"));
        faults.extend(bad.map(|_| registry.invalid(PAIRS)));
    }
    faults.extend(required(source, &["volume"]));
    faults
}

pub(in crate::kinds) fn fibre_channel(source: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let (targets, ids) = (source.child("targetWWNs"), source.child("wwids"));
    let (some_targets, some_ids) = (!is_empty(targets.value), !is_empty(ids.value));
    if !some_targets && !some_ids {
        faults.push(targets.required("must specify either targetWWNs or wwids, but not both"));
    }
    if some_targets && some_ids {
        faults.push(targets.invalid("targetWWNs and wwids can not be specified simultaneously"));
    }
    let lun = source.child("lun");
    match lun.value.as_i64() {
        None if some_targets => faults.push(lun.required("lun is required if targetWWNs is specified")),
        Some(number) if some_targets && !(0..=255).contains(&number) => {
            faults.push(lun.invalid(names::range(0, 255)));
        }
        _ => {}
    }
    faults
}

pub(in crate::kinds) fn flex(source: &At<'_>) -> Faults {
    let mut faults = required(source, &["driver"]);
    for (key, at) in source.child("options").entries() {
        let space = key.split_once('/').map_or(key, |(space, _)| space);
        let space = format!(".{}", space.to_lowercase());
        if space.ends_with(".kubernetes.io") || space.ends_with(".k8s.io") {
            faults.push(Error::invalid(&at.path, key, "kubernetes.io and k8s.io namespaces are reserved"));
        }
    }
    faults
}

pub(in crate::kinds) fn azure_disk(source: &At<'_>) -> Faults {
    let mut faults = required(source, &["diskName", "diskURI"]);
    for (name, supported) in
        [("cachingMode", ["None", "ReadOnly", "ReadWrite"]), ("kind", ["Dedicated", "Managed", "Shared"])]
    {
        let field = source.child(name);
        if field.is_set() && !supported.contains(&field.str()) {
            faults.push(field.not_supported(&supported));
        }
    }
    let uri = source.child("diskURI");
    let (start, example) = if source.text("kind") == "Managed" {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
    };
    if source.has("kind") && !uri.str().starts_with(start) {
        faults.push(uri.not_supported(&[example]));
    }
    faults
}

pub(in crate::kinds) fn storage_os(source: &At<'_>) -> Faults {
    let mut faults = source.child("volumeName").required_and(names::dns1123_label);
    let namespace = source.child("volumeNamespace");
    if !namespace.str().is_empty() {
        faults.extend(namespace.obey(names::dns1123_label));
    }
    faults
}

/// The name of a CSI driver, which may have capitals.
pub(in crate::kinds) fn csi_driver(driver: &At<'_>) -> Faults {
    if driver.str().is_empty() {
        return vec![driver.required("")];
    }
    let long = (driver.str().len() > 63).then(|| Error::too_long(&driver.path, 63));
    let wrong = names::dns1123_subdomain(&driver.str().to_lowercase());
    long.into_iter().chain(wrong.into_iter().map(|why| driver.invalid(why))).collect()
}

fn csi(source: &At<'_>) -> Faults {
    let mut faults = csi_driver(&source.child("driver"));
    let secret = source.child("nodePublishSecretRef");
    if secret.is_set() {
        let name = secret.child("name");
        if name.str().is_empty() {
            faults.push(name.required(""));
        } else {
            // The path of the message is that of the source.
            faults.extend(At::new(name.value, source.path.child("name")).obey(names::dns1123_subdomain));
        }
    }
    faults
}

fn ephemeral(source: &At<'_>) -> Faults {
    let template = source.child("volumeClaimTemplate");
    if template.is_set() { claims::validate_claim_template(&template) } else { vec![template.required("")] }
}

/// The claim that an ephemeral volume makes is named after the pod and the volume.
fn claim_name(volume: &At<'_>, owner: Owner<'_>) -> Faults {
    let name = volume.child("name");
    if owner.name().is_empty() || name.str().is_empty() {
        return Faults::new();
    }
    let claim = format!("{}-{}", owner.name(), name.str());
    let wrong = names::dns1123_subdomain(&claim);
    wrong.into_iter().map(|why| name.invalid(format!("PVC name {claim:?}: {why}"))).collect()
}

fn downward(source: &At<'_>) -> Faults {
    let mode = file_mode(source, "defaultMode");
    let items = source.child("items");
    mode.into_iter().chain(items.items().flat_map(|item| downward_file(&item, source))).collect()
}

/// Messages about the file speak of the source it is in.
fn downward_file(file: &At<'_>, source: &At<'_>) -> Faults {
    let file = At::new(file.value, source.path.clone());
    let mut faults = required(&file, &["path"]);
    faults.extend(local_path_not_reserved(&At::new(
        if file.has("path") { &file.value["path"] } else { &EMPTY_TEXT },
        file.path.child("path"),
    )));
    let (field, resource) = (file.child("fieldRef"), file.child("resourceFieldRef"));
    if field.is_set() {
        faults.extend(validate_field_selector(&field, &VOLUME_FIELDS));
        if resource.is_set() {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            faults.push(Error::invalid(&file.path, "resource", why));
        }
    } else if resource.is_set() {
        faults.extend(validate_resource_selector(&resource, true));
    } else {
        faults.push(file.required("one of fieldRef and resourceFieldRef is required"));
    }
    faults.extend(file_mode(&file, "mode"));
    faults
}

static EMPTY_TEXT: LazyLock<Value> = LazyLock::new(|| Value::from(""));
const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

fn projected(projection: &At<'_>) -> Faults {
    let mut faults: Faults = file_mode(projection, "defaultMode").into_iter().collect();
    let mut paths = BTreeSet::new();
    let mut repeated = |path: &str, shown: &str| {
        let again = !path.is_empty() && !paths.insert(path.to_owned());
        again.then(|| Error::invalid(&projection.path, shown, "conflicting duplicate paths"))
    };
    for source in projection.child("sources").items() {
        for kind in ["secret", "configMap"].map(|kind| source.child(kind)).iter().filter(|kind| kind.is_set())
        {
            faults.extend(required(kind, &["name"]));
            for item in kind.child("items").items() {
                faults.extend(key_to_path(&item));
                faults.extend(repeated(item.text("path"), kind.text("name")));
            }
        }
        let files = source.child("downwardAPI");
        for file in files.child("items").items() {
            faults.extend(downward_file(&file, &files));
            faults.extend(repeated(file.text("path"), file.text("path")));
        }
        let token = source.child("serviceAccountToken");
        if token.is_set() {
            faults.extend(service_account_token(&token, projection));
        }
        let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
        if kinds.iter().filter(|kind| source.has(kind)).count() > 1 {
            faults.push(source.forbidden("may not specify more than 1 volume type per source"));
        }
    }
    faults
}

fn service_account_token(token: &At<'_>, projection: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let expiration = token.child("expirationSeconds");
    match expiration.value.as_i64().unwrap_or(0) {
        seconds if seconds < 600 => {
            faults.push(expiration.invalid("may not specify a duration less than 10 minutes"));
        }
        seconds if seconds > 1 << 32 => {
            faults.push(expiration.invalid("may not specify a duration larger than 2^32 seconds"));
        }
        _ => {}
    }
    // Here, too, the path of the message is that of the volume.
    let path = At::new(token.child("path").value, projection.path.child("path"));
    if path.str().is_empty() {
        faults.push(path.required(""));
    } else {
        faults.extend(local_path_not_reserved(&path));
    }
    faults
}

/// Whether a pod without a service account asks for a token of one.
pub(super) fn validate_tokens_have_account(spec: &At<'_>) -> Faults {
    if !spec.text("serviceAccountName").is_empty() {
        return Faults::new();
    }
    let sources =
        spec.child("volumes").items().flat_map(|volume| volume.child("projected").child("sources").items());
    sources
        .map(|source| source.child("serviceAccountToken"))
        .filter(At::is_set)
        .map(|token| token.forbidden("must not be specified when serviceAccountName is not set"))
        .collect()
}

/// Whether a volume is backed by a claim, as block devices must be.
pub(super) fn is_claim(volume: &Value) -> bool {
    ["persistentVolumeClaim", "ephemeral"].iter().any(|kind| !get(volume, &[kind]).is_null())
}

/// The volume of that name, valid or not.
pub(super) fn find<'a>(spec: &'a Value, name: &str) -> Option<&'a Value> {
    list(&spec["volumes"]).iter().find(|volume| volume["name"] == name)
}
