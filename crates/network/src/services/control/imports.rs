//! Imports of exported Services, in the member that is led.

use std::collections::BTreeSet;
use std::fmt::Debug;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use koinon_api::mcs::{ServiceExport, ServiceImport};
use koinon_api::names::MANAGER;
use koinon_api::names::network::SERVICE_IMPORT;
use koinon_control::Key;
use koinon_control::queue::Next;
use koinon_fleet::{Knowledge, MemberClient};
use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::act::{Error, only, post_params};
use super::look::{away_since, least_of};
use super::post::{At, Job};
use super::undone::Undone;
use crate::services::mcs::{DerivedStep, Exporter, ImportPlan, ImportStep, Input, Status, derived_key, plan};
use crate::services::metrics::Written;
use crate::services::model::{Kind, Source};
use crate::services::records::{Manager, Shape, is_made_by_us};
use crate::services::render;

impl At {
    /// Looks at one import.
    pub(super) async fn import(&self, key: &Key) -> Next {
        let here = self.post.name();
        let is_known = [
            self.own.knowledge(here.as_str()),
            self.derived.knowledge(here.as_str()),
            self.imports.knowledge(here.as_str()),
            self.sources.namespaces.knowledge(here.as_str()),
        ];
        if is_known.contains(&Knowledge::Unknown) {
            return Next::Done;
        }
        self.derived_names.lock().insert(derived_key(key), key.clone());
        let (input, again) = self.import_input(key);
        let plan = plan(self.post.clock().now(), here, key, &input);
        let undone = if plan.is_settled() { Undone::default() } else { self.act_on_import(key, &plan).await };
        let distribution = plan.derived.as_ref().and_then(DerivedStep::traffic_distribution);
        if self.learn_unsupported(&undone, distribution) {
            return Next::Retry;
        }
        // Known from now on: the import says so.
        match undone.is_taken() {
            true => drop(self.taken.lock().insert(derived_key(key))),
            false => drop(self.taken.lock().remove(&derived_key(key))),
        }
        let uid = self.imports.get(here.as_str(), key).map(|import| import.uid.clone()).unwrap_or_default();
        self.tell(Job::Import(key.clone()), undone.told(Kind::ServiceImport, key, &uid));
        if undone.is_empty() {
            return self.look_again(again);
        }
        tracing::debug!(%here, %key, ?undone, "not as it should be yet");
        Next::Retry
    }

    /// All imports that there are, or should be.
    pub(super) fn everything_of_imports(&self) -> BTreeSet<Key> {
        let here = self.post.name().as_str();
        let mut all: BTreeSet<Key> = BTreeSet::new();
        for member in self.post.fleet.members() {
            all.extend(
                self.sources.exports.of_member(member.name().as_str()).into_iter().map(|(key, _)| key),
            );
        }
        let imports = self.imports.of_member(here).into_iter();
        all.extend(imports.filter(|(_, import)| import.ours).map(|(key, _)| key));
        let derived = self.derived.of_member(here).into_iter();
        all.extend(derived.map(|(key, derived)| Key::new(key.namespace, derived.import.as_str())));
        all
    }

    /// What a plan looks at, and when to look again even if nothing changes.
    fn import_input(&self, key: &Key) -> (Input, Option<Timestamp>) {
        let (here, sources) = (self.post.name(), &self.sources);
        let mut input = Input {
            namespace: sources.namespaces.get(here.as_str(), &Key::new("", &*key.namespace)).is_some(),
            import: self.imports.get(here.as_str(), key),
            derived: self.derived.get(here.as_str(), &derived_key(key)),
            taken: self.taken.lock().contains(&derived_key(key)),
            slices: self.own_slices(&derived_key(key), Manager::Imports),
            unsupported: self.unsupported.lock().clone(),
            ..Input::default()
        };
        let (now, stale) = (self.post.clock().now(), &self.options.stale);
        let mut due = None;
        for member in self.post.fleet.members() {
            let (id, cluster) = (member.name(), member.name().as_str());
            let export = sources.exports.get(cluster, key);
            // What is offered matters where it is exported.
            let offered = [sources.offers.knowledge(cluster), sources.slices.knowledge(cluster)];
            let offered = offered.into_iter().filter(|_| export.is_some());
            let knowledge = least_of(offered.chain([sources.exports.knowledge(cluster)]));
            let (stance, again) = stale.judge(now, knowledge, || away_since(&member));
            due = due.into_iter().chain(again).min();
            if knowledge == Knowledge::Unknown {
                input.unknown.insert(id.clone(), stance);
                continue;
            }
            let Some(export) = export else { continue };
            let source = Source { cluster: id.clone(), kind: Kind::ServiceExport, key: key.clone() };
            input.exporters.push(Exporter {
                cluster: id.clone(),
                export,
                offer: sources.offers.get(cluster, key),
                slices: super::look::slices(sources, id, key),
                stance,
                counts: sources.desk.books.read().counts(&source),
            });
        }
        (input, due)
    }

    async fn act_on_import(&self, key: &Key, plan: &ImportPlan) -> Undone {
        let behind = derived_key(key);
        let mut undone = self.act_on_slices(&behind, Manager::Imports, &plan.slices).await;
        if let (Some(step), false) = (&plan.derived, undone.is_passing()) {
            undone.note(self.act_on_derived(key, &behind, step).await);
        }
        if !undone.is_passing() {
            undone.note(self.act_on_imported(key, plan).await);
        }
        if let (Some(status), false) = (&plan.export, undone.is_passing()) {
            undone.note(self.say_of_export(key, status).await);
        }
        undone
    }

