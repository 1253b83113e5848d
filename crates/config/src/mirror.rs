//! What one kind of objects looks like in one cluster: complete lists, moved forward by a watch. No IO.

use std::collections::BTreeMap;
use std::sync::Arc;

use koinon_control::Key;
use kube::core::DynamicObject;

use crate::model::{Objects, Sight};

/// The objects of one kind in one cluster, at one point of its history.
///
/// Lists are the truth and come again and again; a watch only makes them quicker. So a watch that dies
/// silently costs a delay and never an error.
#[derive(Debug)]
pub(crate) struct Mirror {
    state: Sight<BTreeMap<Key, Arc<DynamicObject>>>,
    /// The version of the list or of the event that it shows.
    point: u64,
    /// It is lost because the server refuses it.
    refused: bool,
    /// How often we wrote; and up to which of these writes a list has been seen since.
    writes: u64,
    settled: u64,
}

/// A list that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    point: u64,
    writes: u64,
}

/// Whether a list told anything.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Taken,
    /// The watch was quicker; another list is needed.
    Overtaken,
}

impl Default for Mirror {
    fn default() -> Self {
        Mirror { state: Sight::Pending, point: 0, refused: false, writes: 0, settled: 0 }
    }
}

impl Mirror {
    pub(crate) fn objects(&self) -> Sight<Objects> {
        match &self.state {
            Sight::Pending => Sight::Pending,
            Sight::Lost(why) => Sight::Lost(why.clone()),
            Sight::Seen(objects) => Sight::Seen(objects.values().cloned().collect()),
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

    pub(crate) fn ask(&self) -> Asked {
        Asked { point: self.point, writes: self.writes }
    }

    /// Takes in a complete list.
    pub(crate) fn listed(&mut self, asked: Asked, version: u64, objects: Vec<DynamicObject>) -> Answer {
        // Events came while the list was on its way, and it is older than they are. A list that is older
        // than what we had when we asked is another matter: the cluster itself went back, say to a backup.
        if version < self.point && asked.point < self.point {
            return Answer::Overtaken;
        }
        let objects = objects.into_iter().map(|object| (Key::of(&object), Arc::new(small(object))));
        self.state = Sight::Seen(objects.collect());
        self.point = version;
        self.settled = self.settled.max(asked.writes);
        Answer::Taken
    }

    /// Takes in an object that the watch showed, or showed the end of. Says whether that was news.
    pub(crate) fn event(&mut self, object: DynamicObject, gone: bool) -> bool {
        let Sight::Seen(objects) = &mut self.state else { return false };
        let version = version(object.metadata.resource_version.as_deref());
        if version <= self.point {
            return false;
        }
        self.point = version;
        let key = Key::of(&object);
        if gone {
            objects.remove(&key);
        } else {
            objects.insert(key, Arc::new(small(object)));
        }
        true
    }

    /// There is no answer any more, or one that refuses it.
    pub(crate) fn lost(&mut self, why: String, refused: bool) {
        self.state = Sight::Lost(why);
        self.refused = refused;
    }

    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.state, Sight::Lost(_)) && self.refused
    }

    /// Starts over: what was seen says nothing about now.
    pub(crate) fn forget(&mut self) {
        self.state = Sight::Pending;
    }
}

/// A version as a number; servers number their history.
pub(crate) fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
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
            Sight::Pending => "pending".into(),
            Sight::Lost(why) => why,
            Sight::Seen(objects) => {
                let one = |one: &Arc<DynamicObject>| {
                    format!("{}={}", one.name_any(), one.resource_version().unwrap())
                };
                objects.iter().map(one).collect::<Vec<_>>().join(" ")
            }
        }
    }

    fn listed(version: u64, objects: &[(&str, u64)]) -> Mirror {
        let mut mirror = Mirror::default();
        let objects = objects.iter().map(|(name, version)| object(name, *version)).collect();
        mirror.listed(mirror.ask(), version, objects);
        mirror
    }

    #[test]
    fn events_move_it_forward_and_never_back() {
        let mut mirror = listed(10, &[("a", 3), ("b", 9)]);
        assert!(!mirror.event(object("gone", 8), false), "it was deleted before the list");
        assert!(mirror.event(object("a", 11), false));
        assert!(mirror.event(object("b", 12), true));
        assert!(!mirror.event(object("a", 3), true));
        assert_eq!(shown(&mirror), "a=11");
    }

    #[test]
    fn a_list_that_events_overtook_is_not_taken() {
        let mut mirror = listed(10, &[("a", 3)]);
        let asked = mirror.ask();
        mirror.event(object("a", 12), false);
        assert_eq!(mirror.listed(asked, 11, vec![object("a", 3)]), Answer::Overtaken);
        assert_eq!(shown(&mirror), "a=12");
        assert_eq!(mirror.listed(mirror.ask(), 12, vec![object("a", 12)]), Answer::Taken);
    }

    #[test]
    fn a_cluster_that_went_back_in_time_is_believed() {
        let mut mirror = listed(100, &[("a", 90)]);
        assert_eq!(mirror.listed(mirror.ask(), 50, vec![object("a", 40)]), Answer::Taken);
        assert_eq!(shown(&mirror), "a=40");
        assert!(mirror.event(object("a", 51), false));
    }

    #[test]
    fn a_write_counts_as_seen_after_a_list_that_was_asked_for_later() {
        let mut mirror = listed(10, &[]);
        assert!(mirror.is_settled());
        let early = mirror.ask();
        mirror.wrote();
        mirror.listed(early, 11, Vec::new());
        assert!(!mirror.is_settled());
        let late = mirror.ask();
        mirror.listed(late, 12, Vec::new());
        assert!(mirror.is_settled());
    }

    #[test]
    fn what_is_lost_says_nothing_until_it_is_listed_again() {
        let mut mirror = listed(10, &[("a", 3)]);
        mirror.lost("no answer".into(), false);
        assert!(!mirror.event(object("a", 11), false));
        assert_eq!(shown(&mirror), "no answer");
        mirror.forget();
        assert_eq!(shown(&mirror), "pending");
        mirror.listed(mirror.ask(), 12, vec![object("a", 11)]);
        assert_eq!(shown(&mirror), "a=11");
    }
}
