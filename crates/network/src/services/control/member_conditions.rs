//! The reconciler of members of the led cluster: what is wrong with each is told as an event and stands in the condition
//! of its Service.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use koinon_control::Key;
use koinon_control::events::Weight;
use koinon_control::queue::Next;
use kube::Api;
use kube::api::{Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::context::Context;
use super::inbox::Job;
use super::machines::Machines;
use super::quota::{MOST_ENDPOINTS, MOST_MEMBERS};
use super::writer::Error;
use crate::services::member_condition::{Completeness, standing};
use crate::services::messages::Notice;
use crate::services::metrics::Written;
use crate::services::model::{Flaw, Kind, Source};
use crate::services::records::Occupant;
use crate::services::view::Member;

/// Who owns the condition: another name than that of the spec's owner, or an apply would take away what that owns.
pub(super) const STATUS_MANAGER: &str = "koinon-status";

pub(super) struct MemberConditions {
    cx: Arc<Context>,
    /// Federated Services of which all is known, with members here that have a condition.
    complete: Mutex<BTreeSet<Key>>,
}

impl MemberConditions {
    pub(super) fn new(cx: Arc<Context>) -> MemberConditions {
        MemberConditions { cx, complete: Mutex::default() }
    }

    /// Reconciles what is said of one member.
    pub(super) async fn reconcile(&self, source: &Source, machines: &Machines) -> Next {
        self.cx.notices.tell(Job::Member(source.clone()), self.flaws(source, machines));
        self.condition(source).await
    }

    /// After a federated Service was looked at: its members here may have to say something else. `is_changed` is whether
    /// their users are told something else than before.
    pub(super) fn federated(
        &self,
        key: &Key,
        local: &[Member],
        completeness: Completeness,
        is_changed: bool,
    ) {
        // How much is seen matters only for those that say something already.
        let matters = local.iter().any(|member| member.joining.said.is_some());
        let has_moved = match matters && completeness == Completeness::Complete {
            true => self.complete.lock().insert(key.clone()),
            false => self.complete.lock().remove(key),
        };
        if is_changed || has_moved {
            let services = local.iter().filter(|member| member.source.kind == Kind::Service);
            services.for_each(|member| self.cx.inbox.add(Job::Member(member.source.clone())));
        }
    }

    /// Looks at what one member says of itself.
    async fn condition(&self, source: &Source) -> Next {
        if source.kind != Kind::Service {
            return Next::Done;
        }
        let occupant = self.cx.sources.services.get(self.cx.here().as_str(), &source.key);
        let (uid, said) = match occupant.as_deref() {
            Some(Occupant::Plain { uid, speaks: true }) => (uid.as_str(), None),
            Some(Occupant::Member(joining)) => {
                let subjects = joining.joins.iter().map(|key| Job::Federated(key.clone()));
                let told = self.cx.notices.told_of(source, subjects.chain([Job::Member(source.clone())]));
                let told: Vec<(&str, &str)> =
                    told.iter().map(|(reason, text)| (*reason, text.as_str())).collect();
                let complete = self.complete.lock();
                let completeness = match joining.joins.iter().all(|key| complete.contains(key)) {
                    true => Completeness::Complete,
                    false => Completeness::Partial,
                };
                drop(complete);
                let Some(said) =
                    standing(self.cx.leader.clock().now(), joining.said.as_deref(), &told, completeness)
                else {
                    return Next::Done;
                };
                (joining.uid.as_str(), Some(said))
            }
            _ => return Next::Done,
        };
        match self.say(&source.key, uid, said).await {
            Ok(()) => Next::Done,
            Err(error) => {
                tracing::debug!(here = %self.cx.here(), key = %source.key, %error, "how it stands is not said yet");
                // What is refused is refused later too, until something changes.
                if error.is_refusal() { Next::Done } else { Next::Retry }
            }
        }
    }

    async fn say(&self, key: &Key, uid: &str, said: Option<Condition>) -> Result<(), Error> {
        self.cx.writer.may_write()?;
        let client = self.cx.leader.client();
        let api: Api<Service> = client.namespaced(&key.namespace);
        // By force: nobody else has a say in this one condition, and an apply changes no other.
        let params = PatchParams::apply(STATUS_MANAGER).force();
        let patch = Patch::Apply(status(key, uid, said.as_slice()));
        let after = client.call(api.patch_status(&key.name, &params, &patch)).await;
        let after = self.cx.writer.outcome(
            Written::Status,
            || format!("to say how the Service {key} stands"),
            after,
        )?;
        self.cx.sources.services.learn(self.cx.here(), &after);
        Ok(())
    }

    /// Members of this cluster with which something is wrong.
    pub(super) fn flawed(&self) -> Vec<Source> {
        let here = self.cx.here();
        let source = |kind, key| Source { cluster: here.clone(), kind, key };
        let services = self.cx.sources.services.of_member(here.as_str()).into_iter();
        let services = services.filter(|(_, one)| match &**one {
            Occupant::Member(one) => !one.flaws.is_empty() || one.said.is_some(),
            Occupant::Plain { speaks, .. } => *speaks,
            Occupant::Ours(_) => false,
        });
        let natives = self.cx.sources.natives.of_member(here.as_str()).into_iter();
        let natives = natives.filter(|(_, one)| !one.flaws.is_empty());
        let services = services.map(|(key, _)| source(Kind::Service, key));
        let mut flawed: BTreeSet<Source> =
            services.chain(natives.map(|(key, _)| source(Kind::NativeService, key))).collect();
        let exports = self.cx.sources.exports.of_member(here.as_str()).into_iter();
        let exports = exports.filter(|(_, one)| !one.flaws.is_empty());
        flawed.extend(exports.map(|(key, _)| source(Kind::ServiceExport, key)));
        flawed.extend(self.cx.sources.subscribers.joins.read().beyond(here).cloned());
        flawed.into_iter().collect()
    }

    fn flaws(&self, source: &Source, machines: &Machines) -> Vec<Notice> {
        let here = source.cluster.as_str();
        let (uid, flaws) = match source.kind {
            Kind::VirtualMachine => return machines.flaws(source),
            Kind::ServiceImport => return Vec::new(),
            Kind::ServiceExport => match self.cx.sources.exports.get(here, &source.key) {
                Some(export) => (export.uid.clone(), export.flaws.clone()),
                None => return Vec::new(),
            },
            Kind::NativeService => match self.cx.sources.natives.get(here, &source.key) {
                Some(joining) => (joining.uid.clone(), joining.flaws.clone()),
                None => return Vec::new(),
            },
            Kind::Service => match self.cx.sources.services.get(here, &source.key).as_deref() {
                Some(Occupant::Member(joining)) => (joining.uid.clone(), joining.flaws.clone()),
                _ => return Vec::new(),
            },
        };
        let too_many =
            self.cx.sources.subscribers.joins.read().beyond(&source.cluster).any(|one| one == source);
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
}

/// The status that has this very Service say so, and nothing else of ours.
pub(super) fn status(key: &Key, uid: &str, said: &[Condition]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": key.namespace, "name": key.name, "uid": uid},
        "status": {"conditions": said},
    })
}
