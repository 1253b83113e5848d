//! Server-side apply, and who owns which field after any other write.
//!
//! ```text
//! create, update, patch ─► update() ─┐
//!                                    ├─► compare, take from others, record ─► metadata.managedFields
//! apply ─► merge, prune ─► apply() ──┘
//! ```
//!
//! Everything here is a pure function of schema, live object and request.

mod compare;
mod element;
mod empty;
mod error;
mod fields;
mod gotext;
mod lastapplied;
mod managers;
mod merge;
mod overlay;
mod reconcile;
mod scale;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod typed;
mod types;
mod updater;

use jiff::Timestamp;
use serde_json::Value;

use crate::schema::{Schema, Shape};
use crate::status;

pub use compare::Changes;
pub use element::{Element, ParseError};
pub use error::{ApplyError, Conflict, identity};
pub use fields::{DecodeError, FieldSet, Path, display};
pub use gotext::{plain as go_text, type_name as go_type};
pub use managers::{Id, Managed, Operation, Owned, Unreadable, decode, keep_times, name_of};
pub(crate) use overlay::overlay;
pub use scale::{ReplicaPaths, scale_fields, scale_fields_to_parent};
pub use typed::Misfits;

use typed::{Duplicates, validate};
use types::Types;
use updater::Updater;

/// Owns what an object had before anybody applied to it, if that was not recorded.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The kind of the object that is written.
#[derive(Debug, Clone, Copy)]
pub struct Kind<'a> {
    pub schema: &'a Schema,
    /// The version of the request, in which paths are recorded.
    pub api_version: &'a str,
    pub kind: &'a str,
    /// All versions that the kind has; what was recorded under others is forgotten. If none is
    /// given, all are good.
    pub versions: &'a [&'a str],
    /// What other managers wrote under in other versions; without it those are compared in this one.
    pub elsewhere: Option<&'a dyn Elsewhere>,
    /// Fields that a write through this endpoint does not set, so cannot own (`status`, mostly).
    pub reset: &'a FieldSet,
}

/// The other versions of a kind. What a manager recorded in one of them is looked at in that one.
pub trait Elsewhere: std::fmt::Debug {
    /// How objects of a version look.
    fn schema(&self, api_version: &str) -> Option<Schema>;

    /// An object of any version as another one shows it.
    fn convert(&self, object: &Value, api_version: &str) -> Value;

    /// Whether a version passes over the fields that the endpoint does not set, as the request's own does.
    fn resets(&self, api_version: &str) -> bool;
}

impl Kind<'_> {
    /// Whether this is a custom resource: those have no Go type.
    fn is_custom(&self) -> bool {
        match &self.schema.node().shape {
            Shape::Object(object) => object.fields.iter().all(|field| field.go.is_none()),
            _ => true,
        }
    }
}

/// Who writes, and when.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// As [`name_of`] gives it.
    pub name: &'a str,
    /// The subresource of the request, or nothing.
    pub subresource: &'a str,
    pub now: Timestamp,
}

/// Whether an applier takes over what others own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    Yes,
    No,
}

/// Records who owns what after a create (without `live`), an update or a patch.
///
/// `new` is the object as it will be stored but for what admission still changes; both objects
/// have their defaults. An object whose fields cannot be made out loses its entries, as in the
/// real server: a write never fails for them.
pub fn update(kind: &Kind<'_>, live: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    let managed = entries_of(kind, live, new, writer);
    managers::clear(new);
    // Only what was tracked from the start stays tracked; a reset ends it until the next apply.
    if managed.is_empty() && live.is_some() {
        return;
    }
    let empty;
    let live = match live {
        Some(live) => live,
        None => {
            empty = empty::object(kind);
            &empty
        }
    };
    let Ok(managed) = record(kind, live, new, managed, writer) else { return };
    managers::encode(&managed, new);
}

/// The entries a write starts from: those it brings itself, if it may and they can be read.
fn entries_of(kind: &Kind<'_>, live: Option<&Value>, new: &Value, writer: &Writer<'_>) -> Managed {
    let of_live = || live.and_then(|live| decode(live).ok()).unwrap_or_default();
    if !writer.subresource.is_empty() {
        return of_live();
    }
    if managers::is_reset(new, kind.is_custom()) {
        return Managed::new();
    }
    match decode(new) {
        Ok(managed) if !managed.is_empty() => managed,
        _ => of_live(),
    }
}

