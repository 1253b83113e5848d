//! Volumes that are disks or shares somewhere else.

use std::sync::LazyLock;

use regex::Regex;

use super::{local_path, required};
use crate::field::Error;
use crate::kinds::walk::{At, Faults, is_empty};
use crate::names;

pub(super) fn git_repo(source: &At<'_>) -> Faults {
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

pub(super) fn partition(source: &At<'_>) -> Option<Error> {
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

pub(super) fn iscsi(source: &At<'_>) -> Faults {
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

pub(super) fn iscsi_name(at: &At<'_>, name: &str, bad_start: &str) -> Option<Error> {
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

pub(super) fn csi(source: &At<'_>) -> Faults {
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
