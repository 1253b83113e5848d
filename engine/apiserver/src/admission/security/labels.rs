//! The labels by which a namespace asks for a standard: they must say one that there is.

use serde_json::Value;

use super::super::Attributes;
use crate::field;
use crate::kinds::walk::get;
use crate::status::{Error, Result};

const PREFIX: &str = "pod-security.kubernetes.io/";

/// Refuses a namespace whose labels make no sense, unless they made none before.
pub(crate) fn check_labels(request: &Attributes<'_>, object: &Value, old: Option<&Value>) -> Result<()> {
    if !request.writes("", "namespaces") {
        return Ok(());
    }
    let faults = faults(object);
    if faults.is_empty() || old.is_some_and(|old| self::faults(old) == faults) {
        return Ok(());
    }
    Err(Error::invalid("", "Namespace", request.name, &faults))
}

fn faults(namespace: &Value) -> Vec<field::Error> {
    let labels = get(namespace, &["metadata", "labels"]);
    let modes = ["enforce", "audit", "warn"];
    let names =
        modes.iter().flat_map(|mode| [((*mode).to_owned(), true), (format!("{mode}-version"), false)]);
    names
        .filter_map(|(name, is_level)| {
            let name = format!("{PREFIX}{name}");
            let value = labels.get(&name)?.as_str()?;
            let why = match is_level {
                true if !is_level_name(value) => "must be one of privileged, baseline, restricted",
                false if !is_version(value) => "must be \"latest\" or \"v1.x\"",
                _ => return None,
            };
            Some(field::Error::invalid(&field::Path::new("metadata.labels").key(&name), value, why))
        })
        .collect()
}

fn is_level_name(level: &str) -> bool {
    matches!(level, "privileged" | "baseline" | "restricted")
}

fn is_version(version: &str) -> bool {
    let minor = version.strip_prefix("v1.");
    let number = |minor: &str| minor.parse::<u32>().is_ok_and(|number| number.to_string() == minor);
    version == "latest" || minor.is_some_and(number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn levels_and_versions_must_be_known() {
        let told = |labels: Value| -> Vec<String> {
            faults(&json!({"metadata": {"labels": labels}}))
                .iter()
                .map(|fault| fault.path.to_string())
                .collect()
        };
        let fine = json!({
            "pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn-version": "v1.36",
            "pod-security.kubernetes.io/audit-version": "latest", "other": "x",
        });
        assert_eq!(told(fine), [""; 0]);
        let wrong = json!({
            "pod-security.kubernetes.io/enforce": "strict", "pod-security.kubernetes.io/warn-version": "v1.036",
        });
        let expected = [
            "metadata.labels[pod-security.kubernetes.io/enforce]",
            "metadata.labels[pod-security.kubernetes.io/warn-version]",
        ];
        assert_eq!(told(wrong), expected);
    }
}
