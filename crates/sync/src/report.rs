//! What users are told: an event on the CRD they look at, a log line, and a number.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use koinon_control::events::{Recorder, Weight};
use parking_lot::Mutex;

/// Tells about one CRD.
#[derive(Clone)]
pub(crate) struct Reporter {
    recorder: Recorder,
    about: ObjectReference,
    /// What holds up the CRD as a whole, by reason: told once, until it is over.
    problems: Arc<Mutex<BTreeMap<&'static str, String>>>,
}

impl Reporter {
    pub(crate) fn new(recorder: Recorder, crd: &str, uid: &str) -> Reporter {
        let about = ObjectReference {
            api_version: Some("apiextensions.k8s.io/v1".into()),
            kind: Some("CustomResourceDefinition".into()),
            name: Some(crd.into()),
            uid: Some(uid.into()),
            ..ObjectReference::default()
        };
        Reporter { recorder, about, problems: Arc::default() }
    }

    /// Tells of something that lasts; again only if it changes.
    pub(crate) fn problem(&self, reason: &'static str, message: String) {
        let before = self.problems.lock().insert(reason, message.clone());
        if before.as_ref() != Some(&message) {
            self.warn(reason, message);
        }
    }

    /// It is over.
    pub(crate) fn solved(&self, reason: &'static str) {
        if self.problems.lock().remove(reason).is_some() {
            tracing::info!(crd = self.crd(), reason, "solved");
        }
    }

    /// Tells of something that happened.
    pub(crate) fn warn(&self, reason: &'static str, message: String) {
        tracing::warn!(crd = self.crd(), reason, "{message}");
        self.recorder.tell_about(self.about.clone(), Weight::Warning, reason, message);
    }

    /// What holds up the CRD as a whole.
    pub(crate) fn problems(&self) -> BTreeMap<&'static str, String> {
        self.problems.lock().clone()
    }

    pub(crate) fn crd(&self) -> &str {
        self.about.name.as_deref().unwrap_or_default()
    }
}
