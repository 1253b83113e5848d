//! Turns the `openAPIV3Schema` of a CRD version into a [`Schema`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::schema::{
    Field, List, ListKind, Node, NodeId, Object, Patch, Rules, Schema, Set, Shape, validate::formats,
};

/// The schema of a version. `object_meta` is the schema of `ObjectMeta`, which metadata has here and in
/// embedded resources whatever the CRD says.
pub fn structural(schema: &Value, object_meta: Option<&Schema>) -> Schema {
    let mut builder = Builder { set: Set::default(), object_meta };
    let root = builder.node(schema, Level::Resource);
    let id = builder.set.push(root);
    Schema::new(Arc::new(builder.set), id)
}

/// A schema on its own, which describes no whole resource.
pub(super) fn inside(schema: &Value) -> Schema {
    let mut builder = Builder { set: Set::default(), object_meta: None };
    let id = builder.place(schema);
    Schema::new(Arc::new(builder.set), id)
}

/// Whether a schema describes a whole resource, whose metadata is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Resource,
    Inside,
}

struct Builder<'a> {
    set: Set,
    object_meta: Option<&'a Schema>,
}

impl Builder<'_> {
    fn place(&mut self, schema: &Value) -> NodeId {
        let mut node = self.node(schema, Level::Inside);
        // Only lists and maps look here: a field has its default beside it.
        node.default = schema.get("default").filter(|value| !value.is_null()).cloned().map(Box::new);
        self.set.push(node)
    }

    fn node(&mut self, schema: &Value, level: Level) -> Node {
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        let embedded = flag("x-kubernetes-embedded-resource");
        let level = if embedded { Level::Resource } else { level };
        let has_fields = schema.get("properties").is_some() || schema.get("additionalProperties").is_some();
        let shape = match schema.get("type").and_then(Value::as_str) {
            _ if flag("x-kubernetes-int-or-string") => Shape::IntOrString,
            Some("object") => Shape::Object(self.object(schema, level)),
            None if has_fields => Shape::Object(self.object(schema, level)),
            Some("array") => Shape::List(self.list(schema)),
            Some("string") => Shape::String,
            Some("integer") => Shape::Integer,
            Some("number") => Shape::Number,
            Some("boolean") => Shape::Boolean,
            _ => Shape::Any,
        };
        let rules = rules(schema);
        Node {
            shape,
            nullable: flag("nullable"),
            default: None,
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: embedded,
            rules: (rules != Rules::default()).then(|| Box::new(rules)),
        }
    }

    fn object(&mut self, schema: &Value, level: Level) -> Object {
        let mut fields = BTreeMap::new();
        for (name, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let default = schema.get("default").filter(|value| !value.is_null());
            let default = default.cloned().map(Box::new);
            let node = match (level, name.as_str()) {
                (Level::Resource, "metadata") => self.metadata(Some(schema)),
                _ => self.place(schema),
            };
            fields.insert(name.as_str(), field(name, node, default));
        }
        if level == Level::Resource {
            for name in ["apiVersion", "kind"] {
                let string = || field(name, self.set.push(Node::new(Shape::String)), None);
                fields.entry(name).or_insert_with(string);
            }
            if !fields.contains_key("metadata") {
                let node = self.metadata(None);
                fields.insert("metadata", field("metadata", node, None));
            }
        }
        let additional = match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => Some(self.set.push(Node::new(Shape::Any))),
            Some(values @ Value::Object(_)) => Some(self.place(values)),
            _ => None,
        };
        Object {
            fields: fields.into_values().collect(),
            additional,
            required: strings(schema.get("required")),
            atomic: schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
        }
    }

    fn list(&mut self, schema: &Value) -> List {
        let items = match schema.get("items") {
            Some(items) => self.place(items),
            None => self.set.push(Node::new(Shape::Any)),
        };
        let kind = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => ListKind::Set,
            Some("map") => ListKind::Map(strings(schema.get("x-kubernetes-list-map-keys"))),
            _ => ListKind::Atomic,
        };
        List { items, kind }
    }

    /// The metadata that every resource has, with what the CRD demands of names.
    fn metadata(&mut self, schema: Option<&Value>) -> NodeId {
        let Some(object_meta) = self.object_meta else {
            let any = Node { preserve_unknown: true, ..Node::new(Shape::Object(Object::default())) };
            return self.set.push(any);
        };
        let id = self.copy(object_meta.set(), object_meta.id(), &mut BTreeMap::new());
        let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            let demanded = self.place(schema);
            if let Shape::Object(object) = &mut self.set.nodes[id.0 as usize].shape
                && let Some(field) = object.fields.iter_mut().find(|field| *field.name == **name)
            {
                field.node = demanded;
            }
        }
        id
    }

    /// Copies a node of another set with all it refers to.
    fn copy(&mut self, from: &Set, id: NodeId, copied: &mut BTreeMap<NodeId, NodeId>) -> NodeId {
        if let Some(known) = copied.get(&id) {
            return *known;
        }
        let mut node = from.node(id).clone();
        let place = self.set.push(Node::new(Shape::Any));
        copied.insert(id, place);
        match &mut node.shape {
            Shape::Object(object) => {
                for field in &mut object.fields {
                    field.node = self.copy(from, field.node, copied);
                }
                object.additional = object.additional.map(|values| self.copy(from, values, copied));
            }
            Shape::List(list) => list.items = self.copy(from, list.items, copied),
            _ => {}
        }
        self.set.nodes[place.0 as usize] = node;
        place
    }
}

fn field(name: &str, node: NodeId, default: Option<Box<Value>>) -> Field {
    Field { name: name.into(), node, default, patch: Patch::default(), go: None }
}

fn strings(value: Option<&Value>) -> Box<[Box<str>]> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|item| item.as_str().map(Into::into)).collect()
}

/// The value validation that a schema states, itself or nested in another.
pub(crate) fn rules(schema: &Value) -> Rules {
    let number = |name: &str| schema.get(name).and_then(Value::as_f64);
    let count = |name: &str| schema.get(name).and_then(Value::as_u64);
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
    let text = |name: &str| schema.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let list = |name: &str| schema.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let kind = if flag("x-kubernetes-int-or-string") { Some("") } else { text("type") };
    Rules {
        format: text("format").filter(|format| formats::is_supported(kind, format)).map(Into::into),
        pattern: text("pattern").map(Into::into),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        minimum: number("minimum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        maximum: number("maximum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: flag("uniqueItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        values: schema.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty()).cloned(),
        all_of: list("allOf"),
        any_of: list("anyOf"),
        one_of: list("oneOf"),
        not: schema.get("not").cloned(),
        cel: list("x-kubernetes-validations"),
    }
}
