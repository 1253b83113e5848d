//! Members that somebody else vouches for: clusters that one process runs beside the federation's own server.

use k8s_openapi::ByteString;
use koinon_api::membership::{CLUSTER_UID, ClusterId};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::Error;
use super::books::{Books, uid};

/// A cluster that need not be asked whether it wants to join.
pub struct Resident {
    pub name: ClusterId,
    /// Its address for others; the federation itself may have a shorter way.
    pub server: String,
    /// A kubeconfig with everything inside, for commands that run elsewhere.
    pub kubeconfig: String,
    /// The way to it from here.
    pub client: Client,
}

/// Writes all of them down. What is as it should be is not written again, so that a restart changes nothing.
pub async fn enroll(federation: &Client, residents: &[Resident]) -> Result<(), Error> {
    let books = Books::new(federation.clone());
    books.open().await?;
    for resident in residents {
        let uid = uid(&resident.client).await.map_err(|error| Error::unreachable(&resident.server, error))?;
        let name = format!("member-{}", resident.name);
        let kept = books.secret(&name).await?;
        let is_kept = kept.is_some_and(|secret| {
            let kubeconfig = ByteString(resident.kubeconfig.clone().into_bytes());
            let same = secret.data.as_ref().and_then(|data| data.get("kubeconfig")) == Some(&kubeconfig);
            same && secret.annotations().get(CLUSTER_UID) == Some(&uid)
        });
        if !is_kept {
            books.keep_secret(&name, &uid, &json!({"kubeconfig": resident.kubeconfig})).await?;
        }
    }
    let entries =
        residents.iter().map(|one| (&one.name, one.server.as_str(), format!("member-{}", one.name)));
    books.enter_all(entries).await.map(drop)
}
