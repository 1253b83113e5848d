//! What is around every object on the wire: four bytes of magic and a message that names the kind; and
//! the frames of a watch.

use serde_json::{Map, Value};

use super::special::piece;
use super::table::{self, Holds, Message};
use super::wire::{Reader, put_bytes, put_nested};
use super::{Fault, decode as message, encode as fields};

const MAGIC: &[u8] = b"k8s\0";

/// An object that came as protobuf.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub api_version: String,
    pub kind: String,
    /// What the client would have sent as JSON, `apiVersion` and `kind` included.
    pub value: Value,
}

/// A body that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What it is about could not be told.
    #[error("{0}")]
    Envelope(Fault),
    /// A kind that has no protobuf here.
    #[error(
        "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )]
    Kind { api_version: String, kind: String },
    /// The object is not what its kind says.
    #[error("{fault}")]
    Object { api_version: String, kind: String, fault: Fault },
}

impl Error {
    /// What a stock server answers (with 400) where an object of kind `wanted` was due.
    pub fn message(&self, wanted: &str, body: &[u8]) -> String {
        match self {
            Error::Envelope(fault) => {
                let summary = summary(body);
                format!("the object provided is unrecognized (must be of type {wanted}): {fault} ({summary})")
            }
            Error::Kind { api_version, kind } | Error::Object { api_version, kind, .. } => {
                let version = api_version.rsplit('/').next().unwrap_or_default();
                format!("{kind} in version {version:?} cannot be handled as a {wanted}: {self}")
            }
        }
    }
}

/// The start of a body, for the message that it was not understood.
fn summary(body: &[u8]) -> String {
    const MOST: usize = 30;
    let start = &body[..body.len().min(MOST)];
    let start = match body.first() {
        None => return "<empty>".into(),
        Some(b'{') => message::text(start),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > MOST { start + " ..." } else { start }
}

/// Whether objects of this kind can be read from and written as protobuf.
pub fn knows(api_version: &str, kind: &str) -> bool {
    table::message(api_version, kind).is_some()
}

/// Reads a body. What it does not say about its kind and version is as given: those of the resource
/// that it was sent to.
pub fn decode(body: &[u8], api_version: &str, kind: &str) -> Result<Decoded, Error> {
    let unknown = Unknown::read(body).map_err(Error::Envelope)?;
    let api_version = version_said(&unknown.api_version).unwrap_or(api_version).to_owned();
    let kind = if unknown.kind.is_empty() { kind } else { &unknown.kind }.to_owned();
    let Some(known) = table::message(&api_version, &kind) else {
        return Err(Error::Kind { api_version, kind });
    };
    match message::object(known, unknown.raw) {
        Ok(mut object) => {
            for (key, said) in [("apiVersion", &api_version), ("kind", &kind)] {
                if !said.is_empty() {
                    object.insert(key.into(), said.as_str().into());
                }
            }
            Ok(Decoded { api_version, kind, value: object.into() })
        }
        Err(fault) => Err(Error::Object { api_version, kind, fault }),
    }
}

/// The group and version of an envelope; `None` where there is no version to be found in the text.
fn version_said(text: &str) -> Option<&str> {
    match text.split_once('/') {
        None if text.is_empty() => None,
        None => Some(text),
        Some((_, version)) if version.is_empty() || version.contains('/') => None,
        Some(("", version)) => Some(version),
        Some(_) => Some(text),
    }
}

/// An object as protobuf, `None` if its kind has none.
pub fn encode(api_version: &str, kind: &str, object: &Value) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    put_object(&mut out, api_version, kind, table::message(api_version, kind)?, object);
    Some(out)
}

/// One event of a watch (`ADDED` and so on), framed for the stream; `None` if the kind has no protobuf.
pub fn watch_frame(event: &str, api_version: &str, kind: &str, object: &Value) -> Option<Vec<u8>> {
    let known = table::message(api_version, kind)?;
    let mut out = vec![0; 4];
    put_bytes(&mut out, 1, event.as_bytes());
    put_nested(&mut out, 2, |out| {
        put_nested(out, 1, |out| put_object(out, api_version, kind, known, object));
    });
    let length = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    Some(out)
}

