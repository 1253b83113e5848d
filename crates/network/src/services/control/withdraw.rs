//! Removes everything that was generated in a cluster that takes part no more.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::mcs::ServiceImport;
use koinon_api::names::network::{
    FEDERATED_SERVICE, IMPORT_SLICES_MANAGER, SERVICE_IMPORT, SLICES_MANAGER, VM_SERVICE, VM_SLICES_MANAGER,
};
use koinon_api::names::{MANAGED_BY, MANAGER};
use koinon_control::Key;
use koinon_control::call::{Error, within_deadline};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::member_conditions::{STATUS_MANAGER, status};
use crate::services::records::said;
use crate::services::render::SLICE_MANAGED_BY;

/// So many objects are asked for at a time.
const PAGE: u32 = 250;

/// Says whether all is gone. Every deletion holds only for the very object that was looked at.
pub(super) async fn withdraw(cluster: Client) -> bool {
    let managed = format!("{MANAGED_BY}={MANAGER}");
    let services = clean::<Service>(&cluster, &managed, |service| {
        let annotations = service.annotations();
        [FEDERATED_SERVICE, VM_SERVICE, SERVICE_IMPORT].iter().any(|marker| annotations.contains_key(*marker))
    });
    let ours =
        format!("{SLICE_MANAGED_BY} in ({SLICES_MANAGER},{VM_SLICES_MANAGER},{IMPORT_SLICES_MANAGER})");
    let slices = clean::<EndpointSlice>(&cluster, &ours, |_| true);
    let imports = clean::<ServiceImport>(&cluster, &managed, |_| true);
    match tokio::try_join!(services, slices, imports, silence(&cluster)) {
        Ok(_) => true,
        Err(error) => {
            tracing::debug!(%error, "not everything that was generated is removed yet");
            false
        }
    }
}

/// Has members say no more how they stand.
async fn silence(cluster: &Client) -> Result<(), Error> {
    let all: Api<Service> = Api::all(cluster.clone());
    let found = listed(&all, ListParams::default()).await?;
    for service in found.iter().filter(|service| said(service).is_some()) {
        let (key, uid) = (Key::of(service), service.uid().unwrap_or_default());
        let api: Api<Service> = Api::namespaced(cluster.clone(), &key.namespace);
        let params = PatchParams::apply(STATUS_MANAGER).force();
        let patch = Patch::Apply(status(&key, &uid, &[]));
        match within_deadline(api.patch_status(&key.name, &params, &patch)).await {
            Err(error) if !error.is_object_absent() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// All objects, page by page: a cluster has more than may come as one answer.
async fn listed<K>(api: &Api<K>, params: ListParams) -> Result<Vec<K>, Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = params.limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = within_deadline(api.list(&params)).await?;
        all.extend(page.items);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(all);
        }
    }
}

async fn clean<K>(cluster: &Client, labels: &str, is_ours: impl Fn(&K) -> bool) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let all: Api<K> = Api::all(cluster.clone());
    let found = match listed(&all, ListParams::default().labels(labels)).await {
        // Who does not know a kind has none of it.
        Err(error) if error.is_path_unknown() => return Ok(()),
        found => found?,
    };
    for object in found.iter().filter(|object| is_ours(object)) {
        let api: Api<K> = Api::namespaced(cluster.clone(), &object.namespace().unwrap_or_default());
        let preconditions = Preconditions { uid: object.uid(), resource_version: object.resource_version() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match within_deadline(api.delete(&object.name_any(), &params)).await {
            Err(error) if !error.is_object_absent() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
