//! Which groups, versions and resources there are: the old way, a document each, and the aggregated one.

use axum::response::Response;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use serde_json::{Value, json};

use super::accept::{Accept, Tables};
use super::query::Query;
use super::respond::{self, Reply};
use super::{Inner, no_such_page, pretty};
use crate::catalog::{Group, Resource, Version, group_version};
use crate::status::{Error, Result};

pub(crate) fn serve(server: &Inner, path: &str, parts: &Parts, query: &Query) -> Result<Response> {
    let catalog = server.catalog();
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    if let (["api" | "apis"], Some(version)) = (segments.as_slice(), aggregated(parts)) {
        let core = segments == ["api"];
        let groups = catalog.groups().filter(|group| group.name.is_empty() == core);
        return Ok(aggregated_response(groups, version));
    }
    let accept = Accept::negotiate(&parts.headers, pretty(&parts.headers, query), Tables::Offered)?;
    let document = match segments.as_slice() {
        ["api"] => api_versions(server),
        ["apis"] => json!({
            "kind": "APIGroupList", "apiVersion": "v1",
            "groups": catalog.groups().filter(|group| !group.name.is_empty()).map(describe_group).collect::<Vec<_>>(),
        }),
        ["api", version] => match catalog.group("").and_then(|group| group.version(version)) {
            Some(version) => resources("", version),
            None => return Err(Error::no_such_resource()),
        },
        ["apis", group] => {
            let Some(group) = catalog.group(group) else { return Ok(no_such_page()) };
            let mut group = describe_group(group);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }
        ["apis", group, version] => match catalog.group(group).and_then(|group| group.version(version)) {
            Some(version) => resources(group, version),
            None if catalog.group(group).is_some() => return Err(Error::no_such_resource()),
            None => return Ok(no_such_page()),
        },
        [] => json!({"paths": paths(server)}),
        _ => return Ok(no_such_page()),
    };
    Ok(respond::response(Reply::ok(document), accept, &[]))
}

fn api_versions(server: &Inner) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": format!("127.0.0.1:{}", server.options.port)},
        ],
    })
}

fn describe_group(group: &Group) -> Value {
    let version = |version: &Version| json!({"groupVersion": group_version(&group.name, &version.name), "version": &*version.name});
    json!({
        "name": &*group.name,
        "versions": group.versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": group.versions.first().map(version),
    })
}

fn resources(group: &str, version: &Version) -> Value {
    let mut all = Vec::new();
    for resource in &version.resources {
        all.push(describe_resource(resource));
        for part in &resource.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, part.name), "singularName": "",
                "namespaced": resource.namespaced, "kind": part.kind, "verbs": part.verbs,
            });
            if !part.group.is_empty() {
                entry["group"] = part.group.as_str().into();
            }
            if !part.version.is_empty() {
                entry["version"] = part.version.as_str().into();
            }
            all.push(entry);
        }
    }
    let mut list = json!({
        "kind": "APIResourceList", "groupVersion": group_version(group, &version.name), "resources": all,
    });
    // The core group's list was there before lists had a version.
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list
}

fn describe_resource(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": &*resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": &*resource.kind, "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.clone().into();
    }
    if resource.allows("list") && &*resource.kind != "ComponentStatus" {
        entry["storageVersionHash"] = resource.storage_hash().into();
    }
    entry
}

/// Which version of the aggregated form a client asks for.
fn aggregated(parts: &Parts) -> Option<&'static str> {
    let accept = parts.headers.get(ACCEPT)?.to_str().ok()?;
    accept.split(',').find_map(|clause| {
        let has = |part: &str| clause.split(';').any(|one| one.trim() == part);
        let asked =
            has("application/json") && has("g=apidiscovery.k8s.io") && has("as=APIGroupDiscoveryList");
        asked.then(|| ["v2", "v2beta1"].into_iter().find(|version| has(&format!("v={version}")))).flatten()
    })
}

fn aggregated_response<'a>(groups: impl Iterator<Item = &'a Group>, version: &str) -> Response {
    let items: Vec<Value> = groups.map(aggregated_group).collect();
    let document = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items,
    });
    let text = serde_json::to_vec(&document).expect("a value can be written");
    let mut response = respond::body(StatusCode::OK, "application/json", text);
    let media = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    if let Ok(media) = HeaderValue::from_str(&media) {
        response.headers_mut().insert(CONTENT_TYPE, media);
    }
    response.headers_mut().insert(http::header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn aggregated_group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let resources = version.resources.iter().map(|resource| aggregated_resource(resource));
            json!({"version": &*version.name, "freshness": "Current", "resources": resources.collect::<Vec<_>>()})
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": &*group.name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    // Built-in resources leave group and version to be read off their place, custom ones repeat them.
    let own_kind = match &resource.custom {
        Some(_) => kind(&resource.group, &resource.version, &resource.kind),
        None => kind("", "", &resource.kind),
    };
    let mut entry = json!({
        "resource": &*resource.plural,
        "responseKind": own_kind,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.clone().into();
    }
    if !resource.subresources.is_empty() {
        let parts = resource.subresources.iter().map(|part| {
            let kind = if resource.custom.is_some() && part.group.is_empty() {
                kind(&resource.group, &resource.version, &part.kind)
            } else {
                kind(&part.group, &part.version, &part.kind)
            };
            json!({"subresource": part.name, "responseKind": kind, "verbs": part.verbs})
        });
        entry["subresources"] = parts.collect::<Vec<_>>().into();
    }
    entry
}

/// Every path that is about no single object, for people who look around with a browser.
fn paths(server: &Inner) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/.well-known/openid-configuration",
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .into();
    for group in server.catalog().groups() {
        let prefix = if group.name.is_empty() { "/api".to_owned() } else { format!("/apis/{}", group.name) };
        if !group.name.is_empty() {
            paths.push(prefix.clone());
        }
        paths.extend(group.versions.iter().map(|version| format!("{prefix}/{}", version.name)));
    }
    paths.sort();
    paths
}
