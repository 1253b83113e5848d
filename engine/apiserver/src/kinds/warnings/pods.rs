//! Pods and templates of pods.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::super::walk::{At, same, text};
use super::nodes::{self, Values};
use super::{addresses, at, fraction, storage, virtual_paths};
use crate::field::Path;
use crate::names;

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const SECCOMP_GONE: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const APP_ARMOR_GONE: &str = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Warnings about a new pod.
pub(super) fn pod(pod: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let wrong = names::dns1123_label(text(&pod["metadata"], "name"));
    if !wrong.is_empty() {
        let advice = "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended";
        warnings.push(format!("metadata.name: {advice}: [{}]", wrong.join(" ")));
    }
    warnings.extend(of_pod(&At::new(pod, Path::root())));
    warnings
}

/// Warnings about a template of pods.
pub(super) fn template(template: &At<'_>) -> Vec<String> {
    if template.is_set() { of_pod(template) } else { Vec::new() }
}

/// Warnings about annotations of a new pod that stand for a field which is not set.
pub(super) fn app_armor_of_pod(pod: &Value) -> Vec<String> {
    let pod = At::new(pod, Path::root());
    let spec = pod.child("spec");
    if spec.child("os").text("name") == "windows" {
        return Vec::new();
    }
    containers(&spec).filter_map(|container| app_armor(&pod, &container)).collect()
}

fn of_pod(pod: &At<'_>) -> Vec<String> {
    let spec = pod.child("spec");
    let mut warnings = node_labels(&spec);
    warnings.extend(old_annotations(pod));
    warnings.extend(spec.child("volumes").items().flat_map(|volume| plugins(&volume)));
    warnings.extend(virtual_paths::overlaps(&spec.child("volumes")));
    warnings.extend(duplicates(&spec.child("hostAliases"), "ip"));
    warnings.extend(duplicates(&spec.child("imagePullSecrets"), "name"));
    for secret in spec.child("imagePullSecrets").items() {
        if secret.text("name").is_empty() {
            warnings.push(at(&secret.path.child("name"), r#"invalid empty name """#));
        }
    }
    let overhead = spec.child("overhead");
    warnings.extend(["memory", "ephemeral-storage"].iter().filter_map(|name| fraction(&overhead, name)));
    let annotations = pod.child("metadata").child("annotations");
    if !spec.child("securityContext").has("seccompProfile") && annotations.has(SECCOMP_POD) {
        warnings.push(at(&annotations.path.key(SECCOMP_POD), SECCOMP_GONE));
    }
    warnings.extend(containers(&spec).flat_map(|one| container(pod, &one)));
    warnings.extend(ports(&spec));
    warnings.extend(port_names(&spec));
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let path = spec.path.child("terminationGracePeriodSeconds");
        warnings.push(at(&path, "must be >= 0; negative values are invalid and will be treated as 1"));
    }
    warnings.extend(affinity(&spec.child("affinity")));
    let servers = spec.child("dnsConfig").child("nameservers");
    warnings.extend(servers.items().filter_map(|server| addresses::address(&server)));
    let aliases = spec.child("hostAliases");
    warnings.extend(aliases.items().filter_map(|alias| addresses::address(&alias.child("ip"))));
    warnings
}

/// The containers of a pod in the order they are looked at.
fn containers<'a>(spec: &At<'a>) -> impl Iterator<Item = At<'a>> + use<'a> {
    ["initContainers", "containers", "ephemeralContainers"]
        .map(|name| spec.child(name).items())
        .into_iter()
        .flatten()
}

fn node_labels(spec: &At<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, label) in spec.child("nodeSelector").entries() {
        warnings.extend(nodes::deprecated_label(key).map(|why| at(&label.path, why)));
    }
    let affinity = spec.child("affinity").child("nodeAffinity");
    for term in affinity.child(REQUIRED).child("nodeSelectorTerms").items() {
        warnings.extend(nodes::selector_term(&term, Values::Checked));
    }
    for term in affinity.child(PREFERRED).items() {
        warnings.extend(nodes::selector_term(&term.child("preference"), Values::Unchecked));
    }
    for constraint in spec.child("topologySpreadConstraints").items() {
        let key = constraint.child("topologyKey");
        let old = nodes::deprecated_label(key.str());
        warnings.extend(old.map(|why| at(&key.path, format_args!("{} is {why}", key.str()))));
        if !constraint.has("labelSelector") {
            warnings.push(at(&constraint.path.child("labelSelector"), NO_SELECTOR));
        }
    }
    warnings
}

