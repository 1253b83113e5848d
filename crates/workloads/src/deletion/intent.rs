//! Whether a deletion is meant for the members too.

use koinon_api::names::workloads;
use kube::api::ObjectMeta;

/// Keeps an object whose annotation says that members' objects go too, until that is written down.
const FINALIZER: &str = "koinon.dev/members";
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Whether this object is going, and its members' objects with it.
pub(crate) fn is_for_members(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
        && !has(metadata, ORPHAN)
        && (has(metadata, FOREGROUND) || asks_for_it(metadata))
}

/// The finalizers that an object should have, if they differ from those that it has.
///
/// Only who asks for it by annotation gets one of ours: no other deletion ever waits for us.
pub(crate) fn finalizers(metadata: &ObjectMeta) -> Option<Vec<String>> {
    let wanted = metadata.deletion_timestamp.is_none() && asks_for_it(metadata);
    if wanted == has(metadata, FINALIZER) {
        return None;
    }
    let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
    if wanted {
        finalizers.push(FINALIZER.to_owned());
    } else {
        finalizers.retain(|one| one != FINALIZER);
    }
    Some(finalizers)
}

fn asks_for_it(metadata: &ObjectMeta) -> bool {
    let cascade = metadata.annotations.as_ref().and_then(|all| all.get(workloads::CASCADE));
    cascade.is_some_and(|value| value == workloads::CASCADE_MEMBERS)
}

fn has(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.finalizers.iter().flatten().any(|one| one == finalizer)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn object(going: bool, finalizers: &[&str], cascade: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            deletion_timestamp: going.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
            finalizers: Some(finalizers.iter().map(|one| (*one).to_owned()).collect()),
            annotations: cascade.map(|value| [(workloads::CASCADE.to_owned(), value.to_owned())].into()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn members_objects_go_only_when_that_is_said() {
        for (going, finalizers, cascade, expected) in [
            (true, &[][..], None, false),
            (true, &["orphan"], None, false),
            (true, &["foregroundDeletion"], None, true),
            (true, &[], Some("members"), true),
            (true, &["orphan"], Some("members"), false),
            (true, &[], Some("all"), false),
            (false, &[], Some("members"), false),
        ] {
            let object = object(going, finalizers, cascade);
            assert_eq!(is_for_members(&object), expected, "{object:?}");
        }
    }

    #[test]
    fn only_who_asks_waits_for_us() {
        assert_eq!(finalizers(&object(false, &["x"], None)), None);
        assert_eq!(finalizers(&object(false, &["x"], Some("members"))).unwrap(), ["x", FINALIZER]);
        assert_eq!(finalizers(&object(false, &["x", FINALIZER], Some("members"))), None);
        assert_eq!(finalizers(&object(false, &["x", FINALIZER], None)).unwrap(), ["x"]);
        assert_eq!(finalizers(&object(true, &[FINALIZER], Some("members"))).unwrap(), [""; 0]);
    }
}
