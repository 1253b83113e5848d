//! Where originals are, told by identities that do not lie: the cluster's and the CRD's. What is remembered of them
//! lives on the side of the copies, so that it outlives the syncer and the originals' cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use koinon_control::call::{self, within_deadline};
use koinon_control::writes::{cluster_uid, ensure_namespace, written_by};
use kube::Api;

use crate::access::Access;
use crate::definition;
use crate::gate::hold::Origin;
use crate::names;

/// The identity of a place where originals are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    cluster: String,
    crd: String,
}

impl Identity {
    fn to_text(&self) -> String {
        format!("{}/{}", self.cluster, self.crd)
    }
}

/// What a look at the place found.
pub(crate) enum Found {
    There(Identity),
    Vanished(String),
}

/// The identity of a cluster: the UID of its `kube-system` namespace.
pub(crate) async fn cluster(access: &Access) -> Result<String, call::Error> {
    cluster_uid(&access.client()).await
}

/// Looks at the place where the originals of a CRD are.
pub(crate) async fn look(access: &Access, crd: &str) -> Result<Found, call::Error> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}");
    match access.get::<definition::Wire>(&path).await {
        Ok(found) if found.is_terminating() => {
            Ok(Found::Vanished(format!("{crd} is being deleted where the originals are")))
        }
        Ok(found) => {
            let cluster = cluster(access).await?;
            Ok(Found::There(Identity { cluster, crd: found.metadata.uid }))
        }
        Err(error) if error.is_object_absent() => {
            Ok(Found::Vanished(format!("{crd} is gone where the originals are")))
        }
        Err(error) => Err(error),
    }
}

/// Remembers identities in a ConfigMap.
pub(crate) struct Memory {
    access: Access,
    robot: String,
    name: String,
    /// One change at a time: the ConfigMap is shared by all CRDs.
    changing: tokio::sync::Mutex<()>,
}

impl Memory {
    pub(crate) fn new(access: Access, robot: &str) -> Memory {
        Memory {
            access,
            robot: robot.into(),
            name: object_name(robot),
            changing: tokio::sync::Mutex::new(()),
        }
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.access.client(), names::NAMESPACE)
    }

    async fn read(&self) -> Result<Option<ConfigMap>, call::Error> {
        within_deadline(self.api().get_opt(&self.name)).await
    }

    /// Compares an identity with what is remembered of it.
    pub(crate) async fn compare(&self, crd: &str, now: &Identity) -> Result<Compared, call::Error> {
        let data = self.read().await?.and_then(|map| map.data).unwrap_or_default();
        let Some(before) = data.get(crd) else { return Ok(Compared::New) };
        if *before == now.to_text() {
            return Ok(Compared::Same);
        }
        let (cluster, _) = before.split_once('/').unwrap_or((before, ""));
        Ok(Compared::Other(if cluster == now.cluster {
            format!("{crd} was made anew where the originals are, and its objects are not those of before")
        } else {
            format!(
                "another cluster answers than before (kube-system was {cluster} and is {}), and what it lacks \
                 may not be deleted",
                now.cluster
            )
        }))
    }

    /// Remembers an identity.
    pub(crate) async fn remember(&self, crd: &str, now: &Identity) -> Result<(), call::Error> {
        let _one_at_a_time = self.changing.lock().await;
        let params = written_by(names::MANAGER);
        match self.read().await? {
            Some(mut map) => {
                let before = map.data.get_or_insert_default().insert(crd.into(), now.to_text());
                if before.as_deref() == Some(&now.to_text()) {
                    return Ok(());
                }
                within_deadline(self.api().replace(&self.name, &params, &map)).await.map(drop)
            }
            None => {
                make_namespace(&self.access, names::NAMESPACE).await?;
                let (key, value) = names::MANAGED_BY;
                let mut labels = BTreeMap::from([(key.into(), value.into())]);
                if !self.robot.is_empty() {
                    labels.insert(names::ROBOT.into(), self.robot.clone());
                }
                let metadata = ObjectMeta {
                    name: Some(self.name.clone()),
                    labels: Some(labels),
                    ..ObjectMeta::default()
                };
                let data = Some(BTreeMap::from([(crd.to_owned(), now.to_text())]));
                let map = ConfigMap { metadata, data, ..ConfigMap::default() };
                within_deadline(self.api().create(&params, &map)).await.map(drop)
            }
        }
    }
}

/// How an identity compares.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    New,
    Same,
    Other(String),
}

impl Compared {
    pub(crate) fn into_origin(self) -> Origin {
        match self {
            Compared::New | Compared::Same => Origin::Same,
            Compared::Other(why) => Origin::Other(why),
        }
    }
}

/// Makes a namespace if it is not there. It is never deleted by us.
pub(crate) async fn make_namespace(access: &Access, name: &str) -> Result<(), call::Error> {
    ensure_namespace(&access.client(), name, names::MANAGED_BY, names::MANAGER).await
}

/// What our own objects for a robot are called. A robot's name may hold what an object's name may not.
pub(crate) fn object_name(robot: &str) -> String {
    if robot.is_empty() {
        return "sync".into();
    }
    let plain: String = robot
        .chars()
        .map(|letter| letter.to_ascii_lowercase())
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .collect();
    if plain == robot {
        return format!("sync-{plain}");
    }
    // Two names must not become one.
    let print = robot.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |print, byte| {
        (print ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("sync-{plain}-{:08x}", print >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_robot_has_its_own_name() {
        assert_eq!(object_name(""), "sync");
        assert_eq!(object_name("r-1"), "sync-r-1");
        assert_ne!(object_name("R_1"), object_name("r-1"));
        assert_ne!(object_name("R_1"), object_name("r_1"));
        assert!(object_name("R_1").starts_with("sync-r-1-"));
    }
}
