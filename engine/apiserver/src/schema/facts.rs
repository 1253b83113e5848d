//! What Go knows of the fields of built-in kinds and OpenAPI does not tell: pointers, `omitempty`, the
//! names of types. It comes as a table made by reflection over the Go types:
//!
//! ```json
//! {"io.k8s.api.core.v1.PodSpec": {
//!     "replicas": "*int32,omitempty",
//!     "restartPolicy": "string=v1.RestartPolicy,omitempty",
//!     "volumes": "=[]v1.Volume,omitempty"},
//!  "io.k8s.api.core.v1.Volume": {
//!     "emptyDir": "*=v1.EmptyDirVolumeSource,omitempty,in=VolumeSource"}}
//! ```
//!
//! The name after `=` and the embedding struct after `in=` only matter to messages and may be left out.

use std::collections::BTreeMap;

use super::{GoField, GoScalar};

/// Definition name, field name, and the facts in the compact form shown above.
#[derive(Debug, Default, Clone)]
pub struct Facts(BTreeMap<Box<str>, BTreeMap<Box<str>, Box<str>>>);

/// How Go spells a field in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoName {
    /// The type, such as `v1.RestartPolicy`; empty when it follows from the schema.
    pub(crate) type_name: Box<str>,
    /// The embedded structs on the way, such as `VolumeSource`; empty when there are none.
    pub(crate) embedded_in: Box<str>,
}

impl Facts {
    /// Reads the table.
    pub fn from_json(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text).map(Facts)
    }

    pub(crate) fn of(&self, definition: &str, field: &str) -> Option<(GoField, Option<GoName>)> {
        self.0.get(definition)?.get(field).map(|text| interpret(text))
    }
}

fn interpret(text: &str) -> (GoField, Option<GoName>) {
    let mut parts = text.split(',');
    let head = parts.next().unwrap_or_default();
    let (pointer, head) = match head.strip_prefix('*') {
        Some(rest) => (true, rest),
        None => (false, head),
    };
    let (scalar, type_name) = head.split_once('=').unwrap_or((head, ""));
    let mut go = GoField { pointer, omit_empty: false, omit_zero: false, scalar: scalar_of(scalar) };
    let mut embedded_in = "";
    for part in parts {
        match part {
            "omitempty" => go.omit_empty = true,
            "omitzero" => go.omit_zero = true,
            other => embedded_in = other.strip_prefix("in=").unwrap_or(embedded_in),
        }
    }
    let named = !type_name.is_empty() || !embedded_in.is_empty();
    let name = named.then(|| GoName { type_name: type_name.into(), embedded_in: embedded_in.into() });
    (go, name)
}

fn scalar_of(name: &str) -> GoScalar {
    match name {
        "string" => GoScalar::String,
        "bool" => GoScalar::Bool,
        "int" => GoScalar::Int,
        "int32" => GoScalar::Int32,
        "int64" => GoScalar::Int64,
        "uint8" => GoScalar::Uint8,
        "float64" => GoScalar::Float64,
        _ => GoScalar::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_facts_are_understood() {
        let field =
            |pointer, omit_empty, omit_zero, scalar| GoField { pointer, omit_empty, omit_zero, scalar };
        assert_eq!(interpret("*int32,omitempty"), (field(true, true, false, GoScalar::Int32), None));
        assert_eq!(interpret(""), (field(false, false, false, GoScalar::None), None));
        assert_eq!(interpret("*,omitempty"), (field(true, true, false, GoScalar::None), None));
        let (go, name) = interpret("=v1.Time,omitzero,in=ObjectMeta");
        assert_eq!(go, field(false, false, true, GoScalar::None));
        let name = name.unwrap();
        assert_eq!((&*name.type_name, &*name.embedded_in), ("v1.Time", "ObjectMeta"));
    }
}
