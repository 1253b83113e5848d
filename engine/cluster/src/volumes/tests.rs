//! Plans for claims and volumes, over plain values.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::claim::{self, Look, Step};
use super::volume::{self, Reclaim};
use super::{protection, provision};

/// A claim of one gigabyte; `extra` is put over it.
fn a_claim(extra: Value) -> PersistentVolumeClaim {
    let mut claim = json!({
        "metadata": {"name": "data", "namespace": "default", "uid": "claim"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""},
        "status": {"phase": "Pending"},
    });
    merge(&mut claim, extra);
    serde_json::from_value(claim).unwrap()
}

/// A free volume of this size; `extra` is put over it.
fn a_volume(name: &str, size: &str, extra: Value) -> Arc<PersistentVolume> {
    let mut volume = json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": "",
            "hostPath": {"path": "/tmp/x"}, "persistentVolumeReclaimPolicy": "Retain"},
        "status": {"phase": "Available"},
    });
    merge(&mut volume, extra);
    Arc::new(serde_json::from_value(volume).unwrap())
}

fn class(name: &str, extra: Value) -> Arc<StorageClass> {
    let mut class = json!({"metadata": {"name": name}, "provisioner": "sim.koinon.dev", "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate"});
    merge(&mut class, extra);
    Arc::new(serde_json::from_value(class).unwrap())
}

fn step(
    claim: &PersistentVolumeClaim,
    volumes: &[Arc<PersistentVolume>],
    classes: &[Arc<StorageClass>],
) -> Step {
    claim::plan(&Look { claim, volumes, classes, node: None, waiting: Vec::new() })
}

/// What a step is, in a word or two.
fn word(step: &Step) -> String {
    match step {
        Step::Bind(volume) => format!("bind {}", volume.metadata.name.as_deref().unwrap()),
        Step::Pending(None) => "pending".into(),
        Step::Pending(Some(notice)) => format!("pending {}", notice.reason),
        Step::Lost(notice) => format!("lost {}", notice.reason),
        Step::SetClass(class) => format!("class {class}"),
        Step::SelectNode(node) => format!("node {node}"),
        Step::Provision(volume) => format!("provision {}", volume.metadata.name.as_deref().unwrap()),
        Step::Await { provisioner } => format!("await {provisioner}"),
    }
}

#[track_caller]
fn check(claim: Value, volumes: &[Arc<PersistentVolume>], expected: &str) {
    assert_eq!(word(&step(&a_claim(claim), volumes, &[])), expected);
}

#[test]
fn a_claim_gets_the_smallest_volume_that_serves_it() {
    let plain = json!({});
    let volumes = [
        a_volume("large", "10Gi", json!({})),
        a_volume("fits", "1Gi", json!({})),
        a_volume("small", "1Mi", json!({})),
        a_volume("fast", "1Gi", json!({"spec": {"storageClassName": "fast"}})),
        a_volume("raw", "1Gi", json!({"spec": {"volumeMode": "Block"}})),
        a_volume("labelled", "2Gi", json!({"metadata": {"labels": {"disk": "ssd"}}})),
        a_volume("shared", "1Gi", json!({"spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}})),
        a_volume("tuned", "1Gi", json!({"spec": {"volumeAttributesClassName": "gold"}})),
    ];
    check(plain.clone(), &volumes, "bind fits");
    check(json!({"spec": {"resources": {"requests": {"storage": "1025Mi"}}}}), &volumes, "bind labelled");
    check(
        json!({"spec": {"resources": {"requests": {"storage": "20Gi"}}}}),
        &volumes,
        "pending FailedBinding",
    );
    check(json!({"spec": {"storageClassName": "fast"}}), &volumes, "bind fast");
    check(json!({"spec": {"volumeMode": "Block"}}), &volumes, "bind raw");
    check(json!({"spec": {"selector": {"matchLabels": {"disk": "ssd"}}}}), &volumes, "bind labelled");
    check(json!({"spec": {"accessModes": ["ReadOnlyMany"]}}), &volumes, "bind shared");
    check(json!({"spec": {"volumeAttributesClassName": "gold"}}), &volumes, "bind tuned");
    check(plain, &[], "pending FailedBinding");
}

#[test]
fn only_free_volumes_are_taken_and_those_made_for_a_claim_first() {
    let reference =
        |uid: Value| json!({"spec": {"claimRef": {"namespace": "default", "name": "data", "uid": uid}}});
    let other = json!({"spec": {"claimRef": {"namespace": "default", "name": "other", "uid": "x"}}});
    let released = json!({"status": {"phase": "Released"}});
    let going = json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}});
    for extra in [other.clone(), released, going, reference(json!("earlier"))] {
        check(json!({}), &[a_volume("v", "1Gi", extra)], "pending FailedBinding");
    }
    let free = a_volume("a", "1Gi", json!({}));
    check(json!({}), &[free.clone(), a_volume("mine", "5Gi", reference(Value::Null))], "bind mine");
    check(json!({}), &[free, a_volume("mine", "5Gi", reference(json!("claim")))], "bind mine");
    // By name.
    let named = json!({"spec": {"volumeName": "v"}});
    check(named.clone(), &[], "pending");
    check(named.clone(), &[a_volume("v", "1Gi", json!({}))], "bind v");
    check(named.clone(), &[a_volume("v", "1Mi", json!({}))], "pending VolumeMismatch");
    check(named.clone(), &[a_volume("v", "1Gi", other)], "pending FailedBinding");
    check(named, &[a_volume("v", "1Gi", reference(Value::Null))], "bind v");
}

