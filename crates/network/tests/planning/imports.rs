//! Imports of the Multi-Cluster Services API, while not everybody is known and while somebody says nonsense.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use koinon_api::mcs::{ServiceExport, ServiceImport};
use koinon_control::Key;
use koinon_fleet::Record as _;
use koinon_network::services::mcs::{
    Derived, DerivedStep, Export, Exporter, Import, ImportPlan, ImportStep, Input, Offer, derived_key, plan,
};
use koinon_network::services::plan::SliceStep;
use koinon_network::services::records::{Manager, OwnSlice, SourceSlice};
use koinon_network::services::render;
use serde_json::{Value, json};

use crate::world::id;

fn hello() -> Key {
    Key::new("demo", "hello")
}

/// One cluster and all that is in it of one import.
#[derive(Default)]
struct Here {
    input: Input,
    version: u64,
    slices: BTreeMap<String, EndpointSlice>,
    derived: Option<Service>,
    import: Option<Value>,
}

impl Here {
    /// A cluster that imports what these export, the oldest first, when all is done.
    fn settled(exporters: Vec<Exporter>) -> Here {
        let mut here =
            Here { input: Input { exporters, namespace: true, ..Input::default() }, ..Here::default() };
        here.settle();
        here
    }

    fn plan(&self) -> ImportPlan {
        plan(Timestamp::UNIX_EPOCH, &id("seen"), &hello(), &self.input)
    }

    fn settle(&mut self) {
        for _ in 0..8 {
            let plan = self.plan();
            if plan.is_settled() {
                return;
            }
            self.apply(plan);
        }
        panic!("it does not come to rest: {:#?}", self.plan());
    }

    fn apply(&mut self, plan: ImportPlan) {
        let behind = derived_key(&hello());
        for step in plan.slices {
            self.version += 1;
            let over = (format!("uid-{}", self.version), self.version.to_string());
            let over = Some((over.0.as_str(), over.1.as_str()));
            match step {
                SliceStep::Create { slice, owner } | SliceStep::Update { slice, owner, .. } => {
                    let made = render::slice(Manager::Imports, &behind, &slice, &owner, over);
                    self.slices.insert(slice.name, made);
                }
                SliceStep::Delete { name, .. } => drop(self.slices.remove(&name).unwrap()),
                SliceStep::Drain { name, .. } => {
                    let slice = self.slices.get_mut(&name).unwrap();
                    for endpoint in slice.endpoints.iter_mut().flatten() {
                        endpoint.conditions.get_or_insert_default().ready = Some(false);
                    }
                }
            }
        }
        self.version += 1;
        match plan.derived {
            Some(DerivedStep::Create { shape, headless }) => {
                let mut made = render::derived_service(&behind, "hello", &shape, headless);
                made.metadata.uid = Some(format!("uid-{}", self.version));
                if !headless {
                    let spec = made.spec.as_mut().unwrap();
                    spec.cluster_ips = Some(vec!["10.96.0.9".into()]);
                    spec.ip_families = Some(vec!["IPv4".into()]);
                }
                self.derived = Some(made);
            }
            Some(DerivedStep::Update { shape, .. }) => {
                let was = self.derived.take().unwrap();
                let mut after = render::derived_service(&behind, "hello", &shape, false);
                after.metadata.uid = was.metadata.uid;
                let (spec, was) = (after.spec.as_mut().unwrap(), was.spec.unwrap());
                (spec.cluster_ip, spec.cluster_ips) = (was.cluster_ip, was.cluster_ips);
                spec.ip_families = was.ip_families;
                self.derived = Some(after);
            }
            Some(DerivedStep::Delete { .. }) => {
                self.derived = None;
                // As a garbage collector does.
                self.slices.clear();
            }
            None => {}
        }
        match plan.import {
            Some(ImportStep::Create { content } | ImportStep::Update { content, .. }) => {
                let status = self.import.take().map(|import| import["status"].clone());
                let mut import = content;
                import["status"] = status.unwrap_or_default();
                self.import = Some(import);
            }
            Some(ImportStep::Delete { .. }) => self.import = None,
            None => {}
        }
        if let (Some(status), Some(import)) = (plan.import_status, &mut self.import) {
            import["status"] = status["status"].clone();
        }
        self.read_back();
    }

