//! What may be wrong with what a version says: its schema, subresources, columns and selectable fields.

use std::collections::HashSet;

use serde_json::Value;

use crate::cel;
use crate::crd::{flag, invariants, part, schema_rules, text, written};
use crate::field::{Error, Fault, Path};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const MOST_SELECTABLE: usize = 8;
/// What the root of a schema may say beside its type when status is a subresource.
const AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

pub(super) fn has_status(subresources: Option<&Value>) -> bool {
    subresources.is_some_and(|subresources| part(subresources, "status").is_some())
}

/// What is done about a rule that may cost too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CostLimit {
    Enforced,
    /// The schema was accepted as it is: only all of its rules together are held to their limit.
    Accepted,
}

pub(super) fn check_validation(
    validation: Option<&Value>,
    status: bool,
    limit: CostLimit,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let Some(schema) = validation.and_then(|validation| part(validation, "openAPIV3Schema")) else { return };
    let path = path.child("openAPIV3Schema");
    let before = errors.len();
    if status {
        errors.extend(root_of_status(schema, &path));
    }
    if flag(schema, "nullable") {
        errors.push(Error::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
    }
    let unsupported = invariants::unsupported(schema);
    let mut structural = false;
    if unsupported.is_none() {
        let wrong = invariants::validate(schema, &path);
        structural = wrong.is_empty();
        if structural {
            schema_rules::defaults(schema, &path, errors);
        }
        errors.extend(wrong);
    }
    let wrong = schema_rules::validate(schema, &path);
    // A rule is compiled unless the schema that it is about is wrong itself.
    let mut rules = if structural { cel::check(schema, &path) } else { cel::Judged::default() };
    let wrong_places: HashSet<&str> = wrong.iter().flat_map(|error| places(error.path.as_str())).collect();
    let is_right = |path: &Path| {
        let place = path.as_str().split(".x-kubernetes-validations").next().unwrap_or_default();
        !wrong_places.contains(place)
    };
    rules.errors.retain(|error| {
        let is_cost = error.fault == Fault::Forbidden && limit == CostLimit::Accepted;
        !is_cost && is_right(&error.path)
    });
    rules.costs.retain(|one| is_right(&one.path));
    errors.extend(wrong);
    errors.extend(rules.errors);
    errors.extend(cel::limits::of_all(rules.costs, &path));
    if let (Some(why), true) = (unsupported, errors.len() == before) {
        errors.push(Error::invalid(&path, "", why));
    }
}

/// A path, and all that it lies below.
fn places(path: &str) -> impl Iterator<Item = &str> {
    let above = path.match_indices(['.', '[']).map(|(at, _)| &path[..at]);
    above.chain([path])
}

fn root_of_status(schema: &Value, path: &Path) -> Option<Error> {
    for name in written::set_fields(schema) {
        if name == "Type" && text(schema, "type") != "object" {
            let why = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
            return Some(Error::invalid(&path.child("type"), text(schema, "type"), why));
        }
        if !AT_ROOT.contains(&name) {
            let why = format!(
                "{}: only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                written::schema(schema),
                AT_ROOT.join(" ")
            );
            let mut error = Error::invalid(path, Value::Null, why);
            error.value = None;
            return Some(error);
        }
    }
    None
}

pub(super) fn check_subresources(subresources: Option<&Value>, path: &Path, errors: &mut Vec<Error>) {
    let Some(scale) = subresources.and_then(|subresources| part(subresources, "scale")) else { return };
    let mut check = |key: &str, roots: &[&str], why: &str| {
        let at = path.child("scale").child(key);
        let value = text(scale, key);
        if value.is_empty() {
            if key != "labelSelectorPath" {
                errors.push(Error::required(&at, ""));
            }
        } else if !value.starts_with('.') {
            errors.push(Error::invalid(&at, value, "must be a simple json path starting with ."));
        } else if !roots.iter().any(|root| value.starts_with(root)) {
            errors.push(Error::invalid(&at, value, why));
        }
    };
    check("specReplicasPath", &[".spec."], "should be a json path under .spec");
    check("statusReplicasPath", &[".status."], "should be a json path under .status");
    check(
        "labelSelectorPath",
        &[".spec.", ".status."],
        "should be a json path under either .spec or .status",
    );
}

pub(super) fn check_columns(columns: Option<&Value>, path: &Path, errors: &mut Vec<Error>) {
    let columns = columns.and_then(Value::as_array).into_iter().flatten();
    for (index, column) in columns.enumerate() {
        let path = path.index(index);
        if text(column, "name").is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text(column, "type") {
            "" => errors.push(Error::required(&path.child("type"), types)),
            kind if !COLUMN_TYPES.contains(&kind) => {
                errors.push(Error::invalid(&path.child("type"), kind, types));
            }
            _ => {}
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(Error::invalid(&path.child("format"), format, why));
        }
        match text(column, "jsonPath") {
            "" => errors.push(Error::required(&path.child("JSONPath"), "")),
            json_path if !json_path.starts_with('.') => {
                let why = "must be a simple json path starting with .";
                errors.push(Error::invalid(&path.child("JSONPath"), json_path, why));
            }
            _ => {}
        }
    }
}

pub(super) fn check_selectable(
    fields: Option<&Value>,
    validation: Option<&Value>,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let Some(fields) = fields.and_then(Value::as_array) else { return };
    let schema =
        validation.and_then(|validation| part(validation, "openAPIV3Schema")).unwrap_or(&Value::Null);
    let mut seen = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let at = path.index(index).child("jsonPath");
        let json_path = text(field, "jsonPath");
        if json_path.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        let Some(found) = schema_rules::field_at(schema, json_path) else {
            errors.push(Error::invalid(
                &at,
                json_path,
                "is an invalid path: does not refer to a valid field",
            ));
            continue;
        };
        if json_path.starts_with(".metadata") {
            errors.push(Error::invalid(&at, json_path, "must not point to fields in metadata"));
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(Error::invalid(&at, json_path, why));
        }
        if seen.contains(&json_path) {
            errors.push(Error::duplicate(&at, json_path));
        } else {
            seen.push(json_path);
        }
    }
    if seen.len() > MOST_SELECTABLE {
        errors.push(Error::too_many(path, seen.len(), MOST_SELECTABLE));
    }
}
