//! What a controller knows of the objects of one kind: what its watch showed, and what it wrote itself.

use std::convert::Infallible;
use std::fmt::Debug;
use std::ops::Bound;
use std::sync::Arc;

use kube::{Api, Resource};
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::sync::watch::Sender;

pub use crate::store::Key;
use crate::store::{Change, Store, version};
use crate::watch::{Cut, Lists, Selection, Sink, Watch};

type Listener<K> = Box<dyn Fn(Option<&Arc<K>>, Option<&Arc<K>>) + Send + Sync>;

/// The objects of one kind in one cluster.
///
/// It may be behind the server, but never behind its own controllers: whoever writes hands the answer to
/// [`View::learn`], so that the next decision already counts with it.
pub struct View<K> {
    state: RwLock<Store<Arc<K>>>,
    listeners: RwLock<Vec<Listener<K>>>,
    /// One change at a time, so that listeners hear them in order.
    changing: Mutex<()>,
    listed: Sender<bool>,
    /// Told after every change.
    changed: Sender<()>,
    slim: fn(&mut K),
}

impl<K> View<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// A view that keeps whole objects, but for `managedFields`.
    pub fn new() -> Arc<View<K>> {
        View::keeping(|_| {})
    }

    /// A view that drops from each object what its controllers never read.
    pub fn keeping(slim: fn(&mut K)) -> Arc<View<K>> {
        Arc::new(View {
            state: RwLock::default(),
            listeners: RwLock::default(),
            changing: Mutex::default(),
            listed: Sender::new(false),
            changed: Sender::new(()),
            slim,
        })
    }

    /// Calls `listener` with every object before and after it changed. It must not block; usually it adds
    /// keys to a queue. Objects that are there already are announced to it first.
    pub fn on_change(&self, listener: impl Fn(Option<&Arc<K>>, Option<&Arc<K>>) + Send + Sync + 'static) {
        let _one_at_a_time = self.changing.lock();
        for object in self.all() {
            listener(None, Some(&object));
        }
        self.listeners.write().push(Box::new(listener));
    }

    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.state.read().objects().get(key).cloned()
    }

    /// The objects of one namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let state = self.state.read();
        let from = Key::new(namespace, "");
        let range = state.objects().range((Bound::Included(from), Bound::Unbounded));
        range.take_while(|(key, _)| key.namespace == namespace).map(|(_, object)| object.clone()).collect()
    }

    /// All objects, by namespace and name.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.state.read().objects().values().cloned().collect()
    }

    /// Waits until the objects were listed once; before that, what is not in the view is unknown.
    pub async fn listed(&self) {
        let mut listed = self.listed.subscribe();
        // The sender lives as long as the view, so this cannot fail.
        let _ = listed.wait_for(|listed| *listed).await;
    }

    /// Waits until the objects, listed completely, are as `wanted`.
    pub async fn until(&self, wanted: impl Fn(&[Arc<K>]) -> bool) {
        let mut changed = self.changed.subscribe();
        self.listed().await;
        while !wanted(&self.all()) {
            // As above: the sender is ours.
            let _ = changed.changed().await;
        }
    }

    /// Takes in the server's answer to a write of ours.
    pub fn learn(&self, mut object: K) {
        self.trim(&mut object);
        self.change(|state| state.record_own_write(Key::of(&object), Arc::new(object)));
    }

    /// Takes in that the server, asked to delete this very object, did so at once.
    pub fn forget(&self, key: &Key, uid: &str) {
        self.change(|state| state.forget(key, |known| known.meta().uid.as_deref() == Some(uid)));
    }

    /// Follows the objects of `api` for as long as it is polled.
    pub async fn follow(&self, api: Api<K>) -> Infallible {
        self.follow_selected(api, Selection::default()).await
    }

    /// Follows only those objects of `api` that a field selector selects, by fields that never change: what
    /// is written to the others must not be learned here.
    pub async fn follow_fields(&self, api: Api<K>, fields: &str) -> Infallible {
        self.follow_selected(api, Selection { fields: Some(fields.into()), ..Selection::default() }).await
    }

    /// Follows only those objects of `api` that a label selector selects; others are never asked for.
    pub async fn follow_labels(&self, api: Api<K>, labels: &str) -> Infallible {
        self.follow_selected(api, Selection { labels: Some(labels.into()), ..Selection::default() }).await
    }

    async fn follow_selected(&self, api: Api<K>, selection: Selection) -> Infallible {
        let selection = Selection { lists: Lists::Paged, ..selection };
        let what = api.resource_url().to_owned();
        // Boxed: a watch is large, and views are followed side by side in one task.
        let name = what.clone();
        Box::pin(Watch::new(api, Filling { view: self, what }, selection).named("", name).run()).await
    }

    fn trim(&self, object: &mut K) {
        object.meta_mut().managed_fields = None;
        (self.slim)(object);
    }

    fn change(&self, change: impl FnOnce(&mut Store<Arc<K>>) -> Vec<Change<Arc<K>>>) {
        let _one_at_a_time = self.changing.lock();
        let changes = change(&mut self.state.write());
        let listeners = self.listeners.read();
        for Change { before, after, .. } in &changes {
            for listener in listeners.iter() {
                listener(before.as_ref(), after.as_ref());
            }
        }
        if !changes.is_empty() {
            self.changed.send_replace(());
        }
    }
}