fn put_object(out: &mut Vec<u8>, api_version: &str, kind: &str, known: &'static Message, object: &Value) {
    let empty = Map::new();
    let object = object.as_object().unwrap_or(&empty);
    put_envelope(out, api_version, kind, |out| fields::fields(out, known, object));
}

fn put_envelope(out: &mut Vec<u8>, api_version: &str, kind: &str, raw: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(MAGIC);
    put_nested(out, 1, |out| {
        put_bytes(out, 1, api_version.as_bytes());
        put_bytes(out, 2, kind.as_bytes());
    });
    put_nested(out, 2, raw);
    // The encoding and the type of the content, which are always empty.
    put_bytes(out, 3, b"");
    put_bytes(out, 4, b"");
}

/// Writes a list item by item, so that only the bytes of its items are held.
pub struct ListWriter {
    api_version: String,
    kind: String,
    list: &'static Message,
    item: &'static Message,
    items: Vec<u8>,
}

impl ListWriter {
    const ITEMS: u16 = 2;

    /// For a list of that kind, such as `DeploymentList`; `None` if it has no protobuf.
    pub fn new(api_version: &str, kind: &str) -> Option<ListWriter> {
        let list = table::message(api_version, kind)?;
        let items = list.field(Self::ITEMS.into()).filter(|field| field.name == Some("items"))?;
        let Holds::Message(place) = items.holds else { return None };
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        Some(ListWriter { api_version, kind, list, item: place.message(), items: Vec::new() })
    }

    pub fn push(&mut self, item: &Map<String, Value>) {
        put_nested(&mut self.items, Self::ITEMS, |out| fields::fields(out, self.item, item));
    }

    /// The whole list, with its metadata.
    pub fn finish(self, metadata: &Value) -> Vec<u8> {
        let head = Map::from_iter([("metadata".to_owned(), metadata.clone())]);
        let mut out = Vec::with_capacity(self.items.len() + 128);
        put_envelope(&mut out, &self.api_version, &self.kind, |out| {
            fields::fields(out, self.list, &head);
            out.extend_from_slice(&self.items);
        });
        out
    }
}

/// The envelope's message.
struct Unknown<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Unknown<'a> {
    fn read(body: &'a [u8]) -> Result<Self, Fault> {
        if body.is_empty() {
            return Err(Fault("empty data".into()));
        }
        let Some(data) = body.strip_prefix(MAGIC) else {
            const WHY: &str =
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
            return Err(Fault(WHY.into()));
        };
        if data.is_empty() {
            return Err(Fault("empty body".into()));
        }
        let mut unknown = Unknown { api_version: String::new(), kind: String::new(), raw: &[] };
        let mut reader = Reader::new("Unknown", data);
        while let Some(tag) = reader.tag()? {
            match tag.number {
                1 => unknown.read_type(piece(tag, &mut reader, "TypeMeta")?)?,
                2 => unknown.raw = piece(tag, &mut reader, "Raw")?,
                3 => drop(piece(tag, &mut reader, "ContentEncoding")?),
                4 => drop(piece(tag, &mut reader, "ContentType")?),
                _ => reader.skip(tag)?,
            }
        }
        Ok(unknown)
    }

    fn read_type(&mut self, data: &[u8]) -> Result<(), Fault> {
        let mut reader = Reader::new("TypeMeta", data);
        while let Some(tag) = reader.tag()? {
            match tag.number {
                1 => self.api_version = message::text(piece(tag, &mut reader, "APIVersion")?),
                2 => self.kind = message::text(piece(tag, &mut reader, "Kind")?),
                _ => reader.skip(tag)?,
            }
        }
        Ok(())
    }
}
