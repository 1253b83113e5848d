//! Get and list.

use std::sync::Arc;

use axum::response::Response;
use base64::Engine as _;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::accept::{Encoding, Form};
use super::call::{Call, stored_as_served};
use super::object::Naming;
use super::pieces::{self, PIECE};
use super::respond::Reply;
use super::select::Selection;
use super::{flow, object, print};
use crate::catalog::Resource;
use crate::field;
use crate::schema::raw::Json;
use crate::status::{Error, Result};
use crate::store::{Item, ListAt, ListQuery, ReadError, Snapshot};

pub(crate) fn get(call: &Call) -> Result<Reply> {
    if let Some(wanted) = call.query.text("resourceVersion") {
        let wanted = revision(wanted).map_err(|why| Error::new(500, "", why.to_string()))?;
        let current = call.server.store.revision();
        if wanted > current {
            return Err(too_new(wanted, current));
        }
    }
    let entry = call.entry(&call.info.name)?;
    call.reply(StatusCode::OK, entry.revision, &entry.body)
}

/// A page's end: where the next one starts, and in which state of the store.
#[derive(Serialize, Deserialize)]
struct Continue {
    v: String,
    rv: i64,
    start: String,
}

pub(crate) async fn list(call: &mut Call) -> Result<Reply> {
    call.query.number("limit")?;
    call.query.number("timeoutSeconds")?;
    let selection = Selection::parse(call, validate)?;
    let asked = Asked::parse(call)?;
    if let At::NotOlder(wanted) = asked.at {
        let current = call.server.store.revision();
        if wanted > current {
            return Err(too_new(wanted, current));
        }
    }
    let namespace = Some(call.namespace()).filter(|one| !one.is_empty());
    let query = ListQuery {
        resource: &call.resource.storage,
        namespace,
        at: match asked.at {
            At::Exact(revision) => ListAt::Exact(revision),
            At::Latest | At::NotOlder(_) => ListAt::Latest,
        },
        start_after: asked.start.as_ref().map(|(namespace, name)| (namespace.as_str(), name.as_str())),
        limit: asked.limit,
    };
    let found = if selection.is_everything() {
        call.server.store.list(&query)
    } else {
        call.server.store.list_filtered(&query, &mut |item| selection.matches(call, item))
    };
    let found = found.map_err(|error| read_error(error, call.query.text("continue")))?;
    let mut metadata = page(&found, &asked, namespace.is_some(), selection.is_everything());
    // A list without a Go type says that there is no more.
    if call.resource.custom.is_some() && call.accept.form == Form::Whole && metadata.get("continue").is_none()
    {
        metadata["continue"] = "".into();
    }
    reply(call, found.items, metadata)
}

/// A list that is longer is sent piece by piece, made as the client takes them: the snapshot has the texts of its
/// objects anyway, and a client that does not read holds no copy of them.
const STREAMED: usize = 1 << 20;
/// Mebibytes for all long answers that cannot be made like that: YAML, protobuf, and tables in an order of their own.
pub(super) const WHOLE_ANSWERS: usize = 512;
/// Bytes in memory for each byte of an answer that is made as one value, about.
const WHOLE: usize = 8;

fn reply(call: &mut Call, items: Vec<Item>, metadata: Value) -> Result<Reply> {
    let size: usize = items.iter().map(|item| item.entry.body.len() + 128).sum();
    let is_text = call.accept.form == Form::Whole
        && items.iter().all(|item| stored_as_served(&call.resource, item.entry.revision));
    let is_json = call.accept.encoding == Encoding::Json;
    if size > STREAMED {
        if is_json && is_text && !call.accept.pretty {
            return Ok(streamed(call, Pieces::new(call, items, &metadata, PIECE)));
        }
        if is_json && print::keeps_order(call) {
            return Ok(streamed(call, print::Pieces::new(call, items, metadata)?));
        }
        call.room = Some(room(call, size)?);
    }
    if is_text {
        let text = Pieces::new(call, items, &metadata, usize::MAX).next().unwrap_or_default();
        return Ok(Reply::Text(StatusCode::OK, text));
    }
    let values = items.iter().map(|item| print::value(call, item));
    Ok(Reply::ok(print::list(call, values, metadata)?))
}

