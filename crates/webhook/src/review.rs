//! What an API server asks, and what it is answered: `admission.k8s.io/v1`.

use serde::Deserialize;
use serde_json::{Value, json};

const VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// A write that waits for a word.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// By which the answer is known to belong to it.
    pub uid: String,
    pub operation: Operation,
    /// The group of the resource, empty for the core.
    pub group: String,
    /// Its plural.
    pub resource: String,
    /// The part of the object that is written, empty for all of it.
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// As it would be; null in a deletion.
    pub object: Value,
    /// As it is; null in a creation.
    pub old: Value,
}

/// What would happen to the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    #[default]
    Create,
    Update,
    Delete,
    Connect,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// It is done, and whoever asked for it is told these sentences.
    Warn(Vec<String>),
    /// It is not done, for this reason.
    Refuse(String),
}

/// Why something is no question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("this is no AdmissionReview: {0}")]
    Unreadable(String),
    #[error("this is a {kind} of {version}: an AdmissionReview of {VERSION} is answered here")]
    Another { kind: String, version: String },
    #[error("the AdmissionReview asks nothing")]
    Empty,
}

/// Reads a question.
pub fn read(body: &[u8]) -> Result<Request, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Review {
        #[serde(default)]
        api_version: String,
        #[serde(default)]
        kind: String,
        request: Option<Asked>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Asked {
        uid: String,
        operation: Operation,
        resource: Resource,
        #[serde(default)]
        sub_resource: String,
        #[serde(default)]
        namespace: String,
        #[serde(default)]
        name: String,
        #[serde(default)]
        object: Value,
        #[serde(default)]
        old_object: Value,
    }
    #[derive(Deserialize)]
    struct Resource {
        #[serde(default)]
        group: String,
        resource: String,
    }
    let review: Review =
        serde_json::from_slice(body).map_err(|error| Error::Unreadable(error.to_string()))?;
    if review.api_version != VERSION || review.kind != KIND {
        return Err(Error::Another { kind: review.kind, version: review.api_version });
    }
    let asked = review.request.ok_or(Error::Empty)?;
    Ok(Request {
        uid: asked.uid,
        operation: asked.operation,
        group: asked.resource.group,
        resource: asked.resource.resource,
        subresource: asked.sub_resource,
        namespace: asked.namespace,
        name: asked.name,
        object: asked.object,
        old: asked.old_object,
    })
}

/// The answer to the question with this UID.
pub fn answer(uid: &str, verdict: &Verdict) -> Value {
    let response = match verdict {
        Verdict::Allow => json!({"uid": uid, "allowed": true}),
        Verdict::Warn(warnings) => json!({"uid": uid, "allowed": true, "warnings": warnings}),
        Verdict::Refuse(why) => {
            let status = json!({"code": 403, "reason": "Forbidden", "message": why});
            json!({"uid": uid, "allowed": false, "status": status})
        }
    };
    json!({"apiVersion": VERSION, "kind": KIND, "response": response})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read() {
        let asked = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "1", "operation": "DELETE", "namespace": "n", "name": "x",
                "kind": {"group": "g", "version": "v1", "kind": "Thing"},
                "resource": {"group": "g", "version": "v1", "resource": "things"},
                "object": null, "oldObject": {"metadata": {"name": "x"}}, "userInfo": {"username": "u"},
            },
        });
        let read = read(asked.to_string().as_bytes()).unwrap();
        assert_eq!(
            (read.operation, read.group.as_str(), read.resource.as_str()),
            (Operation::Delete, "g", "things")
        );
        assert_eq!((read.object, read.old["metadata"]["name"].as_str()), (Value::Null, Some("x")));
    }

    #[test]
    fn what_is_no_question_is_told_so() {
        for (body, expected) in [
            ("{", "this is no AdmissionReview: "),
            (r#"{"kind":"Pod","apiVersion":"v1"}"#, "this is a Pod of v1: "),
            (
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}"#,
                "this is a AdmissionReview of admission.k8s.io/v1beta1: ",
            ),
            (
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#,
                "the AdmissionReview asks nothing",
            ),
        ] {
            let error = read(body.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn answers_are_those_of_the_api() {
        let response = |verdict| answer("1", &verdict)["response"].clone();
        assert_eq!(response(Verdict::Allow), json!({"uid": "1", "allowed": true}));
        assert_eq!(response(Verdict::Warn(vec!["w".into()]))["warnings"], json!(["w"]));
        let refused = response(Verdict::Refuse("no".into()));
        assert_eq!((&refused["allowed"], &refused["status"]["message"]), (&json!(false), &json!("no")));
    }
}
