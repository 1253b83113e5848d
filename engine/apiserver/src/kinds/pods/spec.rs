//! The spec of a pod as a whole, and what pods and templates for pods ask beyond it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::containers::{self, Pod};
use super::volumes::{self, Owner};
use super::{env, resources, scheduling, security};
use crate::field::{Error, Path};
use crate::kinds::internal;
use crate::kinds::selectors::{self, validate_labels};
use crate::kinds::walk::{At, Faults, is_empty, list, text};
use crate::names;

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// What is wrong with a `PodTemplateSpec`: `{metadata, spec}`.
pub(crate) fn validate_pod_template(template: &Value, path: &Path) -> Faults {
    let template = At::new(template, path.clone());
    // Messages leave `metadata` out of the path.
    let meta = At::new(template.child("metadata").value, path.clone());
    let (annotations, spec) = (meta.child("annotations"), template.child("spec"));
    let mut faults = validate_labels(&meta.child("labels"));
    faults.extend(selectors::validate_annotations(&annotations));
    faults.extend(validate_pod_annotations(&annotations, &spec));
    faults.extend(validate_pod_spec(&spec, Owner { pod: None }));
    faults.extend(security::validate_annotations_match(&annotations, &spec));
    let ephemeral = spec.child("ephemeralContainers");
    if !is_empty(ephemeral.value) {
        faults.push(ephemeral.forbidden("ephemeral containers not allowed in pod template"));
    }
    faults
}

/// What is wrong with a pod, be it new or not; metadata aside.
pub(super) fn validate_pod(pod: &Value) -> Faults {
    let spec = At::top(pod, "spec");
    let annotations = At::top(pod, "metadata").child("annotations");
    let mut faults = validate_pod_annotations(&annotations, &spec);
    faults.extend(validate_pod_spec(&spec, Owner { pod: Some(&pod["metadata"]) }));
    faults.extend(volumes::validate_tokens_have_account(&spec));
    for kind in ["containers", "initContainers"] {
        let all = spec.child(kind);
        faults.extend(all.items().filter_map(|one| containers::validate_image_is_trimmed(&one)));
    }
    faults
}

/// What is wrong with a pod that is to be created; metadata aside.
pub(super) fn validate_new_pod(pod: &Value) -> Faults {
    let mut faults = validate_pod(pod);
    let spec = At::top(pod, "spec");
    let ephemeral = spec.child("ephemeralContainers");
    if !is_empty(ephemeral.value) {
        faults.push(ephemeral.forbidden("cannot be set on create"));
    }
    if !spec.text("nodeName").is_empty() && !is_empty(&spec.value["schedulingGates"]) {
        let why = "cannot be set until all schedulingGates have been cleared";
        faults.push(spec.child("nodeName").forbidden(why));
    }
    let annotations = At::top(pod, "metadata").child("annotations");
    faults.extend(security::validate_annotations_match(&annotations, &spec));
    faults
}

pub(super) fn validate_pod_annotations(annotations: &At<'_>, spec: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let keyed = |key: &str| annotations.entries().find(|(name, _)| *name == key).map(|(_, at)| at);
    if let Some(mirror) = keyed(MIRROR).filter(|_| spec.text("nodeName").is_empty()) {
        faults.push(mirror.invalid("must set spec.nodeName if mirror pod annotation is set"));
    }
    if let Some(cost) = keyed(DELETION_COST).filter(|cost| !is_deletion_cost(cost.str())) {
        faults.push(cost.invalid("must be a 32bit integer"));
    }
    faults.extend(security::validate_annotations(annotations, spec));
    faults
}

fn is_deletion_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits == "0" || !digits.starts_with('0');
    plain && !text.starts_with('+') && text.parse::<i32>().is_ok()
}

