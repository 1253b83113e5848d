//! Whose objects are whose: a controller takes matching orphans and lets go of what no longer matches.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use koinon_control::View;
use koinon_control::call::{self, within_deadline};
use kube::api::{Patch, PatchParams};
use kube::core::{Selector, SelectorExt as _};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::owned::controller_of;
use crate::MANAGER;

/// What a controller may call its own, and what has to be written for that.
pub(crate) struct Claims<K> {
    /// What it has, with what it adopts.
    pub(crate) mine: Vec<Arc<K>>,
    pub(crate) adopt: Vec<Arc<K>>,
    pub(crate) release: Vec<Arc<K>>,
}

/// Why claims could not be settled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Call(#[from] call::Error),
    #[error("{kind} {namespace}/{name} is being deleted or was made anew, so it adopts nothing")]
    OwnerGone { kind: String, namespace: String, name: String },
}

/// A selector that can be asked; none for one that makes no sense or selects everything. Nothing may be
/// decided over those: a controller that took or released every object of a namespace would do so by mistake.
pub(crate) fn selector(selector: &LabelSelector) -> Option<Selector> {
    Selector::try_from(selector.clone()).ok().filter(|selector| !selector.selects_all())
}

/// Decides over objects that the owner has or that nobody has; those of others are left alone.
pub(crate) fn decide<K: Resource>(
    owner: &ObjectMeta,
    selector: &Selector,
    objects: impl IntoIterator<Item = Arc<K>>,
) -> Claims<K> {
    decide_by(owner, |object| selector.matches(object.labels()), objects)
}

/// Like [`decide`], for owners that want more of what is theirs than labels.
pub(crate) fn decide_by<K: Resource>(
    owner: &ObjectMeta,
    matches: impl Fn(&K) -> bool,
    objects: impl IntoIterator<Item = Arc<K>>,
) -> Claims<K> {
    let mut claims = Claims { mine: Vec::new(), adopt: Vec::new(), release: Vec::new() };
    let deleted = owner.deletion_timestamp.is_some();
    for object in objects {
        let matches = matches(&object);
        match controller_of(&*object) {
            Some(controller) if Some(&controller.uid) != owner.uid.as_ref() => {}
            Some(_) if matches => claims.mine.push(object),
            Some(_) if deleted => {}
            Some(_) => claims.release.push(object),
            None if !matches || deleted || object.meta().deletion_timestamp.is_some() => {}
            None => {
                claims.mine.push(object.clone());
                claims.adopt.push(object);
            }
        }
    }
    claims
}

/// Writes what the claims need.
pub(crate) async fn settle<O, K>(
    client: &Client,
    owner: &O,
    claims: &Claims<K>,
    view: &View<K>,
) -> Result<(), Error>
where
    O: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
{
    settle_held(client, owner, claims, view, None).await
}

