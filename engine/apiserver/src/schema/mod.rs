//! What objects of a kind look like: one compact form for built-in kinds (from the OpenAPI
//! documents of a Kubernetes release) and custom resources (from their CRD).
//!
//! Nodes live in one arena for each document, so a recursive schema needs no reference counts,
//! and a handle is an `Arc` and an index.

pub mod decode;
pub mod default;
pub(crate) mod depth;
pub mod facts;
mod gobytes;
mod gotime;
pub mod parse;
pub mod prune;
pub mod raw;
pub mod validate;
pub mod wrap;
pub mod zero;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// Where a node is in its [`Set`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// All nodes of one OpenAPI document or of one version of a CRD.
#[derive(Debug, Default)]
pub struct Set {
    pub(crate) nodes: Vec<Node>,
    /// Definitions by their name, such as `io.k8s.api.core.v1.Pod`.
    pub(crate) names: BTreeMap<Box<str>, NodeId>,
    /// Nodes that differ from a definition only in what a field says of it.
    pub(crate) origins: BTreeMap<NodeId, NodeId>,
    /// What Go calls the fields of built-in kinds, where that does not follow from the schema.
    pub(crate) go_names: BTreeMap<(NodeId, Box<str>), facts::GoName>,
}

/// A schema: a node of a set. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(crate) set: Arc<Set>,
    pub(crate) id: NodeId,
}

/// What is accepted at one place of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub shape: Shape,
    pub nullable: bool,
    /// What an absent value becomes, where every user of this node shares it (list items, map values).
    pub default: Option<Box<Value>>,
    /// `x-kubernetes-preserve-unknown-fields`: nothing is pruned here.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`: an object with `apiVersion`, `kind` and `metadata`.
    pub embedded_resource: bool,
    /// Value validation, which only custom resources use.
    pub rules: Option<Box<Rules>>,
}

/// The JSON type of a node and what lies below it.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// No type was given: anything goes.
    Any,
    Object(Object),
    List(List),
    /// The Go type behind a built-in string is told apart by its format: `date-time`, `byte`, ….
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Object {
    /// Sorted by name.
    pub fields: Box<[Field]>,
    /// The value of every key that is not a field: makes this a map.
    pub additional: Option<NodeId>,
    pub required: Box<[Box<str>]>,
    /// `x-kubernetes-map-type: atomic`: one owner for the whole.
    pub atomic: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub name: Box<str>,
    pub node: NodeId,
    pub default: Option<Box<Value>>,
    /// `x-kubernetes-patch-strategy` and `-merge-key`, for strategic merge patch.
    pub patch: Patch,
    /// How Go's JSON writes this field of a built-in kind; `None` for custom resources.
    pub go: Option<GoField>,
}

/// How strategic merge patch treats a field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    /// Lists and maps are merged, not replaced.
    pub merge: bool,
    /// Keys that the patch does not name are dropped (unions such as a Deployment's strategy).
    pub retain_keys: bool,
    /// An object is replaced as a whole.
    pub replace: bool,
    pub merge_key: Option<Box<str>>,
}

/// What Go's `encoding/json` does with a field, which OpenAPI does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoField {
    /// A pointer keeps `false`, `0` and `""` that were set on purpose.
    pub pointer: bool,
    /// Left out when empty (`omitempty`) …
    pub omit_empty: bool,
    /// … or when zero, structs included (`omitzero`).
    pub omit_zero: bool,
    /// The scalar's Go type, for messages such as "cannot unmarshal string into … of type int32".
    pub scalar: GoScalar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoScalar {
    /// Not a scalar: struct, slice, map, interface, or a type with its own JSON form.
    None,
    String,
    Bool,
    Int,
    Int32,
    Int64,
    Uint8,
    Float64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    pub items: NodeId,
    pub kind: ListKind,
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    Atomic,
    Set,
    /// Items told apart by these fields.
    Map(Box<[Box<str>]>),
}

/// Value validation of a structural schema. Only what was given is there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rules {
    pub format: Option<Box<str>>,
    pub pattern: Option<Box<str>>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub values: Option<Vec<Value>>,
    /// Value validations nested in `allOf`, `anyOf`, `oneOf` and `not`, kept as they were written.
    pub all_of: Vec<Value>,
    pub any_of: Vec<Value>,
    pub one_of: Vec<Value>,
    pub not: Option<Value>,
    /// `x-kubernetes-validations`, kept as written.
    pub cel: Vec<Value>,
}

impl Node {
    pub fn new(shape: Shape) -> Self {
        Node {
            shape,
            nullable: false,
            default: None,
            preserve_unknown: false,
            embedded_resource: false,
            rules: None,
        }
    }
}

impl Schema {
    pub fn new(set: Arc<Set>, id: NodeId) -> Self {
        Schema { set, id }
    }

    /// Accepts everything: for a CRD version without a schema.
    pub fn anything() -> Self {
        let mut set = Set::default();
        let id = set.push(Node { preserve_unknown: true, ..Node::new(Shape::Any) });
        Schema::new(Arc::new(set), id)
    }

    pub fn node(&self) -> &Node {
        self.set.node(self.id)
    }

    /// The schema of another node of the same set.
    pub fn at(&self, id: NodeId) -> Schema {
        Schema { set: self.set.clone(), id }
    }

    /// The set this schema is part of; walks that go deep keep `&Set` and [`NodeId`]s.
    pub fn set(&self) -> &Set {
        &self.set
    }

    pub fn id(&self) -> NodeId {
        self.id
    }
}

impl Set {
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The definition of that name, such as `io.k8s.api.core.v1.Pod`.
    pub fn definition(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    pub(crate) fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId((self.nodes.len() - 1) as u32)
    }
}

impl Object {
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|field| (*field.name).cmp(name)).ok().map(|at| &self.fields[at])
    }
}
