//! AdmissionReviews: the question, and the answer.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::admission::matching::Seen;
use crate::admission::{Attributes, about};
use crate::kinds::walk::{get, list, text};
use crate::status::Error;

/// The version of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V1Beta1,
}

/// Whether an answer may change the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Validate,
    Mutate,
}

/// A webhook's answer.
pub(super) struct Response {
    /// The status of a refusal, perhaps null.
    pub(super) refusal: Option<Value>,
    pub(super) warnings: Vec<String>,
    pub(super) audit_annotations: BTreeMap<String, String>,
    pub(super) patch: Option<json_patch::Patch>,
}

impl Version {
    fn api_version(self) -> &'static str {
        match self {
            Version::V1 => "admission.k8s.io/v1",
            Version::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// The first version that both sides know.
pub(super) fn version(webhook: &Value) -> Option<Version> {
    list(&webhook["admissionReviewVersions"]).iter().find_map(|version| match version.as_str() {
        Some("v1") => Some(Version::V1),
        Some("v1beta1") => Some(Version::V1Beta1),
        _ => None,
    })
}

/// The question, about objects in the version that the webhook sees.
pub(super) fn request(
    uid: &str,
    version: Version,
    attributes: &Attributes<'_>,
    seen: &Seen,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Value {
    let name = match attributes.name {
        "" => object.map(|object| text(get(object, &["metadata"]), "name")).unwrap_or_default(),
        name => name,
    };
    let mut body = about::request(attributes, seen, name);
    body["uid"] = uid.into();
    body["object"] = object.map(|object| about::shown(object, seen)).into();
    body["oldObject"] = old.map(|old| about::shown(old, seen)).into();
    json!({"kind": "AdmissionReview", "apiVersion": version.api_version(), "request": body})
}

/// Reads an answer, or says why it is none.
pub(super) fn read(body: &[u8], uid: &str, version: Version, purpose: Purpose) -> Result<Response, String> {
    let review: Value = serde_json::from_slice(body).map_err(|why| {
        format!("failed to call webhook: couldn't get version/kind; json parse error: {why}")
    })?;
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let response = get(&review, &["response"]);
    if response.is_null() {
        return Err(invalid("webhook response was absent".to_owned()));
    }
    if version == Version::V1 {
        let given = text(response, "uid");
        if given != uid {
            return Err(invalid(format!("expected response.uid={uid:?}, got {given:?}")));
        }
        let (api_version, kind) = (text(&review, "apiVersion"), text(&review, "kind"));
        if (api_version, kind) != (Version::V1.api_version(), "AdmissionReview") {
            let wanted = "admission.k8s.io/v1, Kind=AdmissionReview";
            return Err(invalid(format!(
                "expected webhook response of {wanted}, got {api_version}, Kind={kind}"
            )));
        }
    }
    let patch = read_patch(response, version, purpose).map_err(invalid)?;
    let annotations = response["auditAnnotations"].as_object().into_iter().flatten();
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(Response {
        refusal: (response["allowed"].as_bool() != Some(true)).then(|| response["status"].clone()),
        warnings: list(&response["warnings"]).iter().map(string).collect(),
        audit_annotations: annotations.map(|(key, value)| (key.clone(), string(value))).collect(),
        patch,
    })
}

fn read_patch(
    response: &Value,
    version: Version,
    purpose: Purpose,
) -> Result<Option<json_patch::Patch>, String> {
    let (patch, kind) = (text(response, "patch"), response["patchType"].as_str());
    if purpose == Purpose::Validate {
        return match (version, patch.is_empty(), kind) {
            (Version::V1, false, _) => Err("validating webhook may not return response.patch".to_owned()),
            (Version::V1, true, Some(_)) => {
                Err("validating webhook may not return response.patchType".to_owned())
            }
            _ => Ok(None),
        };
    }
    match (patch.is_empty(), kind, version) {
        (true, None, _) | (true, _, Version::V1Beta1) => return Ok(None),
        (false, None, Version::V1) => {
            return Err("webhook returned response.patch but not response.patchType".to_owned());
        }
        (true, Some(_), Version::V1) => {
            return Err("webhook returned response.patchType but not response.patch".to_owned());
        }
        (false, Some(kind), Version::V1) if kind != "JSONPatch" => {
            return Err(format!("unsupported patch type {kind:?}"));
        }
        _ => {}
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(patch).map_err(|why| why.to_string())?;
    serde_json::from_slice(&bytes).map(Some).map_err(|why| why.to_string())
}

/// The refusal of a webhook, with the code and the reason it gave.
pub(super) fn denied(name: &str, status: &Value) -> Error {
    let (message, reason) = (text(status, "message"), text(status, "reason"));
    let denied = format!("admission webhook {name:?} denied the request");
    let message = match (message, reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    // A code that is no failure would turn a refusal into a success.
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    let mut error = Error::new(code.unwrap_or(400), known_reason(reason), message);
    error.details = Some(&status["details"]).filter(|details| !details.is_null()).cloned().map(Box::new);
    error
}

/// The reasons that an API server gives; one that nobody knows says nothing.
fn known_reason(reason: &str) -> &'static str {
    const REASONS: [&str; 20] = [
        "Unauthorized",
        "Forbidden",
        "NotFound",
        "AlreadyExists",
        "Conflict",
        "Gone",
        "Invalid",
        "ServerTimeout",
        "StoreReadError",
        "Timeout",
        "TooManyRequests",
        "BadRequest",
        "MethodNotAllowed",
        "NotAcceptable",
        "RequestEntityTooLarge",
        "UnsupportedMediaType",
        "InternalError",
        "Expired",
        "ServiceUnavailable",
        "Unknown",
    ];
    REASONS.iter().find(|known| **known == reason).copied().unwrap_or_default()
}
