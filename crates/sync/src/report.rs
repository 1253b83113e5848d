//! What users are told: an event on the CRD they look at, a log line, and a number.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use koinon_control::Key;
use koinon_control::events::{Recorder, Weight};
use parking_lot::Mutex;

use crate::metrics::Metrics;
use crate::names::CRD;
use crate::side::Name;

/// Tells about one CRD.
#[derive(Clone)]
pub(crate) struct Reporter {
    recorder: Recorder,
    metrics: Metrics,
    about: ObjectReference,
    lasting: Arc<Mutex<Lasting>>,
}

/// What lasts, told once until it is over.
#[derive(Default)]
struct Lasting {
    /// What holds up the CRD as a whole, by reason.
    whole: BTreeMap<&'static str, String>,
    /// What is wrong with single objects.
    objects: BTreeMap<&'static str, BTreeMap<Name, String>>,
}

impl Reporter {
    pub(crate) fn new(recorder: Recorder, metrics: Metrics, crd: &str, uid: &str) -> Reporter {
        let about = ObjectReference {
            api_version: Some("apiextensions.k8s.io/v1".into()),
            kind: Some(CRD.into()),
            name: Some(crd.into()),
            uid: Some(uid.into()),
            ..ObjectReference::default()
        };
        Reporter { recorder, metrics, about, lasting: Arc::default() }
    }

    /// Tells of something that lasts; again only if it changes.
    pub(crate) fn problem(&self, reason: &'static str, message: String) {
        let before = self.lasting.lock().whole.insert(reason, message.clone());
        if before.as_ref() != Some(&message) {
            self.warn(reason, message);
        }
    }

    /// It is over.
    pub(crate) fn solved(&self, reason: &'static str) {
        if self.lasting.lock().whole.remove(reason).is_some() {
            tracing::info!(kind = CRD, name = self.crd(), reason, "solved");
        }
    }

    /// Tells of something that lasts with one object; again only if it changes.
    pub(crate) fn trouble(&self, reason: &'static str, key: &Name, message: &str) {
        let before =
            self.lasting.lock().objects.entry(reason).or_default().insert(key.clone(), message.to_owned());
        if before.as_deref() != Some(message) {
            self.warn(reason, format!("{key}: {message}"));
        }
    }

    /// It is over with that object; if it comes back, it is told again.
    pub(crate) fn fine(&self, reason: &'static str, key: &Key) {
        let mut lasting = self.lasting.lock();
        let Some(objects) = lasting.objects.get_mut(reason) else { return };
        if objects.remove(key).is_none() {
            return;
        }
        if objects.is_empty() {
            lasting.objects.remove(reason);
        }
        drop(lasting);
        tracing::info!(kind = CRD, name = self.crd(), reason, "solved: {key}");
    }

    /// Whoever told of all that does not look at it any more.
    pub(crate) fn begin_again(&self) {
        *self.lasting.lock() = Lasting::default();
    }

    /// Tells of something that happened.
    pub(crate) fn warn(&self, reason: &'static str, message: String) {
        self.metrics.reported(self.crd(), reason);
        self.recorder.tell_about(self.about.clone(), Weight::Warning, reason, message);
    }

    /// What lasts, by reason: what holds up the CRD as a whole, and of what is wrong with objects the first.
    pub(crate) fn problems(&self) -> BTreeMap<&'static str, String> {
        let lasting = self.lasting.lock();
        let mut problems = lasting.whole.clone();
        for (reason, objects) in &lasting.objects {
            let Some((key, message)) = objects.first_key_value() else { continue };
            let more = match objects.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            problems.entry(reason).or_insert_with(|| format!("{key}: {message}{more}"));
        }
        problems
    }

    pub(crate) fn crd(&self) -> &str {
        self.about.name.as_deref().unwrap_or_default()
    }
}
