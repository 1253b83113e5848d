//! `members`: how every member is, asked at this moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use koinon_api::membership::{ClusterId, Federation, KOINON_NAMESPACE, MemberStatus, Phase};
use koinon_api::names::{LEASE_NAMESPACE, workloads};
use koinon_control::bounds::Bounds;
use koinon_control::call::within_deadline;
use koinon_control::words::{SENTENCE, clean};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::timeout;

use super::Error;
use super::clients::connect;
use super::federation_store::FederationStore;
use super::formation::{Entry, Role, Way, formation};
use crate::member::cause;

/// Members are asked side by side, so that one that is away costs this much in all.
const PATIENCE: Duration = Duration::from_secs(5);
/// A Lease is over this long after it should have been renewed: the clocks of its holder and of whoever asks may differ.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60);

/// Little is asked of a member, so little may come back.
pub(super) const BOUNDS: Bounds = Bounds { answer: 1 << 20, line: 1 << 20 };

/// One member, as `members` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub name: String,
    /// The UID of its `kube-system` namespace, where it is known.
    pub id: Option<String>,
    pub phase: Phase,
    pub error: Option<String>,
    /// Its address, as the Federation has it.
    pub server: String,
    pub version: Option<String>,
    pub nodes: Option<u64>,
    /// Who leads it: a cluster, or the replica of the role that works with all members.
    pub leader: Option<String>,
    /// When the federation saw it last, of one that is unreachable; nothing if that is not known.
    pub last_seen: Option<Timestamp>,
}

/// All members, by name: those of the federation's API server, or, where none are written down, those of the cluster
/// that is asked.
pub async fn list(federation: &Client, now: Timestamp) -> Result<Vec<Row>, Error> {
    // Boxed: much is waited for here, and whoever waits for this would carry all of it.
    Box::pin(gather(federation, now)).await
}

async fn gather(federation: &Client, now: Timestamp) -> Result<Vec<Row>, Error> {
    let mut store = FederationStore::new(federation.clone());
    let mut known = store.federation().await?;
    if known.is_none() {
        store = FederationStore::of_cluster(federation.clone());
        known = store.federation().await?;
    }
    let Some(known) = known else { return Ok(Vec::new()) };
    let status = known.status.clone().unwrap_or_default();
    let addresses: BTreeMap<String, String> = {
        let members = known.spec.members.iter();
        members.map(|one| (one.cluster_id.value.clone(), one.server.clone())).collect()
    };
    let members = ways(&store, known).await?;
    let leader = match store.namespace() {
        KOINON_NAMESPACE => holder(federation, now).await,
        _ => None,
    };
    let asked = members.into_iter().map(|(id, mut entry)| {
        let said = status.member_status.iter().find(|one| one.cluster_id == id.as_str()).cloned();
        if status.cluster_id.as_deref() == Some(id.as_str()) {
            entry.way = Way::Local;
        }
        row(federation, id, entry, said, leader.clone())
    });
    let mut rows = join_all(asked).await;
    for row in &mut rows {
        row.server = addresses.get(&row.name).cloned().unwrap_or_default();
    }
    Ok(rows.into_iter().map(shown).collect())
}

/// A row fit for a terminal: what a member says of itself is in it.
fn shown(row: Row) -> Row {
    let cleaned = |text: Option<String>, most| text.map(|text| clean(&text, most));
    Row {
        id: cleaned(row.id, 128),
        error: cleaned(row.error, SENTENCE),
        version: cleaned(row.version, 64),
        leader: cleaned(row.leader, 253),
        ..row
    }
}

/// How each member is reached.
pub(super) async fn ways(
    store: &FederationStore,
    federation: Federation,
) -> Result<BTreeMap<ClusterId, Entry>, Error> {
    let mut secrets = BTreeMap::new();
    for member in &federation.spec.members {
        if let Some(secret) = store.secret(&member.secret).await? {
            secrets.insert(member.secret.clone(), Arc::new(secret));
        }
    }
    Ok(formation(store.namespace(), &Role::Federation, &[Arc::new(federation)], &secrets).members)
}

