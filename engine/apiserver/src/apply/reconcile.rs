//! Sets that were recorded under another schema of the same kind.
//!
//! Lists and maps may become atomic while managers own parts of them: those then own the whole.

use super::element::Element;
use super::fields::{FieldSet, Path};
use super::types::{Items, Type, Types, View};

/// The set as the schema of today would have recorded it.
pub(super) fn reconcile(types: &Types<'_>, set: &FieldSet) -> FieldSet {
    let mut whole = FieldSet::new();
    Walk { types, whole: &mut whole, path: Vec::new() }.at(types.root(), Some(set), false);
    if whole.is_empty() { set.clone() } else { set.recursive_difference(&whole).union(&whole) }
}

struct Walk<'a> {
    types: &'a Types<'a>,
    /// What became atomic.
    whole: &'a mut FieldSet,
    path: Path,
}

impl Walk<'_> {
    /// `alone`: the place is a member and nothing below it is.
    fn at(&mut self, place: Type, set: Option<&FieldSet>, alone: bool) {
        match self.types.view(place, None) {
            View::List(list) if matches!(list.items, Items::Atomic) => {
                if !alone {
                    self.whole.insert(&self.path);
                }
            }
            View::Map(map) if map.is_deduced(self.types) => {}
            View::Map(map) if map.atomic => {
                if !alone && set.is_some_and(|set| !set.is_empty()) {
                    self.whole.insert(&self.path);
                }
            }
            View::List(list) => self.steps(set, |_| list.item),
            View::Map(map) => self.steps(set, |step| match step {
                Element::Field(name) => map.field(name),
                _ => map.other,
            }),
            View::Scalar(_) | View::Nothing => {}
        }
    }

    fn steps(&mut self, set: Option<&FieldSet>, place_of: impl Fn(&Element) -> Type) {
        let Some(set) = set else { return };
        let members = set.members.iter().filter(|step| !set.children.contains_key(*step));
        for step in members.chain(set.children.keys()) {
            let place = place_of(step);
            // What the schema no longer has stays in the set until the object loses it.
            if matches!(place, Type::Nowhere) {
                continue;
            }
            let below = set.children.get(step);
            self.path.push(step.clone());
            self.at(place, below, below.is_none());
            self.path.pop();
        }
    }
}
