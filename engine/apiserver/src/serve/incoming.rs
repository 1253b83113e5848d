//! From the body of a request to an object of a resource: decoded, checked for what it claims to be,
//! pruned and defaulted.

use std::sync::OnceLock;

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::{Map, Value};

use super::accept::{BodyType, body_type};
use super::object::{metadata, text};
use super::query::FieldValidation;
use super::yaml;
use crate::catalog::{self, Resource};
use crate::field;
use crate::kinds::convert;
use crate::protobuf;
use crate::schema::raw::Json;
use crate::schema::{self, Schema};
use crate::status::{Error, Result};

/// The largest body that is read, as on a stock server.
pub(crate) const BODY_MOST: usize = 3 * 1024 * 1024;

/// The whole body, or 413.
pub(crate) async fn read_body(body: Body) -> Result<Bytes> {
    match Limited::new(body, BODY_MOST).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(Error::too_large(format!("Request entity too large: limit is {BODY_MOST}")))
        }
        Err(error) => Err(Error::bad_request(format!("the request's body could not be read: {error}"))),
    }
}

/// A body that was read, and what strict validation says of how it was written.
pub(crate) struct Parsed {
    pub(crate) json: Json,
    findings: Vec<String>,
}

impl From<Json> for Parsed {
    fn from(json: Json) -> Self {
        Parsed { json, findings: Vec::new() }
    }
}

impl From<yaml::Yaml> for Parsed {
    fn from(read: yaml::Yaml) -> Self {
        Parsed { json: read.json, findings: read.repeated.into_iter().collect() }
    }
}

