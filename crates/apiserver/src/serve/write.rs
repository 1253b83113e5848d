//! What every write goes through, whatever its verb: ownership of fields, validation, commit.

use serde_json::Value;

use super::attributes;
use super::call::Call;
use super::object::{metadata, text};
use super::parts::Part;
use crate::auth::rbac::Attributes;
use crate::catalog::Resource;
use crate::field;
use crate::kinds::meta;
use crate::schema;
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
    let wanted = if call.resource.namespaced { call.info.namespace.as_str() } else { "" };
    let given = text(object, &["metadata", "namespace"]);
    if given == wanted {
        return Ok(());
    }
    if given.is_empty() {
        metadata(object).insert("namespace".into(), wanted.into());
        return Ok(());
    }
    if !call.resource.namespaced {
        return Err(Error::bad_request("namespace may not be set on cluster-scoped resources"));
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
        let why = format!("invalid character {bad:?} (at position {at})");
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
        None => errors.extend((strategy.validate)(object)),
        Some(_) => errors.extend(validate_custom(&call.resource, object)),
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
    match (&call.resource.custom, part) {
        (None, part) if part.is_whole() => errors.extend((strategy.validate_update)(new, current)),
        (None, Part::Status) => errors.extend((strategy.validate_status)(new, current)),
        (None, _) => {}
        (Some(_), _) => {
            errors.extend(validate_custom_update(&call.resource, new, current, &mut call.warnings));
        }
    }
    errors
}

fn validate_custom(resource: &Resource, object: &Value) -> Vec<field::Error> {
    let schema = resource.schema();
    let mut errors =
        schema.map(|schema| schema::validate::validate(&schema, object, embedded_meta)).unwrap_or_default();
    // Nothing can be tolerated in what was not there before, so there are no warnings.
    validate_rules(resource, object, None, &mut errors, &mut Vec::new());
    errors
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

/// A commit that failed for another reason than a conflict.
pub(crate) fn commit_failed(error: &CommitError) -> Error {
    match error {
        CommitError::Closed => Error::unavailable("the server is shutting down"),
        other => Error::internal(other),
    }
}
