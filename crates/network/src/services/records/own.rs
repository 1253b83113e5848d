//! EndpointSlices that we generated: enough to tell whether they are as they should be.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::names::network::{
    IMPORT_SLICES_MANAGER, SLICES_MANAGER, SOURCE_CLUSTER, SOURCE_SERVICE, VM_SLICES_MANAGER,
};
use koinon_fleet::{ClusterId, Record};
use kube::ResourceExt as _;

use super::slice::{SERVICE_NAME, endpoints, family, ports};
use crate::services::model::Slice;
use crate::services::render::SLICE_MANAGED_BY;

/// What an EndpointSlice was generated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// A federated Service.
    Federation,
    /// A Service of virtual machines.
    Machines,
    /// An import of the Multi-Cluster Services API.
    Imports,
}

impl Manager {
    /// As Kubernetes' own label says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Manager::Federation => SLICES_MANAGER,
            Manager::Machines => VM_SLICES_MANAGER,
            Manager::Imports => IMPORT_SLICES_MANAGER,
        }
    }
}

/// A generated EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnSlice {
    pub manager: Manager,
    /// The Service it belongs to.
    pub service: String,
    pub uid: String,
    pub version: String,
    /// The cluster it came from; none where that cannot be read.
    pub cluster: Option<ClusterId>,
    /// Tells one content from another.
    pub digest: u64,
    pub has_ready: bool,
    pub endpoints: u32,
}

impl Record for OwnSlice {
    type Object = EndpointSlice;

    fn fold(slice: &EndpointSlice) -> Option<OwnSlice> {
        let service = slice.labels().get(SERVICE_NAME)?.clone();
        let managed_by = slice.labels().get(SLICE_MANAGED_BY)?;
        let managers = [Manager::Federation, Manager::Machines, Manager::Imports];
        let manager = managers.into_iter().find(|manager| manager.as_str() == managed_by)?;
        let cluster = slice.annotations().get(SOURCE_CLUSTER).and_then(|id| ClusterId::new(id).ok());
        let owner = slice.owner_references().iter().find(|owner| owner.kind == "Service");
        let owner = owner.map(|owner| owner.uid.as_str()).unwrap_or_default();
        let content = family(&slice.address_type).zip(cluster.clone()).map(|(family, cluster)| Slice {
            name: slice.name_any(),
            cluster,
            service: slice.annotations().get(SOURCE_SERVICE).cloned().unwrap_or_default(),
            family,
            ports: ports(slice),
            endpoints: endpoints(family, slice, &mut Vec::new()),
        });
        Some(OwnSlice {
            manager,
            uid: slice.uid().unwrap_or_default(),
            version: slice.resource_version().unwrap_or_default(),
            has_ready: content.iter().flat_map(|one| &one.endpoints).any(|one| one.conditions.is_ready()),
            endpoints: content.iter().map(|one| one.endpoints.len() as u32).sum(),
            digest: content.map_or(0, |content| digest(&service, owner, &content)),
            service,
            cluster,
        })
    }
}

/// Tells one content of a slice from another.
pub(crate) fn digest(service: &str, owner: &str, slice: &Slice) -> u64 {
    let mut hasher = DefaultHasher::new();
    (service, owner, slice).hash(&mut hasher);
    hasher.finish()
}
