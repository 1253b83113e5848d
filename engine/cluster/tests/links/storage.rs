//! Claims get volumes, and neither goes while it is used.

use serde_json::{Value, json};

use crate::harness::{Cluster, pod};

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const ATTRIBUTES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";

fn claim(name: &str, extra: Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

fn volume(name: &str, policy: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/data"},
        "persistentVolumeReclaimPolicy": policy, "storageClassName": "manual",
    }})
}

fn phase(wanted: &'static str) -> impl Fn(Option<&Value>) -> bool {
    move |object| object.is_some_and(|object| object["status"]["phase"] == wanted)
}

async fn delete(cluster: &Cluster, path: &str) {
    cluster.remove(path, None).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_bound_and_its_volume_released_with_it() {
    let cluster = Cluster::kept().await;
    let (path, of) = (format!("{VOLUMES}/disk"), format!("{CLAIMS}/data"));
    cluster.create(VOLUMES, volume("disk", "Retain")).await;
    cluster.until(&path, phase("Available")).await;
    cluster.create(CLAIMS, claim("data", json!({"storageClassName": "manual"}))).await;
    let bound = cluster.until(&of, phase("Bound")).await.unwrap();
    assert_eq!(bound["spec"]["volumeName"], "disk");
    assert_eq!(bound["status"]["capacity"], json!({"storage": "2Gi"}));
    assert_eq!(bound["status"]["accessModes"], json!(["ReadWriteOnce"]));
    let annotations =
        json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"});
    assert_eq!(bound["metadata"]["annotations"], annotations);
    let volume = cluster.until(&path, phase("Bound")).await.unwrap();
    assert_eq!(volume["spec"]["claimRef"]["uid"], bound["metadata"]["uid"]);
    // A volume that is bound does not go before its claim.
    delete(&cluster, &path).await;
    cluster.rest().await;
    assert!(cluster.get(&path).await.is_some());
    delete(&cluster, &of).await;
    cluster.until(&path, |volume| volume.is_none()).await;
    assert!(cluster.get(&of).await.is_none());
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_a_pod_holds_stays_until_the_pod_goes() {
    let cluster = Cluster::kept().await;
    let of = format!("{CLAIMS}/data");
    cluster.create(CLAIMS, claim("data", json!({"storageClassName": ""}))).await;
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    let spec = json!({"nodeName": "n1", "automountServiceAccountToken": false, "volumes": volumes,
        "containers": [{"name": "c", "image": "i"}]});
    cluster.create("/api/v1/namespaces/default/pods", json!({"metadata": {"name": "p"}, "spec": spec})).await;
    delete(&cluster, &of).await;
    cluster.rest().await;
    let held = cluster.get(&of).await.unwrap();
    assert_eq!(held["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    cluster.delete(&pod("p")).await;
    cluster.until(&of, |claim| claim.is_none()).await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_simulated_volume_comes_and_goes_with_its_claim() {
    let cluster = Cluster::kept().await;
    // Who names no class gets one as soon as there is a default.
    cluster.create(CLAIMS, claim("data", json!({}))).await;
    let of = format!("{CLAIMS}/data");
    cluster.until(&of, phase("Pending")).await;
    let class = json!({"metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "sim.koinon.dev"});
    cluster.create(CLASSES, class).await;
    let bound = cluster.until(&of, phase("Bound")).await.unwrap();
    assert_eq!(bound["spec"]["storageClassName"], "standard");
    let path = format!("{VOLUMES}/{}", bound["spec"]["volumeName"].as_str().unwrap());
    let volume = cluster.until(&path, phase("Bound")).await.unwrap();
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    delete(&cluster, &of).await;
    cluster.until(&path, |volume| volume.is_none()).await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_without_its_claim_waits_for_its_keeper() {
    let cluster = Cluster::kept().await;
    let (path, of) = (format!("{VOLUMES}/disk"), format!("{CLAIMS}/data"));
    cluster.create(VOLUMES, volume("disk", "Retain")).await;
    cluster.create(CLAIMS, claim("data", json!({"storageClassName": "manual"}))).await;
    cluster.until(&of, phase("Bound")).await;
    delete(&cluster, &of).await;
    cluster.until(&path, phase("Released")).await;
    cluster.rest().await;
    // Another claim does not get it, before somebody says that it is free.
    cluster.create(CLAIMS, claim("next", json!({"storageClassName": "manual"}))).await;
    cluster.rest().await;
    assert_eq!(cluster.get(&format!("{CLAIMS}/next")).await.unwrap()["status"]["phase"], "Pending");
    cluster.patch(&path, json!({"spec": {"claimRef": null}})).await;
    cluster.until(&format!("{CLAIMS}/next"), phase("Bound")).await;
    // A claim that was bound to a volume which is no more is lost.
    let mut lost = claim("lost", json!({"storageClassName": "manual", "volumeName": "gone"}));
    lost["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    cluster.create(CLAIMS, lost).await;
    cluster.until(&format!("{CLAIMS}/lost"), phase("Lost")).await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_class_of_attributes_stays_while_a_claim_names_it() {
    let cluster = Cluster::kept().await;
    let class =
        json!({"metadata": {"name": "gold"}, "driverName": "sim.koinon.dev", "parameters": {"iops": "1"}});
    cluster.create(ATTRIBUTES, class).await;
    let (path, of) = (format!("{ATTRIBUTES}/gold"), format!("{CLAIMS}/data"));
    let named = json!({"storageClassName": "", "volumeAttributesClassName": "gold"});
    cluster.create(CLAIMS, claim("data", named)).await;
    delete(&cluster, &path).await;
    cluster.rest().await;
    assert!(cluster.get(&path).await.is_some());
    delete(&cluster, &of).await;
    cluster.until(&path, |class| class.is_none()).await;
    cluster.rest().await;
}
