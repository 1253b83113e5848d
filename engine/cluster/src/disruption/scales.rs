//! How many pods the controllers of pods want.

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v1::Scale as ScaleObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use koinon_control::Key;
use koinon_control::call::{Error, within_deadline};
use koinon_control::discovery::{Catalog, Served};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;

use super::plan::{Scale, controller};
use crate::shared::Shared;

/// Finds scales: of kinds that are watched from what is known of them, of others by asking.
pub(super) struct Scales {
    shared: Shared,
    catalog: Mutex<Arc<Catalog>>,
}

impl Scales {
    pub(super) fn new(shared: Shared) -> Scales {
        Scales { shared, catalog: Mutex::default() }
    }

    /// The scale behind a controller, or why it can have none; nothing if there is no such controller.
    pub(super) async fn find(
        &self,
        owner: &OwnerReference,
        namespace: &str,
    ) -> Result<Option<Result<Scale, String>>, Error> {
        if owner.kind == "ReplicaSet" && group(owner) == "apps" {
            return Ok(self.of_replica_set(owner, namespace).map(Ok));
        }
        if let Some(scale) = self.of_watched(owner, namespace) {
            return Ok(Some(Ok(scale)));
        }
        let Some(resource) = self.resource(owner).await? else {
            let (kind, version) = (&owner.kind, &owner.api_version);
            return Ok(Some(Err(format!("no matches for kind {kind:?} in version {version:?}"))));
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.shared.client.clone(), namespace, &resource.resource);
        let answer = within_deadline(api.get_subresource("scale", &owner.name)).await;
        let scale: ScaleObject = match answer.map(|scale| scale.try_parse()) {
            Ok(Ok(scale)) => scale,
            Ok(Err(_)) => return Ok(None),
            Err(error) if error.code() == Some(404) => return Ok(None),
            Err(error) => return Err(error),
        };
        let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
        let same = scale.metadata.uid.as_ref() == Some(&owner.uid);
        Ok(same.then(|| Ok(Scale { uid: owner.uid.clone(), replicas })))
    }

    /// A ReplicaSet of a Deployment wants what the Deployment wants, whichever of its sets the pods are in.
    fn of_replica_set(&self, owner: &OwnerReference, namespace: &str) -> Option<Scale> {
        let set = self.shared.replica_sets.get(&Key::new(namespace, &*owner.name))?;
        if set.metadata.uid.as_ref() != Some(&owner.uid) {
            return None;
        }
        let Some(above) = controller(set.owner_references()).filter(|above| above.kind == "Deployment")
        else {
            let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            return Some(Scale { uid: owner.uid.clone(), replicas });
        };
        let deployment = self.shared.deployments.get(&Key::new(namespace, &*above.name))?;
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let same = deployment.metadata.uid.as_ref() == Some(&above.uid);
        same.then(|| Scale { uid: above.uid.clone(), replicas })
    }

    /// What a StatefulSet or a ReplicationController wants, if it is watched already; else it is asked for.
    fn of_watched(&self, owner: &OwnerReference, namespace: &str) -> Option<Scale> {
        let key = Key::new(namespace, &*owner.name);
        let (uid, replicas) = match (group(owner), owner.kind.as_str()) {
            ("apps", "StatefulSet") => {
                let set = self.shared.stateful_sets.get(&key)?;
                (set.metadata.uid.clone(), set.spec.as_ref().and_then(|spec| spec.replicas))
            }
            ("", "ReplicationController") => {
                let one = self.shared.replication_controllers.get(&key)?;
                (one.metadata.uid.clone(), one.spec.as_ref().and_then(|spec| spec.replicas))
            }
            _ => return None,
        };
        (uid.as_ref() == Some(&owner.uid))
            .then(|| Scale { uid: owner.uid.clone(), replicas: replicas.unwrap_or(1) })
    }

    /// Where a kind is served; the server is asked again only about kinds that are not known yet.
    async fn resource(&self, owner: &OwnerReference) -> Result<Option<Arc<Served>>, Error> {
        let find = |catalog: &Catalog| catalog.find(&owner.api_version, &owner.kind).cloned();
        if let Some(known) = find(&self.catalog.lock()) {
            return Ok(Some(known));
        }
        let catalog = Arc::new(Catalog::discover(&self.shared.client).await?);
        *self.catalog.lock() = catalog.clone();
        Ok(find(&catalog))
    }
}

fn group(owner: &OwnerReference) -> &str {
    owner.api_version.split_once('/').map_or("", |(group, _)| group)
}
