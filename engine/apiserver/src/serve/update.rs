//! Update: read, change, check, and store if nobody was faster.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::admit::Write;
use super::call::{Call, store_form};
use super::object::{metadata, text};
use super::ownership::Ownership;
use super::parts::Part;
use super::respond::Reply;
use super::write::{self, Managed, Stored};
use super::{admit, create, incoming, parts, services, warn};
use crate::admission::Operation;
use crate::apply;
use crate::catalog::Resource;
use crate::field;
use crate::kinds::other::certificates;
use crate::kinds::warnings::{Seen, deduplicate_owners};
use crate::kinds::{Generation, Strategy};
use crate::status::{Error, Result};
use crate::store::{CommitError, Expect, Op};

/// PUT of an object or of one of its parts.
pub(crate) async fn put(call: &mut Call, part: Part, body: Bytes) -> Result<Reply> {
    let dry_run = call.query.dry_run("UpdateOptions")?;
    let validation = call.query.field_validation("UpdateOptions")?;
    write::check_field_manager(call, "UpdateOptions")?;
    let resource = call.resource.clone();
    let parsed = incoming::read(&resource, &call.headers, &body, validation, &mut call.warnings);
    let parsed = match parsed {
        // A custom resource is taken for what it says it is until its address was looked at.
        Err(error) if error.code == 422 => {
            let parsed = incoming::parse(&call.headers, &body, &call.api_version, &resource.kind)?;
            let mut object = parsed.json.into_value();
            write::check_namespace(call, &mut object)?;
            check_name(call, &object)?;
            call.entry(&call.info.name)?;
            return Err(error);
        }
        result => result?,
    };
    call.empties = incoming::empties(&parsed.json);
    let mut object = incoming::object(&resource, parsed, validation, &mut call.warnings)?;
    call.warnings.extend(deduplicate_owners(&mut object, Seen::InRequest));
    write::check_namespace(call, &mut object)?;
    check_name(call, &object)?;
    let name = call.info.name.clone();
    let absent = call.server.store.get(&call.key(&name)).is_none();
    if absent && creates(call, part) {
        write::may_create(call)?;
        let nothing = json!({"metadata": {"namespace": call.info.namespace, "name": name}});
        check_uid(&resource, text(&object, &["metadata", "uid"]), &nothing, dry_run)?;
        check_number(text(&object, &["metadata", "resourceVersion"]))?;
        // What is not there has no version that could be stale; a dry run shows the one that was given.
        let given = metadata(&mut object).remove("resourceVersion");
        let mut stored = create::insert(call, object, Managed::Track, dry_run).await?;
        if dry_run {
            stored.revision = given.and_then(|given| given.as_str()?.parse().ok()).unwrap_or(0);
        }
        return call.reply(StatusCode::CREATED, stored.revision, &stored.body);
    }
    let uid = text(&object, &["metadata", "uid"]).to_owned();
    let resource = call.resource.clone();
    let change = |current: &Value| {
        check_uid(&resource, &uid, current, dry_run)?;
        Ok((object.clone(), Managed::Track))
    };
    let stored = modify(call, &name, part, dry_run, change).await?;
    call.reply(StatusCode::OK, stored.revision, &stored.body)
}

/// Whether a write of what is not there creates it. A Service comes into being by its status as well, with none
/// of what it is otherwise given.
pub(crate) fn creates(call: &Call, part: Part) -> bool {
    matches!(part, Part::Whole | Part::Status) && call.strategy().create_on_update
}

/// An object has the name of its address.
fn check_name(call: &Call, object: &Value) -> Result<()> {
    check_address(&call.info.name, object)
}

