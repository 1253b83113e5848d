//! What one kind of objects looks like in one cluster: complete lists, moved forward by a watch. No IO.

use std::sync::Arc;

use koinon_control::Key;
use koinon_control::store::{Store, version};
use kube::core::DynamicObject;

use crate::model::{Objects, Observed};

/// The objects of one kind in one cluster, at one point of its history.
///
/// Lists are the truth and come again and again; a watch only makes them quicker. So a watch that dies
/// silently costs a delay and never an error.
pub(crate) struct Mirror {
    store: Store<Arc<DynamicObject>>,
    /// Whether what is in the store counts.
    state: Observed<()>,
    /// It is lost because the server refuses it.
    refused: bool,
    /// How often we wrote, and how often when the list began that is on its way; and up to which of these writes a list
    /// has been seen since.
    writes: u64,
    asked: u64,
    settled: u64,
}

impl Default for Mirror {
    fn default() -> Self {
        let (store, state) = (Store::default(), Observed::Pending);
        Mirror { store, state, refused: false, writes: 0, asked: 0, settled: 0 }
    }
}

impl Mirror {
    pub(crate) fn objects(&self) -> Observed<Objects> {
        match &self.state {
            Observed::Pending => Observed::Pending,
            Observed::Lost(why) => Observed::Lost(why.clone()),
            Observed::Seen(()) => Observed::Seen(self.store.objects().values().cloned().collect()),
        }
    }

    /// Whether all that we wrote here would be seen by now.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled == self.writes
    }

    /// Something was, or may have been, written: what is seen counts again after the next list.
    pub(crate) fn wrote(&mut self) {
        self.writes += 1;
    }

    /// A list begins, before the server is asked for it.
    pub(crate) fn begin_list(&mut self) {
        self.asked = self.writes;
        self.store.begin_list();
    }

    /// The list that was coming in does not come to its end.
    pub(crate) fn drop_list(&mut self) {
        self.store.drop_list();
    }

    pub(crate) fn list(&mut self, object: DynamicObject) {
        self.store.list(Key::of(&object), Arc::new(small(object)));
    }

    /// Takes over a complete list. One that is older than what we had is believed: the cluster itself went back, say to
    /// a backup. Events cannot have overtaken it, because one loop lists and watches in turn.
    pub(crate) fn end_list(&mut self, version: u64) {
        self.store.end_list(version);
        self.state = Observed::Seen(());
        self.settled = self.settled.max(self.asked);
    }

    /// Takes in an object that the watch showed. Says whether that was news.
    pub(crate) fn apply(&mut self, object: DynamicObject) -> bool {
        let news = self.is_news(&object);
        if news {
            self.store.apply(Key::of(&object), Arc::new(small(object)));
        }
        news
    }

    /// Takes in that the watch showed the end of an object. Says whether that was news.
    pub(crate) fn delete(&mut self, object: &DynamicObject) -> bool {
        let news = self.is_news(object);
        if news {
            self.store.delete(&Key::of(object), version(object), |_| true);
        }
        news
    }

    fn is_news(&self, object: &DynamicObject) -> bool {
        self.state == Observed::Seen(()) && version(object) > self.store.observed()
    }

    /// There is no answer any more, or one that refuses it.
    pub(crate) fn lost(&mut self, why: String, refused: bool) {
        self.state = Observed::Lost(why);
        self.refused = refused;
    }

    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.state, Observed::Lost(_)) && self.refused
    }

    /// Starts over: what was seen says nothing about now.
    pub(crate) fn forget(&mut self) {
        self.state = Observed::Pending;
    }
}

fn small(mut object: DynamicObject) -> DynamicObject {
    object.metadata.managed_fields = None;
    object
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt as _;
    use kube::core::ApiResource;

    use super::*;

    fn object(name: &str, version: u64) -> DynamicObject {
        let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("g.io", "v1", "Thing"));
        let mut object = DynamicObject::new(name, &resource).within("n");
        object.metadata.resource_version = Some(version.to_string());
        object
    }

    fn shown(mirror: &Mirror) -> String {
        match mirror.objects() {
            Observed::Pending => "pending".into(),
            Observed::Lost(why) => why,
            Observed::Seen(objects) => {
                let one = |one: &Arc<DynamicObject>| {
                    format!("{}={}", one.name_any(), one.resource_version().unwrap())
                };
                objects.iter().map(one).collect::<Vec<_>>().join(" ")
            }
        }
    }

    fn listed(version: u64, objects: &[(&str, u64)]) -> Mirror {
        let mut mirror = Mirror::default();
        list(&mut mirror, version, objects);
        mirror
    }

    fn list(mirror: &mut Mirror, version: u64, objects: &[(&str, u64)]) {
        mirror.begin_list();
        for (name, version) in objects {
            mirror.list(object(name, *version));
        }
        mirror.end_list(version);
    }

    #[test]
    fn events_move_it_forward_and_never_back() {
        let mut mirror = listed(10, &[("a", 3), ("b", 9)]);
        assert!(!mirror.apply(object("gone", 8)), "it was deleted before the list");
        assert!(mirror.apply(object("a", 11)));
        assert!(mirror.delete(&object("b", 12)));
        assert!(!mirror.delete(&object("a", 3)));
        assert_eq!(shown(&mirror), "a=11");
    }

    #[test]
    fn a_cluster_that_went_back_in_time_is_believed() {
        let mut mirror = listed(100, &[("a", 90)]);
        list(&mut mirror, 50, &[("a", 40)]);
        assert_eq!(shown(&mirror), "a=40");
        assert!(mirror.apply(object("a", 51)));
    }

    #[test]
    fn a_write_counts_as_seen_after_a_list_that_was_asked_for_later() {
        let mut mirror = listed(10, &[]);
        assert!(mirror.is_settled());
        mirror.begin_list();
        mirror.wrote();
        mirror.end_list(11);
        assert!(!mirror.is_settled());
        list(&mut mirror, 12, &[]);
        assert!(mirror.is_settled());
    }

    #[test]
    fn what_is_lost_says_nothing_until_it_is_listed_again() {
        let mut mirror = listed(10, &[("a", 3)]);
        mirror.lost("no answer".into(), false);
        assert!(!mirror.apply(object("a", 11)));
        assert_eq!(shown(&mirror), "no answer");
        mirror.forget();
        assert_eq!(shown(&mirror), "pending");
        list(&mut mirror, 12, &[("a", 11)]);
        assert_eq!(shown(&mirror), "a=11");
    }
}
