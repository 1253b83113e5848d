//! From what a handler found to an HTTP response.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WARNING};
use serde_json::{Value, json};

use super::accept::{Accept, Encoding};
use super::warn;
use crate::protobuf;
use crate::status::Error;

/// What a handler answers with.
pub(crate) enum Reply {
    /// JSON text that needs no further work.
    Text(StatusCode, Vec<u8>),
    Value(StatusCode, Value),
    /// A finished response: streams, plain text, compressed documents.
    Raw(Response),
}

impl Reply {
    pub(crate) fn ok(value: Value) -> Self {
        Reply::Value(StatusCode::OK, value)
    }
}

/// The response, in the encoding that was negotiated.
pub(crate) fn response(reply: Reply, accept: Accept, warnings: &[String]) -> Response {
    let mut response = match reply {
        Reply::Raw(response) => response,
        Reply::Text(code, text) if accept.encoding == Encoding::Json && !accept.pretty => {
            body(code, "application/json", text)
        }
        Reply::Text(code, text) => {
            let value = serde_json::from_slice(&text).expect("handlers write JSON");
            encode(code, &value, accept)
        }
        Reply::Value(code, value) => encode(code, &value, accept),
    };
    finish(&mut response, warnings);
    response
}

fn finish(response: &mut Response, warnings: &[String]) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    for value in warn::headers(warnings) {
        headers.append(WARNING, value);
    }
}

/// The response to a request that failed.
pub(crate) fn failure(error: &Error, accept: Accept, warnings: &[String]) -> Response {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = encode(code, &error.to_status(), accept);
    finish(&mut response, warnings);
    if let Some(seconds) = error.details.as_ref().and_then(|details| details["retryAfterSeconds"].as_u64()) {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

fn encode(code: StatusCode, value: &Value, accept: Accept) -> Response {
    match accept.encoding {
        Encoding::Yaml => {
            let text = serde_saphyr::to_string(value).expect("JSON can be written as YAML");
            body(code, "application/yaml", text.into_bytes())
        }
        Encoding::Protobuf => {
            let word = |key: &str| value[key].as_str().unwrap_or_default();
            match protobuf::encode(word("apiVersion"), word("kind"), value) {
                Some(content) => body(code, protobuf::MEDIA_TYPE, content),
                None => {
                    let error = Error::not_acceptable(
                        "this kind has no protobuf form: accept application/json as well",
                    );
                    body(StatusCode::NOT_ACCEPTABLE, "application/json", error.to_status().to_string())
                }
            }
        }
        Encoding::Json if accept.pretty => {
            let text = serde_json::to_vec_pretty(value).expect("a value can be written");
            body(code, "application/json", text)
        }
        Encoding::Json => {
            let mut text = serde_json::to_vec(value).expect("a value can be written");
            text.push(b'\n');
            body(code, "application/json", text)
        }
    }
}

/// A response with a body of one piece.
pub(crate) fn body(code: StatusCode, media: &'static str, content: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(content.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// Says that it is done, where there is no object to show.
pub(crate) fn success(code: StatusCode) -> Reply {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code.as_u16(),
    });
    Reply::Value(code, status)
}
