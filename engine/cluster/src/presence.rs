//! Which kinds have objects at all: what starts a controller that most clusters have no work for.
//!
//! A thousand clusters in one process have no StatefulSet among them on most days. The garbage collector watches
//! the metadata of every kind anyway, so it tells the others when it first sees an object of one; until then such a
//! controller has neither a watch, nor a view, nor listeners on the pods of its cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Resource;
use tokio::sync::watch::Sender;

/// A kind by its group and name.
type GroupKind = (String, String);

/// The kinds of one cluster that have or had an object.
#[derive(Clone, Debug, Default)]
pub struct Presence {
    /// None where nobody tells: then every kind may have objects.
    seen: Option<Arc<Sender<BTreeSet<GroupKind>>>>,
}

impl Presence {
    /// Every kind counts as present, for controllers that run without a garbage collector beside them.
    pub fn assumed() -> Presence {
        Presence::default()
    }

    /// No kind is present until somebody tells.
    pub fn told() -> Presence {
        Presence { seen: Some(Arc::default()) }
    }

    /// An object of this kind was seen. It counts from then on, also when the last one is gone.
    pub(crate) fn saw(&self, group: &str, kind: &str) {
        let Some(seen) = &self.seen else { return };
        seen.send_if_modified(|seen| seen.insert((group.to_owned(), kind.to_owned())));
    }

    /// Waits until any of these kinds is present.
    pub(crate) async fn any_of(&self, kinds: &[GroupKind]) {
        let Some(seen) = &self.seen else { return };
        let mut seen = seen.subscribe();
        // The sender is ours and lives as long as this borrow.
        let _ = seen.wait_for(|seen| kinds.iter().any(|kind| seen.contains(kind))).await;
    }
}

/// The name of a kind as presence knows it.
pub(crate) fn kind<K: Resource<DynamicType = ()>>() -> GroupKind {
    (K::group(&()).into_owned(), K::kind(&()).into_owned())
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};

    use super::*;

    #[test]
    fn a_kind_is_present_from_its_first_object_on_and_where_nobody_tells() {
        let (sets, daemons) = ([kind::<StatefulSet>()], [kind::<DaemonSet>(), kind::<StatefulSet>()]);
        assert!(Presence::assumed().any_of(&sets).now_or_never().is_some());
        let presence = Presence::told();
        assert!(presence.any_of(&sets).now_or_never().is_none());
        presence.saw("example.com", "StatefulSet");
        assert!(presence.any_of(&sets).now_or_never().is_none());
        presence.saw("apps", "StatefulSet");
        assert!(presence.any_of(&sets).now_or_never().is_some());
        assert!(presence.any_of(&daemons).now_or_never().is_some());
    }
}
