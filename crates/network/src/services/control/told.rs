//! Tells users of the member that is led what is wrong with what they have, once.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ObjectReference;
use koinon_api::names::network::{
    MCS_GROUP, MCS_VERSION, NATIVE_SERVICE_GROUP, NATIVE_SERVICE_VERSION, VIRTUAL_MACHINE_GROUP,
    VIRTUAL_MACHINE_VERSION,
};
use koinon_control::events::Weight;

use super::post::{At, Job};
use super::quota::{MOST_ENDPOINTS, MOST_MEMBERS};
use crate::services::model::{Flaw, Kind, Source};
use crate::services::records::Occupant;
use crate::services::telling::Notice;

impl At {
    /// Members of this cluster with which something is wrong.
    pub(super) fn flawed(&self) -> Vec<Source> {
        let here = self.post.name();
        let source = |kind, key| Source { cluster: here.clone(), kind, key };
        let services = self.sources.services.of_member(here.as_str()).into_iter();
        let services = services.filter(|(_, one)| match &**one {
            Occupant::Member(one) => !one.flaws.is_empty() || one.said.is_some(),
            Occupant::Plain { speaks, .. } => *speaks,
            Occupant::Ours(_) => false,
        });
        let natives = self.sources.natives.of_member(here.as_str()).into_iter();
        let natives = natives.filter(|(_, one)| !one.flaws.is_empty());
        let services = services.map(|(key, _)| source(Kind::Service, key));
        let mut flawed: BTreeSet<Source> =
            services.chain(natives.map(|(key, _)| source(Kind::NativeService, key))).collect();
        let exports = self.sources.exports.of_member(here.as_str()).into_iter();
        let exports = exports.filter(|(_, one)| !one.flaws.is_empty());
        flawed.extend(exports.map(|(key, _)| source(Kind::ServiceExport, key)));
        flawed.extend(self.sources.desk.books.read().beyond(here).cloned());
        flawed.into_iter().collect()
    }

    pub(super) fn flaws(&self, source: &Source) -> Vec<Notice> {
        let here = source.cluster.as_str();
        let (uid, flaws) = match source.kind {
            Kind::VirtualMachine => return self.machine_flaws(source),
            Kind::ServiceImport => return Vec::new(),
            Kind::ServiceExport => match self.sources.exports.get(here, &source.key) {
                Some(export) => (export.uid.clone(), export.flaws.clone()),
                None => return Vec::new(),
            },
            Kind::NativeService => match self.sources.natives.get(here, &source.key) {
                Some(joining) => (joining.uid.clone(), joining.flaws.clone()),
                None => return Vec::new(),
            },
            Kind::Service => match self.sources.services.get(here, &source.key).as_deref() {
                Some(Occupant::Member(joining)) => (joining.uid.clone(), joining.flaws.clone()),
                _ => return Vec::new(),
            },
        };
        let too_many = self.sources.desk.books.read().beyond(&source.cluster).any(|one| one == source);
        let too_many = too_many.then(|| Flaw {
            reason: "TooManyMembers",
            message: format!(
                "it joins nothing: a cluster brings at most {MOST_MEMBERS} Services with {MOST_ENDPOINTS} endpoints all \
                 together, the oldest first"
            ),
        });
        let notices = flaws.into_iter().chain(too_many).map(|flaw| Notice {
            kind: source.kind,
            about: source.key.clone(),
            uid: uid.clone(),
            weight: Weight::Warning,
            reason: flaw.reason,
            message: flaw.message,
        });
        notices.collect()
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
            self.post.recorder.tell_about(about, notice.weight, notice.reason, notice.message);
        }
        is_changed
    }
}
