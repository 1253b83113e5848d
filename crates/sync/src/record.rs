//! Objects as they come from a server, and as they are kept: small, and parsed only when a decision needs them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use koinon_control::Key;
use koinon_control::watch::{Meta, Named, number};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::value::RawValue;

use crate::plan::Object;

/// A custom resource on the wire. Its parts stay text.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Wire {
    metadata: Metadata,
    #[serde(default, deserialize_with = "text")]
    spec: Text,
    #[serde(default, deserialize_with = "text")]
    status: Text,
}

/// JSON, as the server wrote it. What an original and its copy have in common is kept once.
type Text = Option<Arc<str>>;

fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Text, D::Error> {
    Ok(Option::<&'de RawValue>::deserialize(from)?.map(|raw| raw.get().into()))
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
    #[serde(default, deserialize_with = "text")]
    labels: Text,
    #[serde(default, deserialize_with = "text")]
    annotations: Text,
}

impl Named for Wire {
    fn meta(&self) -> Meta<'_> {
        let Metadata { namespace, name, uid, resource_version, .. } = &self.metadata;
        Meta { namespace, name, uid, version: resource_version }
    }
}

impl Wire {
    pub(crate) fn keep(self) -> (Key, Record) {
        let version = number(&self.metadata.resource_version);
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

/// A custom resource as it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) uid: Box<str>,
    pub(crate) version: u64,
    generation: i64,
    pub(crate) terminating: bool,
    labels: Text,
    annotations: Text,
    spec: Text,
    status: Text,
}

impl Record {
    /// The object, parsed.
    pub(crate) fn open(&self) -> Object {
        let pairs = |text: &Text| -> BTreeMap<String, String> {
            text.as_ref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
        };
        let tree =
            |text: &Text| text.as_ref().map(|text| serde_json::from_str(text).expect("a raw value is JSON"));
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

    /// Keeps what is the same in both once.
    pub(crate) fn share_with(&mut self, other: &Record) {
        let pairs = [
            (&mut self.labels, &other.labels),
            (&mut self.annotations, &other.annotations),
            (&mut self.spec, &other.spec),
            (&mut self.status, &other.status),
        ];
        for (ours, theirs) in pairs {
            if ours == theirs {
                ours.clone_from(theirs);
            }
        }
    }

    pub(crate) fn label(&self, key: &str) -> Option<String> {
        let labels: BTreeMap<String, String> = serde_json::from_str(self.labels.as_ref()?).ok()?;
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

fn print<const N: usize>(parts: [&Text; N], uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    for part in parts {
        part.hash(&mut hasher);
    }
    hasher.finish()
}
