//! The reconciler of Services of virtual machines in the led member.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use koinon_api::names::network::VM_SERVICE;
use koinon_api::names::{MANAGED_BY, MANAGER};
use koinon_control::Key;
use koinon_control::events::Weight;
use koinon_control::queue::Next;
use koinon_fleet::{Index, Knowledge, News, Selection, Unserved};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::Value;

use super::context::Context;
use super::inbox::Job;
use super::join_index::JoinIndex;
use super::undone::Undone;
use super::writer::{Error, only, post_params};
use crate::services::machines::{Input, Machine, MachineService, MachineStep, plan};
use crate::services::messages::Notice;
use crate::services::metrics::Written;
use crate::services::model::{Kind, Source};
use crate::services::records::{Manager, Occupant, is_made_by_us};
use crate::services::render;

/// The reconciler of Services of virtual machines in one led member.
pub(super) struct Machines {
    cx: Arc<Context>,
    machines: Arc<Index<Machine>>,
    /// The Services that were made for them.
    services: Arc<Index<MachineService>>,
    /// Which machines ask for which Service.
    asked: Arc<Mutex<JoinIndex>>,
}

impl Machines {
    pub(super) fn new(cx: Arc<Context>) -> Machines {
        let (machines, asked) = (Index::<Machine>::new(), Arc::new(Mutex::new(JoinIndex::default())));
        let (weak, joins, to) = (Arc::downgrade(&machines), asked.clone(), cx.inbox.clone());
        let had_any = AtomicBool::new(false);
        machines.on_change(move |news| match *news {
            News::Record(cluster, key) => {
                let Some(index) = weak.upgrade() else { return };
                let has_any = !index.is_empty();
                if had_any.swap(has_any, Ordering::Relaxed) != has_any {
                    // With the first machine there is somebody to whom every federated Service needs a name.
                    to.add(Job::All);
                }
                let machine = index.get(cluster.as_str(), key);
                let services = machine.iter().flat_map(|one| one.asks.keys());
                let services: Vec<Key> =
                    services.map(|name| Key::new(key.namespace.as_str(), name.as_str())).collect();
                let source =
                    Source { cluster: cluster.clone(), kind: Kind::VirtualMachine, key: key.clone() };
                let concerned = joins.lock().join(source.clone(), Timestamp::UNIX_EPOCH, &services);
                concerned.keys.into_iter().for_each(|key| to.add(Job::Machines(key)));
                to.add(Job::Member(source));
            }
            News::Knowledge(..) => to.add(Job::All),
        });
        let services = Index::<MachineService>::new();
        let to = cx.inbox.clone();
        services.on_change(move |news| match *news {
            News::Record(_, key) => to.add(Job::Machines(key.clone())),
            News::Knowledge(..) => to.add(Job::All),
        });
        Machines { cx, machines, services, asked }
    }

    /// Watches machines and their Services, for as long as it is polled.
    pub(super) async fn follow(&self) -> Infallible {
        let optional = Selection { unserved: Unserved::Empty, ..Selection::default() };
        let made = Selection { labels: Some(format!("{MANAGED_BY}={MANAGER}")), ..Selection::default() };
        let (member, fleet) = (&self.cx.leader.member, &self.cx.leader.fleet);
        tokio::select! {
            biased;
            never = fleet.follow_member(member, self.machines.clone(), optional, member.client().all()) => never,
            never = fleet.follow_member(member, self.services.clone(), made, member.client().all()) => never,
        }
    }

    /// Whether the led member has virtual machines; nothing while that is not known.
    pub(super) fn are_there(&self) -> Option<bool> {
        let is_known = self.machines.knowledge(self.cx.here().as_str()) != Knowledge::Unknown;
        is_known.then(|| !self.machines.is_empty())
    }

    /// All Services of machines that there are, or should be.
    pub(super) fn all(&self) -> BTreeSet<Key> {
        let here = self.cx.here().as_str();
        let mut all: BTreeSet<Key> = self.asked.lock().federated().cloned().collect();
        all.extend(self.services.of_member(here).into_iter().map(|(key, _)| key));
        all
    }

    /// Reconciles one Service of machines.
    pub(super) async fn reconcile(&self, key: &Key) -> Next {
        let here = self.cx.here();
        let is_known = self.cx.slices.is_known()
            && self.cx.sources.services.knowledge(here.as_str()) != Knowledge::Unknown
            && self.services.knowledge(here.as_str()) != Knowledge::Unknown
            && self.machines.knowledge(here.as_str()) != Knowledge::Unknown;
        if !is_known {
            return Next::Done;
        }
        let mut input = self.input(key);
        if input.ours.is_none() && input.taken && !input.slices.is_empty() {
            // What has endpoints of ours may be ours, with a label that somebody wrote over.
            match self.take_back(key).await {
                Ok(()) => input = self.input(key),
                Err(error) => {
                    tracing::debug!(%here, %key, %error, "whose Service it is cannot be told");
                    return Next::Retry;
                }
            }
        }
        let plan = plan(here, key, &input);
        let mut undone = Undone::default();
        if !plan.is_settled() {
            undone = self.cx.writer.act_on_slices(key, Manager::Machines, &plan.slices).await;
            if let (Some(step), false) = (&plan.service, undone.is_passing()) {
                undone.note(self.act_on_service(key, step).await);
            }
        }
        let mut notices = if plan.is_taken { self.name_taken(key) } else { Vec::new() };
        let uid = input.ours.as_ref().map(|ours| ours.uid.as_str()).unwrap_or_default();
        notices.extend(undone.told(Kind::Service, key, uid));
        self.cx.notices.tell(Job::Machines(key.clone()), notices);
        if undone.is_empty() {
            return Next::Done;
        }
        tracing::debug!(%here, %key, ?undone, "not as it should be yet");
        Next::Retry
    }

