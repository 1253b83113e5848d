//! What Go's decoding into a typed struct and encoding back does to the JSON of a built-in kind: unknown
//! fields go, wrong types are refused in Go's words, values become canonical, and empty ones are left
//! out or shown as the Go types say.

mod types;

use serde_json::{Map, Value};

use self::types::{format_of, in_range, is_bytes, is_number, quantity, scalar_name, scalar_of, zero_scalar};

use super::facts::GoName;
use super::parse::{JSON_SCHEMA_PROPS, format};
use super::raw::{self, Json};
use super::{Field, GoField, GoScalar, Node, NodeId, Object, Schema, Set, Shape, gobytes, gotime};

/// More findings than this are not told.
const MOST_FINDINGS: usize = 100;

/// An object as the typed Go value would be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// What strict field validation objects to, in its words and in the order of the document:
    /// `unknown field "spec.foo"`, `duplicate field "spec.replicas"`.
    pub strict: Vec<String>,
}

/// The JSON does not fit the type. The message is Go's; the real server puts
/// `Deployment in version "v1" cannot be handled as a Deployment: ` before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

impl DecodeError {
    pub(crate) fn new(message: String) -> Self {
        DecodeError(message)
    }
}

/// What a request with strict field validation fails with.
pub fn strict_error(findings: &[String]) -> String {
    format!("strict decoding error: {}", findings.join(", "))
}

/// Decodes an object that exists as a value, such as the result of a patch.
pub fn decode(schema: &Schema, value: Value) -> Result<Decoded, DecodeError> {
    decode_json(schema, Json::from(value))
}

/// Decodes an object as it comes back from the store: protobuf, in which most kinds are stored, does not tell
/// an empty list from none.
pub fn decode_stored(schema: &Schema, value: Value) -> Result<Decoded, DecodeError> {
    decode_with(schema, Json::from(value), EmptyLists::Dropped)
}

/// Decodes the body of a request.
pub fn decode_json(schema: &Schema, json: Json) -> Result<Decoded, DecodeError> {
    decode_with(schema, json, EmptyLists::Kept)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EmptyLists {
    Kept,
    Dropped,
}

fn decode_with(schema: &Schema, json: Json, lists: EmptyLists) -> Result<Decoded, DecodeError> {
    let set = schema.set();
    let name = set.name_of(schema.id()).unwrap_or_default();
    let mut decoder = Decoder {
        set,
        findings: Vec::new(),
        tells: true,
        path: String::new(),
        owner: None,
        fields: Vec::new(),
        saved: None,
        keeps_empty: !name.starts_with("io.k8s.api."),
        lists,
    };
    let out = decoder.node(schema.id(), None, GoScalar::None, json)?;
    match decoder.saved {
        Some(message) => Err(DecodeError(message)),
        None => Ok(Decoded { value: out.value, strict: decoder.findings }),
    }
}

/// A decoded value, and whether it is the zero value of its Go type.
struct Out {
    value: Value,
    zero: bool,
}

impl Out {
    fn zero(value: impl Into<Value>) -> Self {
        Out { value: value.into(), zero: true }
    }

    fn new(value: impl Into<Value>) -> Self {
        Out { value: value.into(), zero: false }
    }

    fn scalar(value: impl Into<Value>, zero: bool) -> Self {
        Out { value: value.into(), zero }
    }
}

struct Decoder<'a> {
    set: &'a Set,
    findings: Vec<String>,
    /// Off inside types that decode themselves: Go does not look for unknown fields there.
    tells: bool,
    /// Where we are, for findings.
    path: String,
    /// The innermost struct, and the names that lead to its current field, for errors.
    owner: Option<NodeId>,
    fields: Vec<&'a str>,
    /// The first type error: decoding goes on after one, and a later error of a type that decodes itself
    /// comes before it.
    saved: Option<String>,
    /// Protobuf, in which most kinds are stored, does not tell an empty list from none.
    keeps_empty: bool,
    lists: EmptyLists,
}

