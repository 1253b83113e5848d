//! What a server serves, as far as it can say.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::{Api, Client};

use super::call::{self, within_deadline};

/// The metadata of objects of any kind.
pub type Metadata = PartialObjectMeta<DynamicObject>;

/// One kind of object, in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub resource: ApiResource,
    pub namespaced: bool,
    verbs: Vec<String>,
}

impl Served {
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|allowed| allowed == verb)
    }

    /// Whether this is `resource` of `group`, in whatever version.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.resource.group == group && self.resource.plural == resource
    }

    /// The metadata of the objects in one namespace, or of all where there are no namespaces.
    pub fn metadata_in(&self, client: &Client, namespace: &str) -> Api<Metadata> {
        if self.namespaced {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            self.metadata(client)
        }
    }

    /// The metadata of all objects.
    pub fn metadata(&self, client: &Client) -> Api<Metadata> {
        Api::all_with(client.clone(), &self.resource)
    }
}

/// Everything that is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// By API version and kind, in every version.
    kinds: BTreeMap<(String, String), Arc<Served>>,
    /// By group and resource, in the version that the server prefers.
    preferred: BTreeMap<(String, String), Arc<Served>>,
    /// API versions that the server could not tell about, and why.
    failed: BTreeMap<String, String>,
}

impl Catalog {
    /// Asks the server. That part of the answer is missing is no error: see [`Catalog::failure`].
    pub async fn discover(client: &Client) -> Result<Catalog, call::Error> {
        let core = within_deadline(client.list_core_api_versions_aggregated()).await?;
        let groups = within_deadline(client.list_api_groups_aggregated()).await?;
        Ok(Catalog::of([core, groups]))
    }

    fn of(documents: impl IntoIterator<Item = APIGroupDiscoveryList>) -> Catalog {
        let mut catalog = Catalog::default();
        for group in documents.into_iter().flat_map(|document| document.items) {
            catalog.add_group(group);
        }
        catalog
    }

    fn add_group(&mut self, group: APIGroupDiscovery) {
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        // Versions come in the order of preference.
        for version in group.versions {
            let number = version.version.unwrap_or_default();
            let api_version = if name.is_empty() { number.clone() } else { format!("{name}/{number}") };
            if version.freshness.as_deref() == Some("Stale") {
                self.failed
                    .insert(api_version.clone(), format!("stale GroupVersion discovery: {api_version}"));
                continue;
            }
            for found in version.resources {
                let (Some(plural), Some(kind)) =
                    (found.resource, found.response_kind.and_then(|kind| kind.kind))
                else {
                    continue;
                };
                let served = Arc::new(Served {
                    resource: ApiResource {
                        group: name.clone(),
                        version: number.clone(),
                        api_version: api_version.clone(),
                        kind: kind.clone(),
                        plural: plural.clone(),
                    },
                    namespaced: found.scope.as_deref() == Some("Namespaced"),
                    verbs: found.verbs,
                });
                self.kinds.entry((api_version.clone(), kind)).or_insert_with(|| served.clone());
                self.preferred.entry((name.clone(), plural)).or_insert(served);
            }
        }
    }

    /// Takes over from an older catalogue what this one could not learn.
    pub fn keep_unknown_of(&mut self, older: &Catalog) {
        for (key, served) in &older.kinds {
            if self.failed.contains_key(&key.0) {
                self.kinds.entry(key.clone()).or_insert_with(|| served.clone());
            }
        }
        for (key, served) in &older.preferred {
            if self.failed.contains_key(&served.resource.api_version) {
                self.preferred.entry(key.clone()).or_insert_with(|| served.clone());
            }
        }
    }

    /// The resource behind an API version and kind, as an owner reference names them.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<&Arc<Served>> {
        self.kinds.get(&(api_version.to_owned(), kind.to_owned()))
    }

    /// Every resource once, in its preferred version.
    pub fn preferred(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.preferred.values()
    }

    /// Whether there are API versions of which nothing is known, not even from earlier.
    pub fn has_gaps(&self) -> bool {
        self.failed.keys().any(|version| !self.kinds.keys().any(|(known, _)| known == version))
    }

    /// What the server could not tell, in the words that clusters use for it.
    pub fn failure(&self) -> Option<String> {
        if self.failed.is_empty() {
            return None;
        }
        let each: Vec<_> = self.failed.iter().map(|(version, why)| format!("{version}: {why}")).collect();
        Some(format!(
            "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
            each.len(),
            each.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalog(stale: bool) -> Catalog {
        let resource = |name: &str, kind: &str| {
            json!({"resource": name, "responseKind": {"group": "", "version": "", "kind": kind},
                   "scope": "Namespaced", "verbs": ["delete", "list", "watch"]})
        };
        let old = if stale {
            json!({"version": "v1", "freshness": "Stale", "resources": []})
        } else {
            json!({"version": "v1", "freshness": "Current", "resources": [resource("toys", "Toy"), resource("balls", "Ball")]})
        };
        let new = json!({"version": "v2", "freshness": "Current", "resources": [resource("toys", "Toy")]});
        let list = json!({"items": [{"metadata": {"name": "play.io"}, "versions": [new, old]}]});
        Catalog::of([serde_json::from_value(list).unwrap()])
    }

    #[test]
    fn every_kind_is_found_and_every_resource_preferred_once() {
        let catalog = catalog(false);
        assert_eq!(catalog.find("play.io/v1", "Toy").unwrap().resource.version, "v1");
        assert!(catalog.find("play.io/v3", "Toy").is_none());
        let preferred: Vec<_> = catalog
            .preferred()
            .map(|served| format!("{}/{}", served.resource.plural, served.resource.version))
            .collect();
        assert_eq!(preferred, ["balls/v1", "toys/v2"]);
        assert_eq!(catalog.failure(), None);
    }

    #[test]
    fn what_could_not_be_learned_is_kept_from_before() {
        let mut partial = catalog(true);
        assert!(partial.has_gaps());
        assert_eq!(
            partial.failure().unwrap(),
            "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
             play.io/v1: stale GroupVersion discovery: play.io/v1"
        );
        partial.keep_unknown_of(&catalog(false));
        assert!(!partial.has_gaps());
        assert!(partial.find("play.io/v1", "Ball").is_some());
        assert_eq!(partial.preferred().count(), 2);
        assert_eq!(partial.preferred().last().unwrap().resource.version, "v2");
    }
}
