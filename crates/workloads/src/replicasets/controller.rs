//! Looks at one federated ReplicaSet at a time: plans, has members written, and says how it is.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use koinon_api::names::workloads;
use koinon_api::placement::Placement;
use koinon_control::call;
use koinon_control::queue::Next;
use koinon_control::{Key, View};
use kube::{Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;

use super::plan::{Plan, Refused, Rules, Seen, Wish, plan};
use crate::content;
use crate::hub::Hub;
use crate::members::{Kind, SetRecord};
use crate::metrics::Part;
use crate::writing::{Count, Has, Order, Template, Writer};

/// The controller of federated ReplicaSets.
pub(crate) struct Controller {
    hub: Arc<Hub>,
    view: Arc<View<ReplicaSet>>,
    writer: Writer<SetRecord>,
    /// What members were told, and by which UID, as long as it is not written down: whoever changes the ReplicaSet at that moment
    /// must not bring back what was decided before.
    decided: Mutex<HashMap<Key, (Option<String>, Placement)>>,
}

impl Controller {
    pub(crate) fn new(hub: Arc<Hub>, view: Arc<View<ReplicaSet>>) -> Controller {
        let queue = hub.queue.clone();
        let writer =
            Writer::new(hub.members.sets.clone(), hub.ledger.clone(), hub.recorder.clone(), move |key| {
                queue.add((Kind::ReplicaSet, key.clone()));
            });
        Controller { hub, view, writer, decided: Mutex::default() }
    }

    pub(crate) async fn reconcile(&self, key: &Key) -> Next {
        let Some(set) = self.view.get(key) else {
            self.hub.ledger.forget(Kind::ReplicaSet, key);
            self.decided.lock().remove(key);
            self.hub.metrics.count(Kind::ReplicaSet, key, None);
            return Next::Done;
        };
        if !super::is_federated(&set) {
            return Next::Done;
        }
        if let Some(next) = self.hub.guard(Kind::ReplicaSet, key, &*set, &self.view).await {
            return next;
        }
        if set.metadata.deletion_timestamp.is_some() {
            return Next::Done;
        }
        self.work_on(key, set).await.unwrap_or_else(|error| {
            tracing::debug!(%key, %error, "the status, or the anchor, was not written");
            Next::Retry
        })
    }

    async fn work_on(&self, key: &Key, mut set: Arc<ReplicaSet>) -> Result<Next, call::Error> {
        let wish = Wish::of(&set);
        let mut plan = self.plan(&set, &wish);
        let seen = set.clone();
        let anchoring = self.hub.deletions.anchor(Kind::ReplicaSet, &seen.metadata);
        let anchored = if plan.writes.is_empty() {
            anchoring.await
        } else {
            let _timer = self.hub.metrics.time(Part::Members);
            self.decided.lock().insert(key.clone(), (set.uid(), plan.placement.clone()));
            let writing = self.writer.carry_out(self.orders(&set, &wish, &plan));
            let (anchored, ()) = futures::join!(anchoring, writing);
            // Whoever changed it meanwhile had it queued again.
            let Some(now) = self.view.get(key) else { return Ok(Next::Done) };
            if now.metadata.generation != set.metadata.generation {
                return Ok(Next::Done);
            }
            set = now;
            plan = self.plan(&set, &wish);
            anchored
        };
        self.hub.metrics.count(Kind::ReplicaSet, key, Some(plan.counts()));
        {
            let _timer = self.hub.metrics.time(Part::Status);
            self.say(&set, &plan).await?;
        }
        anchored?;
        if !plan.writes.is_empty() {
            return Ok(Next::Retry);
        }
        Ok(plan.look_again.map_or(Next::Done, Next::After))
    }

    fn plan(&self, set: &ReplicaSet, wish: &Wish) -> Plan {
        let hub = &self.hub;
        let _timer = hub.metrics.time(Part::Plan);
        let rules = Rules { surge: hub.options.max_surge, patience: hub.options.unschedulable_after };
        let key = Key::of(set);
        let decided = self.decided.lock().get(&key).filter(|(uid, _)| *uid == set.uid()).cloned();
        let decided = decided.as_ref().map(|(_, placement)| placement);
        plan(hub.clock.now(), rules, set, &self.look(&key, wish), decided)
    }

    /// Every member as it is seen now.
    fn look(&self, key: &Key, wish: &Wish) -> BTreeMap<String, Seen> {
        let members = &self.hub.members;
        let mut waiting = members.waiting.of(Kind::ReplicaSet, key);
        // Before the records: what is answered in between is then still on its way, and not taken for somebody's change.
        let mut standings = self.hub.ledger.of(Kind::ReplicaSet, key);
        let mut records = members.sets.everywhere(key);
        let seen = members.fleet.members().into_iter().map(|member| {
            let name = member.name();
            let record = records.remove(name);
            let standing = standings.remove(name).unwrap_or_default();
            let has = record.as_ref().map_or(Has::Other, |record| standing.has(wish.content, record.content));
            let (took, told) = (standing.took(), standing.told());
            let refused = standing.refusal.map(|refusal| Refused {
                times: refusal.times,
                pause: refusal.pause(wish.content),
                message: refusal.message,
            });
            let seen = Seen {
                reach: members.reach(&member, &members.sets),
                record,
                waiting: waiting.remove(name).unwrap_or_default(),
                has,
                took,
                told,
                refused,
                on_its_way: standing.on_its_way,
            };
            (name.as_str().to_owned(), seen)
        });
        seen.collect()
    }

    fn orders(&self, set: &ReplicaSet, wish: &Wish, plan: &Plan) -> Vec<Order> {
        let order = |(name, write): (&String, &super::plan::Write)| {
            let mut manifest = wish.manifest.clone();
            if let Count::Of(replicas) = write.count {
                manifest["spec"]["replicas"] = replicas.into();
            }
            Some(Order {
                member: self.hub.members.fleet.get(name)?,
                key: Key::of(set),
                manifest,
                content: wish.content,
                count: write.count,
                template: Template::Said(None),
                why: write.why,
                about: set.object_ref(&()),
            })
        };
        plan.writes.iter().filter_map(order).collect()
    }

    /// Writes status and placement where they differ from what is there, and tells what changed.
    async fn say(&self, set: &ReplicaSet, plan: &Plan) -> Result<(), call::Error> {
        let placement = plan.placement.to_json_beside(content::size_beside_placement(set.annotations()));
        let same = content::is_same_status(&set.status, &Some(&plan.status))
            && set.annotations().get(workloads::PLACEMENT) == Some(&placement);
        if same {
            self.decided.lock().remove(&Key::of(set));
            return Ok(());
        }
        let mut status = serde_json::to_value(&plan.status).unwrap_or_default();
        // A merge keeps what it is not told of.
        if plan.status.conditions.is_none() {
            status["conditions"] = serde_json::Value::Null;
        }
        let patch = json!({
            "metadata": {
                "resourceVersion": set.resource_version(),
                "annotations": {workloads::PLACEMENT: placement},
            },
            "status": status,
        });
        let answer = self.hub.patch_status(set, patch).await?;
        self.decided.lock().remove(&Key::of(set));
        self.tell(set, plan);
        self.view.learn(answer);
        Ok(())
    }

    fn tell(&self, set: &ReplicaSet, plan: &Plan) {
        for told in &plan.told {
            self.hub.recorder.tell(set, told.weight, told.reason, told.message.as_str());
        }
        let fault = |status: &ReplicaSetStatus| {
            let conditions = status.conditions.iter().flatten();
            conditions
                .into_iter()
                .find(|one| one.type_ == "PreferencesValid")
                .and_then(|one| one.message.clone())
        };
        let known = set.status.as_ref().and_then(fault);
        if let Some(message) = fault(&plan.status).filter(|now| known.as_ref() != Some(now)) {
            let weight = koinon_control::events::Weight::Warning;
            self.hub.recorder.tell(set, weight, "PreferencesMalformed", message);
        }
    }
}