#[test]
fn a_claim_that_was_bound_keeps_its_volume_or_is_lost() {
    let bound = |name: Value| json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": name}});
    let of = |uid: &str| json!({"spec": {"claimRef": {"namespace": "default", "name": "data", "uid": uid}}});
    check(bound(json!("v")), &[a_volume("v", "1Gi", of("claim"))], "bind v");
    check(bound(json!("v")), &[a_volume("v", "1Gi", json!({}))], "bind v");
    check(bound(json!("v")), &[a_volume("v", "1Gi", of("another"))], "lost ClaimMisbound");
    check(bound(json!("v")), &[], "lost ClaimLost");
    check(bound(Value::Null), &[], "lost ClaimLost");
}

#[test]
fn classes_provide() {
    let of_class = |name: &str| a_claim(json!({"spec": {"storageClassName": name}}));
    let classes = [
        class("sim", json!({})),
        class("elsewhere", json!({"provisioner": "ebs.csi.aws.com"})),
        class("local", json!({"provisioner": "kubernetes.io/no-provisioner"})),
        class("late", json!({"volumeBindingMode": "WaitForFirstConsumer"})),
    ];
    let word = |claim: &PersistentVolumeClaim| word(&step(claim, &[], &classes));
    assert_eq!(word(&of_class("sim")), "provision pvc-claim");
    assert_eq!(word(&of_class("elsewhere")), "await ebs.csi.aws.com");
    assert_eq!(word(&of_class("local")), "pending");
    assert_eq!(word(&of_class("missing")), "pending ProvisioningFailed");
    assert_eq!(word(&of_class("late")), "pending WaitForFirstConsumer");
    let late = of_class("late");
    let look = |node: Option<&str>, waiting: &[&str]| {
        let waiting = waiting.iter().map(|pod| (*pod).to_owned()).collect();
        let look =
            Look { claim: &late, volumes: &[], classes: &classes, node: node.map(str::to_owned), waiting };
        self::word(&claim::plan(&look))
    };
    assert_eq!(look(None, &["web-0"]), "pending WaitForPodScheduled");
    assert_eq!(look(Some("n1"), &[]), "node n1");
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}},
        "spec": {"storageClassName": "late"}});
    assert_eq!(word(&a_claim(selected)), "provision pvc-claim");
    // Who names no class gets the youngest default.
    let nameless = a_claim(json!({"spec": {"storageClassName": null}}));
    assert_eq!(word(&nameless), "pending FailedBinding");
    let default = |name: &str, created: &str| {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        class(name, json!({"metadata": {"annotations": annotations, "creationTimestamp": created}}))
    };
    let classes = [default("a", "2027-01-01T00:00:00Z"), default("b", "2027-01-02T00:00:00Z")];
    assert_eq!(self::word(&step(&nameless, &[], &classes)), "class b");
}

