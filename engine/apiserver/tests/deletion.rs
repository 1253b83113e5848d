//! What goes, when, and what it leaves behind.

use serde_json::json;

mod support;
use support::{cluster, kept_in};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

#[tokio::test]
async fn a_service_gives_its_address_back_with_its_last_finalizer() {
    let cluster = cluster().await;
    let service =
        json!({"metadata": {"name": "s", "finalizers": ["t.io/x"]}, "spec": {"ports": [{"port": 80}]}});
    let made = cluster.made(SERVICES, &service).await;
    let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let path = format!("{SERVICES}/s");
    let taken = format!("{ADDRESSES}/{address}");
    assert_eq!(cluster.get(&taken).await.0, 200);
    assert_eq!(cluster.delete(&path).await.0, 200);
    // It is still there, and so is its address.
    assert_eq!(cluster.get(&taken).await.0, 200);
    assert_eq!(cluster.merge(&path, &json!({"metadata": {"finalizers": null}})).await.0, 200);
    assert_eq!(cluster.get(&path).await.0, 404);
    assert_eq!(cluster.get(&taken).await.0, 404);
    let again = json!({"metadata": {"name": "t"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}});
    cluster.made(SERVICES, &again).await;
}

#[tokio::test]
async fn addresses_of_services_that_are_gone_are_free_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = kept_in(folder.path()).await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let kept = cluster.made(SERVICES, &service).await["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let parent =
        |name: &str| json!({"group": "", "resource": "services", "namespace": "default", "name": name});
    let address = |ip: &str, parent| {
        json!({
            "metadata": {"name": ip, "labels": {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                "ipaddress.kubernetes.io/ip-family": "IPv4"}},
            "spec": {"parentRef": parent},
        })
    };
    cluster.made(ADDRESSES, &address("10.96.9.9", parent("gone"))).await;
    // Somebody else's is left alone.
    let mut other = address("10.96.9.8", parent("gone"));
    other["metadata"]["labels"] = json!({"ipaddress.kubernetes.io/managed-by": "somebody.io"});
    cluster.made(ADDRESSES, &other).await;
    cluster.server.close().await;
    drop(cluster);
    let cluster = kept_in(folder.path()).await;
    assert_eq!(cluster.get(&format!("{ADDRESSES}/10.96.9.9")).await.0, 404);
    assert_eq!(cluster.get(&format!("{ADDRESSES}/10.96.9.8")).await.0, 200);
    assert_eq!(cluster.get(&format!("{ADDRESSES}/{kept}")).await.0, 200);
}

#[tokio::test]
async fn who_asked_for_foreground_keeps_it_when_another_asks_for_nothing() {
    let cluster = cluster().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    cluster.made(jobs, &json!({"metadata": {"name": "j"}, "spec": {"template": pod}})).await;
    let path = format!("{jobs}/j");
    let (_, first) = cluster.delete(&format!("{path}?propagationPolicy=Foreground")).await;
    assert_eq!(first["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let (_, second) = cluster.delete(&path).await;
    assert_eq!(second["metadata"]["finalizers"], json!(["foregroundDeletion"]), "{second}");
}

#[tokio::test]
async fn events_have_no_dependents_to_wait_for() {
    let cluster = cluster().await;
    let events = "/api/v1/namespaces/default/events";
    let about = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    for policy in ["propagationPolicy=Orphan", "propagationPolicy=Foreground", "orphanDependents=true"] {
        cluster.made(events, &json!({"metadata": {"name": "e"}, "involvedObject": about})).await;
        assert_eq!(cluster.delete(&format!("{events}/e?{policy}")).await.0, 200);
        assert_eq!(cluster.get(&format!("{events}/e")).await.0, 404, "{policy}");
    }
}

#[tokio::test]
async fn a_negative_grace_period_is_a_second() {
    let cluster = cluster().await;
    cluster.made_pod("p").await;
    let path = "/api/v1/namespaces/default/pods/p";
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(cluster.post(&format!("{path}/binding"), &binding).await.0, 201);
    let (code, gone) = cluster.delete(&format!("{path}?gracePeriodSeconds=-1")).await;
    assert_eq!((code, &gone["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(1)), "{gone}");
}