/// Reads a body in JSON, YAML or protobuf. Kind and version are those that a body has which names none.
pub(crate) fn parse(headers: &HeaderMap, body: &[u8], api_version: &str, kind: &str) -> Result<Parsed> {
    match body_type(headers) {
        (BodyType::Json, _) => {
            Json::parse(body).map(Parsed::from).map_err(|error| Error::bad_request(error.to_string()))
        }
        (BodyType::Yaml, _) => yaml::parse(body).map(Parsed::from),
        (BodyType::Protobuf, _) => match protobuf::decode(body, api_version, kind) {
            Ok(decoded) => Ok(Json::from(decoded.value).into()),
            Err(error) => Err(Error::bad_request(error.message(kind, body))),
        },
        (BodyType::Other, _) => Err(Error::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json, \
             application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Reads the body of a request that should be an object of `resource`. What cannot be recognized at all is
/// shown, so that its sender recognizes it.
pub(crate) fn read(
    resource: &Resource,
    headers: &HeaderMap,
    body: &[u8],
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Parsed> {
    let unrecognized = |why: String| {
        let (kind, shown) = (&resource.kind, summary(body));
        Error::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
        ))
    };
    let mut parsed = match parse(headers, body, &resource.api_version(), &resource.kind) {
        Err(error) if error.code == 400 && body_type(headers).0 != BodyType::Protobuf => {
            let why = match body_type(headers).0 {
                BodyType::Yaml => error.message,
                _ => format!("couldn't get version/kind; json parse error: {}", error.message),
            };
            return Err(unrecognized(why));
        }
        result => result?,
    };
    let nameless = |entries: &[(String, Json)]| claimed(entries, "kind").is_ok_and(|kind| kind.is_empty());
    let kindless = match &parsed.json {
        Json::Object(entries) => nameless(entries),
        other => *other == Json::Null,
    };
    if resource.custom.is_some() && kindless {
        let text = String::from_utf8_lossy(body);
        let why = format!("Object 'Kind' is missing in '{}'", text.trim_end());
        return Err(match validation {
            FieldValidation::Ignore => cannot_handle(resource, &why),
            FieldValidation::Warn | FieldValidation::Strict => unrecognized(why),
        });
    }
    let strange = resource.custom.is_some().then(|| parsed.json.clone());
    check_identity(resource, &mut parsed.json).map_err(|error| {
        if error.message.starts_with("couldn't get version/kind") {
            return unrecognized(error.message);
        }
        match strange {
            Some(strange) => read_strange(resource, strange, validation, warnings, error),
            None => error,
        }
    })?;
    Ok(parsed)
}

/// An object of another version or of no known type is read all the same, before it is refused: its metadata is
/// like any other's.
fn read_strange(
    resource: &Resource,
    json: Json,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
    refused: Error,
) -> Error {
    let Json::Object(entries) = &json else { return refused };
    let (Ok(api_version), Ok(kind)) = (claimed(entries, "apiVersion"), claimed(entries, "kind")) else {
        return refused;
    };
    if api_version.is_empty() {
        return refused;
    }
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let cannot = |wanted: &str, why: String| {
        Error::bad_request(format!("{kind} in version {version:?} cannot be handled as a {wanted}: {why}"))
    };
    let schema = said_schema(resource, &json).unwrap_or_else(Schema::anything);
    match (schema::prune::decode_custom(&schema, object_meta(), json), validation) {
        (Err(why), _) => cannot(&resource.kind, why.to_string()),
        (Ok(decoded), FieldValidation::Strict) if !decoded.strict.is_empty() => {
            cannot(&kind, schema::decode::strict_error(&decoded.strict))
        }
        (Ok(decoded), FieldValidation::Warn) => {
            warnings.extend(decoded.strict);
            refused
        }
        (Ok(_), _) => refused,
    }
}

/// The schema of the version that an object of a custom resource says it is of.
fn said_schema(resource: &Resource, json: &Json) -> Option<Schema> {
    let Json::Object(entries) = json else { return None };
    let (api_version, kind) = (claimed(entries, "apiVersion").ok()?, claimed(entries, "kind").ok()?);
    let version = api_version.strip_prefix(&*resource.group)?.strip_prefix('/')?;
    let versions = &resource.custom.as_ref().filter(|_| kind == *resource.kind)?.crd.versions;
    versions.iter().find(|one| one.name == version)?.schema.clone()
}

/// The beginning of a body, as text if it looks like JSON.
fn summary(body: &[u8]) -> String {
    const MOST: usize = 30;
    let (shown, more) = if body.len() > MOST { (&body[..MOST], " ...") } else { (body, "") };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}

/// Turns a body into an object of `resource`: right kind and version, unknown fields dropped, defaults
/// of schema and kind applied. What is odd about it goes to `warnings`, or is an error when strict.
pub(crate) fn object(
    resource: &Resource,
    parsed: impl Into<Parsed>,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Value> {
    let Parsed { mut json, mut findings } = parsed.into();
    check_identity(resource, &mut json)?;
    let reset = resets_ownership(&json);
    let (mut object, more) = decoded(resource, json)?;
    findings.extend(more);
    report(resource, findings, validation, warnings)?;
    default(resource, &mut object);
    // Decoding drops an empty list, but this one means something.
    if reset && resource.custom.is_none() {
        metadata(&mut object).insert("managedFields".into(), Value::Array(Vec::new()));
    }
    Ok(object)
}

/// Where a body has lists and maps with nothing in them.
pub(crate) fn empties(json: &Json) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    if has_empties(json) {
        find_empties(json, String::new(), &mut found);
    }
    found
}

/// Few bodies have any, so most are spared the work of naming places.
fn has_empties(json: &Json) -> bool {
    match json {
        Json::Object(entries) => entries.is_empty() || entries.iter().any(|(_, value)| has_empties(value)),
        Json::Array(items) => items.is_empty() || items.iter().any(has_empties),
        _ => false,
    }
}

fn find_empties(json: &Json, path: String, found: &mut Vec<(String, Value)>) {
    match json {
        Json::Object(entries) if entries.is_empty() => found.push((path, Value::Object(Map::new()))),
        Json::Array(items) if items.is_empty() => found.push((path, Value::Array(Vec::new()))),
        Json::Object(entries) => {
            for (key, value) in entries {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                find_empties(value, below, found);
            }
        }
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find_empties(item, format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// Whether a body asks to forget who owns what.
fn resets_ownership(json: &Json) -> bool {
    let member = |json: &Json, key: &str| match json {
        Json::Object(entries) => {
            entries.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.clone())
        }
        _ => None,
    };
    let managed = member(json, "metadata").and_then(|metadata| member(&metadata, "managedFields"));
    matches!(managed, Some(Json::Array(entries)) if entries.is_empty())
}

/// An applied configuration.
pub(crate) struct Configuration {
    pub(crate) value: Value,
    /// What strict validation says of its fields, and of how it was written.
    findings: Vec<String>,
    repeated: Option<String>,
}

impl Configuration {
    /// Refuses or warns about it.
    pub(crate) fn report(
        &self,
        resource: &Resource,
        validation: FieldValidation,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        match &self.repeated {
            Some(why) if validation == FieldValidation::Strict => {
                let message = format!("error strict decoding YAML: error converting YAML to JSON: {why}");
                return Err(Error::bad_request(message));
            }
            Some(why) => report(resource, vec![why.clone()], validation, warnings)?,
            None => {}
        }
        report(resource, self.findings.clone(), validation, warnings)
    }
}

/// Reads an applied configuration: what the client wrote and nothing more, so no defaults and no empty fields.
pub(crate) fn configuration(resource: &Resource, body: &[u8]) -> Result<Configuration> {
    let yaml::Yaml { mut json, repeated } = yaml::parse(body)
        .map_err(|error| Error::bad_request(format!("error decoding YAML: {}", error.message)))?;
    // Whose fields these are depends on kind and version, so here both must be said.
    let said = |key| match &json {
        Json::Object(entries) => claimed(entries, key).unwrap_or_default(),
        _ => String::new(),
    };
    let (api_version, kind) = (said("apiVersion"), said("kind"));
    if api_version != resource.api_version() || kind != *resource.kind {
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let sep = if api_version.contains('/') || group.is_empty() { "/" } else { "" };
        return Err(Error::bad_request(format!("invalid object type: {group}{sep}{version}, Kind={kind}")));
    }
    check_identity(resource, &mut json)?;
    // What does not fit its type is told by whoever merges it, in other words.
    let findings = decoded(resource, json.clone()).map(|(_, findings)| findings).unwrap_or_default();
    Ok(Configuration { value: json.into_value(), findings, repeated })
}

/// Refuses or warns about unknown and duplicate fields.
pub(crate) fn report(
    resource: &Resource,
    findings: Vec<String>,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<()> {
    match validation {
        FieldValidation::Warn => warnings.extend(findings.iter().flat_map(|finding| yaml::warnings(finding))),
        FieldValidation::Strict if !findings.is_empty() => {
            return Err(cannot_handle(resource, &schema::decode::strict_error(&findings)));
        }
        FieldValidation::Ignore | FieldValidation::Strict => {}
    }
    Ok(())
}

fn cannot_handle(resource: &Resource, why: &str) -> Error {
    let (kind, version) = (&resource.kind, &*resource.version);
    Error::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}

/// An object must be of the kind and version that its address says; where it says nothing, it is.
fn check_identity(resource: &Resource, json: &mut Json) -> Result<()> {
    // Go decodes null into an empty object.
    if *json == Json::Null {
        *json = Json::Object(Vec::new());
    }
    let Json::Object(entries) = json else {
        const IDENTITY: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let kind = json.kind();
        return Err(Error::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into Go value of type {IDENTITY}"
        )));
    };
    let expected = resource.api_version();
    let api_version = claimed(entries, "apiVersion")?;
    let kind = claimed(entries, "kind")?;
    if resource.custom.is_some() && api_version.is_empty() {
        return Err(versionless(resource, entries, &kind));
    }
    let api_version = if api_version.is_empty() { expected.clone() } else { api_version };
    let kind = if kind.is_empty() { resource.kind.to_string() } else { kind };
    if kind != *resource.kind || api_version != expected {
        return Err(not_this_kind(resource, &Json::Object(entries.clone()), &api_version, &kind));
    }
    // A key that is there twice stays: strict validation tells of it.
    for (key, value) in [("apiVersion", api_version), ("kind", kind)] {
        let said = |(name, value): &(String, Json)| {
            name == key && matches!(value, Json::String(text) if !text.is_empty())
        };
        if !entries.iter().any(said) {
            entries.retain(|(name, _)| name != key);
            entries.insert(0, (key.to_owned(), Json::String(value)));
        }
    }
    Ok(())
}

/// Why an object of another kind or version cannot be taken for one of `resource`.
fn not_this_kind(resource: &Resource, json: &Json, api_version: &str, kind: &str) -> Error {
    let expected = resource.api_version();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if resource.custom.is_some() {
        return not_this_custom_kind(resource, json, api_version, kind);
    }
    let wanted = &resource.kind;
    let refuse = |why: String| {
        Error::bad_request(format!("{kind} in version {version:?} cannot be handled as a {wanted}: {why}"))
    };
    let package = match &*resource.group {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    let from = if kind == "Status" { "v1" } else { version };
    let unknown_conversion =
        || refuse(format!("converting ({from}.{kind}) to ({package}.{wanted}): unknown conversion"));
    if (api_version, kind) == ("v1", "List") {
        return unknown_conversion();
    }
    let Some(schema) = known_kind(group, version, kind) else {
        return refuse(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        ));
    };
    // It is read as what it claims to be first, and then does not fit.
    if let Err(why) = schema::decode::decode_json(&schema, json.clone()) {
        return refuse(why.to_string());
    }
    if kind == &**wanted && group == &*resource.group {
        return Error::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        ));
    }
    unknown_conversion()
}

fn not_this_custom_kind(resource: &Resource, json: &Json, api_version: &str, kind: &str) -> Error {
    let expected = resource.api_version();
    if api_version != expected {
        return Error::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        ));
    }
    let object = json.clone().into_value();
    let why = format!("must be {}", resource.kind);
    let fault = field::Error::invalid(&field::Path::new("kind"), kind, why);
    Error::invalid(&resource.group, kind, text(&object, &["metadata", "name"]), &[fault])
}