/// An object has the name of its address.
pub(crate) fn check_address(name: &str, object: &Value) -> Result<()> {
    match text(object, &["metadata", "name"]) {
        "" => Err(undeterminable(name)),
        given if given == name => Ok(()),
        given => Err(Error::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
    }
}

/// The answer to an object without a name.
pub(crate) fn undeterminable(name: &str) -> Error {
    Error::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Changes a stored object: `change` is given the current one and may be called again when another
/// writer was faster.
pub(crate) async fn modify(
    call: &mut Call,
    name: &str,
    part: Part,
    dry_run: bool,
    mut change: impl FnMut(&Value) -> Result<(Value, Managed)>,
) -> Result<Stored> {
    loop {
        let entry = call.entry(name)?;
        let current = call.value(entry.revision, &entry.body);
        let (mut new, managed) = change(&current)?;
        check_revision(call, name, &new, &current)?;
        metadata(&mut new).insert("resourceVersion".into(), entry.revision.to_string().into());
        if part != Part::Whole {
            parts::keep_the_rest(part, &call.resource, &mut new, &current);
        }
        if managed == Managed::Track {
            Ownership::of(call, part).update(Some(&current), &mut new);
        }
        let write =
            Write { operation: Operation::Update, part, name, old: Some(&current), dry_run, deletion: None };
        admit::mutate(call, &write, &mut new).await?;
        call.warnings.extend(deduplicate_owners(&mut new, Seen::AfterMutation));
        prepare(call, part, &mut new, &current);
        // What is not stored keeps what storing would drop.
        if !dry_run {
            metadata(&mut new).remove("selfLink");
        }
        let mut allocation = services::allocate(call, &mut new, Some(&current)).await?;
        let errors = write::validate_update(call, part, &mut new, &current);
        if !errors.is_empty() {
            return Err(Error::invalid(&call.resource.group, &call.resource.kind, name, &errors));
        }
        warn::of_write(call, part, &new, Some(&current));
        apply::keep_times(&current, &mut new);
        let _turn = admit::validate(call, &write, Some(&new)).await?;
        write::check_depth(&new, Some(&current))?;
        let body = store_form(&call.resource, &new);
        let key = call.key(name);
        let finished = deletion_finished(&call.resource.kind, &new, &current);
        if dry_run || (*body == *entry.body && !finished) {
            return Ok(Stored { revision: entry.revision, body });
        }
        let labels = write::labels(&new);
        let mut ops = Vec::new();
        if finished {
            ops.push(Op::Delete { key, revision: Some(entry.revision) });
            // What was allocated for it a moment ago is not stored, and what it had is free.
            ops.extend(services::release(call, &current));
        } else {
            ops.push(Op::Put { key, expect: Expect::Revision(entry.revision), body: body.clone(), labels });
            ops.append(&mut allocation.ops);
        }
        match call.server.store.commit(ops).await {
            Ok(committed) => {
                // What is gone is shown as it was sent.
                let revision = if finished { entry.revision } else { committed.revisions[0] };
                return Ok(Stored { revision, body });
            }
            // Somebody was faster: look again. An update from a stale object ends in the check above.
            Err(CommitError::Conflict { .. }) => continue,
            Err(error) => return Err(write::commit_failed(&error)),
        }
    }
}

/// An object under deletion goes when its last finalizer goes.
fn deletion_finished(kind: &str, new: &Value, current: &Value) -> bool {
    let none = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    let grace = current["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    !text(current, &["metadata", "deletionTimestamp"]).is_empty()
        && none(&new["metadata"]["finalizers"])
        && grace == 0
        && (kind != "Namespace" || none(&new["spec"]["finalizers"]))
}

/// A PUT that names a uid means that very object.
pub(crate) fn check_uid(resource: &Resource, given: &str, current: &Value, dry_run: bool) -> Result<()> {
    let stored = text(current, &["metadata", "uid"]);
    if given.is_empty() || given == stored {
        return Ok(());
    }
    // Stock servers name the key in etcd; clients see it, so they see the same here.
    let key = [
        if dry_run { "" } else { "/registry" },
        if resource.custom.is_some() { &*resource.group } else { "" },
        match &*resource.plural {
            "services" if resource.custom.is_none() => "services/specs",
            "endpoints" if resource.custom.is_none() => "services/endpoints",
            plural => plural,
        },
        text(current, &["metadata", "namespace"]),
        text(current, &["metadata", "name"]),
    ];
    let key = key.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    let key = if dry_run { format!("/{key}") } else { key };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {stored}"
    );
    Err(Error::conflict(&resource.group_resource(), text(current, &["metadata", "name"]), &why))
}

fn check_revision(call: &Call, name: &str, new: &Value, current: &Value) -> Result<()> {
    let resource = call.resource.group_resource();
    let given = text(new, &["metadata", "resourceVersion"]);
    if given.is_empty() || given == "0" {
        if call.strategy().unconditional_update {
            return Ok(());
        }
        let path = field::Path::new("metadata.resourceVersion");
        let errors = [field::Error::invalid(&path, 0, "must be specified for an update")];
        // The store knows resources, not kinds.
        return Err(Error::invalid(&call.resource.group, &call.resource.plural, name, &errors));
    }
    check_number(given)?;
    if given != text(current, &["metadata", "resourceVersion"]) {
        return Err(Error::stale(&resource, name));
    }
    Ok(())
}

/// A version is a number, also of what is not there yet.
pub(crate) fn check_number(version: &str) -> Result<()> {
    if version.is_empty() || version.parse::<u64>().is_ok() {
        return Ok(());
    }
    Err(Error::new(500, "", format!("strconv.ParseUint: parsing {version:?}: invalid syntax")))
}

/// What an update may not decide.
fn prepare(call: &Call, part: Part, new: &mut Value, current: &Value) {
    let strategy = call.strategy();
    match current["metadata"].get("generation") {
        Some(generation) => metadata(new).insert("generation".into(), generation.clone()),
        None => metadata(new).remove("generation"),
    };
    if part.is_whole() {
        if strategy.status {
            restore(new, current, "status");
        }
        if call.resource.custom.is_none() {
            (strategy.prepare_update)(new, current);
        }
    }
    match (part, &*call.resource.storage) {
        (Part::Status, "/pods") => crate::kinds::pods::prepare_pod_status(new, current),
        (Part::Status, "certificates.k8s.io/certificatesigningrequests") => {
            certificates::prepare_status(new, current, &call.server.context.now_seconds());
        }
        (Part::Approval, _) => {
            certificates::prepare_approval(new, current, &call.server.context.now_seconds());
        }
        // Whoever had a say meanwhile had none in the rest.
        (Part::EphemeralContainers | Part::Resize, _) => {
            parts::keep_the_rest(part, &call.resource, new, current);
        }
        _ => {}
    }
    let old = &current["metadata"];
    let generation = old["generation"].as_i64().unwrap_or(0);
    let changed = part.has_generation() && generation_changed(strategy, new, current);
    let metadata = metadata(new);
    for key in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let missing = metadata.get(key).is_none_or(Value::is_null);
        // Another time is passed over; another uid or period is refused later.
        let ignored = key.ends_with("Timestamp");
        if let (true, Some(value)) = (missing || ignored, old.get(key)) {
            metadata.insert(key.into(), value.clone());
        }
    }
    // Some kinds count by themselves, in what they prepare.
    let own =
        strategy.generation == Generation::Never && part.is_whole() && metadata.contains_key("generation");
    match generation + i64::from(changed) {
        _ if own => None,
        0 => metadata.remove("generation"),
        next => metadata.insert("generation".into(), next.into()),
    };
}

fn restore(new: &mut Value, current: &Value, key: &str) {
    let Some(object) = new.as_object_mut() else { return };
    match current.get(key) {
        Some(value) => object.insert(key.into(), value.clone()),
        None => object.remove(key),
    };
}

fn generation_changed(strategy: &Strategy, new: &Value, current: &Value) -> bool {
    let differs = |key: &str| new.get(key) != current.get(key);
    // A status that is not kept apart is like any other field.
    let outside = |key: &&String| match key.as_str() {
        "metadata" | "kind" | "apiVersion" => false,
        "status" => !strategy.status,
        _ => true,
    };
    let keys = || new.as_object().into_iter().chain(current.as_object()).flat_map(|object| object.keys());
    match strategy.generation {
        Generation::Never => false,
        Generation::Spec => keys().filter(outside).any(|key| differs(key)),
        Generation::SpecAndAnnotations => {
            keys().filter(outside).any(|key| differs(key))
                || new["metadata"].get("annotations") != current["metadata"].get("annotations")
        }
    }
}
