//! The writer into the led member: each write has a precondition, what was looked at, and is sent only while
//! the lead is held.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use koinon_api::membership::{Federation, NETWORK_NAMESPACE};
use koinon_api::names::MANAGER;
use koinon_control::Key;
use koinon_fleet::Record as _;
use koinon_fleet::member::Error;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::caches::{Terms, oldest};
use super::content::Content;
use super::key::{Kind, PolicyKey};
use super::ledger::LARGEST_PAGE;
use super::names;
use super::plan::Over;
use super::version::Version;
use crate::leader_context::LeaderContext;

/// Why something was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error(transparent)]
    Member(#[from] Error),
    #[error("the lead is lost")]
    NotLeading,
    #[error("a page of the ledger of policies would be larger than a ConfigMap may be: {0} bytes")]
    TooLarge(usize),
}

impl Failed {
    /// Whether somebody else was faster.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Failed::Member(error) if matches!(error.code(), Some(404 | 409)))
    }

    /// What the server has against it, if it answered that it does not want it.
    pub(super) fn refusal(&self) -> Option<String> {
        match self {
            Failed::Member(error) => match error.code() {
                None | Some(401 | 408 | 409 | 429 | 500..) => None,
                Some(404) if error.is_object_absent() => None,
                Some(404) => Some("Antrea is not installed there".into()),
                Some(_) => Some(error.failure.to_string()),
            },
            Failed::NotLeading | Failed::TooLarge(_) => None,
        }
    }
}

impl LeaderContext {
    fn policies(&self, key: &PolicyKey) -> Api<DynamicObject> {
        let namespace = Some(key.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        self.client().dynamic(&key.kind.resource(), namespace)
    }

    fn ledgers(&self) -> Api<ConfigMap> {
        self.client().namespaced(NETWORK_NAMESPACE)
    }

    async fn write<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, Failed> {
        if !self.fence.holds() {
            return Err(Failed::NotLeading);
        }
        Ok(self.client().call(call).await?)
    }

    /// The policy as it is on the server; `None` if it certainly is not there.
    pub(super) async fn read_policy(&self, key: &PolicyKey) -> Result<Option<DynamicObject>, Error> {
        let api = self.policies(key);
        found(self.client().call(api.get(&key.name)).await)
    }

    pub(super) async fn read_namespace(&self, name: &str) -> Result<Option<Namespace>, Error> {
        let api: Api<Namespace> = self.client().all();
        found(self.client().call(api.get(name)).await)
    }

    /// The UID of the member's own Federation; `None` where it certainly has none.
    pub(super) async fn read_federation(&self) -> Result<Option<String>, Error> {
        let api: Api<Federation> = self.client().namespaced(NETWORK_NAMESPACE);
        match self.client().call(api.list(&ListParams::default())).await {
            Ok(all) => {
                let terms = all.items.iter().filter_map(|one| Some((Key::of(one), Terms::fold(one)?)));
                Ok(oldest(terms.collect()).map(|terms| terms.uid))
            }
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The UID of the definition of a kind; empty where it may not be read, `None` where there is none.
    pub(super) async fn read_definition(&self, kind: Kind) -> Result<Option<String>, Error> {
        let api: Api<CustomResourceDefinition> = self.client().all();
        match self.client().call(api.get_metadata(&kind.definition())).await {
            Err(error) if error.code() == Some(403) => {
                tracing::debug!(%error, "the definition of policies may not be read");
                Ok(Some(String::new()))
            }
            other => Ok(found(other)?.map(|definition| definition.uid().unwrap_or_default())),
        }
    }

    pub(super) async fn create_policy(
        &self,
        key: &PolicyKey,
        version: &Version,
        content: &Content,
    ) -> Result<DynamicObject, Failed> {
        let object = content.object(key, version);
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        self.write(self.policies(key).create(&params, &object)).await
    }

    /// Makes a policy say this, if it is still as it was.
    pub(super) async fn change_policy(
        &self,
        key: &PolicyKey,
        version: &Version,
        content: &Content,
        over: &Over,
    ) -> Result<DynamicObject, Failed> {
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": over.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": over.resource_version},
            {"op": "add", "path": "/metadata/labels", "value": content.labels},
            {"op": "add", "path": "/metadata/annotations", "value": content.annotations_with(version)},
            {"op": "add", "path": "/spec", "value": content.spec},
        ]);
        let patch: json_patch::Patch = serde_json::from_value(patch).expect("a patch is a patch");
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let patch = Patch::Json::<()>(patch);
        self.write(self.policies(key).patch(&key.name, &params, &patch)).await
    }

    /// Deletes a policy, if it is still as it was.
    pub(super) async fn delete_policy(&self, key: &PolicyKey, over: &Over) -> Result<(), Failed> {
        let preconditions = Preconditions {
            uid: Some(over.uid.clone()),
            resource_version: Some(over.resource_version.clone()),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.write(self.policies(key).delete(&key.name, &params)).await {
            Ok(_) => Ok(()),
            Err(Failed::Member(error)) if error.is_object_absent() => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn read_document(&self, name: &str) -> Result<Option<ConfigMap>, Error> {
        found(self.client().call(self.ledgers().get(name)).await)
    }

    /// Writes a document of the ledger over the version that it was read in, or where there was none.
    pub(super) async fn write_document(
        &self,
        name: &str,
        over: Option<&str>,
        text: String,
    ) -> Result<ConfigMap, Failed> {
        if text.len() > LARGEST_PAGE {
            return Err(Failed::TooLarge(text.len()));
        }
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.into()),
                namespace: Some(NETWORK_NAMESPACE.into()),
                labels: Some(BTreeMap::from([
                    (names::LEDGER_LABEL.to_owned(), names::LEDGER_VALUE.to_owned()),
                    (koinon_api::names::MANAGED_BY.to_owned(), MANAGER.to_owned()),
                ])),
                resource_version: over.map(str::to_owned),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(names::LEDGER_KEY.to_owned(), text)])),
            ..ConfigMap::default()
        };
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        match over {
            Some(_) => self.write(self.ledgers().replace(name, &params, &map)).await,
            None => self.write(self.ledgers().create(&params, &map)).await,
        }
    }
}

fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_object_absent() => Ok(None),
        Err(error) => Err(error),
    }
}
