//! Which objects belong to which controller, and which to none: kept up to date by a view's changes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use koinon_control::{Key, View};
use kube::{Resource, ResourceExt as _};
use parking_lot::Mutex;

/// The reference to the controller of an object, if it has one.
pub(crate) fn controller_of(object: &impl Resource) -> Option<&OwnerReference> {
    object.owner_references().iter().find(|owner| owner.controller == Some(true))
}

/// Objects of one kind by the uid of their controller; orphans by namespace.
#[derive(Default)]
pub(crate) struct Owned {
    places: Mutex<HashMap<Place, BTreeSet<Key>>>,
}

#[derive(PartialEq, Eq, Hash)]
enum Place {
    With(String),
    OrphanIn(String),
}

impl Place {
    fn of(object: &impl Resource) -> Place {
        match controller_of(object) {
            Some(owner) => Place::With(owner.uid.clone()),
            None => Place::OrphanIn(object.namespace().unwrap_or_default()),
        }
    }
}

impl Owned {
    /// Takes in a change of the view.
    pub(crate) fn take<K: Resource>(&self, before: Option<&Arc<K>>, after: Option<&Arc<K>>) {
        let was = before.map(|object| Place::of(&**object));
        let is = after.map(|object| Place::of(&**object));
        if was == is {
            return;
        }
        let mut places = self.places.lock();
        if let (Some(place), Some(object)) = (was, before)
            && let Some(keys) = places.get_mut(&place)
        {
            keys.remove(&Key::of(&**object));
            if keys.is_empty() {
                places.remove(&place);
            }
        }
        if let (Some(place), Some(object)) = (is, after) {
            places.entry(place).or_default().insert(Key::of(&**object));
        }
    }

    /// The objects whose controller has this uid, by name.
    pub(crate) fn by<K>(&self, view: &View<K>, uid: &str) -> Vec<Arc<K>>
    where
        K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    {
        self.at(view, &Place::With(uid.to_owned()))
    }

    /// The objects of a namespace that no controller has, by name.
    pub(crate) fn orphans<K>(&self, view: &View<K>, namespace: &str) -> Vec<Arc<K>>
    where
        K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    {
        self.at(view, &Place::OrphanIn(namespace.to_owned()))
    }

    fn at<K>(&self, view: &View<K>, place: &Place) -> Vec<Arc<K>>
    where
        K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    {
        let keys: Vec<Key> = self.places.lock().get(place).into_iter().flatten().cloned().collect();
        keys.iter().filter_map(|key| view.get(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn object(name: &str, owner: Option<&str>) -> Arc<ConfigMap> {
        let owners: Vec<_> = owner
            .iter()
            .map(|uid| json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": true}))
            .collect();
        let object = json!({"metadata": {"namespace": "default", "name": name, "ownerReferences": owners}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn an_object_is_in_one_place_and_leaves_nothing_behind() {
        let owned = Owned::default();
        let names = |place: Place| -> Vec<String> {
            owned.places.lock().get(&place).into_iter().flatten().map(|key| key.name.clone()).collect()
        };
        let (orphan, mine) = (object("a", None), object("a", Some("1")));
        owned.take(None, Some(&orphan));
        assert_eq!(names(Place::OrphanIn("default".into())), ["a"]);
        owned.take(Some(&orphan), Some(&mine));
        assert!(names(Place::OrphanIn("default".into())).is_empty());
        assert_eq!(names(Place::With("1".into())), ["a"]);
        owned.take(Some(&mine), Some(&object("a", Some("2"))));
        assert_eq!(names(Place::With("2".into())), ["a"]);
        owned.take(Some(&object("a", Some("2"))), None);
        assert!(owned.places.lock().is_empty());
    }
}
