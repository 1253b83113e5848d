//! Which resources are served: groups, versions, verbs and subresources.
//!
//! Built-in ones are the same for every server of a process and are kept once; each server adds those
//! of its own CRDs.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use parking_lot::Mutex;
use serde_json::Value;

use crate::crd::{Crd, Scope};
use crate::schema::Schema;
use crate::schema::facts::Facts;
use crate::schema::parse::Document;

use crate::status::GroupResource;

/// One resource in one version.
pub struct Resource {
    pub group: Arc<str>,
    pub version: Arc<str>,
    pub plural: Arc<str>,
    pub singular: String,
    pub kind: Arc<str>,
    pub list_kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub subresources: Vec<Subresource>,
    /// Where objects lie in the store: `group/plural` of the version they are stored in.
    pub storage: Arc<str>,
    pub custom: Option<Custom>,
}

/// What a custom resource has from its CRD.
pub struct Custom {
    pub crd: Arc<Crd>,
    /// Which of the CRD's versions this is.
    pub index: usize,
}

impl Custom {
    pub fn version(&self) -> &crate::crd::Version {
        &self.crd.versions[self.index]
    }
}

/// A part of an object with an address of its own, such as `status` or `scale`.
#[derive(Debug, Clone)]
pub struct Subresource {
    pub name: String,
    /// The group and version of what it speaks; empty where they are those of the resource.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: Vec<String>,
}

/// A group with its versions, most preferred first.
pub struct Group {
    pub name: Arc<str>,
    pub versions: Vec<Version>,
}

/// A version of a group with its resources, by name.
pub struct Version {
    pub name: Arc<str>,
    pub resources: Vec<Arc<Resource>>,
}

/// Everything that a server serves at one moment.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Groups that CRDs made, by name.
    custom: Arc<BTreeMap<Arc<str>, Arc<Group>>>,
}

impl Resource {
    /// A stand-in for what is written below an object of another kind and stored nowhere, such as a Scale or an Eviction, so that it
    /// is decoded like all else.
    pub fn below(plural: &Arc<str>, group: &str, kind: &str) -> Resource {
        Resource {
            group: group.into(),
            version: "v1".into(),
            plural: plural.clone(),
            singular: String::new(),
            kind: kind.into(),
            list_kind: String::new(),
            namespaced: true,
            verbs: Vec::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            subresources: Vec::new(),
            storage: "".into(),
            custom: None,
        }
    }

    pub fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|one| one == verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|one| one.name == name)
    }

    /// The schema of the resource's objects; none for a CRD version without one.
    pub fn schema(&self) -> Option<Schema> {
        match &self.custom {
            Some(custom) => custom.version().schema.clone(),
            None => builtin_schema(&self.group, &self.version, &self.kind),
        }
    }

    /// The opaque hash by which clients notice that the stored version changed.
    pub fn storage_hash(&self) -> String {
        let stored = match crate::kinds::convert::storage(&self.group, &self.kind) {
            Some((group, version)) => format!("{group}/{version}/{}", self.kind),
            None => match &self.custom {
                Some(custom) => format!(
                    "{}/{}/{}",
                    self.group,
                    custom.crd.storage().map_or("", |version| &version.name),
                    self.kind
                ),
                None => format!("{}/{}/{}", self.group, self.version, self.kind),
            },
        };
        let digest = ring::digest::digest(&ring::digest::SHA256, stored.as_bytes());
        base64::engine::general_purpose::STANDARD.encode(&digest.as_ref()[..8])
    }
}

impl Group {
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|one| &*one.name == name)
    }
}

impl Catalog {
    /// The built-in resources and those of `crds`.
    pub fn with(crds: impl IntoIterator<Item = Arc<Crd>>) -> Self {
        let mut versions: BTreeMap<Arc<str>, BTreeMap<String, Vec<Arc<Resource>>>> = BTreeMap::new();
        for crd in crds {
            for (index, version) in crd.versions.iter().enumerate().filter(|(_, version)| version.served) {
                let resource = custom_resource(&crd, index);
                versions
                    .entry(resource.group.clone())
                    .or_default()
                    .entry(version.name.clone())
                    .or_default()
                    .push(Arc::new(resource));
            }
        }
        let groups = versions.into_iter().map(|(name, versions)| {
            let mut versions: Vec<Version> = versions
                .into_iter()
                .map(|(name, mut resources)| {
                    resources.sort_by(|a, b| a.plural.cmp(&b.plural));
                    Version { name: name.into(), resources }
                })
                .collect();
            versions.sort_by(|a, b| compare_versions(&b.name, &a.name));
            (name.clone(), Arc::new(Group { name, versions }))
        });
        Catalog { custom: Arc::new(groups.collect()) }
    }