fn old_annotations(pod: &At<'_>) -> Vec<String> {
    let annotations = pod.child("metadata").child("annotations");
    let deprecated = [
        (
            "scheduler.alpha.kubernetes.io/critical-pod",
            r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
        ),
        (
            "security.alpha.kubernetes.io/sysctls",
            r#"non-functional in v1.11+; use the "sysctls" field instead"#,
        ),
        (
            "security.alpha.kubernetes.io/unsafe-sysctls",
            r#"non-functional in v1.11+; use the "sysctls" field instead"#,
        ),
    ];
    let used = deprecated.into_iter().filter(|(key, _)| annotations.has(key));
    used.map(|(key, why)| at(&annotations.path.key(key), why)).collect()
}

fn plugins(volume: &At<'_>) -> Vec<String> {
    let sources = volume.value.as_object().into_iter().flatten();
    let mut warnings: Vec<String> = sources.filter_map(|(name, _)| storage::plugin(volume, name)).collect();
    let claim = volume.child("ephemeral").child("volumeClaimTemplate").child("spec");
    warnings.extend(storage::claim_spec(&claim));
    warnings
}

/// Items of a list whose field `key` another item had before.
fn duplicates(items: &At<'_>, key: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut warnings = Vec::new();
    for item in items.items() {
        let value = item.text(key);
        if !seen.insert(value) {
            warnings.push(at(&item.path.child(key), format_args!("duplicate {key} {value:?}")));
        }
    }
    warnings
}

fn container(pod: &At<'_>, container: &At<'_>) -> Vec<String> {
    let annotations = pod.child("metadata").child("annotations");
    let mut warnings = Vec::new();
    let seccomp = format!("{SECCOMP_CONTAINER}{}", container.text("name"));
    if !container.child("securityContext").has("seccompProfile") && annotations.has(&seccomp) {
        warnings.push(at(&annotations.path.key(&seccomp), SECCOMP_GONE));
    }
    // Pods of their own are told earlier: the annotation has become a field by now.
    let in_template = !pod.path.as_str().is_empty();
    if in_template {
        warnings.extend(app_armor(pod, container));
    }
    let resources = container.child("resources");
    for resource in ["memory", "ephemeral-storage"] {
        let kinds = ["limits", "requests"].iter();
        warnings.extend(kinds.filter_map(|kind| fraction(&resources.child(kind), resource)));
    }
    warnings.extend(hidden_variables(&container.child("env")));
    warnings
}

/// A warning if a container's AppArmor profile is only in an annotation, and is not the pod's anyway.
fn app_armor(pod: &At<'_>, container: &At<'_>) -> Option<String> {
    let key = format!("{APP_ARMOR}{}", container.text("name"));
    let annotations = pod.child("metadata").child("annotations");
    let meant = annotations.value.get(&key)?.as_str()?;
    let of_pod = pod.child("spec").child("securityContext").child("appArmorProfile");
    let of_container = container.child("securityContext").child("appArmorProfile");
    let said_by_pod = of_pod.is_set() && same(of_pod.value, &app_armor_profile(meant));
    (!of_container.is_set() && !said_by_pod).then(|| at(&annotations.path.key(&key), APP_ARMOR_GONE))
}

fn app_armor_profile(annotation: &str) -> Value {
    match annotation {
        "unconfined" => json!({"type": "Unconfined"}),
        "runtime/default" => json!({"type": "RuntimeDefault"}),
        _ => match annotation.strip_prefix("localhost/") {
            Some(name) if !name.is_empty() => json!({"type": "Localhost", "localhostProfile": name}),
            _ => Value::Null,
        },
    }
}

/// Variables that replace one of the same name without making use of it.
fn hidden_variables(env: &At<'_>) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut warnings = Vec::new();
    for variable in env.items() {
        let name = variable.text("name");
        if seen.insert(name) {
            continue;
        }
        let (value, reference) = (variable.text("value"), format!("$({name})"));
        let extends = value.contains(&reference) && value != reference && !variable.has("valueFrom");
        if !extends {
            warnings.push(at(
                &variable.path,
                format_args!("hides previous definition of {name:?}, which may be dropped when using apply"),
            ));
        }
    }
    warnings
}

