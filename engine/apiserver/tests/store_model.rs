//! The store against a model that keeps every state it ever had.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use koinon_apiserver::context::Context;
use koinon_apiserver::store::{
    CommitError, Entry, EventKind, Expect, Item, Key, Labels, ListAt, ListQuery, Op, Options, ReadError,
    Snapshot, Store, Watch, WatchError,
};
use proptest::prelude::*;

const RESOURCES: [&str; 2] = ["/pods", "apps/deployments"];
/// `a-b` comes before `a`, as in etcd.
const NAMESPACES: [&str; 3] = ["a", "a-b", "b"];
const NAMES: [&str; 3] = ["x", "x-y", "x.z"];

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<Planned>),
    /// Reads what is new on the watches that live through the whole run.
    Poll,
    /// In memory, nothing.
    Reopen,
}

#[derive(Debug, Clone)]
struct Planned {
    key: Key,
    /// None deletes.
    body: Option<Vec<u8>>,
    labels: Vec<(String, String)>,
    demand: Demand,
}

#[derive(Debug, Clone, Copy)]
enum Demand {
    Nothing,
    Absent,
    Current,
    Stale,
}

/// An object in the model: where etcd would list it, then its content.
type Objects = BTreeMap<(Arc<str>, String), (Key, Arc<Entry>)>;

/// The revisions given, or the operation that was refused and what it met.
type Answer = Result<Vec<u64>, (usize, Option<Arc<Entry>>)>;

#[derive(Clone)]
struct Written {
    revision: u64,
    key: Key,
    before: Option<Arc<Entry>>,
    after: Option<Arc<Entry>>,
}

struct Model {
    /// The state at each revision; the first is the one before any write.
    states: Vec<Objects>,
    writes: Vec<Written>,
}

const FIRST: u64 = 1;

impl Model {
    fn new() -> Self {
        Model { states: vec![Objects::new()], writes: Vec::new() }
    }

    fn revision(&self) -> u64 {
        FIRST + self.states.len() as u64 - 1
    }

    fn at(&self, revision: u64) -> &Objects {
        &self.states[usize::try_from(revision - FIRST).unwrap()]
    }

    fn now(&self) -> &Objects {
        self.at(self.revision())
    }

    fn list(&self, resource: &str, revision: u64) -> Vec<(Key, Arc<Entry>)> {
        let all = self.at(revision).iter();
        all.filter(|((of, _), _)| of.as_ref() == resource).map(|(_, object)| object.clone()).collect()
    }

    /// What the store must answer, and the operations that ask it.
    fn commit(&mut self, planned: &[Planned]) -> (Vec<Op>, Answer) {
        let mut ops = Vec::new();
        let mut states: Vec<Objects> = Vec::new();
        let mut writes = Vec::new();
        let mut refused = None;
        for (index, plan) in planned.iter().enumerate() {
            let objects = states.last().unwrap_or_else(|| self.now());
            let current = objects.get(&place(&plan.key)).map(|(_, entry)| entry.clone());
            let revision = current.as_ref().map_or(7, |entry| entry.revision);
            let (expected, holds) = match plan.demand {
                Demand::Nothing => (None, plan.body.is_some() || current.is_some()),
                Demand::Absent if plan.body.is_some() => (None, current.is_none()),
                Demand::Absent | Demand::Current => (Some(revision), current.is_some()),
                Demand::Stale => (Some(revision + 1000), false),
            };
            let labels = Labels::from_iter(plan.labels.clone());
            ops.push(match &plan.body {
                Some(body) => Op::Put {
                    key: plan.key.clone(),
                    expect: match (plan.demand, expected) {
                        (Demand::Absent, _) => Expect::Absent,
                        (_, Some(revision)) => Expect::Revision(revision),
                        (_, None) => Expect::Any,
                    },
                    body: body.clone().into(),
                    labels: labels.clone(),
                },
                None => Op::Delete { key: plan.key.clone(), revision: expected },
            });
            if refused.is_some() {
                continue;
            }
            if !holds {
                refused = Some((index, current));
                continue;
            }
            let revision = self.revision() + states.len() as u64 + 1;
            let mut objects = objects.clone();
            let after = plan
                .body
                .as_ref()
                .map(|body| Arc::new(Entry { body: body.clone().into(), revision, labels }));
            match &after {
                Some(entry) => objects.insert(place(&plan.key), (plan.key.clone(), entry.clone())),
                None => objects.remove(&place(&plan.key)),
            };
            states.push(objects);
            writes.push(Written { revision, key: plan.key.clone(), before: current, after });
        }
        if let Some(refused) = refused {
            return (ops, Err(refused));
        }
        let revisions = writes.iter().map(|write| write.revision).collect();
        self.states.append(&mut states);
        self.writes.append(&mut writes);
        (ops, Ok(revisions))
    }

