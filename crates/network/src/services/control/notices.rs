//! Notices to users of the led member: each is told once as an event, and again only if it was over in between.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use koinon_api::names::network::{
    MCS_GROUP, MCS_VERSION, NATIVE_SERVICE_GROUP, NATIVE_SERVICE_VERSION, VIRTUAL_MACHINE_GROUP,
    VIRTUAL_MACHINE_VERSION,
};
use koinon_control::events::Recorder;
use parking_lot::Mutex;

use super::inbox::Job;
use crate::services::messages::Notice;
use crate::services::model::{Kind, Source};

pub(super) struct Notices {
    recorder: Recorder,
    /// What was told last, by what it was about.
    told: Mutex<BTreeMap<Job, Vec<Notice>>>,
}

impl Notices {
    pub(super) fn new(recorder: Recorder) -> Notices {
        Notices { recorder, told: Mutex::default() }
    }

    /// What users of a member are told under these subjects, as reason and message.
    pub(super) fn told_of(
        &self,
        source: &Source,
        subjects: impl Iterator<Item = Job>,
    ) -> Vec<(&'static str, String)> {
        let told = self.told.lock();
        let notices = subjects.filter_map(|subject| told.get(&subject)).flatten();
        let of_it = notices.filter(|notice| notice.kind == source.kind && notice.about == source.key);
        of_it.map(|notice| (notice.reason, notice.message.clone())).collect()
    }

    /// Tells users what they were not told already; says whether that is another than before.
    pub(super) fn tell(&self, subject: Job, notices: Vec<Notice>) -> bool {
        let before = match notices.is_empty() {
            true => self.told.lock().remove(&subject),
            false => self.told.lock().insert(subject, notices.clone()),
        };
        let before = before.unwrap_or_default();
        let is_changed = before != notices;
        for notice in notices.into_iter().filter(|notice| !before.contains(notice)) {
            let api_version = match notice.kind {
                Kind::Service => "v1".to_owned(),
                Kind::NativeService => format!("{NATIVE_SERVICE_GROUP}/{NATIVE_SERVICE_VERSION}"),
                Kind::VirtualMachine => format!("{VIRTUAL_MACHINE_GROUP}/{VIRTUAL_MACHINE_VERSION}"),
                Kind::ServiceExport | Kind::ServiceImport => format!("{MCS_GROUP}/{MCS_VERSION}"),
            };
            let about = ObjectReference {
                api_version: Some(api_version),
                kind: Some(notice.kind.as_str().to_owned()),
                namespace: Some(notice.about.namespace.clone()),
                name: Some(notice.about.name.clone()),
                uid: Some(notice.uid.clone()),
                ..ObjectReference::default()
            };
            self.recorder.tell_about(about, notice.weight, notice.reason, notice.message);
        }
        is_changed
    }
}
