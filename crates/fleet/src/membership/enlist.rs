//! Members that live beside the federation, under the same hand: they are written down without being asked.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use koinon_api::membership::{CLUSTER_UID, Claimed, ClusterId, MEMBER_SECRET, MemberCluster, SERVER_KEY};
use koinon_control::call::within_deadline;
use kube::api::ListParams;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::federation_store::{FederationStore, Login, secret_name, uid};
use super::{Error, Whose};

/// On the Secret of a member that was enlisted, rather than joined by somebody.
const ENLISTED: &str = "koinon.dev/enlisted";
const AT_ONCE: usize = 16;

/// A cluster of our own.
pub struct Recruit {
    pub name: ClusterId,
    pub server: String,
    /// The keys of its Secret.
    pub login: Value,
    pub client: Client,
}

/// Makes the enlisted members be these. Those that joined by themselves are left as they are; who was enlisted
/// before and no longer is leaves the federation, and whatever runs there goes on.
pub async fn enlist(federation: &Client, recruits: &[Recruit]) -> Result<(), Error> {
    let store = FederationStore::new(federation.clone());
    store.open().await?;
    let secrets = within_deadline(store.secrets().list(&ListParams::default().labels(ENLISTED))).await;
    let secrets =
        secrets.map_err(|error| Error::asked(Whose::Federation, "list the members' Secrets", error))?.items;
    let store = &store;
    let known = &secrets;
    futures::stream::iter(recruits)
        .map(|recruit| async move {
            let theirs = uid(&recruit.client).await;
            let theirs = theirs.map_err(|error| Error::unreachable(&recruit.server, error))?;
            let name = secret_name(recruit.name.as_str());
            let before = known.iter().find(|secret| secret.name_any() == name);
            if before.is_some_and(|before| is_as(before, recruit, &theirs)) {
                return Ok(());
            }
            let login = Login { uid: &theirs, server: &recruit.server, data: &recruit.login };
            store.keep_secret(&name, login, &json!({ENLISTED: "true"})).await
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    let names: BTreeSet<_> = recruits.iter().map(|recruit| secret_name(recruit.name.as_str())).collect();
    let gone: Vec<&Secret> = secrets.iter().filter(|secret| !names.contains(&secret.name_any())).collect();
    store.change(|members| revise(members, recruits, &gone)).await?;
    for secret in gone {
        store.drop_secret(secret).await?;
    }
    Ok(())
}

fn is_as(secret: &Secret, recruit: &Recruit, uid: &str) -> bool {
    let login = recruit.login.as_object().into_iter().flatten();
    let mut keys = login.map(|(key, value)| (key, value.as_str().unwrap_or_default()));
    let data = secret.data.clone().unwrap_or_default();
    let server = data.get(SERVER_KEY).is_some_and(|kept| kept.0 == recruit.server.as_bytes());
    secret.annotations().get(CLUSTER_UID).map(String::as_str) == Some(uid)
        && server
        && secret.labels().contains_key(MEMBER_SECRET)
        && keys.all(|(key, value)| data.get(key).is_some_and(|kept| kept.0 == value.as_bytes()))
}

/// Says whether anything is different afterwards.
fn revise(members: &mut Vec<MemberCluster>, recruits: &[Recruit], gone: &[&Secret]) -> bool {
    let before = members.clone();
    members.retain(|one| !gone.iter().any(|secret| secret.name_any() == one.secret));
    for recruit in recruits {
        let entry = MemberCluster {
            cluster_id: Claimed { name: None, value: recruit.name.to_string() },
            server: recruit.server.clone(),
            secret: secret_name(recruit.name.as_str()),
        };
        match members.iter_mut().find(|one| one.cluster_id.value == entry.cluster_id.value) {
            Some(known) => *known = entry,
            None => members.push(entry),
        }
    }
    *members != before
}
