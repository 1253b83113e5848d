//! A sequence of requests that goes to both servers, and what came back.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Result;
use http_body_util::BodyExt;
use regex::{Captures, Regex};
use serde_json::Value;

use crate::client::{Answer, Client, Request};
use crate::pointer;
use crate::watch::Events;

/// How long a single request may take before it counts as unanswered.
const PATIENCE: Duration = Duration::from_secs(20);

/// One step. Its id stays the same when other steps are dropped, so that references to it hold.
#[derive(Clone, Debug)]
pub struct Step {
    /// Names the step within its sequence.
    pub id: usize,
    /// What to do.
    pub action: Action,
}

/// What a step does. `${ns}` in any text is the sequence's namespace, `${3.rv}` the resource version that
/// step 3 was answered with; `uid`, `name` and `continue` are known in the same way.
#[derive(Clone, Debug)]
pub enum Action {
    /// Sends a request.
    Send(Request),
    /// Sends a request whose body is what an earlier step was answered with, changed in some places.
    Resend(Request, usize, Vec<(String, Option<Value>)>),
    /// Opens a watch, then creates an object that it must show, and reads up to that object.
    Watch(Request, Option<Request>),
    /// Gets a path until the goal is reached.
    Until(String, Goal),
}

/// What an `Until` step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The object is gone.
    Gone,
    /// The custom resource definition is established and its first version is served.
    Established,
}

/// What came back, as far as it is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The status code; 0 when no answer came.
    pub status: u16,
    /// The content type.
    pub content_type: String,
    /// The `Warning` headers, in order.
    pub warnings: Vec<String>,
    /// The body: JSON, YAML as JSON, the events of a watch as an array, or text.
    pub body: Value,
}

/// One server's run through a sequence.
pub struct Run<'a> {
    client: &'a Client,
    namespace: String,
    seen: BTreeMap<usize, Observed>,
}

impl<'a> Run<'a> {
    /// A run in a namespace that exists on neither server yet.
    pub fn new(client: &'a Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), seen: BTreeMap::new() }
    }

    /// Makes the namespace and the service account that pods need.
    pub async fn prepare(&self) -> Result<()> {
        let ns = &self.namespace;
        for (path, body) in [
            (
                "/api/v1/namespaces".to_owned(),
                serde_json::json!({"metadata": {"name": ns, "labels": {"seq": ns}}}),
            ),
            (
                format!("/api/v1/namespaces/{ns}/serviceaccounts"),
                serde_json::json!({"metadata": {"name": "default"}}),
            ),
        ] {
            let answer = self.client.send(&Request::json("POST", path.clone(), &body)).await?;
            anyhow::ensure!(answer.status.is_success(), "POST {path}: {} {}", answer.status, answer.json());
        }
        Ok(())
    }