impl<'a> Decoder<'a> {
    /// `spelled` is the Go name of the type and `scalar` its kind, where facts tell them.
    fn node(
        &mut self,
        id: NodeId,
        spelled: Option<&'a str>,
        scalar: GoScalar,
        json: Json,
    ) -> Result<Out, DecodeError> {
        if json == Json::Null {
            return Ok(self.zero(id, scalar));
        }
        let node = self.set.node(id);
        match (&node.shape, format_of(node)) {
            (Shape::Object(object), _) if object.additional.is_none() => {
                self.structure(id, object, spelled, json)
            }
            (Shape::Object(object), _) => self.map(id, object, spelled, json),
            (Shape::List(list), _) => self.list(id, list.items, spelled, json),
            (Shape::IntOrString, _) => self.int_or_string(json),
            (Shape::String, format::QUANTITY) => quantity(&json),
            (Shape::String, format::TIME) => self.time(json, gotime::Layout::Seconds),
            (Shape::String, format::MICRO_TIME) => self.time(json, gotime::Layout::Micro),
            (Shape::String, format::BYTES) => Ok(self.bytes(json)),
            (Shape::Any, format::SCHEMA_OR_ARRAY) => self.inner(|decoder| decoder.schema_or_list(json)),
            (Shape::Any, format::SCHEMA_OR_BOOL) => self.inner(|decoder| decoder.schema_or_bool(json)),
            (Shape::Any, format::SCHEMA_OR_STRINGS) => self.inner(|decoder| decoder.schema_or_strings(json)),
            (Shape::Any, _) => Ok(Out::new(json.into_verbatim_value())),
            _ => Ok(self.scalar(scalar_of(node, scalar), spelled, json)),
        }
    }

    fn structure(
        &mut self,
        id: NodeId,
        object: &'a Object,
        spelled: Option<&'a str>,
        json: Json,
    ) -> Result<Out, DecodeError> {
        let Json::Object(entries) = json else {
            self.mismatch(json.kind(), || self.set.go_type(id, spelled));
            return Ok(self.zero(id, GoScalar::None));
        };
        let mut given: Vec<Option<Out>> = Vec::new();
        given.resize_with(object.fields.len(), || None);
        let mut seen = vec![false; object.fields.len()];
        let outer = self.owner.replace(id);
        for (key, value) in entries {
            let Ok(at) = object.fields.binary_search_by(|field| (*field.name).cmp(&key)) else {
                self.find("unknown", &key);
                continue;
            };
            if std::mem::replace(&mut seen[at], true) {
                self.find("duplicate", &key);
            }
            let field = &object.fields[at];
            let names = self.fields.len();
            let spelled = self.set.go_names.get(&(self.set.defined(id), field.name.clone()));
            if let Some(GoName { embedded_in, .. }) = spelled
                && !embedded_in.is_empty()
            {
                self.fields.push(embedded_in);
            }
            self.fields.push(&field.name);
            given[at] = self.below(&key, |decoder| decoder.field(field, spelled, value))?;
            self.fields.truncate(names);
        }
        self.owner = outer;
        Ok(self.write(object, given))
    }

    /// `None` is a null.
    fn field(
        &mut self,
        field: &'a Field,
        spelled: Option<&'a GoName>,
        json: Json,
    ) -> Result<Option<Out>, DecodeError> {
        if json == Json::Null {
            return Ok(None);
        }
        let spelled = spelled.map(|name| &*name.type_name).filter(|name| !name.is_empty());
        let scalar = field.go.map_or(GoScalar::None, |go| go.scalar);
        self.node(field.node, spelled, scalar, json).map(Some)
    }

    /// The fields of a struct as Go writes them.
    fn write(&self, object: &Object, given: Vec<Option<Out>>) -> Out {
        let mut map = Map::new();
        let mut zero = true;
        for (field, out) in object.fields.iter().zip(given) {
            zero &= match (&out, field.go) {
                (None, _) => true,
                (Some(_), None | Some(GoField { pointer: true, .. })) => false,
                (Some(out), Some(_)) => out.zero,
            };
            let shown = match field.go {
                None => out.map(|out| out.value),
                Some(go) => self.shown(field, go, out),
            };
            if let Some(value) = shown {
                map.insert(field.name.to_string(), value);
            }
        }
        Out { value: Value::Object(map), zero }
    }

    fn shown(&self, field: &Field, go: GoField, out: Option<Out>) -> Option<Value> {
        if go.pointer {
            let omitted = go.omit_empty || go.omit_zero;
            return match out {
                Some(out) => Some(out.value),
                None => (!omitted).then_some(Value::Null),
            };
        }
        let out = out.unwrap_or_else(|| match self.set.node(field.node) {
            node if is_bytes(node) => Out::zero(Value::Null),
            _ => self.zero(field.node, go.scalar),
        });
        let empty = || match self.set.node(field.node) {
            node if go.scalar != GoScalar::None || is_bytes(node) => out.zero || out.value == "",
            Node { shape: Shape::List(_), .. } => out.value.as_array().is_none_or(Vec::is_empty),
            Node { shape: Shape::Object(object), .. } if object.additional.is_some() => {
                out.value.as_object().is_none_or(Map::is_empty)
            }
            // A struct is never empty.
            _ => false,
        };
        let omitted = (go.omit_zero && out.zero) || (go.omit_empty && empty());
        (!omitted).then_some(out.value)
    }

