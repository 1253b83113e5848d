//! The way from client-side to server-side apply.
//!
//! kubectl used to keep what it applied in an annotation. When the same user goes over to
//! server-side apply, what that annotation says counts as theirs, and it is kept up to date for a
//! way back. Only the manager named `kubectl` gets this.

use serde_json::{Map, Value, json};

use super::compare::compare;
use super::element::go_json;
use super::error::ApplyError;
use super::fields::FieldSet;
use super::managers::Managed;
use super::typed::{Duplicates, field_set, validate};
use super::types::Types;
use super::{Kind, Writer};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
const KUBECTL: &str = "kubectl";
/// More than this and the object could not be stored.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

type Applied = Result<(Value, Managed), ApplyError>;

/// Gives conflicts a second chance: those over fields that client-side apply set do not count.
pub(super) fn or_force(
    kind: &Kind<'_>,
    live: &Value,
    writer: &Writer<'_>,
    applied: Applied,
    force: impl FnOnce() -> Applied,
) -> Applied {
    let conflicts = match applied {
        Err(ApplyError::Conflicts(conflicts)) if writer.name == KUBECTL => conflicts,
        other => return other,
    };
    let Some(allowed) = own_fields(kind, live) else { return Err(ApplyError::Conflicts(conflicts)) };
    let left: Vec<_> = conflicts.into_iter().filter(|conflict| !allowed.contains(&conflict.path)).collect();
    if left.is_empty() { force() } else { Err(ApplyError::Conflicts(left)) }
}

/// The fields that client-side apply set and that nobody changed since.
fn own_fields(kind: &Kind<'_>, live: &Value) -> Option<FieldSet> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(kind.api_version) {
        return None;
    }
    let types = Types::new(kind.schema);
    validate(&types, live, Duplicates::Forbidden).ok()?;
    validate(&types, &last, Duplicates::Forbidden).ok()?;
    let changes = compare(&types, &last, live).ok()?;
    let set = field_set(&types, &last);
    Some(set.difference(&changes.modified).difference(&changes.added).difference(&changes.removed))
}

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.pointer("/metadata/annotations")?.as_object()?;
    annotations.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// Keeps the annotation, if the object has one, in step with what was applied.
pub(super) fn refresh(object: &mut Value, config: &Value, writer: &Writer<'_>) {
    if writer.name != KUBECTL || annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else { return };
    annotations.insert(ANNOTATION.to_owned(), json!(format!("{}\n", go_json(&config))));
    if size(annotations) > MOST_ANNOTATION_BYTES {
        annotations.remove(ANNOTATION);
    }
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum()
}
