//! `unjoin`: lets a member go. Its workloads run on.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use koinon_api::membership::CLUSTER_UID;
use koinon_control::call::within_deadline;
use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt as _};

use super::books::{Books, SERVER, secret_name, uid};
use super::join::said;
use super::{Error, rbac};
use crate::member::Credentials;

/// What leaving could not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Why the federation's account is still in the member, if it is.
    pub behind: Option<String>,
}

/// Lets a member go: strikes it out, takes the federation's account out of it, and forgets how to log in.
pub async fn leave(federation: &Client, name: &str) -> Result<Left, Error> {
    let books = Books::new(federation.clone());
    let known = books.federation().await?.unwrap_or_default();
    let entry = known.spec.members.iter().find(|one| one.cluster_id.value == name);
    let secret = match entry {
        Some(entry) => books.secret(&entry.secret).await?,
        // Who was struck out and nothing more, because the command was cut off then, leaves the rest of the way.
        None => books.secret(&secret_name(name)).await?.filter(is_made_by_join),
    };
    let server = match (entry, &secret) {
        (Some(entry), _) => entry.server.clone(),
        (None, Some(secret)) => secret.annotations().get(SERVER).cloned().unwrap_or_default(),
        (None, None) => {
            let known = known.spec.members.iter().map(|one| one.cluster_id.value.clone()).collect();
            return Err(Error::Unknown { name: name.to_owned(), known });
        }
    };
    // First of all, so that no role works with it any more.
    books.strike(name).await?;
    let behind = match &secret {
        None => Some("there is no Secret to log in with".to_owned()),
        Some(secret) => {
            let expected = secret.annotations().get(CLUSTER_UID);
            match Credentials::from_secret(&server, secret) {
                Ok(credentials) => withdraw(&credentials, expected.map(String::as_str)).await.err(),
                Err(error) => Some(error.to_string()),
            }
        }
    };
    // A Secret that somebody made by hand is theirs.
    if let Some(secret) = secret.filter(is_made_by_join) {
        books.drop_secret(&secret).await?;
    }
    Ok(Left { behind })
}

fn is_made_by_join(secret: &Secret) -> bool {
    secret.annotations().contains_key(CLUSTER_UID)
}

/// Deletes the binding, to which all else of ours in the member belongs.
async fn withdraw(credentials: &Credentials, expected: Option<&str>) -> Result<(), String> {
    let client = credentials.connect().await.map_err(|error| error.to_string())?;
    let seen = uid(&client).await.map_err(|error| said(&error))?;
    if expected.is_some_and(|expected| expected != seen) {
        return Err("another cluster answers at its address".into());
    }
    let api: Api<ClusterRoleBinding> = Api::all(client);
    match within_deadline(api.delete(rbac::NAME, &DeleteParams::background())).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_object_absent() => Ok(()),
        Err(error) => Err(said(&error)),
    }
}