    async fn act_on_imported(&self, key: &Key, plan: &ImportPlan) -> Result<(), Error> {
        let (here, client) = (self.post.name(), self.post.client());
        let api: Api<ServiceImport> = client.namespaced(&key.namespace);
        match &plan.import {
            Some(ImportStep::Create { content }) => {
                self.may_write()?;
                let mut object = content.clone();
                object["metadata"]["name"] = json!(key.name);
                object["metadata"]["namespace"] = json!(key.namespace);
                let import: ServiceImport = serde_json::from_value(object).unwrap_or_default();
                let made = client.call(api.create(&post_params(), &import)).await;
                let made =
                    self.outcome(Written::Import, || format!("to create the ServiceImport {key}"), made)?;
                self.imports.learn(here, &made);
            }
            Some(ImportStep::Update { version, content }) => {
                let mut patch = content.clone();
                patch["metadata"]["resourceVersion"] = json!(version);
                for field in [
                    "ips",
                    "ipFamilies",
                    "sessionAffinityConfig",
                    "internalTrafficPolicy",
                    "trafficDistribution",
                ] {
                    if patch["spec"].get(field).is_none() {
                        patch["spec"][field] = Value::Null;
                    }
                }
                let after = self.patch(&api, "ServiceImport", key, patch).await?;
                self.imports.learn(here, &after);
            }
            Some(ImportStep::Delete { uid, version }) => {
                self.may_write()?;
                let gone = client.call(api.delete(&key.name, &only(uid, version))).await;
                self.gone(Written::Import, || format!("to delete the ServiceImport {key}"), gone.map(drop))?;
                self.imports.forget(here, key, uid);
            }
            None => {}
        }
        if let Some(status) = &plan.import_status {
            let after = self.patch_status(&api, "ServiceImport", key, status.clone()).await?;
            self.imports.learn(here, &after);
        }
        Ok(())
    }

    async fn say_of_export(&self, key: &Key, status: &Status) -> Result<(), Error> {
        let api: Api<ServiceExport> = self.post.client().namespaced(&key.namespace);
        let patch = json!({
            "metadata": {"resourceVersion": status.version}, "status": {"conditions": status.conditions},
        });
        let after = self.patch_status(&api, "ServiceExport", key, patch).await?;
        self.sources.exports.learn(self.post.name(), &after);
        Ok(())
    }

    async fn act_on_derived(&self, key: &Key, behind: &Key, step: &DerivedStep) -> Result<(), Error> {
        let (here, client): (_, &MemberClient) = (self.post.name(), self.post.client());
        let api: Api<Service> = client.namespaced(&behind.namespace);
        let after = match step {
            DerivedStep::Create { shape, headless } => {
                self.may_write()?;
                let service = render::derived_service(behind, &key.name, shape, *headless);
                match client.call(api.create(&post_params(), &service)).await {
                    Err(error) if error.is_conflict() => self.take_back(key, behind, shape).await?,
                    made => {
                        self.outcome(Written::Service, || format!("to create the Service {behind}"), made)?
                    }
                }
            }
            DerivedStep::Update { uid, version, shape } => {
                self.patch(&api, "Service", behind, render::derived_patch(uid, version, shape)).await?
            }
            DerivedStep::Delete { uid, version } => {
                self.may_write()?;
                let gone = client.call(api.delete(&behind.name, &only(uid, version))).await;
                self.gone(Written::Service, || format!("to delete the Service {behind}"), gone.map(drop))?;
                self.derived.forget(here, behind, uid);
                return Ok(());
            }
        };
        self.derived.learn(here, &after);
        Ok(())
    }

    /// There is a Service already: ours, off which somebody took the label by which it is found, or a stranger's, which stays.
    async fn take_back(&self, key: &Key, behind: &Key, shape: &Shape) -> Result<Service, Error> {
        let api: Api<Service> = self.post.client().namespaced(&behind.namespace);
        let there = self.post.client().call(api.get(&behind.name)).await;
        let there = self.outcome(Written::Service, || format!("to read the Service {behind}"), there)?;
        let is_behind = there.annotations().get(SERVICE_IMPORT) == Some(&key.name);
        if !is_behind || !is_made_by_us(&there.metadata, SERVICE_IMPORT) {
            return Err(Error::ForeignService(behind.clone()));
        }
        if there.metadata.deletion_timestamp.is_some() {
            // Another comes when it is gone.
            return Ok(there);
        }
        let (uid, version) = (there.uid().unwrap_or_default(), there.resource_version().unwrap_or_default());
        self.patch(&api, "Service", behind, render::derived_patch(&uid, &version, shape)).await
    }

    async fn patch<K>(&self, api: &Api<K>, kind: &str, key: &Key, patch: Value) -> Result<K, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        self.may_write()?;
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let after = self.post.client().call(api.patch(&key.name, &params, &Patch::Merge(patch))).await;
        self.outcome(Written::Import, || format!("to change the {kind} {key}"), after)
    }

    async fn patch_status<K>(&self, api: &Api<K>, kind: &str, key: &Key, patch: Value) -> Result<K, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        self.may_write()?;
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let after = self.post.client().call(api.patch_status(&key.name, &params, &Patch::Merge(patch))).await;
        self.outcome(Written::Import, || format!("to change the status of the {kind} {key}"), after)
    }
}