/// A view that a watch fills.
struct Filling<'a, K> {
    view: &'a View<K>,
    /// The path of its objects.
    what: String,
}

impl<K> Sink<K> for Filling<'_, K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    fn begin_list(&mut self) {
        let _one_at_a_time = self.view.changing.lock();
        self.view.state.write().begin_list();
    }

    fn list(&mut self, mut object: K) {
        self.view.trim(&mut object);
        let _one_at_a_time = self.view.changing.lock();
        self.view.state.write().list(Key::of(&object), Arc::new(object));
    }

    fn end_list(&mut self, version: u64) {
        self.view.change(|state| state.end_list(version));
        self.view.listed.send_replace(true);
    }

    fn drop_list(&mut self) {
        let _one_at_a_time = self.view.changing.lock();
        self.view.state.write().drop_list();
    }

    fn apply(&mut self, mut object: K) {
        self.view.trim(&mut object);
        self.view.change(|state| state.apply(Key::of(&object), Arc::new(object)));
    }

    fn delete(&mut self, object: K) {
        self.view.change(|state| {
            let uid = &object.meta().uid;
            state.delete(&Key::of(&object), version(&object), |known| known.meta().uid == *uid)
        });
    }

    fn observed_up_to(&mut self, version: u64) {
        self.view.change(|state| state.observed_up_to(version));
    }

    fn cut(&mut self, cut: &Cut) {
        tracing::debug!(url = self.what, %cut, "watch failed");
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt as _;
    use kube::api::ObjectMeta;

    use super::*;

    fn object(name: &str, version: u64) -> ConfigMap {
        let metadata = ObjectMeta {
            namespace: Some("default".into()),
            name: Some(name.into()),
            uid: Some(format!("uid-{name}")),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    /// What is in the view, and what its listeners heard so far.
    struct Seen {
        view: Arc<View<ConfigMap>>,
        heard: Arc<Mutex<Vec<String>>>,
    }

    impl Seen {
        fn listed(objects: &[(&str, u64)]) -> Seen {
            let view = View::<ConfigMap>::new();
            let heard = Arc::new(Mutex::new(Vec::new()));
            let ears = heard.clone();
            view.on_change(move |before, after| {
                let version = |one: Option<&Arc<ConfigMap>>| one.map_or(0, |one| super::version(&**one));
                let name = before.or(after).map(|one| one.name_any()).unwrap_or_default();
                ears.lock().push(format!("{name} {}>{}", version(before), version(after)));
            });
            let seen = Seen { view, heard };
            seen.list(objects);
            seen.heard.lock().clear();
            seen
        }

        fn list(&self, objects: &[(&str, u64)]) {
            self.watch().begin_list();
            for (name, version) in objects {
                self.watch().list(object(name, *version));
            }
            self.watch().end_list(0);
        }

        fn watch(&self) -> Filling<'_, ConfigMap> {
            Filling { view: &self.view, what: String::new() }
        }

        #[track_caller]
        fn check(&self, objects: &str, heard: &str) {
            let now: Vec<_> = self
                .view
                .in_namespace("default")
                .iter()
                .map(|one| format!("{}={}", one.name_any(), super::version(&**one)))
                .collect();
            assert_eq!(now.join(" "), objects);
            assert_eq!(std::mem::take(&mut *self.heard.lock()).join(", "), heard);
        }
    }

    #[test]
    fn what_we_wrote_is_there_before_the_watch_shows_it_and_heard_once_more_then() {
        let seen = Seen::listed(&[("a", 1)]);
        seen.view.learn(object("b", 5));
        seen.check("a=1 b=5", "b 0>5");
        seen.watch().apply(object("b", 5));
        seen.check("a=1 b=5", "b 5>5");
    }

    #[test]
    fn an_answer_that_the_watch_overtook_brings_nothing_back() {
        let seen = Seen::listed(&[("a", 1)]);
        seen.watch().apply(object("b", 5));
        seen.watch().delete(object("b", 6));
        seen.view.learn(object("b", 5));
        seen.check("a=1", "b 0>5, b 5>0");
    }

    #[test]
    fn an_older_event_does_not_undo_a_newer_answer() {
        let seen = Seen::listed(&[("a", 1)]);
        seen.view.learn(object("a", 7));
        seen.watch().apply(object("a", 4));
        seen.check("a=7", "a 1>7");
        seen.watch().apply(object("a", 7));
        seen.watch().apply(object("b", 9));
        seen.check("a=7 b=9", "a 7>7, b 0>9");
    }

    #[test]
    fn what_the_watch_passed_by_without_showing_is_gone() {
        let seen = Seen::listed(&[("a", 1)]);
        seen.view.learn(object("b", 5));
        seen.watch().apply(object("a", 8));
        seen.check("a=8", "b 0>5, b 5>0, a 1>8");
    }

    #[test]
    fn a_list_replaces_all_but_what_was_written_after_it() {
        let seen = Seen::listed(&[("a", 1), ("b", 2)]);
        seen.watch().begin_list();
        seen.view.learn(object("c", 4));
        seen.view.learn(object("d", 9));
        seen.heard.lock().clear();
        for (name, version) in [("b", 2), ("e", 6)] {
            seen.watch().list(object(name, version));
        }
        seen.watch().end_list(0);
        seen.check("b=2 d=9 e=6", "a 1>0, c 4>0, e 0>6");
    }

    #[test]
    fn what_we_wrote_before_a_list_and_is_not_in_it_is_gone() {
        let seen = Seen::listed(&[("a", 1)]);
        seen.view.learn(object("b", 5));
        seen.view.learn(object("a", 6));
        seen.heard.lock().clear();
        // The watch was cut before it showed them. Meanwhile b was deleted, which left no object with a newer version.
        seen.list(&[("a", 6)]);
        seen.check("a=6", "b 5>0");
        seen.view.learn(object("c", 9));
        seen.heard.lock().clear();
        seen.list(&[("a", 6)]);
        seen.check("a=6", "c 9>0");
    }

    #[test]
    fn forgetting_means_one_object_and_not_its_successor() {
        let seen = Seen::listed(&[("a", 1)]);
        let key = Key::new("default", "a");
        seen.view.forget(&key, "another");
        seen.check("a=1", "");
        seen.view.forget(&key, "uid-a");
        seen.check("", "a 1>0");
    }

    #[tokio::test]
    async fn who_waits_is_told_of_a_change() {
        let seen = Seen::listed(&[("a", 1)]);
        let view = seen.view.clone();
        let waiting = tokio::spawn(async move { view.until(|all| all.len() == 2).await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        seen.view.learn(object("b", 2));
        waiting.await.unwrap();
    }

    #[test]
    fn a_late_listener_hears_what_is_there() {
        let seen = Seen::listed(&[("a", 1)]);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ears = heard.clone();
        seen.view.on_change(move |_, after| ears.lock().extend(after.map(|one| one.name_any())));
        assert_eq!(*heard.lock(), ["a"]);
    }
}
