//! One side of one CRD: where its objects are, what is known of them, and how they are written.

use std::sync::Arc;
use std::time::Duration;

use json_patch::Patch;
use koinon_control::Key;
use koinon_control::call;
use koinon_control::watch::{Page, TextList, number};
use kube::api::ListParams;
use kube::core::Request;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::access::Access;
use crate::follow::Source;
use crate::names;
use crate::record::{Record, Wire};
use crate::side::{Name, Side};

/// One side of one CRD.
pub(crate) struct End {
    pub(crate) access: Access,
    /// `cloud` or `robot`.
    pub(crate) place: &'static str,
    /// `/apis/GROUP/VERSION`
    pub(crate) base: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) labels: Option<String>,
    /// Whether the status is a subresource.
    pub(crate) status: bool,
    pub(crate) side: Side,
    pub(crate) kick: Arc<Notify>,
}

/// What a deletion came to.
pub(crate) enum Deleted {
    Gone,
    /// Something still holds it.
    Terminating(Record),
}

impl End {
    pub(crate) fn source(&self, resync: Duration) -> Source {
        Source {
            access: self.access.clone(),
            place: self.place,
            path: format!("{}/{}", self.base, self.plural),
            labels: self.labels.clone(),
            resync,
            kick: self.kick.clone(),
        }
    }

    fn collection(&self, key: &Key) -> String {
        if key.namespace.is_empty() {
            format!("{}/{}", self.base, self.plural)
        } else {
            format!("{}/namespaces/{}/{}", self.base, key.namespace, self.plural)
        }
    }

    /// Writes a new object.
    pub(crate) async fn create(&self, key: &Key, mut object: Value) -> Result<Record, call::Error> {
        object["apiVersion"] = self.api_version.clone().into();
        object["kind"] = self.kind.clone().into();
        object["metadata"]["name"] = key.name.clone().into();
        if !key.namespace.is_empty() {
            object["metadata"]["namespace"] = key.namespace.clone().into();
        }
        let path = format!("{}?fieldManager={}", self.collection(key), names::MANAGER);
        let request = http::Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
        self.write(request, &object).await
    }

    /// Changes an object, or its status where that is a subresource.
    pub(crate) async fn patch(&self, key: &Key, part: Part, patch: &Patch) -> Result<Record, call::Error> {
        let suffix = if part == Part::Status && self.status { "/status" } else { "" };
        let path = format!("{}/{}{suffix}?fieldManager={}", self.collection(key), key.name, names::MANAGER);
        let request =
            http::Request::patch(path).header(http::header::CONTENT_TYPE, "application/json-patch+json");
        self.write(request, patch).await
    }

    async fn write(
        &self,
        request: http::request::Builder,
        body: &impl serde::Serialize,
    ) -> Result<Record, call::Error> {
        let body = serde_json::to_vec(body).expect("JSON is JSON");
        let request = request.body(body).expect("names of objects make a path");
        Ok(self.access.send::<Wire>(request).await?.keep().1)
    }

    /// Deletes this very object.
    pub(crate) async fn delete(&self, key: &Key, uid: &str) -> Result<Deleted, call::Error> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
        let request = http::Request::delete(format!("{}/{}", self.collection(key), key.name))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(options.to_string().into_bytes())
            .expect("names of objects make a path");
        let answer: Box<RawValue> = self.access.send(request).await?;
        // What is gone at once is answered with a Status, and what something still holds with itself.
        Ok(match serde_json::from_str::<Wire>(answer.get()).map(Wire::keep) {
            Ok((_, record)) if record.terminating => Deleted::Terminating(record),
            Ok(_) | Err(_) => Deleted::Gone,
        })
    }

    /// Looks at one object, past the watch.
    pub(crate) async fn peek(&self, key: &Key) -> Result<(u64, Option<Record>), call::Error> {
        let params = ListParams {
            label_selector: self.labels.clone(),
            field_selector: Some(format!("metadata.name={}", key.name)),
            ..ListParams::default()
        };
        let request =
            Request::new(self.collection(key)).list(&params).expect("parameters of a list make a request");
        let page = Page::from(self.access.send::<TextList<Wire>>(request).await?);
        Ok((number(&page.version), page.items.into_iter().next().map(|wire| wire.keep().1)))
    }

    /// Looks at one object and takes it in. Gives back its key if that brought news.
    pub(crate) async fn refresh(&self, key: &Name) -> Result<Option<Name>, call::Error> {
        Ok(match self.peek(key).await? {
            (_, Some(record)) => self.side.learn(key.clone(), record),
            (version, None) => self.side.missed(key, version),
        })
    }
}

/// What of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
}
