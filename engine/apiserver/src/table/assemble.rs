//! Putting a Table together, and the metadata that stands for an object in its rows.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Column, Printer};
use crate::status;

/// Which version of `meta.k8s.io` a client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetaVersion {
    #[default]
    V1,
    V1Beta1,
}

impl MetaVersion {
    /// From the `v` of an Accept header.
    pub fn parse(version: &str) -> Option<Self> {
        match version {
            "v1" => Some(MetaVersion::V1),
            "v1beta1" => Some(MetaVersion::V1Beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What a row says about its object, besides the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Include {
    /// From the query parameter `includeObject`.
    pub fn parse(query: &str) -> status::Result<Self> {
        match query {
            "None" => Ok(Include::None),
            "" | "Metadata" => Ok(Include::Metadata),
            "Object" => Ok(Include::Object),
            other => Err(status::Error::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// One row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub cells: Vec<Value>,
    pub conditions: Option<Value>,
    /// Null, PartialObjectMetadata, or the object itself.
    pub object: Value,
}

/// The row of one object. The bookmark that ends the initial events keeps its metadata in any case.
pub fn row(printer: &Printer, object: &Value, include: Include, version: MetaVersion, now: Timestamp) -> Row {
    let ends_initial_events = object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
    let shown = match include {
        Include::Object => object.clone(),
        Include::None if !ends_initial_events => Value::Null,
        Include::None | Include::Metadata => partial(object, version),
    };
    Row { cells: printer.cells(object, now), conditions: printer.conditions(object), object: shown }
}

/// The Table itself. `metadata` is that of the list or of the single object; without `columns` the
/// definitions are left out, as in all events of a watch but the first.
pub fn table(
    printer: &Printer,
    columns: Option<&[Column]>,
    rows: impl IntoIterator<Item = Row>,
    metadata: &Value,
    version: MetaVersion,
) -> Value {
    let rows: Vec<Value> = rows.into_iter().map(Row::into_value).collect();
    json!({
        "kind": "Table",
        "apiVersion": version.api_version(),
        "metadata": list_metadata(metadata),
        "columnDefinitions": columns,
        "rows": if rows.is_empty() { printer.empty_rows() } else { rows.into() },
    })
}

impl Row {
    /// As it is written in a Table.
    pub fn into_value(self) -> Value {
        let mut row = Map::from_iter([
            ("cells".to_owned(), Value::Array(self.cells)),
            ("object".to_owned(), self.object),
        ]);
        if let Some(conditions) = self.conditions {
            row.insert("conditions".to_owned(), conditions);
        }
        row.into()
    }
}

/// An object's metadata alone, as a PartialObjectMetadata.
pub fn partial(object: &Value, version: MetaVersion) -> Value {
    let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    // This one is made while a DaemonSet is converted, which its metadata alone is not.
    if object["kind"] == "DaemonSet"
        && let Some(annotations) = metadata["annotations"].as_object_mut()
        && annotations.remove("deprecated.daemonset.template.generation").is_some()
        && annotations.is_empty()
    {
        metadata.as_object_mut().map(|metadata| metadata.remove("annotations"));
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": metadata})
}

/// The metadata of a list's objects. Without any, the real server says `null`.
pub fn partial_list<'a>(
    objects: impl IntoIterator<Item = &'a Value>,
    metadata: &Value,
    version: MetaVersion,
) -> Value {
    let items: Vec<Value> = objects.into_iter().map(|object| partial(object, version)).collect();
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": version.api_version(),
        "metadata": list_metadata(metadata),
        "items": if items.is_empty() { Value::Null } else { items.into() },
    })
}

/// The answer to a client that asked for the PartialObjectMetadata of a list.
pub fn not_a_single_object(printer: &Printer) -> status::Error {
    let list = format!("{}List", go_type(printer));
    status::Error::not_acceptable(format!(
        "you requested PartialObjectMetadata, but the requested object is a list ({list})"
    ))
}

/// The answer to a client that asked for the PartialObjectMetadataList of one object.
pub fn not_a_list(printer: &Printer) -> status::Error {
    let single = go_type(printer);
    status::Error::not_acceptable(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list ({single})"
    ))
}

/// The Go type that the real server names: packages are called after the first word of their group.
fn go_type(printer: &Printer) -> String {
    match printer {
        Printer::Custom(_) => "*unstructured.Unstructured".to_owned(),
        Printer::BuiltIn { group, kind, .. } => {
            let package = match group.split('.').next().unwrap_or_default() {
                "" | "events" => "core",
                first => first,
            };
            format!("*{package}.{kind}")
        }
    }
}

/// Of an object's or a list's metadata what a list can have.
fn list_metadata(metadata: &Value) -> Value {
    let kept = ["resourceVersion", "continue", "remainingItemCount"].iter().filter_map(|key| {
        let value = metadata.get(key).filter(|value| !value.is_null() && *value != "")?;
        Some(((*key).to_owned(), value.clone()))
    });
    Value::Object(kept.collect())
}
