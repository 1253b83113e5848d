//! The controller of federated Deployments: one key at a time. Shadows and the record of started clusters are written before any member is, so
//! that whoever comes next after a crash knows as much.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use koinon_api::failover::Failover;
use koinon_api::names::workloads;
use koinon_api::placement::Placement;
use koinon_control::call;
use koinon_control::events::Weight;
use koinon_control::queue::Next;
use koinon_control::{Key, View};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::memory::{Memories, Memory};
use super::plan::{Decision, Known, Rules, decide};
use super::snapshot::{Refused, Seen};
use super::{events, manifest, read, status};
use crate::barred::{self, Barred};
use crate::content;
use crate::deployments::read::hash;
use crate::digest::letters;
use crate::failures::Failures;
use crate::hub::Hub;
use crate::members::{DeploymentRecord, Kind};
use crate::metrics::{self, Part};
use crate::rollout::{self, Reach, Step};
use crate::startup::Startup;
use crate::takeover::{Policy, Presence, is_due};
use crate::writing::{Count, Has, Order, Template, Why, WriteHistory, WriteState, Writer};

/// The controller of federated Deployments.
pub(crate) struct Controller {
    pub(super) hub: Arc<Hub>,
    view: Arc<View<Deployment>>,
    pub(super) sets: Arc<View<ReplicaSet>>,
    writer: Writer<DeploymentRecord>,
    /// What members have under the same names that is not ours.
    presence: Arc<Presence<DeploymentRecord>>,
    /// What shadows were given, and made of it.
    pub(super) shadows: WriteHistory,
    pub(super) memory: Memories,
    failures: Failures,
    startup: Startup,
}

impl Controller {
    pub(crate) fn new(hub: Arc<Hub>, view: Arc<View<Deployment>>, sets: Arc<View<ReplicaSet>>) -> Controller {
        let queue = hub.queue.clone();
        let index = hub.members.deployments.clone();
        let jobs = queue.clone();
        let presence = Arc::new(Presence::new(move |key| jobs.add((Kind::Deployment, key.clone()))));
        let (history, recorder) = (hub.history.clone(), hub.recorder.clone());
        let writer = Writer::new(index, history, presence.clone(), recorder, move |key| {
            queue.add((Kind::Deployment, key.clone()));
        });
        let shadows = WriteHistory::new(hub.options.retry_refused);
        let jobs = hub.queue.clone();
        let startup = Startup::new(Kind::Deployment, hub.options.unschedulable_after, move |key| {
            jobs.add((Kind::Deployment, key.clone()));
        });
        let (memory, failures) = (Memories::default(), Failures::default());
        Controller { hub, view, sets, writer, presence, shadows, memory, failures, startup }
    }

    pub(crate) async fn reconcile(&self, key: &Key) -> Next {
        let Some(deployment) = self.view.get(key) else {
            self.hub.history.forget(Kind::Deployment, key);
            self.presence.forget(key);
            self.failures.forget(key);
            self.startup.forget(key);
            for shadow in self.memory.forget(key) {
                self.forget_shadow(&shadow);
            }
            self.hub.metrics.count(Kind::Deployment, key, None);
            return Next::Done;
        };
        if let Some(next) = self.hub.guard(Kind::Deployment, key, &*deployment, &self.view).await {
            return next;
        }
        if deployment.metadata.deletion_timestamp.is_some() {
            return Next::Done;
        }
        let template = deployment.spec.as_ref().map(|spec| &spec.template);
        let outcome = match self.hub.barred(key, template) {
            Some(barred) => self.say_barred(&deployment, &barred).await,
            None => self.work_on(key, deployment).await,
        };
        match outcome {
            Ok(next) => next,
            Err(error) => {
                tracing::debug!(%key, %error, "the Deployment, or one of its shadows, was not written");
                Next::Retry
            }
        }
    }

    /// How much is remembered, by what it is for.
    pub(crate) fn remembered(&self) -> [(metrics::Memory, usize); 4] {
        [
            (metrics::Memory::Shadows, self.shadows.len()),
            (metrics::Memory::Workloads, self.memory.len()),
            (metrics::Memory::Presence, self.presence.len()),
            (metrics::Memory::Troubles, self.failures.len() + self.startup.len()),
        ]
    }

