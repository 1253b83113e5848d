//! Objects as they come from a server, and as they are kept: small, and parsed only when a decision needs them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use koinon_control::Key;
use serde::de::IgnoredAny;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::plan::Object;

/// Something that a list or a watch shows.
pub(crate) trait Item: DeserializeOwned + Clone + Send + 'static {
    /// The resource version.
    fn version(&self) -> u64;
}

/// A custom resource on the wire. Its parts stay text.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Wire {
    metadata: Metadata,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: Box<str>,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    generation: i64,
    deletion_timestamp: Option<IgnoredAny>,
    labels: Option<Box<RawValue>>,
    annotations: Option<Box<RawValue>>,
}

impl Item for Wire {
    fn version(&self) -> u64 {
        number(&self.metadata.resource_version)
    }
}

impl Wire {
    pub(crate) fn keep(self) -> (Key, Record) {
        let version = self.version();
        let metadata = self.metadata;
        let record = Record {
            uid: metadata.uid,
            version,
            generation: metadata.generation,
            terminating: metadata.deletion_timestamp.is_some(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            spec: self.spec,
            status: self.status,
        };
        (Key::new(metadata.namespace, metadata.name), record)
    }
}

/// Versions of one server are numbers that grow.
pub(crate) fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

/// A custom resource as it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) uid: Box<str>,
    pub(crate) version: u64,
    generation: i64,
    pub(crate) terminating: bool,
    labels: Option<Box<RawValue>>,
    annotations: Option<Box<RawValue>>,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
}

impl Record {
    /// The object, parsed.
    pub(crate) fn open(&self) -> Object {
        let pairs = |text: &Option<Box<RawValue>>| -> BTreeMap<String, String> {
            text.as_ref().and_then(|text| serde_json::from_str(text.get()).ok()).unwrap_or_default()
        };
        let tree = |text: &Option<Box<RawValue>>| {
            text.as_ref().map(|text| serde_json::from_str(text.get()).expect("a raw value is JSON"))
        };
        Object {
            uid: self.uid.to_string(),
            version: self.version.to_string(),
            generation: self.generation,
            terminating: self.terminating,
            labels: pairs(&self.labels),
            annotations: pairs(&self.annotations),
            spec: tree(&self.spec),
            status: tree(&self.status),
        }
    }

    pub(crate) fn label(&self, key: &str) -> Option<String> {
        let labels: BTreeMap<String, String> = serde_json::from_str(self.labels.as_ref()?.get()).ok()?;
        labels.get(key).cloned()
    }

    pub(crate) fn has_status(&self) -> bool {
        self.status.is_some()
    }

    /// One number for everything that goes down.
    pub(crate) fn print_of_spec(&self) -> u64 {
        print([&self.labels, &self.annotations, &self.spec], &self.uid)
    }

    /// One number for everything that goes up.
    pub(crate) fn print_of_status(&self) -> u64 {
        print([&self.status], &self.uid)
    }

    pub(crate) fn generation(&self) -> i64 {
        self.generation
    }
}

fn print<const N: usize>(parts: [&Option<Box<RawValue>>; N], uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    for part in parts {
        part.as_ref().map(|part| part.get()).hash(&mut hasher);
    }
    hasher.finish()
}
