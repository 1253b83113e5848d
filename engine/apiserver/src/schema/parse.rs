//! Reads an OpenAPI v3 document of a Kubernetes API group into a [`Set`].
//!
//! Descriptions, paths and enumerations are skipped while reading, so that the large document never
//! becomes a tree in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::facts::Facts;
use super::{Field, List, ListKind, Node, NodeId, Object, Patch, Rules, Schema, Set, Shape};

/// Formats of our own, for Go types whose JSON form is more than their OpenAPI type tells.
pub(crate) mod format {
    pub(crate) const QUANTITY: &str = "quantity";
    pub(crate) const MICRO_TIME: &str = "micro-time";
    pub(crate) const TIME: &str = "date-time";
    pub(crate) const BYTES: &str = "byte";
    pub(crate) const SCHEMA_OR_ARRAY: &str = "json-schema-or-array";
    pub(crate) const SCHEMA_OR_BOOL: &str = "json-schema-or-bool";
    pub(crate) const SCHEMA_OR_STRINGS: &str = "json-schema-or-string-array";
}

/// The definition that the `SCHEMA_OR_…` formats hold.
pub(crate) const JSON_SCHEMA_PROPS: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// The document does not have the expected form.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the OpenAPI document is not valid JSON of the expected form")]
    Json(#[from] serde_json::Error),
    #[error("{from} refers to {to}, which is not in the document")]
    Reference { from: String, to: String },
}

/// A group, a version and a kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub struct Gvk {
    #[serde(default)]
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// The definitions of one document, and which of them are kinds.
#[derive(Debug, Clone)]
pub struct Document {
    pub set: Arc<Set>,
    kinds: BTreeMap<Gvk, NodeId>,
}

impl Document {
    /// Reads the JSON of a document such as `/openapi/v3/apis/apps/v1`.
    pub fn parse(text: &[u8], facts: &Facts) -> Result<Self, Error> {
        let file: File = serde_json::from_slice(text)?;
        Builder::new(facts).document(file.components.schemas)
    }

    /// The schema of a kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<Schema> {
        let gvk = Gvk { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() };
        self.kinds.get(&gvk).map(|id| Schema::new(self.set.clone(), *id))
    }

    /// The schema of a definition, such as `io.k8s.api.core.v1.PodSpec`.
    pub fn definition(&self, name: &str) -> Option<Schema> {
        self.set.definition(name).map(|id| Schema::new(self.set.clone(), id))
    }

    /// All kinds of the document.
    pub fn kinds(&self) -> impl Iterator<Item = &Gvk> {
        self.kinds.keys()
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    components: Components,
}

#[derive(Deserialize, Default)]
struct Components {
    #[serde(default)]
    schemas: BTreeMap<Box<str>, Props>,
}

/// What we read of a schema.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Props {
    #[serde(rename = "$ref")]
    reference: Option<Box<str>>,
    #[serde(rename = "type")]
    kind: Option<Box<str>>,
    format: Option<Box<str>>,
    nullable: bool,
    default: Option<Value>,
    properties: Option<BTreeMap<Box<str>, Props>>,
    #[serde(rename = "additionalProperties")]
    additional: Option<Additional>,
    items: Option<Box<Props>>,
    required: Vec<Box<str>>,
    #[serde(rename = "allOf")]
    all_of: Vec<Props>,
    #[serde(rename = "oneOf")]
    one_of: Vec<Props>,
    #[serde(rename = "x-kubernetes-group-version-kind")]
    kinds: Vec<Gvk>,
    #[serde(rename = "x-kubernetes-list-type")]
    list_type: Option<Box<str>>,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    list_map_keys: Vec<Box<str>>,
    #[serde(rename = "x-kubernetes-map-type")]
    map_type: Option<Box<str>>,
    #[serde(rename = "x-kubernetes-patch-strategy")]
    patch_strategy: Option<Box<str>>,
    #[serde(rename = "x-kubernetes-patch-merge-key")]
    patch_merge_key: Option<Box<str>>,
    #[serde(rename = "x-kubernetes-int-or-string")]
    int_or_string: bool,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    preserve_unknown: bool,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    embedded_resource: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Additional {
    Allowed(bool),
    Schema(Box<Props>),
}

struct Builder<'a> {
    facts: &'a Facts,
    set: Set,
    /// Nodes without a name, to share equal ones: most fields are one of a few scalars.
    shared: BTreeMap<String, NodeId>,
    /// Copies of definitions that differ in something; made once all definitions are read.
    copies: Vec<Variant>,
}

struct Variant {
    place: NodeId,
    of: NodeId,
    default: Option<Value>,
    /// Where the field says otherwise than the definition.
    atomic: Option<bool>,
}

impl<'a> Builder<'a> {
    fn new(facts: &'a Facts) -> Self {
        Builder { facts, set: Set::default(), shared: BTreeMap::new(), copies: Vec::new() }
    }

