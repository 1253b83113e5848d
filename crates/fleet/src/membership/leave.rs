//! `unjoin`: lets a member go. Its workloads run on.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use koinon_api::membership::CLUSTER_UID;
use koinon_control::bounds::limiting;
use koinon_control::call::within_deadline;
use koinon_control::client::Keepalive;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};

use super::federation_store::{FederationStore, SERVER, secret_name, uid};
use super::formation::answered_at;
use super::join::said;
use super::list::BOUNDS;
use super::{Error, rbac};
use crate::member::Credentials;

/// What leaving could not take back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    Nothing,
    /// The federation's account is still in the member, for this reason.
    Account(String),
    /// The account in the member is another's, and was left as it is.
    Others(String),
}

/// Lets a member go: strikes it out, takes the federation's account out of it, and forgets how to log in.
pub async fn leave(federation: &Client, name: &str) -> Result<Left, Error> {
    let store = FederationStore::new(federation.clone());
    let known = store.federation().await?.unwrap_or_default();
    let entry = known.spec.members.iter().find(|one| one.cluster_id.value == name);
    let secret = match entry {
        Some(entry) => store.secret(&entry.secret).await?,
        // Who was struck out and nothing more, because the command was cut off then, leaves the rest of the way.
        None => store.secret(&secret_name(name)).await?.filter(is_made_by_join),
    };
    let server = match (entry, &secret) {
        (Some(entry), _) => entry.server.clone(),
        (None, Some(secret)) => secret.annotations().get(SERVER).cloned().unwrap_or_default(),
        (None, None) => {
            let known = known.spec.members.iter().map(|one| one.cluster_id.value.clone()).collect();
            return Err(Error::Unknown { name: name.to_owned(), known });
        }
    };
    let own = store.uid().await?;
    let answered = answered_at(&known, name);
    // First of all, so that no role works with it any more.
    store.strike(name).await?;
    let left = match &secret {
        None => Left::Account("there is no Secret to log in with".to_owned()),
        Some(secret) => {
            let expected = secret.annotations().get(CLUSTER_UID);
            match Credentials::from_secret(&server, secret, answered.as_deref()) {
                Ok(credentials) => {
                    let withdrawn = withdraw(&credentials, expected.map(String::as_str), &own, name).await;
                    withdrawn.unwrap_or_else(|why| Left::Account(format!("{server} was asked: {why}")))
                }
                Err(error) => Left::Account(error.to_string()),
            }
        }
    };
    // A Secret that somebody made by hand is theirs.
    if let Some(secret) = secret.filter(is_made_by_join) {
        store.drop_secret(&secret).await?;
    }
    Ok(left)
}

pub(super) fn is_made_by_join(secret: &Secret) -> bool {
    secret.annotations().contains_key(CLUSTER_UID)
}

/// Deletes the binding, to which all else of ours in the member belongs, if it is ours.
async fn withdraw(
    credentials: &Credentials,
    expected: Option<&str>,
    own: &str,
    name: &str,
) -> Result<Left, String> {
    let client = credentials.connect(Keepalive::default()).await.map_err(|error| error.to_string())?;
    let client = limiting(client, BOUNDS);
    let seen = uid(&client).await.map_err(|error| said(&error))?;
    if expected.is_some_and(|expected| expected != seen) {
        return Err("another cluster answers at its address".into());
    }
    let api: Api<ClusterRoleBinding> = Api::all(client);
    let found = within_deadline(api.get_opt(rbac::NAME)).await.map_err(|error| said(&error))?;
    let Some(binding) = found else { return Ok(Left::Nothing) };
    if let Some(whose) = whose(&binding, own, name) {
        return Ok(Left::Others(whose));
    }
    // Only as it was seen: meanwhile it may have become somebody else's.
    let preconditions = Preconditions { uid: binding.uid(), resource_version: binding.resource_version() };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match within_deadline(api.delete(rbac::NAME, &params)).await {
        Ok(_) => Ok(Left::Nothing),
        Err(error) if error.is_object_absent() => Ok(Left::Nothing),
        Err(error) => Err(said(&error)),
    }
}

/// Whose binding it is, if it is not that of this member of this federation.
fn whose(binding: &ClusterRoleBinding, own: &str, name: &str) -> Option<String> {
    let said = |what| binding.annotations().get(what).map(String::as_str);
    match (said(rbac::FEDERATION), said(rbac::MEMBER)) {
        (Some(federation), Some(member)) if federation == own && member == name => None,
        (Some(federation), Some(member)) if federation == own => {
            Some(format!("it belongs to the member {member} of this federation"))
        }
        (Some(_), _) => Some("it belongs to another federation".into()),
        (None, _) => Some("it does not say that it is this federation's".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::Scope;

    #[test]
    fn only_the_binding_of_this_member_in_this_federation_is_ours() {
        let check = |annotations: serde_json::Value, expected: Option<&str>| {
            let binding = serde_json::json!({
                "metadata": {"name": rbac::NAME, "annotations": annotations},
                "roleRef": {"apiGroup": "", "kind": "", "name": ""},
            });
            let binding = serde_json::from_value(binding).unwrap();
            assert_eq!(whose(&binding, "here", "a").as_deref(), expected, "{annotations}");
        };
        check(rbac::binding("here", "a", &Scope::Everywhere)["metadata"]["annotations"].clone(), None);
        check(
            rbac::binding("here", "b", &Scope::Everywhere)["metadata"]["annotations"].clone(),
            Some("it belongs to the member b of this federation"),
        );
        check(
            rbac::binding("there", "a", &Scope::Everywhere)["metadata"]["annotations"].clone(),
            Some("it belongs to another federation"),
        );
        check(serde_json::json!({}), Some("it does not say that it is this federation's"));
    }
}
