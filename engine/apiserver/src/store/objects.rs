//! The current objects of one resource, in the order of an etcd list.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::ops::Bound;
use std::sync::Arc;

use super::Entry;
use super::entry::namespace_order;

type Named = BTreeMap<Arc<str>, Arc<Entry>>;

/// Objects by namespace and name. Namespaces are a sorted vector: they are few, their order is not that of
/// `str`, and each object is spared a copy of its namespace.
#[derive(Default)]
pub(super) struct Objects {
    namespaces: Vec<(Arc<str>, Named)>,
}

/// An object with its place.
pub(super) type Placed<'a> = (&'a Arc<str>, &'a Arc<str>, &'a Arc<Entry>);

impl Objects {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Entry>> {
        self.namespaces[self.find(namespace).ok()?].1.get(name)
    }

    /// Stores an object, and answers the shared copies of its namespace and name.
    pub(super) fn put(
        &mut self,
        namespace: &Arc<str>,
        name: &Arc<str>,
        entry: Arc<Entry>,
    ) -> (Arc<str>, Arc<str>) {
        let at = self.find(namespace).unwrap_or_else(|at| {
            self.namespaces.insert(at, (namespace.clone(), Named::new()));
            at
        });
        let (namespace, named) = &mut self.namespaces[at];
        let name = match named.entry(name.clone()) {
            Slot::Occupied(mut slot) => {
                slot.insert(entry);
                slot.key().clone()
            }
            Slot::Vacant(slot) => {
                let name = slot.key().clone();
                slot.insert(entry);
                name
            }
        };
        (namespace.clone(), name)
    }

    /// Removes an object, and answers the shared copies of its namespace and name.
    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<(Arc<str>, Arc<str>)> {
        let at = self.find(namespace).ok()?;
        let (shared, named) = &mut self.namespaces[at];
        let (name, _) = named.remove_entry(name)?;
        let namespace = shared.clone();
        if named.is_empty() {
            self.namespaces.remove(at);
        }
        Some((namespace, name))
    }

    /// The objects of one or all namespaces that come after a given one.
    pub(super) fn range<'a>(
        &'a self,
        namespace: Option<&str>,
        after: Option<(&'a str, &'a str)>,
    ) -> impl Iterator<Item = Placed<'a>> {
        let mut namespaces = match namespace {
            Some(namespace) => match self.find(namespace) {
                Ok(at) => &self.namespaces[at..=at],
                Err(_) => &[],
            },
            None => &self.namespaces[..],
        };
        if let Some((reached, _)) = after {
            let done =
                namespaces.partition_point(|(candidate, _)| namespace_order(candidate, reached).is_lt());
            namespaces = &namespaces[done..];
        }
        namespaces.iter().flat_map(move |(namespace, named)| {
            let start = match after {
                Some((reached, name)) if reached == namespace.as_ref() => Bound::Excluded(name),
                _ => Bound::Unbounded,
            };
            named
                .range::<str, _>((start, Bound::Unbounded))
                .map(move |(name, entry)| (namespace, name, entry))
        })
    }

    fn find(&self, namespace: &str) -> Result<usize, usize> {
        self.namespaces.binary_search_by(|(candidate, _)| namespace_order(candidate, namespace))
    }
}