fn validate_pod_spec(spec: &At<'_>, owner: Owner<'_>) -> Faults {
    let mut faults = Faults::new();
    let grace = spec.child("terminationGracePeriodSeconds");
    if !grace.is_set() {
        faults.push(grace.required(""));
    }
    let (volumes, wrong) = volumes::validate_volumes(&spec.child("volumes"), owner);
    faults.extend(wrong);
    let claims = spec.child("resourceClaims");
    let pod = Pod {
        volumes,
        claims: list(claims.value)
            .iter()
            .map(|claim| text(claim, "name"))
            .filter(|name| !name.is_empty())
            .collect(),
        grace: grace.value.as_i64(),
        restart_policy: spec.text("restartPolicy"),
        host_users: spec.child("hostUsers").value != &Value::Bool(false),
    };
    faults.extend(validate_claims(&claims, owner));
    let regular = spec.child("containers");
    faults.extend(containers::validate_containers(&regular, &pod));
    faults.extend(containers::validate_init_containers(&spec.child("initContainers"), &regular, &pod));
    faults.extend(containers::validate_ephemeral_containers(&spec.child("ephemeralContainers"), spec, &pod));
    faults.extend(resources::validate_pod_level(spec, &pod.claims));
    faults.extend(validate_host_ports(spec, owner));
    faults.extend(enumerated(&spec.child("restartPolicy"), &["Always", "OnFailure", "Never"]));
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    faults.extend(enumerated(&spec.child("dnsPolicy"), &policies));
    faults.extend(validate_labels(&spec.child("nodeSelector")));
    faults.extend(security::validate_pod(spec));
    faults.extend(scheduling::validate_affinity(&spec.child("affinity")));
    faults.extend(validate_dns(spec));
    for gate in spec.child("readinessGates").items() {
        faults.extend(gate.child("conditionType").obey(names::qualified_name));
    }
    faults.extend(validate_scheduling_gates(&spec.child("schedulingGates")));
    faults.extend(scheduling::validate_spread(&spec.child("topologySpreadConstraints")));
    faults.extend(security::validate_host_process(spec));
    faults.extend(security::validate_host_users(spec));
    faults.extend(validate_hostname_override(spec));
    faults.extend(validate_rest(spec));
    faults.extend(security::validate_os(spec));
    faults.extend(env::validate_file_volumes(spec));
    faults
}

fn validate_rest(spec: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let optional = |name: &str, rule: fn(&str) -> Vec<String>| {
        let field = spec.child(name);
        if field.str().is_empty() { Faults::new() } else { field.obey(rule) }
    };
    faults.extend(optional("serviceAccountName", names::dns1123_subdomain));
    faults.extend(optional("nodeName", names::dns1123_subdomain));
    let deadline = spec.child("activeDeadlineSeconds");
    if let Some(seconds) = deadline.value.as_i64() {
        let wrong = names::in_range(seconds, 1, i64::from(i32::MAX));
        faults.extend(wrong.into_iter().map(|why| deadline.invalid(why)));
    }
    faults.extend(optional("hostname", names::dns1123_label));
    faults.extend(optional("subdomain", names::dns1123_label));
    faults.extend(scheduling::validate_tolerations(&spec.child("tolerations")));
    for alias in spec.child("hostAliases").items() {
        faults.extend(alias.child("ip").obey(names::legacy_ip));
        faults.extend(alias.child("hostnames").items().flat_map(|name| name.obey(names::dns1123_subdomain)));
    }
    faults.extend(optional("priorityClassName", names::dns1123_subdomain));
    let runtime = spec.child("runtimeClassName");
    if runtime.is_set() {
        faults.extend(runtime.obey(names::dns1123_subdomain));
    }
    let preemption = spec.child("preemptionPolicy");
    if preemption.is_set() {
        faults.extend(enumerated(&preemption, &["PreemptLowerPriority", "Never"]));
    }
    if spec.has("overhead") {
        faults.extend(resources::validate_overhead(&spec.child("overhead")));
    }
    faults
}

/// Required, and one of these.
pub(crate) fn enumerated(field: &At<'_>, supported: &[&str]) -> Option<Error> {
    match field.str() {
        "" => Some(field.required("")),
        value => (!supported.contains(&value)).then(|| field.not_supported(supported)),
    }
}