    fn map(
        &mut self,
        id: NodeId,
        object: &'a Object,
        spelled: Option<&'a str>,
        json: Json,
    ) -> Result<Out, DecodeError> {
        let (entries, values) = match (json, object.additional) {
            (Json::Object(entries), Some(values)) => (entries, values),
            (other, _) => {
                self.mismatch(other.kind(), || self.set.go_type(id, spelled));
                return Ok(Out::zero(Value::Null));
            }
        };
        let spelled = spelled.and_then(|name| name.strip_prefix("map[string]"));
        let mut map = Map::new();
        for (key, value) in entries {
            if map.contains_key(&key) {
                self.find("duplicate", &key);
            }
            let out = self.below(&key, |decoder| decoder.node(values, spelled, GoScalar::None, value))?;
            map.insert(key, out.value);
        }
        if map.is_empty() && !self.keeps_empty {
            return Ok(Out::zero(Value::Null));
        }
        Ok(Out::new(map))
    }

    fn list(
        &mut self,
        id: NodeId,
        items: NodeId,
        spelled: Option<&'a str>,
        json: Json,
    ) -> Result<Out, DecodeError> {
        let Json::Array(values) = json else {
            self.mismatch(json.kind(), || self.set.go_type(id, spelled));
            return Ok(Out::zero(Value::Null));
        };
        let spelled = spelled.and_then(|name| name.strip_prefix("[]"));
        let mut list = Vec::with_capacity(values.len());
        for (at, value) in values.into_iter().enumerate() {
            let end = self.path.len();
            self.path.push_str(&format!("[{at}]"));
            let out = self.node(items, spelled, GoScalar::None, value);
            self.path.truncate(end);
            list.push(out?.value);
        }
        if list.is_empty() && !self.keeps_empty && self.lists == EmptyLists::Dropped {
            return Ok(Out::zero(Value::Null));
        }
        Ok(Out::new(list))
    }

    fn scalar(&mut self, kind: GoScalar, spelled: Option<&'a str>, json: Json) -> Out {
        let fits = match (kind, &json) {
            (GoScalar::String, Json::String(_)) | (GoScalar::Bool, Json::Bool(_)) => true,
            (GoScalar::Float64, Json::Number(literal)) => literal.parse().is_ok_and(f64::is_finite),
            (_, Json::Number(literal)) => in_range(kind, literal),
            _ => false,
        };
        if !fits {
            let words = match &json {
                Json::Number(literal) if is_number(kind) => format!("number {literal}"),
                other => other.kind().to_owned(),
            };
            self.mismatch(&words, || spelled.unwrap_or_else(|| scalar_name(kind)).to_owned());
            return zero_scalar(kind);
        }
        match json {
            Json::String(text) => Out { zero: text.is_empty(), value: text.into() },
            Json::Bool(flag) => Out::scalar(flag, !flag),
            Json::Number(literal) => {
                let value = raw::number(&literal);
                Out { zero: value.as_f64() == Some(0.0), value }
            }
            other => Out::new(other.into_value()),
        }
    }

    fn int_or_string(&mut self, json: Json) -> Result<Out, DecodeError> {
        match json {
            Json::String(text) => Ok(Out::new(text)),
            Json::Number(literal) if in_range(GoScalar::Int32, &literal) => {
                let value = raw::number(&literal);
                Ok(Out { zero: value == 0, value })
            }
            Json::Number(literal) => Err(self.fatal(&format!("number {literal}"), "int32")),
            other => Err(self.fatal(other.kind(), "int32")),
        }
    }

    fn time(&mut self, json: Json, layout: gotime::Layout) -> Result<Out, DecodeError> {
        let Json::String(text) = json else { return Err(self.fatal(json.kind(), "string")) };
        match gotime::canonical(&text, layout).map_err(DecodeError)? {
            Some(time) => Ok(Out::new(time)),
            None => Ok(Out::zero(Value::Null)),
        }
    }

