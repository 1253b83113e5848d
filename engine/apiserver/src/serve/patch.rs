//! Patch: JSON patch, merge patch, strategic merge patch and server-side apply.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::accept::body_type;
use super::call::Call;
use super::incoming;
use super::object::text;
use super::ownership::Ownership;
use super::parts::Part;
use super::query::FieldValidation;
use super::respond::Reply;
use super::write::{self, Managed};
use super::{create, update};
use crate::apply::{self, Force};
use crate::catalog::Resource;
use crate::field;
use crate::patch::{self, Patched, Unknown};
use crate::schema;
use crate::schema::raw::Json;
use crate::status::{Error, Result};

/// The four ways to say what to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl Kind {
    /// By the media type of the body. Custom resources have no strategic merge.
    pub(crate) fn of(call: &Call) -> Result<Kind> {
        let custom = call.resource.custom.is_some();
        let (_, media) = body_type(&call.headers);
        Ok(match media.as_str() {
            "application/json-patch+json" => Kind::Json,
            "application/merge-patch+json" => Kind::Merge,
            "application/strategic-merge-patch+json" if !custom => Kind::Strategic,
            "application/apply-patch+yaml" => Kind::Apply,
            _ if custom => {
                return Err(Error::unsupported_media_type(
                    "the body of the request was in an unknown format - accepted media types include: \
                     application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
                ));
            }
            // Built-in kinds are refused before they are looked at, in fewer words.
            _ => {
                let mut error = Error::unsupported_media_type("415: Unsupported Media Type");
                error.details = Some(Box::new(json!({})));
                return Err(error);
            }
        })
    }
}

pub(crate) async fn patch(call: &mut Call, part: Part, body: Bytes) -> Result<Reply> {
    let kind = Kind::of(call)?;
    check_options(call, kind)?;
    let dry_run = call.query.dry_run("PatchOptions")?;
    let validation = call.query.field_validation("PatchOptions")?;
    if kind == Kind::Apply {
        return apply(call, part, &body, dry_run, validation).await;
    }
    let name = call.info.name.clone();
    let resource = call.resource.clone();
    let mut warnings = Vec::new();
    let change = |current: &Value| {
        warnings.clear();
        let patched = patched(kind, &resource, current, &body, validation)?;
        let new = checked(kind, &body, &resource, current, patched, validation, &mut warnings)?;
        Ok((new, Managed::Track))
    };
    let before = call.warnings.len();
    let stored = update::modify(call, &name, part, dry_run, change).await;
    // What was odd about the patch comes before what is odd about its result.
    call.warnings.splice(before..before, warnings);
    let stored = stored?;
    call.reply(StatusCode::OK, stored.revision, &stored.body)
}

