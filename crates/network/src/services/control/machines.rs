//! Services of virtual machines, in the member that is led.

use k8s_openapi::api::core::v1::Service;
use koinon_api::names::MANAGER;
use koinon_api::names::network::VM_SERVICE;
use koinon_control::Key;
use koinon_control::events::Weight;
use koinon_control::queue::Next;
use koinon_fleet::Knowledge;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use super::act::{Error, only, post_params};
use super::post::{At, Job};
use super::undone::Undone;
use crate::services::machines::{Input, MachineStep, plan};
use crate::services::metrics::Written;
use crate::services::model::{Kind, Source};
use crate::services::records::{Manager, Occupant, is_made_by_us};
use crate::services::render;
use crate::services::telling::Notice;

impl At {
    /// Looks at one Service of machines.
    pub(super) async fn machines(&self, key: &Key) -> Next {
        let here = self.post.name();
        let is_known = self.own.knowledge(here.as_str()) != Knowledge::Unknown
            && self.sources.services.knowledge(here.as_str()) != Knowledge::Unknown
            && self.machine_services.knowledge(here.as_str()) != Knowledge::Unknown
            && self.machines.knowledge(here.as_str()) != Knowledge::Unknown;
        if !is_known {
            return Next::Done;
        }
        let mut input = self.machine_input(key);
        if input.ours.is_none() && input.taken && !input.slices.is_empty() {
            // What has endpoints of ours may be ours, with a label that somebody wrote over.
            match self.take_back_machines(key).await {
                Ok(()) => input = self.machine_input(key),
                Err(error) => {
                    tracing::debug!(%here, %key, %error, "whose Service it is cannot be told");
                    return Next::Retry;
                }
            }
        }
        let plan = plan(here, key, &input);
        let mut undone = Undone::default();
        if !plan.is_settled() {
            undone = self.act_on_slices(key, Manager::Machines, &plan.slices).await;
            if let (Some(step), false) = (&plan.service, undone.is_passing()) {
                undone.note(self.act_on_machines(key, step).await);
            }
        }
        let mut notices = if plan.is_taken { self.name_taken(key) } else { Vec::new() };
        let uid = input.ours.as_ref().map(|ours| ours.uid.as_str()).unwrap_or_default();
        notices.extend(undone.told(Kind::Service, key, uid));
        self.tell(Job::Machines(key.clone()), notices);
        if undone.is_empty() {
            return Next::Done;
        }
        tracing::debug!(%here, %key, ?undone, "not as it should be yet");
        Next::Retry
    }

    fn machine_input(&self, key: &Key) -> Input {
        let here = self.post.name();
        let names: Vec<Key> = {
            let books = self.asked.lock();
            books.members_of(key).map(|source| source.key.clone()).collect()
        };
        let machines = names.into_iter().filter_map(|name| {
            let machine = self.machines.get(here.as_str(), &name)?;
            Some((name, machine))
        });
        Input {
            prefer: self.options.prefer,
            machines: machines.collect(),
            ours: self.machine_services.get(here.as_str(), key),
            taken: self.sources.services.get(here.as_str(), key).is_some(),
            slices: self.own_slices(key, Manager::Machines),
        }
    }

    fn name_taken(&self, key: &Key) -> Vec<Notice> {
        let here = self.post.name().as_str();
        let uid = match self.sources.services.get(here, key).as_deref() {
            Some(Occupant::Plain { uid, .. }) => uid.clone(),
            Some(Occupant::Member(joining)) => joining.uid.clone(),
            Some(Occupant::Ours(published)) => published.uid.clone(),
            None => return Vec::new(),
        };
        let message =
            format!("virtual machines are tagged to be the Service {key}, but this Service is there already");
        vec![Notice::name_taken(key, uid, message)]
    }

    async fn act_on_machines(&self, key: &Key, step: &MachineStep) -> Result<(), Error> {
        let (here, client) = (self.post.name(), self.post.client());
        let api: Api<Service> = client.namespaced(&key.namespace);
        self.may_write()?;
        let after = match step {
            MachineStep::Create { ports } => {
                let service = render::machine_service(key, ports);
                let made = client.call(api.create(&post_params(), &service)).await;
                self.outcome(Written::Service, || format!("to create the Service {key}"), made)?
            }
            MachineStep::Update { uid, version, ports } => {
                self.patch_machines(key, render::machine_service_patch(uid, version, ports)).await?
            }
            MachineStep::Vacate { uid, version } => {
                self.patch_machines(key, render::machine_service_vacated(uid, version)).await?
            }
            MachineStep::Occupy { uid, version, ports } => {
                self.patch_machines(key, render::machine_service_occupied(uid, version, ports)).await?
            }
            MachineStep::Delete { uid, version } => return self.delete_machines(key, uid, version).await,
        };
        self.sources.services.learn(here, &after);
        self.machine_services.learn(here, &after);
        Ok(())
    }

    /// Looks past the watch, which finds by label, whether a Service is ours after all.
    async fn take_back_machines(&self, key: &Key) -> Result<(), Error> {
        let (here, client) = (self.post.name(), self.post.client());
        let api: Api<Service> = client.namespaced(&key.namespace);
        let there = client.call(api.get_opt(&key.name)).await;
        let there = self.outcome(Written::Service, || format!("to read the Service {key}"), there)?;
        let Some(there) = there.filter(|there| {
            there.annotations().contains_key(VM_SERVICE) && is_made_by_us(&there.metadata, VM_SERVICE)
        }) else {
            return Ok(());
        };
        self.may_write()?;
        let (uid, version) = (there.uid().unwrap_or_default(), there.resource_version().unwrap_or_default());
        let after = self.patch_machines(key, render::labelled(&uid, &version)).await?;
        self.machine_services.learn(here, &after);
        Ok(())
    }

    async fn patch_machines(&self, key: &Key, patch: Value) -> Result<Service, Error> {
        let api: Api<Service> = self.post.client().namespaced(&key.namespace);
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let after = self.post.client().call(api.patch(&key.name, &params, &Patch::Merge(patch))).await;
        self.outcome(Written::Service, || format!("to change the Service {key}"), after)
    }

    async fn delete_machines(&self, key: &Key, uid: &str, version: &str) -> Result<(), Error> {
        let (here, client) = (self.post.name(), self.post.client());
        let api: Api<Service> = client.namespaced(&key.namespace);
        let gone = client.call(api.delete(&key.name, &only(uid, version))).await;
        self.gone(Written::Service, || format!("to delete the Service {key}"), gone.map(drop))?;
        self.sources.services.forget(here, key, uid);
        self.machine_services.forget(here, key, uid);
        Ok(())
    }

    /// What is wrong with a machine, for its users.
    pub(super) fn machine_flaws(&self, source: &Source) -> Vec<Notice> {
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