fn validate_claims(claims: &At<'_>, owner: Owner<'_>) -> Faults {
    let mut faults = Faults::new();
    let mut seen = BTreeSet::new();
    let mirror = owner.pod.is_some_and(|meta| meta["annotations"].get(MIRROR).is_some());
    for claim in claims.items() {
        if mirror {
            faults.push(Error::forbidden(&Path::root(), "static pods do not support resource claims"));
            continue;
        }
        let name = claim.child("name");
        if name.str().is_empty() {
            faults.push(name.required(""));
        } else if seen.contains(name.str()) {
            faults.push(name.duplicate());
        } else {
            faults.extend(name.obey(names::dns1123_label));
            seen.insert(name.str());
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"].map(|name| claim.child(name));
        let wrong = match sources.iter().filter(|source| source.is_set()).count() {
            0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => None,
            _ => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
        };
        faults.extend(wrong.map(|why| {
            let shown = format!("{}: {why}", internal::show("PodResourceClaim", claim.value));
            Error { value: None, ..claim.invalid(shown) }
        }));
        for source in sources.iter().filter(|source| source.is_set()) {
            faults.extend(source.obey(names::dns1123_subdomain));
        }
    }
    faults
}

/// On the host's network, a port of a container is a port of the host.
fn validate_host_ports(spec: &At<'_>, owner: Owner<'_>) -> Faults {
    if !spec.is_true("hostNetwork") {
        return Faults::new();
    }
    let ports = spec.child("containers").items().flat_map(|container| container.child("ports").items());
    ports
        .filter_map(|port| {
            let (host, own) = (port.int("hostPort").unwrap_or(0), port.int("containerPort").unwrap_or(0));
            let wrong = host != own && (owner.is_pod() || host != 0);
            let why = "must match `containerPort` when `hostNetwork` is true";
            wrong.then(|| Error::invalid(&port.child("hostPort").path, host, why))
        })
        .collect()
}

fn validate_dns(spec: &At<'_>) -> Faults {
    let config = spec.child("dnsConfig");
    let (servers, searches) = (config.child("nameservers"), config.child("searches"));
    if spec.text("dnsPolicy") == "None" {
        if !config.is_set() {
            return vec![config.required("must provide `dnsConfig` when `dnsPolicy` is None")];
        }
        if is_empty(servers.value) {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return vec![servers.required(why)];
        }
    }
    let mut faults = Faults::new();
    if servers.items().len() > 3 {
        faults.push(servers.invalid("must not have more than 3 nameservers"));
    }
    faults.extend(servers.items().flat_map(|server| server.obey(names::legacy_ip)));
    if searches.items().len() > 32 {
        faults.push(searches.invalid("must not have more than 32 search paths"));
    }
    let length: usize = searches.items().map(|search| search.str().len() + 1).sum();
    if length.saturating_sub(1) > 2048 {
        faults.push(
            searches.invalid("must not have more than 2048 characters (including spaces) in the search list"),
        );
    }
    for search in searches.items().filter(|search| search.str() != ".") {
        let name = search.str().strip_suffix('.').unwrap_or_else(|| search.str());
        let wrong = names::dns1123_subdomain_with_underscore(name);
        faults.extend(wrong.into_iter().map(|why| Error::invalid(&search.path, name, why)));
    }
    let nameless = config.child("options").items().filter(|option| option.text("name").is_empty());
    faults.extend(nameless.map(|option| option.required("must not be empty")));
    faults
}

fn validate_scheduling_gates(gates: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let mut seen = BTreeSet::new();
    for gate in gates.items() {
        let name = At::new(gate.child("name").value, gate.path.clone());
        faults.extend(name.obey(names::qualified_name));
        if !seen.insert(name.str()) {
            faults.push(name.duplicate());
        }
    }
    faults
}

fn validate_hostname_override(spec: &At<'_>) -> Faults {
    let name = spec.child("hostnameOverride");
    if !name.is_set() {
        return Faults::new();
    }
    let mut faults = Faults::new();
    for (field, why) in [
        ("setHostnameAsFQDN", "may not be specified when setHostnameAsFQDN is true"),
        ("hostNetwork", "may not be specified when hostNetwork is true"),
    ] {
        if spec.is_true(field) {
            faults.push(name.forbidden(why));
        }
    }
    if name.str().len() > 64 {
        faults.push(Error::too_long(&name.path, 64));
    }
    faults.extend(name.obey(names::dns1123_subdomain));
    faults
}