    /// All groups: the core group first, custom ones last.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        let own = builtin().iter().map(Arc::as_ref);
        own.chain(self.custom.values().map(Arc::as_ref))
    }

    /// Groups whose resources come from CRDs.
    pub fn custom_groups(&self) -> impl Iterator<Item = &Group> {
        self.custom.values().map(Arc::as_ref)
    }

    /// Whether the resources of a group come from CRDs.
    pub fn is_custom(&self, group: &str) -> bool {
        builtin_group(group).is_none() && self.custom.contains_key(group)
    }

    pub fn group(&self, name: &str) -> Option<&Group> {
        builtin_group(name).or_else(|| self.custom.get(name).map(Arc::as_ref))
    }

    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let resources = &self.group(group)?.version(version)?.resources;
        resources.binary_search_by(|one| (*one.plural).cmp(plural)).ok().map(|at| resources[at].clone())
    }

    /// The resource that holds objects of a kind.
    pub fn resource_of_kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Resource>> {
        let resources = &self.group(group)?.version(version)?.resources;
        resources.iter().find(|one| &*one.kind == kind).cloned()
    }
}

/// `v1`, `apps/v1`.
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn builtin() -> &'static [Arc<Group>] {
    static GROUPS: OnceLock<Vec<Arc<Group>>> = OnceLock::new();
    GROUPS.get_or_init(|| {
        let text = crate::data::read("discovery").expect("the data file has discovery");
        let groups: Vec<Value> = serde_json::from_slice(&text).expect("discovery is JSON");
        groups.iter().map(|group| Arc::new(parse_group(group))).collect()
    })
}

fn builtin_group(name: &str) -> Option<&'static Group> {
    builtin().iter().map(Arc::as_ref).find(|group| &*group.name == name)
}

fn parse_group(group: &Value) -> Group {
    let name: Arc<str> = text(&group["metadata"]["name"]).into();
    let versions = list(&group["versions"]).map(|version| {
        let version_name: Arc<str> = text(&version["version"]).into();
        let mut resources: Vec<Arc<Resource>> = list(&version["resources"])
            .map(|resource| Arc::new(parse_resource(&name, &version_name, resource)))
            .collect();
        resources.sort_by(|a, b| a.plural.cmp(&b.plural));
        Version { name: version_name, resources }
    });
    let versions = versions.collect();
    Group { name, versions }
}

fn parse_resource(group: &Arc<str>, version: &Arc<str>, resource: &Value) -> Resource {
    let plural = text(&resource["resource"]);
    let kind = text(&resource["responseKind"]["kind"]);
    // Two groups may serve the same objects: Events.
    let home = crate::kinds::convert::storage(group, kind).map_or(&**group, |(group, _)| group);
    Resource {
        group: group.clone(),
        version: version.clone(),
        storage: format!("{home}/{plural}").into(),
        plural: plural.into(),
        singular: text(&resource["singularResource"]).to_owned(),
        kind: kind.into(),
        list_kind: format!("{kind}List"),
        namespaced: resource["scope"] == "Namespaced",
        verbs: strings(&resource["verbs"]),
        short_names: strings(&resource["shortNames"]),
        categories: strings(&resource["categories"]),
        subresources: list(&resource["subresources"]).map(parse_subresource).collect(),
        custom: None,
    }
}

fn parse_subresource(subresource: &Value) -> Subresource {
    let kind = &subresource["responseKind"];
    Subresource {
        name: text(&subresource["subresource"]).to_owned(),
        group: text(&kind["group"]).to_owned(),
        version: text(&kind["version"]).to_owned(),
        kind: text(&kind["kind"]).to_owned(),
        verbs: strings(&subresource["verbs"]),
    }
}

const ALL_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

