//! Lists: the objects of a resource now, or as they were.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::objects::Placed;
use super::state::{Resource, State};
use super::{Entry, Key, ReadError, Shared};

/// Which objects to list.
#[derive(Debug, Clone, Copy)]
pub struct ListQuery<'a> {
    pub resource: &'a str,
    /// Only this namespace.
    pub namespace: Option<&'a str>,
    pub at: ListAt,
    /// Only objects that come after this namespace and name.
    pub start_after: Option<(&'a str, &'a str)>,
    /// At most so many objects.
    pub limit: Option<usize>,
}

/// The moment a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListAt {
    Latest,
    Exact(u64),
}

/// One object of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub entry: Arc<Entry>,
}

/// Objects as of one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// In order of namespace and name.
    pub items: Vec<Item>,
    pub revision: u64,
    /// How many objects come after the last one looked at. With a filter, whether they match is not known.
    pub remaining: usize,
    /// Namespace and name of the last object looked at: where the next page starts after.
    pub last: Option<(Arc<str>, Arc<str>)>,
}

impl<'a> ListQuery<'a> {
    /// All objects of a resource, now.
    pub fn all(resource: &'a str) -> Self {
        ListQuery { resource, namespace: None, at: ListAt::Latest, start_after: None, limit: None }
    }
}

/// A list without a filter: it clones no more than it returns.
pub(super) fn list(shared: &Shared, query: &ListQuery) -> Result<Snapshot, ReadError> {
    {
        let state = shared.state.read();
        if query.at == ListAt::Latest || query.at == ListAt::Exact(state.revision) {
            let mut found =
                state.resource(query.resource).map(|it| it.objects.range(query.namespace, query.start_after));
            let mut rest = found.iter_mut().flatten();
            let items: Vec<Item> =
                rest.by_ref().take(query.limit.unwrap_or(usize::MAX)).map(Item::from).collect();
            let last = items.last().map(|item| (item.namespace.clone(), item.name.clone()));
            return Ok(Snapshot { items, revision: state.revision, remaining: rest.count(), last });
        }
    }
    list_filtered(shared, query, &mut |_| true)
}

/// A list of the objects that pass a filter, which runs without a lock since it may be slow.
pub(super) fn list_filtered(
    shared: &Shared,
    query: &ListQuery,
    keep: &mut dyn FnMut(&Item) -> bool,
) -> Result<Snapshot, ReadError> {
    let (all, revision) = collect(&shared.state.read(), query)?;
    let mut candidates = all.into_iter();
    let mut items = Vec::new();
    let mut last = None;
    while query.limit.is_none_or(|limit| items.len() < limit) {
        let Some(item) = candidates.next() else { break };
        last = Some((item.namespace.clone(), item.name.clone()));
        if keep(&item) {
            items.push(item);
        }
    }
    Ok(Snapshot { items, revision, remaining: candidates.len(), last })
}

fn collect(state: &State, query: &ListQuery) -> Result<(Vec<Item>, u64), ReadError> {
    let revision = match query.at {
        ListAt::Latest => state.revision,
        ListAt::Exact(revision) => revision,
    };
    state.check_revision(query.resource, revision)?;
    let Some(resource) = state.resource(query.resource) else { return Ok((Vec::new(), revision)) };
    let mut items: Vec<Item> =
        resource.objects.range(query.namespace, query.start_after).map(Item::from).collect();
    undo(&mut items, resource, query, revision);
    Ok((items, revision))
}

/// Takes back, in a list of the present, what happened after `revision`.
fn undo(items: &mut Vec<Item>, resource: &Resource, query: &ListQuery, revision: u64) {
    let later = resource.events.partition_point(|event| event.revision <= revision);
    // From the newest to the oldest, so that what stays is each object before the first of its later events.
    let mut past: BTreeMap<&Key, Option<&Arc<Entry>>> = BTreeMap::new();
    for event in resource.events.range(later..).rev() {
        past.insert(&event.key, event.previous.as_ref());
    }
    if past.is_empty() {
        return;
    }
    let start = query.start_after.map(|(namespace, name)| Key::new(query.resource, namespace, name));
    past.retain(|key, _| {
        query.namespace.is_none_or(|namespace| namespace == key.namespace.as_ref())
            && start.as_ref().is_none_or(|start| *key > start)
    });
    let mut merged = Vec::with_capacity(items.len() + past.len());
    let mut present = items.drain(..).peekable();
    for (key, entry) in past {
        let before = |item: &Item| item.order_in(key).is_lt();
        merged.extend(std::iter::from_fn(|| present.next_if(before)));
        present.next_if(|item| item.order_in(key).is_eq());
        merged.extend(entry.map(|entry| Item::from((&key.namespace, &key.name, entry))));
    }
    merged.extend(present);
    *items = merged;
}

impl Item {
    /// How this item compares with a key of the same resource.
    fn order_in(&self, key: &Key) -> std::cmp::Ordering {
        super::entry::namespace_order(&self.namespace, &key.namespace).then_with(|| self.name.cmp(&key.name))
    }
}

impl From<Placed<'_>> for Item {
    fn from((namespace, name, entry): Placed<'_>) -> Self {
        Item { namespace: namespace.clone(), name: name.clone(), entry: entry.clone() }
    }
}
