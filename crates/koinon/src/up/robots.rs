//! The rights of the sync role inside `up`: what it may do follows the definitions that ask for it, on both sides, as if
//! `koinon install rbac --role sync --crds` were applied again whenever one changes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use koinon_api::rights::Account;
use koinon_control::View;
use koinon_control::queue::{Next, Queue, work};
use koinon_sync::manifests::{self, Grant, ROBOTS};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::Value;

use super::rights;

/// Between attempts where a server refuses: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(30)];

/// The account of a member as a robot of the federation.
pub(super) fn account(member: &str) -> Account<'_> {
    Account { namespace: ROBOTS, name: member }
}

/// What the robots may do on the federation's API server.
pub(super) fn in_cloud(grants: &[Grant]) -> Vec<Value> {
    [manifests::cloud(grants), manifests::admission(grants)].concat()
}

/// Keeps what definitions need applied in one cluster, for as long as it is polled.
pub(super) async fn keep(client: Client, cluster: &str, wanted: fn(&[Grant]) -> Vec<Value>) -> Infallible {
    let definitions = View::<CustomResourceDefinition>::keeping(slim);
    let [first, longest] = PAUSES;
    let queue = Arc::new(Queue::new(first, longest));
    let changed = queue.clone();
    definitions.on_change(move |_, _| changed.add(()));
    // What is the same in every start was applied before.
    let applied = Mutex::new(Vec::new());
    let handle = |()| {
        let grants = grants(&definitions.all());
        let (client, applied) = (client.clone(), &applied);
        async move {
            if grants == *applied.lock() {
                return Next::Done;
            }
            match rights::put(&client, cluster, wanted(&grants)).await {
                Ok(()) => {
                    *applied.lock() = grants;
                    Next::Done
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(cluster, error, "the rights of the sync are not as its definitions ask");
                    Next::Retry
                }
            }
        }
    };
    tokio::select! {
        biased;
        never = definitions.follow(Api::all(client.clone())) => never,
        never = work(&queue, 1, handle) => never,
    }
}

/// What the definitions that ask for a sync need, in a fixed order. One with a mistake is told by the sync itself.
fn grants(definitions: &[Arc<CustomResourceDefinition>]) -> Vec<Grant> {
    let mut named: Vec<(String, Grant)> = definitions
        .iter()
        .filter_map(|definition| {
            let value = serde_json::to_value(&**definition).ok()?;
            let name = value["metadata"]["name"].as_str()?.to_owned();
            Some((name, Grant::of(&value).ok()??))
        })
        .collect();
    named.sort_by(|(one, _), (other, _)| one.cmp(other));
    named.into_iter().map(|(_, grant)| grant).collect()
}

/// Schemas are most of a definition, and no right depends on them.
fn slim(definition: &mut CustomResourceDefinition) {
    for version in &mut definition.spec.versions {
        version.schema = None;
    }
}
