//! What expressions may see of an object: the schema of a CRD as CEL reads it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::escape::escape;
use super::types::{Object, Type};

/// A structural schema, with only what expressions look at.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// The type as written; empty where none is.
    pub(super) kind: String,
    pub(super) format: String,
    pub(super) nullable: bool,
    pub(super) int_or_string: bool,
    pub(super) preserve_unknown: bool,
    pub(super) embedded: bool,
    pub(super) properties: Option<BTreeMap<String, Arc<Schema>>>,
    pub(super) additional: Option<Arc<Schema>>,
    pub(super) items: Option<Arc<Schema>>,
    pub(super) list: ListType,
    /// What rules see of an embedded resource.
    pub(super) resource: Option<Arc<Schema>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    /// Items told apart by these properties.
    Map(Vec<String>),
}

impl Schema {
    pub(super) fn parse(schema: &Value) -> Schema {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or_default();
        let below = |schema: &Value| Arc::new(Schema::parse(schema));
        let object = |key: &str| schema.get(key).filter(|schema| schema.is_object());
        let properties = schema.get("properties").and_then(Value::as_object);
        let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
        let list = match text("x-kubernetes-list-type").as_str() {
            "set" => ListType::Set,
            "map" => {
                let keys = keys.into_iter().flatten().filter_map(Value::as_str);
                ListType::Map(keys.map(str::to_owned).collect())
            }
            _ => ListType::Atomic,
        };
        let mut parsed = Schema {
            kind: text("type"),
            format: text("format"),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            properties: properties
                .filter(|properties| !properties.is_empty())
                .map(|all| all.iter().map(|(name, schema)| (name.clone(), below(schema))).collect()),
            additional: object("additionalProperties").map(below),
            items: object("items").map(below),
            list,
            resource: None,
        };
        if parsed.embedded {
            parsed.resource = Some(parsed.with_metadata());
        }
        parsed
    }

    /// The schema of a whole resource: its type and names are always there, and nothing else of its
    /// metadata is.
    pub(super) fn with_metadata(&self) -> Arc<Schema> {
        let is = |schema: Option<&Arc<Schema>>, kind: &str| schema.is_some_and(|schema| schema.kind == kind);
        let field = |schema: &Schema, name: &str| schema.properties.as_ref()?.get(name).cloned();
        let metadata = field(self, "metadata");
        let inside = |name: &str| metadata.as_ref().and_then(|metadata| field(metadata, name));
        if is(field(self, "kind").as_ref(), "string")
            && is(field(self, "apiVersion").as_ref(), "string")
            && is(metadata.as_ref(), "object")
            && is(inside("name").as_ref(), "string")
            && is(inside("generateName").as_ref(), "string")
        {
            return Arc::new(self.copy(self.properties.clone()));
        }
        let string = || Arc::new(Schema { kind: "string".to_owned(), ..Schema::default() });
        let names = ["name", "generateName"].map(|name| (name.to_owned(), string()));
        let metadata = Schema {
            kind: "object".to_owned(),
            properties: Some(BTreeMap::from(names)),
            ..Schema::default()
        };
        let mut properties = self.properties.clone().unwrap_or_default();
        properties.insert("kind".to_owned(), string());
        properties.insert("apiVersion".to_owned(), string());
        properties.insert("metadata".to_owned(), Arc::new(metadata));
        Arc::new(self.copy(Some(properties)))
    }

    fn copy(&self, properties: Option<BTreeMap<String, Arc<Schema>>>) -> Schema {
        Schema {
            kind: self.kind.clone(),
            format: self.format.clone(),
            nullable: self.nullable,
            int_or_string: self.int_or_string,
            preserve_unknown: self.preserve_unknown,
            embedded: self.embedded,
            properties,
            additional: self.additional.clone(),
            items: self.items.clone(),
            list: self.list.clone(),
            resource: None,
        }
    }

    /// The type of values in expressions, named `name` if it is an object; `None` where expressions
    /// cannot see them.
    pub(super) fn declared(self: &Arc<Self>, resource: bool, name: &str) -> Option<Type> {
        if self.int_or_string {
            return Some(Type::Dyn);
        }
        if resource {
            return self.with_metadata().declared_inside(name);
        }
        self.declared_inside(name)
    }

    fn declared_inside(&self, name: &str) -> Option<Type> {
        Some(match self.kind.as_str() {
            "array" => {
                let items = self.items.as_ref()?;
                Type::list(items.declared(items.embedded, &format!("{name}.@idx"))?)
            }
            "object" => {
                if let Some(values) = &self.additional {
                    let value = values.declared(values.embedded, &format!("{name}.@elem"))?;
                    return Some(Type::map(Type::String, value));
                }
                let mut fields = BTreeMap::new();
                for (property, schema) in self.properties.iter().flatten() {
                    let Some(escaped) = escape(property) else { continue };
                    if let Some(of) = schema.declared(schema.embedded, &format!("{name}.{escaped}")) {
                        fields.insert(escaped, of);
                    }
                }
                Type::Object(Arc::new(Object { name: name.to_owned(), fields }))
            }
            "string" => match self.format.as_str() {
                "byte" => Type::Bytes,
                "duration" => Type::Duration,
                "date" | "date-time" => Type::Timestamp,
                _ => Type::String,
            },
            "boolean" => Type::Bool,
            "number" => Type::Double,
            "integer" => Type::Int,
            _ => return None,
        })
    }

    /// Whether rules can see values at all, which needs types all the way down lists and maps.
    pub(super) fn exposed(&self) -> bool {
        match self.kind.as_str() {
            _ if self.int_or_string => true,
            "array" => self.items.as_ref().is_some_and(|items| items.exposed()),
            "object" => self.additional.as_ref().is_none_or(|values| values.exposed()),
            kind => matches!(kind, "string" | "boolean" | "number" | "integer"),
        }
    }

    /// The schema of a property or map value.
    pub(super) fn property(&self, name: &str) -> Option<&Arc<Schema>> {
        match &self.properties {
            Some(properties) => properties.get(name),
            None => self.additional.as_ref(),
        }
    }
}
