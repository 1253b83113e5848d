//! A way to every member for a command that looks at what is in them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use koinon_api::membership::ClusterId;
use koinon_control::bounds::{Bounds, limiting};
use koinon_control::client::Keepalive;
use koinon_control::words::{SENTENCE, clean};
use kube::Client;
use tokio::time::timeout;

use super::Error;
use super::federation_store::{FederationStore, uid};
use super::formation::{Entry, Way};
use super::join::said;
use super::list::ways;

/// Members are asked side by side, so that one that is away costs this much in all.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client of every member of the federation's API server, or why there is none. Each is the cluster that joined: another one that
/// answers at its address is not reached.
pub async fn clients(federation: &Client) -> Result<BTreeMap<ClusterId, Result<Client, String>>, Error> {
    // Boxed: much is waited for here, and whoever waits for this would carry all of it.
    Box::pin(gather(federation)).await
}

async fn gather(federation: &Client) -> Result<BTreeMap<ClusterId, Result<Client, String>>, Error> {
    let store = FederationStore::new(federation.clone());
    let Some(known) = store.federation().await? else { return Ok(BTreeMap::new()) };
    let members = ways(&store, known).await?;
    let each = members.into_iter().map(|(id, entry)| async move {
        let client = timeout(PATIENCE, connect(federation, entry, Bounds::default())).await;
        let client = client.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
        (id, client.map(|(client, _)| client).map_err(|why| clean(&why, SENTENCE)))
    });
    Ok(join_all(each).await.into_iter().collect())
}

/// A client of one member, and the UID of the cluster that answers.
pub(super) async fn connect(
    federation: &Client,
    entry: Entry,
    bounds: Bounds,
) -> Result<(Client, String), String> {
    let client = match entry.way {
        Way::Local => federation.clone(),
        Way::Login(credentials) => {
            let client =
                credentials.connect(Keepalive::default()).await.map_err(|error| error.to_string())?;
            limiting(client, bounds)
        }
        Way::None(why) => return Err(why),
    };
    let seen = uid(&client).await.map_err(|error| said(&error))?;
    if entry.uid.is_some_and(|expected| expected != seen) {
        return Err("another cluster answers at its address".into());
    }
    Ok((client, seen))
}
