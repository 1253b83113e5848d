//! Whole types that are on their way out: every request to one is told so, whatever comes of it.

use crate::catalog::compare_versions;
use crate::crd::Crd;

/// What requests to a deprecated built-in type are told.
pub fn deprecation(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    match (group, version, kind) {
        ("", "v1", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        ("", "v1", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        _ => None,
    }
}

/// What requests to a deprecated version of a custom resource are told; `index` says which version.
pub fn custom_deprecation(crd: &Crd, index: usize) -> Option<String> {
    let version = crd.versions.get(index).filter(|version| version.deprecated)?;
    if let Some(own) = &version.deprecation_warning {
        return Some(own.clone());
    }
    let (group, kind) = (&crd.group, &crd.names.kind);
    let newer = crd.versions.iter().filter(|other| {
        other.served && !other.deprecated && compare_versions(&version.name, &other.name).is_lt()
    });
    let instead = match newer.max_by(|a, b| compare_versions(&a.name, &b.name)) {
        Some(newest) => format!("; use {group}/{} {kind}", newest.name),
        None => String::new(),
    };
    Some(format!("{group}/{} {kind} is deprecated{instead}", version.name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn custom_versions_name_what_to_use() {
        let version = |name: &str, deprecated: bool, warning: Value| json!({"name": name, "served": true, "deprecated": deprecated, "deprecationWarning": warning});
        let crd = json!({"spec": {
            "group": "example.com",
            "names": {"kind": "Warn", "plural": "warns"},
            "versions": [
                version("v1alpha1", true, json!("do not")),
                version("v1beta1", true, Value::Null),
                version("v1", false, Value::Null),
                version("v2", false, Value::Null),
                version("v3", true, Value::Null),
            ],
        }});
        let crd = Crd::parse(&crd, None);
        let said: Vec<Option<String>> = (0..5).map(|index| custom_deprecation(&crd, index)).collect();
        let expected = [
            Some("do not"),
            Some("example.com/v1beta1 Warn is deprecated; use example.com/v2 Warn"),
            None,
            None,
            Some("example.com/v3 Warn is deprecated"),
        ];
        assert_eq!(said, expected.map(|said| said.map(str::to_owned)));
    }
}