    /// Removes what the sequence may have left; finalizers go first, or the namespace would never end.
    pub async fn clean(&self, cluster_scoped: &[String], namespaced: &[String]) -> Result<()> {
        let ns = &self.namespace;
        for path in
            namespaced.iter().map(|path| path.replace("${ns}", ns)).chain(cluster_scoped.iter().cloned())
        {
            let list = self
                .client
                .send(&Request::new("GET", format!("{path}?labelSelector=seq%3D{ns}")))
                .await?
                .json();
            for item in list["items"].as_array().into_iter().flatten() {
                if item["metadata"]["finalizers"].is_array() && item["metadata"]["name"].is_string() {
                    let path = format!("{path}/{}", item["metadata"]["name"].as_str().unwrap_or_default());
                    let patch = Request::new("PATCH", path)
                        .header("content-type", "application/merge-patch+json")
                        .body(r#"{"metadata":{"finalizers":null}}"#);
                    self.client.send(&patch).await?;
                }
            }
        }
        for path in cluster_scoped {
            self.client.send(&Request::new("DELETE", format!("{path}?labelSelector=seq%3D{ns}"))).await?;
        }
        self.client.send(&Request::new("DELETE", format!("/api/v1/namespaces/{ns}"))).await?;
        Ok(())
    }

    /// Takes one step.
    pub async fn step(&mut self, step: &Step) -> Observed {
        let acted = tokio::time::timeout(PATIENCE, self.act(&step.action)).await;
        let observed = match acted {
            Ok(Ok(observed)) => observed,
            Ok(Err(error)) => Observed::unanswered(&format!("{error:#}")),
            Err(_) => Observed::unanswered("no answer in time"),
        };
        self.seen.insert(step.id, observed.clone());
        observed
    }

    async fn act(&self, action: &Action) -> Result<Observed> {
        match action {
            Action::Send(request) => self.send(&self.resolve(request)).await,
            Action::Resend(request, base, edits) => {
                let mut body = self.seen.get(base).map_or(Value::Null, |observed| observed.body.clone());
                for (at, value) in edits {
                    let value = value.as_ref().map(|value| self.resolve_value(value));
                    pointer::put(&mut body, at, value);
                }
                self.send(&self.resolve(request).body(body.to_string())).await
            }
            Action::Watch(request, sentinel) => {
                let sentinel = sentinel.as_ref().map(|request| self.resolve(request));
                self.watch(&self.resolve(request), sentinel.as_ref()).await
            }
            Action::Until(path, goal) => {
                let request = self.resolve(&Request::new("GET", path.clone()));
                loop {
                    let observed = self.send(&request).await?;
                    if self.reached(&observed, *goal).await? {
                        return Ok(observed);
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    async fn reached(&self, observed: &Observed, goal: Goal) -> Result<bool> {
        match goal {
            Goal::Gone => Ok(observed.status == 404),
            Goal::Established => {
                let conditions = observed.body["status"]["conditions"].as_array();
                let established = conditions
                    .into_iter()
                    .flatten()
                    .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
                if observed.status == 404 || !established {
                    return Ok(observed.status == 404);
                }
                let spec = &observed.body["spec"];
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let served = spec["versions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|version| version["served"] == true);
                let Some(served) = served else { return Ok(true) };
                let path = format!(
                    "/apis/{}/{}/{}",
                    text(&spec["group"]),
                    text(&served["name"]),
                    text(&spec["names"]["plural"])
                );
                Ok(self.send(&Request::new("GET", path)).await?.status == 200)
            }
        }
    }

    async fn send(&self, request: &Request) -> Result<Observed> {
        // A read from the cache of a stock server may lag; a consistent list of the same resource
        // first makes the cache catch up.
        if let Some((path, query)) = request.path.split_once('?')
            && query.contains("resourceVersion=0")
        {
            self.client.send(&Request::new("GET", path)).await?;
        }
        Ok(Observed::from(self.client.send(request).await?))
    }

    async fn watch(&self, request: &Request, sentinel: Option<&Request>) -> Result<Observed> {
        // The same as in `send`: let the cache catch up first.
        self.client.send(&Request::new("GET", request.path.split('?').next().unwrap_or_default())).await?;
        let response = self.client.open(request).await?;
        let (parts, body) = response.into_parts();
        if !parts.status.is_success() {
            let bytes = body.collect().await?.to_bytes();
            return Ok(Observed::from(Answer { status: parts.status, headers: parts.headers, body: bytes }));
        }
        let mut marker = None;
        if let Some(sentinel) = sentinel {
            let answer = self.client.send(sentinel).await?;
            anyhow::ensure!(
                answer.status.is_success(),
                "the object to watch for: {} {}",
                answer.status,
                answer.json()
            );
            marker = answer.json()["metadata"]["name"].as_str().map(str::to_owned);
        }
        let (mut stream, mut events) = (Events::from(body), Vec::new());
        while let Some(event) = stream.next().await? {
            let last = ends(&event, marker.as_deref());
            // A bookmark without the end of the initial events comes when the server likes.
            if event["type"] != "BOOKMARK" || last {
                events.push(event);
            }
            if last {
                break;
            }
        }
        let mut observed = Observed::from(Answer {
            status: parts.status,
            headers: parts.headers,
            body: bytes::Bytes::new(),
        });
        observed.body = Value::Array(events);
        Ok(observed)
    }

    fn resolve(&self, request: &Request) -> Request {
        Request {
            method: request.method.clone(),
            // Whether an old revision can still be read depends on the server's history: 0 always can.
            path: self.resolve_text(&request.path, "0"),
            headers: request.headers.clone(),
            body: request.body.as_ref().map(|body| self.resolve_text(body, "1")),
        }
    }

    fn resolve_value(&self, value: &Value) -> Value {
        serde_json::from_str(&self.resolve_text(&value.to_string(), "1")).unwrap_or(Value::Null)
    }

    /// Puts in what earlier steps were answered with; where a step has no such answer, `otherwise`.
    fn resolve_text(&self, text: &str, otherwise: &str) -> String {
        static REFERENCE: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\$\{(\d+)\.(rv|uid|name|continue)\}").expect("well formed"));
        let text = text.replace("${ns}", &self.namespace);
        let resolved = REFERENCE.replace_all(&text, |found: &Captures<'_>| {
            let place = match &found[2] {
                "rv" => "/metadata/resourceVersion",
                "uid" => "/metadata/uid",
                "name" => "/metadata/name",
                _ => "/metadata/continue",
            };
            let seen = found[1].parse().ok().and_then(|id: usize| self.seen.get(&id));
            let value = seen.and_then(|observed| observed.body.pointer(place)).and_then(Value::as_str);
            value.filter(|value| !value.is_empty()).unwrap_or(otherwise).to_owned()
        });
        resolved.into_owned()
    }
}

impl Observed {
    fn unanswered(reason: &str) -> Self {
        Self { status: 0, content_type: String::new(), warnings: Vec::new(), body: reason.into() }
    }

    /// The reason of a Status, or nothing.
    pub fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or_default()
    }
}

impl From<Answer> for Observed {
    fn from(answer: Answer) -> Self {
        let header = |name: &str| {
            let values = answer.headers.get_all(name).iter();
            values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect::<Vec<_>>()
        };
        let content_type = header("content-type").join(", ");
        let text = String::from_utf8_lossy(&answer.body);
        let body = if content_type.contains("yaml") {
            serde_saphyr::from_str(&text).unwrap_or_else(|_| text.clone().into_owned().into())
        } else {
            serde_json::from_slice(&answer.body).unwrap_or_else(|_| text.clone().into_owned().into())
        };
        Self { status: answer.status.as_u16(), content_type, warnings: header("warning"), body }
    }
}

fn ends(event: &Value, marker: Option<&str>) -> bool {
    let shown = [&event["object"]["metadata"], &event["object"]["rows"][0]["object"]["metadata"]];
    shown.iter().any(|metadata| match marker {
        Some(name) => metadata["name"] == name,
        None => metadata["annotations"]["k8s.io/initial-events-end"] == "true",
    })
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{}] ", self.id)?;
        match &self.action {
            Action::Send(request) => write_request(formatter, request),
            Action::Resend(request, base, edits) => {
                write_request(formatter, request)?;
                write!(formatter, "\n    body: the answer to step {base}")?;
                for (at, value) in edits {
                    match value {
                        Some(value) => write!(formatter, ", {at} = {value}")?,
                        None => write!(formatter, ", without {at}")?,
                    }
                }
                Ok(())
            }
            Action::Watch(request, sentinel) => {
                write_request(formatter, request)?;
                match sentinel {
                    Some(sentinel) => {
                        write!(formatter, "\n    read until this is seen: ")?;
                        write_request(formatter, sentinel)
                    }
                    None => write!(formatter, "\n    read until the initial events have ended"),
                }
            }
            Action::Until(path, goal) => write!(formatter, "GET {path} until {goal:?}"),
        }
    }
}

fn write_request(formatter: &mut fmt::Formatter<'_>, request: &Request) -> fmt::Result {
    write!(formatter, "{} {}", request.method, request.path)?;
    for (name, value) in &request.headers {
        write!(formatter, "\n    {name}: {value}")?;
    }
    match &request.body {
        Some(body) if body.len() > 4000 => {
            write!(formatter, "\n    {}... ({} bytes)", &body[..200], body.len())
        }
        Some(body) => write!(formatter, "\n    {body}"),
        None => Ok(()),
    }
}
