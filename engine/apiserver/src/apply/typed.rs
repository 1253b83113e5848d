//! Objects as their schema sees them: does it fit, which fields are there, what is left without some.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::element::Element;
use super::fields::{FieldSet, Path};
use super::gotext;
use super::types::{Items, ListType, MapType, Scalar, Type, Types, View};

/// What does not fit the schema, each with its path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Misfits(Vec<(String, String)>);

impl Misfits {
    pub(super) fn one(message: impl Into<String>) -> Self {
        Misfits(vec![(String::new(), message.into())])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn extend(&mut self, other: Misfits) {
        self.0.extend(other.0);
    }

    /// The same faults, told as the reason why something else failed.
    pub(super) fn within(self, what: &str) -> Self {
        Misfits::one(format!("{what}: {self}"))
    }

    /// The same faults, seen from one step further up.
    pub(super) fn below(mut self, step: &Element) -> Self {
        for (path, _) in &mut self.0 {
            path.insert_str(0, &step.to_string());
        }
        self
    }

    pub(super) fn result(self) -> Result<(), Misfits> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl std::fmt::Display for Misfits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |(path, message): &(String, String)| match path.as_str() {
            "" => message.clone(),
            path => format!("{path}: {message}"),
        };
        match self.0.as_slice() {
            [one] => f.write_str(&show(one)),
            many => {
                f.write_str("errors:")?;
                many.iter().try_for_each(|one| write!(f, "\n  {}", show(one)))
            }
        }
    }
}

/// Whether the same item may be in a list twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allowed,
    Forbidden,
}

/// Does the value fit the schema?
pub(super) fn validate(types: &Types<'_>, value: &Value, duplicates: Duplicates) -> Result<(), Misfits> {
    Validator { types, duplicates }.at(types.root(), value).result()
}

struct Validator<'a> {
    types: &'a Types<'a>,
    duplicates: Duplicates,
}

impl Validator<'_> {
    fn at(&self, place: Type, value: &Value) -> Misfits {
        match (self.types.view(place, Some(value)), value) {
            (View::Nothing, _) => Misfits::one("schema error: invalid atom: inlined"),
            (View::Scalar(kind), _) => check_scalar(kind, value, ""),
            (View::Map(_) | View::List(_), Value::Null) => Misfits::default(),
            (View::Map(map), Value::Object(fields)) => self.map(&map, fields),
            (View::List(list), Value::Array(items)) => self.list(&list, items),
            (View::Map(_), _) => Misfits::one(format!("expected map, got &{{{}}}", gotext::plain(value))),
            (View::List(_), _) => Misfits::one(format!("expected list, got &{{{}}}", gotext::plain(value))),
        }
    }

    fn map(&self, map: &MapType<'_>, fields: &Map<String, Value>) -> Misfits {
        let mut found = Misfits::default();
        for (name, value) in fields {
            let step = Element::field(name);
            let place = map.field(name);
            if matches!(place, Type::Nowhere) {
                found.extend(Misfits::one("field not declared in schema").below(&step));
                // The real server looks no further in this object, and one such field is enough to know.
                break;
            }
            found.extend(self.at(place, value).below(&step));
        }
        found
    }

    fn list(&self, list: &ListType<'_>, items: &[Value]) -> Misfits {
        let mut found = Misfits::default();
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let step = if matches!(list.items, Items::Atomic) {
                Element::Index(index as i64)
            } else {
                match self.types.element(list, item) {
                    Ok(step) => step,
                    Err(why) => {
                        found.extend(Misfits::one(format!("element {index}: {why}")));
                        return found;
                    }
                }
            };
            if !seen.insert(step.clone()) && self.duplicates == Duplicates::Forbidden {
                found.extend(Misfits::one(format!("duplicate entries for key {step}")));
            }
            found.extend(self.at(list.item, item).below(&step));
        }
        found
    }
}

