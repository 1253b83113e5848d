//! Carries out what was planned for one member.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use k8s_openapi::api::core::v1::Namespace;
use koinon_control::Key;
use koinon_control::writes::written_by;
use kube::api::{DeleteParams, Preconditions};
use kube::core::{DynamicObject, ObjectMeta};
use kube::{Api, Client, ResourceExt as _};

use crate::call::{Failure, within};
use crate::model::Kind;
use crate::names::FIELD_MANAGER;
use crate::plan::{Outcome, Write};

/// So many writes to one member are on their way at once.
const AT_ONCE: usize = 8;

/// Does all of it, whatever comes of each, and tells what did.
pub(crate) async fn carry_out(
    client: &Client,
    writes: Vec<Write>,
    deadline: Duration,
) -> Vec<(Write, Outcome)> {
    let one = |write: Write| async move {
        let outcome = outcome(&write, attempt(client, &write, deadline).await);
        (write, outcome)
    };
    stream::iter(writes).map(one).buffer_unordered(AT_ONCE).collect().await
}

fn outcome(write: &Write, result: Result<Option<DynamicObject>, Failure>) -> Outcome {
    match (result, write) {
        (Ok(object), _) => {
            Outcome::Done { resource_version: object.and_then(|object| object.resource_version()) }
        }
        (Err(failure), Write::Delete { .. }) if failure.code == Some(404) => {
            Outcome::Done { resource_version: None }
        }
        (Err(failure), Write::Replace { .. }) if failure.code == Some(404) => Outcome::Conflict,
        (Err(failure), _) if failure.code == Some(409) => Outcome::Conflict,
        (Err(failure), _) => Outcome::Failed(failure.to_string()),
    }
}

async fn attempt(
    client: &Client,
    write: &Write,
    deadline: Duration,
) -> Result<Option<DynamicObject>, Failure> {
    let key = write.key();
    let api = api(client, write.kind(), &key);
    let params = written_by(FIELD_MANAGER);
    match write {
        Write::Create { object, .. } => {
            let created = within(deadline, api.create(&params, object)).await;
            match created {
                Err(failure) if failure.namespace_missing => {
                    create_namespace(client, &key.namespace, deadline).await?;
                    within(deadline, api.create(&params, object)).await.map(Some)
                }
                created => created.map(Some),
            }
        }
        Write::Replace { object, .. } => {
            within(deadline, api.replace(&key.name, &params, object)).await.map(Some)
        }
        Write::Delete { uid, resource_version, .. } => {
            let preconditions =
                Preconditions { uid: Some(uid.clone()), resource_version: Some(resource_version.clone()) };
            let params = DeleteParams::default().preconditions(preconditions);
            within(deadline, api.delete(&key.name, &params)).await.map(|_| None)
        }
    }
}

fn api(client: &Client, kind: &Kind, key: &Key) -> Api<DynamicObject> {
    if key.namespace.is_empty() {
        Api::all_with(client.clone(), &kind.resource())
    } else {
        Api::namespaced_with(client.clone(), &key.namespace, &kind.resource())
    }
}

/// A namespace that the leader has and a member lacks is made there, and never deleted.
async fn create_namespace(client: &Client, name: &str, deadline: Duration) -> Result<(), Failure> {
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    let params = written_by(FIELD_MANAGER);
    match within(deadline, Api::<Namespace>::all(client.clone()).create(&params, &namespace)).await {
        Err(failure) if failure.code != Some(409) => Err(failure),
        Ok(_) | Err(_) => Ok(()),
    }
}