    fn writes_after(&self, resource: &str, revision: u64) -> Vec<&Written> {
        let of = self.writes.iter().filter(|write| write.key.resource.as_ref() == resource);
        of.filter(|write| write.revision > revision).collect()
    }
}

fn place(key: &Key) -> (Arc<str>, String) {
    (key.resource.clone(), format!("{}/{}", key.namespace, key.name))
}

fn keyed(resource: &str, items: &[Item]) -> Vec<(Key, Arc<Entry>)> {
    items
        .iter()
        .map(|item| (Key::new(resource, item.namespace.clone(), item.name.clone()), item.entry.clone()))
        .collect()
}

/// A list in pages of two.
fn paged(store: &Store, query: ListQuery) -> Result<Vec<Item>, ReadError> {
    let mut items: Vec<Item> = Vec::new();
    let mut after: Option<(Arc<str>, Arc<str>)> = None;
    let total = store.list(&query)?.items.len();
    loop {
        let start_after = after.as_ref().map(|(namespace, name)| (namespace.as_ref(), name.as_ref()));
        let page = store.list(&ListQuery { start_after, limit: Some(2), ..query })?;
        items.extend(page.items);
        assert_eq!(items.len() + page.remaining, total);
        if page.remaining == 0 {
            return Ok(items);
        }
        after = page.last;
    }
}

/// Everything the store says about every revision, compared with the model. Answers the floors.
fn check(store: &Store, model: &Model) -> Vec<u64> {
    assert_eq!(store.revision(), model.revision());
    assert_eq!(store.stats().objects, model.now().len());
    for (key, entry) in model.now().values() {
        assert_eq!(store.get(key).as_ref(), Some(entry));
    }
    RESOURCES.iter().map(|resource| check_resource(store, model, resource)).collect()
}

fn check_resource(store: &Store, model: &Model, resource: &str) -> u64 {
    let latest = model.list(resource, model.revision());
    let mut floor = 0;
    for revision in 0..=model.revision() + 1 {
        let query = ListQuery { at: ListAt::Exact(revision), ..ListQuery::all(resource) };
        let listed = store.list(&query);
        let watched = store.watch(resource, revision);
        match listed {
            Err(ReadError::Compacted { floor: told }) => {
                assert!(revision < told && (floor == 0 || floor == told));
                assert_eq!(watched.err(), Some(ReadError::Compacted { floor: told }));
                floor = told;
                continue;
            }
            Err(ReadError::Future { current }) => {
                assert_eq!((current, revision), (model.revision(), model.revision() + 1));
                assert_eq!(watched.err(), Some(ReadError::Future { current }));
                continue;
            }
            Ok(snapshot) => {
                assert!(revision >= floor);
                check_list(store, query, &snapshot, &model.list(resource, revision));
            }
        }
        let mut replayed: BTreeMap<_, _> =
            model.list(resource, revision).into_iter().map(|object| (place(&object.0), object)).collect();
        let mut writes = model.writes_after(resource, revision).into_iter();
        let mut watch = watched.unwrap();
        for event in drain(&mut watch).unwrap() {
            let write = writes.next().unwrap();
            check_event(&event, write);
            match event.kind {
                EventKind::Deleted => replayed.remove(&place(&event.key)),
                _ => replayed.insert(place(&event.key), (event.key.clone(), event.entry.clone())),
            };
        }
        assert_eq!(writes.count(), 0);
        assert_eq!(watch.seen(), model.revision());
        assert_eq!(replayed.into_values().collect::<Vec<_>>(), latest);
    }
    assert_eq!(keyed(resource, &store.list(&ListQuery::all(resource)).unwrap().items), latest);
    floor.max(FIRST)
}

