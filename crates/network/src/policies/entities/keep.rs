//! Keeps the external entities of a member that is led as they should be.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::names::network::SLICES_MANAGER;
use koinon_api::names::{MANAGED_BY, MANAGER};
use koinon_control::Key;
use koinon_control::call::within_deadline;
use koinon_fleet::{Index, Knowledge, Record, Selection, Unserved};
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;
use tokio::sync::Notify;

use super::plan::{Made, Portion, Step, entities, plan};
use crate::policies::names;
use crate::post::Post;

/// Changes that come together are taken together.
const GATHER: Duration = Duration::from_millis(100);
const AGAIN: Duration = Duration::from_secs(10);

impl Record for Portion {
    type Object = EndpointSlice;

    fn fold(slice: &EndpointSlice) -> Option<Portion> {
        Portion::of(slice)
    }
}

impl Record for Made {
    type Object = DynamicObject;

    fn fold(object: &DynamicObject) -> Option<Made> {
        Some(Made {
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            labels: object.labels().clone(),
            spec: object.data.get("spec").cloned().unwrap_or(Value::Null),
        })
    }
}

/// Looks after the external entities of a member for as long as it is polled.
pub async fn run(post: Post) -> Infallible {
    let (portions, made) = (Index::<Portion>::new(), Index::<Made>::new());
    let wake = Arc::new(Notify::new());
    let (of_slices, of_entities) = (wake.clone(), wake.clone());
    portions.on_change(move |_| of_slices.notify_one());
    made.on_change(move |_| of_entities.notify_one());
    let slices = Selection {
        labels: Some(format!("endpointslice.kubernetes.io/managed-by={SLICES_MANAGER}")),
        ..Selection::default()
    };
    let ours = Selection { labels: Some(selector()), unserved: Unserved::Empty, ..Selection::default() };
    let keep = async {
        loop {
            let again = tokio::time::sleep(AGAIN);
            let all_well = put_right(&post, &portions, &made).await;
            tokio::select! {
                biased;
                () = wake.notified() => tokio::time::sleep(GATHER).await,
                () = again, if !all_well => {}
            }
        }
    };
    let client = post.client();
    let entities_here = client.dynamic(&resource(), None);
    tokio::select! {
        biased;
        never = post.fleet.follow_member(&post.member, portions.clone(), slices, client.all()) => never,
        never = post.fleet.follow_member(&post.member, made.clone(), ours, entities_here) => never,
        never = keep => never,
    }
}

/// Writes what differs; says whether all of it worked.
async fn put_right(post: &Post, portions: &Index<Portion>, made: &Index<Made>) -> bool {
    let me = post.name().as_str();
    let is_known = |knowledge| knowledge == Knowledge::Complete;
    if !is_known(portions.knowledge(me)) || !is_known(made.knowledge(me)) {
        // What becomes known announces itself.
        return true;
    }
    let seen = portions.of_member(me);
    let wanted = entities(seen.iter().map(|(key, portion)| (&*key.namespace, &**portion)));
    let there = made.of_member(me);
    let mut all_well = true;
    for step in plan(&wanted, there.iter().map(|(key, made)| (key, &**made))) {
        if !post.fence.holds() {
            return false;
        }
        let (Step::Create(key) | Step::Replace(key, _) | Step::Delete(key, _)) = &step;
        let api: Api<DynamicObject> = post.client().dynamic(&resource(), Some(&key.namespace));
        let object = |over: Option<&str>| -> Option<DynamicObject> {
            serde_json::from_value(wanted.get(key)?.object(key, over)).ok()
        };
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let written = match (&step, object(None)) {
            (Step::Create(_), Some(object)) => {
                post.client().call(api.create(&params, &object)).await.map(Some)
            }
            (Step::Replace(_, version), Some(_)) => {
                let Some(object) = object(Some(version)) else { continue };
                post.client().call(api.replace(&key.name, &params, &object)).await.map(Some)
            }
            (Step::Delete(_, uid), _) => {
                post.client().call(api.delete(&key.name, &only(uid))).await.map(|_| None)
            }
            (Step::Create(_) | Step::Replace(..), None) => continue,
        };
        match (written, &step) {
            (Ok(Some(object)), _) => made.learn(post.name(), &object),
            (Ok(None), Step::Delete(key, uid)) => made.forget(post.name(), key, uid),
            (Ok(None), _) => {}
            (Err(error), _) => {
                tracing::debug!(member = me, %key, %error, "an external entity was not written");
                all_well = false;
            }
        }
    }
    all_well
}

/// Removes the external entities of a cluster that takes part no more; says whether all are gone.
pub async fn withdraw(cluster: Client) -> bool {
    let api: Api<DynamicObject> = Api::all_with(cluster.clone(), &resource());
    let found = match within_deadline(api.list(&ListParams::default().labels(&selector()))).await {
        Ok(found) => found,
        Err(error) => return error.is_path_unknown(),
    };
    let mut all_well = true;
    for entity in found {
        let key = Key::of(&entity);
        let api: Api<DynamicObject> = Api::namespaced_with(cluster.clone(), &key.namespace, &resource());
        let uid = entity.uid().unwrap_or_default();
        if let Err(error) = within_deadline(api.delete(&key.name, &only(&uid))).await {
            all_well &= error.is_object_absent();
        }
    }
    all_well
}

fn only(uid: &str) -> DeleteParams {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

fn selector() -> String {
    format!("{MANAGED_BY}={MANAGER},{}={}", names::ENTITY_KIND, names::ENTITY_KIND_VALUE)
}

fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(names::GROUP, names::ENTITY_VERSION, "ExternalEntity");
    ApiResource::from_gvk_with_plural(&kind, "externalentities")
}
