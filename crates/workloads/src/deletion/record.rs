//! What is written down of a deletion: whose members' objects are still to go.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use koinon_api::names::{MANAGED_BY, MANAGER, SYSTEM_NAMESPACE};
use koinon_control::Key;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::members::Kind;

const ENTRY: &str = "deletion";

/// A federated object that is gone, and the members that may still have theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Deletion {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) members: Vec<String>,
}

impl Deletion {
    pub(super) fn key(&self) -> Key {
        Key::new(self.namespace.clone(), self.name.clone())
    }

    /// A line of the log, with the members that are not clean.
    pub(super) fn log(&self, reason: &str, what: &str) {
        let (kind, namespace, name) = (self.kind.as_str(), self.namespace.as_str(), self.name.as_str());
        let left = (!self.members.is_empty()).then(|| self.members.join(","));
        tracing::info!(kind, namespace, name, reason, members = left, "{what}");
    }

    /// The name of the ConfigMap that it is kept in.
    pub(super) fn record(uid: &str) -> String {
        format!("deletion-{uid}")
    }

    pub(super) fn read(map: &ConfigMap) -> Option<Deletion> {
        let deletion: Deletion = serde_json::from_str(map.data.as_ref()?.get(ENTRY)?).ok()?;
        (map.name_any() == Deletion::record(&deletion.uid)).then_some(deletion)
    }

    pub(super) fn data(&self) -> BTreeMap<String, String> {
        [(ENTRY.to_owned(), serde_json::to_string(self).unwrap_or_default())].into()
    }

    pub(super) fn map(&self) -> ConfigMap {
        let metadata = ObjectMeta {
            name: Some(Deletion::record(&self.uid)),
            namespace: Some(SYSTEM_NAMESPACE.to_owned()),
            labels: Some([(MANAGED_BY.to_owned(), MANAGER.to_owned())].into()),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, data: Some(self.data()), ..ConfigMap::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_reads_back() {
        let deletion = Deletion {
            kind: Kind::Deployment,
            namespace: "default".into(),
            name: "web".into(),
            uid: "1-2".into(),
            members: vec!["a".into()],
        };
        let mut map = deletion.map();
        assert_eq!(Deletion::read(&map), Some(deletion));
        map.metadata.name = Some("notes".into());
        assert_eq!(Deletion::read(&map), None);
    }
}
