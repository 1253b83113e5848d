//! Which objects belong to which controller, and which to none: kept up to date by a view's changes.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use koinon_control::View;
use kube::{Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

/// The reference to the controller of an object, if it has one.
pub(crate) fn controller_of(object: &impl Resource) -> Option<&OwnerReference> {
    object.owner_references().iter().find(|owner| owner.controller == Some(true))
}

/// Objects of one kind by the uid of their controller; orphans by namespace. Within a place, by name.
pub(crate) struct Owned<K> {
    places: Mutex<HashMap<Place, BTreeMap<String, Arc<K>>>>,
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

impl<K> Default for Owned<K> {
    fn default() -> Self {
        Owned { places: Mutex::default() }
    }
}

impl<K> Owned<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Keeps in step with a view. What asks it from a listener of that view has to listen after this.
    pub(crate) fn of(view: &View<K>) -> Arc<Owned<K>> {
        let owned = Arc::new(Owned::default());
        let book = owned.clone();
        view.on_change(move |before, after| book.take(before, after));
        owned
    }
}

impl<K: Resource> Owned<K> {
    /// Takes in a change of the view.
    fn take(&self, before: Option<&Arc<K>>, after: Option<&Arc<K>>) {
        let was = before.map(|object| Place::of(&**object));
        let is = after.map(|object| Place::of(&**object));
        let mut places = self.places.lock();
        if was != is
            && let (Some(place), Some(object)) = (was, before)
            && let Some(objects) = places.get_mut(&place)
        {
            objects.remove(&object.name_any());
            if objects.is_empty() {
                places.remove(&place);
            }
        }
        if let (Some(place), Some(object)) = (is, after) {
            places.entry(place).or_default().insert(object.name_any(), object.clone());
        }
    }

    /// The objects whose controller has this uid.
    pub(crate) fn by(&self, uid: &str) -> Vec<Arc<K>> {
        self.at(&Place::With(uid.to_owned()))
    }

    /// The objects of a namespace that no controller has.
    pub(crate) fn orphans(&self, namespace: &str) -> Vec<Arc<K>> {
        self.at(&Place::OrphanIn(namespace.to_owned()))
    }

    fn at(&self, place: &Place) -> Vec<Arc<K>> {
        self.places.lock().get(place).into_iter().flat_map(BTreeMap::values).cloned().collect()
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
        let names = |objects: Vec<Arc<ConfigMap>>| -> Vec<String> {
            objects.iter().map(|object| object.name_any()).collect()
        };
        let (orphan, mine) = (object("a", None), object("a", Some("1")));
        owned.take(None, Some(&orphan));
        assert_eq!(names(owned.orphans("default")), ["a"]);
        owned.take(Some(&orphan), Some(&mine));
        assert!(names(owned.orphans("default")).is_empty());
        assert_eq!(names(owned.by("1")), ["a"]);
        owned.take(Some(&mine), Some(&object("a", Some("2"))));
        assert_eq!(names(owned.by("2")), ["a"]);
        owned.take(Some(&object("a", Some("2"))), None);
        assert!(owned.places.lock().is_empty());
    }
}
