//! Containers: those that run, those that run before them, and those that look in later.

use std::collections::{BTreeMap, BTreeSet};

use super::resources::{self, Level};
use super::volumes::{Volumes, is_claim, local_path, no_back_steps};
use super::{env, probes, security};
use crate::field::Error;
use crate::kinds::walk::{At, Faults, is_empty};
use crate::names;

const ONLY_SIDECARS: &str = "may not be set for init containers without restartPolicy=Always";
const NOT_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// What containers of a pod need to know of it.
pub(super) struct Pod<'a> {
    pub(super) volumes: Volumes<'a>,
    pub(super) claims: BTreeSet<&'a str>,
    pub(super) grace: Option<i64>,
    pub(super) restart_policy: &'a str,
    pub(super) host_users: bool,
}

/// Every container of a pod, in the order that the real server visits them.
pub(super) fn all<'a>(spec: &At<'a>) -> impl Iterator<Item = At<'a>> + use<'a> {
    ["initContainers", "containers", "ephemeralContainers"]
        .map(|kind| spec.child(kind))
        .into_iter()
        .flat_map(|all| all.items())
}

pub(super) fn validate_containers(containers: &At<'_>, pod: &Pod<'_>) -> Faults {
    if is_empty(containers.value) {
        return vec![containers.required("")];
    }
    let mut faults = Faults::new();
    let mut seen = BTreeSet::new();
    for container in containers.items() {
        faults.extend(validate_common(&container, pod));
        let name = container.child("name");
        if !seen.insert(name.str()) {
            faults.push(Error::duplicate(&name.path, name.str()));
        }
        faults.extend(probes::validate_all(&container, pod.grace));
        faults.extend(validate_restart_policy(&container));
    }
    faults.extend(host_port_conflicts(containers.items()));
    faults
}

pub(super) fn validate_init_containers(containers: &At<'_>, regular: &At<'_>, pod: &Pod<'_>) -> Faults {
    let mut faults = Faults::new();
    let mut seen: BTreeSet<&str> = env::names_of(regular).collect();
    for container in containers.items() {
        faults.extend(validate_common(&container, pod));
        let sidecar = container.text("restartPolicy") == "Always";
        faults.extend(validate_restart_policy(&container));
        let name = container.child("name");
        if seen.contains(name.str()) {
            faults.push(Error::duplicate(&name.path, name.str()));
        } else if !name.str().is_empty() {
            seen.insert(name.str());
        }
        // They run one after another, so only ports of one and the same can collide; the message
        // counts from the first all the same.
        let alone = At::new(container.value, containers.path.index(0));
        faults.extend(host_port_conflicts(std::iter::once(alone)));
        if sidecar {
            faults.extend(probes::validate_all(&container, pod.grace));
        } else {
            let fields = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
            let set = fields.iter().map(|name| container.child(name)).filter(At::is_set);
            faults.extend(set.map(|field| field.forbidden(ONLY_SIDECARS)));
            for policy in container.child("resizePolicy").items().map(|one| one.child("restartPolicy")) {
                if policy.str() == "RestartContainer" {
                    let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    faults.push(policy.invalid(why));
                }
            }
        }
    }
    faults
}

pub(super) fn validate_ephemeral_containers(containers: &At<'_>, spec: &At<'_>, pod: &Pod<'_>) -> Faults {
    let mut faults = Faults::new();
    let others: BTreeSet<&str> =
        ["containers", "initContainers"].iter().flat_map(|kind| env::names_of(&spec.child(kind))).collect();
    let mut seen = others.clone();
    for container in containers.items() {
        faults.extend(validate_common(&container, pod));
        faults.extend(validate_image_is_trimmed(&container));
        let name = container.child("name");
        if !seen.insert(name.str()) {
            faults.push(Error::duplicate(&name.path, name.str()));
        }
        let target = container.child("targetContainerName");
        if !target.str().is_empty() && !others.contains(target.str()) {
            faults.push(target.not_found());
        }
        for field in [
            "ports",
            "resources",
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            let field = container.child(field);
            if !is_empty(field.value) {
                faults.push(field.forbidden(NOT_EPHEMERAL));
            }
        }
        for mount in container.child("volumeMounts").items() {
            let set = ["subPath", "subPathExpr"].map(|name| mount.child(name));
            faults.extend(
                set.iter().filter(|one| !one.str().is_empty()).map(|one| one.forbidden(NOT_EPHEMERAL)),
            );
        }
    }
    faults
}

/// Only a pod that exists minds blanks around an image.
pub(super) fn validate_image_is_trimmed(container: &At<'_>) -> Option<Error> {
    let image = container.child("image");
    let trimmed = image.str().trim().len() == image.str().len();
    (!trimmed).then(|| image.invalid("must not have leading or trailing whitespace"))
}