fn streamed(call: &Call, pieces: impl Iterator<Item = Vec<u8>> + Send + 'static) -> Reply {
    let mut response = Response::new(pieces::body(pieces, call.turns.clone()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Reply::Raw(response)
}

/// Room for an answer that is made whole, until it is sent; one that is larger than all room takes all of it.
fn room(call: &Call, size: usize) -> Result<OwnedSemaphorePermit> {
    let mebibytes = (size.saturating_mul(WHOLE) >> 20).clamp(1, WHOLE_ANSWERS);
    let room = call.server.whole_answers.clone();
    room.try_acquire_many_owned(mebibytes as u32).map_err(|_| flow::too_many())
}

/// The list's text, put together from the items' texts, in pieces of about a size.
struct Pieces {
    resource: Arc<Resource>,
    api_version: String,
    head: Option<String>,
    items: std::vec::IntoIter<Item>,
    is_first: bool,
    is_done: bool,
    size: usize,
}

impl Pieces {
    fn new(call: &Call, items: Vec<Item>, metadata: &Value, size: usize) -> Self {
        let (kind, api_version) = (&call.resource.list_kind, &call.api_version);
        let head = format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
        );
        Pieces {
            resource: call.resource.clone(),
            api_version: call.api_version.clone(),
            head: Some(head),
            items: items.into_iter(),
            is_first: true,
            is_done: false,
            size,
        }
    }
}

impl Iterator for Pieces {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.is_done {
            return None;
        }
        let mut left: usize = 256;
        left +=
            self.items.as_slice().iter().map(|item| item.entry.body.len() + 128).take(1024).sum::<usize>();
        let mut out = Vec::with_capacity(left.min(self.size));
        out.extend_from_slice(self.head.take().unwrap_or_default().as_bytes());
        // Lists of built-in kinds name the kind once, in front; custom resources name it in each item.
        let naming = Naming { kind: &self.resource.kind, api_version: &self.api_version };
        let naming = self.resource.custom.is_some().then_some(naming);
        while out.len() < self.size {
            let Some(item) = self.items.next() else {
                out.extend_from_slice(b"]}\n");
                self.is_done = true;
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                out.push(b',');
            }
            object::render(&mut out, naming, item.entry.revision, &item.entry.body);
        }
        Some(out)
    }
}

/// The list's metadata: its revision and, when it does not end here, where to go on.
fn page(found: &Snapshot, asked: &Asked, namespaced: bool, everything: bool) -> Value {
    let mut metadata = json!({"resourceVersion": found.revision.to_string()});
    if let (Some((namespace, name)), true) = (&found.last, asked.limit.is_some() && found.remaining > 0) {
        let start =
            if namespaced || namespace.is_empty() { name.to_string() } else { format!("{namespace}/{name}") };
        let token =
            Continue { v: "meta.k8s.io/v1".into(), rv: found.revision as i64, start: format!("{start}\0") };
        let token = serde_json::to_vec(&token).expect("a token can be written");
        metadata["continue"] = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token).into();
        if everything {
            metadata["remainingItemCount"] = found.remaining.into();
        }
    }
    metadata
}

/// In which state of the store a list is read.
#[derive(Debug, PartialEq, Eq)]
enum At {
    Latest,
    NotOlder(u64),
    Exact(u64),
}

/// What a list's query asks for.
struct Asked {
    at: At,
    limit: Option<usize>,
    start: Option<(String, String)>,
}

