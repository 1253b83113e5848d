//! Volumes of pods: their names, that each has one source, and what each source asks for.

mod disks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;

pub(in crate::kinds) use self::disks::{
    aws_disk, azure_disk, csi_driver, fibre_channel, flex, flocker, gce_disk, iscsi_rest, nfs, quobyte,
    storage_os,
};
use self::disks::{csi, git_repo, iscsi};
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