    fn document(mut self, schemas: BTreeMap<Box<str>, Props>) -> Result<Document, Error> {
        for name in schemas.keys() {
            let id = self.set.push(Node::new(Shape::Any));
            self.set.names.insert(name.clone(), id);
        }
        let mut kinds = BTreeMap::new();
        for (name, mut props) in schemas {
            let id = self.set.names[&name];
            kinds.extend(std::mem::take(&mut props.kinds).into_iter().map(|gvk| (gvk, id)));
            let node = match special(&name) {
                Some(node) => node,
                None => self.node(&name, Some(id), props)?,
            };
            self.set.nodes[id.0 as usize] = node;
        }
        for Variant { place, of, default, atomic } in std::mem::take(&mut self.copies) {
            let mut node = self.set.node(of).clone();
            node.default = default.map(Box::new);
            if let Shape::Object(object) = &mut node.shape {
                object.atomic = atomic.unwrap_or(object.atomic);
            }
            self.set.origins.insert(place, of);
            self.set.nodes[place.0 as usize] = node;
        }
        self.set.nodes.shrink_to_fit();
        Ok(Document { set: Arc::new(self.set), kinds })
    }

    /// Where a schema without a name of its own ends up; references lead to their definition.
    fn place(&mut self, owner: &str, mut props: Props) -> Result<NodeId, Error> {
        let target = match (&props.reference, props.all_of.as_slice()) {
            (Some(reference), _) => Some(self.resolve(owner, reference)?),
            (None, [Props { reference: Some(reference), .. }]) => Some(self.resolve(owner, reference)?),
            _ => None,
        };
        if let Some(id) = target {
            // An empty object as the default of items is what decoding null gives anyway.
            let default = props.default.take().filter(|value| *value != Value::Object(Default::default()));
            let atomic = match props.map_type.as_deref() {
                Some("atomic") => Some(true),
                Some("granular") => Some(false),
                _ => None,
            };
            if default.is_none() && atomic.is_none() {
                return Ok(id);
            }
            let place = self.set.push(Node::new(Shape::Any));
            self.copies.push(Variant { place, of: id, default, atomic });
            return Ok(place);
        }
        let node = self.node(owner, None, props)?;
        let key = format!("{node:?}");
        if let Some(id) = self.shared.get(&key) {
            return Ok(*id);
        }
        let id = self.set.push(node);
        self.shared.insert(key, id);
        Ok(id)
    }

    fn resolve(&self, from: &str, reference: &str) -> Result<NodeId, Error> {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        self.set
            .definition(name)
            .ok_or_else(|| Error::Reference { from: from.to_owned(), to: name.to_owned() })
    }

    /// `id` is the place of a definition, whose fields have facts.
    fn node(&mut self, owner: &str, id: Option<NodeId>, mut props: Props) -> Result<Node, Error> {
        let mut rules = None;
        let shape = match props.kind.as_deref() {
            _ if is_int_or_string(&props) => Shape::IntOrString,
            Some("object") => Shape::Object(self.object(owner, id, &mut props)?),
            Some("array") => {
                let items = props.items.take().map_or_else(Props::default, |items| *items);
                let kind = list_kind(props.list_type.as_deref(), std::mem::take(&mut props.list_map_keys));
                Shape::List(List { items: self.place(owner, items)?, kind })
            }
            Some(scalar) => {
                rules = with_format(props.format.take());
                match scalar {
                    "string" => Shape::String,
                    "integer" => Shape::Integer,
                    "number" => Shape::Number,
                    "boolean" => Shape::Boolean,
                    _ => Shape::Any,
                }
            }
            None => Shape::Any,
        };
        Ok(Node {
            preserve_unknown: props.preserve_unknown || shape == Shape::Any,
            shape,
            nullable: props.nullable,
            default: None,
            embedded_resource: props.embedded_resource,
            rules,
        })
    }

    fn object(&mut self, owner: &str, id: Option<NodeId>, props: &mut Props) -> Result<Object, Error> {
        let mut fields = Vec::new();
        for (name, mut field) in props.properties.take().unwrap_or_default() {
            let (default, patch) = (field.default.take().map(Box::new), patch(&mut field));
            let (go, go_name) = match id.and_then(|_| self.facts.of(owner, &name)) {
                Some((go, go_name)) => (Some(go), go_name),
                None => (None, None),
            };
            if let (Some(id), Some(go_name)) = (id, go_name) {
                self.set.go_names.insert((id, name.clone()), go_name);
            }
            fields.push(Field { node: self.place(owner, field)?, name, default, patch, go });
        }
        let additional = match props.additional.take() {
            Some(Additional::Schema(values)) => Some(self.place(owner, *values)?),
            Some(Additional::Allowed(true)) => Some(self.place(owner, Props::default())?),
            Some(Additional::Allowed(false)) | None => None,
        };
        Ok(Object {
            fields: fields.into(),
            additional,
            required: std::mem::take(&mut props.required).into(),
            atomic: props.map_type.as_deref() == Some("atomic"),
        })
    }
}

