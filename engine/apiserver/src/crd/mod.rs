//! Custom resource definitions: what they mean, and what is wrong with them. All pure functions over the
//! JSON of `apiextensions.k8s.io/v1`.
//!
//! ```text
//! body ─► decode ─► default ─► prepare ─► validate ─► store ─► accept_names, establish (status)
//!                                                        └───► Crd::parse ─► serve its resources
//! ```

mod invariants;
mod names;
pub mod openapi;
mod scale;
mod schema_rules;
pub mod structural;
mod validate;
mod written;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::cel;
use crate::schema::Schema;
use crate::selector::CustomFields;
use crate::table::CustomColumns;

pub(crate) use names::is_settled;
pub use names::{accept_names, establish};
pub use scale::validate_scale;
pub use validate::{validate, validate_status, validate_update};

/// Whether resources live in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// How a resource is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
}

/// A definition, ready to be served.
#[derive(Debug, Clone)]
pub struct Crd {
    pub group: String,
    pub scope: Scope,
    /// The names that were accepted; those of the specification until then.
    pub names: Names,
    pub versions: Vec<Version>,
    pub conversion: Conversion,
    pub established: bool,
    /// Whether it is on its way out: what is there may be deleted, and nothing new comes.
    pub terminating: bool,
    /// The store's revision from which on objects were written under this very definition.
    pub since: u64,
    /// The definition as it was read, for the OpenAPI documents.
    pub source: Value,
}

/// How objects of one version become another.
#[derive(Debug, Clone, PartialEq)]
pub enum Conversion {
    /// Only `apiVersion` changes.
    None,
    /// A webhook converts; its configuration as it was written.
    Webhook(Value),
}

/// One version of a resource.
#[derive(Debug, Clone)]
pub struct Version {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub deprecated: bool,
    pub deprecation_warning: Option<String>,
    pub schema: Option<Schema>,
    /// The schema's rules, if it has any.
    pub rules: Option<Arc<cel::Validator>>,
    /// Whether status is a subresource.
    pub status: bool,
    pub scale: Option<Scale>,
    pub columns: CustomColumns,
    /// What field selectors may use.
    pub fields: CustomFields,
    /// Whether reading an object may show more than was stored.
    pub has_defaults: bool,
}

/// Where the scale subresource finds its numbers, as paths that start with a dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    pub spec_path: String,
    pub status_path: String,
    pub selector_path: Option<String>,
}

impl Crd {
    /// Reads a valid definition. `object_meta` is the schema of `ObjectMeta`.
    pub fn parse(crd: &Value, object_meta: Option<&Schema>) -> Crd {
        let spec = &crd["spec"];
        let accepted = &crd["status"]["acceptedNames"];
        let names = if text(accepted, "kind").is_empty() { &spec["names"] } else { accepted };
        let conversion = match text(&spec["conversion"], "strategy") {
            "Webhook" => Conversion::Webhook(spec["conversion"]["webhook"].clone()),
            _ => Conversion::None,
        };
        let scope = if text(spec, "scope") == "Namespaced" { Scope::Namespaced } else { Scope::Cluster };
        Crd {
            group: text(spec, "group").to_owned(),
            scope,
            names: Names::parse(names),
            versions: list(spec, "versions")
                .iter()
                .map(|version| Version::parse(version, scope, object_meta))
                .collect(),
            conversion,
            established: names::is_true(crd, "Established"),
            terminating: names::is_true(crd, "Terminating"),
            since: u64::MAX,
            source: json!({"spec": crd["spec"].clone()}),
        }
    }

    /// The name of the definition itself.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.names.plural, self.group)
    }

    /// The version that is stored.
    pub fn storage(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }

    /// A version that is served.
    pub fn served(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.served && version.name == name)
    }
}

impl Names {
    fn parse(names: &Value) -> Self {
        let owned = |key: &str| text(names, key).to_owned();
        let strings =
            |key: &str| list(names, key).iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        Names {
            plural: owned("plural"),
            singular: owned("singular"),
            kind: owned("kind"),
            list_kind: owned("listKind"),
            short_names: strings("shortNames"),
            categories: strings("categories"),
        }
    }
}