/// Why a custom resource that does not say its version is refused.
fn versionless(resource: &Resource, entries: &[(String, Json)], kind: &str) -> Error {
    let null = entries.iter().any(|(key, value)| key == "apiVersion" && *value == Json::Null);
    if !null {
        return not_this_custom_kind(resource, &Json::Null, "", kind);
    }
    let wanted = &resource.kind;
    Error::bad_request(format!(
        "{kind} in version \"\" cannot be handled as a {wanted}: .apiVersion accessor error: <nil> is of the type \
         <nil>, expected string"
    ))
}

/// The schema of any kind that a stock server knows, those without a resource of their own included.
fn known_kind(group: &str, version: &str, kind: &str) -> Option<Schema> {
    const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
    match (version, kind) {
        // These belong to no version, and so to each.
        (_, "Status") | ("v1", "DeleteOptions") => catalog::builtin_definition(&format!("{META}.{kind}")),
        _ => catalog::builtin_schema(group, version, kind),
    }
}

fn claimed(entries: &[(String, Json)], key: &str) -> Result<String> {
    match entries.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value) {
        None | Some(Json::Null) => Ok(String::new()),
        Some(Json::String(text)) => Ok(text.clone()),
        Some(other) => Err(Error::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{key} of type string",
            other.kind()
        ))),
    }
}

