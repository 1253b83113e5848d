//! What server-side apply sees in a schema: for each place, which of scalar, list and map may
//! be there, and whether its parts have owners of their own.

use serde_json::Value;

use crate::schema::{ListKind, NodeId, Object, Schema, Set, Shape};

use super::element::Element;

/// Definitions whose Go type has its own JSON form, which their schema does not tell.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// The type of one place of an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Type {
    /// A node of the schema; `preserve` is set below `x-kubernetes-preserve-unknown-fields`.
    Node { id: NodeId, preserve: bool },
    /// Nothing is known: maps by key, lists as a whole.
    Deduced,
    /// Nothing is known and nothing inside has an owner of its own.
    Opaque,
    /// A place that the schema does not have.
    Nowhere,
}

/// Which scalars are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Any,
    Number,
    String,
    Boolean,
}

/// How the items of a list are told apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Items<'a> {
    Atomic,
    Set,
    Keys(&'a [Box<str>]),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ListType<'a> {
    pub(super) item: Type,
    pub(super) items: Items<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MapType<'a> {
    object: Option<&'a Object>,
    /// The type of keys that are not fields.
    pub(super) other: Type,
    pub(super) atomic: bool,
    preserve: bool,
    embedded: bool,
}

/// All that may stand at one place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Atom<'a> {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<ListType<'a>>,
    pub(super) map: Option<MapType<'a>>,
}

/// The one way in which a place is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) enum View<'a> {
    Map(MapType<'a>),
    Scalar(Scalar),
    List(ListType<'a>),
    /// The schema allows nothing here.
    Nothing,
}

/// The types of one schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Types<'a> {
    set: &'a Set,
    root: NodeId,
    quantity: Option<NodeId>,
    raw_extension: Option<NodeId>,
}

impl<'a> Types<'a> {
    pub(super) fn new(schema: &'a Schema) -> Self {
        let set = schema.set();
        Types {
            set,
            root: schema.id(),
            quantity: set.definition(QUANTITY),
            raw_extension: set.definition(RAW_EXTENSION),
        }
    }

    pub(super) fn root(&self) -> Type {
        Type::Node { id: self.root, preserve: false }
    }

    pub(super) fn atom(&self, at: Type) -> Atom<'a> {
        match at {
            Type::Nowhere => Atom::default(),
            Type::Deduced => anything(Type::Deduced, false),
            Type::Opaque => anything(Type::Opaque, true),
            Type::Node { id, .. } if Some(id) == self.raw_extension => anything(Type::Opaque, true),
            Type::Node { id, .. } if Some(id) == self.quantity => scalar(Scalar::Any),
            Type::Node { id, preserve } => self.node(id, preserve),
        }
    }

    fn node(&self, id: NodeId, inherited: bool) -> Atom<'a> {
        let node = self.set.node(id);
        let preserve = inherited || node.preserve_unknown;
        match &node.shape {
            Shape::Any => anything(Type::Deduced, false),
            Shape::Integer | Shape::Number => scalar(Scalar::Number),
            Shape::Boolean => scalar(Scalar::Boolean),
            Shape::IntOrString => scalar(Scalar::Any),
            Shape::String => {
                // Only plain strings and bytes are checked; a time may be null or come in several forms.
                let format = node.rules.as_ref().and_then(|rules| rules.format.as_deref());
                scalar(if matches!(format, None | Some("byte")) { Scalar::String } else { Scalar::Any })
            }
            Shape::List(list) => {
                let items = match &list.kind {
                    ListKind::Atomic => Items::Atomic,
                    ListKind::Set => Items::Set,
                    ListKind::Map(keys) => Items::Keys(keys),
                };
                let item = Type::Node { id: list.items, preserve };
                Atom { list: Some(ListType { item, items }), ..Atom::default() }
            }
            Shape::Object(object) => {
                let other = match object.additional {
                    Some(id) => Type::Node { id, preserve },
                    None if preserve || object.fields.is_empty() => Type::Deduced,
                    None => Type::Nowhere,
                };
                let embedded = node.embedded_resource;
                let map = MapType { object: Some(object), other, atomic: object.atomic, preserve, embedded };
                Atom { map: Some(map), ..Atom::default() }
            }
        }
    }

    /// How to look at a place that holds `value`. Without a value, or with one that does not
    /// fit, maps come before scalars and scalars before lists.
    pub(super) fn view(&self, at: Type, value: Option<&Value>) -> View<'a> {
        self.atom(at).view(value)
    }

    /// The path element of an item of a list that is not atomic.
    pub(super) fn element(&self, list: &ListType<'a>, item: &Value) -> Result<Element, String> {
        match list.items {
            Items::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            Items::Set => set_element(item),
            Items::Keys(keys) => self.key_element(list, keys, item),
        }
    }

    fn key_element(&self, list: &ListType<'a>, keys: &[Box<str>], item: &Value) -> Result<Element, String> {
        let fields = match item {
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            Value::Object(fields) => fields,
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut found: Vec<(Box<str>, Value)> = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(value) = fields.get(&**key) {
                found.push((key.clone(), value.clone()));
                continue;
            }
            let Some(map) = self.atom(list.item).map else {
                return Err(format!(
                    "couldn't find default value for {key}: associative list may not have non-map types"
                ));
            };
            // A key that is absent and has no default is no part of the item's identity.
            if let Some(default) = map.default_of(key) {
                found.push((key.clone(), default.clone()));
            }
        }
        if found.is_empty() && !keys.is_empty() {
            let names: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                names.join(" ")
            ));
        }
        found.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(Element::Key(found.into()))
    }
}

