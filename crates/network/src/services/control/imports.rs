//! The reconciler of ServiceImports: what the exports of all clusters make in the led member.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use koinon_api::mcs::{ServiceExport, ServiceImport};
use koinon_api::names::network::SERVICE_IMPORT;
use koinon_api::names::{MANAGED_BY, MANAGER};
use koinon_control::Key;
use koinon_control::queue::Next;
use koinon_fleet::{Index, Knowledge, MemberClient, News, Selection, Unserved};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::context::Context;
use super::inbox::Job;
use super::snapshot::{away_since, least_of};
use super::undone::Undone;
use super::writer::{Error, only, post_params};
use crate::services::mcs::{
    Derived, DerivedStep, Exporter, Import, ImportPlan, ImportStep, Input, Status, derived_key, plan,
};
use crate::services::metrics::Written;
use crate::services::model::{Kind, Source};
use crate::services::records::{Manager, Shape, is_made_by_us};
use crate::services::render;

/// The reconciler of imports in one led member.
pub(super) struct Imports {
    cx: Arc<Context>,
    imports: Arc<Index<Import>>,
    /// The Services behind them.
    derived: Arc<Index<Derived>>,
    /// Which import a Service stands behind.
    derived_names: Mutex<BTreeMap<Key, Key>>,
    /// Names of such Services that somebody else's have.
    taken: Mutex<BTreeSet<Key>>,
}

impl Imports {
    pub(super) fn new(cx: Arc<Context>) -> Imports {
        let (imports, derived) = (Index::<Import>::new(), Index::<Derived>::new());
        let to = cx.inbox.clone();
        imports.on_change(move |news| match *news {
            News::Record(_, key) => to.add(Job::Import(key.clone())),
            News::Knowledge(..) => to.add(Job::All),
        });
        let to = cx.inbox.clone();
        derived.on_change(move |news| match *news {
            News::Record(_, key) => to.add(Job::Derived(key.clone())),
            News::Knowledge(..) => to.add(Job::All),
        });
        Imports { cx, imports, derived, derived_names: Mutex::default(), taken: Mutex::default() }
    }

    /// Watches imports and the Services behind them, for as long as it is polled.
    pub(super) async fn follow(&self) -> Infallible {
        let optional = Selection { unserved: Unserved::Empty, ..Selection::default() };
        let made = Selection { labels: Some(format!("{MANAGED_BY}={MANAGER}")), ..Selection::default() };
        let (member, fleet) = (&self.cx.leader.member, &self.cx.leader.fleet);
        tokio::select! {
            biased;
            never = fleet.follow_member(member, self.imports.clone(), optional, member.client().all()) => never,
            never = fleet.follow_member(member, self.derived.clone(), made, member.client().all()) => never,
        }
    }

    /// The import behind which a Service stands.
    pub(super) fn of_derived(&self, service: &Key) -> Option<Key> {
        self.derived_names.lock().get(service).cloned()
    }

    /// Reconciles one import.
    pub(super) async fn reconcile(&self, key: &Key) -> Next {
        let here = self.cx.here();
        let is_known = [
            self.derived.knowledge(here.as_str()),
            self.imports.knowledge(here.as_str()),
            self.cx.sources.namespaces.knowledge(here.as_str()),
        ];
        if is_known.contains(&Knowledge::Unknown) || !self.cx.slices.is_known() {
            return Next::Done;
        }
        self.derived_names.lock().insert(derived_key(key), key.clone());
        let (input, again) = self.input(key);
        let plan = plan(self.cx.leader.clock().now(), here, key, &input);
        let undone = if plan.is_settled() { Undone::default() } else { self.act_on_import(key, &plan).await };
        let distribution = plan.derived.as_ref().and_then(DerivedStep::traffic_distribution);
        if self.cx.learn_unsupported(&undone, distribution) {
            return Next::Retry;
        }
        // Known from now on: the import says so.
        match undone.is_taken() {
            true => drop(self.taken.lock().insert(derived_key(key))),
            false => drop(self.taken.lock().remove(&derived_key(key))),
        }
        let uid = self.imports.get(here.as_str(), key).map(|import| import.uid.clone()).unwrap_or_default();
        self.cx.notices.tell(Job::Import(key.clone()), undone.told(Kind::ServiceImport, key, &uid));
        if undone.is_empty() {
            return self.cx.look_again(again);
        }
        tracing::debug!(%here, %key, ?undone, "not as it should be yet");
        Next::Retry
    }

    /// All imports that there are, or should be.
    pub(super) fn all(&self) -> BTreeSet<Key> {
        let here = self.cx.here().as_str();
        let mut all: BTreeSet<Key> = BTreeSet::new();
        for member in self.cx.leader.fleet.members() {
            all.extend(
                self.cx.sources.exports.of_member(member.name().as_str()).into_iter().map(|(key, _)| key),
            );
        }
        let imports = self.imports.of_member(here).into_iter();
        all.extend(imports.filter(|(_, import)| import.ours).map(|(key, _)| key));
        let derived = self.derived.of_member(here).into_iter();
        all.extend(derived.map(|(key, derived)| Key::new(key.namespace, derived.import.as_str())));
        all
    }

