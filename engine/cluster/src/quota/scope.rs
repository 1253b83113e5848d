//! Which objects a quota counts: those for which all of its scopes hold.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, PodAffinityTerm, PodSpec, ResourceQuota};

use super::usage::amounts;

/// One condition of a quota.
struct Scope<'a> {
    name: &'a str,
    operator: &'a str,
    values: &'a [String],
}

fn scopes(quota: &ResourceQuota) -> Vec<Scope<'_>> {
    let Some(spec) = &quota.spec else { return Vec::new() };
    let plain = spec.scopes.iter().flatten().map(|name| Scope { name, operator: "Exists", values: &[] });
    let selector = spec.scope_selector.as_ref().and_then(|selector| selector.match_expressions.as_ref());
    let selected = selector.into_iter().flatten().map(|term| Scope {
        name: &term.scope_name,
        operator: &term.operator,
        values: term.values.as_deref().unwrap_or_default(),
    });
    plain.chain(selected).collect()
}

/// Whether a quota counts everything of what it limits.
pub(super) fn is_unlimited(quota: &ResourceQuota) -> bool {
    scopes(quota).is_empty()
}

pub(super) fn counts_pod(quota: &ResourceQuota, pod: &Pod) -> bool {
    let none = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&none);
    scopes(quota).iter().all(|scope| match scope.name {
        "Terminating" => has_deadline(spec),
        "NotTerminating" => !has_deadline(spec),
        "BestEffort" => asks_for_nothing(spec),
        "NotBestEffort" => !asks_for_nothing(spec),
        "PriorityClass" => scope.holds(spec.priority_class_name.as_deref()),
        "CrossNamespacePodAffinity" => reaches_out(spec),
        _ => false,
    })
}

pub(super) fn counts_claim(quota: &ResourceQuota, claim: &PersistentVolumeClaim) -> bool {
    let wished = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref());
    scopes(quota).iter().all(|scope| scope.name == "VolumeAttributesClass" && scope.holds(wished))
}

impl Scope<'_> {
    fn holds(&self, name: Option<&str>) -> bool {
        let name = name.filter(|name| !name.is_empty());
        let listed = name.is_some_and(|name| self.values.iter().any(|value| value == name));
        match self.operator {
            "In" => listed,
            "NotIn" => !listed,
            "DoesNotExist" => name.is_none(),
            _ => name.is_some(),
        }
    }
}

fn has_deadline(spec: &PodSpec) -> bool {
    spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0)
}

fn asks_for_nothing(spec: &PodSpec) -> bool {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let all = containers.filter_map(|container| container.resources.as_ref()).chain(spec.resources.as_ref());
    !all.flat_map(|resources| [&resources.requests, &resources.limits]).any(|map| {
        let amounts = amounts(map.as_ref());
        ["cpu", "memory"].iter().any(|name| amounts.get(*name).is_some_and(|amount| !amount.is_zero()))
    })
}

fn reaches_out(spec: &PodSpec) -> bool {
    let crosses = |term: &PodAffinityTerm| {
        term.namespaces.as_ref().is_some_and(|names| !names.is_empty()) || term.namespace_selector.is_some()
    };
    let Some(affinity) = &spec.affinity else { return false };
    let near = affinity.pod_affinity.iter().flat_map(|one| {
        let preferred = one.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        let required = one.required_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|term| &term.pod_affinity_term))
    });
    let far = affinity.pod_anti_affinity.iter().flat_map(|one| {
        let preferred = one.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        let required = one.required_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|term| &term.pod_affinity_term))
    });
    near.chain(far).any(crosses)
}
