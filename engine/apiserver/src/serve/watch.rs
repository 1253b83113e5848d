//! Watch: a stream of events from any revision that is still kept.
//!
//! Resuming and living are the same: a cursor over the store's history. Nothing is buffered for a slow
//! client; one that falls behind what is kept gets 410 and lists again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::accept::{Encoding, Form};
use super::call::{Call, stored_as_served};
use super::pieces::{self, PIECE};
use super::respond::Reply;
use super::select::Selection;
use super::{crds, object, print, read};
use crate::field;
use crate::protobuf;
use crate::status::{Error, Result};
use crate::store::{Entry, Event, EventKind, ListAt, ListQuery, ReadError, Watch, WatchError};
use crate::table::{self, Column, Include, MetaVersion, Printer};

/// How often a client that asked for it is told how far it has come.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch lives when the client does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);
/// Longer is as long as anybody waits, and no moment that can be named.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Where a watch starts.
struct Start {
    /// The current state comes first, as ADDED events.
    initial: bool,
    /// … and a bookmark that says where it ends.
    initial_end: bool,
    from: Option<u64>,
}

pub(crate) fn watch(call: Call) -> Result<Reply> {
    call.query.number("limit")?;
    call.query.number("timeoutSeconds")?;
    let selection = Selection::parse(&call, |call| Start::parse(call).map(|_| ()))?;
    let start = Start::parse(&call)?;
    let timeout = call.query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
    let timeout = timeout.map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs(seconds as u64));
    let timeout = timeout.min(LONGEST_TIMEOUT);
    let framed = call.accept.encoding == Encoding::Protobuf;
    if framed && !protobuf::knows(&call.api_version, &call.resource.kind) {
        return Err(Error::not_acceptable("this kind has no protobuf form: accept application/json as well"));
    }
    let current = call.server.store.revision();
    let (initial, from) = if start.initial {
        if let Some(wanted) = start.from.filter(|wanted| *wanted > current) {
            return Ok(told(&call, &read::too_new(wanted, current)));
        }
        let (items, revision) = initial_events(&call, &selection)?;
        (items, revision)
    } else {
        (VecDeque::new(), start.from.unwrap_or(current))
    };
    // Who asks for what comes after a state that is not reached yet waits for it in silence.
    let cursor = match call.server.store.watch(&call.resource.storage, from.min(current)) {
        Ok(cursor) => cursor,
        Err(error) => return Ok(told(&call, &gone(error, from))),
    };
    let definition = match &call.resource.custom {
        Some(_) => Some(call.server.store.watch(crds::CRDS, current).map_err(Error::internal)?),
        None => None,
    };
    let include = print::include(&call)?;
    let media = if framed { protobuf::WATCH_MEDIA_TYPE } else { "application/json" };
    let now = Instant::now();
    let mut stream = Stream {
        bookmarks: call.query.flag("allowWatchBookmarks"),
        next_bookmark: now + BOOKMARK_EVERY,
        deadline: now + timeout,
        pending: initial,
        columns_sent: false,
        done: false,
        include,
        printer: print::printer(&call.resource),
        call,
        selection,
        cursor,
        after: from,
        definition,
    };
    if start.initial_end {
        let bookmark = stream.bookmark(from, true);
        stream.pending.push_back(bookmark);
    }
    let turns = stream.call.turns.clone();
    let body = Body::from_stream(futures::stream::unfold(stream, move |mut stream| {
        let turns = turns.clone();
        async move {
            let next = async move {
                let chunk = stream.next().await;
                (chunk, stream)
            };
            // A watch that ends is begun anew by its client, whatever the reason.
            let (chunk, stream) = pieces::in_turn(turns.as_ref(), next).await?;
            Some((Ok::<_, std::convert::Infallible>(chunk?), stream))
        }
    }));
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    Ok(Reply::Raw(response))
}

impl Start {
    fn parse(call: &Call) -> Result<Start> {
        let query = &call.query;
        let given = query.text("resourceVersion");
        let from = given.map(read::revision).transpose();
        let from = from.map_err(|why| Error::new(500, "", why.to_string()))?.filter(|revision| *revision > 0);
        let matching = query.text("resourceVersionMatch");
        let path = field::Path::new("resourceVersionMatch");
        let mut errors = Vec::new();
        let asked = query.get("sendInitialEvents").is_some();
        if asked && matching != Some("NotOlderThan") {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(field::Error::forbidden(&path, why));
        }
        if let Some(matching) = matching {
            if !asked {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(field::Error::forbidden(&path, why));
            }
            if matching != "NotOlderThan" {
                errors.push(field::Error::not_supported(&path, matching, &["NotOlderThan"]));
            }
        }
        if query.text("continue").is_some() {
            let path = field::Path::new("continue");
            errors.push(field::Error::forbidden(&path, "continue is forbidden for watch"));
        }
        if !errors.is_empty() {
            return Err(Error::invalid("meta.k8s.io", "ListOptions", "", &errors));
        }
        let initial = if asked { query.flag("sendInitialEvents") } else { from.is_none() };
        let initial_end = initial && query.flag("allowWatchBookmarks");
        Ok(Start { initial, initial_end, from })
    }
}