/// Writes what the claims need; a finalizer comes with what is adopted and goes with what is released.
pub(crate) async fn settle_held<O, K>(
    client: &Client,
    owner: &O,
    claims: &Claims<K>,
    view: &View<K>,
    finalizer: Option<&str>,
) -> Result<(), Error>
where
    O: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
{
    let namespace = owner.namespace().unwrap_or_default();
    let objects: Api<K> = Api::namespaced(client.clone(), &namespace);
    for object in &claims.release {
        match write(&objects, object, release_patch(owner, &**object, finalizer)).await {
            Ok(released) => view.learn(released),
            // Gone, made anew, or without owners already: nothing is left to release.
            Err(error) if error.is_object_absent() || error.code() == Some(422) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if claims.adopt.is_empty() {
        return Ok(());
    }
    // What the view shows of the owner may be old; objects given to one that is gone would go with it.
    let live: O =
        within_deadline(Api::<O>::namespaced(client.clone(), &namespace).get(&owner.name_any())).await?;
    if live.meta().uid != owner.meta().uid || live.meta().deletion_timestamp.is_some() {
        let kind = O::kind(&()).into_owned();
        return Err(Error::OwnerGone { kind, namespace, name: owner.name_any() });
    }
    for object in &claims.adopt {
        match write(&objects, object, adopt_patch(owner, &**object, finalizer)).await {
            Ok(adopted) => view.learn(adopted),
            Err(error) if error.is_object_absent() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn write<K>(api: &Api<K>, object: &K, patch: Value) -> Result<K, call::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    within_deadline(api.patch(&object.name_any(), &params, &Patch::Strategic(patch))).await
}

/// A reference that makes `owner` the controller of what carries it.
pub(crate) fn controller_reference<O: Resource<DynamicType = ()>>(owner: &O) -> OwnerReference {
    OwnerReference {
        api_version: O::api_version(&()).into_owned(),
        kind: O::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The uid in a patch is a precondition: the server refuses it for a successor of the same name.
fn adopt_patch<O: Resource<DynamicType = ()>>(
    owner: &O,
    object: &impl Resource,
    finalizer: Option<&str>,
) -> Value {
    let reference = json!(controller_reference(owner));
    metadata_patch(object, reference, "finalizers", finalizer)
}

fn release_patch(owner: &impl Resource, object: &impl Resource, finalizer: Option<&str>) -> Value {
    let reference = json!({"$patch": "delete", "uid": owner.meta().uid});
    metadata_patch(object, reference, "$deleteFromPrimitiveList/finalizers", finalizer)
}

fn metadata_patch(object: &impl Resource, reference: Value, list: &str, finalizer: Option<&str>) -> Value {
    let mut metadata = json!({"uid": object.meta().uid, "ownerReferences": [reference]});
    if let Some(finalizer) = finalizer {
        metadata[list] = json!([finalizer]);
    }
    json!({"metadata": metadata})
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn check(owner: Value, object: Value, expected: &str) {
        let owner: ObjectMeta = serde_json::from_value(owner).unwrap();
        let selects = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
        let object: ConfigMap = serde_json::from_value(json!({"metadata": object})).unwrap();
        let claims = decide(&owner, &selector(&selects).unwrap(), [Arc::new(object.clone())]);
        let found = match (claims.mine.len(), claims.adopt.len(), claims.release.len()) {
            (1, 0, 0) => "mine",
            (1, 1, 0) => "adopt",
            (0, 0, 1) => "release",
            (0, 0, 0) => "leave",
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{object:?}");
    }

    #[test]
    fn a_controller_takes_what_matches_and_lets_go_of_what_does_not() {
        let (owner, gone) =
            (json!({"uid": "1"}), json!({"uid": "1", "deletionTimestamp": "2027-01-01T00:00:00Z"}));
        let controlled = |uid: &str, app: &str| {
            let reference =
                json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": true});
            json!({"labels": {"app": app}, "ownerReferences": [reference]})
        };
        let orphan = json!({"labels": {"app": "web"}});
        let leaving = json!({"labels": {"app": "web"}, "deletionTimestamp": "2027-01-01T00:00:00Z"});
        check(owner.clone(), controlled("1", "web"), "mine");
        check(owner.clone(), controlled("1", "db"), "release");
        check(owner.clone(), controlled("2", "web"), "leave");
        check(owner.clone(), controlled("2", "db"), "leave");
        check(owner.clone(), orphan.clone(), "adopt");
        check(owner.clone(), json!({"labels": {"app": "db"}}), "leave");
        check(owner.clone(), json!({}), "leave");
        check(owner, leaving, "leave");
        check(gone.clone(), controlled("1", "web"), "mine");
        check(gone.clone(), controlled("1", "db"), "leave");
        check(gone, orphan, "leave");
    }

    #[test]
    fn a_selector_for_everything_is_none() {
        assert!(selector(&LabelSelector::default()).is_none());
        let broken = json!({"matchExpressions": [{"key": "a", "operator": "Sometimes"}]});
        assert!(selector(&serde_json::from_value(broken).unwrap()).is_none());
    }
}
