//! Every resource × address × method: requests whose answers tell which addresses a server has, and for whom.
//!
//! The addresses are those that a resource has and those that it has not: below a namespace for what is cluster-scoped,
//! outside of namespaces for what is not, unknown parts, and a verb in the path. No request changes anything: objects are
//! absent, and writes are dry runs.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::client::{Client, Request};

/// The namespace in which the tenant has all rights.
pub const TENANT: &str = "tenant";

/// One resource, as discovery tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// `/api/v1`, or `/apis/` with group and version.
    pub root: String,
    /// The resource's name in paths.
    pub plural: String,
    /// The kind.
    pub kind: String,
    /// Whether its objects lie in namespaces.
    pub namespaced: bool,
    /// What has an address below an object.
    pub parts: Vec<String>,
}

/// All resources that a server serves, by its discovery, in an order of their own.
pub async fn catalog(client: &Client) -> Result<Vec<Resource>> {
    let mut roots = vec!["/api/v1".to_owned()];
    for group in list(&client.get("/apis").await?["groups"]) {
        for version in list(&group["versions"]) {
            roots
                .push(format!("/apis/{}", version["groupVersion"].as_str().context("a version has a name")?));
        }
    }
    let mut found = Vec::new();
    for root in roots {
        found.extend(resources(&root, &client.get(&root).await?));
    }
    found.sort();
    Ok(found)
}

fn resources(root: &str, listed: &Value) -> Vec<Resource> {
    let names: Vec<(&str, &Value)> =
        list(&listed["resources"]).filter_map(|one| Some((one["name"].as_str()?, one))).collect();
    let whole = names.iter().filter(|(name, _)| !name.contains('/'));
    let resource = |(plural, one): &(&str, &Value)| Resource {
        root: root.to_owned(),
        plural: (*plural).to_owned(),
        kind: one["kind"].as_str().unwrap_or_default().to_owned(),
        namespaced: one["namespaced"] == true,
        parts: names
            .iter()
            .filter_map(|(name, _)| name.strip_prefix(plural)?.strip_prefix('/'))
            .map(str::to_owned)
            .collect(),
    };
    whole.map(resource).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// All requests about a resource.
pub fn requests(resource: &Resource) -> Vec<Request> {
    addresses(resource).iter().flat_map(|address| asked(resource, address)).collect()
}

/// The paths at which a server might serve a resource.
fn addresses(resource: &Resource) -> BTreeSet<String> {
    let Resource { root, plural, parts, .. } = resource;
    let unknown = ["nonsense", "status", "status/nonsense"];
    let mut addresses = BTreeSet::new();
    for place in [String::new(), format!("/namespaces/{TENANT}")] {
        for prefix in ["", "/watch"] {
            addresses.insert(format!("{root}{prefix}{place}/{plural}"));
            addresses.insert(format!("{root}{prefix}{place}/{plural}/absent"));
        }
        for part in parts.iter().map(String::as_str).chain(unknown) {
            addresses.insert(format!("{root}{place}/{plural}/absent/{part}"));
        }
    }
    addresses
}

fn asked(resource: &Resource, address: &str) -> Vec<Request> {
    let api = resource.root.trim_start_matches("/apis/").trim_start_matches("/api/");
    let object =
        json!({"apiVersion": api, "kind": resource.kind, "metadata": {"name": "absent"}}).to_string();
    let plain = |method: &str, query: &str| Request::new(method, format!("{address}{query}"));
    let with = |method: &str, media: &str, body: &str| {
        plain(method, "?dryRun=All").header("content-type", media).body(body)
    };
    let mut requests = vec![
        plain("GET", ""),
        plain("GET", "?watch=true&timeoutSeconds=1"),
        plain("OPTIONS", ""),
        with("POST", "application/json", &object),
        with("PUT", "application/json", &object),
        with("PATCH", "application/merge-patch+json", "{}"),
        // Without a body: the options of one would count instead of these.
        plain("DELETE", "?dryRun=All&labelSelector=matrix%3Dabsent"),
    ];
    // The answer to a HEAD is whole at once, but while the server watches the connection is of no use to the next request.
    if !address.contains("/watch/") {
        requests.push(plain("HEAD", ""));
    }
    requests
}

/// What both servers need before they are asked.
pub fn preparation() -> Vec<Request> {
    let rbac = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": TENANT},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": TENANT}],
    });
    let definition = |scope: &str, plural: &str, kind: &str| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "metadata": {"name": format!("{plural}.matrix.example.com")},
            "spec": {
                "group": "matrix.example.com", "scope": scope,
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        })
    };
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let bindings = format!("/apis/{rbac}/v1/namespaces/{TENANT}/rolebindings");
    vec![
        Request::json("POST", "/api/v1/namespaces", &json!({"metadata": {"name": TENANT}})),
        Request::json("POST", bindings, &binding),
        Request::json("POST", definitions, &definition("Namespaced", "inners", "Inner")),
        Request::json("POST", definitions, &definition("Cluster", "wholes", "Whole")),
    ]
}

/// The custom resources, which appear some time after the preparation.
pub const CUSTOM: [&str; 2] = ["inners", "wholes"];

/// Where they are served.
pub const CUSTOM_ROOT: &str = "/apis/matrix.example.com/v1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_belong_to_their_resource() {
        let listed = json!({"resources": [
            {"name": "pods", "kind": "Pod", "namespaced": true},
            {"name": "pods/status", "kind": "Pod", "namespaced": true},
            {"name": "podtemplates", "kind": "PodTemplate", "namespaced": true},
        ]});
        let found = resources("/api/v1", &listed);
        let told: Vec<(&str, usize)> =
            found.iter().map(|one| (one.plural.as_str(), one.parts.len())).collect();
        assert_eq!(told, [("pods", 1), ("podtemplates", 0)]);
    }

    #[test]
    fn writes_are_dry_runs_of_what_is_absent() {
        let nodes = Resource {
            root: "/api/v1".into(),
            plural: "nodes".into(),
            kind: "Node".into(),
            namespaced: false,
            parts: vec!["proxy".into()],
        };
        let requests = requests(&nodes);
        let writes = requests.iter().filter(|one| !matches!(one.method.as_str(), "GET" | "HEAD" | "OPTIONS"));
        assert!(writes.clone().count() > 20);
        assert!(writes.clone().all(|one| one.path.contains("dryRun=All")));
        assert!(writes.clone().all(|one| one.method != "DELETE" || one.body.is_none()));
        assert!(requests.iter().any(|one| one.path == "/api/v1/namespaces/tenant/nodes/absent/proxy"));
    }
}
