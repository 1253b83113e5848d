//! Looks at one federated Deployment at a time. Shadows and the record of who is started are written before any member is, so
//! that whoever comes next after a crash knows as much.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use koinon_api::names::workloads;
use koinon_api::placement::Placement;
use koinon_control::call;
use koinon_control::events::Weight;
use koinon_control::queue::Next;
use koinon_control::{Key, View};
use kube::{Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::look::{Refused, Seen, Unobserved};
use super::plan::{Decision, Known, Rules, decide};
use super::{manifest, read, status, story};
use crate::content;
use crate::deployments::read::hash;
use crate::digest::letters;
use crate::hub::Hub;
use crate::members::{DeploymentRecord, Kind};
use crate::metrics::Part;
use crate::rollout::{self, Record, Step};
use crate::writing::{Count, Has, Ledger, Order, Standing, Template, Why, Writer};

/// The controller of federated Deployments.
pub(crate) struct Controller {
    pub(super) hub: Arc<Hub>,
    view: Arc<View<Deployment>>,
    pub(super) sets: Arc<View<ReplicaSet>>,
    writer: Writer<DeploymentRecord>,
    /// What shadows were given, and made of it.
    pub(super) shadows: Ledger,
    /// What was last written on each, by its UID: kubectl's undo replaces all annotations.
    memory: Mutex<HashMap<String, Memory>>,
}

/// What a Deployment should say of itself, in case somebody wiped it off.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    record: Record,
    placement: Option<Placement>,
    /// What members were told, as long as it is not written down: whoever changes the Deployment at that moment must not bring
    /// back what was decided before.
    decided: Option<Placement>,
    unobserved: Unobserved,
    /// The templates of its revisions, by name.
    pub(super) templates: BTreeMap<String, (Value, rollout::Shadow)>,
}

impl Controller {
    pub(crate) fn new(hub: Arc<Hub>, view: Arc<View<Deployment>>, sets: Arc<View<ReplicaSet>>) -> Controller {
        let queue = hub.queue.clone();
        let index = hub.members.deployments.clone();
        let writer = Writer::new(index, hub.ledger.clone(), hub.recorder.clone(), move |key| {
            queue.add((Kind::Deployment, key.clone()));
        });
        let shadows = Ledger::new(hub.options.retry_refused);
        Controller { hub, view, sets, writer, shadows, memory: Mutex::default() }
    }

    pub(crate) async fn reconcile(&self, key: &Key) -> Next {
        let Some(deployment) = self.view.get(key) else {
            self.hub.ledger.forget(Kind::Deployment, key);
            self.hub.metrics.count(Kind::Deployment, key, None);
            return Next::Done;
        };
        if let Some(next) = self.hub.guard(Kind::Deployment, key, &*deployment, &self.view).await {
            return next;
        }
        if deployment.metadata.deletion_timestamp.is_some() {
            self.memory.lock().remove(&deployment.uid().unwrap_or_default());
            return Next::Done;
        }
        match self.work_on(key, deployment).await {
            Ok(next) => next,
            Err(error) => {
                tracing::debug!(%key, %error, "the Deployment, or one of its shadows, was not written");
                Next::Retry
            }
        }
    }