/// The object without what its schema does not know, and what strict validation says of it.
fn decoded(resource: &Resource, json: Json) -> Result<(Value, Vec<String>)> {
    if resource.custom.is_none() {
        let schema = resource.schema().expect("built-in kinds have schemas");
        let decoded = schema::decode::decode_json(&schema, json)
            .map_err(|error| cannot_handle(resource, &error.to_string()))?;
        return Ok((decoded.value, decoded.strict));
    }
    let schema = resource.schema().unwrap_or_else(Schema::anything);
    let decoded = schema::prune::decode_custom(&schema, object_meta(), json)
        .map_err(|error| cannot_handle(resource, &error.to_string()))?;
    Ok((decoded.value, decoded.strict))
}

/// The schema of every object's metadata.
pub(crate) fn object_meta() -> &'static Schema {
    static META: OnceLock<Schema> = OnceLock::new();
    META.get_or_init(|| {
        catalog::builtin_definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
            .expect("ObjectMeta has a schema")
    })
}

/// Schema defaults, then those of the kind.
pub(crate) fn default(resource: &Resource, object: &mut Value) {
    if let Some(schema) = resource.schema() {
        schema::default::default(&schema, object);
    }
    if resource.custom.is_none() {
        (crate::kinds::strategy(&resource.group, &resource.kind).default)(object);
        // A version that is not stored has the defaults of its way to the stored one, too.
        if let Some((group, version)) = convert::storage(&resource.group, &resource.kind)
            && (group, version) != (&*resource.group, &*resource.version)
        {
            let (own_group, own_version) = (&*resource.group, &*resource.version);
            let stored =
                convert::convert(own_group, own_version, &resource.kind, object.take(), group, version);
            *object = convert::convert(group, version, &resource.kind, stored, own_group, own_version);
        }
    }
}
