//! Whether objects that are gone were deleted, or went with what holds them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource};

use crate::call::{Failure, within};
use crate::model::Kind;
use crate::names::NAMESPACE;

/// What holds the objects of a kind in the current cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Definition {
    /// It is there to stay; its uid tells it from one that was made anew.
    There(String),
    Absent,
    /// It is being deleted, and its objects with it.
    Going,
    /// The namespace of all this is.
    NamespaceGoing,
    /// It must not be read.
    Refused(String),
}

/// Asks for it, after the objects were seen: a server begins to delete what holds them before it deletes them. An
/// error is no answer.
pub(crate) async fn ask(client: &Client, kind: &Kind, deadline: Duration) -> Result<Definition, Failure> {
    let name = format!("{}.{}", kind.plural, kind.group);
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let (definition, namespace) =
        tokio::join!(get(&definitions, &name, deadline), get(&namespaces, NAMESPACE, deadline));
    Ok(match (definition?, namespace?) {
        (_, Ok(Some(namespace))) if namespace.deletion_timestamp.is_some() => Definition::NamespaceGoing,
        (Err(why), _) | (_, Err(why)) => Definition::Refused(why),
        (Ok(None), _) => Definition::Absent,
        (Ok(Some(definition)), _) if definition.deletion_timestamp.is_some() => Definition::Going,
        (Ok(Some(definition)), _) => Definition::There(definition.uid.unwrap_or_default()),
    })
}

type Read = Result<Option<ObjectMeta>, String>;

/// The metadata of an object, or why it must not be read; an error if there was no answer.
async fn get<K>(api: &Api<K>, name: &str, deadline: Duration) -> Result<Read, Failure>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match within(deadline, api.get_metadata(name)).await {
        Ok(object) => Ok(Ok(Some(object.meta().clone()))),
        Err(failure) if failure.code == Some(404) => Ok(Ok(None)),
        Err(failure) if failure.is_refusal() => Ok(Err(failure.to_string())),
        Err(failure) => Err(failure),
    }
}