fn all_ports<'a>(spec: &At<'a>) -> impl Iterator<Item = At<'a>> + use<'a> {
    containers(spec).flat_map(|container| container.child("ports").items())
}

fn ports(spec: &At<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut known: HashMap<(i64, &str), Alike<'_>> = HashMap::new();
    for port in all_ports(spec) {
        let number = |port: &At<'_>, name: &str| port.int(name).unwrap_or_default();
        let (ip, host_port) = (port.text("hostIP"), number(&port, "hostPort"));
        if !ip.is_empty() && host_port == 0 {
            let shown = format!(
                "{{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{ip}}}",
                port.text("name"),
                number(&port, "containerPort"),
                port.text("protocol"),
            );
            warnings.push(at(&port.path, format_args!("hostIP set without hostPort: {shown}")));
        }
        let alike = known.entry((number(&port, "containerPort"), port.text("protocol"))).or_default();
        let room = MOST_PORT_WARNINGS.saturating_sub(warnings.len());
        for other in alike.clashing(ip, host_port).into_iter().take(room) {
            let (other_ip, other_host_port) = (other.text("hostIP"), number(other, "hostPort"));
            let how = if ip == other_ip && host_port == other_host_port {
                "duplicate"
            } else if host_port == 0 || other_host_port == 0 {
                "overlapping"
            } else {
                "dangerously ambiguous"
            };
            warnings.push(at(&port.path, format_args!("{how} port definition with {}", other.path)));
        }
        if warnings.len() >= MOST_PORT_WARNINGS {
            break;
        }
        alike.add(port, ip, host_port);
    }
    warnings
}

/// More than the headers of an answer can tell.
const MOST_PORT_WARNINGS: usize = 1000;

/// Ports of one number and protocol, by what they take on the host: each port is held only against those that it
/// clashes with.
#[derive(Default)]
struct Alike<'a> {
    ports: Vec<At<'a>>,
    by_address: HashMap<(&'a str, i64), Vec<usize>>,
    /// By host port, and whether an address is named.
    by_host_port: HashMap<(i64, bool), Vec<usize>>,
}

impl<'a> Alike<'a> {
    fn clashing(&self, ip: &'a str, host_port: i64) -> Vec<&At<'a>> {
        if host_port == 0 {
            return self.ports.iter().collect();
        }
        let mut places: Vec<usize> = [(0, true), (0, false), (host_port, ip.is_empty())]
            .iter()
            .filter_map(|key| self.by_host_port.get(key))
            .chain(self.by_address.get(&(ip, host_port)))
            .flatten()
            .copied()
            .collect();
        places.sort_unstable();
        places.into_iter().map(|place| &self.ports[place]).collect()
    }

    fn add(&mut self, port: At<'a>, ip: &'a str, host_port: i64) {
        let place = self.ports.len();
        self.by_address.entry((ip, host_port)).or_default().push(place);
        self.by_host_port.entry((host_port, !ip.is_empty())).or_default().push(place);
        self.ports.push(port);
    }
}

fn port_names(spec: &At<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut known: HashMap<&str, Path> = HashMap::new();
    for port in all_ports(spec).filter(|port| !port.text("name").is_empty()) {
        let name = port.text("name");
        match known.get(name) {
            Some(first) => warnings.push(at(
                &port.path,
                format_args!(
                    "duplicate port name {name:?} with {first}, services and probes that select ports by name will use {first}"
                ),
            )),
            None => {
                known.insert(name, port.path.clone());
            }
        }
    }
    warnings
}

fn affinity(affinity: &At<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut look = |term: &At<'_>| {
        if !term.has("labelSelector") {
            warnings.push(at(&term.path.child("labelSelector"), NO_SELECTOR));
        }
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let terms = affinity.child(kind);
        terms.child(REQUIRED).items().for_each(|term| look(&term));
        terms.child(PREFERRED).items().for_each(|term| look(&term.child("podAffinityTerm")));
    }
    warnings
}
