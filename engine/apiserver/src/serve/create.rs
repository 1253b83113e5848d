//! Create: from an object that a client sent to one that is stored.

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::admit::Write;
use super::call::{Call, store_form};
use super::object::{metadata, text};
use super::ownership::Ownership;
use super::parts::Part;
use super::query::FieldValidation;
use super::respond::Reply;
use super::write::{self, Managed, Stored};
use super::{admit, incoming, services, warn};
use crate::admission::Operation;
use crate::kinds::warnings::{Seen, deduplicate_owners};
use crate::kinds::{self, Generation};
use crate::status::{Error, Result};
use crate::store::{CommitError, Entry, Expect, Op};

/// How often another name is tried when a generated one is taken.
const NAME_TRIES: usize = 8;

pub(crate) async fn create(call: &mut Call, body: Bytes) -> Result<Reply> {
    let dry_run = call.query.dry_run("CreateOptions")?;
    let validation = call.query.field_validation("CreateOptions")?;
    write::check_field_manager(call, "CreateOptions")?;
    let mut object = decode(call, &body, validation)?;
    call.warnings.extend(deduplicate_owners(&mut object, Seen::InRequest));
    // Other ways to create something keep these, for what that is worth.
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata(&mut object).remove(key);
    }
    let stored = insert(call, object, Managed::Track, dry_run).await?;
    call.reply(StatusCode::CREATED, stored.revision, &stored.body)
}

fn decode(call: &mut Call, body: &[u8], validation: FieldValidation) -> Result<Value> {
    let parsed = incoming::read(&call.resource, &call.headers, body, validation, &mut call.warnings)?;
    call.empties = incoming::empties(&parsed.json);
    incoming::object(&call.resource, parsed, validation, &mut call.warnings)
}

/// Stores a new object. The name may still have to be generated, which comes after everybody who may change the object.
pub(crate) async fn insert(
    call: &mut Call,
    mut object: Value,
    managed: Managed,
    dry_run: bool,
) -> Result<Stored> {
    write::check_namespace(call, &mut object)?;
    metadata(&mut object).remove("selfLink");
    // What admission adds belongs to nobody.
    if managed == Managed::Track {
        let part = Part::of(&call.info.subresource).unwrap_or(Part::Whole);
        Ownership::of(call, part).update(None, &mut object);
    }
    let name = text(&object, &["metadata", "name"]).to_owned();
    admit::mutate(call, &creation(&name, dry_run), &mut object).await?;
    call.warnings.extend(deduplicate_owners(&mut object, Seen::AfterMutation));
    warn::of_new(call, &object);

    let base = text(&object, &["metadata", "generateName"]).to_owned();
    if base.is_empty() || !text(&object, &["metadata", "name"]).is_empty() {
        let stored = insert_once(call, object, dry_run).await;
        return stored.map_err(|error| if base.is_empty() { error } else { no_unique_name(error) });
    }
    for _ in 1..NAME_TRIES {
        let mut candidate = object.clone();
        generate_name(call, &base, &mut candidate);
        match insert_once(call, candidate, dry_run).await {
            Err(error) if error.reason == "AlreadyExists" => {}
            result => return result,
        }
    }
    generate_name(call, &base, &mut object);
    insert_once(call, object, dry_run).await.map_err(no_unique_name)
}

fn creation(name: &str, dry_run: bool) -> Write<'_> {
    Write { operation: Operation::Create, part: Part::Whole, name, old: None, dry_run, deletion: None }
}

fn generate_name(call: &Call, base: &str, object: &mut Value) {
    const LONGEST_BASE: usize = 63 - 5;
    let base: String = base.chars().take(LONGEST_BASE).collect();
    let name = format!("{base}{}", call.server.context.name_suffix());
    metadata(object).insert("name".into(), name.into());
}

async fn insert_once(call: &mut Call, mut object: Value, dry_run: bool) -> Result<Stored> {
    let name = text(&object, &["metadata", "name"]).to_owned();
    prepare(call, &mut object);
    let mut allocation = services::allocate(call, &mut object, None).await?;
    let errors = write::validate_create(call, &object);
    if !errors.is_empty() {
        return Err(Error::invalid(&call.resource.group, &call.resource.kind, &name, &errors));
    }
    warn::of_write(call, Part::Whole, &object, None);
    if text(&object, &["metadata", "resourceVersion"]).parse::<u64>().is_ok_and(|revision| revision > 0) {
        return Err(Error::new(500, "", "resourceVersion should not be set on objects to be created"));
    }
    let _turn = admit::validate(call, &creation(&name, dry_run), Some(&object)).await?;
    write::check_depth(&object, None)?;
    let key = call.key(&name);
    let body = store_form(&call.resource, &object);
    if dry_run {
        return match call.server.store.get(&key) {
            Some(entry) => Err(already_exists(call, &name, Some(&entry))),
            None => Ok(Stored { revision: 0, body }),
        };
    }
    let labels = write::labels(&object);
    let mut ops = vec![Op::Put { key, expect: Expect::Absent, body: body.clone(), labels }];
    ops.append(&mut allocation.ops);
    match call.server.store.commit(ops).await {
        Ok(committed) => Ok(Stored { revision: committed.revisions[0], body }),
        Err(CommitError::Conflict { index: 0, current }) => {
            Err(already_exists(call, &name, current.as_deref()))
        }
        Err(error) => Err(write::commit_failed(&error)),
    }
}

/// Whoever has the server choose the name may try again, if it was the name.
fn no_unique_name(mut error: Error) -> Error {
    if error.reason != "AlreadyExists" {
        return error;
    }
    let taken = error.message.rsplit("object is being deleted: ").next().unwrap_or_default();
    error.message = format!("{taken}, the server was not able to generate a unique name for the object");
    if let Some(details) = error.details.as_deref_mut() {
        details["retryAfterSeconds"] = 1.into();
    }
    error
}

fn already_exists(call: &Call, name: &str, current: Option<&Entry>) -> Error {
    let mut error = Error::already_exists(&call.resource.group_resource(), name);
    let going = current.is_some_and(|entry| {
        let object = call.value(entry.revision, &entry.body);
        !text(&object, &["metadata", "deletionTimestamp"]).is_empty()
    });
    if going {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}

/// What the server decides about a new object, whatever the client wrote.
fn prepare(call: &Call, object: &mut Value) {
    let strategy = call.strategy();
    let context = &call.server.context;
    // A node says how it is when it registers.
    if strategy.status
        && &*call.resource.storage != "/nodes"
        && let Some(object) = object.as_object_mut()
    {
        object.remove("status");
    }
    let metadata = metadata(object);
    metadata.insert("uid".into(), context.uid().into());
    metadata.insert("creationTimestamp".into(), context.now_seconds().into());
    match strategy.generation {
        Generation::Never => {}
        Generation::Spec | Generation::SpecAndAnnotations => {
            metadata.insert("generation".into(), 1.into());
        }
    }
    if call.resource.custom.is_none() {
        write::complete(&call.resource, object);
        (kinds::strategy(&call.resource.group, &call.resource.kind).prepare_create)(object);
    }
}
