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
use koinon_network::services::view::Stance;
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
                let here = self.import.take();
                let status = here.as_ref().map(|import| import["status"].clone());
                let mut import = content;
                for field in ["labels", "annotations"] {
                    // As a merge does it.
                    let mut after =
                        here.as_ref().map(|one| one["metadata"][field].clone()).unwrap_or_default();
                    merge(&mut after, &import["metadata"][field]);
                    import["metadata"][field] = after;
                }
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
        self.input.unknown.insert(id(cluster), Stance::Keep);
    }

    /// Everything that users of the import see.
    fn shown(&self) -> String {
        format!("{:#?} {:#?} {:#?}", self.import, self.derived, self.slices)
    }
}

/// Changes some keys; those that should be nothing go.
fn merge(object: &mut Value, changes: &Value) {
    let mut after = object.as_object().cloned().unwrap_or_default();
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(after.remove(key)),
            value => drop(after.insert(key.clone(), value.clone())),
        }
    }
    *object = Value::Object(after);
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
        stance: Stance::Keep,
        counts: true,
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

#[test]
fn endpoints_of_who_is_away_are_drained_or_dropped_where_that_was_asked_for() {
    for known in [true, false] {
        let mut here =
            Here::settled(vec![export("a", 1, json!({}), plain()), export("b", 2, json!({}), plain())]);
        let before = here.shown();
        let exporters = here.input.exporters.clone();
        for stance in [Stance::Drain, Stance::Drop] {
            match known {
                true => here.input.exporters[0].stance = stance,
                false => {
                    here.unknown("a");
                    here.input.unknown.insert(id("a"), stance);
                }
            }
            here.settle();
            let of_a = here.slices.values().flat_map(|slice| slice.endpoints.iter().flatten());
            let of_a: Vec<_> = of_a.filter(|one| one.addresses[0] == "10.1.0.1").collect();
            match stance {
                Stance::Drain => assert_eq!(of_a[0].conditions.as_ref().unwrap().ready, Some(false)),
                _ => assert!(of_a.is_empty()),
            }
            assert!(here.shown().contains("10.2.0.1"));
        }
        here.input.unknown.clear();
        here.input.exporters = exporters;
        here.settle();
        assert_eq!(here.slices.len(), 2, "{before}");
    }
}

#[test]
fn labels_that_no_object_can_have_do_not_go_along_and_that_is_said() {
    let labels = json!({"good": "yes", "bad key!": "x", "bad-value": "a b"});
    let here = Here::settled(vec![export("a", 1, labels, plain())]);
    let labels = here.import.as_ref().unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"good": "yes", "app.kubernetes.io/managed-by": "koinon"}));
    let said = plan(Timestamp::UNIX_EPOCH, &id("a"), &hello(), &here.input).export.unwrap().conditions;
    let valid = said.iter().find(|one| one.type_ == "Valid").unwrap();
    assert!(
        valid.status == "True" && valid.message.contains("2 of its exported labels"),
        "{}",
        valid.message
    );
    let flaws = &here.input.exporters[0].export.flaws;
    assert_eq!(flaws.iter().map(|one| one.reason).collect::<Vec<_>>(), ["MetadataRefused"]);
}

#[test]
fn who_brings_too_much_is_not_imported_and_is_told() {
    let mut here =
        Here::settled(vec![export("a", 1, json!({}), headless()), export("b", 2, json!({}), plain())]);
    here.input.exporters[0].counts = false;
    here.settle();
    assert_eq!(here.import.as_ref().unwrap()["spec"]["type"], "ClusterSetIP");
    assert!(!here.shown().contains("10.1.0.1"));
    let said = plan(Timestamp::UNIX_EPOCH, &id("a"), &hello(), &here.input).export.unwrap().conditions;
    assert!(said.iter().any(|one| one.type_ == "Ready" && one.status == "False" && one.reason == "Failed"));
}

#[test]
fn an_import_says_whether_it_can_be_used_and_leaves_alone_what_others_say() {
    let mut here = Here::settled(vec![export("a", 1, json!({}), plain())]);
    let ready = |here: &Here| {
        let all = here.import.as_ref().unwrap()["status"]["conditions"].as_array().unwrap().clone();
        let said =
            |one: &Value| format!("{}={}", one["type"].as_str().unwrap(), one["status"].as_str().unwrap());
        all.iter().map(said).collect::<Vec<_>>()
    };
    assert_eq!(ready(&here), ["Ready=True"]);
    let other = json!({
        "type": "example.com/Seen", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    here.import.as_mut().unwrap()["status"]["conditions"].as_array_mut().unwrap().push(other);
    here.read_back();
    here.settle();
    here.derived.as_mut().unwrap().metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
    here.read_back();
    here.settle();
    assert_eq!(ready(&here), ["example.com/Seen=True", "Ready=False"]);
}

#[test]
fn labels_that_no_export_has_any_more_go_and_those_of_others_stay() {
    let mut here = Here::settled(vec![export("a", 1, json!({"tier": "gold", "team": "x"}), plain())]);
    let labels = |here: &Here| here.import.as_ref().unwrap()["metadata"]["labels"].clone();
    let ours = "app.kubernetes.io/managed-by";
    assert_eq!(labels(&here), json!({"tier": "gold", "team": "x", ours: "koinon"}));
    here.import.as_mut().unwrap()["metadata"]["labels"]["mine"] = json!("stays");
    here.import.as_mut().unwrap()["metadata"]["annotations"]["mine"] = json!("stays");
    here.read_back();
    assert!(here.plan().is_settled(), "{:#?}", here.plan());
    // Somebody who is not known may have said so.
    here.input.exporters = vec![export("b", 2, json!({"tier": "lead"}), plain())];
    here.input.unknown.insert(id("a"), Stance::Keep);
    here.settle();
    assert_eq!(labels(&here), json!({"tier": "gold", "team": "x", "mine": "stays", ours: "koinon"}));
    here.input.unknown.clear();
    here.settle();
    assert_eq!(labels(&here), json!({"tier": "lead", "mine": "stays", ours: "koinon"}));
    here.input.exporters = vec![export("b", 2, json!({ours: "me"}), plain())];
    here.settle();
    assert_eq!(labels(&here), json!({"mine": "stays", ours: "koinon"}));
    assert_eq!(here.import.as_ref().unwrap()["metadata"]["annotations"], json!({"mine": "stays"}));
}

#[test]
fn an_import_whose_place_is_taken_says_so() {
    let mut here =
        Here { input: Input { namespace: true, taken: true, ..Input::default() }, ..Here::default() };
    here.input.exporters = vec![export("a", 1, json!({}), plain())];
    for _ in 0..3 {
        let plan = here.plan();
        assert!(matches!(plan.derived, Some(DerivedStep::Create { .. })), "it is tried again");
        here.apply(ImportPlan { derived: None, ..plan });
    }
    let said = &here.import.as_ref().unwrap()["status"]["conditions"][0];
    assert_eq!(
        (&said["type"], &said["status"], &said["reason"]),
        (&json!("Ready"), &json!("False"), &json!("NameTaken"))
    );
}
