//! What every write goes through, whatever its verb: ownership of fields, validation, commit.

use serde_json::Value;

use super::attributes;
use super::call::Call;
use super::object::{metadata, text};
use super::parts::Part;
use crate::auth::rbac::Attributes;
use crate::catalog::Resource;
use crate::field;
use crate::kinds::pods::parts::{validate_ephemeral_containers, validate_resize};
use crate::kinds::{self, meta};
use crate::schema::{self, depth};
use crate::status::{Error, Result};
use crate::store::{CommitError, Labels};

/// An object as it is stored now: what the response is made of.
pub(crate) struct Stored {
    /// Zero for an object that was not stored (a dry run).
    pub(crate) revision: u64,
    pub(crate) body: Box<[u8]>,
}

/// Whether a write's field ownership still has to be worked out; server-side apply has done it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Managed {
    Track,
    Done,
}

/// The object's namespace is that of its address.
pub(crate) fn check_namespace(call: &Call, object: &mut Value) -> Result<()> {
    fit_namespace(call.namespace(), object)
}

/// The object's namespace is the wanted one, which is empty for what is in none.
pub(crate) fn fit_namespace(wanted: &str, object: &mut Value) -> Result<()> {
    let given = text(object, &["metadata", "namespace"]);
    if given == wanted {
        return Ok(());
    }
    if given.is_empty() {
        metadata(object).insert("namespace".into(), wanted.into());
        return Ok(());
    }
    // Quietly, as on a stock server.
    if wanted.is_empty() {
        metadata(object).remove("namespace");
        return Ok(());
    }
    Err(Error::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// The field manager's name is short and printable.
pub(crate) fn check_field_manager(call: &Call, options: &str) -> Result<()> {
    let Some(name) = call.query.text("fieldManager") else { return Ok(()) };
    let path = field::Path::new("fieldManager");
    let mut errors = Vec::new();
    if name.len() > 128 {
        errors.push(field::Error::too_long(&path, 128));
    }
    if let Some((at, bad)) = name.chars().enumerate().find(|(_, c)| c.is_control()) {
        let why = format!("invalid character U+{:04X} (at position {at})", u32::from(bad));
        errors.push(field::Error::invalid(&path, name, why));
    }
    if errors.is_empty() { Ok(()) } else { Err(Error::invalid("meta.k8s.io", options, "", &errors)) }
}

/// A PUT that creates needs leave to create.
pub(crate) fn may_create(call: &Call) -> Result<()> {
    call.server.authorize(&Attributes { verb: "create", ..attributes(&call.info, &call.user) })
}

/// Everything that is wrong with a new object.
pub(crate) fn validate_create(call: &Call, object: &Value) -> Vec<field::Error> {
    let strategy = call.strategy();
    let mut errors = meta::validate_meta(object, call.resource.namespaced, strategy.name);
    match &call.resource.custom {
        None => {
            let (group, kind) = (&*call.resource.group, &*call.resource.kind);
            errors.extend(kinds::other::metadata::validate_create(group, kind, object));
            let own = (strategy.validate)(object);
            // A kind that does not look at metadata itself has it looked at last.
            let looks_last =
                matches!((group, kind), ("policy", "PodDisruptionBudget") | ("" | "events.k8s.io", "Event"));
            if looks_last && !own.is_empty() {
                errors.clear();
            }
            errors.extend(own);
            show_empty_values(&call.empties, &mut errors);
            show_zero_values(&call.resource, &mut errors);
        }
        Some(_) => validate_custom(&call.resource, object, &mut errors),
    }
    errors
}

/// Everything that is wrong with a change.
pub(crate) fn validate_update(
    call: &mut Call,
    part: Part,
    new: &mut Value,
    current: &Value,
) -> Vec<field::Error> {
    let strategy = call.strategy();
    let mut errors = meta::validate_meta_update(new, current);
    let (group, kind) = (&*call.resource.group, &*call.resource.kind);
    match (&call.resource.custom, part) {
        (None, part) if part.is_whole() => {
            errors.extend(kinds::other::metadata::validate_update(group, kind, new, current));
            errors.extend((strategy.validate_update)(new, current));
        }
        (None, Part::Status) => {
            errors.extend(kinds::other::metadata::validate_status(group, kind, new, current));
            errors.extend((strategy.validate_status)(new, current));
        }
        (None, Part::Approval) => {
            errors.extend(kinds::other::certificates::validate_approval(new, current));
        }
        (None, Part::EphemeralContainers) => errors.extend(validate_ephemeral_containers(new, current)),
        (None, Part::Resize) => errors.extend(validate_resize(new, current)),
        // Who finalizes a namespace or binds a pod changes one thing, which is checked where it is done.
        (None, _) => {}
        (Some(_), _) => {
            // Asked once more, and told once more.
            errors.extend(meta::validate_change(new, current));
            errors.extend(validate_custom_update(&call.resource, new, current, &mut call.warnings));
        }
    }
    if call.resource.custom.is_some() && part == Part::Status {
        // There the status is looked at by itself.
        for error in errors.iter_mut().filter(|error| error.detail.starts_with("status.")) {
            error.detail = error.detail.replacen("status.", "", 1);
        }
    }
    if call.resource.custom.is_none() {
        show_empty_values(&call.empties, &mut errors);
        show_zero_values(&call.resource, &mut errors);
    }
    errors
}

/// What was written down as empty is shown as such, not as absent.
fn show_empty_values(empties: &[(String, Value)], errors: &mut [field::Error]) {
    for error in errors.iter_mut().filter(|error| error.value == Some(Value::Null)) {
        // An Ingress that has nothing is told so with its rules.
        let path = match error.path.as_str() {
            "spec" => "spec.rules",
            path => path,
        };
        if let Some((_, empty)) = empties.iter().find(|(at, _)| at == path) {
            error.value = Some(empty.clone());
        }
    }
}

/// A field that is not there is shown as what Go has in its place.
fn show_zero_values(resource: &Resource, errors: &mut [field::Error]) {
    let absent = errors.iter_mut().filter(|error| error.value == Some(Value::Null));
    let mut absent = absent.peekable();
    let Some(schema) = absent.peek().and_then(|_| resource.schema()) else { return };
    for error in absent {
        error.value = schema::zero::zero_at(&schema, error.path.as_str()).or_else(|| error.value.take());
    }
}

fn validate_scale(resource: &Resource, object: &Value) -> Vec<field::Error> {
    let scale = resource.custom.as_ref().and_then(|custom| custom.version().scale.as_ref());
    scale.map(|scale| crate::crd::validate_scale(scale, object)).unwrap_or_default()
}

fn validate_custom(resource: &Resource, object: &Value, errors: &mut Vec<field::Error>) {
    if let Some(schema) = resource.schema() {
        errors.extend(schema::validate::validate(&schema, object, embedded_meta));
    }
    errors.extend(validate_scale(resource, object));
    // Nothing can be tolerated in what was not there before, so there are no warnings.
    validate_rules(resource, object, None, errors, &mut Vec::new());
}

fn validate_custom_update(
    resource: &Resource,
    new: &Value,
    current: &Value,
    warnings: &mut Vec<String>,
) -> Vec<field::Error> {
    let schema = resource.schema();
    let mut errors = schema
        .map(|schema| schema::validate::validate_update(&schema, new, current, embedded_meta))
        .unwrap_or_default();
    errors.extend(validate_scale(resource, new));
    validate_rules(resource, new, Some(current), &mut errors, warnings);
    errors
}

/// The rules of a CRD, unless what was found already keeps them from making sense.
fn validate_rules(
    resource: &Resource,
    new: &Value,
    old: Option<&Value>,
    errors: &mut Vec<field::Error>,
    warnings: &mut Vec<String>,
) {
    let Some(rules) = resource.custom.as_ref().and_then(|custom| custom.version().rules.as_deref()) else {
        return;
    };
    if let Some(blocked) = schema::validate::blocks_rules(errors) {
        errors.push(blocked);
        return;
    }
    let findings = rules.find(new, old);
    errors.extend(findings.errors);
    for warning in findings.warnings {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// The metadata of an object inside another one: its name is whatever its own kind takes.
fn embedded_meta(metadata: &Value, path: &field::Path) -> Vec<field::Error> {
    let object = serde_json::json!({"metadata": metadata});
    let mut errors = meta::validate_meta(&object, true, |_| Vec::new());
    errors.retain(|error| !matches!(error.path.as_str(), "metadata.name" | "metadata.namespace"));
    for error in &mut errors {
        let below = error.path.as_str().strip_prefix("metadata").unwrap_or_default();
        error.path = field::Path::new(&format!("{path}{below}"));
    }
    errors
}

/// Gives a built-in object the shape that its Go type has: fields that are always there appear.
pub(crate) fn complete(resource: &Resource, object: &mut Value) {
    if let Some(schema) = resource.schema()
        && let Ok(decoded) = schema::decode::decode(&schema, object.take())
    {
        *object = decoded.value;
    }
}

/// The labels that selectors look at.
pub(crate) fn labels(object: &Value) -> Labels {
    let labels = object["metadata"]["labels"].as_object();
    labels.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or(""))).collect()
}

/// Nothing is stored that is too deep to be read again. What was stored before there was a limit may still change.
pub(crate) fn check_depth(new: &Value, current: Option<&Value>) -> Result<()> {
    let too_deep = |object: &Value| !depth::may_be_stored(object);
    if too_deep(new) && !current.is_some_and(too_deep) {
        return Err(Error::bad_request(format!(
            "exceeded max depth: at most {} objects and lists may be inside each other",
            depth::DEEPEST
        )));
    }
    Ok(())
}

/// A commit that failed for another reason than a conflict.
pub(crate) fn commit_failed(error: &CommitError) -> Error {
    match error {
        CommitError::Closed => Error::unavailable("the server is shutting down"),
        other => Error::internal(other),
    }
}
