//! What a pod, or a template for pods, becomes where its author was silent.

use serde_json::{Value, json};

use super::resources;
use crate::kinds::quantity::Quantity;
use crate::kinds::walk::{
    find_mut, find_path_mut, items_mut, list, map_mut, object_mut, remove, set_absent, set_zero, text,
};

/// Fills the gaps of a `PodTemplateSpec`: `{metadata, spec}`.
pub(crate) fn default_pod_template_spec(template: &mut Value) {
    remove_init_container_annotations(template);
    default_pod_spec(object_mut(template, "spec"));
}

/// Fills the gaps of a Pod: those of a template, and some that only a running pod needs.
pub(crate) fn default_pod(pod: &mut Value) {
    remove_init_container_annotations(pod);
    let spec = object_mut(pod, "spec");
    for containers in ["containers", "initContainers"] {
        for container in items_mut(spec, containers) {
            resources::request_what_is_limited(container);
        }
    }
    resources::default_pod_resources(spec);
    set_absent(spec, "enableServiceLinks", true);
    if spec["hostNetwork"] == true {
        for containers in ["containers", "initContainers"] {
            for port in items_mut(spec, containers).flat_map(|container| items_mut(container, "ports")) {
                let own = port["containerPort"].clone();
                set_zero(port, "hostPort", own);
            }
        }
    }
    // Of pods, but not of templates.
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        map_mut(spec).insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    default_pod_spec(spec);
    if let Some(status) = find_mut(pod, "status") {
        agree_on_address(status);
    }
}

/// A pod's one address is the first of its addresses; where they differ, the one is right.
fn agree_on_address(status: &mut Value) {
    let first = list(&status["podIPs"]).first().map(|first| text(first, "ip").to_owned());
    match (text(status, "podIP").to_owned(), first) {
        (one, Some(first)) if one.is_empty() => set_zero(status, "podIP", first),
        (one, first) if !one.is_empty() && first.as_deref() != Some(&one) => {
            map_mut(status).insert("podIPs".into(), json!([{"ip": one}]));
        }
        _ => {}
    }
}

