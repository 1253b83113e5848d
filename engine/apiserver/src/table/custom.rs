//! The columns that a CRD defines for its resources.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

use super::columns::{self, Column};
use super::read::{Read, since};
use crate::jsonpath::{self, Path};

/// The columns of one version of a CRD: the name first, then those it lists, or the age.
#[derive(Debug, Clone)]
pub struct CustomColumns {
    columns: Vec<(Column, Path)>,
}

impl CustomColumns {
    /// From `additionalPrinterColumns`. A path that does not parse ends the list, as in the real server.
    pub fn new(additional: &Value) -> Self {
        let given = additional.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut columns: Vec<(Column, Path)> = given.iter().map_while(column).collect();
        if given.is_empty() {
            columns.extend(described(
                "Age",
                "date",
                columns::creation_description(),
                ".metadata.creationTimestamp",
            ));
        }
        CustomColumns { columns }
    }

    /// What the scale subresource of a custom resource shows.
    pub fn scale() -> Self {
        let columns = [
            described("Desired", "integer", "Number of desired replicas", ".spec.replicas"),
            described("Available", "integer", "Number of actual replicas", ".status.replicas"),
            described("Age", "date", columns::creation_description(), ".metadata.creationTimestamp"),
        ];
        CustomColumns { columns: columns.into_iter().flatten().collect() }
    }

    pub fn columns(&self) -> Vec<Column> {
        let own = self.columns.iter().map(|(column, _)| column.clone());
        std::iter::once(columns::name()).chain(own).collect()
    }

    /// What is not found, or of another type than the column, is null.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = Value::from(object.text("metadata.name"));
        let own = self.columns.iter().map(|(column, path)| match path.first(object) {
            None => Value::Null,
            Some(found) => cell(&column.kind, found, now),
        });
        std::iter::once(name).chain(own).collect()
    }
}

fn column(given: &Value) -> Option<(Column, Path)> {
    let path = given.text("jsonPath");
    let described = given.text("description");
    let description = match described {
        "" => format!("Custom resource definition column (in JSONPath format): {path}"),
        own => own.to_owned(),
    };
    let text = |field: &str| Cow::Owned(given.text(field).to_owned());
    let column = Column {
        name: text("name"),
        kind: text("type"),
        format: text("format"),
        description: description.into(),
        priority: i32::try_from(given.int("priority")).unwrap_or_default(),
    };
    Some((column, Path::parse(path).ok()?))
}

fn described(
    name: &'static str,
    kind: &'static str,
    description: &'static str,
    path: &str,
) -> Option<(Column, Path)> {
    let column = Column {
        name: name.into(),
        kind: kind.into(),
        format: "".into(),
        description: description.into(),
        priority: 0,
    };
    Some((column, Path::parse(path).ok()?))
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", value) => jsonpath::print(value).into(),
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().map_or(Value::Null, |number| (number as i64).into()),
        },
        ("number", Value::Number(_)) => jsonpath::whole(value).map_or_else(|| value.clone(), Value::from),
        ("boolean", Value::Bool(flag)) => (*flag).into(),
        ("date", Value::String(text)) => date(text, now).into(),
        _ => Value::Null,
    }
}

fn date(text: &str, now: Timestamp) -> String {
    match text {
        "" | "null" => "<unknown>".to_owned(),
        text if !is_rfc3339(text) => "<invalid>".to_owned(),
        text => match text.parse::<Timestamp>() {
            Err(_) => "<invalid>".to_owned(),
            Ok(_) => since(&text.into(), now),
        },
    }
}

/// jiff reads more notations than Go does; these are Go's.
fn is_rfc3339(text: &str) -> bool {
    let bytes = text.as_bytes();
    let zone = matches!(bytes, [.., b'Z'] | [.., b'+' | b'-', _, _, b':', _, _]);
    zone && bytes.len() >= 20 && bytes[10] == b'T'
}
