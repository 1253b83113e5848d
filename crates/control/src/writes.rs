//! Small calls that every role makes of a cluster, once: the parameters of its writes, the cluster's identity, a
//! namespace that has to be there.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use crate::call::{Error, within_deadline};

/// Parameters of a write by this field manager.
pub fn written_by(manager: &str) -> PostParams {
    PostParams { field_manager: Some(manager.into()), ..PostParams::default() }
}

/// The identity of a cluster: the UID of its `kube-system` namespace.
pub async fn cluster_uid(client: &Client) -> Result<String, Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    Ok(within_deadline(api.get("kube-system")).await?.metadata.uid.unwrap_or_default())
}

/// Makes a namespace if it is not there, with this label. It is never deleted by us.
pub async fn ensure_namespace(
    client: &Client,
    name: &str,
    (key, value): (&str, &str),
    manager: &str,
) -> Result<(), Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    match within_deadline(api.get_opt(name)).await {
        Ok(Some(_)) => return Ok(()),
        Ok(None) => {}
        // Whoever may create it need not be allowed to read it.
        Err(error) if error.code() == Some(403) => {}
        Err(error) => return Err(error),
    }
    let metadata = ObjectMeta {
        name: Some(name.into()),
        labels: Some(BTreeMap::from([(key.into(), value.into())])),
        ..ObjectMeta::default()
    };
    let namespace = Namespace { metadata, ..Namespace::default() };
    match within_deadline(api.create(&written_by(manager), &namespace)).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}