    fn read_back(&mut self) {
        self.input.derived = self.derived.as_ref().and_then(Derived::fold).map(Arc::new);
        let import = self.import.clone().map(|mut import| {
            import["metadata"]["name"] = json!("hello");
            serde_json::from_value::<ServiceImport>(import).unwrap()
        });
        self.input.import = import.as_ref().and_then(Import::fold).map(Arc::new);
        let slices = self.slices.iter();
        self.input.slices =
            slices.map(|(name, one)| (name.clone(), Arc::new(OwnSlice::fold(one).unwrap()))).collect();
    }

    /// A leader that has not seen this cluster yet.
    fn unknown(&mut self, cluster: &str) {
        self.input.exporters.retain(|one| one.cluster != id(cluster));
        self.input.unknown.push(id(cluster));
    }

    /// Everything that users of the import see.
    fn shown(&self) -> String {
        format!("{:#?} {:#?} {:#?}", self.import, self.derived, self.slices)
    }
}

/// An export of this age by a cluster, with one endpoint.
fn export(cluster: &str, age: u32, labels: Value, spec: Value) -> Exporter {
    let export: ServiceExport = serde_json::from_value(json!({
        "metadata": {
            "namespace": "demo", "name": "hello", "resourceVersion": "1",
            "creationTimestamp": format!("2026-01-01T00:00:{age:02}Z"),
        },
        "spec": {"exportedLabels": labels},
    }))
    .unwrap();
    let service: Service =
        serde_json::from_value(json!({"metadata": {"namespace": "demo", "name": "hello"}, "spec": spec}))
            .unwrap();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"name": "hello-x", "labels": {"kubernetes.io/service-name": "hello"}},
        "addressType": "IPv4", "ports": [{"name": "tcp", "port": 42, "protocol": "TCP"}],
        "endpoints": [{"addresses": [format!("10.{age}.0.1")], "conditions": {"ready": true}}],
    }))
    .unwrap();
    Exporter {
        cluster: id(cluster),
        export: Arc::new(Export::fold(&export).unwrap()),
        offer: Offer::fold(&service).map(Arc::new),
        slices: vec![("hello-x".into(), Arc::new(SourceSlice::fold(&slice).unwrap()))],
    }
}

fn plain() -> Value {
    json!({
        "clusterIP": "10.96.0.7", "sessionAffinity": "ClientIP", "trafficDistribution": "PreferClose",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}}, "ports": [{"name": "tcp", "port": 42}],
    })
}

fn headless() -> Value {
    json!({"clusterIP": "None", "ports": [{"name": "tcp", "port": 42}]})
}

#[test]
fn an_import_whose_oldest_export_is_not_known_stays_as_it_is() {
    for (oldest, younger) in [(plain(), headless()), (headless(), plain())] {
        let mut here = Here::settled(vec![
            export("a", 1, json!({"tier": "gold"}), oldest),
            export("b", 2, json!({"tier": "lead"}), younger),
        ]);
        let before = here.shown();
        assert!(before.contains("10.1.0.1") && before.contains("10.2.0.1"), "{before}");
        here.unknown("a");
        assert!(here.plan().is_settled(), "{:#?}", here.plan());
        here.settle();
        assert_eq!(here.shown(), before);
    }
}

#[test]
fn what_exports_do_not_agree_on_is_not_forgotten_while_one_of_them_is_not_known() {
    let mut here =
        Here::settled(vec![export("a", 1, json!({}), plain()), export("b", 2, json!({}), headless())]);
    let at = |here: &Here| plan(Timestamp::UNIX_EPOCH, &id("b"), &hello(), &here.input).export;
    let said = at(&here).unwrap().conditions;
    assert!(said.iter().any(|one| one.type_ == "Conflict" && one.status == "True"));
    let mut export = (*here.input.exporters[1].export).clone();
    export.conditions = said;
    here.input.exporters[1].export = Arc::new(export);
    assert_eq!(at(&here), None);
    here.unknown("a");
    assert_eq!(at(&here), None);
}

#[test]
fn what_came_from_who_exports_no_more_goes_even_while_another_is_not_known() {
    let mut here =
        Here::settled(vec![export("a", 1, json!({}), plain()), export("b", 2, json!({}), plain())]);
    here.unknown("a");
    here.input.exporters.clear();
    here.settle();
    assert!(here.shown().contains("10.1.0.1") && !here.shown().contains("10.2.0.1"), "{}", here.shown());
}
