//! `members`: how every member is, asked at this moment.

use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use koinon_api::membership::{CLUSTER_UID, MemberCluster, MemberStatus, Phase};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::timeout;

use super::Error;
use super::books::{Books, uid};
use super::join::said;
use crate::member::{Credentials, cause};

/// Members are asked side by side, so that one that is away costs this much in all.
const PATIENCE: Duration = Duration::from_secs(5);

/// One member, as `members` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub name: String,
    /// The UID of its `kube-system` namespace, where it is known.
    pub id: Option<String>,
    pub phase: Phase,
    pub error: Option<String>,
    pub version: Option<String>,
    pub nodes: Option<u64>,
    pub leader: Option<String>,
    /// Since when it has not been seen; nothing if it was seen just now, or never.
    pub gone_since: Option<Timestamp>,
}

/// All members, by name.
pub async fn list(federation: &Client) -> Result<Vec<Row>, Error> {
    let books = Books::new(federation.clone());
    let known = books.federation().await?.unwrap_or_default();
    let status = known.status.unwrap_or_default();
    let mut asked = Vec::new();
    for member in known.spec.members {
        let secret = books.secret(&member.secret).await?;
        let said = status.member_status.iter().find(|one| one.cluster_id == member.cluster_id.value).cloned();
        let login = match &secret {
            Some(secret) => {
                Credentials::from_secret(&member.server, secret).map_err(|error| error.to_string())
            }
            None => Err(missing(&member)),
        };
        let expected = secret.and_then(|secret| secret.annotations().get(CLUSTER_UID).cloned());
        asked.push(row(member, said, login, expected));
    }
    let mut rows = join_all(asked).await;
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(rows)
}

fn missing(member: &MemberCluster) -> String {
    if member.secret.is_empty() {
        "its entry in the Federation names no Secret".into()
    } else {
        format!("the Secret {} does not exist", member.secret)
    }
}

async fn row(
    member: MemberCluster,
    said: Option<MemberStatus>,
    login: Result<Credentials, String>,
    expected: Option<String>,
) -> Row {
    let expected = expected.or_else(|| said.as_ref().and_then(|said| said.uid.clone()));
    let seen = match login {
        Err(why) => Err(why),
        Ok(credentials) => {
            let asked = timeout(PATIENCE, ask(&credentials, expected.as_deref())).await;
            asked.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
        }
    };
    let leader = said.as_ref().and_then(|said| said.leader.clone());
    let name = member.cluster_id.value;
    match seen {
        Ok((version, nodes, id)) => {
            // That it answers here does not help a federation that cannot reach it.
            let away = said.filter(|said| said.status == Phase::Unreachable);
            let gone_since = away.as_ref().and_then(|away| away.since.as_ref()).map(|since| since.0);
            let error = away.map(|away| {
                let why = away.error.unwrap_or_else(|| "no reason was written down".into());
                format!("the federation does not reach it ({why}); from here it answers")
            });
            let phase = if error.is_some() { Phase::Unreachable } else { Phase::Reachable };
            let (id, version) = (Some(id), Some(version));
            Row { name, id, phase, error, version, nodes, leader, gone_since }
        }
        Err(why) => Row {
            name,
            id: expected,
            phase: Phase::Unreachable,
            error: Some(why),
            version: said.as_ref().and_then(|said| said.version.clone()),
            nodes: None,
            leader,
            gone_since: said
                .filter(|said| said.status == Phase::Unreachable)
                .and_then(|said| said.since)
                .map(|since| since.0),
        },
    }
}

async fn ask(
    credentials: &Credentials,
    expected: Option<&str>,
) -> Result<(String, Option<u64>, String), String> {
    let client = credentials.connect().await.map_err(|error| error.to_string())?;
    let seen = uid(&client).await.map_err(|error| said(&error))?;
    if expected.is_some_and(|expected| expected != seen) {
        return Err("another cluster answers at its address".into());
    }
    let version = client.apiserver_version().await.map_err(|error| cause(&error))?.git_version;
    let nodes: Api<Node> = Api::all(client);
    // One node and how many more there are is the cheapest way to count.
    let first = nodes.list_metadata(&ListParams::default().limit(1)).await.ok();
    let count = first.map(|list| {
        let more = list.metadata.remaining_item_count.and_then(|more| u64::try_from(more).ok()).unwrap_or(0);
        list.items.len() as u64 + more
    });
    Ok((version, count, seen))
}