    fn input(&self, key: &Key) -> Input {
        let here = self.cx.here();
        let names: Vec<Key> = {
            let joins = self.asked.lock();
            joins.members_of(key).map(|source| source.key.clone()).collect()
        };
        let machines = names.into_iter().filter_map(|name| {
            let machine = self.machines.get(here.as_str(), &name)?;
            Some((name, machine))
        });
        Input {
            prefer: self.cx.options.prefer,
            machines: machines.collect(),
            ours: self.services.get(here.as_str(), key),
            taken: self.cx.sources.services.get(here.as_str(), key).is_some(),
            slices: self.cx.slices.of_service(key, Manager::Machines),
        }
    }

    fn name_taken(&self, key: &Key) -> Vec<Notice> {
        let here = self.cx.here().as_str();
        let uid = match self.cx.sources.services.get(here, key).as_deref() {
            Some(Occupant::Plain { uid, .. }) => uid.clone(),
            Some(Occupant::Member(joining)) => joining.uid.clone(),
            Some(Occupant::Ours(published)) => published.uid.clone(),
            None => return Vec::new(),
        };
        let message =
            format!("virtual machines are tagged to be the Service {key}, but this Service is there already");
        vec![Notice::name_taken(key, uid, message)]
    }

    async fn act_on_service(&self, key: &Key, step: &MachineStep) -> Result<(), Error> {
        let (here, client) = (self.cx.here(), self.cx.leader.client());
        let api: Api<Service> = client.namespaced(&key.namespace);
        self.cx.writer.may_write()?;
        let after = match step {
            MachineStep::Create { ports } => {
                let service = render::machine_service(key, ports);
                let made = client.call(api.create(&post_params(), &service)).await;
                self.cx.writer.outcome(Written::Service, || format!("to create the Service {key}"), made)?
            }
            MachineStep::Update { uid, version, ports } => {
                self.patch(key, render::machine_service_patch(uid, version, ports)).await?
            }
            MachineStep::Vacate { uid, version } => {
                self.patch(key, render::machine_service_vacated(uid, version)).await?
            }
            MachineStep::Occupy { uid, version, ports } => {
                self.patch(key, render::machine_service_occupied(uid, version, ports)).await?
            }
            MachineStep::Delete { uid, version } => return self.delete(key, uid, version).await,
        };
        self.cx.sources.services.learn(here, &after);
        self.services.learn(here, &after);
        Ok(())
    }

    /// Looks past the watch, which finds by label, whether a Service is ours after all.
    async fn take_back(&self, key: &Key) -> Result<(), Error> {
        let (here, client) = (self.cx.here(), self.cx.leader.client());
        let api: Api<Service> = client.namespaced(&key.namespace);
        let there = client.call(api.get_opt(&key.name)).await;
        let there =
            self.cx.writer.outcome(Written::Service, || format!("to read the Service {key}"), there)?;
        let Some(there) = there.filter(|there| {
            there.annotations().contains_key(VM_SERVICE) && is_made_by_us(&there.metadata, VM_SERVICE)
        }) else {
            return Ok(());
        };
        self.cx.writer.may_write()?;
        let (uid, version) = (there.uid().unwrap_or_default(), there.resource_version().unwrap_or_default());
        let after = self.patch(key, render::labelled(&uid, &version)).await?;
        self.services.learn(here, &after);
        Ok(())
    }

    async fn patch(&self, key: &Key, patch: Value) -> Result<Service, Error> {
        let api: Api<Service> = self.cx.leader.client().namespaced(&key.namespace);
        self.cx.writer.patch(Written::Service, &api, "Service", key, patch).await
    }

    async fn delete(&self, key: &Key, uid: &str, version: &str) -> Result<(), Error> {
        let (here, client) = (self.cx.here(), self.cx.leader.client());
        let api: Api<Service> = client.namespaced(&key.namespace);
        let gone = client.call(api.delete(&key.name, &only(uid, version))).await;
        self.cx.writer.gone(Written::Service, || format!("to delete the Service {key}"), gone.map(drop))?;
        self.cx.sources.services.forget(here, key, uid);
        self.services.forget(here, key, uid);
        Ok(())
    }

    /// What is wrong with a machine, for its users.
    pub(super) fn flaws(&self, source: &Source) -> Vec<Notice> {
        let machine = self.machines.get(source.cluster.as_str(), &source.key);
        let Some(machine) = machine else { return Vec::new() };
        let notices = machine.flaws.iter().map(|flaw| Notice {
            kind: Kind::VirtualMachine,
            about: source.key.clone(),
            uid: machine.uid.clone(),
            weight: Weight::Warning,
            reason: flaw.reason,
            message: flaw.message.clone(),
        });
        notices.collect()
    }
}