fn check_list(store: &Store, query: ListQuery, snapshot: &Snapshot, expected: &[(Key, Arc<Entry>)]) {
    assert_eq!(keyed(query.resource, &snapshot.items), expected);
    assert_eq!(paged(store, query).unwrap(), snapshot.items);
    for namespace in NAMESPACES {
        let inside = paged(store, ListQuery { namespace: Some(namespace), ..query }).unwrap();
        let expected: Vec<_> =
            expected.iter().filter(|(key, _)| key.namespace.as_ref() == namespace).cloned().collect();
        assert_eq!(keyed(query.resource, &inside), expected);
    }
    let mut looked_at = 0;
    let first = store
        .list_filtered(&ListQuery { limit: Some(1), ..query }, &mut |item| {
            looked_at += 1;
            item.entry.labels.get("odd").is_some()
        })
        .unwrap();
    let matching = expected.iter().position(|(_, entry)| entry.labels.get("odd").is_some());
    assert_eq!(keyed(query.resource, &first.items).first(), matching.map(|at| &expected[at]));
    assert_eq!(looked_at, matching.map_or(expected.len(), |at| at + 1));
    assert_eq!(first.remaining, expected.len() - looked_at);
}

fn check_event(event: &koinon_apiserver::store::Event, write: &Written) {
    assert_eq!((event.revision, &event.key), (write.revision, &write.key));
    assert_eq!(event.previous, write.before);
    let (kind, entry) = match (&write.before, &write.after) {
        (None, Some(after)) => (EventKind::Added, after),
        (Some(_), Some(after)) => (EventKind::Modified, after),
        (Some(before), None) => (EventKind::Deleted, before),
        (None, None) => unreachable!("a write changes something"),
    };
    assert_eq!((event.kind, &event.entry), (kind, entry));
}

fn drain(watch: &mut Watch) -> Result<Vec<Arc<koinon_apiserver::store::Event>>, WatchError> {
    let mut events = Vec::new();
    loop {
        let more = watch.try_next()?;
        if more.is_empty() {
            return Ok(events);
        }
        events.extend(more);
    }
}

/// A watch that lives on while the run goes on, and how far it has come.
struct Live {
    resource: &'static str,
    watch: Watch,
    seen: u64,
}

impl Live {
    fn all(store: &Store) -> Vec<Live> {
        let start = |resource| {
            let seen = store.revision();
            Live { resource, watch: store.watch(resource, seen).unwrap(), seen }
        };
        RESOURCES.into_iter().map(start).collect()
    }

    /// Compares what is new with the model; a watch that fell behind starts anew.
    fn poll(&mut self, store: &Store, model: &Model) {
        let missed = model.writes_after(self.resource, self.seen);
        match drain(&mut self.watch) {
            Ok(events) => {
                assert_eq!(events.len(), missed.len());
                events.iter().zip(missed).for_each(|(event, write)| check_event(event, write));
            }
            Err(WatchError::Compacted { floor }) => {
                assert!(missed.first().is_some_and(|write| write.revision <= floor));
                assert_eq!(self.watch.seen(), self.seen, "what was missed does not count as seen");
                self.watch = store.watch(self.resource, store.revision()).unwrap();
            }
            Err(WatchError::Closed) => panic!("nobody closed the store"),
        }
        self.seen = self.watch.seen();
        assert_eq!(self.seen, model.revision());
    }
}

