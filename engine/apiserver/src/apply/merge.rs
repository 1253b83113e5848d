//! An applied configuration laid over the live object. Nothing is removed here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::element::Element;
use super::typed::{Misfits, check_scalar};
use super::types::{Items, ListType, MapType, Type, Types, View};

/// The live object with the configuration over it.
pub(super) fn merge(types: &Types<'_>, live: &Value, config: &Value) -> Result<Value, Misfits> {
    let merged = at(types, types.root(), Some(live), Some(config))?;
    Ok(merged.unwrap_or(Value::Null))
}

/// `None` stands for a place that ends up with nothing in it.
type Merged = Result<Option<Value>, Misfits>;

fn at(types: &Types<'_>, place: Type, live: Option<&Value>, config: Option<&Value>) -> Merged {
    match types.view(place, config.or(live)) {
        View::Nothing => Err(Misfits::one("schema error: invalid atom: inlined")),
        View::Scalar(kind) => {
            let check = |value: Option<&Value>, side| {
                value.map(|value| check_scalar(kind, value, side)).unwrap_or_default()
            };
            let (mut left, right) = (check(live, "lhs: "), check(config, "rhs: "));
            if !left.is_empty() && !right.is_empty() {
                left.extend(right);
                return Err(left);
            }
            Ok(whole(live, config))
        }
        View::Map(map) => merge_maps(types, &map, live, config),
        View::List(list) => merge_lists(types, &list, live, config),
    }
}

fn whole(live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    config.or(live).cloned()
}

fn merge_maps(types: &Types<'_>, map: &MapType<'_>, live: Option<&Value>, config: Option<&Value>) -> Merged {
    let nothing = Map::new();
    let left = live.and_then(Value::as_object).unwrap_or(&nothing);
    let right = config.and_then(Value::as_object).unwrap_or(&nothing);
    // Two empty values are one whole, so that null and `{}` stay apart.
    if map.atomic || (left.is_empty() && right.is_empty()) {
        return Ok(whole(live, config));
    }
    let mut merged = Map::new();
    let mut faults = Misfits::default();
    let only_right = right.keys().filter(|name| !left.contains_key(*name));
    for name in left.keys().chain(only_right) {
        match at(types, map.field(name), left.get(name), right.get(name)) {
            Ok(Some(value)) => {
                merged.insert(name.clone(), value);
            }
            Ok(None) => {}
            Err(more) => faults.extend(more.below(&Element::field(name))),
        }
    }
    faults.result()?;
    Ok((!merged.is_empty()).then_some(Value::Object(merged)))
}

fn merge_lists(
    types: &Types<'_>,
    list: &ListType<'_>,
    live: Option<&Value>,
    config: Option<&Value>,
) -> Merged {
    let left = live.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let right = config.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if matches!(list.items, Items::Atomic) || (left.is_empty() && right.is_empty()) {
        return Ok(whole(live, config));
    }
    let config = Index::new(types, list, right)?;
    if let Some(twice) = config.duplicate() {
        return Err(Misfits::one(format!("duplicate entries for key {twice}")));
    }
    let merged = Zip { types, list, live: Index::new(types, list, left)?, config }.run()?;
    Ok((!merged.is_empty()).then_some(Value::Array(merged)))
}

/// The items of a list and where each is.
struct Index<'v> {
    steps: Vec<Element>,
    items: &'v [Value],
    /// `Null` for items that cannot be told apart: those are not merged with anything.
    by_step: BTreeMap<Element, &'v Value>,
}

impl<'v> Index<'v> {
    fn new(types: &Types<'_>, list: &ListType<'_>, items: &'v [Value]) -> Result<Self, Misfits> {
        let mut faults = Misfits::default();
        let mut index = Index { steps: Vec::with_capacity(items.len()), items, by_step: BTreeMap::new() };
        for (at, item) in items.iter().enumerate() {
            match types.element(list, item) {
                Ok(step) => {
                    index
                        .by_step
                        .entry(step.clone())
                        .and_modify(|known| *known = &Value::Null)
                        .or_insert(item);
                    index.steps.push(step);
                }
                Err(why) => faults.extend(Misfits::one(format!("element {at}: {why}"))),
            }
        }
        faults.result()?;
        Ok(index)
    }

    fn duplicate(&self) -> Option<&Element> {
        let mut seen = BTreeSet::new();
        self.steps.iter().find(|step| !seen.insert(*step))
    }
}

/// Walks both lists at once. Items keep the order of the configuration; what only the live list
/// has stays behind the item it followed.
struct Zip<'a, 'v> {
    types: &'a Types<'a>,
    list: &'a ListType<'a>,
    live: Index<'v>,
    config: Index<'v>,
}

impl Zip<'_, '_> {
    fn run(&self) -> Result<Vec<Value>, Misfits> {
        let (live, config) = (&self.live, &self.config);
        let mut merged = Vec::with_capacity(live.items.len().max(config.items.len()));
        let mut shared: VecDeque<&Element> =
            config.steps.iter().filter(|step| live.by_step.contains_key(step)).collect();
        let mut next_shared = shared.pop_front();
        let mut taken = BTreeSet::new();
        let (mut l, mut r) = (0, 0);
        while l < live.steps.len() || r < config.steps.len() {
            if let (Some(left), Some(right)) = (live.steps.get(l), config.steps.get(r)) {
                if left == right {
                    taken.insert(left);
                    merged.extend(self.item(left, live.by_step.get(left), config.by_step.get(left))?);
                    l += 1;
                    r += 1;
                    next_shared = shared.pop_front();
                    continue;
                }
                let wanted_later = next_shared.is_some_and(|next| next != left);
                if config.by_step.contains_key(left) && wanted_later {
                    l += 1;
                    continue;
                }
            }
            if let Some(left) = live.steps.get(l) {
                if !config.by_step.contains_key(left) {
                    merged.extend(self.item(left, Some(&&live.items[l]), None)?);
                    l += 1;
                    continue;
                }
                if taken.contains(left) {
                    l += 1;
                }
            }
            if let Some(right) = config.steps.get(r) {
                taken.insert(right);
                merged.extend(self.item(right, live.by_step.get(right), config.by_step.get(right))?);
                r += 1;
                if next_shared == Some(right) {
                    next_shared = shared.pop_front();
                }
            }
        }
        Ok(merged)
    }

    fn item(&self, step: &Element, live: Option<&&Value>, config: Option<&&Value>) -> Merged {
        at(self.types, self.list.item, live.copied(), config.copied()).map_err(|faults| faults.below(step))
    }
}
