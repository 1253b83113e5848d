//! One pass over a namespace: delete everything in it and see what is left.

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use super::plan::{self, Findings, Name};
use koinon_control::call::{Error, within_deadline};
use koinon_control::clock::Clock;
use koinon_control::discovery::{Catalog, Metadata, Served};

/// Resources that are emptied at the same time.
const AT_ONCE: usize = 8;
const PAGE: u32 = 250;

/// Deletes the content of a namespace. Pods go first, and while any is left nothing else does: they may
/// need the rest to end in good order.
pub(super) async fn sweep(client: &Client, clock: &Clock, namespace: &str, deleted: Timestamp) -> Findings {
    let mut findings = Findings::default();
    let catalog = match Catalog::discover(client).await {
        Ok(catalog) => catalog,
        Err(error) => {
            findings.discovery_failed(error.to_string());
            return findings;
        }
    };
    if let Some(failure) = catalog.failure() {
        findings.discovery_failed(failure);
    }
    let deletable = |served: &&std::sync::Arc<Served>| served.namespaced && served.allows("delete");
    let (pods, others): (Vec<_>, Vec<_>) =
        catalog.preferred().filter(deletable).cloned().partition(|served| served.is("", "pods"));
    for pods in pods {
        match grace_left(client, clock, namespace, deleted).await {
            Ok(estimate) => {
                empty(client, namespace, &pods).await.note(&mut findings, namespace, &pods, estimate)
            }
            Err(error) => findings.failed(error.to_string()),
        }
    }
    if !findings.is_empty() {
        return findings;
    }
    let mut emptied = futures::stream::iter(others)
        .map(|served| async move {
            let outcome = empty(client, namespace, &served).await;
            (served, outcome)
        })
        .buffer_unordered(AT_ONCE);
    while let Some((served, outcome)) = emptied.next().await {
        outcome.note(&mut findings, namespace, &served, 0);
    }
    findings
}

struct Outcome(Result<Vec<ObjectMeta>, Error>);

impl Outcome {
    fn note(self, findings: &mut Findings, namespace: &str, served: &Served, estimate: u64) {
        let resource = &served.resource;
        let name = Name { group: &resource.group, version: &resource.version, resource: &resource.plural };
        match self.0 {
            Ok(left) => findings.left(namespace, &name, &left, estimate),
            Err(error) => findings.failed(error.to_string()),
        }
    }
}

async fn empty(client: &Client, namespace: &str, served: &Served) -> Outcome {
    Outcome(delete_all(client, namespace, served).await)
}

/// Deletes all objects of a resource that are not going already; gives back what is left.
async fn delete_all(client: &Client, namespace: &str, served: &Served) -> Result<Vec<ObjectMeta>, Error> {
    if !served.allows("list") {
        return Ok(Vec::new());
    }
    let api = served.metadata_in(client, namespace);
    let found = remaining(&api).await?;
    // Nothing is written about what goes by itself: a namespace that waits is at rest.
    if found.iter().all(|object| object.deletion_timestamp.is_some()) {
        return Ok(found);
    }
    let background = DeleteParams::background();
    let as_one = served.allows("deletecollection")
        && match within_deadline(api.delete_collection(&background, &ListParams::default())).await {
            Ok(_) => true,
            Err(error) if matches!(error.code(), Some(404 | 405)) => false,
            Err(error) => return Err(error),
        };
    if !as_one {
        for name in found.iter().filter_map(|object| object.name.as_deref()) {
            match within_deadline(api.delete(name, &background)).await {
                Err(error) if !matches!(error.code(), Some(404 | 405)) => return Err(error),
                _ => {}
            }
        }
    }
    remaining(&api).await
}

/// A kind that went away since discovery has nothing left.
async fn remaining(api: &Api<Metadata>) -> Result<Vec<ObjectMeta>, Error> {
    match all(api, |object| object.metadata).await {
        Err(error) if matches!(error.code(), Some(404 | 405)) => Ok(Vec::new()),
        other => other,
    }
}

/// Lists page by page and keeps of each object only what is asked for.
async fn all<K, T>(api: &Api<K>, keep: impl Fn(K) -> T) -> Result<Vec<T>, Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut kept = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = within_deadline(api.list(&params)).await?;
        kept.extend(page.items.into_iter().map(&keep));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(kept),
        }
    }
}

async fn grace_left(
    client: &Client,
    clock: &Clock,
    namespace: &str,
    deleted: Timestamp,
) -> Result<u64, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let grace = all(&pods, |pod| {
        let ended =
            matches!(pod.status.and_then(|status| status.phase).as_deref(), Some("Succeeded" | "Failed"));
        pod.spec.and_then(|spec| spec.termination_grace_period_seconds).filter(|_| !ended)
    });
    Ok(plan::grace_left(grace.await?.into_iter().flatten(), deleted, clock.now()))
}