    async fn work_on(&self, key: &Key, mut deployment: Arc<Deployment>) -> Result<Next, call::Error> {
        if let Some(answer) = self.roll_back(&deployment).await? {
            self.view.learn(answer);
            return Ok(Next::After(Duration::ZERO));
        }
        self.ask_members(&deployment).await;
        let decision = self.decide(&deployment);
        let Some(mut decision) = decision else { return Ok(Next::Done) };
        if let Some(replicas) = decision.follows {
            self.view.learn(self.follow(&deployment, replicas).await?);
            return Ok(Next::After(Duration::ZERO));
        }
        self.make_shadows(&deployment, &decision).await?;
        if decision.plan.record != read::record(&deployment).unwrap_or_default() {
            deployment = self.write_record(&deployment, &decision).await?;
            if let Some(told) = events::started(&decision.plan) {
                self.hub.recorder.tell(&*deployment, told.weight, told.reason, told.message);
            }
        }
        let orders = self.orders(&deployment, &decision);
        let wrote = !orders.is_empty();
        let seen = deployment.clone();
        let anchoring = self.hub.deletions.anchor(Kind::Deployment, &seen.metadata);
        let anchored = if orders.is_empty() {
            anchoring.await
        } else {
            let timer = self.hub.metrics.time(Part::Members);
            self.remember(&deployment, |memory| memory.decided = Some(decision.placement.clone()));
            let (anchored, ()) = futures::join!(anchoring, self.writer.carry_out(orders));
            drop(timer);
            // Whoever changed it meanwhile had it queued again.
            let Some(now) = self.view.get(key) else { return Ok(Next::Done) };
            if now.metadata.generation != deployment.metadata.generation {
                return Ok(Next::Done);
            }
            deployment = now;
            let Some(again) = self.decide(&deployment) else { return Ok(Next::Done) };
            decision = again;
            anchored
        };
        self.hub.metrics.count(Kind::Deployment, key, Some(decision.counts()));
        let timer = self.hub.metrics.time(Part::Status);
        self.say(&deployment, &decision).await?;
        self.count_shadows(&deployment, &decision).await?;
        drop(timer);
        anchored?;
        let more = !self.orders(&deployment, &decision).is_empty();
        let starts = !decision.plan.started.is_empty();
        let others = self.presence.look_again(key).into_iter().chain(self.startup.look_again(key));
        let look_again = decision.look_again.into_iter().chain(others).min();
        Ok(match look_again {
            _ if starts && wrote => Next::After(Duration::ZERO),
            _ if more => Next::Retry,
            Some(pause) => Next::After(pause),
            None => Next::Done,
        })
    }

    fn decide(&self, deployment: &Deployment) -> Option<Decision> {
        let _timer = self.hub.metrics.time(Part::Plan);
        let spec = deployment.spec.as_ref()?;
        let shadows = self.known_shadows(deployment);
        let memory = self.memory.of(deployment);
        let names: Vec<String> = shadows.iter().map(|shadow| shadow.template.clone()).collect();
        let said = self.said(deployment, &memory);
        let before = memory.decided.clone().or_else(|| said.clone());
        let mut members = self.look(deployment, &hash(&spec.template), &names, before.as_ref());
        let withheld = members
            .extract_if(.., |_, seen| seen.withheld.is_some())
            .filter_map(|(name, seen)| Some((name, seen.withheld?)))
            .collect();
        let now = self.hub.clock.now();
        self.remember(deployment, |memory| memory.unobserved.update(now, &mut members));
        let known = Known {
            members: &members,
            withheld: &withheld,
            shadows,
            record: read::record(deployment).unwrap_or(memory.record),
            progress: read::said(deployment),
            said,
            before,
        };
        let hub = &self.hub;
        let rules = Rules { surge: hub.options.max_surge, patience: hub.options.unschedulable_after };
        Some(decide(now, rules, deployment, spec, &known))
    }