fn default_pod_spec(spec: &mut Value) {
    set_zero(spec, "dnsPolicy", "ClusterFirst");
    set_zero(spec, "restartPolicy", "Always");
    set_absent(spec, "securityContext", json!({}));
    set_absent(spec, "terminationGracePeriodSeconds", 30);
    set_zero(spec, "schedulerName", "default-scheduler");
    same_service_account(spec);
    // Behind a feature that is off in this release, and nothing stored has it.
    remove(spec, "schedulingGroup");
    for volume in items_mut(spec, "volumes") {
        default_volume(volume);
    }
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items_mut(spec, containers) {
            default_container(container);
        }
    }
    round_resources(spec, &["overhead"]);
    if let Some(resources) = find_mut(spec, "resources") {
        round_resources(resources, &["limits", "requests"]);
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are shown.
fn same_service_account(spec: &mut Value) {
    let name = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    for field in ["serviceAccountName", "serviceAccount"] {
        match name.as_str() {
            "" => remove(spec, field),
            name => drop(map_mut(spec).insert(field.to_owned(), name.into())),
        }
    }
}

/// Before there was a field for init containers, they were annotations, which must not come back.
fn remove_init_container_annotations(template: &mut Value) {
    let Some(annotations) = find_path_mut(template, &["metadata", "annotations"]) else { return };
    for name in [
        "pod.beta.kubernetes.io/init-containers",
        "pod.alpha.kubernetes.io/init-containers",
        "pod.beta.kubernetes.io/init-container-statuses",
        "pod.alpha.kubernetes.io/init-container-statuses",
    ] {
        remove(annotations, name);
    }
}

fn default_container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    set_zero(container, "imagePullPolicy", policy);
    set_zero(container, "terminationMessagePath", "/dev/termination-log");
    set_zero(container, "terminationMessagePolicy", "File");
    for port in items_mut(container, "ports") {
        set_zero(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        if let Some(selector) = find_path_mut(variable, &["valueFrom", "fieldRef"]) {
            set_zero(selector, "apiVersion", "v1");
        }
        if let Some(selector) = find_path_mut(variable, &["valueFrom", "fileKeyRef"]) {
            set_absent(selector, "optional", false);
        }
    }
    if let Some(resources) = find_mut(container, "resources") {
        round_resources(resources, &["limits", "requests"]);
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = find_mut(container, name) {
            default_probe(probe);
        }
    }
    if let Some(lifecycle) = find_mut(container, "lifecycle") {
        // A feature that is off in this release.
        remove(lifecycle, "stopSignal");
        for name in ["postStart", "preStop"] {
            if let Some(handler) = find_mut(lifecycle, name) {
                default_http_get(handler);
            }
        }
    }
}

fn default_probe(probe: &mut Value) {
    set_zero(probe, "timeoutSeconds", 1);
    set_zero(probe, "periodSeconds", 10);
    set_zero(probe, "successThreshold", 1);
    set_zero(probe, "failureThreshold", 3);
    default_http_get(probe);
    if let Some(grpc) = find_mut(probe, "grpc") {
        set_absent(grpc, "service", "");
    }
}

fn default_http_get(handler: &mut Value) {
    if let Some(http) = find_mut(handler, "httpGet") {
        set_zero(http, "path", "/");
        set_zero(http, "scheme", "HTTP");
    }
}

fn default_volume(volume: &mut Value) {
    let has_source = volume
        .as_object()
        .is_some_and(|map| map.iter().any(|(name, value)| name != "name" && !value.is_null()));
    if !has_source {
        set_absent(volume, "emptyDir", json!({}));
    }
    if let Some(image) = find_mut(volume, "image") {
        let policy = pull_policy(text(image, "reference"));
        set_zero(image, "pullPolicy", policy);
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = find_mut(volume, source) {
            set_absent(source, "defaultMode", 0o644);
        }
    }
    default_volume_source(volume);
    if let Some(source) = find_mut(volume, "downwardAPI") {
        default_downward_items(source);
    }
    if let Some(projected) = find_mut(volume, "projected") {
        for source in items_mut(projected, "sources") {
            // Both are behind features that are off in this release.
            remove(source, "clusterTrustBundle");
            remove(source, "podCertificate");
            if let Some(downward) = find_mut(source, "downwardAPI") {
                default_downward_items(downward);
            }
            if let Some(token) = find_mut(source, "serviceAccountToken") {
                set_absent(token, "expirationSeconds", 3600);
            }
        }
    }
    if let Some(spec) = find_path_mut(volume, &["ephemeral", "volumeClaimTemplate", "spec"]) {
        default_claim_spec(spec);
    }
}

/// What the sources that volumes and persistent volumes share become.
pub(crate) fn default_volume_source(volume: &mut Value) {
    if let Some(host_path) = find_mut(volume, "hostPath") {
        set_absent(host_path, "type", "");
    }
    if let Some(iscsi) = find_mut(volume, "iscsi") {
        set_zero(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = find_mut(volume, "rbd") {
        set_zero(rbd, "pool", "rbd");
        set_zero(rbd, "user", "admin");
        set_zero(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = find_mut(volume, "azureDisk") {
        set_absent(disk, "cachingMode", "ReadWrite");
        set_absent(disk, "fsType", "ext4");
        set_absent(disk, "readOnly", false);
        set_absent(disk, "kind", "Shared");
    }
    if let Some(scale_io) = find_mut(volume, "scaleIO") {
        set_zero(scale_io, "storageMode", "ThinProvisioned");
        set_zero(scale_io, "fsType", "xfs");
    }
}

/// What the spec of a claim for a volume becomes, be it in a claim of its own or in a template.
pub(crate) fn default_claim_spec(spec: &mut Value) {
    set_absent(spec, "volumeMode", "Filesystem");
    if let Some(resources) = find_mut(spec, "resources") {
        round_resources(resources, &["limits", "requests"]);
    }
}

fn default_downward_items(source: &mut Value) {
    for item in items_mut(source, "items") {
        if let Some(selector) = find_mut(item, "fieldRef") {
            set_zero(selector, "apiVersion", "v1");
        }
    }
}

/// Rounds the amounts in these lists up to thousandths.
pub(crate) fn round_resources(parent: &mut Value, lists: &[&str]) {
    for name in lists {
        let Some(map) = parent.get_mut(name).and_then(Value::as_object_mut) else { continue };
        for value in map.values_mut() {
            let rounded = value.as_str().and_then(Quantity::parse).and_then(|exact| exact.rounded_to_milli());
            // What is round already keeps the form it came in.
            if let Some(rounded) = rounded {
                *value = rounded.to_string().into();
            }
        }
    }
}

/// `Always` for `latest`, said or implied; what no longer moves need not be pulled twice.
fn pull_policy(image: &str) -> &'static str {
    if image_tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of an image; `latest` if it has neither tag nor digest, nothing if it is no image at all.
fn image_tag(image: &str) -> Option<&str> {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return None;
    }
    let last = name.rsplit('/').next().unwrap_or(name);
    let (repository, tag) = match last.rsplit_once(':') {
        Some((_, tag)) => (&name[..name.len() - tag.len() - 1], Some(tag)),
        None => (name, None),
    };
    if !is_repository(repository) || tag.is_some_and(|tag| !is_tag(tag)) {
        return None;
    }
    match (tag, digest) {
        (None, None) => Some("latest"),
        (tag, _) => tag,
    }
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

fn is_digest(digest: &str) -> bool {
    digest
        .split_once(':')
        .is_some_and(|(_, hex)| hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_repository(repository: &str) -> bool {
    let mut parts: Vec<&str> = repository.split('/').collect();
    // As with Docker, a first part with a dot, a port or the name localhost is a host.
    let host = parts.len() > 1
        && (parts[0].contains(['.', ':'])
            || parts[0] == "localhost"
            || parts[0].contains(char::is_uppercase));
    if host {
        parts.remove(0);
    }
    parts.iter().all(|part| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let edge =
            |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        part.bytes().all(inner) && edge(part.bytes().next()) && edge(part.bytes().next_back())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_pulled_always_when_they_may_move() {
        let digest = format!("nginx@sha256:{}", "a".repeat(64));
        let cases = [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.27", "IfNotPresent"),
            ("host:5000/nginx", "Always"),
            ("host:5000/a/nginx:1", "IfNotPresent"),
            (digest.as_str(), "IfNotPresent"),
            ("NGINX", "IfNotPresent"),
            ("", "IfNotPresent"),
            ("a b", "IfNotPresent"),
        ];
        for (image, policy) in cases {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
