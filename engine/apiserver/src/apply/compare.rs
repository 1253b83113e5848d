//! What changed from one object to another, as sets of fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{Element, same};
use super::fields::{FieldSet, Path};
use super::typed::{Misfits, check_scalar};
use super::types::{Items, ListType, MapType, Type, Types, View};

/// The fields that differ; none is in more than one set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub removed: FieldSet,
    pub modified: FieldSet,
    pub added: FieldSet,
}

impl Changes {
    /// Without these fields and all below them.
    #[must_use]
    pub(super) fn without(self, ignored: &FieldSet) -> Self {
        if ignored.is_empty() {
            return self;
        }
        Changes {
            removed: self.removed.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            added: self.added.recursive_difference(ignored),
        }
    }
}

/// Compares two objects of the same schema.
pub(super) fn compare(types: &Types<'_>, old: &Value, new: &Value) -> Result<Changes, Misfits> {
    let mut walk = Walk { types, path: Vec::new(), changes: Changes::default() };
    walk.at(types.root(), Some(old), Some(new)).result()?;
    Ok(walk.changes)
}

/// Whether a place was taken as one whole, or part by part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Whole,
    InParts,
}

struct Walk<'a> {
    types: &'a Types<'a>,
    path: Path,
    changes: Changes,
}

impl Walk<'_> {
    fn at(&mut self, place: Type, old: Option<&Value>, new: Option<&Value>) -> Misfits {
        let atom = self.types.atom(place);
        let mut faults = Misfits::default();
        let decisive = match (old, new) {
            (Some(old_value), Some(new_value)) => {
                if !atom.same_choice(old_value, new_value) {
                    let (more, _) = self.view(atom.view(old), old, new);
                    faults.extend(more);
                }
                new
            }
            (Some(_), None) => old,
            _ => new,
        };
        let (more, taken) = self.view(atom.view(decisive), old, new);
        faults.extend(more);
        if taken == Taken::InParts {
            match (old, new) {
                (None, _) => self.changes.added.insert(&self.path),
                (_, None) => self.changes.removed.insert(&self.path),
                _ => {}
            }
        }
        faults
    }

    fn view(&mut self, view: View<'_>, old: Option<&Value>, new: Option<&Value>) -> (Misfits, Taken) {
        match view {
            View::Nothing => (Misfits::one("schema error: invalid atom: inlined"), Taken::InParts),
            View::Scalar(kind) => {
                let check = |value: Option<&Value>, side| {
                    value.map(|value| check_scalar(kind, value, side)).unwrap_or_default()
                };
                let (mut left, right) = (check(old, "lhs: "), check(new, "rhs: "));
                if !left.is_empty() && !right.is_empty() {
                    left.extend(right);
                    return (left, Taken::InParts);
                }
                self.whole(old, new)
            }
            View::Map(map) => self.map(&map, old, new),
            View::List(list) => self.list(&list, old, new),
        }
    }

    fn whole(&mut self, old: Option<&Value>, new: Option<&Value>) -> (Misfits, Taken) {
        match (old, new) {
            (None, _) => self.changes.added.insert(&self.path),
            (_, None) => self.changes.removed.insert(&self.path),
            (Some(old), Some(new)) if !same(old, new) => self.changes.modified.insert(&self.path),
            _ => {}
        }
        (Misfits::default(), Taken::Whole)
    }

    fn map(&mut self, map: &MapType<'_>, old: Option<&Value>, new: Option<&Value>) -> (Misfits, Taken) {
        let nothing = Map::new();
        let left = old.and_then(Value::as_object).unwrap_or(&nothing);
        let right = new.and_then(Value::as_object).unwrap_or(&nothing);
        // Two empty values are one whole, so that null and `{}` stay apart.
        if map.atomic || (left.is_empty() && right.is_empty()) {
            return self.whole(old, new);
        }
        let mut faults = Misfits::default();
        let only_right = right.keys().filter(|name| !left.contains_key(*name));
        for name in left.keys().chain(only_right) {
            let step = Element::field(name);
            faults.extend(self.below(step, map.field(name), left.get(name), right.get(name)));
        }
        (faults, Taken::InParts)
    }

    fn list(&mut self, list: &ListType<'_>, old: Option<&Value>, new: Option<&Value>) -> (Misfits, Taken) {
        let left = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let right = new.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if matches!(list.items, Items::Atomic) || (left.is_empty() && right.is_empty()) {
            return self.whole(old, new);
        }
        let mut faults = Misfits::default();
        let left = self.by_element(list, left, &mut faults);
        let right = self.by_element(list, right, &mut faults);
        let only_right = right.keys().filter(|step| !left.contains_key(*step));
        for step in left.keys().chain(only_right) {
            let old = left.get(step).map_or(&[][..], Vec::as_slice);
            let new = right.get(step).map_or(&[][..], Vec::as_slice);
            faults.extend(self.items(list, step, old, new));
        }
        (faults, Taken::InParts)
    }

    /// Items of one key. There may be several; they are then one whole.
    fn items(&mut self, list: &ListType<'_>, step: &Element, old: &[&Value], new: &[&Value]) -> Misfits {
        let mut path = self.path.clone();
        path.push(step.clone());
        match (old, new) {
            ([_, _, ..], [_, _, ..]) => {
                let equal = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new));
                if !equal {
                    self.changes.modified.insert(&path);
                }
                Misfits::default()
            }
            ([_, _, ..], rest) => {
                let faults = match rest.first() {
                    Some(new) => self.below(step.clone(), list.item, None, Some(new)),
                    None => Misfits::default(),
                };
                self.changes.removed.insert(&path);
                faults
            }
            (rest, [_, _, ..]) => {
                let faults = match rest.first() {
                    Some(old) => self.below(step.clone(), list.item, Some(old), None),
                    None => Misfits::default(),
                };
                self.changes.added.insert(&path);
                faults
            }
            (old, new) => self.below(step.clone(), list.item, old.first().copied(), new.first().copied()),
        }
    }

    fn by_element<'v>(
        &self,
        list: &ListType<'_>,
        items: &'v [Value],
        faults: &mut Misfits,
    ) -> BTreeMap<Element, Vec<&'v Value>> {
        let mut found: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            match self.types.element(list, item) {
                Ok(step) => found.entry(step).or_default().push(item),
                Err(why) => faults.extend(Misfits::one(format!("element {index}: {why}"))),
            }
        }
        found
    }

    fn below(&mut self, step: Element, place: Type, old: Option<&Value>, new: Option<&Value>) -> Misfits {
        self.path.push(step.clone());
        let faults = self.at(place, old, new);
        self.path.pop();
        if faults.is_empty() { faults } else { faults.below(&step) }
    }
}
