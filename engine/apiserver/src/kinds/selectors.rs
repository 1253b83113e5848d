//! Labels, annotations and the selectors that look for them.

use serde_json::Value;

use super::walk::{At, Faults, list, text};
use crate::field::{Error, Path};
use crate::names;

/// All annotations of an object together, keys included.
const ANNOTATIONS_MOST: usize = 256 * 1024;

/// What is wrong with a map of labels.
pub(crate) fn validate_labels(labels: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    for (key, value) in labels.entries() {
        faults
            .extend(names::qualified_name(key).into_iter().map(|why| Error::invalid(&labels.path, key, why)));
        let text = value.str();
        faults
            .extend(names::label_value(text).into_iter().map(|why| Error::invalid(&labels.path, text, why)));
    }
    faults
}

/// What is wrong with the key of a label.
pub(crate) fn validate_label_name(name: &At<'_>) -> Faults {
    name.obey(names::qualified_name)
}

/// What is wrong with a map of annotations.
pub(crate) fn validate_annotations(annotations: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let mut size = 0;
    for (key, value) in annotations.entries() {
        size += key.len() + value.str().len();
        // Keys of annotations may have capitals in their prefix.
        let wrong = names::qualified_name(&key.to_lowercase());
        faults.extend(wrong.into_iter().map(|why| Error::invalid(&annotations.path, key, why)));
    }
    if size > ANNOTATIONS_MOST {
        faults.push(Error::too_long(&annotations.path, ANNOTATIONS_MOST));
    }
    faults
}

/// What is wrong with a `LabelSelector`; an absent one is fine.
pub(crate) fn validate_label_selector(selector: &Value, path: &Path) -> Faults {
    let selector = At::new(selector, path.clone());
    let mut faults = validate_labels(&selector.child("matchLabels"));
    for requirement in selector.child("matchExpressions").items() {
        let values = requirement.child("values");
        let count = values.items().len();
        match requirement.text("operator") {
            "In" | "NotIn" if count == 0 => {
                faults.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if count > 0 => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                faults.push(values.forbidden(why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            operator => {
                let path = requirement.child("operator").path;
                faults.push(Error::invalid(&path, operator, "not a valid selector operator"));
            }
        }
        faults.extend(validate_label_name(&requirement.child("key")));
        for value in values.items() {
            faults.extend(value.obey(names::label_value));
        }
    }
    faults
}

/// Whether a `LabelSelector` selects these labels; one that has no terms selects everything.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let exact = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .is_none_or(|wanted| wanted.iter().all(|(key, value)| label(key) == value.as_str()));
    exact
        && list(&selector["matchExpressions"]).iter().all(|term| {
            let found = label(text(term, "key"));
            let listed = found.is_some_and(|value| list(&term["values"]).iter().any(|one| one == value));
            match text(term, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                _ => found.is_none(),
            }
        })
}

/// A selector as messages show it: labels first.
pub(crate) fn show(selector: &Value) -> String {
    let parts = ["matchLabels", "matchExpressions"].into_iter().filter_map(|name| {
        let value = selector.get(name).filter(|value| !super::walk::is_empty(value))?;
        Some(format!("{name:?}:{value}"))
    });
    if selector.is_null() {
        "null".to_owned()
    } else {
        format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_select() {
        let labels = json!({"app": "web", "tier": "front"});
        assert!(selects(&json!({}), &labels));
        assert!(selects(&json!({"matchLabels": {"app": "web"}}), &labels));
        assert!(!selects(&json!({"matchLabels": {"app": "db"}}), &labels));
        let term = |operator: &str, key: &str, values: &[&str]| {
            selects(
                &json!({"matchExpressions": [{"operator": operator, "key": key, "values": values}]}),
                &labels,
            )
        };
        assert!(term("In", "app", &["a", "web"]));
        assert!(!term("NotIn", "app", &["web"]));
        assert!(term("NotIn", "none", &["web"]));
        assert!(term("Exists", "tier", &[]));
        assert!(!term("DoesNotExist", "tier", &[]));
    }
}