fn validate_common(container: &At<'_>, pod: &Pod<'_>) -> Faults {
    let mut faults = container.child("name").required_and(names::dns1123_label);
    let image = container.child("image");
    if image.str().is_empty() {
        faults.push(image.required(""));
    }
    let policy = container.child("terminationMessagePolicy");
    match policy.str() {
        "File" | "FallbackToLogsOnError" => {}
        "" => faults.push(policy.required("")),
        _ => faults.push(policy.not_supported(&["File", "FallbackToLogsOnError"])),
    }
    faults.extend(validate_ports(&container.child("ports")));
    faults.extend(env::validate_env(&container.child("env")));
    faults.extend(env::validate_env_from(&container.child("envFrom")));
    faults.extend(validate_mounts(container, pod));
    faults.extend(validate_devices(container, pod));
    faults.extend(validate_pull_policy(&container.child("imagePullPolicy")));
    let requirements = container.child("resources");
    faults.extend(resources::validate_requirements(&requirements, &pod.claims, Level::Container));
    faults.extend(validate_resize_policy(&container.child("resizePolicy"), pod.restart_policy));
    faults.extend(security::validate_container(&container.child("securityContext"), pod.host_users));
    faults
}

fn validate_ports(ports: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let name = port.child("name");
        if !name.str().is_empty() {
            let wrong = name.obey(names::port_name);
            if wrong.is_empty() && !seen.insert(name.str()) {
                faults.push(name.duplicate());
            }
            faults.extend(wrong);
        }
        let number = port.child("containerPort");
        match number.value.as_i64().unwrap_or(0) {
            0 => faults.push(number.required("")),
            value => faults.extend(names::port_number(value).into_iter().map(|why| number.invalid(why))),
        }
        let host = port.child("hostPort");
        let value = host.value.as_i64().unwrap_or(0);
        if value != 0 {
            faults.extend(names::port_number(value).into_iter().map(|why| host.invalid(why)));
        }
        faults.extend(validate_protocol(&port.child("protocol")));
    }
    faults
}

pub(crate) fn validate_protocol(protocol: &At<'_>) -> Option<Error> {
    match protocol.str() {
        "" => Some(protocol.required("")),
        "TCP" | "UDP" | "SCTP" => None,
        _ => Some(protocol.not_supported(&["SCTP", "TCP", "UDP"])),
    }
}

fn host_port_conflicts<'a>(containers: impl Iterator<Item = At<'a>>) -> Faults {
    let mut faults = Faults::new();
    let mut seen = BTreeSet::new();
    for port in containers.flat_map(|container| container.child("ports").items()) {
        let number = port.int("hostPort").unwrap_or(0);
        let shown = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
        if number != 0 && !seen.insert(shown.clone()) {
            faults.push(Error::duplicate(&port.child("hostPort").path, shown));
        }
    }
    faults
}

/// Names and paths of a list of mounts or devices.
fn names_and_paths<'a>(all: &At<'a>, path: &str) -> BTreeMap<&'a str, &'a str> {
    all.items().map(|one| (one.text("name"), one.text(path))).collect()
}

fn validate_mounts(container: &At<'_>, pod: &Pod<'_>) -> Faults {
    let mounts = container.child("volumeMounts");
    let devices = names_and_paths(&container.child("volumeDevices"), "devicePath");
    let mut faults = Faults::new();
    let mut seen = BTreeSet::new();
    for mount in mounts.items() {
        let (name, path) = (mount.child("name"), mount.child("mountPath"));
        if name.str().is_empty() {
            faults.push(name.required(""));
        }
        if !pod.volumes.contains_key(name.str()) {
            faults.push(Error::not_found(&name.path, name.str()));
        }
        if path.str().is_empty() {
            faults.push(path.required(""));
        }
        if !seen.insert(path.str()) {
            faults.push(Error::invalid(&path.path, path.str(), "must be unique"));
        }
        if devices.contains_key(name.str()) {
            faults.push(name.invalid("must not already exist in volumeDevices"));
        }
        if devices.values().any(|device| *device == path.str()) {
            faults.push(path.invalid("must not already exist as a path in volumeDevices"));
        }
        // These messages name the list, not the mount.
        let shown = |field: &str| At::new(mount.child(field).value, mounts.path.child(field));
        if !mount.text("subPath").is_empty() {
            faults.extend(local_path(&shown("subPath")));
        }
        if !mount.text("subPathExpr").is_empty() {
            if !mount.text("subPath").is_empty() {
                let why = "subPathExpr and subPath are mutually exclusive";
                faults.push(mount.child("subPathExpr").invalid(why));
            }
            faults.extend(local_path(&shown("subPathExpr")));
        }
        faults.extend(validate_propagation(&shown("mountPropagation"), container));
        faults.extend(validate_recursive_read_only(&mount, &shown("recursiveReadOnly")));
    }
    faults
}