impl Asked {
    fn parse(call: &Call) -> Result<Asked> {
        let query = &call.query;
        let limit = query.number("limit")?.filter(|limit| *limit > 0).map(|limit| limit as usize);
        let given = query.text("resourceVersion");
        if let Some(token) = query.text("continue") {
            if given.is_some_and(|revision| revision != "0") {
                return Err(Error::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let (revision, start) = Self::resume(call, token)?;
            return Ok(Asked {
                at: revision.map_or(At::Latest, At::Exact),
                limit: limit.filter(|_| given != Some("0")),
                start: Some(start),
            });
        }
        let at = match (given, query.text("resourceVersionMatch")) {
            (None | Some("0"), _) => At::Latest,
            (Some(given), Some("Exact")) => At::Exact(listed_revision(given)?),
            // Without a rule, a page of an explicit revision is read exactly there.
            (Some(given), None) if limit.is_some() => At::Exact(listed_revision(given)?),
            (Some(given), _) => At::NotOlder(listed_revision(given)?),
        };
        // A list that any state will do for comes from memory on a stock server, which then ignores the limit.
        let limit = limit.filter(|_| given != Some("0"));
        Ok(Asked { at, limit, start: None })
    }

    fn resume(call: &Call, token: &str) -> Result<(Option<u64>, (String, String))> {
        let invalid = |why: &str| {
            Error::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let token = token.trim_end_matches('=');
        let text = base64::engine::general_purpose::URL_SAFE_NO_PAD
            .decode(token)
            .map_err(|error| invalid(&go_base64_error(token, &error)))?;
        Json::parse(&text).map_err(|error| invalid(&error.to_string()))?;
        let token: Continue = serde_json::from_slice(&text).map_err(|error| invalid(&error.to_string()))?;
        if token.v != "meta.k8s.io/v1" {
            return Err(invalid("server does not recognize this encoded version"));
        }
        if token.start.is_empty() {
            return Err(invalid("encoded start key empty"));
        }
        let start = token.start.trim_end_matches('\0');
        let start = match start.split_once('/') {
            Some((namespace, name)) => (namespace.to_owned(), name.to_owned()),
            None if call.resource.namespaced => (call.info.namespace.clone(), start.to_owned()),
            None => (String::new(), start.to_owned()),
        };
        match token.rv {
            0 => Err(invalid("incorrect encoded start resourceVersion")),
            revision if revision < 0 => Ok((None, start)),
            revision => Ok((Some(revision as u64), start)),
        }
    }
}

/// Which options go together.
fn validate(call: &Call) -> Result<()> {
    let query = &call.query;
    let path = field::Path::new("resourceVersionMatch");
    let mut errors = Vec::new();
    if let Some(matching) = query.text("resourceVersionMatch") {
        if query.text("resourceVersion").is_none() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(field::Error::forbidden(&path, why));
        }
        if query.text("continue").is_some() {
            errors.push(field::Error::forbidden(
                &path,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            errors.push(field::Error::not_supported(&path, matching, &["Exact", "NotOlderThan", ""]));
        }
        if matching == "Exact" && query.text("resourceVersion") == Some("0") {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(field::Error::forbidden(&path, why));
        }
    }
    if query.get("sendInitialEvents").is_some() {
        let path = field::Path::new("sendInitialEvents");
        errors.push(field::Error::forbidden(&path, "sendInitialEvents is forbidden for list"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Error::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

/// A resourceVersion as a number. How the fault is told differs from verb to verb.
pub(crate) fn revision(text: &str) -> Result<u64, field::Error> {
    text.parse().map_err(|_| {
        let path = field::Path::new("resourceVersion");
        field::Error::invalid(&path, text, format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
    })
}

fn listed_revision(text: &str) -> Result<u64> {
    revision(text).map_err(|why| Error::bad_request(format!("invalid resource version: {why}")))
}

/// The client knows of a state that this server has not reached.
pub(crate) fn too_new(wanted: u64, current: u64) -> Error {
    let mut error = Error::new(
        504,
        "Timeout",
        format!("Timeout: Too large resource version: {wanted}, current: {current}"),
    );
    error.details = Some(Box::new(json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    })));
    error
}

fn read_error(error: ReadError, token: Option<&str>) -> Error {
    match (error, token) {
        (ReadError::Future { current }, _) => too_new(current + 1, current),
        (ReadError::Compacted { .. }, Some(token)) => Error::gone(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of \
             the results. Continuing with the provided token results in an inconsistent list - objects that were \
             created, modified, or deleted between the time the first chunk was returned and now may show up in the \
             list.",
        )
        .with_continue(unsteady(token)),
        (ReadError::Compacted { .. }, None) => Error::gone("The resourceVersion for the provided list is too old."),
    }
}

/// A token to go on with where another one ended, in whatever state the store is then.
fn unsteady(token: &str) -> Option<String> {
    let engine = &base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let text = engine.decode(token.trim_end_matches('=')).ok()?;
    let token: Continue = serde_json::from_slice(&text).ok()?;
    let token = serde_json::to_vec(&Continue { rv: -1, ..token }).ok()?;
    Some(engine.encode(token))
}

fn go_base64_error(text: &str, error: &base64::DecodeError) -> String {
    match error {
        base64::DecodeError::InvalidByte(at, _) => format!("illegal base64 data at input byte {at}"),
        _ => format!("illegal base64 data at input byte {}", text.len().saturating_sub(text.len() % 4)),
    }
}
