//! The controller of federated ReplicaSets: one key at a time, plan, write members, write status.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use koinon_api::failover::Failover;
use koinon_api::names::workloads;
use koinon_api::placement::Placement;
use koinon_control::call;
use koinon_control::events::Weight;
use koinon_control::queue::Next;
use koinon_control::{Key, View};
use kube::{Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;

use super::plan::{Plan, Refused, Rules, Seen, Wish, plan};
use super::status;
use crate::barred::Barred;
use crate::content;
use crate::failures::Failures;
use crate::hub::Hub;
use crate::members::{Kind, SetRecord};
use crate::metrics::{self, Part};
use crate::rollout::Reach;
use crate::startup::Startup;
use crate::takeover::{Policy, Presence, is_due};
use crate::writing::{Count, Has, Order, Template, Writer};

/// The controller of federated ReplicaSets.
pub(crate) struct Controller {
    hub: Arc<Hub>,
    view: Arc<View<ReplicaSet>>,
    writer: Writer<SetRecord>,
    /// What members have under the same names that is not ours.
    presence: Arc<Presence<SetRecord>>,
    /// What members were told, and by which UID, as long as it is not written down: whoever changes the ReplicaSet at that moment
    /// must not bring back what was decided before.
    decided: Mutex<HashMap<Key, (Option<String>, Placement)>>,
    failures: Failures,
    startup: Startup,
}

impl Controller {
    pub(crate) fn new(hub: Arc<Hub>, view: Arc<View<ReplicaSet>>) -> Controller {
        let queue = hub.queue.clone();
        let jobs = queue.clone();
        let presence = Arc::new(Presence::new(move |key| jobs.add((Kind::ReplicaSet, key.clone()))));
        let (index, history, recorder) =
            (hub.members.sets.clone(), hub.history.clone(), hub.recorder.clone());
        let writer = Writer::new(index, history, presence.clone(), recorder, move |key| {
            queue.add((Kind::ReplicaSet, key.clone()));
        });
        let jobs = hub.queue.clone();
        let startup = Startup::new(Kind::ReplicaSet, hub.options.unschedulable_after, move |key| {
            jobs.add((Kind::ReplicaSet, key.clone()));
        });
        let (decided, failures) = (Mutex::default(), Failures::default());
        Controller { hub, view, writer, presence, decided, failures, startup }
    }

    pub(crate) async fn reconcile(&self, key: &Key) -> Next {
        let Some(set) = self.view.get(key) else {
            self.hub.history.forget(Kind::ReplicaSet, key);
            self.decided.lock().remove(key);
            self.presence.forget(key);
            self.failures.forget(key);
            self.startup.forget(key);
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
        let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
        let outcome = match self.hub.barred(key, template) {
            Some(barred) => self.say_barred(&set, &barred).await,
            None => self.work_on(key, set).await,
        };
        outcome.unwrap_or_else(|error| {
            tracing::debug!(%key, %error, "the status, or the anchor, was not written");
            Next::Retry
        })
    }

    /// How much is remembered, by what it is for.
    pub(crate) fn remembered(&self) -> [(metrics::Memory, usize); 3] {
        [
            (metrics::Memory::Workloads, self.decided.lock().len()),
            (metrics::Memory::Presence, self.presence.len()),
            (metrics::Memory::Troubles, self.failures.len() + self.startup.len()),
        ]
    }

    async fn work_on(&self, key: &Key, mut set: Arc<ReplicaSet>) -> Result<Next, call::Error> {
        let wish = Wish::of(&set);
        self.ask_members(key, &set).await;
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
        let others = self.presence.look_again(key).into_iter().chain(self.startup.look_again(key));
        let look_again = plan.look_again.into_iter().chain(others).min();
        Ok(look_again.map_or(Next::Done, Next::After))
    }

    /// Says why nothing is placed; what runs stays as it is.
    async fn say_barred(&self, set: &ReplicaSet, barred: &Barred) -> Result<Next, call::Error> {
        let status = status::barred(self.hub.clock.now(), set, barred);
        if content::is_same_status(&set.status, &Some(&status)) {
            return Ok(Next::Done);
        }
        let patch = json!({"metadata": {"resourceVersion": set.resource_version()}, "status": status});
        let answer = self.hub.patch_status(set, patch).await?;
        self.hub.recorder.tell(set, Weight::Warning, barred.reason, barred.message.as_str());
        self.view.learn(answer);
        Ok(Next::Done)
    }

    fn plan(&self, set: &ReplicaSet, wish: &Wish) -> Plan {
        let hub = &self.hub;
        let _timer = hub.metrics.time(Part::Plan);
        let rules = Rules { surge: hub.options.max_surge, patience: hub.options.unschedulable_after };
        let decided = self.decided(set);
        plan(hub.clock.now(), rules, set, self.look(set, wish), decided.as_ref())
    }

    /// What was decided a moment ago, and is not yet written down.
    fn decided(&self, set: &ReplicaSet) -> Option<Placement> {
        let decided = self.decided.lock();
        let (_, placement) = decided.get(&Key::of(set)).filter(|(uid, _)| *uid == set.uid())?;
        Some(placement.clone())
    }

    /// Where the replicas were last.
    fn before(&self, set: &ReplicaSet) -> Option<Placement> {
        let said = || set.annotations().get(workloads::PLACEMENT).and_then(|text| Placement::parse(text));
        self.decided(set).or_else(said)
    }

    /// Asks members that have nothing of ours what they have under this name, where that is not known.
    async fn ask_members(&self, key: &Key, set: &ReplicaSet) {
        let (before, policy) = (self.before(set), Policy::of(set.annotations()));
        let due = self.hub.members.due(&self.presence, &self.hub.members.sets, key, |name| {
            is_due(before.as_ref().and_then(|before| before.clusters.get(name)), policy)
        });
        let generation = set.metadata.generation.unwrap_or(0);
        let stale = due.into_iter().filter(|member| self.presence.is_stale(key, member, generation));
        let said = content::said(&set.metadata, &set.spec);
        self.presence.ask(key, stale.collect(), said, generation).await;
    }

    /// Every member as it is seen now.
    fn look(&self, set: &ReplicaSet, wish: &Wish) -> BTreeMap<String, Seen> {
        let (key, members) = (&Key::of(set), &self.hub.members);
        let (before, policy) = (self.before(set), Policy::of(set.annotations()));
        let failover = Failover::of(set.annotations());
        let mut waiting = members.waiting.of(Kind::ReplicaSet, key);
        // Before the records: what is answered in between is then still on its way, and not taken for somebody's change.
        let mut states = self.hub.history.of(Kind::ReplicaSet, key);
        let mut records = members.sets.everywhere(key);
        let seen = members.fleet.members().into_iter().map(|member| {
            let name = member.name();
            let last = before.as_ref().and_then(|before| before.clusters.get(name.as_str()));
            let (record, reach) = (records.remove(name), members.reach_since(&member, &members.sets, last));
            let unheard = reach == Reach::Unsure;
            let waits = || members.waits(&member, failover, self.hub.clock.now());
            let watched = record.is_some();
            let seen = self.presence.see(key, &member, record, reach, is_due(last, policy), policy);
            let (record, withheld, reach) = (seen.record, seen.withheld, seen.reach);
            let found = record.as_ref().filter(|_| !watched);
            let foreign = found.and_then(|_| self.presence.taken(key, &member, policy));
            let foreign = foreign.filter(|found| !found.ours);
            let standing = states.remove(name).unwrap_or_default();
            let has = record.as_ref().map_or(Has::Other, |record| standing.has(wish.content, record.content));
            let (took, told) = (standing.took(), standing.told());
            let refused = standing.refusal.map(|refusal| Refused {
                times: refusal.times,
                pause: refusal.pause(wish.content),
                message: refusal.message,
            });
            let waiting = waiting.remove(name).unwrap_or_default();
            let selector = set.spec.as_ref().map(|spec| &spec.selector);
            let startup = record
                .as_ref()
                .filter(|_| reach == Reach::Online)
                .and_then(|record| self.startup.why(key, &member, record.startup(waiting.len()), selector));
            let seen = Seen {
                reach,
                record,
                foreign,
                withheld,
                waiting,
                startup,
                unheard,
                has,
                took,
                told,
                refused,
                on_its_way: standing.on_its_way,
                waits: if reach == Reach::Offline { waits() } else { None },
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
                why: write.why.clone(),
                about: set.object_ref(&()),
                namespace: self.hub.namespace(&set.namespace().unwrap_or_default()),
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
        let conditions = set.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let failed = conditions.into_iter().any(|one| one.type_ == "ReplicaFailure");
        let failures = self.failures.news(&Key::of(set), &plan.uncreated, failed);
        for told in plan.told.iter().chain(&failures) {
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
            self.hub.recorder.tell(set, Weight::Warning, "PreferencesMalformed", message);
        }
    }
}
