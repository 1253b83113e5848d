//! Labels and annotations of an import that came from exports: they go when no export has them any more, and what others wrote
//! stays. No IO.

use std::collections::{BTreeMap, BTreeSet};

use koinon_api::names::MANAGED_BY;
use koinon_api::names::network::EXPORTED;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::record::Import;

/// Which of them, by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Written {
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    labels: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    annotations: BTreeSet<String>,
}

impl Written {
    /// What an import says of itself. One that says nothing has nothing that is ours to take back.
    pub(super) fn read(import: &Import) -> Written {
        let said = import.annotations.get(EXPORTED);
        let mut written: Written = said.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        // Whatever it says: these are ours for good.
        written.labels.remove(MANAGED_BY);
        written.annotations.remove(EXPORTED);
        written
    }

    /// What is to be written from now on.
    pub(super) fn of(labels: &BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> Written {
        Written {
            labels: labels.keys().cloned().collect(),
            annotations: annotations.keys().cloned().collect(),
        }
    }

    /// Those labels and annotations of an import that came from exports.
    pub(super) fn found(&self, import: &Import) -> [BTreeMap<String, String>; 2] {
        let only = |all: &BTreeMap<String, String>, keys: &BTreeSet<String>| {
            let found = all.iter().filter(|(key, _)| keys.contains(*key));
            found.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        [only(&import.labels, &self.labels), only(&import.annotations, &self.annotations)]
    }

    /// What an import is to say of itself.
    pub(super) fn said(&self) -> Option<String> {
        serde_json::to_string(self).ok().filter(|_| *self != Written::default())
    }

    /// Adds to the metadata of an import that what was written and is not wanted any more goes.
    pub(super) fn take_back(&self, metadata: &mut Value) {
        for (field, keys) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            for key in keys {
                if metadata[field].get(key).is_none() {
                    metadata[field][key] = Value::Null;
                }
            }
        }
        if metadata["annotations"].get(EXPORTED).is_none() {
            metadata["annotations"][EXPORTED] = json!(null);
        }
    }
}