fn set_element(item: &Value) -> Result<Element, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        _ => Ok(Element::Value(item.clone())),
    }
}

fn scalar<'a>(kind: Scalar) -> Atom<'a> {
    Atom { scalar: Some(kind), ..Atom::default() }
}

fn anything<'a>(below: Type, atomic: bool) -> Atom<'a> {
    Atom {
        scalar: Some(Scalar::Any),
        list: Some(ListType { item: Type::Opaque, items: Items::Atomic }),
        map: Some(MapType { object: None, other: below, atomic, preserve: true, embedded: false }),
    }
}

impl<'a> Atom<'a> {
    pub(super) fn view(&self, value: Option<&Value>) -> View<'a> {
        match (value, self) {
            (Some(Value::Array(_)), Atom { list: Some(list), .. }) => View::List(*list),
            (
                Some(Value::Number(_) | Value::String(_) | Value::Bool(_)),
                Atom { scalar: Some(scalar), .. },
            ) => View::Scalar(*scalar),
            (_, Atom { map: Some(map), .. }) => View::Map(*map),
            (_, Atom { scalar: Some(scalar), .. }) => View::Scalar(*scalar),
            (_, Atom { list: Some(list), .. }) => View::List(*list),
            _ => View::Nothing,
        }
    }

    /// Whether both values leave the same choice open; a null leaves it all open.
    pub(super) fn same_choice(&self, left: &Value, right: &Value) -> bool {
        self.choice(left) == self.choice(right)
    }

    fn choice(&self, value: &Value) -> (bool, bool, bool) {
        match value {
            Value::Array(_) if self.list.is_some() => (false, true, false),
            Value::Object(_) if self.map.is_some() => (false, false, true),
            Value::Number(_) | Value::String(_) | Value::Bool(_) if self.scalar.is_some() => {
                (true, false, false)
            }
            _ => (self.scalar.is_some(), self.list.is_some(), self.map.is_some()),
        }
    }
}

impl MapType<'_> {
    /// The type of a field that the schema names.
    pub(super) fn named(&self, name: &str) -> Option<Type> {
        if let Some(field) = self.object.and_then(|object| object.field(name)) {
            return Some(Type::Node { id: field.node, preserve: self.preserve });
        }
        // Every object has these, and an embedded one need not spell them out.
        (self.embedded && matches!(name, "apiVersion" | "kind" | "metadata")).then_some(Type::Deduced)
    }

    pub(super) fn field(&self, name: &str) -> Type {
        self.named(name).unwrap_or(self.other)
    }

    /// Whether nothing at all is known of what is inside: such maps never change between
    /// having one owner and having many.
    pub(super) fn is_deduced(&self, types: &Types<'_>) -> bool {
        let no_fields = self.object.is_none_or(|object| object.fields.is_empty());
        let other = match self.other {
            Type::Deduced => true,
            Type::Node { .. } => types.atom(self.other).scalar == Some(Scalar::Any),
            Type::Opaque | Type::Nowhere => false,
        };
        no_fields && other
    }

    fn default_of(&self, name: &str) -> Option<&Value> {
        self.object?.field(name)?.default.as_deref()
    }
}