/// Definitions whose Go type has a JSON form of its own.
fn special(name: &str) -> Option<Node> {
    let string = |format: &str| Node { rules: with_format(Some(format.into())), ..Node::new(Shape::String) };
    let any = |format: Option<&str>| Node {
        preserve_unknown: true,
        rules: with_format(format.map(Into::into)),
        ..Node::new(Shape::Any)
    };
    let short = name.strip_prefix("io.k8s.")?;
    Some(match short {
        "apimachinery.pkg.api.resource.Quantity" => string(format::QUANTITY),
        "apimachinery.pkg.apis.meta.v1.MicroTime" => string(format::MICRO_TIME),
        "apimachinery.pkg.util.intstr.IntOrString" => Node::new(Shape::IntOrString),
        "apimachinery.pkg.apis.meta.v1.FieldsV1" | "apimachinery.pkg.runtime.RawExtension" => any(None),
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray" => {
            any(Some(format::SCHEMA_OR_ARRAY))
        }
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool" => {
            any(Some(format::SCHEMA_OR_BOOL))
        }
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray" => {
            any(Some(format::SCHEMA_OR_STRINGS))
        }
        _ => return None,
    })
}

fn with_format(format: Option<Box<str>>) -> Option<Box<Rules>> {
    format.map(|format| Box::new(Rules { format: Some(format), ..Rules::default() }))
}

fn is_int_or_string(props: &Props) -> bool {
    let either = || {
        let mut kinds: Vec<_> = props.one_of.iter().map(|one| one.kind.as_deref()).collect();
        kinds.sort_unstable();
        kinds == [Some("integer"), Some("string")]
    };
    props.int_or_string || props.format.as_deref() == Some("int-or-string") || either()
}

fn patch(props: &mut Props) -> Patch {
    let strategy = props.patch_strategy.take().unwrap_or_default();
    let mut patch = Patch { merge_key: props.patch_merge_key.take(), ..Patch::default() };
    for word in strategy.split(',') {
        match word {
            "merge" => patch.merge = true,
            "retainKeys" => patch.retain_keys = true,
            "replace" => patch.replace = true,
            _ => {}
        }
    }
    patch
}

fn list_kind(name: Option<&str>, keys: Vec<Box<str>>) -> ListKind {
    match name {
        Some("set") => ListKind::Set,
        Some("map") => ListKind::Map(keys.into()),
        _ => ListKind::Atomic,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_becomes_nodes() {
        let text = json!({"components": {"schemas": {
            "a.Item": {"type": "object", "properties": {"name": {"type": "string", "description": "x"}}},
            "b.Thing": {
                "type": "object",
                "required": ["items"],
                "properties": {
                    "items": {
                        "type": "array",
                        "items": {"default": {}, "allOf": [{"$ref": "#/components/schemas/a.Item"}]},
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "x-kubernetes-patch-merge-key": "name",
                        "x-kubernetes-patch-strategy": "merge,retainKeys",
                    },
                    "selector": {
                        "allOf": [{"$ref": "#/components/schemas/c.Selector"}],
                        "x-kubernetes-map-type": "atomic",
                    },
                    "percent": {"x-kubernetes-int-or-string": true},
                    "again": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "data": {"type": "object", "additionalProperties": {"type": "string"}},
                },
                "x-kubernetes-group-version-kind": [{"group": "", "kind": "Thing", "version": "v1"}],
            },
            "c.Selector": {"type": "object", "properties": {"data": {"type": "string"}}},
        }}});
        let facts = Facts::from_json(br#"{"b.Thing": {"data": "=b.Data,omitempty"}}"#).unwrap();
        let document = Document::parse(text.to_string().as_bytes(), &facts).unwrap();
        let thing = document.kind("", "v1", "Thing").unwrap();
        let Shape::Object(object) = &thing.node().shape else { panic!("an object") };
        let shape = |name: &str| &thing.set().node(object.field(name).unwrap().node).shape;
        let Shape::List(list) = shape("items") else { panic!("a list") };
        assert_eq!(list.kind, ListKind::Map(["name".into()].into()));
        assert_eq!(Some(list.items), document.set.definition("a.Item"));
        let patch = Patch { merge: true, retain_keys: true, replace: false, merge_key: Some("name".into()) };
        assert_eq!(object.field("items").unwrap().patch, patch);
        // What is said at a property does not touch the definition it refers to.
        assert!(
            matches!(shape("selector"), Shape::Object(selector) if selector.atomic && selector.fields.len() == 1)
        );
        let selector = document.definition("c.Selector").unwrap();
        assert!(matches!(&selector.node().shape, Shape::Object(selector) if !selector.atomic));
        assert_eq!(shape("percent"), &Shape::IntOrString);
        assert!(matches!(shape("again"), Shape::List(again) if again.kind == ListKind::Set));
        assert!(object.field("data").unwrap().go.is_some_and(|go| go.omit_empty && !go.pointer));
        assert!(object.field("items").unwrap().go.is_none());
    }

    #[test]
    fn what_is_referred_to_must_be_there() {
        let text =
            r##"{"components":{"schemas":{"a":{"type":"object","properties":{"b":{"$ref":"#/x/c"}}}}}}"##;
        let error = Document::parse(text.as_bytes(), &Facts::default()).unwrap_err();
        assert_eq!(error.to_string(), "a refers to c, which is not in the document");
    }
}
