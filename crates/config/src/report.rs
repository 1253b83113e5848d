//! Writes what was found out: conditions in the status, and events for whoever watches the object.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ObjectReference;
use koinon_control::Key;
use koinon_control::events::{Recorder, Weight};
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::json;

use crate::call::within;
use crate::controller::Done;
use crate::model::{AmkoCluster, Condition, Observed};
use crate::names::{FIELD_MANAGER, GROUP, status};
use crate::plan::{Outcome, Plan, StatusWrite};
use crate::rivals::Rivals;

const RETRY: Duration = Duration::from_secs(1);

/// Tells users, one write at a time for each object.
pub(crate) struct Reporter {
    client: Client,
    recorder: Recorder,
    deadline: Duration,
    telling: BTreeMap<Key, Telling>,
}

enum Telling {
    OnItsWay(StatusWrite, Vec<Condition>),
    /// It failed, or has to be seen first.
    NotBefore(Duration),
}

/// Calls to make, and when to ask again.
pub(crate) struct Reports {
    pub(crate) calls: Vec<BoxFuture<'static, Done>>,
    pub(crate) again_at: Option<Duration>,
}

impl Reporter {
    pub(crate) fn new(client: Client, recorder: Recorder, deadline: Duration) -> Reporter {
        Reporter { client, recorder, deadline, telling: BTreeMap::new() }
    }

    /// The writes of a plan that are due.
    pub(crate) fn reports(
        &mut self,
        plan: &Plan,
        clusters: &Observed<Vec<AmkoCluster>>,
        now: Duration,
    ) -> Reports {
        self.telling.retain(|_, telling| match telling {
            Telling::OnItsWay(..) => true,
            Telling::NotBefore(at) => now < *at,
        });
        let mut reports = Reports { calls: Vec::new(), again_at: None };
        for write in &plan.statuses {
            match self.telling.get(&write.key) {
                Some(Telling::NotBefore(at)) => {
                    reports.again_at = Some(reports.again_at.map_or(*at, |earlier| earlier.min(*at)));
                }
                Some(Telling::OnItsWay(..)) => {}
                None => {
                    let before = conditions(clusters, &write.key);
                    self.telling.insert(write.key.clone(), Telling::OnItsWay(write.clone(), before));
                    let (client, write, deadline) = (self.client.clone(), write.clone(), self.deadline);
                    reports.calls.push(Box::pin(async move {
                        let outcome = tell(&client, &write, deadline).await;
                        Done::Told { key: write.key, outcome }
                    }));
                }
            }
        }
        reports
    }

    /// Notes what came of a write.
    pub(crate) fn told(&mut self, key: &Key, outcome: &Outcome, now: Duration) {
        let Some(Telling::OnItsWay(write, before)) = self.telling.remove(key) else { return };
        match outcome {
            Outcome::Done { .. } => self.announce(&write, &before),
            Outcome::Conflict => {}
            Outcome::Failed(why) => {
                tracing::warn!(amkocluster = %key, why, "the status could not be written");
                self.telling.insert(key.clone(), Telling::NotBefore(now + RETRY));
            }
        }
    }

    /// One event for each condition that says something new.
    fn announce(&self, write: &StatusWrite, before: &[Condition]) {
        for condition in write.conditions.iter().filter(|condition| !before.contains(condition)) {
            let good =
                [status::VALID, status::FOLLOWER, status::ALL_CLIENTS, status::ALL_VALID, status::FEDERATED];
            let (weight, reason) = if good.contains(&&*condition.status) {
                (Weight::Normal, "Federation")
            } else {
                (Weight::Warning, "FederationTrouble")
            };
            let message = match &*condition.reason {
                "" => format!("{}: {}", condition.stage, condition.status),
                why => format!("{}: {}: {why}", condition.stage, condition.status),
            };
            let about = ObjectReference {
                api_version: Some(format!("{GROUP}/v1alpha1")),
                kind: Some("AMKOCluster".into()),
                namespace: Some(write.key.namespace.clone()),
                name: Some(write.key.name.clone()),
                uid: Some(write.uid.clone()),
                ..ObjectReference::default()
            };
            tracing::info!(amkocluster = %write.key, message, "condition");
            self.recorder.tell_about(about, weight, reason, message);
        }
    }
}

fn conditions(clusters: &Observed<Vec<AmkoCluster>>, key: &Key) -> Vec<Condition> {
    let Observed::Seen(clusters) = clusters else { return Vec::new() };
    let is_it = |one: &&AmkoCluster| one.namespace == key.namespace && one.name == key.name;
    clusters.iter().find(is_it).map(|one| one.conditions.clone()).unwrap_or_default()
}

async fn tell(client: &Client, write: &StatusWrite, deadline: Duration) -> Outcome {
    let resource = ApiResource {
        group: GROUP.into(),
        version: "v1alpha1".into(),
        api_version: format!("{GROUP}/v1alpha1"),
        kind: "AMKOCluster".into(),
        plural: "amkoclusters".into(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &write.key.namespace, &resource);
    if let Some(rivals) = &write.rivals {
        let rivals = Rivals { cluster: write.uid.clone(), members: rivals.clone() };
        match rivals.keep(client, deadline).await {
            Ok(()) => {}
            // It is told all the same, or nobody would hear of a rival where Leases may not be written.
            Err(failure) if failure.code == Some(403) => {
                tracing::warn!(%failure, "other leaders are not remembered over a restart");
            }
            Err(failure) => return Outcome::Failed(failure.to_string()),
        }
    }
    // It holds for the object that was judged, and for no later state of it.
    let patch = json!({
        "metadata": {"uid": write.uid, "resourceVersion": write.resource_version},
        "status": {"conditions": write.conditions},
    });
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    match within(deadline, api.patch_status(&write.key.name, &params, &Patch::Merge(patch))).await {
        Ok(_) => Outcome::Done { resource_version: None },
        Err(failure) if matches!(failure.code, Some(404 | 409)) => Outcome::Conflict,
        Err(failure) => Outcome::Failed(failure.to_string()),
    }
}