fn validate_propagation(mode: &At<'_>, container: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let modes = ["Bidirectional", "HostToContainer", "None"];
    if mode.is_set() && !modes.contains(&mode.str()) {
        faults.push(mode.not_supported(&modes));
    }
    if mode.str() == "Bidirectional" && !container.child("securityContext").is_true("privileged") {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        faults.push(mode.forbidden(why));
    }
    faults
}

fn validate_recursive_read_only(mount: &At<'_>, mode: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    match mode.str() {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.is_true("readOnly") {
                faults.push(mode.forbidden("may only be specified when readOnly is true"));
            }
            if mount.has("mountPropagation") && mount.text("mountPropagation") != "None" {
                let why = "may only be specified when mountPropagation is None or not specified";
                faults.push(mode.forbidden(why));
            }
        }
        _ if mode.is_set() => faults.push(mode.not_supported(&["Disabled", "Enabled", "IfPossible"])),
        _ => {}
    }
    faults
}

fn validate_devices(container: &At<'_>, pod: &Pod<'_>) -> Faults {
    let mounts = names_and_paths(&container.child("volumeMounts"), "mountPath");
    let mut faults = Faults::new();
    let (mut seen_names, mut seen_paths) = (BTreeSet::new(), BTreeSet::new());
    for device in container.child("volumeDevices").items() {
        let (name, path) = (device.child("name"), device.child("devicePath"));
        let volume = pod.volumes.get(name.str());
        if name.str().is_empty() {
            faults.push(name.required(""));
        }
        if seen_names.contains(name.str()) {
            faults.push(name.invalid("must be unique"));
        }
        match volume {
            Some(volume) if !is_claim(volume) => {
                let why =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                faults.push(name.invalid(why));
            }
            Some(_) => {}
            None => faults.push(Error::not_found(&name.path, name.str())),
        }
        if path.str().is_empty() {
            faults.push(path.required(""));
        }
        if seen_paths.contains(path.str()) {
            faults.push(Error::invalid(&path.path, path.str(), "must be unique"));
        }
        if no_back_steps(&path).is_some() {
            faults.push(path.invalid("can not contain backsteps ('..')"));
        } else {
            seen_paths.insert(path.str());
        }
        if mounts.contains_key(name.str()) {
            faults.push(name.invalid("must not already exist in volumeMounts"));
        }
        if mounts.values().any(|mount| *mount == path.str()) {
            faults.push(path.invalid("must not already exist as a path in volumeMounts"));
        }
        if !name.str().is_empty() {
            seen_names.insert(name.str());
        }
    }
    faults
}

pub(super) fn validate_pull_policy(policy: &At<'_>) -> Option<Error> {
    match policy.str() {
        "Always" | "IfNotPresent" | "Never" => None,
        "" => Some(policy.required("")),
        _ => Some(policy.not_supported(&["Always", "IfNotPresent", "Never"])),
    }
}

fn validate_resize_policy(policies: &At<'_>, pod_restart_policy: &str) -> Faults {
    let mut faults = Faults::new();
    let mut seen = BTreeSet::new();
    // Most of these messages name the list, not the policy.
    let checked = |value: &str, supported: [&str; 2]| match value {
        "" => Some(policies.required("")),
        _ if supported.contains(&value) => None,
        _ => Some(Error::not_supported(&policies.path, value, &supported)),
    };
    for policy in policies.items() {
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if !seen.insert(resource) {
            faults.push(Error::duplicate(&policy.path, resource));
        }
        faults.extend(checked(resource, ["cpu", "memory"]));
        faults.extend(checked(restart, ["NotRequired", "RestartContainer"]));
        if pod_restart_policy == "Never" && restart != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            faults.push(Error::invalid(&policies.path, restart, why));
        }
    }
    faults
}

fn validate_restart_policy(container: &At<'_>) -> Faults {
    let (policy, rules) = (container.child("restartPolicy"), container.child("restartPolicyRules"));
    let count = rules.items().len();
    let mut faults = Faults::new();
    let policies = ["Always", "Never", "OnFailure"];
    if !policy.is_set() {
        if count > 0 {
            faults.push(policy.required("must specify restartPolicy when restart rules are used"));
        }
    } else if !policies.contains(&policy.str()) {
        faults.push(policy.not_supported(&policies));
    }
    if count > 20 {
        faults.push(Error::too_many(&rules.path, count, 20));
    }
    for rule in rules.items() {
        let (action, codes) = (rule.child("action"), rule.child("exitCodes"));
        let actions = ["Restart", "RestartAllContainers"];
        if !actions.contains(&action.str()) {
            faults.push(action.not_supported(&actions));
        }
        if !codes.is_set() {
            faults.push(codes.required("must be specified"));
            continue;
        }
        let operator = codes.child("operator");
        if !["In", "NotIn"].contains(&operator.str()) {
            faults.push(operator.not_supported(&["In", "NotIn"]));
        }
        let values = codes.child("values");
        if values.items().len() > 255 {
            faults.push(Error::too_many(&values.path, values.items().len(), 255));
        }
    }
    faults
}
