//! Who is told when something changed that belongs to them, or could.

use std::fmt::Debug;
use std::sync::Arc;

use koinon_control::queue::Queue;
use koinon_control::{Key, View};
use kube::core::{Selector, SelectorExt as _};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::owned::controller_of;

/// The object of a kind that another says it belongs to.
pub(crate) fn keeper<K: Resource<DynamicType = ()>>(kept: &impl Resource) -> Option<Key> {
    let owner = controller_of(kept).filter(|owner| owner.kind == K::kind(&()))?;
    Some(Key::new(kept.namespace().unwrap_or_default(), &owner.name))
}

/// Has every keeper looked at that changed, or that a change of what it keeps may concern.
pub(crate) fn listen<K, T>(
    keepers: &Arc<View<K>>,
    kept: &Arc<View<T>>,
    queue: &Arc<Queue<Key>>,
    selector: fn(&K) -> Option<Selector>,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    T: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let wake = queue.clone();
    keepers.on_change(move |before, after| {
        if let Some(keeper) = after.or(before) {
            wake.add(Key::of(&**keeper));
        }
    });
    let wake = queue.clone();
    follow(keepers, kept, selector, move |key| wake.add(key));
}

/// Calls `wake` for every keeper that a change of what it keeps may concern.
pub(crate) fn follow<K, T>(
    keepers: &Arc<View<K>>,
    kept: &Arc<View<T>>,
    selector: fn(&K) -> Option<Selector>,
    wake: impl Fn(Key) + Send + Sync + 'static,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    T: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let keepers = keepers.clone();
    kept.on_change(move |before, after| {
        let of = |kept: &Arc<T>| keeper::<K>(&**kept);
        let (was, is) = (before.and_then(of), after.and_then(of));
        if was != is
            && let Some(key) = was
        {
            wake(key);
        }
        match (is, after) {
            (Some(key), _) => wake(key),
            // An orphan is news to those it matches, when it became one or was labelled otherwise.
            (None, Some(kept)) if controller_of(&**kept).is_none() => {
                let known = before.is_some_and(|before| {
                    controller_of(&**before).is_none() && before.labels() == kept.labels()
                });
                if !known {
                    for keeper in keepers.in_namespace(&kept.namespace().unwrap_or_default()) {
                        if selector(&keeper).is_some_and(|selector| selector.matches(kept.labels())) {
                            wake(Key::of(&*keeper));
                        }
                    }
                }
            }
            (None, _) => {}
        }
    });
}
