//! Makes the account by which a federation works in a member, with the rights that it needs there.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use koinon_api::membership::{ClusterId, KOINON_NAMESPACE};
use koinon_control::call::{self, within_deadline};
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::federation_store::apply;
use super::rbac;
use super::scope::Scope;
use super::{Error, Owner, Whose};

/// What somebody who lets a cluster in decides about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Where the federation may write; without, where it may already, and everywhere in a cluster that is new.
    pub scope: Option<Scope>,
    /// Whether the cluster is taken from the federation that it is in.
    pub take_over: bool,
}

/// The member's side of joining.
pub(super) struct Host<'a> {
    pub(super) client: &'a Client,
    pub(super) name: &'a ClusterId,
    /// The UID of the federation that joins it.
    pub(super) own: &'a str,
}

impl Host<'_> {
    /// The binding that is there, unless the cluster is in another federation and not to be taken from it.
    pub(super) async fn unbound(&self, terms: &Terms) -> Result<Option<ClusterRoleBinding>, Error> {
        let api: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        let found = within_deadline(api.get_opt(rbac::NAME)).await;
        let found = found.map_err(self.asked("read its bindings"))?;
        match found.as_ref().and_then(|binding| self.other(binding)) {
            Some(owner) if !terms.take_over => Err(Error::InAnother { owner }),
            _ => Ok(found),
        }
    }

    /// Whose the cluster is, if not this federation's.
    fn other(&self, binding: &ClusterRoleBinding) -> Option<Owner> {
        let federation = binding.annotations().get(rbac::FEDERATION).filter(|bound| *bound != self.own)?;
        Some(Owner {
            federation: federation.clone(),
            member: binding.annotations().get(rbac::MEMBER).cloned(),
        })
    }

    /// Makes the account with its rights; its name. `binding` is the one that was there before.
    pub(super) async fn admit(
        &self,
        terms: &Terms,
        binding: Option<&ClusterRoleBinding>,
        progress: &mut impl FnMut(&str),
    ) -> Result<String, Error> {
        if let Some(owner) = binding.and_then(|binding| self.other(binding)) {
            progress(&format!(
                "taking over from another federation: this cluster is {owner}; the ClusterRoleBinding {0} and the \
                 ServiceAccount {KOINON_NAMESPACE}/{0} become this federation's, and the other's tokens end now",
                rbac::NAME
            ));
            // All tokens of an account end with it, and one that is made anew under its name is another.
            self.drop_account().await.map_err(self.asked("delete the other federation's ServiceAccount"))?;
        }
        let scope = terms.scope.clone().unwrap_or_else(|| binding.map_or(Scope::Everywhere, scope_of));
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KOINON_NAMESPACE}});
        self.apply(&namespace, "make the namespace koinon-system").await?;
        let binding = rbac::binding(self.own, self.name.as_str(), &scope);
        let binding = apply(self.client, &binding).await.map_err(self.asked("make a ClusterRoleBinding"))?;
        let owner = rbac::owner(&binding.uid().unwrap_or_default());
        // First what is given and then what is taken, so that a role that is at work lacks nothing meanwhile.
        let within = rbac::within(&scope, &self.namespaces().await?);
        for (namespace, rules) in &within {
            for object in rbac::role_in(&owner, namespace, rules) {
                self.apply(&object, "make a Role and its binding in a namespace").await?;
            }
        }
        self.apply(&rbac::role(&owner, &scope), "make a ClusterRole").await?;
        self.drop_others::<RoleBinding>(&within).await.map_err(self.asked("delete RoleBindings"))?;
        self.drop_others::<Role>(&within).await.map_err(self.asked("delete Roles"))?;
        self.apply(&rbac::account(&owner), "make a ServiceAccount").await?;
        if let Scope::Matching(_) = scope {
            let names: Vec<&str> =
                within.keys().map(String::as_str).filter(|name| scope.includes(name)).collect();
            progress(&match &names[..] {
                [] => format!("no namespace matches {scope} yet: run this again when there is one"),
                names => format!(
                    "the federation may write in {}; run this again when there are more that match {scope}",
                    names.join(", ")
                ),
            });
        }
        Ok(rbac::NAME.to_owned())
    }

    async fn namespaces(&self) -> Result<Vec<String>, Error> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let all = within_deadline(api.list_metadata(&ListParams::default())).await;
        let all = all.map_err(self.asked("list its namespaces"))?;
        // What is made in a namespace that is going is refused, and needs no rights.
        let stays = all.items.into_iter().filter(|one| one.metadata.deletion_timestamp.is_none());
        Ok(stays.map(|one| one.name_any()).collect())
    }

    /// Takes back Roles in namespaces that are no longer among these.
    async fn drop_others<K>(&self, within: &BTreeMap<String, Vec<Value>>) -> Result<(), call::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned,
        K: std::fmt::Debug,
    {
        let all: Api<K> = Api::all(self.client.clone());
        let ours = ListParams::default()
            .fields(&format!("metadata.name={}", rbac::NAME))
            .labels("app.kubernetes.io/managed-by=koinon");
        for one in within_deadline(all.list_metadata(&ours)).await?.items {
            let namespace = one.namespace().unwrap_or_default();
            if within.contains_key(&namespace) {
                continue;
            }
            let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
            gone(within_deadline(api.delete(rbac::NAME, &exactly(one.uid()))).await)?;
        }
        Ok(())
    }

    async fn drop_account(&self) -> Result<(), call::Error> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), KOINON_NAMESPACE);
        let Some(account) = within_deadline(api.get_opt(rbac::NAME)).await? else { return Ok(()) };
        gone(within_deadline(api.delete(rbac::NAME, &exactly(account.uid()))).await)
    }

    async fn apply(&self, object: &Value, what: &'static str) -> Result<(), Error> {
        apply(self.client, object).await.map(drop).map_err(self.asked(what))
    }

    fn asked(&self, what: &'static str) -> impl FnOnce(call::Error) -> Error {
        let whose = Whose::Member(self.name.clone());
        move |error| Error::asked(whose, what, error)
    }
}

/// Where the federation may write already.
pub(super) fn scope_of(binding: &ClusterRoleBinding) -> Scope {
    let said = binding.annotations().get(rbac::NAMESPACES).map(|patterns| patterns.parse());
    match said {
        None => Scope::Everywhere,
        // What cannot be read lets nobody in.
        Some(scope) => scope.unwrap_or_else(|_| Scope::Matching(Vec::new())),
    }
}

fn exactly(uid: Option<String>) -> DeleteParams {
    let preconditions = Preconditions { uid, resource_version: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

fn gone<T>(answer: Result<T, call::Error>) -> Result<(), call::Error> {
    match answer {
        Err(error) if !error.is_object_absent() => Err(error),
        _ => Ok(()),
    }
}