    fn bytes(&mut self, json: Json) -> Out {
        match json {
            Json::String(text) => match gobytes::canonical(&text) {
                Ok(text) => Out::new(text),
                Err(message) => {
                    self.saved.get_or_insert(message);
                    Out::zero(Value::Null)
                }
            },
            Json::Array(items) => {
                let bytes = items.into_iter().map(|item| self.scalar(GoScalar::Uint8, None, item).value);
                let bytes: Vec<u8> = bytes.map(|byte| byte.as_u64().unwrap_or_default() as u8).collect();
                Out::new(gobytes::encode(&bytes))
            }
            other => {
                self.mismatch(other.kind(), || "[]uint8".to_owned());
                Out::zero(Value::Null)
            }
        }
    }

    /// Decodes what a type of its own decodes: nothing is told of it, and any error ends all.
    fn inner(
        &mut self,
        decode: impl FnOnce(&mut Self) -> Result<Out, DecodeError>,
    ) -> Result<Out, DecodeError> {
        let (tells, saved) = (std::mem::replace(&mut self.tells, false), self.saved.take());
        let out = decode(self)?;
        if let Some(message) = self.saved.take() {
            return Err(DecodeError(message));
        }
        (self.tells, self.saved) = (tells, saved);
        Ok(out)
    }

    fn schema(&mut self, json: Json) -> Result<Out, DecodeError> {
        match self.set.definition(JSON_SCHEMA_PROPS) {
            Some(id) => self.node(id, None, GoScalar::None, json),
            None => Ok(Out::new(json.into_value())),
        }
    }

    fn schema_or_bool(&mut self, json: Json) -> Result<Out, DecodeError> {
        match json {
            Json::Object(_) => self.schema(json),
            Json::Bool(flag) => Ok(Out::new(flag)),
            _ => Err(DecodeError("boolean or JSON schema expected".to_owned())),
        }
    }

    fn schema_or_list(&mut self, json: Json) -> Result<Out, DecodeError> {
        match json {
            Json::Object(_) => self.schema(json),
            Json::Array(items) if !items.is_empty() => {
                let list = items.into_iter().map(|item| self.schema(item).map(|out| out.value));
                Ok(Out::new(list.collect::<Result<Vec<_>, _>>()?))
            }
            _ => Ok(Out::zero(Value::Null)),
        }
    }

    fn schema_or_strings(&mut self, json: Json) -> Result<Out, DecodeError> {
        match json {
            Json::Object(_) => self.schema(json),
            Json::Array(items) if !items.is_empty() => {
                let list = items.into_iter().map(|item| self.scalar(GoScalar::String, None, item).value);
                Ok(Out::new(list.collect::<Vec<_>>()))
            }
            _ => Ok(Out::zero(Value::Null)),
        }
    }

    /// The zero value of a type as Go writes it.
    fn zero(&self, id: NodeId, scalar: GoScalar) -> Out {
        let node = self.set.node(id);
        match (&node.shape, format_of(node)) {
            (Shape::Object(object), _) if object.additional.is_none() => {
                let mut none = Vec::new();
                none.resize_with(object.fields.len(), || None);
                self.write(object, none)
            }
            (Shape::Object(_) | Shape::List(_) | Shape::Any, _) => Out::zero(Value::Null),
            (Shape::String, format::QUANTITY) => Out::zero("0"),
            (Shape::String, format::TIME | format::MICRO_TIME) => Out::zero(Value::Null),
            (Shape::String, format::BYTES) => Out::zero(""),
            (Shape::IntOrString, _) => Out::zero(0),
            _ => zero_scalar(scalar_of(node, scalar)),
        }
    }

    fn below<T>(&mut self, key: &str, decode: impl FnOnce(&mut Self) -> T) -> T {
        let end = self.path.len();
        if end > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        let out = decode(self);
        self.path.truncate(end);
        out
    }

    fn find(&mut self, what: &str, key: &str) {
        if !self.tells || self.findings.len() >= MOST_FINDINGS {
            return;
        }
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        let finding = format!("{what} field {path:?}");
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    fn mismatch(&mut self, found: &str, wanted: impl FnOnce() -> String) {
        if self.saved.is_none() {
            self.saved = Some(self.message(found, &wanted()));
        }
    }

    fn fatal(&self, found: &str, wanted: &str) -> DecodeError {
        DecodeError(self.message(found, wanted))
    }

    fn message(&self, found: &str, wanted: &str) -> String {
        match self.owner {
            None => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
            Some(owner) => {
                let owner = self.set.name_of(owner).unwrap_or_default();
                let owner = owner.rsplit('.').next().unwrap_or_default();
                let path = self.fields.join(".");
                format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
