//! Has members of the cluster that is led say how they stand.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use koinon_control::Key;
use koinon_control::queue::Next;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::act::Error;
use super::post::{At, Job};
use crate::services::metrics::Written;
use crate::services::model::{Kind, Source};
use crate::services::records::Occupant;
use crate::services::standing::{Sight, standing};
use crate::services::view::Member;

/// Who owns the condition: another name than that of the spec's owner, or an apply would take away what that owns.
pub(super) const STATUS_MANAGER: &str = "koinon-status";

impl At {
    /// After a federated Service was looked at: its members here may have to say something else. `is_changed` is whether
    /// their users are told something else than before.
    pub(super) fn stands(&self, key: &Key, local: &[Member], sight: Sight, is_changed: bool) {
        // How much is seen matters only for those that say something already.
        let matters = local.iter().any(|member| member.joining.said.is_some());
        let has_moved = match matters && sight == Sight::Clear {
            true => self.seen_clearly.lock().insert(key.clone()),
            false => self.seen_clearly.lock().remove(key),
        };
        if is_changed || has_moved {
            let services = local.iter().filter(|member| member.source.kind == Kind::Service);
            services.for_each(|member| self.inbox.add(Job::Member(member.source.clone())));
        }
    }

    /// Looks at what one member says of itself.
    pub(super) async fn stand(&self, source: &Source) -> Next {
        if source.kind != Kind::Service {
            return Next::Done;
        }
        let occupant = self.sources.services.get(self.post.name().as_str(), &source.key);
        let (uid, said) = match occupant.as_deref() {
            Some(Occupant::Plain { uid, speaks: true }) => (uid.as_str(), None),
            Some(Occupant::Member(joining)) => {
                let subjects = joining.joins.iter().map(|key| Job::Federated(key.clone()));
                let told = self.told_of(source, subjects.chain([Job::Member(source.clone())]));
                let told: Vec<(&str, &str)> =
                    told.iter().map(|(reason, text)| (*reason, text.as_str())).collect();
                let clear = self.seen_clearly.lock();
                let sight = match joining.joins.iter().all(|key| clear.contains(key)) {
                    true => Sight::Clear,
                    false => Sight::Dim,
                };
                drop(clear);
                let Some(said) = standing(self.post.clock().now(), joining.said.as_deref(), &told, sight)
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
                tracing::debug!(here = %self.post.name(), key = %source.key, %error, "how it stands is not said yet");
                // What is refused is refused later too, until something changes.
                if error.is_refusal() { Next::Done } else { Next::Retry }
            }
        }
    }

    async fn say(&self, key: &Key, uid: &str, said: Option<Condition>) -> Result<(), Error> {
        self.may_write()?;
        let client = self.post.client();
        let api: Api<Service> = client.namespaced(&key.namespace);
        // By force: nobody else has a say in this one condition, and an apply changes no other.
        let params = PatchParams::apply(STATUS_MANAGER).force();
        let patch = Patch::Apply(status(key, uid, said.as_slice()));
        let after = client.call(api.patch_status(&key.name, &params, &patch)).await;
        let after =
            self.outcome(Written::Status, || format!("to say how the Service {key} stands"), after)?;
        self.sources.services.learn(self.post.name(), &after);
        Ok(())
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