/// The replica that leads all members of the federation's API server, if the role runs with an election.
async fn holder(federation: &Client, now: Timestamp) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(federation.clone(), LEASE_NAMESPACE);
    let lease = within_deadline(leases.get_opt(workloads::ROLE)).await.ok().flatten()?;
    holds(&lease, now)
}

/// Who holds a Lease, unless it has run out.
fn holds(lease: &Lease, now: Timestamp) -> Option<String> {
    let spec = lease.spec.as_ref()?;
    let lasts = Duration::from_secs(spec.lease_duration_seconds?.try_into().ok()?);
    let until = spec.renew_time.as_ref()?.0 + lasts + CLOCKS_DIFFER;
    spec.holder_identity.clone().filter(|holder| !holder.is_empty() && now <= until)
}

async fn row(
    federation: &Client,
    id: ClusterId,
    entry: Entry,
    said: Option<MemberStatus>,
    leader: Option<String>,
) -> Row {
    let expected = entry.uid.clone();
    let seen = timeout(PATIENCE, ask(federation, entry)).await;
    let seen = seen.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
    let leader = said.as_ref().and_then(|said| said.leader.clone()).or(leader);
    let name = id.to_string();
    let away = said.as_ref().filter(|said| said.status == Phase::Unreachable);
    let last_seen = away.and_then(|away| away.last_seen.as_ref()).map(|seen| seen.0);
    match seen {
        Ok((version, nodes, id)) => {
            // That it answers here does not help a federation that cannot reach it.
            let error = away.map(|away| {
                let why = away.error.as_deref().unwrap_or("no reason was written down");
                format!("the federation does not reach it ({why}); from here it answers")
            });
            let phase = if error.is_some() { Phase::Unreachable } else { Phase::Reachable };
            let (id, version) = (Some(id), Some(version));
            Row { name, id, phase, error, server: String::new(), version, nodes, leader, last_seen }
        }
        Err(why) => Row {
            name,
            id: expected,
            phase: Phase::Unreachable,
            error: Some(why),
            server: String::new(),
            version: said.as_ref().and_then(|said| said.version.clone()),
            nodes: None,
            leader,
            last_seen,
        },
    }
}

async fn ask(federation: &Client, entry: Entry) -> Result<(String, Option<u64>, String), String> {
    let (client, seen) = connect(federation, entry, BOUNDS).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_row_moves_the_cursor() {
        let loud = || Some(format!("v1\u{1b}[2J\n{}", "x".repeat(1 << 20)));
        let row = shown(Row {
            name: "a".into(),
            id: loud(),
            phase: Phase::Reachable,
            error: loud(),
            server: String::new(),
            version: loud(),
            nodes: None,
            leader: loud(),
            last_seen: None,
        });
        for text in [row.id, row.error, row.version, row.leader].map(Option::unwrap) {
            assert!(text.starts_with("v1 [2J xxx") && text.len() < 2000, "{text}");
            assert!(!text.contains(char::is_control), "{text:?}");
        }
    }

    #[test]
    fn a_lease_that_ran_out_is_held_by_nobody() {
        let lease: Lease = serde_json::from_value(serde_json::json!({"spec": {
            "holderIdentity": "12_abc", "leaseDurationSeconds": 30, "renewTime": "2026-01-01T00:00:00.000000Z",
        }}))
        .unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(holds(&lease, at("2026-01-01T00:00:10Z")).as_deref(), Some("12_abc"));
        assert_eq!(
            holds(&lease, at("2025-12-31T23:59:00Z")).as_deref(),
            Some("12_abc"),
            "its clock is ahead"
        );
        assert_eq!(holds(&lease, at("2026-01-01T00:02:00Z")), None);
        assert_eq!(holds(&Lease::default(), at("2026-01-01T00:00:10Z")), None);
    }
}