impl Version {
    fn parse(version: &Value, scope: Scope, object_meta: Option<&Schema>) -> Self {
        let subresources = &version["subresources"];
        let schema = version["schema"].get("openAPIV3Schema");
        Version {
            name: text(version, "name").to_owned(),
            served: flag(version, "served"),
            storage: flag(version, "storage"),
            deprecated: flag(version, "deprecated"),
            deprecation_warning: version["deprecationWarning"].as_str().map(str::to_owned),
            schema: schema.map(|schema| structural::structural(schema, object_meta)),
            rules: schema.and_then(cel::Validator::compile).map(Arc::new),
            status: subresources.get("status").is_some_and(|status| !status.is_null()),
            scale: subresources.get("scale").filter(|scale| !scale.is_null()).map(|scale| Scale {
                spec_path: text(scale, "specReplicasPath").to_owned(),
                status_path: text(scale, "statusReplicasPath").to_owned(),
                selector_path: scale["labelSelectorPath"].as_str().map(str::to_owned),
            }),
            columns: CustomColumns::new(&version["additionalPrinterColumns"]),
            fields: CustomFields::new(&version["selectableFields"], scope == Scope::Namespaced),
            has_defaults: schema.is_some_and(has_defaults),
        }
    }
}

/// What absent fields of a definition become.
pub fn default(crd: &mut Value) {
    let spec = &mut crd["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    if !spec["names"].is_object() {
        spec["names"] = json!({});
    }
    let names = &mut spec["names"];
    let kind = text(names, "kind").to_owned();
    if text(names, "singular").is_empty() && !kind.is_empty() {
        names["singular"] = kind.to_lowercase().into();
    }
    if text(names, "listKind").is_empty() && !kind.is_empty() {
        names["listKind"] = format!("{kind}List").into();
    }
    if spec["conversion"].is_null() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    if let Some(service) = spec.pointer_mut("/conversion/webhook/clientConfig/service")
        && service.is_object()
        && service["port"].is_null()
    {
        service["port"] = 443.into();
    }
    if let Some(storage) = storage_version(spec)
        && list(&crd["status"], "storedVersions").is_empty()
        && crd["status"].is_object()
    {
        crd["status"]["storedVersions"] = json!([storage]);
    }
}

/// What a creator may not decide: the status starts with the stored version alone.
pub fn prepare_create(crd: &mut Value) {
    let stored = storage_version(&crd["spec"]).map_or(Value::Null, |storage| json!([storage]));
    crd["status"] = json!({
        "conditions": null,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored,
    });
}

/// The same for an update: the status stays, and a new storage version joins those stored.
pub fn prepare_update(crd: &mut Value, old: &Value) {
    crd["status"] = old["status"].clone();
    let Some(storage) = storage_version(&crd["spec"]) else { return };
    let mut stored = list(&crd["status"], "storedVersions").to_vec();
    if !stored.iter().any(|version| *version == *storage) {
        stored.push(storage.into());
        crd["status"]["storedVersions"] = stored.into();
    }
}

/// Warnings about formats that mean nothing; those that `old` had already are not told again.
pub fn warnings(crd: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(schema_rules::unrecognized_formats).unwrap_or_default();
    let formats = schema_rules::unrecognized_formats(crd).into_iter();
    formats
        .filter(|format| !known.contains(format))
        .map(|format| format!("unrecognized format {format:?}"))
        .collect()
}

/// Whether a schema has a default anywhere.
fn has_defaults(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key("default") || map.values().any(has_defaults),
        Value::Array(items) => items.iter().any(has_defaults),
        _ => false,
    }
}

fn storage_version(spec: &Value) -> Option<String> {
    let storage = list(spec, "versions").iter().find(|version| flag(version, "storage"))?;
    Some(text(storage, "name").to_owned())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn map<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(key).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// A part of a schema that is there.
fn part<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|part| !part.is_null())
}

#[cfg(test)]
mod tests;
