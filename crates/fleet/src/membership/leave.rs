//! `unjoin`: lets a member go. Its workloads run on.

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use koinon_api::membership::CLUSTER_UID;
use koinon_control::call::within_deadline;
use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt as _};

use super::books::{Books, uid};
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
    let names: Vec<_> = known.spec.members.iter().map(|one| one.cluster_id.value.clone()).collect();
    let Some(member) = known.spec.members.iter().find(|one| one.cluster_id.value == name) else {
        return Err(Error::Unknown { name: name.to_owned(), known: names });
    };
    let secret = books.secret(&member.secret).await?;
    // First of all, so that no role works with it any more.
    books.strike(name).await?;
    let behind = match &secret {
        None => Some("there is no Secret to log in with".to_owned()),
        Some(secret) => {
            let expected = secret.annotations().get(CLUSTER_UID);
            match Credentials::from_secret(&member.server, secret) {
                Ok(credentials) => withdraw(&credentials, expected.map(String::as_str)).await.err(),
                Err(error) => Some(error.to_string()),
            }
        }
    };
    // Only what `join` made; a Secret that somebody made by hand is theirs.
    if let Some(secret) = secret.filter(|secret| secret.annotations().contains_key(CLUSTER_UID)) {
        books.drop_secret(&secret).await?;
    }
    Ok(Left { behind })
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
