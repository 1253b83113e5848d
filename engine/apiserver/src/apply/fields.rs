//! Sets of fields: what a manager owns, in the form `metadata.managedFields` keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::element::{Element, ParseError};

/// A path from the root of an object.
pub type Path = Vec<Element>;

/// A set of paths, kept as a trie. That a path is a member says nothing of those above or below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub(super) members: BTreeSet<Element>,
    /// Never holds a set without any member.
    pub(super) children: BTreeMap<Element, FieldSet>,
}

/// Why a value is not FieldsV1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("expect {{ or n, but found another value")]
    NotAnObject,
    #[error("parsing key as path element: {0}")]
    Element(#[from] ParseError),
}

impl FieldSet {
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of these paths of field names, each written as `spec.replicas`; no name may hold a dot.
    pub fn of(paths: &[&str]) -> Self {
        let mut set = Self::new();
        for path in paths {
            let steps: Path = path.split('.').map(Element::field).collect();
            set.insert(&steps);
        }
        set
    }

    /// Adds one path. The root itself has no owner, so an empty path is not kept.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((last, above)) = path.split_last() else { return };
        let mut set = self;
        for step in above {
            set = set.children.entry(step.clone()).or_default();
        }
        set.members.insert(last.clone());
    }

    pub fn contains(&self, path: &[Element]) -> bool {
        let Some((last, above)) = path.split_last() else { return false };
        let mut set = self;
        for step in above {
            match set.children.get(step) {
                Some(child) => set = child,
                None => return false,
            }
        }
        set.members.contains(last)
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(FieldSet::is_empty)
    }

    /// What lies below one step.
    pub fn below(&self, step: &Element) -> Option<&FieldSet> {
        self.children.get(step)
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut result = self.clone();
        result.absorb(other);
        result
    }

    fn absorb(&mut self, other: &Self) {
        self.members.extend(other.members.iter().cloned());
        for (step, child) in &other.children {
            self.children.entry(step.clone()).or_default().absorb(child);
        }
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let members = self.members.intersection(&other.members).cloned().collect();
        let children = self.children.iter().filter_map(|(step, child)| {
            let both = child.intersection(other.children.get(step)?);
            (!both.is_empty()).then(|| (step.clone(), both))
        });
        FieldSet { members, children: children.collect() }
    }

    /// The paths of this set that are not members of the other; what lies below them stays.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(step, child)| {
            let rest = match other.children.get(step) {
                Some(taken) => child.difference(taken),
                None => child.clone(),
            };
            (!rest.is_empty()).then(|| (step.clone(), rest))
        });
        FieldSet {
            members: self.members.difference(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// The paths of this set that are neither members of the other nor lie below one.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let kept = self.children.iter().filter(|(step, _)| !other.members.contains(step));
        let children = kept.filter_map(|(step, child)| {
            let rest = match other.children.get(step) {
                Some(taken) => child.recursive_difference(taken),
                None => child.clone(),
            };
            (!rest.is_empty()).then(|| (step.clone(), rest))
        });
        FieldSet {
            members: self.members.difference(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// The members that have no members below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        FieldSet {
            members: self.members.iter().filter(|step| !self.children.contains_key(step)).cloned().collect(),
            children: self.children.iter().map(|(step, child)| (step.clone(), child.leaves())).collect(),
        }
    }

    /// Every path: at each level the members first, then what lies below.
    pub fn paths(&self) -> Vec<Path> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, prefix: &mut Path, found: &mut Vec<Path>) {
        for member in &self.members {
            let mut path = prefix.clone();
            path.push(member.clone());
            found.push(path);
        }
        for (step, child) in &self.children {
            prefix.push(step.clone());
            child.collect(prefix, found);
            prefix.pop();
        }
    }

    /// Reads FieldsV1.
    pub fn from_json(value: &Value) -> Result<Self, DecodeError> {
        Ok(read(value)?.0)
    }

    /// Writes FieldsV1. A [`Value`] sorts its keys as text; [`Serialize`] keeps the server's order.
    pub fn to_json(&self) -> Value {
        self.write(false)
    }

    fn write(&self, is_member: bool) -> Value {
        let mut fields = Map::new();
        if is_member {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for member in self.members.iter().filter(|step| !self.children.contains_key(step)) {
            fields.insert(member.encode(), Value::Object(Map::new()));
        }
        for (step, child) in &self.children {
            fields.insert(step.encode(), child.write(self.members.contains(step)));
        }
        Value::Object(fields)
    }
}

/// The set below a step, and whether the step itself is a member.
fn read(value: &Value) -> Result<(FieldSet, bool), DecodeError> {
    let mut set = FieldSet::new();
    let mut is_member = false;
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (key, below) in fields {
                if key == "." {
                    is_member = true;
                } else if let Some(step) = Element::parse(key)? {
                    let (child, child_is_member) = read(below)?;
                    if child_is_member {
                        set.members.insert(step.clone());
                    }
                    if !child.is_empty() {
                        set.children.insert(step, child);
                    }
                }
            }
        }
        _ => return Err(DecodeError::NotAnObject),
    }
    let is_member = is_member || set.is_empty();
    Ok((set, is_member))
}

/// A path for people: `.spec.containers[name="web"].image`.
pub fn display(path: &[Element]) -> String {
    path.iter().map(Element::to_string).collect()
}

impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.paths().iter().map(|path| display(path)).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl Serialize for FieldSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Below { set: self, is_member: false }.serialize(serializer)
    }
}

struct Below<'a> {
    set: &'a FieldSet,
    is_member: bool,
}

impl Serialize for Below<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nothing = FieldSet::new();
        let mut map = serializer.serialize_map(None)?;
        if self.is_member {
            map.serialize_entry(".", &Below { set: &nothing, is_member: false })?;
        }
        let steps: BTreeSet<&Element> = self.set.members.iter().chain(self.set.children.keys()).collect();
        for step in steps {
            let below = match self.set.children.get(step) {
                Some(set) => Below { set, is_member: self.set.members.contains(step) },
                None => Below { set: &nothing, is_member: false },
            };
            map.serialize_entry(&step.encode(), &below)?;
        }
        map.end()
    }
}