    async fn work_on(&self, key: &Key, mut deployment: Arc<Deployment>) -> Result<Next, call::Error> {
        if let Some(answer) = self.roll_back(&deployment).await? {
            self.view.learn(answer);
            return Ok(Next::After(Duration::ZERO));
        }
        let decision = self.decide(&deployment);
        let Some(mut decision) = decision else { return Ok(Next::Done) };
        if let Some(replicas) = decision.follows {
            self.view.learn(self.follow(&deployment, replicas).await?);
            return Ok(Next::After(Duration::ZERO));
        }
        self.make_shadows(&deployment, &decision).await?;
        if decision.plan.record != read::record(&deployment).unwrap_or_default() {
            deployment = self.write_record(&deployment, &decision).await?;
            if let Some(told) = story::started(&decision.plan) {
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
        Ok(match decision.look_again {
            _ if starts && wrote => Next::After(Duration::ZERO),
            _ if more => Next::Retry,
            Some(pause) => Next::After(pause),
            None => Next::Done,
        })
    }

    fn decide(&self, deployment: &Deployment) -> Option<Decision> {
        let _timer = self.hub.metrics.time(Part::Plan);
        let spec = deployment.spec.as_ref()?;
        let uid = deployment.uid().unwrap_or_default();
        let shadows = self.known_shadows(deployment);
        let memory = self.memory.lock().get(&uid).cloned().unwrap_or_default();
        let names: Vec<String> = shadows.iter().map(|shadow| shadow.template.clone()).collect();
        let said = deployment.annotations().get(workloads::PLACEMENT).and_then(|text| Placement::parse(text));
        let said = said.or(memory.placement);
        let mut members = self.look(&Key::of(deployment), &hash(&spec.template), &names);
        let now = self.hub.clock.now();
        self.remember(deployment, |memory| memory.unobserved.update(now, &mut members));
        let known = Known {
            members: &members,
            shadows,
            record: read::record(deployment).unwrap_or(memory.record),
            ended: read::has_ended(deployment),
            told: memory.decided.as_ref().and_then(|_| said.clone()),
            before: memory.decided.or(said),
        };
        let hub = &self.hub;
        let rules = Rules { surge: hub.options.max_surge, patience: hub.options.unschedulable_after };
        Some(decide(now, rules, deployment, spec, &known))
    }

    /// Every member as it is seen now. `wanted` and `shadows` are the templates that have a name.
    fn look(&self, key: &Key, wanted: &str, shadows: &[String]) -> BTreeMap<String, Seen> {
        let members = &self.hub.members;
        let mut waiting = members.waiting.of(Kind::Deployment, key);
        // Before the records: what is answered in between is then still on its way, and not taken for somebody's change.
        let mut standings = self.hub.ledger.of(Kind::Deployment, key);
        let mut records = members.deployments.everywhere(key);
        let seen = members.fleet.members().into_iter().map(|member| {
            let name = member.name();
            let record = records.remove(name);
            let standing = standings.remove(name).unwrap_or_default();
            let known = |name: &str| name == wanted || shadows.iter().any(|shadow| shadow == name);
            let template = record.as_ref().and_then(|record| template_of(record, &standing, known));
            let took = standing.took();
            let seen = Seen {
                reach: members.reach(&member, &members.deployments),
                record,
                template,
                waiting: waiting.remove(name).unwrap_or_default(),
                took,
                refused: standing.refusal.map(|one| Refused {
                    times: one.times,
                    pause: one.left(),
                    message: one.message,
                }),
                on_its_way: standing.on_its_way,
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
        let standing = hub.ledger.at(&(Kind::Deployment, key.clone(), member.name().clone()));
        let record = hub.members.deployments.get(name, &key);
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
            None => decision.missing.get(name).copied().unwrap_or(Why::New),
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
        })
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
        let annotations = [
            (workloads::PLACEMENT, Some(decision.placement.to_json_beside(others))),
            (workloads::REVISION, revision.map(|revision| revision.to_string())),
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
        });
        let story = story::tell(deployment, &decision.plan);
        for told in decision.told.iter().chain(&story) {
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
        change(self.memory.lock().entry(deployment.uid().unwrap_or_default()).or_default());
    }

    /// All templates that have a name, by that.
    pub(super) fn templates(&self, deployment: &Deployment) -> BTreeMap<String, Value> {
        let memory = self.memory.lock();
        let known =
            memory.get(&deployment.uid().unwrap_or_default()).into_iter().flat_map(|one| &one.templates);
        let known = known.map(|(name, (template, _))| (name.clone(), template.clone()));
        let wanted = deployment.spec.as_ref().map(|spec| (hash(&spec.template), read::plain(&spec.template)));
        known.chain(wanted).collect()
    }
}

/// The name of the template that a member has, if it is one of ours: by what it says, by what we saw the member make of ours, or by
/// what we wrote beside it.
fn template_of(
    record: &DeploymentRecord,
    standing: &Standing,
    is_known: impl Fn(&str) -> bool,
) -> Option<String> {
    let said = letters(record.template);
    if is_known(&said) {
        return Some(said);
    }
    let taken = standing.template(record.content).map(|name| name.to_string());
    taken.or_else(|| record.named.as_deref().filter(|name| is_known(name)).map(str::to_owned))
}