    /// Where the replicas are by what is written down.
    fn said(&self, deployment: &Deployment, memory: &Memory) -> Option<Placement> {
        let said = deployment.annotations().get(workloads::PLACEMENT).and_then(|text| Placement::parse(text));
        said.or_else(|| memory.placement.clone())
    }

    /// Asks members that have nothing of ours what they have under this name, where that is not known.
    async fn ask_members(&self, deployment: &Deployment) {
        let Some(spec) = &deployment.spec else { return };
        let memory = self.memory.of(deployment);
        let before = memory.decided.clone().or_else(|| self.said(deployment, &memory));
        let (key, generation) = (Key::of(deployment), deployment.metadata.generation.unwrap_or(0));
        let policy = Policy::of(deployment.annotations());
        let due = self.hub.members.due(&self.presence, &self.hub.members.deployments, &key, |name| {
            is_due(before.as_ref().and_then(|before| before.clusters.get(name)), policy)
        });
        let stale = due.into_iter().filter(|member| self.presence.is_stale(&key, member, generation));
        let said = content::said(&deployment.metadata, spec);
        self.presence.ask(&key, stale.collect(), said, generation).await;
    }

    /// Every member as it is seen now. `wanted` and `shadows` are the templates that have a name, `before` is where the replicas
    /// were last.
    fn look(
        &self,
        deployment: &Deployment,
        wanted: &str,
        shadows: &[String],
        before: Option<&Placement>,
    ) -> BTreeMap<String, Seen> {
        let (key, members) = (&Key::of(deployment), &self.hub.members);
        let (policy, failover) =
            (Policy::of(deployment.annotations()), Failover::of(deployment.annotations()));
        let mut waiting = members.waiting.of(Kind::Deployment, key);
        // Before the records: what is answered in between is then still on its way, and not taken for somebody's change.
        let mut states = self.hub.history.of(Kind::Deployment, key);
        let mut records = members.deployments.everywhere(key);
        let seen = members.fleet.members().into_iter().map(|member| {
            let name = member.name();
            let last = before.and_then(|before| before.clusters.get(name.as_str()));
            let reach = members.reach_since(&member, &members.deployments, last);
            let unheard = reach == Reach::Unsure;
            let waits = || members.waits(&member, failover, self.hub.clock.now());
            let seen =
                self.presence.see(key, &member, records.remove(name), reach, is_due(last, policy), policy);
            let (record, withheld, reach) = (seen.record, seen.withheld, seen.reach);
            let standing = states.remove(name).unwrap_or_default();
            let known = |name: &str| name == wanted || shadows.iter().any(|shadow| shadow == name);
            let template = record.as_ref().and_then(|record| template_of(record, &standing, known));
            let took = standing.took();
            let waiting = waiting.remove(name).unwrap_or_default();
            let selector = deployment.spec.as_ref().map(|spec| &spec.selector);
            let startup = record
                .as_ref()
                .filter(|_| reach == Reach::Online)
                .and_then(|record| self.startup.why(key, &member, record.startup(waiting.len()), selector));
            let seen = Seen {
                reach,
                record,
                withheld,
                template,
                waiting,
                startup,
                unheard,
                took,
                refused: standing.refusal.map(|one| Refused {
                    times: one.times,
                    pause: one.left(),
                    message: one.message,
                }),
                on_its_way: standing.on_its_way,
                waits: if reach == Reach::Offline { waits() } else { None },
                unobserved_since: None,
            };
            (name.as_str().to_owned(), seen)
        });
        seen.collect()
    }

    fn orders(&self, deployment: &Deployment, decision: &Decision) -> Vec<Order> {
        let templates = self.templates(deployment);
        let steps = decision.plan.steps.iter();
        steps.filter_map(|(name, step)| self.order(deployment, decision, &templates, name, step)).collect()
    }