/// A watch that cannot start is told so in its stream, like one that cannot go on: that is where clients look for it.
fn told(call: &Call, error: &Error) -> Reply {
    let status = error.to_status();
    let (media, body) = if call.accept.encoding == Encoding::Protobuf {
        let frame = protobuf::watch_frame("ERROR", "v1", "Status", &status).unwrap_or_default();
        (protobuf::WATCH_MEDIA_TYPE, frame)
    } else {
        ("application/json", format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n").into_bytes())
    };
    Reply::Raw(super::respond::body(StatusCode::OK, media, body))
}

fn gone(error: ReadError, wanted: u64) -> Error {
    match error {
        ReadError::Compacted { floor } => {
            Error::gone(format!("too old resource version: {wanted} ({floor})"))
        }
        ReadError::Future { current } => read::too_new(current + 1, current),
    }
}

/// One event of the stream, not yet in the client's form.
struct Pending {
    kind: &'static str,
    revision: u64,
    what: What,
}

enum What {
    Stored(Arc<Entry>),
    /// A bookmark.
    Object(Value),
    /// An error: written as it is.
    Ready(Value),
}

fn initial_events(call: &Call, selection: &Selection) -> Result<(VecDeque<Pending>, u64)> {
    let namespace = watched_namespace(call);
    let query = ListQuery { namespace, at: ListAt::Latest, ..ListQuery::all(&call.resource.storage) };
    let found = call.server.store.list_filtered(&query, &mut |item| selection.matches(call, item));
    let found = found.map_err(|error| gone(error, 0))?;
    let pending = found.items.into_iter().map(|item| Pending {
        kind: "ADDED",
        revision: item.entry.revision,
        what: What::Stored(item.entry),
    });
    Ok((pending.collect(), found.revision))
}

fn watched_namespace(call: &Call) -> Option<&str> {
    Some(call.namespace()).filter(|one| !one.is_empty())
}

struct Stream {
    call: Call,
    selection: Selection,
    cursor: Watch,
    /// Nothing up to here is told, which may be in the future.
    after: u64,
    /// Of a custom resource: its definition, without which there is nothing to watch.
    definition: Option<Watch>,
    pending: VecDeque<Pending>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    include: Include,
    printer: Printer,
    columns_sent: bool,
    done: bool,
}

impl Stream {
    /// The next piece of the body.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !self.pending.is_empty() {
                return Some(self.write_pending());
            }
            if self.done {
                return None;
            }
            let definition = async {
                match &mut self.definition {
                    Some(watch) => watch.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                events = self.cursor.next() => self.take(events),
                events = definition => self.take_definition(events),
                () = sleep_until(self.deadline) => self.done = true,
                () = sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark += BOOKMARK_EVERY;
                    let seen = self.cursor.seen();
                    if seen >= self.after {
                        let bookmark = self.bookmark(seen, false);
                        self.pending.push_back(bookmark);
                    }
                }
            }
        }
    }

    fn take_definition(&mut self, events: std::result::Result<Vec<Arc<Event>>, WatchError>) {
        let name = self.call.resource.custom.as_ref().map(|custom| custom.crd.full_name());
        let gone = |event: &Arc<Event>| {
            event.kind == EventKind::Deleted && name.as_deref() == Some(&*event.key.name)
        };
        match events {
            Ok(events) => self.done |= events.iter().any(gone),
            // Whoever fell behind looks again.
            Err(_) => self.done = true,
        }
    }

    fn take(&mut self, events: std::result::Result<Vec<Arc<Event>>, WatchError>) {
        match events {
            Ok(events) => {
                let events = events.iter().filter(|event| event.revision > self.after);
                let selected = events.filter_map(|event| self.select(event));
                let selected: Vec<Pending> = selected.collect();
                self.pending.extend(selected);
            }
            Err(WatchError::Closed) => self.done = true,
            Err(WatchError::Compacted { floor }) => {
                let error = gone(ReadError::Compacted { floor }, self.after);
                let what = What::Ready(error.to_status());
                self.pending.push_back(Pending { kind: "ERROR", revision: 0, what });
                self.done = true;
            }
        }
    }

    /// What an event means to this client: an object that stops matching is deleted to it.
    fn select(&self, event: &Event) -> Option<Pending> {
        if watched_namespace(&self.call).is_some_and(|namespace| namespace != &*event.key.namespace) {
            return None;
        }
        let matches = |entry: &Entry| {
            self.selection.is_everything()
                || self.selection.matches_entry(&self.call, &event.key.namespace, &event.key.name, entry)
        };
        let before = event.previous.as_deref().is_some_and(matches);
        let now = event.kind != EventKind::Deleted && matches(&event.entry);
        let (kind, entry) = match (before, now) {
            (false, false) => return None,
            (false, true) => ("ADDED", &event.entry),
            (true, true) => ("MODIFIED", &event.entry),
            (true, false) => ("DELETED", event.previous.as_ref()?),
        };
        Some(Pending { kind, revision: event.revision, what: What::Stored(entry.clone()) })
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Pending {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = json!({
            "kind": &*self.call.resource.kind, "apiVersion": self.call.api_version, "metadata": metadata,
        });
        // A built-in object is never emptier than its Go type.
        if let (None, Some(schema)) = (&self.call.resource.custom, self.call.resource.schema())
            && let Ok(decoded) = crate::schema::decode::decode(&schema, object.clone())
        {
            object = decoded.value;
            if &*self.call.resource.storage == "apps/daemonsets" {
                object["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = "0".into();
            }
            // An autoscaler is printed as it would be stored, and this one has no metrics.
            let table = matches!(self.call.accept.form, Form::Table(_));
            if table && &*self.call.resource.storage == "autoscaling/horizontalpodautoscalers" {
                object["spec"]["metrics"] = json!([]);
            }
            // Behind these is a plain number, whatever their JSON says.
            if matches!(
                &*self.call.resource.storage,
                "apps/deployments" | "apps/replicasets" | "apps/statefulsets"
            ) {
                object["spec"]["replicas"] = 0.into();
            }
        }
        Pending { kind: "BOOKMARK", revision, what: What::Object(object) }
    }

    fn write_pending(&mut self) -> Bytes {
        let mut out = Vec::with_capacity(1024 * self.pending.len().min(64));
        // What is left stays as it is stored: a client that does not read holds no copy of it.
        while out.len() < PIECE
            && let Some(Pending { kind, revision, what }) = self.pending.pop_front()
        {
            if self.call.accept.encoding == Encoding::Protobuf {
                let object = match what {
                    What::Ready(value) | What::Object(value) => value,
                    What::Stored(entry) => self.call.value(revision, &entry.body),
                };
                let word = |key: &str| object[key].as_str().unwrap_or_default();
                let frame = protobuf::watch_frame(kind, word("apiVersion"), word("kind"), &object);
                out.extend(frame.unwrap_or_default());
                continue;
            }
            out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
            match what {
                What::Ready(value) => write(&mut out, &value),
                What::Object(value) => {
                    let value = self.formed(value);
                    write(&mut out, &value);
                }
                What::Stored(entry)
                    if self.call.accept.form == Form::Whole
                        && stored_as_served(&self.call.resource, entry.revision) =>
                {
                    object::render(&mut out, Some(self.call.naming()), revision, &entry.body);
                }
                What::Stored(entry) => {
                    let value = self.call.printed(revision, &entry.body);
                    let value = self.formed(value);
                    write(&mut out, &value);
                }
            }
            out.extend_from_slice(b"}\n");
        }
        out.into()
    }

    fn formed(&mut self, value: Value) -> Value {
        match self.call.accept.form {
            Form::Whole => value,
            Form::PartialMetadata(version) | Form::PartialMetadataList(version) => {
                table::partial(&value, version)
            }
            Form::Table(version) => {
                // A Table's columns come with its first event only, with few exceptions.
                let columns =
                    (!self.columns_sent || self.printer.repeats_columns()).then(|| self.printer.columns());
                self.columns_sent = true;
                self.table(&value, version, columns.as_deref())
            }
        }
    }

    fn table(&self, value: &Value, version: MetaVersion, columns: Option<&[Column]>) -> Value {
        let row = print::row(&self.call, &self.printer, value, self.include, version);
        table::table(&self.printer, columns, [row], &value["metadata"], version)
    }
}

fn write(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("a value can be written");
}
