//! Why a configuration could not be applied, in the words of the real server.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::status;

use super::fields::{Path, display};
use super::managers::Id;

/// A field that another manager owns with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub manager: Id,
    pub path: Path,
}

/// Why a configuration could not be applied.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApplyError {
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// The request itself is wrong.
    #[error(transparent)]
    Status(#[from] status::Error),
    /// The objects do not fit their schema. The real server has no better name for it than its message.
    #[error("{0}")]
    Other(String),
}

impl From<ApplyError> for status::Error {
    fn from(error: ApplyError) -> Self {
        let message = error.to_string();
        match error {
            ApplyError::Status(status) => status,
            ApplyError::Other(_) => status::Error::new(500, "", message),
            ApplyError::Conflicts(conflicts) => {
                let causes: Vec<Value> = conflicts
                    .iter()
                    .map(|conflict| {
                        json!({
                            "reason": "FieldManagerConflict",
                            "message": format!("conflict with {}", conflict.manager.describe()),
                            "field": display(&conflict.path),
                        })
                    })
                    .collect();
                let mut status = status::Error::new(409, "Conflict", message);
                status.details = Some(Box::new(json!({ "causes": causes })));
                status
            }
        }
    }
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        let (manager, path) = (one.manager.describe(), display(&one.path));
        return format!("Apply failed with 1 conflict: conflict with {manager}: {path}");
    }
    let mut by_manager: BTreeMap<&Id, Vec<String>> = BTreeMap::new();
    for conflict in conflicts {
        by_manager.entry(&conflict.manager).or_default().push(format!("- {}", display(&conflict.path)));
    }
    let lines: Vec<String> = by_manager
        .into_iter()
        .flat_map(|(manager, paths)| {
            std::iter::once(format!("conflicts with {}:", manager.describe())).chain(paths)
        })
        .collect();
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// `apps/v1, Kind=Deployment`; the core group's name is empty.
pub(super) fn group_version_kind(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    format!("{group}/{version}, Kind={kind}")
}

/// Which object: `namespace/name; group/version, Kind=kind`.
pub fn identity(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let kind = group_version_kind(text("/apiVersion"), text("/kind"));
    format!("{}/{}; {kind}", text("/metadata/namespace"), text("/metadata/name"))
}
