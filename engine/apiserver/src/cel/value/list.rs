//! Lists: of the object, read item by item, and made ones.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::Value as Json;

use super::{LONGEST_LIST, Value, all};
use crate::cel::meter::{ENTRY, Meter, VALUE};
use crate::cel::schema::{ListType, Schema};
use crate::cel::value::{Error, Key, Result};

/// A list, and how its items are told apart.
#[derive(Debug)]
pub(in crate::cel) enum List<'a> {
    Made(Vec<Value<'a>>, ListType),
    /// Of the object, under the schema of the list and that of its items.
    Written(&'a [Json], &'a ListType, &'a Schema),
}

impl<'a> List<'a> {
    pub(in crate::cel) fn len(&self) -> usize {
        match self {
            List::Made(items, _) => items.len(),
            List::Written(items, ..) => items.len(),
        }
    }

    pub(in crate::cel) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(in crate::cel) fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            List::Made(items, _) => items.get(index).cloned(),
            List::Written(items, _, schema) => items.get(index).map(|item| Value::read(item, schema)),
        }
    }

    pub(in crate::cel) fn iter(&self) -> impl DoubleEndedIterator<Item = Value<'a>> + ExactSizeIterator + '_ {
        (0..self.len()).map(|index| self.get(index).unwrap_or(Value::Null))
    }

    /// All items, of which the copy counts.
    pub(in crate::cel) fn copied(&self, meter: &Meter<'_>) -> Result<Vec<Value<'a>>> {
        meter.make(self.len() * VALUE)?;
        Ok(self.iter().collect())
    }

    fn kind(&self) -> &ListType {
        match self {
            List::Made(_, kind) => kind,
            List::Written(_, kind, _) => kind,
        }
    }

    /// Whether an item equals; items that cannot be compared do not.
    pub(in crate::cel) fn has(&self, wanted: &Value<'a>, meter: &Meter<'_>) -> Result<bool> {
        for item in self.iter() {
            if item.same(wanted, meter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn equals(&self, other: &List<'a>, meter: &Meter<'_>) -> Result<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.kind() {
            ListType::Atomic => {
                all(self.iter().zip(other.iter()), |(left, right)| left.equals(&right, meter))
            }
            ListType::Set | ListType::Map(_) => match self.places(meter)? {
                Some(places) => all(other.iter(), |wanted| {
                    let place = Place::of(&wanted, self.kind(), meter)?;
                    match place.and_then(|place| self.get(*places.get(&place)?)) {
                        Some(item) => item.equals(&wanted, meter),
                        None => Ok(false),
                    }
                }),
                // Items of other kinds are looked for one by one.
                None => all(other.iter(), |wanted| {
                    for item in self.iter() {
                        if item.equals(&wanted, meter)? {
                            return Ok(true);
                        }
                    }
                    Ok(false)
                }),
            },
        }
    }

    /// Where items are, so that two lists need not be compared item by item; `None` if one has no place of its own.
    fn places(&self, meter: &Meter<'_>) -> Result<Option<Places<'a>>> {
        let mut places = Places::new();
        for (at, item) in self.iter().enumerate() {
            match Place::of(&item, self.kind(), meter)? {
                Some(place) => _ = places.entry(place).or_insert(at),
                None => return Ok(None),
            }
        }
        Ok(Some(places))
    }

    /// The concatenation; sets and maps keep each item once.
    pub(in crate::cel) fn plus(&self, other: &List<'a>, meter: &Meter<'_>) -> Result<List<'a>> {
        if self.len() + other.len() > LONGEST_LIST {
            return Err(Error::too_much());
        }
        meter.make((self.len() + other.len()) * VALUE)?;
        let mut sum: Vec<Value<'a>> = self.iter().collect();
        let kind = self.kind();
        if *kind == ListType::Atomic {
            sum.extend(other.iter());
            return Ok(List::Made(sum, ListType::Atomic));
        }
        let mut places = self.places(meter)?;
        for item in other.iter() {
            let known = match (&mut places, Place::of(&item, kind, meter)?) {
                (Some(places), Some(place)) => match places.entry(place) {
                    Entry::Occupied(known) => Some(*known.get()),
                    Entry::Vacant(free) => {
                        free.insert(sum.len());
                        None
                    }
                },
                _ => position(&sum, &item, meter)?,
            };
            match known {
                Some(_) if *kind == ListType::Set => {}
                Some(at) => sum[at] = item,
                None => sum.push(item),
            }
        }
        Ok(List::Made(sum, kind.clone()))
    }
}

fn position<'a>(items: &[Value<'a>], wanted: &Value<'a>, meter: &Meter<'_>) -> Result<Option<usize>> {
    for (at, item) in items.iter().enumerate() {
        if item.same(wanted, meter)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

type Places<'a> = BTreeMap<Place<'a>, usize>;

/// What tells an item of a set or map from the others.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Place<'a> {
    Scalar(Key<'a>),
    /// The keys of an object, written as JSON.
    Keys(Vec<Option<String>>),
}

impl<'a> Place<'a> {
    fn of(item: &Value<'a>, kind: &ListType, meter: &Meter<'_>) -> Result<Option<Place<'a>>> {
        meter.touch(1)?;
        meter.make(ENTRY)?;
        match (kind, item) {
            (ListType::Map(keys), Value::Object(object)) => {
                let mut written = Vec::with_capacity(keys.len());
                for key in keys {
                    let text = object.fields.get(key).map(Json::to_string);
                    meter.make(text.as_ref().map_or(0, String::len))?;
                    written.push(text);
                }
                Ok(Some(Place::Keys(written)))
            }
            (ListType::Map(_), _) => Ok(None),
            (_, item) => Ok(item.key().map(Place::Scalar)),
        }
    }
}
