//! On which nodes the pods of a DaemonSet belong, and what they carry to get there.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, PodTemplateSpec,
    Toleration,
};
use kube::ResourceExt as _;

use crate::replicasets::claim::controller_reference;
use crate::replicasets::pod_of;
use crate::scheduler::{tolerates, wants_node};

/// The label by which pods of one template are told from those of another.
pub(super) const HASH: &str = "controller-revision-hash";
/// The same in API versions long gone, which is still written where it was asked for.
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION: &str = "deprecated.daemonset.template.generation";
const NODE_NAME: &str = "metadata.name";

/// Whether a set's pod belongs on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// One has to be there.
    Runs,
    /// One that is there stays.
    Stays,
    No,
}

pub(super) fn fit(set: &DaemonSet, node: &Node) -> Fit {
    let empty = PodSpec::default();
    let template = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).unwrap_or(&empty);
    let named = template.node_name.as_deref().filter(|name| !name.is_empty());
    if named.is_some_and(|name| Some(name) != node.metadata.name.as_deref()) || !wants_node(template, node) {
        return Fit::No;
    }
    let mut tolerations = template.tolerations.clone().unwrap_or_default();
    add_tolerations(&mut tolerations, template.host_network == Some(true));
    let untolerated = |effects: &[&str]| {
        let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        taints.any(|taint| effects.contains(&taint.effect.as_str()) && !tolerates(&tolerations, taint))
    };
    if !untolerated(&["NoExecute", "NoSchedule"]) {
        Fit::Runs
    } else if !untolerated(&["NoExecute"]) {
        Fit::Stays
    } else {
        Fit::No
    }
}

/// The pod of a set for one node: the scheduler brings it there, whatever is wrong with the node.
pub(super) fn new_pod(set: &DaemonSet, node: &str, hash: &str) -> Pod {
    let mut template: PodTemplateSpec =
        set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    if let Some(generation) = generation(set) {
        labels.insert(GENERATION_LABEL.into(), generation.to_string());
    }
    if !hash.is_empty() {
        labels.insert(HASH.into(), hash.into());
    }
    let spec = template.spec.get_or_insert_default();
    let on_host = spec.host_network == Some(true);
    add_tolerations(spec.tolerations.get_or_insert_default(), on_host);
    aim(spec.affinity.get_or_insert_default(), node);
    pod_of(template, &set.metadata, controller_reference(set))
}

/// Whether a pod is of the template that the set has now.
pub(super) fn is_updated(set: &DaemonSet, pod: &Pod, hash: &str) -> bool {
    let has = |label: &str, value: &str| pod.labels().get(label).is_some_and(|has| has == value);
    (!hash.is_empty() && has(HASH, hash))
        || generation(set).is_some_and(|generation| has(GENERATION_LABEL, &generation.to_string()))
}

fn generation(set: &DaemonSet) -> Option<i64> {
    set.annotations().get(GENERATION)?.parse().ok()
}

/// The node that a pod is on, or is meant for.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(name) = spec.node_name.as_deref().filter(|name| !name.is_empty()) {
        return Some(name);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let mut fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let field = fields.find(|field| field.key == NODE_NAME && field.operator == "In")?;
    match field.values.as_deref()? {
        [name] => Some(name),
        _ => None,
    }
}

/// Has the scheduler bring a pod to one node. Whether it may go there by its own affinity was looked at before.
fn aim(affinity: &mut Affinity, node: &str) {
    let field = NodeSelectorRequirement {
        key: NODE_NAME.into(),
        operator: "In".into(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![field]), match_expressions: None };
    let required = NodeSelector { node_selector_terms: vec![term] };
    affinity.node_affinity.get_or_insert_default().required_during_scheduling_ignored_during_execution =
        Some(required);
}

/// A daemon stays where a node is in trouble, and comes to one that others may not come to.
fn add_tolerations(tolerations: &mut Vec<Toleration>, on_host: bool) {
    let always = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    let network = on_host.then_some(("network-unavailable", "NoSchedule"));
    for (key, effect) in always.into_iter().chain(network) {
        let toleration = Toleration {
            key: Some(format!("node.kubernetes.io/{key}")),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Toleration::default()
        };
        let same = |one: &Toleration| {
            (&one.key, &one.effect, &one.operator, one.value.as_deref().unwrap_or_default())
                == (&toleration.key, &toleration.effect, &toleration.operator, "")
        };
        match tolerations.iter_mut().find(|one| same(one)) {
            // What was written for a while holds for good.
            Some(there) => *there = toleration,
            None => tolerations.push(toleration),
        }
    }
}
