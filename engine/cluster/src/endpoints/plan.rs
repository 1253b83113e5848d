//! Which slices a Service should have, and the least that has to be written to get there.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt as _;

use super::endpoint::{self, Family, Identity, PortMap};
use super::hints::Preference;
use super::pack::{self, Group};

pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const CONTROLLER: &str = "endpointslice-controller.k8s.io";
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";
pub(super) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Everything that the slices of one Service follow from.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) service: Arc<Service>,
    /// The pods that the Service selects.
    pub(super) pods: Vec<Arc<Pod>>,
    /// The zones of those nodes of the pods that exist.
    pub(super) zones: BTreeMap<String, Option<String>>,
    /// Our slices of this Service, by name; none that is going already.
    pub(super) slices: Vec<Arc<EndpointSlice>>,
    /// When the change happened that the slices follow now.
    pub(super) trigger: Option<Timestamp>,
}

/// What to write. Empty when all is as it should be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) create: Vec<EndpointSlice>,
    /// With the version that they replace.
    pub(super) update: Vec<EndpointSlice>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
    /// Pods that are left out until their node is known.
    pub(super) waiting: Vec<Waiting>,
}

/// A pod whose node does not exist, or not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) pod: String,
    pub(super) node: String,
}

pub(super) fn plan(look: &Look) -> Plan {
    let mut plan = Plan::default();
    let families = endpoint::families(&look.service);
    for family in &families {
        let existing: Vec<&Arc<EndpointSlice>> =
            look.slices.iter().filter(|slice| slice.address_type == family.as_str()).collect();
        plan_family(look, *family, &existing, &mut plan);
    }
    let wanted = |slice: &&Arc<EndpointSlice>| families.iter().any(|one| one.as_str() == slice.address_type);
    plan.delete.extend(look.slices.iter().filter(|slice| !wanted(slice)).cloned());
    plan
}

fn plan_family(look: &Look, family: Family, existing: &[&Arc<EndpointSlice>], plan: &mut Plan) {
    let service = &*look.service;
    let (own, strange): (Vec<_>, Vec<_>) = existing.iter().copied().partition(|slice| owns(service, slice));
    let mut draft = Draft { delete: strange.into_iter().cloned().collect(), ..Draft::default() };
    let mut groups = groups(look, family, &mut plan.waiting);
    let mut unused = Vec::new();
    for slice in own {
        match groups.get_mut(&PortMap::of(slice.ports.as_deref().unwrap_or_default())) {
            Some(group) => group.existing.push(slice.clone()),
            None => unused.push(slice.clone()),
        }
    }
    for group in groups.into_values() {
        pack::pack(service, family, group, &mut draft);
    }
    draft.delete.extend(unused);
    keep_one(service, family, existing.len(), &mut draft);

    let preference = Preference::of(service);
    for slice in draft.create.iter_mut().chain(draft.update.values_mut()) {
        preference.apply(slice);
    }
    for slice in existing {
        if draft.leaves(slice) && preference.is_missed_by(slice) {
            let mut slice = (***slice).clone();
            preference.apply(&mut slice);
            draft.update.insert(slice.name_any(), slice);
        }
    }
    draft.reuse(service);
    // The garbage collector may be removing the slices of a Service that goes: none is added to them.
    if service.metadata.deletion_timestamp.is_some() {
        draft.create.clear();
    }
    let stamped = |mut slice: EndpointSlice| {
        stamp(&mut slice.metadata, look.trigger);
        slice
    };
    plan.create.extend(draft.create.into_iter().map(stamped));
    plan.update.extend(draft.update.into_values().map(stamped));
    plan.delete.extend(draft.delete);
}