fn custom_resource(crd: &Arc<Crd>, index: usize) -> Resource {
    let version = &crd.versions[index];
    let part = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: ["get", "patch", "update"].map(str::to_owned).into(),
    };
    let mut subresources = Vec::new();
    if version.status {
        subresources.push(part("status", "", "", &crd.names.kind));
    }
    if version.scale.is_some() {
        subresources.push(part("scale", "autoscaling", "v1", "Scale"));
    }
    Resource {
        group: crd.group.as_str().into(),
        version: version.name.as_str().into(),
        plural: crd.names.plural.as_str().into(),
        singular: crd.names.singular.clone(),
        kind: crd.names.kind.as_str().into(),
        list_kind: crd.names.list_kind.clone(),
        namespaced: crd.scope == Scope::Namespaced,
        verbs: ALL_VERBS.map(str::to_owned).into(),
        short_names: crd.names.short_names.clone(),
        categories: crd.names.categories.clone(),
        subresources,
        storage: format!("{}/{}", crd.group, crd.names.plural).into(),
        custom: Some(Custom { crd: crd.clone(), index }),
    }
}

/// The schema of a built-in kind. Documents are read when first needed and kept for the whole process.
pub fn builtin_schema(group: &str, version: &str, kind: &str) -> Option<Schema> {
    // What has no resource of its own is described where it is used.
    let home = match kind {
        "Scale" => "apps",
        "Eviction" | "TokenRequest" => "",
        _ => group,
    };
    builtin_document(home, version)?.kind(group, version, kind)
}

/// The schema of some built-in type, such as ObjectMeta, out of the core document.
pub fn builtin_definition(name: &str) -> Option<Schema> {
    builtin_document("", "v1")?.definition(name)
}

fn builtin_document(group: &str, version: &str) -> Option<Document> {
    static DOCUMENTS: Mutex<BTreeMap<String, Document>> = Mutex::new(BTreeMap::new());
    let name = if group.is_empty() {
        format!("openapi/v3/api/{version}")
    } else {
        format!("openapi/v3/apis/{group}/{version}")
    };
    // Held while parsing: two requests that need the same document should not both read it.
    let mut documents = DOCUMENTS.lock();
    if let Some(document) = documents.get(&name) {
        return Some(document.clone());
    }
    let text = crate::data::read(&name)?;
    let document = Document::parse(&text, go_facts()).expect("the data file's documents are OpenAPI");
    documents.insert(name, document.clone());
    Some(document)
}

fn go_facts() -> &'static Facts {
    static FACTS: OnceLock<Facts> = OnceLock::new();
    FACTS.get_or_init(|| {
        let text = crate::data::read("go").expect("the data file has Go facts");
        Facts::from_json(&text).expect("Go facts are JSON")
    })
}

/// Kubernetes' order of versions: `v10 > v2 > v1 > v2beta1 > v1beta2 > v1alpha1 > others by name`.
pub fn compare_versions(a: &str, b: &str) -> std::cmp::Ordering {
    fn rank(version: &str) -> Option<(u8, u64, u64)> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        let tail = &rest[digits..];
        if tail.is_empty() {
            return Some((2, major, 0));
        }
        let (stage, minor) = match tail.strip_prefix("beta") {
            Some(minor) => (1, minor),
            None => (0, tail.strip_prefix("alpha")?),
        };
        Some((stage, major, minor.parse().ok()?))
    }
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => std::cmp::Ordering::Greater,
        (None, Some(_)) => std::cmp::Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn strings(value: &Value) -> Vec<String> {
    list(value).map(|one| text(one).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_resource_has_a_schema() {
        for group in Catalog::default().groups() {
            for version in &group.versions {
                for resource in &version.resources {
                    assert!(resource.schema().is_some(), "{} {}", resource.api_version(), resource.kind);
                }
            }
        }
    }

    #[test]
    fn resources_are_found_by_path() {
        let catalog = Catalog::default();
        let pods = catalog.resource("", "v1", "pods").expect("pods");
        assert!(pods.namespaced && pods.allows("deletecollection"));
        assert_eq!(&*pods.storage, "/pods");
        assert!(catalog.resource("apps", "v1", "pods").is_none());
        let events = catalog.resource("events.k8s.io", "v1", "events").expect("events");
        assert_eq!(events.storage, catalog.resource("", "v1", "events").expect("core events").storage);
    }

    #[test]
    fn versions_are_ordered_by_maturity() {
        let mut versions = ["v1beta1", "foo1", "v10", "v2", "v1alpha2", "v2beta1", "v1"];
        versions.sort_by(|a, b| compare_versions(b, a));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta1", "v1alpha2", "foo1"]);
    }
}