/// `side` says which of two values is meant, where there are two.
pub(super) fn check_scalar(kind: Scalar, value: &Value, side: &str) -> Misfits {
    let message = match (kind, value) {
        (_, Value::Null)
        | (Scalar::Number | Scalar::Any, Value::Number(_))
        | (Scalar::String | Scalar::Any, Value::String(_))
        | (Scalar::Boolean | Scalar::Any, Value::Bool(_)) => return Misfits::default(),
        (Scalar::Number, _) => format!("expected numeric (int or float), got {}", gotext::type_name(value)),
        (Scalar::String, _) => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", gotext::syntax(value))
        }
        (Scalar::Boolean, _) => format!("expected boolean, got &{{{}}}", gotext::plain(value)),
        (Scalar::Any, _) => format!("expected any scalar, got &{{{}}}", gotext::plain(value)),
    };
    Misfits::one(format!("{side}{message}"))
}

/// Every field and item of the value that can have an owner.
pub(super) fn field_set(types: &Types<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::new();
    collect(types, types.root(), value, &mut Vec::new(), &mut set);
    set
}

fn collect(types: &Types<'_>, place: Type, value: &Value, path: &mut Path, set: &mut FieldSet) {
    match types.view(place, Some(value)) {
        View::Nothing => {}
        View::Scalar(_) => set.insert(path),
        View::Map(MapType { atomic: true, .. }) | View::List(ListType { items: Items::Atomic, .. }) => {
            set.insert(path);
        }
        View::Map(map) => {
            for (name, below) in value.as_object().into_iter().flatten() {
                path.push(Element::field(name));
                collect(types, map.field(name), below, path, set);
                let is_empty = below.is_null() || below.as_object().is_some_and(Map::is_empty);
                if is_empty || map.named(name).is_none() {
                    set.insert(path);
                }
                path.pop();
            }
        }
        View::List(list) => {
            let items = value.as_array().into_iter().flatten();
            let steps: Vec<(Element, &Value)> =
                items.filter_map(|item| Some((types.element(&list, item).ok()?, item))).collect();
            let mut seen = BTreeSet::new();
            let twice: BTreeSet<&Element> =
                steps.iter().filter(|(step, _)| !seen.insert(step)).map(|(step, _)| step).collect();
            for (step, item) in &steps {
                path.push(step.clone());
                // Items that cannot be told apart are owned together, whatever is in them.
                if !twice.contains(step) {
                    collect(types, list.item, item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
    }
}

/// The value without the given fields and items. What loses all of its parts becomes null.
pub(super) fn remove(types: &Types<'_>, value: &Value, set: &FieldSet) -> Value {
    without(types, types.root(), value, set)
}

fn without(types: &Types<'_>, place: Type, value: &Value, set: &FieldSet) -> Value {
    match (types.view(place, Some(value)), value) {
        (View::Scalar(_), _) => value.clone(),
        (View::Map(map), Value::Object(fields)) if !map.atomic => {
            let kept: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, below)| {
                    let step = Element::field(name);
                    if set.members.contains(&step) {
                        return None;
                    }
                    let rest = match set.below(&step).filter(|set| !set.is_empty()) {
                        Some(set) => without(types, map.field(name), below, set),
                        None => below.clone(),
                    };
                    Some((name.clone(), rest))
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (View::List(list), Value::Array(items)) if !matches!(list.items, Items::Atomic) => {
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let Ok(step) = types.element(&list, item) else { return Some(item.clone()) };
                    if set.members.contains(&step) {
                        return None;
                    }
                    match set.below(&step).filter(|set| !set.is_empty()) {
                        Some(set) => Some(without(types, list.item, item, set)),
                        None => Some(item.clone()),
                    }
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        _ => Value::Null,
    }
}

/// The set with every field that the schema names made a member where something below it is one:
/// such fields have no owner of their own, but go when all below them goes.
pub(super) fn with_named_fields(types: &Types<'_>, set: &FieldSet) -> FieldSet {
    name_fields(types, types.root(), set)
}

fn name_fields(types: &Types<'_>, place: Type, set: &FieldSet) -> FieldSet {
    let atom = types.atom(place);
    let mut result = FieldSet { members: set.members.clone(), ..FieldSet::new() };
    for (step, child) in &set.children {
        let below = match (step, &atom.map, &atom.list) {
            (Element::Field(name), Some(map), _) => {
                if map.named(name).is_some() {
                    result.members.insert(step.clone());
                }
                map.field(name)
            }
            (Element::Key(_), _, Some(list)) => list.item,
            _ => Type::Nowhere,
        };
        result.children.insert(step.clone(), name_fields(types, below, child));
    }
    result
}