async fn run(steps: Vec<Step>, options: Options, dir: Option<&Path>) -> (Store, Model, u64) {
    let context = Context::real();
    let open = || match dir {
        Some(dir) => Store::open(dir, options, &context).unwrap(),
        None => Store::in_memory(options, &context),
    };
    let mut store = open();
    let mut model = Model::new();
    let mut live = Live::all(&store);
    let mut base = FIRST;
    for step in steps {
        match step {
            Step::Commit(planned) => {
                let (ops, expected) = model.commit(&planned);
                let answer = match store.commit(ops).await {
                    Ok(committed) => Ok(committed.revisions),
                    Err(CommitError::Conflict { index, current }) => Err((index, current)),
                    Err(error) => panic!("{error}"),
                };
                assert_eq!(answer, expected);
            }
            Step::Poll => live.iter_mut().for_each(|watch| watch.poll(&store, &model)),
            Step::Reopen if dir.is_some() => {
                let id = store.id().to_owned();
                store.close().await;
                store = open();
                assert_eq!(store.id(), id);
                base = model.revision();
                live = Live::all(&store);
            }
            Step::Reopen => {}
        }
        assert!(store.stats().history_bytes <= options.history_bytes);
    }
    live.iter_mut().for_each(|watch| watch.poll(&store, &model));
    (store, model, base)
}

fn planned() -> impl Strategy<Value = Planned> {
    let key = (0..2usize, 0..3usize, 0..3usize);
    let body = proptest::option::weighted(0.7, proptest::collection::vec(any::<u8>(), 0..40));
    let demand = prop_oneof![
        4 => Just(Demand::Nothing),
        2 => Just(Demand::Current),
        2 => Just(Demand::Absent),
        1 => Just(Demand::Stale),
    ];
    (key, body, demand, any::<bool>()).prop_map(|((resource, namespace, name), body, demand, odd)| Planned {
        key: Key::new(RESOURCES[resource], NAMESPACES[namespace], NAMES[name]),
        body,
        labels: odd.then(|| ("odd".to_owned(), "yes".to_owned())).into_iter().collect(),
        demand,
    })
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => proptest::collection::vec(planned(), 1..2).prop_map(Step::Commit),
        3 => proptest::collection::vec(planned(), 2..5).prop_map(Step::Commit),
        2 => Just(Step::Poll),
        1 => Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 1..most)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn in_memory_every_revision_is_what_it_was(steps in steps(40)) {
        let (store, model, base) = runtime().block_on(run(steps, Options::default(), None));
        prop_assert_eq!(check(&store, &model), [base; 2]);
    }

    #[test]
    fn a_short_history_says_so_and_tells_nothing_wrong(
        steps in steps(40),
        events_per_resource in 0..9usize,
        history_bytes in prop_oneof![0..4000usize, Just(1 << 20)],
    ) {
        let options = Options { events_per_resource, history_bytes, ..Options::default() };
        let (store, model, _) = runtime().block_on(run(steps, options, None));
        check(&store, &model);
        prop_assert!(store.stats().events <= RESOURCES.len() * events_per_resource);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn on_disk_every_revision_since_the_start_is_what_it_was(steps in steps(25)) {
        let dir = tempfile::tempdir().unwrap();
        let runtime = runtime();
        let (store, model, base) = runtime.block_on(run(steps, Options::default(), Some(dir.path())));
        prop_assert_eq!(check(&store, &model), [base; 2]);
        runtime.block_on(store.close());
        let store = Store::open(dir.path(), Options::default(), &Context::real()).unwrap();
        prop_assert_eq!(check(&store, &model), [model.revision(); 2]);
        runtime.block_on(store.close());
    }
}