/// `force` and the manager's name go with apply only.
pub(crate) fn check_options(call: &Call, kind: Kind) -> Result<()> {
    write::check_field_manager(call, "PatchOptions")?;
    let mut errors = Vec::new();
    if kind == Kind::Apply && call.query.text("fieldManager").is_none() {
        let path = field::Path::new("fieldManager");
        errors.push(field::Error::required(&path, "is required for apply patch"));
    }
    if kind != Kind::Apply && call.query.get("force").is_some() {
        let path = field::Path::new("force");
        errors.push(field::Error::forbidden(&path, "may not be specified for non-apply patch"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Error::invalid("meta.k8s.io", "PatchOptions", "", &errors)) }
}

/// The current object with the patch on it, not yet checked.
pub(crate) fn patched(
    kind: Kind,
    resource: &Resource,
    current: &Value,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Patched> {
    let unknown = if validation == FieldValidation::Ignore { Unknown::Ignore } else { Unknown::Report };
    match kind {
        Kind::Json => patch::json(current, body, unknown),
        Kind::Merge => patch::merge(current, body, unknown),
        Kind::Strategic => {
            let schema = resource.schema().expect("built-in kinds have schemas");
            patch::strategic(&schema, current, body)
        }
        Kind::Apply => unreachable!("apply has its own path"),
    }
}

/// A patched object is decoded like one that was sent whole.
pub(crate) fn checked(
    kind: Kind,
    body: &[u8],
    resource: &Resource,
    current: &Value,
    patched: Patched,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Value> {
    let text_of_it = patched.object.to_string();
    let (name, namespace) = (text(current, &["metadata", "name"]), text(current, &["metadata", "namespace"]));
    let missing = |key: &str| patched.object.get(key).is_none_or(|value| value.is_null() || value == "");
    if resource.custom.is_some() && missing("kind") {
        let why = format!("Object 'Kind' is missing in '{text_of_it}'");
        return Err(misfit(kind, body, &text_of_it, &why));
    }
    let version = patched.object.get("apiVersion");
    if resource.custom.is_some() && version.is_none_or(|version| version == "") {
        return Err(Error::internal("Object 'apiVersion' is missing in 'object has no apiVersion field'"));
    }
    // Without a version it is read as the server's own type, which has none of these fields in JSON.
    let version = &patched.object["apiVersion"];
    if resource.custom.is_none() && kind != Kind::Strategic && (version.is_null() || version == "") {
        let mut unknown = patched.strict;
        let fields = patched.object.as_object().into_iter().flatten().map(|(key, _)| key);
        let fields = fields.filter(|key| !matches!(key.as_str(), "kind" | "apiVersion"));
        unknown.extend(fields.map(|key| format!("unknown field {key:?}")));
        incoming::report(resource, unknown, validation, warnings)
            .map_err(|error| misfit(kind, body, &text_of_it, &error.message))?;
        return Err(update::undeterminable(name));
    }
    let decoded = || {
        incoming::report(resource, patched.strict, validation, warnings)?;
        incoming::object(resource, Json::from(patched.object), validation, warnings)
    };
    let mut new = decoded().map_err(|error| match error.code {
        400 => misfit(kind, body, &text_of_it, &error.message),
        _ => error,
    })?;
    write::fit_namespace(namespace, &mut new)?;
    // A patch can neither take an object's name away nor give it another.
    update::check_address(name, &new)?;
    Ok(new)
}

/// A patch whose result is no object of the kind: the patch is to blame, and shown.
fn misfit(kind: Kind, body: &[u8], patched: &str, why: &str) -> Error {
    let why = cause(why);
    let path = field::Path::new("patch");
    let fault = match (kind, serde_json::from_slice(body)) {
        (Kind::Strategic, Ok(patch)) => field::Error::invalid(
            &path,
            patch::go_text(&patch),
            converter_words(why, &patch).unwrap_or_else(|| why.to_owned()),
        ),
        _ => field::Error::invalid(&path, patched, why),
    };
    Error::invalid("", "", "", &[fault])
}

/// Only the cause counts here, not what the object cannot be handled as.
fn cause(why: &str) -> &str {
    let cause = why.split_once(" cannot be handled as a ").and_then(|(_, rest)| rest.split_once(": "));
    cause.map_or(why, |(_, why)| why)
}

/// What Go's converter says where its JSON decoder says "cannot unmarshal WHAT into … of type TYPE":
/// strategic merge works on maps, not on text.
fn converter_words(why: &str, given: &Value) -> Option<String> {
    if why.starts_with("illegal base64 data") {
        return Some(format!("error decoding from json: {why}"));
    }
    let why = why.strip_prefix("couldn't get version/kind; json parse error: ").unwrap_or(why);
    let rest = why.strip_prefix("json: cannot unmarshal ")?;
    // A type that reads its own JSON uses the decoder's words.
    if rest.contains("into Go value of type") {
        return None;
    }
    let fraction = rest.strip_prefix("number ").is_some_and(|number| !number.starts_with("into "));
    let integers = !has_fraction(given);
    let given = match rest.split(' ').next()? {
        "object" => "map",
        "array" => "slice",
        "number" => "int64",
        other => other,
    };
    let wanted = rest.rsplit(" of type ").next()?;
    Some(match wanted {
        // Go can convert between these, though not in the way that JSON means it.
        integer if fraction && (integer.starts_with("int") || integer.starts_with("uint")) => {
            format!("cannot convert float64 to {integer}")
        }
        "string" if given == "int64" && integers => "cannot convert int64 to string".to_owned(),
        slice if slice.starts_with("[]") => format!("cannot restore slice from {given}"),
        map if map.starts_with("map[") => format!("cannot restore map from {given}"),
        scalar if !scalar.contains('.') => format!("unrecognized type: {scalar}"),
        _ => format!("cannot restore struct from: {given}"),
    })
}

/// Whether any number is no whole one: the decoder's words do not tell which number it was about.
fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        _ => false,
    }
}

async fn apply(
    call: &mut Call,
    part: Part,
    body: &[u8],
    dry_run: bool,
    validation: FieldValidation,
) -> Result<Reply> {
    let name = call.info.name.clone();
    let namespace = call.namespace().to_owned();
    let configuration = incoming::configuration(&call.resource, body)?;
    let config = &configuration.value;
    let force = if call.query.flag("force") { Force::Yes } else { Force::No };
    loop {
        if call.server.store.get(&call.key(&name)).is_none() {
            if part != Part::Whole && !update::creates(call, part) {
                return Err(call.not_found(&name));
            }
            write::may_create(call)?;
            let applied = Ownership::of(call, part).apply(None, config, force)?;
            let mut object = completed(&call.resource, config, applied)?;
            configuration.report(&call.resource, validation, &mut call.warnings)?;
            // A configuration made from a live object must not bring a deleted one back.
            if !text(config, &["metadata", "uid"]).is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {}, and no existing object was found",
                    text(config, &["metadata", "uid"])
                );
                return Err(Error::conflict(&call.resource.group_resource(), &name, &why));
            }
            write::fit_namespace(&namespace, &mut object)?;
            update::check_address(&name, &object)?;
            update::check_number(text(&object, &["metadata", "resourceVersion"]))?;
            match create::insert(call, object, Managed::Done, dry_run).await {
                Err(error) if error.reason == "AlreadyExists" => continue,
                result => {
                    let stored = result?;
                    return call.reply(StatusCode::CREATED, stored.revision, &stored.body);
                }
            }
        }
        let resource = call.resource.clone();
        let ownership = Ownership::of(call, part);
        let mut warnings = Vec::new();
        let change = |current: &Value| {
            let applied = ownership.apply(Some(current), config, force)?;
            warnings.clear();
            // What is odd about the configuration is told only if it can be merged at all.
            configuration.report(&resource, validation, &mut warnings)?;
            let mut new = completed(&resource, config, applied)?;
            write::fit_namespace(&namespace, &mut new)?;
            update::check_address(&name, &new)?;
            Ok((new, Managed::Done))
        };
        match update::modify(call, &name, part, dry_run, change).await {
            Err(error) if error.code == 404 && (part == Part::Whole || update::creates(call, part)) => {
                continue;
            }
            result => {
                let stored = result?;
                return call.reply(StatusCode::OK, stored.revision, &stored.body);
            }
        }
    }
}

/// The applied object, decoded like any other. What was applied fits the schema, but not always its type.
pub(crate) fn completed(resource: &Resource, config: &Value, mut applied: Value) -> Result<Value> {
    if let (None, Some(schema)) = (&resource.custom, resource.schema()) {
        schema::wrap::wrap_numbers(&schema, &mut applied);
    }
    let identity = apply::identity(config);
    let decoded = incoming::object(resource, Json::from(applied), FieldValidation::Ignore, &mut Vec::new());
    decoded.map_err(|error| {
        if resource.custom.is_some() {
            return error;
        }
        let why = cause(&error.message);
        let why = converter_words(why, config).unwrap_or_else(|| why.to_owned());
        let kind = identity.split_once("; ").map_or("", |(_, kind)| kind);
        let message = format!(
            "failed to convert new object ({identity}) to proper version: \
             unable to convert unstructured object to {kind}: {why}"
        );
        Error::new(500, "", message)
    })
}
