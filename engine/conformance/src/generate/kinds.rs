//! What the generator knows of each kind; the data is in `data/kinds-*.yaml`.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::pointer;
use crate::rng::Rng;

/// A kind of object in one version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// `v1`, or group and version.
    pub api: String,
    /// The resource's name in paths.
    pub plural: String,
    /// The kind.
    pub kind: String,
    /// Whether it lives outside of namespaces.
    #[serde(default)]
    pub cluster: bool,
    /// Whether it is a custom resource.
    #[serde(default)]
    pub custom: bool,
    /// Whether it can be scaled.
    #[serde(default)]
    pub scale: bool,
    /// How often it is chosen.
    #[serde(default = "one")]
    pub weight: usize,
    /// Other versions of the same objects.
    #[serde(default)]
    pub also: Vec<String>,
    /// Valid objects, without name and labels.
    pub objects: Vec<Value>,
    /// Changes to them, good and bad.
    #[serde(default)]
    pub edits: Vec<Edit>,
    /// Changes to the status.
    #[serde(default)]
    pub status: Vec<Edit>,
    /// Strategic merge patches.
    #[serde(default)]
    pub strategic: Vec<Value>,
    /// Field selectors.
    #[serde(default)]
    pub fields: Vec<String>,
}

/// A place, and what may be put there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// A JSON pointer.
    pub at: String,
    /// Values, good and bad.
    pub values: Vec<Value>,
}

fn one() -> usize {
    1
}

/// All kinds.
pub fn kinds() -> &'static [Kind] {
    static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
        let files = [
            include_str!("../../data/kinds-core.yaml"),
            include_str!("../../data/kinds-apps.yaml"),
            include_str!("../../data/kinds-other.yaml"),
        ];
        let read = |text| serde_saphyr::from_str::<Vec<Kind>>(text).expect("the kinds are well-formed YAML");
        files.into_iter().flat_map(read).collect()
    });
    &KINDS
}

/// The custom resource definitions that every sequence may use.
pub fn definitions() -> &'static [Value] {
    static DEFINITIONS: LazyLock<Vec<Value>> = LazyLock::new(|| {
        serde_saphyr::from_str(include_str!("../../data/crds.yaml"))
            .expect("the definitions are well-formed YAML")
    });
    &DEFINITIONS
}

/// Changes to metadata, good and bad, that every kind knows. Owners are absent: an object whose owner
/// does not exist is collected at a time of the server's choosing.
fn metadata_edits() -> &'static [Edit] {
    static EDITS: LazyLock<Vec<Edit>> = LazyLock::new(|| {
        serde_saphyr::from_str(include_str!("../../data/metadata.yaml"))
            .expect("the edits are well-formed YAML")
    });
    &EDITS
}

impl Kind {
    /// The path of its collection in the sequence's namespace, or in the cluster.
    pub fn collection(&self) -> String {
        self.collection_in(&self.api)
    }

    /// The same in one of its versions.
    pub fn collection_in(&self, api: &str) -> String {
        if self.cluster { self.outside(api) } else { self.inside(api) }
    }

    /// The path of its collection in all namespaces.
    pub fn everywhere(&self) -> String {
        self.outside(&self.api)
    }

    /// The path that its collection would have if its scope were the other one.
    pub fn misplaced(&self) -> String {
        if self.cluster { self.inside(&self.api) } else { self.outside(&self.api) }
    }

    /// The path of its collection with the verb `watch` in it.
    pub fn watched(&self) -> String {
        let root = root(&self.api);
        self.collection().replacen(&root, &format!("{root}/watch"), 1)
    }

    fn outside(&self, api: &str) -> String {
        format!("{}/{}", root(api), self.plural)
    }

    fn inside(&self, api: &str) -> String {
        format!("{}/namespaces/${{ns}}/{}", root(api), self.plural)
    }

    /// One of the few names that objects of this kind get, so that they meet often.
    pub fn name(&self, rng: &mut Rng) -> String {
        let name = rng.pick(&["a", "b", "c", "d"]);
        if self.cluster { format!("${{ns}}-{name}") } else { (*name).to_owned() }
    }

    /// A valid object.
    pub fn object(&self, rng: &mut Rng, name: &str) -> Value {
        let mut object = rng.pick(&self.objects).clone();
        if !object.is_object() {
            object = json!({});
        }
        object["apiVersion"] = self.api.clone().into();
        object["kind"] = self.kind.clone().into();
        let mut metadata = json!({"name": name, "labels": {"seq": "${ns}"}});
        if rng.chance(60) {
            metadata["labels"]["app"] = (*rng.pick(&["a", "b"])).into();
        }
        if rng.chance(20) {
            metadata["annotations"] = json!({"note": *rng.pick(&["x", "y"])});
        }
        if rng.chance(6) && self.kind != "Namespace" {
            metadata["finalizers"] = json!(["example.com/hold"]);
        }
        object["metadata"] = metadata;
        object
    }

    /// Changes an object in one place; what the change means is for the servers to say.
    pub fn edit(&self, rng: &mut Rng, object: &mut Value) {
        let (at, value) = self.change(rng);
        pointer::put(object, &at, Some(value));
    }

    /// A place and a value to put there.
    pub fn change(&self, rng: &mut Rng) -> (String, Value) {
        let edits = if self.edits.is_empty() || rng.chance(20) { metadata_edits() } else { &self.edits };
        let edit = rng.pick(edits);
        (edit.at.clone(), rng.pick(&edit.values).clone())
    }

    /// A place in the status, or in what a status update must leave alone.
    pub fn status_change(&self, rng: &mut Rng) -> (String, Value) {
        if self.status.is_empty() || rng.chance(15) {
            return self.change(rng);
        }
        let edit = rng.pick(&self.status);
        (edit.at.clone(), rng.pick(&edit.values).clone())
    }

    /// Whether the kind is itself a namespace, which ends only after a while.
    pub fn is_namespace(&self) -> bool {
        self.kind == "Namespace"
    }
}

fn root(api: &str) -> String {
    if api == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api}") }
}

/// Paths of all collections, for cleaning up: first those of the cluster, then those of namespaces.
pub fn collections() -> (Vec<String>, Vec<String>) {
    let (cluster, namespaced): (Vec<_>, Vec<_>) = kinds().iter().partition(|kind| kind.cluster);
    let paths = |kinds: Vec<&Kind>| {
        let mut paths: Vec<_> = kinds.into_iter().map(Kind::collection).collect();
        paths.sort();
        paths.dedup();
        paths
    };
    let mut cluster = paths(cluster);
    cluster.push("/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned());
    (cluster, paths(namespaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misplaced_collection_has_the_other_scope() {
        let of = |plural: &str| {
            let kind = kinds().iter().find(|kind| kind.plural == plural).expect("the data has this kind");
            (kind.collection(), kind.misplaced(), kind.watched())
        };
        let (home, other, watched) = of("configmaps");
        assert_eq!(home, "/api/v1/namespaces/${ns}/configmaps");
        assert_eq!(other, "/api/v1/configmaps");
        assert_eq!(watched, "/api/v1/watch/namespaces/${ns}/configmaps");
        let (home, other, watched) = of("clusterroles");
        assert_eq!(home, "/apis/rbac.authorization.k8s.io/v1/clusterroles");
        assert_eq!(other, "/apis/rbac.authorization.k8s.io/v1/namespaces/${ns}/clusterroles");
        assert_eq!(watched, "/apis/rbac.authorization.k8s.io/v1/watch/clusterroles");
    }
}
