//! What Go's types are called, and which values they have.

use super::{DecodeError, Out};
use crate::quantity::Quantity;
use crate::schema::parse::format;
use crate::schema::raw::Json;
use crate::schema::{GoScalar, Node, NodeId, Object, Set, Shape};

impl Set {
    /// The definition that a node is, or that it is a variant of.
    pub(super) fn defined(&self, id: NodeId) -> NodeId {
        self.origins.get(&id).copied().unwrap_or(id)
    }

    /// The name of a definition.
    pub(crate) fn name_of(&self, id: NodeId) -> Option<&str> {
        let id = self.defined(id);
        self.names.iter().find(|(_, other)| **other == id).map(|(name, _)| &**name)
    }

    /// What Go calls the type of a node.
    pub(super) fn go_type(&self, id: NodeId, spelled: Option<&str>) -> String {
        if let Some(name) = spelled {
            return name.to_owned();
        }
        if let Some(name) = self.name_of(id) {
            let mut parts = name.rsplit('.');
            let (kind, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            return format!("{package}.{kind}");
        }
        match &self.node(id).shape {
            Shape::List(list) => format!("[]{}", self.go_type(list.items, None)),
            Shape::Object(Object { additional: Some(values), .. }) => {
                format!("map[string]{}", self.go_type(*values, None))
            }
            Shape::String if is_bytes(self.node(id)) => "[]uint8".to_owned(),
            _ => scalar_name(scalar_of(self.node(id), GoScalar::None)).to_owned(),
        }
    }
}

pub(super) fn format_of(node: &Node) -> &str {
    node.rules.as_ref().and_then(|rules| rules.format.as_deref()).unwrap_or_default()
}

pub(super) fn is_bytes(node: &Node) -> bool {
    node.shape == Shape::String && format_of(node) == format::BYTES
}

/// The Go type of a scalar: the facts know, the schema nearly.
pub(super) fn scalar_of(node: &Node, facts: GoScalar) -> GoScalar {
    match (facts, &node.shape) {
        (GoScalar::None, Shape::Integer) if format_of(node) == "int32" => GoScalar::Int32,
        (GoScalar::None, Shape::Integer) => GoScalar::Int64,
        (GoScalar::None, Shape::Number) => GoScalar::Float64,
        (GoScalar::None, Shape::Boolean) => GoScalar::Bool,
        (GoScalar::None, _) => GoScalar::String,
        (known, _) => known,
    }
}

pub(super) fn scalar_name(kind: GoScalar) -> &'static str {
    match kind {
        GoScalar::None | GoScalar::String => "string",
        GoScalar::Bool => "bool",
        GoScalar::Int => "int",
        GoScalar::Int32 => "int32",
        GoScalar::Int64 => "int64",
        GoScalar::Uint8 => "uint8",
        GoScalar::Float64 => "float64",
    }
}

pub(super) fn is_number(kind: GoScalar) -> bool {
    !matches!(kind, GoScalar::None | GoScalar::String | GoScalar::Bool)
}

pub(super) fn in_range(kind: GoScalar, literal: &str) -> bool {
    match kind {
        GoScalar::Int | GoScalar::Int64 => literal.parse::<i64>().is_ok(),
        GoScalar::Int32 => literal.parse::<i32>().is_ok(),
        GoScalar::Uint8 => literal.parse::<u8>().is_ok(),
        _ => false,
    }
}

pub(super) fn zero_scalar(kind: GoScalar) -> Out {
    match kind {
        GoScalar::None | GoScalar::String => Out::zero(""),
        GoScalar::Bool => Out::zero(false),
        _ => Out::zero(0),
    }
}

pub(super) fn quantity(json: &Json) -> Result<Out, DecodeError> {
    let text = match json {
        Json::String(text) => text,
        Json::Number(literal) => &**literal,
        // Nothing else can be a number; the message is that of a wrong format.
        _ => "?",
    };
    match Quantity::parse(text.trim()) {
        Ok(quantity) => Ok(Out { zero: quantity.is_zero(), value: quantity.to_string().into() }),
        Err(error) => Err(DecodeError(error.to_string())),
    }
}