    /// What is to be written to a member, if it has something else.
    fn order(
        &self,
        deployment: &Deployment,
        decision: &Decision,
        templates: &BTreeMap<String, Value>,
        name: &str,
        step: &Step,
    ) -> Option<Order> {
        let (hub, key) = (&self.hub, Key::of(deployment));
        let member = hub.members.fleet.get(name)?;
        let standing = hub.history.at(&(Kind::Deployment, key.clone(), member.name().clone()));
        let record = hub.members.deployments.get(name, &key);
        let found = match record {
            Some(_) => None,
            None => self.presence.taken(&key, &member, Policy::of(deployment.annotations())),
        };
        let record = record.or_else(|| found.as_ref().map(|found| found.record.clone()));
        // What somebody else made becomes ours with its new template, when its turn has come, and all of it at once.
        let foreign = found.filter(|found| !found.ours);
        let known = |name: &str| templates.contains_key(name);
        let has_template = record.as_ref().and_then(|record| template_of(record, &standing, known));
        let template = match &step.template {
            rollout::Template::Wanted => Some(decision.desired.template.clone()),
            rollout::Template::Revision(hash) => Some(hash.clone()),
            rollout::Template::AsItIs => has_template,
        };
        let content_of =
            template.as_ref().and_then(|hash| Some((hash.as_str(), templates.get(hash)?.clone())));
        let keeps = content_of.is_none();
        if keeps && record.is_none() {
            return None;
        }
        let part = decision.parts.get(name).copied();
        let spec = deployment.spec.as_ref()?;
        let mut manifest = manifest::manifest(deployment, spec, step, content_of, part);
        let content = content::of_manifest(&manifest);
        if standing.refusal.as_ref().is_some_and(|refusal| refusal.pause(content).is_some()) {
            return None;
        }
        let count = step.replicas.map_or(Count::AsItIs, Count::Of);
        let why = match &record {
            None => decision.missing.get(name).cloned().unwrap_or(Why::New),
            Some(_) if foreign.is_some() && step.template == rollout::Template::AsItIs => return None,
            Some(_) if let Some(foreign) = &foreign => foreign.take_over(),
            Some(record) => {
                let miscounts = step.replicas.is_some_and(|replicas| replicas != record.spec_replicas);
                let told = standing.told().is_some_and(|told| told != record.spec_replicas);
                // A template of nobody's is left as it is, and what is beside it is put right when its turn comes.
                let has = if keeps { Has::This } else { standing.has(content, record.content) };
                match has {
                    Has::Drifted => Why::Drifted,
                    Has::Other => Why::Changed,
                    Has::This if miscounts && told => Why::Drifted,
                    Has::This if miscounts => Why::Changed,
                    Has::This => return None,
                }
            }
        };
        if let Count::Of(replicas) = count {
            manifest["spec"]["replicas"] = replicas.into();
        }
        let template =
            if keeps { Template::AsItIs } else { Template::Said(template.map(|name| name.as_str().into())) };
        Some(Order {
            member,
            key,
            manifest,
            content,
            count,
            template,
            why,
            about: deployment.object_ref(&()),
            namespace: hub.namespace(&deployment.namespace().unwrap_or_default()),
        })
    }

    /// Says why nothing is placed; what runs stays as it is. `kubectl rollout status` fails at once.
    async fn say_barred(&self, deployment: &Deployment, barred: &Barred) -> Result<Next, call::Error> {
        let known = deployment.status.as_ref();
        let kept = known.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let told = kept.iter().any(|one| {
            one.type_ == barred::CONDITION && one.message.as_deref() == Some(barred.message.as_str())
        });
        let status = status::barred(self.hub.clock.now(), deployment, barred);
        if content::is_same_status(&deployment.status, &Some(&status)) {
            return Ok(Next::Done);
        }
        let patch = json!({"metadata": {"resourceVersion": deployment.resource_version()}, "status": status});
        let answer = self.hub.patch_status(deployment, patch).await?;
        if !told {
            self.hub.recorder.tell(deployment, Weight::Warning, barred.reason, barred.message.as_str());
        }
        self.view.learn(answer);
        Ok(Next::Done)
    }