fn record(
    kind: &Kind<'_>,
    live: &Value,
    new: &Value,
    managed: Managed,
    writer: &Writer<'_>,
) -> Result<Managed, Misfits> {
    let types = Types::new(kind.schema);
    let about = |what: &str, object: &Value, why: Misfits| {
        let identity = error::identity(object);
        why.within(&format!("failed to convert {what} object ({identity}) to smd typed"))
    };
    validate(&types, new, Duplicates::Allowed).map_err(|why| about("new", new, why))?;
    validate(&types, live, Duplicates::Allowed).map_err(|why| about("live", live, why))?;
    let id = Id::new(writer.name, Operation::Update, kind.api_version, writer.subresource);
    let mut managed = Updater { types, kind }.update(live, new, managed, id, writer.now)?;
    managers::cap(&mut managed);
    Ok(managed)
}

/// The live object (none, if it is to be created) with the configuration applied, and with new
/// entries.
///
/// Defaults are not set: the caller does that, as after any other write.
pub fn apply(
    kind: &Kind<'_>,
    live: Option<&Value>,
    config: &Value,
    writer: &Writer<'_>,
    force: Force,
) -> Result<Value, ApplyError> {
    check_kind(kind, config)?;
    let empty;
    let live = match live {
        Some(live) => live,
        None => {
            empty = empty::object(kind);
            &empty
        }
    };
    let managed =
        decode(live).map_err(|why| ApplyError::Other(format!("failed to decode managed fields: {why}")))?;
    let attempt = |force| merge_config(kind, live, config, &managed, writer, force);
    let applied = lastapplied::or_force(kind, live, writer, attempt(force), || attempt(Force::Yes));
    let (mut object, managed) = applied?;
    lastapplied::refresh(&mut object, config, writer);
    managers::encode(&managed, &mut object);
    Ok(object)
}

fn check_kind(kind: &Kind<'_>, config: &Value) -> Result<(), ApplyError> {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("apiVersion") != kind.api_version || text("kind") != kind.kind {
        let given = error::group_version_kind(text("apiVersion"), text("kind"));
        return Err(status::Error::bad_request(format!("invalid object type: {given}")).into());
    }
    if config.pointer("/metadata/managedFields").is_some_and(Value::is_array) {
        return Err(status::Error::bad_request("metadata.managedFields must be nil").into());
    }
    Ok(())
}

/// One attempt: the object without entries, and its entries.
fn merge_config(
    kind: &Kind<'_>,
    live: &Value,
    config: &Value,
    managed: &Managed,
    writer: &Writer<'_>,
    force: Force,
) -> Result<(Value, Managed), ApplyError> {
    let types = Types::new(kind.schema);
    let mut live = live.clone();
    managers::clear(&mut live);
    let mut managed = managed.clone();
    if managed.is_empty() {
        let before = Writer { name: BEFORE_FIRST_APPLY, ..*writer };
        managed = record(kind, &empty::object(kind), &live, managed, &before).map_err(|why| {
            ApplyError::Other(format!("failed to create manager for existing fields: {why}"))
        })?;
    }
    let about = |what: &str, object: &Value, why: &Misfits| {
        ApplyError::Other(format!(
            "failed to create typed {what} object ({}): {why}",
            error::identity(object)
        ))
    };
    validate(&types, config, Duplicates::Forbidden).map_err(|why| about("patch", config, &why))?;
    validate(&types, &live, Duplicates::Allowed).map_err(|why| about("live", &live, &why))?;

    let id = Id::new(writer.name, Operation::Apply, kind.api_version, writer.subresource);
    let updater = Updater { types, kind };
    let (object, mut managed) = updater.apply(&live, config, managed, &id, force)?;
    match object {
        Some(object) => {
            if let Some(owned) = managed.get_mut(&id) {
                owned.time = Some(writer.now);
            }
            Ok((object, managed))
        }
        None => Ok((live, managed)),
    }
}