#[test]
fn a_provisioned_volume_is_what_was_asked_for() {
    let claim = a_claim(json!({"spec": {"storageClassName": "sim", "volumeMode": "Block"}}));
    let volume = serde_json::to_value(provision::volume(&claim, &class("sim", json!({})))).unwrap();
    assert_eq!(volume["spec"]["capacity"], json!({"storage": "1Gi"}));
    assert_eq!(volume["spec"]["claimRef"]["uid"], "claim");
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    assert_eq!(volume["spec"]["volumeMode"], "Block");
    assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"], "sim.koinon.dev");
}

#[test]
fn a_volume_follows_its_claim() {
    let of = |uid: Value| json!({"claimRef": {"namespace": "default", "name": "data", "uid": uid}});
    let given = |phase: &str, spec: Value| {
        let mut spec = spec;
        merge(&mut spec, of(json!("claim")));
        a_volume("v", "1Gi", json!({"spec": spec, "status": {"phase": phase}}))
    };
    let has = |name: &str| a_claim(json!({"spec": {"volumeName": name}}));
    let pending = a_volume("v", "1Gi", json!({"status": {"phase": "Pending"}}));
    assert_eq!(volume::plan(&pending, None), volume::Step::Phase("Available"));
    assert_eq!(volume::plan(&a_volume("v", "1Gi", json!({})), None), volume::Step::Nothing);
    let reserved = a_volume("v", "1Gi", json!({"spec": of(Value::Null)}));
    assert_eq!(volume::plan(&reserved, None), volume::Step::Nothing, "its claim is yet to come");
    assert_eq!(volume::plan(&given("Available", json!({})), Some(&has("v"))), volume::Step::Phase("Bound"));
    assert_eq!(volume::plan(&given("Bound", json!({})), Some(&has("v"))), volume::Step::Nothing);
    assert_eq!(
        volume::plan(&given("Bound", json!({})), Some(&a_claim(json!({})))),
        volume::Step::LookAtClaim
    );
    assert_eq!(volume::plan(&given("Bound", json!({})), Some(&has("w"))), volume::Step::Unbind);
    let block = json!({"volumeMode": "Block"});
    assert_eq!(volume::plan(&given("Bound", block), Some(&a_claim(json!({})))), volume::Step::Mismatch);
    // The claim is gone, or another of the same name came.
    let release = |spec: Value| match volume::plan(&given("Bound", spec), None) {
        volume::Step::Release(how) => how,
        other => panic!("{other:?}"),
    };
    assert_eq!(release(json!({})), Reclaim::Retain);
    assert_eq!(release(json!({"persistentVolumeReclaimPolicy": "Delete"})), Reclaim::Delete);
    let elsewhere = json!({"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/data"}});
    assert!(matches!(release(elsewhere), Reclaim::Fail(_)));
    assert_eq!(release(json!({"persistentVolumeReclaimPolicy": "Recycle"})), Reclaim::Recycle);
    let another = a_claim(json!({"metadata": {"uid": "another"}}));
    let retained = volume::Step::Release(Reclaim::Retain);
    assert_eq!(volume::plan(&given("Bound", json!({})), Some(&another)), retained);
}

#[test]
fn what_is_used_is_guarded() {
    use protection::Guard;
    let claim = |extra: Value| a_claim(json!({"metadata": extra}));
    let (guarded, going) = (json!(["kubernetes.io/pvc-protection"]), json!("2027-01-01T00:00:00Z"));
    let of = |extra: Value| protection::guard(&claim(extra), protection::CLAIM);
    assert_eq!(of(json!({})), Guard::Add);
    assert_eq!(of(json!({"finalizers": guarded})), Guard::AsItShouldBe);
    assert_eq!(of(json!({"finalizers": guarded, "deletionTimestamp": going})), Guard::RemoveIfUnused);
    assert_eq!(of(json!({"deletionTimestamp": going})), Guard::AsItShouldBe);
    let pod = |node: Value, claim: &str| {
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "volumes": volumes, "containers": []}})).unwrap()
    };
    let claim = a_claim(json!({}));
    assert!(protection::holds(&pod(json!("n1"), "data"), &claim));
    assert!(!protection::holds(&pod(Value::Null, "data"), &claim));
    assert!(!protection::holds(&pod(json!("n1"), "other"), &claim));
    let ephemeral = json!({"metadata": {"name": "p"}, "spec": {"volumes": [{"name": "v", "ephemeral": {}}], "containers": []}});
    let names: Vec<_> = protection::claim_names(&serde_json::from_value(ephemeral).unwrap()).collect();
    assert_eq!(names, ["p-v"]);
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
