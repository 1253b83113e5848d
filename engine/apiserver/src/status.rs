//! What a request that failed gets: a `Status` object with a code, a reason and a sentence.

use serde_json::{Value, json};

use crate::field;

/// The group and plural name of a resource, for messages: `deployments.apps`, `pods`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    pub group: String,
    pub resource: String,
}

impl GroupResource {
    pub fn new(group: &str, resource: &str) -> Self {
        GroupResource { group: group.to_owned(), resource: resource.to_owned() }
    }
}

impl std::fmt::Display for GroupResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

/// A message that is longer is cut: some quote what the client sent.
const MOST_TEXT: usize = 256 * 1024;

/// A failed request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub code: u16,
    /// The machine-readable reason, such as `NotFound`; empty where the real server gives none.
    pub reason: &'static str,
    pub message: String,
    /// The `details` object, if any.
    pub details: Option<Box<Value>>,
    /// How to go on with a list all the same.
    pub continuation: Option<Box<str>>,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Error { code, reason, message: message.into(), details: None, continuation: None }
    }

    pub(crate) fn with_continue(mut self, token: Option<String>) -> Self {
        self.continuation = token.map(String::into_boxed_str);
        self
    }

    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        let mut details = serde_json::Map::new();
        if !name.is_empty() {
            details.insert("name".into(), name.into());
        }
        if !resource.group.is_empty() {
            details.insert("group".into(), resource.group.as_str().into());
        }
        if !resource.resource.is_empty() {
            details.insert("kind".into(), resource.resource.as_str().into());
        }
        self.details = Some(Box::new(Value::Object(details)));
        self
    }

    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} {name:?} not found")).about(resource, name)
    }

    /// A path or resource that this server does not know.
    pub fn no_such_resource() -> Self {
        let mut error = Self::new(404, "NotFound", "the server could not find the requested resource");
        error.details = Some(Box::new(json!({})));
        error
    }

    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} {name:?} already exists")).about(resource, name)
    }

    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// The stored object is newer than the one the request was made from.
    pub fn stale(resource: &GroupResource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = match (resource.resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{resource} is forbidden: {why}"),
            (false, false) => format!("{resource} {name:?} is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// `kind` is a kind with its group: details speak of kinds here, not of resources.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[field::Error]) -> Self {
        let group_kind = GroupResource::new(group, kind);
        let tail = if errors.is_empty() { String::new() } else { format!(": {}", field::aggregate(errors)) };
        let mut error = Self::new(422, "Invalid", format!("{group_kind} {name:?} is invalid{tail}"))
            .about(&group_kind, name);
        let causes: Vec<Value> = field::listed(errors)
            .iter()
            .map(|one| json!({"reason": one.fault.reason(), "message": one.body(), "field": one.path.to_string()}))
            .collect();
        if let Some(Value::Object(details)) = error.details.as_deref_mut()
            && !causes.is_empty()
        {
            details.insert("causes".into(), causes.into());
        }
        error
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn method_not_allowed() -> Self {
        let mut error = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        error.details = Some(Box::new(json!({})));
        error
    }

    /// The revision asked for is no longer kept.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub fn internal(why: impl std::fmt::Display) -> Self {
        let mut error = Self::new(500, "InternalError", format!("Internal error occurred: {why}"));
        error.details = Some(Box::new(json!({"causes": [{"message": why.to_string()}]})));
        error
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// The object that goes over the wire.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": field::shortened(self.message.clone(), MOST_TEXT), "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(token) = &self.continuation {
            status["metadata"]["continue"] = (**token).into();
        }
        if let Some(details) = &self.details {
            status["details"] = (**details).clone();
        }
        status
    }
}
