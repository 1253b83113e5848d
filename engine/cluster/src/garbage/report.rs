//! The event that tells a user why a dependent was collected although its owner seems to exist.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::PostParams;

use super::Collector;
use super::graph::{Identity, Owner};
use super::live::Error;
use super::names::Uid;
use crate::MANAGER;
use koinon_control::call::within_deadline;
use koinon_control::queue::Next;

const COMPONENT: &str = "garbage-collector-controller";

/// Records that a dependent names an owner that lives in another namespace.
pub(super) async fn foreign_owner(
    collector: &Collector,
    dependent: &Uid,
    owner: &Uid,
) -> Result<Next, Error> {
    let (item, reference) = {
        let graph = collector.graph.lock();
        (graph.item(dependent), graph.owners(dependent).iter().find(|one| one.uid == *owner).cloned())
    };
    let (Some(item), Some(reference)) = (item, reference) else { return Ok(Next::Done) };
    let now = collector.clock.now();
    let event = event(&item.identity, &reference, now);
    let namespace = event.metadata.namespace.clone().unwrap_or_default();
    let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
    let events: Api<Event> = Api::namespaced(collector.live.client.clone(), &namespace);
    match within_deadline(events.create(&params, &event)).await {
        // A namespace that is going takes no events, and one of this name tells the same.
        Err(error) if matches!(error.code(), Some(403 | 404 | 409)) => Ok(Next::Done),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(Next::Done),
    }
}

fn event(dependent: &Identity, owner: &Owner, now: jiff::Timestamp) -> Event {
    let namespace = if dependent.namespace.is_empty() { "default" } else { &dependent.namespace };
    let message = format!(
        "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {:?}",
        owner.kind.api_version(),
        owner.kind.name(),
        dependent.namespace,
        owner.name,
        owner.uid,
        dependent.namespace,
    );
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", dependent.name, now.as_nanosecond())),
            namespace: Some(namespace.into()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(dependent.kind.api_version().into()),
            kind: Some(dependent.kind.name().into()),
            namespace: Some(dependent.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
            name: Some(dependent.name.to_string()),
            uid: Some(dependent.uid.to_string()),
            ..ObjectReference::default()
        },
        type_: Some("Warning".into()),
        reason: Some("OwnerRefInvalidNamespace".into()),
        message: Some(message),
        source: Some(EventSource { component: Some(COMPONENT.into()), host: None }),
        reporting_component: Some(COMPONENT.into()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}
