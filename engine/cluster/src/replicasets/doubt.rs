//! A write whose answer was lost may have happened: before anything is decided again, the server is asked.
//!
//! A view that learns from every answer never counts a pod twice or forgets one, but an answer that never
//! came teaches nothing. Retrying on such a view would make a second pod for the one that is already there.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use koinon_control::Key;
use koinon_control::call::{Error, within_deadline};
use kube::api::ListParams;
use kube::core::Selector;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;

use crate::podcontrol::forget;
use crate::shared::Shared;

/// Owners of pods with a write of unknown outcome.
#[derive(Default)]
pub(crate) struct Doubts(Mutex<BTreeSet<Key>>);

impl Doubts {
    /// Notes a failed write, if it may have succeeded.
    pub(crate) fn note(&self, key: &Key, error: &Error) {
        if is_outcome_unknown(error) {
            self.0.lock().insert(key.clone());
        }
    }

    fn has(&self, key: &Key) -> bool {
        self.0.lock().contains(key)
    }

    pub(crate) fn clear(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

/// A conflict says that the object is another than was seen: what it is now has to be asked for too.
fn is_outcome_unknown(error: &Error) -> bool {
    match error {
        Error::NoAnswer(_) | Error::Failed(_) => true,
        Error::Refused(status) => status.code >= 500 || status.code == 409,
    }
}

impl Doubts {
    /// Brings the view of pods up to date where a write left doubt. `uid` is of who made them.
    pub(crate) async fn resolve(
        &self,
        shared: &Shared,
        key: &Key,
        uid: &str,
        selector: &Selector,
    ) -> Result<(), Error> {
        if !self.has(key) {
            return Ok(());
        }
        let api: Api<Pod> = Api::namespaced(shared.client.clone(), &key.namespace);
        let known = shared.owned_pods.by(uid);
        let live = within_deadline(api.list(&ListParams::default().labels_from(selector))).await?;
        let listed: BTreeSet<Option<String>> = live.items.iter().map(|pod| pod.uid()).collect();
        for pod in live.items {
            shared.pods.learn(pod);
        }
        for pod in known.iter().filter(|pod| !listed.contains(&pod.uid())) {
            // Gone, or only labelled otherwise: the list cannot tell.
            match within_deadline(api.get(&pod.name_any())).await {
                Ok(live) if live.uid() == pod.uid() => shared.pods.learn(live),
                Ok(_) => forget(&shared.pods, pod),
                Err(error) if error.is_object_absent() => forget(&shared.pods, pod),
                Err(error) => return Err(error),
            }
        }
        self.clear(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::core::Status;

    use super::*;

    #[test]
    fn a_refusal_is_an_answer_and_a_failure_of_the_server_is_none() {
        let refused = |code| Error::Refused(Status::failure("", "").with_code(code).boxed());
        assert!(is_outcome_unknown(&Error::NoAnswer(Duration::from_secs(30))));
        assert!(is_outcome_unknown(&refused(504)));
        assert!(is_outcome_unknown(&refused(500)));
        assert!(!is_outcome_unknown(&refused(403)));
        assert!(is_outcome_unknown(&refused(409)));
        assert!(!is_outcome_unknown(&refused(422)));
    }
}
