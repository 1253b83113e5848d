//! What a policy says, apart from what the cluster it is in adds to it.

use std::collections::BTreeMap;

use koinon_api::names::network::DOMAINS;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::key::PolicyKey;
use super::names::{FEDERATED, FEDERATED_BY_USER, REVISION};
use super::version::{Hash, Version};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is copied from cluster to cluster: spec, labels and the user's annotations.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub spec: Value,
}

impl Content {
    pub fn of(object: &DynamicObject) -> Content {
        let mut annotations = object.annotations().clone();
        annotations.retain(|key, _| key != REVISION && key != LAST_APPLIED);
        let spec = object.data.get("spec").cloned().unwrap_or(Value::Null);
        Content { labels: object.labels().clone(), annotations, spec }
    }

    /// The fingerprint of this content under this name: a copy under another name is another policy.
    pub fn hash(&self, key: &PolicyKey) -> Hash {
        let mut text = key.to_string();
        canonical(&json!([self.labels, self.annotations, self.spec]), &mut text);
        Hash::of(text.as_bytes())
    }

    /// The annotations of a copy, marked with the revision that it was made from.
    pub fn annotations_with(&self, version: &Version) -> BTreeMap<String, String> {
        let mut annotations = self.annotations.clone();
        annotations.insert(REVISION.into(), version.to_string());
        annotations
    }

    /// A copy, marked with the revision that it was made from.
    pub fn object(&self, key: &PolicyKey, version: &Version) -> DynamicObject {
        let mut object = DynamicObject::new(&key.name, &key.kind.resource());
        object.metadata.namespace = Some(key.namespace.clone()).filter(|namespace| !namespace.is_empty());
        object.metadata.annotations = Some(self.annotations_with(version));
        object.metadata.labels = (!self.labels.is_empty()).then(|| self.labels.clone());
        object.data = json!({"spec": self.spec});
        object
    }
}

/// What annotations say about whether a policy spans clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    pub federated: bool,
    /// Two spellings of the annotation say different things.
    pub contradicts: bool,
}

impl Marked {
    pub fn of(annotations: &BTreeMap<String, String>) -> Marked {
        let keys = DOMAINS.iter().flat_map(|domain| {
            [FEDERATED, FEDERATED_BY_USER].map(|prefix| annotations.get(&format!("{prefix}{domain}")))
        });
        let mut says = keys.flatten().map(|value| value == "true");
        let Some(first) = says.next() else { return Marked::default() };
        Marked { federated: first, contradicts: says.any(|other| other != first) }
    }
}

/// What a leader keeps of a policy that it saw in a cluster.
#[derive(Clone, Debug)]
pub struct Sighting {
    pub uid: String,
    /// Changes with every write, also of its status.
    pub resource_version: String,
    pub hash: Hash,
    pub marked: Marked,
    /// The revision that this copy was made from, if it is one of ours.
    pub stamp: Option<Version>,
    /// It was deleted, and something still holds it.
    pub going: bool,
    pub tier: Option<String>,
}

impl Sighting {
    pub fn of(key: &PolicyKey, object: &DynamicObject) -> Sighting {
        let content = Content::of(object);
        let tier = content.spec.get("tier").and_then(Value::as_str).filter(|tier| !tier.is_empty());
        Sighting {
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            hash: content.hash(key),
            marked: Marked::of(&content.annotations),
            stamp: object.annotations().get(REVISION).and_then(|text| Version::parse(text)),
            going: object.metadata.deletion_timestamp.is_some(),
            tier: tier.map(str::to_lowercase),
        }
    }

    pub fn is_federated(&self) -> bool {
        self.marked.federated
    }

    /// The revision that this is an untouched copy of.
    pub fn copy_of(&self) -> Option<&Version> {
        self.stamp.as_ref().filter(|stamp| stamp.content == Some(self.hash))
    }
}

/// A new version of the object, as of its status, is nothing new about the policy.
impl PartialEq for Sighting {
    fn eq(&self, other: &Sighting) -> bool {
        let what = |one: &Sighting| (one.hash, one.marked, one.going);
        what(self) == what(other) && self.uid == other.uid && self.stamp == other.stamp
    }
}

