//! OpenAPI documents: those of the release as they were dumped, those of CRDs made on the way.

use axum::response::Response;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::Inner;
use super::respond;
use crate::catalog::Group;
use crate::crd;
use crate::data;
use crate::status::{Error, Result};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// What is asked for is no media type that a header may name: the answer calls itself so.
const V2_PROTOBUF_ANSWER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

pub(crate) fn serve(server: &Inner, path: &str, headers: &HeaderMap) -> Result<Response> {
    match path {
        "/openapi/v2" => v2(server, headers),
        "/openapi/v3" => Ok(json_response(&index(server))),
        _ => {
            let name = path.trim_start_matches('/');
            document(server, name, headers).ok_or_else(Error::no_such_resource)
        }
    }
}

/// A dumped document goes out compressed as it lies there, when the client can unpack it.
fn dumped(name: &str, media: &'static str, headers: &HeaderMap) -> Option<Response> {
    if accepts_gzip(headers) {
        let mut response = respond::body(StatusCode::OK, media, data::compressed(name)?);
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        return Some(response);
    }
    Some(respond::body(StatusCode::OK, media, data::read(name)?))
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|value| value.split(',').any(|one| one.trim().starts_with("gzip")))
}

fn json_response(value: &Value) -> Response {
    respond::body(
        StatusCode::OK,
        "application/json",
        serde_json::to_vec(value).expect("a value can be written"),
    )
}

/// Where each document is, with a hash by which clients cache it.
fn index(server: &Inner) -> Value {
    const PREFIX: &str = "openapi/v3/";
    let mut paths = serde_json::Map::new();
    let mut add = |name: &str, content: &[u8]| {
        let digest = ring::digest::digest(&ring::digest::SHA256, content);
        let hash: String = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        let url = format!("/{PREFIX}{name}?hash={hash}");
        paths.insert(name.to_owned(), json!({"serverRelativeURL": url}));
    };
    for name in data::names(PREFIX) {
        add(&name[PREFIX.len()..], data::compressed(name).unwrap_or_default());
    }
    for group in server.catalog().custom_groups() {
        for version in &group.versions {
            let content =
                custom(group, &version.name).map(|document| document.to_string()).unwrap_or_default();
            add(&format!("apis/{}/{}", group.name, version.name), content.as_bytes());
        }
    }
    json!({"paths": paths})
}

fn document(server: &Inner, name: &str, headers: &HeaderMap) -> Option<Response> {
    if let Some(response) = dumped(name, "application/json", headers) {
        return Some(response);
    }
    let (group, version) = name.strip_prefix("openapi/v3/apis/")?.split_once('/')?;
    let catalog = server.catalog();
    let group = catalog.custom_groups().find(|one| &*one.name == group)?;
    Some(json_response(&custom(group, version)?))
}

/// The document of one version of a group that CRDs make.
fn custom(group: &Group, version: &str) -> Option<Value> {
    let resources = &group.version(version)?.resources;
    let crds = resources.iter().filter_map(|one| one.custom.as_ref()).map(|custom| &custom.crd.source);
    let apps = data::read("openapi/v3/apis/apps/v1")?;
    let apps = serde_json::from_slice(&apps).ok()?;
    Some(crd::openapi::document(crds, &group.name, version, &apps))
}

fn v2(server: &Inner, headers: &HeaderMap) -> Result<Response> {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    // Clients that ask for it validate lists and built-in kinds by it, and skip what it does not describe:
    // custom resources are in the JSON form only.
    if accept.contains(V2_PROTOBUF) {
        return dumped("openapi/v2.pb", V2_PROTOBUF_ANSWER, headers).ok_or_else(Error::no_such_resource);
    }
    let json = ["application/json", "*/*", "application/*"];
    if !accept.is_empty() && !json.iter().any(|media| accept.contains(media)) {
        return Err(Error::not_acceptable("only the following media types are accepted: application/json"));
    }
    let catalog = server.catalog();
    let mut custom = catalog.custom_groups().flat_map(|group| &group.versions).peekable();
    if custom.peek().is_none() {
        return dumped("openapi/v2", "application/json", headers).ok_or_else(Error::no_such_resource);
    }
    let text = data::read("openapi/v2").ok_or_else(Error::no_such_resource)?;
    let mut document: Value = serde_json::from_slice(&text).map_err(Error::internal)?;
    for version in custom {
        for custom in version.resources.iter().filter_map(|one| one.custom.as_ref()) {
            let definitions = crd::openapi::definitions_v2(&custom.crd.source, &version.name);
            if let Some(all) = document["definitions"].as_object_mut() {
                all.extend(definitions);
            }
        }
    }
    let mut response = json_response(&document);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