    /// What a plan looks at, and when to look again even if nothing changes.
    fn input(&self, key: &Key) -> (Input, Option<Timestamp>) {
        let (here, sources) = (self.cx.here(), &self.cx.sources);
        let mut input = Input {
            namespace: sources.namespaces.get(here.as_str(), &Key::new("", &*key.namespace)).is_some(),
            import: self.imports.get(here.as_str(), key),
            derived: self.derived.get(here.as_str(), &derived_key(key)),
            taken: self.taken.lock().contains(&derived_key(key)),
            slices: self.cx.slices.of_service(&derived_key(key), Manager::Imports),
            unsupported: self.cx.unsupported(),
            ..Input::default()
        };
        let (now, stale) = (self.cx.leader.clock().now(), &self.cx.options.stale);
        let mut due = None;
        for member in self.cx.leader.fleet.members() {
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
                slices: super::snapshot::slices(sources, id, key),
                stance,
                counts: sources.subscribers.joins.read().counts(&source),
            });
        }
        (input, due)
    }

    async fn act_on_import(&self, key: &Key, plan: &ImportPlan) -> Undone {
        let behind = derived_key(key);
        let mut undone = self.cx.writer.act_on_slices(&behind, Manager::Imports, &plan.slices).await;
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
        let (here, client) = (self.cx.here(), self.cx.leader.client());
        let api: Api<ServiceImport> = client.namespaced(&key.namespace);
        match &plan.import {
            Some(ImportStep::Create { content }) => {
                self.cx.writer.may_write()?;
                let mut object = content.clone();
                object["metadata"]["name"] = json!(key.name);
                object["metadata"]["namespace"] = json!(key.namespace);
                let import: ServiceImport = serde_json::from_value(object).unwrap_or_default();
                let made = client.call(api.create(&post_params(), &import)).await;
                let made = self.cx.writer.outcome(
                    Written::Import,
                    || format!("to create the ServiceImport {key}"),
                    made,
                )?;
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
                let after = self.cx.writer.patch(Written::Import, &api, "ServiceImport", key, patch).await?;
                self.imports.learn(here, &after);
            }
            Some(ImportStep::Delete { uid, version }) => {
                self.cx.writer.may_write()?;
                let gone = client.call(api.delete(&key.name, &only(uid, version))).await;
                self.cx.writer.gone(
                    Written::Import,
                    || format!("to delete the ServiceImport {key}"),
                    gone.map(drop),
                )?;
                self.imports.forget(here, key, uid);
            }
            None => {}
        }
        if let Some(status) = &plan.import_status {
            let after = self
                .cx
                .writer
                .patch_status(Written::Import, &api, "ServiceImport", key, status.clone())
                .await?;
            self.imports.learn(here, &after);
        }
        Ok(())
    }

    async fn say_of_export(&self, key: &Key, status: &Status) -> Result<(), Error> {
        let api: Api<ServiceExport> = self.cx.leader.client().namespaced(&key.namespace);
        let patch = json!({
            "metadata": {"resourceVersion": status.version}, "status": {"conditions": status.conditions},
        });
        let after = self.cx.writer.patch_status(Written::Import, &api, "ServiceExport", key, patch).await?;
        self.cx.sources.exports.learn(self.cx.here(), &after);
        Ok(())
    }

    async fn act_on_derived(&self, key: &Key, behind: &Key, step: &DerivedStep) -> Result<(), Error> {
        let (here, client): (_, &MemberClient) = (self.cx.here(), self.cx.leader.client());
        let api: Api<Service> = client.namespaced(&behind.namespace);
        let after = match step {
            DerivedStep::Create { shape, headless } => {
                self.cx.writer.may_write()?;
                let service = render::derived_service(behind, &key.name, shape, *headless);
                match client.call(api.create(&post_params(), &service)).await {
                    Err(error) if error.is_conflict() => self.take_back(key, behind, shape).await?,
                    made => self.cx.writer.outcome(
                        Written::Service,
                        || format!("to create the Service {behind}"),
                        made,
                    )?,
                }
            }
            DerivedStep::Update { uid, version, shape } => {
                self.cx
                    .writer
                    .patch(
                        Written::Import,
                        &api,
                        "Service",
                        behind,
                        render::derived_patch(uid, version, shape),
                    )
                    .await?
            }
            DerivedStep::Delete { uid, version } => {
                self.cx.writer.may_write()?;
                let gone = client.call(api.delete(&behind.name, &only(uid, version))).await;
                self.cx.writer.gone(
                    Written::Service,
                    || format!("to delete the Service {behind}"),
                    gone.map(drop),
                )?;
                self.derived.forget(here, behind, uid);
                return Ok(());
            }
        };
        self.derived.learn(here, &after);
        Ok(())
    }

    /// There is a Service already: ours, off which somebody took the label by which it is found, or a stranger's, which stays.
    async fn take_back(&self, key: &Key, behind: &Key, shape: &Shape) -> Result<Service, Error> {
        let api: Api<Service> = self.cx.leader.client().namespaced(&behind.namespace);
        let there = self.cx.leader.client().call(api.get(&behind.name)).await;
        let there =
            self.cx.writer.outcome(Written::Service, || format!("to read the Service {behind}"), there)?;
        let is_behind = there.annotations().get(SERVICE_IMPORT) == Some(&key.name);
        if !is_behind || !is_made_by_us(&there.metadata, SERVICE_IMPORT) {
            return Err(Error::ForeignService(behind.clone()));
        }
        if there.metadata.deletion_timestamp.is_some() {
            // Another comes when it is gone.
            return Ok(there);
        }
        let (uid, version) = (there.uid().unwrap_or_default(), there.resource_version().unwrap_or_default());
        self.cx
            .writer
            .patch(Written::Import, &api, "Service", behind, render::derived_patch(&uid, &version, shape))
            .await
    }
}