/// JSON with its keys in order, whatever order they came in.
pub(super) fn canonical(value: &Value, into: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            into.push('{');
            for key in keys {
                into.push_str(&Value::String(key.clone()).to_string());
                into.push(':');
                canonical(&map[key], into);
                into.push(',');
            }
            into.push('}');
        }
        Value::Array(items) => {
            into.push('[');
            for item in items {
                canonical(item, into);
                into.push(',');
            }
            into.push(']');
        }
        plain => into.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> PolicyKey {
        PolicyKey::namespaced("prod", "web")
    }

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn policy(metadata: Value) -> DynamicObject {
        let mut metadata = metadata;
        metadata["name"] = "web".into();
        metadata["namespace"] = "prod".into();
        object(json!({
            "apiVersion": "crd.antrea.io/v1beta1", "kind": "NetworkPolicy", "metadata": metadata,
            "spec": {"priority": 5, "tier": "Platform", "ingress": [{"action": "Drop", "from": []}]},
        }))
    }

    #[test]
    fn what_a_cluster_adds_is_no_content() {
        let bare = policy(json!({"labels": {"a": "b"}}));
        let mut dressed = policy(json!({
            "labels": {"a": "b"}, "uid": "u", "resourceVersion": "7", "generation": 3,
            "annotations": {LAST_APPLIED: "{}", REVISION: "1.0.-.a"}, "finalizers": ["x/y"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}],
        }));
        dressed.data["status"] = json!({"phase": "Realized"});
        assert_eq!(Content::of(&bare).hash(&key()), Content::of(&dressed).hash(&key()));
        for changed in
            [json!({"labels": {"a": "c"}}), json!({"labels": {"a": "b"}, "annotations": {"x": "y"}})]
        {
            assert_ne!(Content::of(&bare).hash(&key()), Content::of(&policy(changed)).hash(&key()));
        }
        assert_ne!(Content::of(&bare).hash(&key()), Content::of(&bare).hash(&PolicyKey::cluster("web")));
    }

    #[test]
    fn the_order_of_keys_is_no_content() {
        let (mut one, mut other) = (String::new(), String::new());
        canonical(&serde_json::from_str(r#"{"a":1,"b":[{"x":1,"y":null}]}"#).unwrap(), &mut one);
        canonical(&serde_json::from_str(r#"{"b":[{"y":null,"x":1}],"a":1}"#).unwrap(), &mut other);
        assert_eq!(one, other);
    }

    #[test]
    fn a_copy_says_what_it_is() {
        let content = Content::of(&policy(json!({"labels": {"a": "b"}, "annotations": {"mine": "1"}})));
        let version = Version::parse(&format!("3.2.{}.a", content.hash(&key()))).unwrap();
        let copy = content.object(&key(), &version);
        assert_eq!(Content::of(&copy), content);
        let seen = Sighting::of(&key(), &copy);
        assert_eq!(seen.copy_of(), Some(&version));
        assert_eq!(seen.tier.as_deref(), Some("platform"));
    }

    #[test]
    fn the_annotation_is_read_in_every_spelling() {
        let of = |pairs: &[(&str, &str)]| {
            Marked::of(&pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        };
        let says = |federated, contradicts| Marked { federated, contradicts };
        assert_eq!(of(&[]), says(false, false));
        for key in [
            "federated.anp.antreaplus.vmware.com",
            "federated.anp.antreaplus.vmware-tanzu.com",
            "federated.anp.antreaplus.tanzu-vmware.com",
            "anp.fed.user.antreaplus.tanzu.vmware.com",
            "federated.anp.antreaplus.vmware-tanzue.com",
        ] {
            assert_eq!(of(&[(key, "true")]), says(true, false), "{key}");
            for no in ["false", "True", "", "yes"] {
                assert_eq!(of(&[(key, no)]), says(false, false), "{key}={no}");
            }
        }
        let both = [
            ("federated.anp.antreaplus.vmware.com", "false"),
            ("federated.anp.antreaplus.vmware-tanzu.com", "true"),
        ];
        assert_eq!(of(&both), says(true, true));
    }
}
