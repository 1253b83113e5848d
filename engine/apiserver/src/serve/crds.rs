//! What follows from writing a CRD: its names are accepted, it is established, and when it goes, its
//! objects go first.
//!
//! On a stock server controllers do this a moment later; here it is done before the answer is sent, so a
//! client that asks next sees it.

use serde_json::{Value, json};

use super::call::Call;
use super::object::{self, Naming, metadata, text};
use super::ownership::Ownership;
use super::parts::Part;
use super::{Inner, write};
use crate::crd;
use crate::store::{Expect, Key, ListQuery, Op};

pub(crate) const CRDS: &str = "apiextensions.k8s.io/customresourcedefinitions";
const NAMING: Naming<'static> =
    Naming { kind: "CustomResourceDefinition", api_version: "apiextensions.k8s.io/v1" };
/// Holds a CRD until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Whether a resource is that of CRDs.
pub(crate) fn is_definition(call: &Call) -> bool {
    &*call.resource.storage == CRDS
}

/// Brings CRDs to where they must be after a request that may have changed one, or one's objects.
pub(crate) async fn after(call: &Call) {
    if matches!(call.info.verb, "get" | "list" | "watch") {
        return;
    }
    let server = &call.server;
    if is_definition(call) {
        for name in unsettled(server, &call.info.name) {
            settle(server, &name).await;
        }
    } else if let Some(custom) = &call.resource.custom {
        let name = custom.crd.full_name();
        if read(server, &name).is_some_and(|(crd, _)| is_going(&crd)) {
            settle(server, &name).await;
        }
    }
}

/// The definition that was written, and those that are not where they want to be: they may get a name now that another
/// had. Of the rest, which may be many and large, nothing but this is read.
fn unsettled(server: &Inner, written: &str) -> Vec<String> {
    let paths: Vec<Vec<String>> = [&["metadata", "deletionTimestamp"][..], &["spec", "names"], &["status"]]
        .iter()
        .map(|path| path.iter().map(|&key| key.to_owned()).collect())
        .collect();
    let found = server.store.list(&ListQuery::all(CRDS));
    let items = found.into_iter().flat_map(|found| found.items);
    let wanting = items.filter_map(|item| {
        let crd = object::branches(item.entry.revision, &item.entry.body, &paths);
        let going = is_going(&crd);
        let wants = &*item.name == written || going || !crd::is_settled(&crd);
        wants.then(|| (!going, item.name.to_string()))
    });
    // What goes leaves its names to the others.
    let mut wanting: Vec<(bool, String)> = wanting.collect();
    wanting.sort_unstable();
    wanting.into_iter().map(|(_, name)| name).collect()
}

/// All definitions of a group but one.
fn others(server: &Inner, name: &str, group: &str) -> Vec<Value> {
    let found = server.store.list(&ListQuery::all(CRDS));
    let items = found.into_iter().flat_map(|found| found.items);
    // A definition is named after its resource and its group.
    let suffix = format!(".{group}");
    items
        .filter(|item| &*item.name != name && item.name.ends_with(&suffix))
        .map(|item| object::of_entry(Some(NAMING), &item.entry))
        .collect()
}

fn read(server: &Inner, name: &str) -> Option<(Value, u64)> {
    let entry = server.store.get(&Key::new(CRDS, "", name))?;
    Some((object::of_entry(Some(NAMING), &entry), entry.revision))
}

fn is_going(crd: &Value) -> bool {
    !text(crd, &["metadata", "deletionTimestamp"]).is_empty()
}

/// Step by step, each its own write, as watchers of a stock server see it.
async fn settle(server: &Inner, name: &str) {
    while let Some((mut crd, revision)) = read(server, name) {
        let before = crd.clone();
        let op = if is_going(&crd) {
            match cleanup(server, &mut crd).await {
                Some(After::Gone) => Op::Delete { key: Key::new(CRDS, "", name), revision: Some(revision) },
                Some(After::Changed) => put(name, &crd, revision),
                None => return,
            }
        } else {
            let others = others(server, name, text(&crd, &["spec", "group"]));
            let changed = crd::accept_names(&mut crd, &others, &server.context)
                || crd::establish(&mut crd, &server.context);
            // Names that are refused once more are no news.
            if !changed || crd == before {
                return;
            }
            own(server, &before, &mut crd);
            put(name, &crd, revision)
        };
        // A conflict means that somebody else wrote it: look again.
        if let Err(error) = server.store.commit(vec![op]).await
            && !matches!(error, crate::store::CommitError::Conflict { .. })
        {
            tracing::error!(%error, name, "the status of a CRD could not be stored");
            return;
        }
    }
}

/// The status is the server's own work, and recorded as such.
fn own(server: &Inner, before: &Value, crd: &mut Value) {
    let resource = server.catalog().resource("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    if let Some(resource) = resource {
        Ownership::by(server, &resource, "kube-apiserver".to_owned(), Part::Status).update(Some(before), crd);
    }
}

fn put(name: &str, crd: &Value, revision: u64) -> Op {
    Op::Put {
        key: Key::new(CRDS, "", name),
        expect: Expect::Revision(revision),
        body: object::encode(crd).into(),
        labels: write::labels(crd),
    }
}

enum After {
    Changed,
    Gone,
}

/// Deletes the objects of a CRD that is going; once there are none it may go itself.
async fn cleanup(server: &Inner, crd: &mut Value) -> Option<After> {
    let finalizers = || crd["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers().iter().any(|one| one == CLEANUP) {
        return None;
    }
    let (group, plural) = (text(crd, &["spec", "group"]), text(crd, &["spec", "names", "plural"]));
    let resource = format!("{group}/{plural}");
    if delete_all(server, &resource).await > 0 {
        return None;
    }
    let rest: Vec<Value> = finalizers().into_iter().filter(|one| one != CLEANUP).collect();
    if rest.is_empty() {
        return Some(After::Gone);
    }
    metadata(crd).insert("finalizers".into(), rest.into());
    Some(After::Changed)
}

/// Deletes what can be deleted and marks the rest; tells how many objects are left.
async fn delete_all(server: &Inner, resource: &str) -> usize {
    let Ok(found) = server.store.list(&ListQuery::all(resource)) else { return usize::MAX };
    let mut left = 0;
    for item in &found.items {
        let key = Key::new(resource, item.namespace.clone(), item.name.clone());
        let mut object = object::of_entry(None, &item.entry);
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        let op = if !held {
            Op::Delete { key, revision: Some(item.entry.revision) }
        } else if text(&object, &["metadata", "deletionTimestamp"]).is_empty() {
            left += 1;
            let metadata = metadata(&mut object);
            metadata.insert("deletionTimestamp".into(), server.context.now_seconds().into());
            metadata.insert("deletionGracePeriodSeconds".into(), json!(0));
            let labels = write::labels(&object);
            let expect = Expect::Revision(item.entry.revision);
            Op::Put { key, expect, body: object::encode(&object).into(), labels }
        } else {
            left += 1;
            continue;
        };
        if server.store.commit(vec![op]).await.is_err() {
            left += usize::from(!held);
        }
    }
    left
}

/// What the deletion of a CRD adds to it.
pub(crate) fn mark_going(server: &Inner, crd: &mut Value) {
    let mut finalizers = crd["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if finalizers.iter().any(|one| one == CLEANUP) {
        return;
    }
    finalizers.push(CLEANUP.into());
    metadata(crd).insert("finalizers".into(), finalizers.into());
    let condition = json!({
        "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        "lastTransitionTime": server.context.now_seconds(),
    });
    match crd["status"]["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => crd["status"]["conditions"] = json!([condition]),
    }
}