    /// Writes down who is started, over exactly what was looked at.
    async fn write_record(
        &self,
        deployment: &Deployment,
        decision: &Decision,
    ) -> Result<Arc<Deployment>, call::Error> {
        let record = &decision.plan.record;
        let text = (!record.clusters.is_empty()).then(|| serde_json::to_string(record).unwrap_or_default());
        let patch = json!({"metadata": {
            "resourceVersion": deployment.resource_version(),
            "annotations": {workloads::ROLLOUT: text},
        }});
        let answer = self.hub.patch_status(deployment, patch).await?;
        self.remember(deployment, |memory| memory.record = record.clone());
        self.view.learn(answer.clone());
        Ok(Arc::new(answer))
    }

    /// Writes status and placement where they differ from what is there, and tells what changed.
    async fn say(&self, deployment: &Deployment, decision: &Decision) -> Result<(), call::Error> {
        let now = self.hub.clock.now();
        let more = decision.faults.iter().chain(&decision.failure).cloned();
        let status = status::status(now, deployment, &decision.plan.status, more);
        let revision = decision.plan.shadows.wanted.iter().map(|shadow| shadow.revision).max();
        let others = content::size_beside_placement(deployment.annotations());
        let revisions = self.revisions_wanted(deployment, decision);
        let annotations = [
            (workloads::PLACEMENT, Some(decision.placement.to_json_beside(others))),
            (workloads::REVISION, revision.map(|revision| revision.to_string())),
            (workloads::REVISIONS, revisions.to_json()),
            // kubectl's undo brings it along with the annotations of the shadow.
            (workloads::SHADOW, None),
        ];
        let there = deployment.annotations();
        let differs = annotations.iter().any(|(name, value)| there.get(*name) != value.as_ref());
        if content::is_same_status(&deployment.status, &Some(&status)) && !differs {
            self.remember(deployment, |memory| memory.decided = None);
            return Ok(());
        }
        let patch = json!({
            "metadata": {
                "resourceVersion": deployment.resource_version(),
                "annotations": BTreeMap::from(annotations),
            },
            "status": status,
        });
        let answer = self.hub.patch_status(deployment, patch).await?;
        self.remember(deployment, |memory| {
            memory.placement = Some(decision.placement.clone());
            memory.decided = None;
            memory.revisions = Some(revisions);
        });
        let story = events::tell(deployment, &decision.plan);
        let failed = read::has_failure(deployment);
        let failures = self.failures.news(&Key::of(deployment), &decision.uncreated, failed);
        for told in decision.told.iter().chain(&story).chain(&failures) {
            self.hub.recorder.tell(deployment, told.weight, told.reason, told.message.as_str());
        }
        self.tell_faults(deployment, decision);
        self.view.learn(answer);
        Ok(())
    }

    fn tell_faults(&self, deployment: &Deployment, decision: &Decision) {
        let known =
            deployment.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        for fault in &decision.faults {
            let told = known
                .iter()
                .any(|one| one.type_ == fault.kind && one.message.as_deref() == Some(fault.message.as_str()));
            if !told {
                let reason = if fault.kind == "PreferencesValid" {
                    "PreferencesMalformed"
                } else {
                    "RolloutMalformed"
                };
                self.hub.recorder.tell(deployment, Weight::Warning, reason, fault.message.as_str());
            }
        }
    }

    pub(super) fn remember(&self, deployment: &Deployment, change: impl FnOnce(&mut Memory)) {
        self.memory.change(deployment, change);
    }

    /// All templates that have a name, by that.
    pub(super) fn templates(&self, deployment: &Deployment) -> BTreeMap<String, Value> {
        let known = self.memory.of(deployment).templates.into_iter();
        let known = known.map(|(name, (template, _))| (name, template));
        let wanted = deployment.spec.as_ref().map(|spec| (hash(&spec.template), read::plain(&spec.template)));
        known.chain(wanted).collect()
    }
}

/// The name of the template that a member has, if it is one of ours: by what it says, by what we saw the member make of ours, or by
/// what we wrote beside it.
fn template_of(
    record: &DeploymentRecord,
    standing: &WriteState,
    is_known: impl Fn(&str) -> bool,
) -> Option<String> {
    let said = letters(record.template);
    if is_known(&said) {
        return Some(said);
    }
    let taken = standing.template(record.content).map(|name| name.to_string());
    taken.or_else(|| record.named.as_deref().filter(|name| is_known(name)).map(str::to_owned))
}