/// The endpoints that there should be, together with those that have the same ports.
fn groups(look: &Look, family: Family, waiting: &mut Vec<Waiting>) -> BTreeMap<PortMap, Group> {
    let service = &*look.service;
    let mut groups: BTreeMap<PortMap, Group> = BTreeMap::new();
    for pod in look.pods.iter().filter(|pod| endpoint::is_reachable(pod)) {
        let ports = endpoint::ports(service, pod);
        let group = groups.entry(PortMap::of(&ports)).or_insert_with(|| Group {
            ports,
            desired: BTreeMap::new(),
            existing: Vec::new(),
        });
        let node = endpoint::node_name(pod).unwrap_or_default();
        let zone = match look.zones.get(node) {
            Some(zone) => zone.as_deref(),
            None if endpoint::publishes_all(service) => None,
            None => {
                let missing = Waiting { pod: pod.name_any(), node: node.to_owned() };
                if !waiting.contains(&missing) {
                    waiting.push(missing);
                }
                continue;
            }
        };
        if let Some(endpoint) = endpoint::endpoint(service, pod, zone, family) {
            group.desired.insert(Identity::of(&endpoint), endpoint);
        }
    }
    groups
}

/// A Service always has a slice, so that there is something to see and to watch: without endpoints an empty
/// one without ports.
fn keep_one(service: &Service, family: Family, existing: usize, draft: &mut Draft) {
    if existing != draft.delete.len() || !draft.create.is_empty() {
        return;
    }
    let empty = new_slice(service, family, &[], Vec::new());
    if let [only] = draft.delete.as_slice()
        && owns(service, only)
        && only.endpoints.as_ref().is_none_or(Vec::is_empty)
        && only.ports.as_ref().is_none_or(Vec::is_empty)
        && only.metadata.labels == empty.metadata.labels
    {
        draft.delete.clear();
        return;
    }
    draft.create.push(empty);
}

/// The changes to the slices of one family.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: BTreeMap<String, EndpointSlice>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
}

impl Draft {
    fn leaves(&self, slice: &EndpointSlice) -> bool {
        let same = |other: &Arc<EndpointSlice>| other.metadata.name == slice.metadata.name;
        !self.update.contains_key(&slice.name_any()) && !self.delete.iter().any(same)
    }

    /// A slice that would go takes the place of one that would come: one write instead of two.
    fn reuse(&mut self, service: &Service) {
        let (mut own, strange): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.delete).into_iter().partition(|slice| owns(service, slice));
        self.delete = strange;
        own.reverse();
        while let (Some(old), false) = (own.last(), self.create.is_empty()) {
            let mut metadata = old.metadata.clone();
            own.pop();
            let Some(new) = self.create.pop() else { break };
            metadata.labels = new.metadata.labels;
            let name = metadata.name.clone().unwrap_or_default();
            self.update.insert(name, EndpointSlice { metadata, ..new });
        }
        own.reverse();
        self.delete.extend(own);
    }
}

pub(super) fn new_slice(
    service: &Service,
    family: Family,
    ports: &[EndpointPort],
    endpoints: Vec<Endpoint>,
) -> EndpointSlice {
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "Service".into(),
        name: service.name_any(),
        uid: service.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", service.name_any())),
        namespace: service.namespace(),
        labels: Some(labels(service)),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    EndpointSlice {
        address_type: family.as_str().into(),
        endpoints: Some(endpoints),
        ports: Some(ports.to_vec()),
        metadata,
    }
}

/// The labels of a Service, and those that say what the slice is.
pub(super) fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = plain(service.metadata.labels.as_ref());
    labels.insert(SERVICE_NAME.into(), service.name_any());
    labels.insert(MANAGED_BY.into(), CONTROLLER.into());
    if endpoint::is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels
}

/// Labels without those that say what a slice is.
pub(super) fn plain(labels: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let reserved = |key: &str| [SERVICE_NAME, MANAGED_BY, HEADLESS].contains(&key);
    let kept = labels.into_iter().flatten().filter(|(key, _)| !reserved(key));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A slice of a former Service of the same name is not ours to fill.
fn owns(service: &Service, slice: &EndpointSlice) -> bool {
    slice.owner_references().iter().any(|owner| {
        Some(&owner.uid) == service.metadata.uid.as_ref()
            && owner.kind == "Service"
            && owner.api_version == "v1"
    })
}

pub(super) fn stamp(metadata: &mut ObjectMeta, trigger: Option<Timestamp>) {
    match trigger {
        Some(at) => {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(TRIGGER_TIME.into(), at.to_string());
        }
        None => {
            if let Some(annotations) = &mut metadata.annotations {
                annotations.remove(TRIGGER_TIME);
            }
        }
    }
}
