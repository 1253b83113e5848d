//! One object into one member: server-side apply of what is ours, and what to do when something is in the way.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::Namespace;
use koinon_api::names::MANAGER;
use koinon_fleet::MemberClient;
use koinon_fleet::member::Error;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::foreign;
use crate::content;

/// One object in one member.
pub(crate) struct Target<'a> {
    pub(crate) client: &'a MemberClient,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// The federation's namespace: one that is missing is created with its labels and annotations.
    pub(crate) like: Option<&'a Namespace>,
}

/// What a member keeps of what it has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keep {
    pub(crate) count: bool,
    pub(crate) template: bool,
}

/// The object that is taken over, as it was when that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) uid: String,
    pub(crate) generation: i64,
}

/// Why the member does not have it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Call(#[from] Error),
    #[error("the object of this name there belongs to {0}: rename one of them")]
    Belongs(String),
    #[error("the object there selects other pods; it is removed without them, and made anew")]
    Replacing,
    #[error("the object that was in the way is not there any more, or another one")]
    Gone,
    #[error("an object of this name is there that nobody had seen")]
    Appeared,
}

/// A kind of object that members have of us.
pub(crate) trait Workload:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Serialize
{
}

impl<K> Workload for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Serialize
{
}

impl Target<'_> {
    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        self.client.namespaced(self.namespace)
    }

    /// Makes the member have what `manifest` says. An object that is ours already is repaired by force; one that is not
    /// `known` to be ours is left as it is: what it runs has to be counted before anything is decided about it.
    ///
    /// Where nothing is in the way that is one request, as for anybody who writes there.
    pub(crate) async fn apply<K>(&self, manifest: &Value, known: bool) -> Result<K, Failure>
    where
        K: Workload,
    {
        let mut first = self.patch::<K>(manifest, known).await;
        if first.as_ref().is_err_and(|error| error.code() == Some(404)) {
            self.make_namespace().await?;
            first = self.patch(manifest, known).await;
        }
        match first {
            // No field of it differed from ours, and it has others: somebody else made it.
            Ok(object) if !known && foreign::is_foreign(object.meta()) => {
                // Half of it ours would pass for ours the next time.
                self.take_back::<K>(manifest).await?;
                Err(foreign::owner(object.meta()).map_or(Failure::Appeared, Failure::Belongs))
            }
            Ok(object) => Ok(object),
            Err(error) if error.is_conflict() && !known => Err(self.in_the_way::<K>().await?),
            Err(error) if error.code() == Some(422) => {
                self.remove_if_it_selects_others::<K>(manifest).await?;
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Like [`Target::apply`] for an object that is there and keeps some of what it has.
    pub(crate) async fn apply_keeping<K>(&self, manifest: &Value, keep: Keep) -> Result<K, Failure>
    where
        K: Workload,
    {
        // What only we own would be reset if we stopped to say it, so what is there is said again, provided that nobody
        // changed it meanwhile.
        let there: K = self.client.call(self.api().get(self.name)).await?;
        let mut spec =
            serde_json::to_value(&there).map(|mut object| object["spec"].take()).unwrap_or_default();
        let mut manifest = manifest.clone();
        if keep.count {
            manifest["spec"]["replicas"] = spec["replicas"].take();
        }
        if keep.template {
            manifest["spec"]["template"] = spec["template"].take();
        }
        manifest["metadata"]["resourceVersion"] = there.resource_version().into();
        Ok(self.patch(&manifest, true).await?)
    }

    async fn patch<K>(&self, manifest: &Value, force: bool) -> Result<K, Error>
    where
        K: Workload,
    {
        let params = PatchParams { force, ..PatchParams::apply(MANAGER) };
        let api = self.api::<K>();
        self.client.call(api.patch(self.name, &params, &Patch::Apply(manifest))).await
    }

    /// Somebody else made an object of this name and other content.
    async fn in_the_way<K>(&self) -> Result<Failure, Error>
    where
        K: Workload,
    {
        let there: Option<K> = self.client.call(self.api().get_opt(self.name)).await?;
        Ok(match there {
            // Whoever made it took it away: the next look makes ours.
            None => Failure::Gone,
            Some(there) => foreign::owner(there.meta()).map_or(Failure::Appeared, Failure::Belongs),
        })
    }

    /// Makes an object that somebody else made ours, provided that it still is the one that this was decided about.
    pub(crate) async fn take_over<K>(
        &self,
        manifest: &Value,
        expected: &Expected,
        keep_count: bool,
    ) -> Result<K, Failure>
    where
        K: Workload,
    {
        let there: Option<K> = self.client.call(self.api().get_opt(self.name)).await?;
        let there = there.ok_or(Failure::Gone)?;
        if let Some(owner) = foreign::owner(there.meta()) {
            return Err(Failure::Belongs(owner));
        }
        let is_it = there.uid().as_deref() == Some(&expected.uid)
            && there.meta().generation.unwrap_or(0) == expected.generation
            && there.meta().deletion_timestamp.is_none();
        if !is_it {
            return Err(Failure::Gone);
        }
        let mut manifest = manifest.clone();
        if keep_count {
            let whole = serde_json::to_value(&there).unwrap_or_default();
            manifest["spec"]["replicas"] = whole["spec"]["replicas"].clone();
        }
        self.replace(&manifest, &there, there.resource_version()).await
    }

    /// Replaces all of an object, provided that it is of this version. An apply alone would leave what others
    /// said, such as containers of other names.
    async fn replace<K>(&self, manifest: &Value, there: &K, version: Option<String>) -> Result<K, Failure>
    where
        K: Workload,
    {
        let api = self.api::<K>();
        let mut whole = manifest.clone();
        whole["metadata"]["resourceVersion"] = version.into();
        whole["metadata"]["finalizers"] = serde_json::to_value(there.finalizers()).unwrap_or_default();
        let whole: K = serde_json::from_value(whole).map_err(|_| Failure::Gone)?;
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let replaced = match self.client.call(api.replace(self.name, &params, &whole)).await {
            Ok(replaced) => replaced,
            Err(error) if error.code() == Some(422) => {
                self.remove_if_it_selects_others::<K>(manifest).await?;
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        };
        let owned = async {
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            let disowned = Patch::Merge(foreign::disowned(manifest));
            let _: K = self.client.call(api.patch(self.name, &params, &disowned)).await?;
            self.patch::<K>(manifest, true).await
        };
        // It says what it should in any case; who owns which field of it is put right with the next write.
        Ok(owned.await.unwrap_or(replaced))
    }

    /// Says nothing of an object any more, so that it is what it was before.
    async fn take_back<K>(&self, manifest: &Value) -> Result<(), Error>
    where
        K: Workload,
    {
        let nothing = json!({
            "apiVersion": manifest["apiVersion"],
            "kind": manifest["kind"],
            "metadata": {"name": self.name, "namespace": self.namespace},
        });
        self.patch::<K>(&nothing, false).await.map(drop)
    }

    /// What an object selects can never change: one that selects other pods is in the way. They stay.
    async fn remove_if_it_selects_others<K>(&self, manifest: &Value) -> Result<(), Failure>
    where
        K: Workload,
    {
        let there: Option<Value> = self.raw::<K>().await?;
        let Some(there) = there else { return Ok(()) };
        if there["spec"]["selector"] == manifest["spec"]["selector"] {
            return Ok(());
        }
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Orphan),
            preconditions: Some(Preconditions {
                uid: there["metadata"]["uid"].as_str().map(str::to_owned),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        self.client.call(self.api::<K>().delete(self.name, &params)).await?;
        Err(Failure::Replacing)
    }

    async fn raw<K>(&self) -> Result<Option<Value>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let resource = kube::core::ApiResource::erase::<K>(&());
        let api = self.client.dynamic::<kube::core::DynamicObject>(&resource, Some(self.namespace));
        let there = self.client.call(api.get_opt(self.name)).await?;
        Ok(there.and_then(|there| serde_json::to_value(there).ok()))
    }

    async fn make_namespace(&self) -> Result<(), Error> {
        let like = self.like.map(|like| &like.metadata);
        let mut labels = content::labels(like.and_then(|like| like.labels.as_ref()));
        // The member's API server says this itself.
        labels.remove("kubernetes.io/metadata.name");
        let annotations = content::annotations(like.and_then(|like| like.annotations.as_ref()));
        let metadata = ObjectMeta {
            name: Some(self.namespace.into()),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        match self.client.call(self.client.all().create(&params, &namespace)).await {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }
}
