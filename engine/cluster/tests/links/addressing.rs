//! Slices follow Services, pods and nodes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Cluster, pod};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn of(service: &str) -> String {
    format!("{SLICES}?labelSelector=kubernetes.io%2Fservice-name%3D{service}")
}

async fn service(cluster: &Cluster, name: &str, more: Value) {
    let mut spec =
        json!({"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    cluster
        .create(SERVICES, json!({"metadata": {"name": name, "labels": {"team": "red"}}, "spec": spec}))
        .await;
}

/// All endpoints as `address ready`, in order.
fn shown(slices: &[Value]) -> Vec<String> {
    let endpoints =
        slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    let mut shown: Vec<String> = endpoints
        .map(|endpoint| {
            let ready = endpoint["conditions"]["ready"].as_bool().unwrap();
            format!("{} {ready}", endpoint["addresses"][0].as_str().unwrap())
        })
        .collect();
    shown.sort();
    shown
}

#[tokio::test(start_paused = true)]
async fn pods_come_change_and_go() {
    let cluster = Cluster::kept().await;
    cluster.node("n1", "east").await;
    service(&cluster, "web", json!({})).await;
    let placeholder = cluster.until_list(&of("web"), |slices| slices.len() == 1).await;
    assert_eq!(shown(&placeholder), [""; 0]);
    cluster.pod("a", "web", "n1", "10.1.0.1").await;
    cluster.pod("b", "web", "n1", "10.1.0.2").await;
    cluster.pod("c", "other", "n1", "10.1.0.3").await;
    cluster.until_list(&of("web"), |slices| shown(slices) == ["10.1.0.1 true", "10.1.0.2 true"]).await;
    // Times on the wire are whole seconds.
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.ready("a", false).await;
    let slices =
        cluster.until_list(&of("web"), |slices| shown(slices) == ["10.1.0.1 false", "10.1.0.2 true"]).await;
    assert_eq!(slices[0]["metadata"]["name"], placeholder[0]["metadata"]["name"], "the first slice is kept");
    assert_eq!(slices[0]["endpoints"][0]["zone"], "east");
    assert_eq!(slices[0]["metadata"]["labels"]["team"], "red");
    let stamp = &slices[0]["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"];
    let pod_a = cluster.get(&pod("a")).await.unwrap();
    assert_eq!(stamp, &pod_a["status"]["conditions"][0]["lastTransitionTime"]);
    cluster.delete(&pod("a")).await;
    // A pod that is labelled away leaves, one that is labelled so comes.
    cluster.patch(&pod("b"), json!({"metadata": {"labels": {"app": "other"}}})).await;
    cluster.patch(&pod("c"), json!({"metadata": {"labels": {"app": "web"}}})).await;
    cluster.until_list(&of("web"), |slices| shown(slices) == ["10.1.0.3 true"]).await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn slices_are_put_right_and_those_of_others_left_alone() {
    let cluster = Cluster::kept().await;
    cluster.node("n1", "east").await;
    service(&cluster, "web", json!({})).await;
    let foreign = json!({
        "metadata": {"name": "theirs", "labels": {
            "kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "somebody",
        }},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.9.9.9"]}],
    });
    let foreign = cluster.create(SLICES, foreign).await;
    cluster.pod("a", "web", "n1", "10.1.0.1").await;
    let ours = |slices: &[Value]| {
        let ours = |slice: &&Value| slice["metadata"]["name"] != "theirs";
        slices.iter().filter(ours).cloned().collect::<Vec<_>>()
    };
    let slices = cluster.until_list(&of("web"), |all| shown(&ours(all)) == ["10.1.0.1 true"]).await;
    let name = ours(&slices)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    // Edited, then deleted: both times it comes back.
    cluster
        .patch(
            &format!("{SLICES}/{name}"),
            json!({"endpoints": [], "metadata": {"labels": {"team": "blue"}}}),
        )
        .await;
    cluster.until_list(&of("web"), |all| shown(&ours(all)) == ["10.1.0.1 true"]).await;
    cluster.delete(&format!("{SLICES}/{name}")).await;
    cluster.until_list(&of("web"), |all| shown(&ours(all)) == ["10.1.0.1 true"]).await;
    cluster.patch(&format!("{SERVICES}/web"), json!({"metadata": {"labels": {"team": "blue"}}})).await;
    cluster
        .until_list(&of("web"), |all| {
            ours(all).iter().all(|slice| slice["metadata"]["labels"]["team"] == "blue")
        })
        .await;
    cluster.delete(&format!("{SERVICES}/web")).await;
    cluster.until_list(&of("web"), |all| ours(all).is_empty()).await;
    assert_eq!(cluster.get(&format!("{SLICES}/theirs")).await, Some(foreign));
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn services_without_a_selector_or_an_address_get_nothing() {
    let cluster = Cluster::kept().await;
    service(&cluster, "plain", json!({"selector": null})).await;
    service(&cluster, "name", json!({"type": "ExternalName", "externalName": "example.org"})).await;
    cluster.rest().await;
    assert_eq!(cluster.writes_to("endpointslices"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_reachable_once_its_node_is_known_and_zones_follow() {
    let cluster = Cluster::kept().await;
    service(&cluster, "web", json!({"trafficDistribution": "PreferSameZone"})).await;
    cluster.pod("a", "web", "later", "10.1.0.1").await;
    let events = "/api/v1/namespaces/default/events";
    let told =
        |events: &[Value]| events.iter().any(|event| event["reason"] == "FailedToUpdateEndpointSlices");
    cluster.until_list(events, told).await;
    cluster.node("later", "east").await;
    let zone = |zone: &'static str| {
        move |slices: &[Value]| {
            slices[0]["endpoints"][0]["zone"] == zone
                && slices[0]["endpoints"][0]["hints"]["forZones"][0]["name"] == zone
        }
    };
    cluster.until_list(&of("web"), zone("east")).await;
    let labels = json!({"topology.kubernetes.io/zone": "west"});
    cluster.patch("/api/v1/nodes/later", json!({"metadata": {"labels": labels}})).await;
    cluster.until_list(&of("web"), zone("west")).await;
    cluster.rest().await;
}

#[tokio::test(start_paused = true)]
async fn one_pod_among_many_is_one_write() {
    let cluster = Cluster::kept().await;
    cluster.node("n1", "east").await;
    service(&cluster, "web", json!({})).await;
    for number in 0..130 {
        cluster.pod(&format!("p{number}"), "web", "n1", &format!("10.1.1.{number}")).await;
    }
    let slices = cluster.until_list(&of("web"), |slices| shown(slices).len() == 130).await;
    cluster.rest().await;
    let mut sizes: Vec<usize> =
        slices.iter().map(|slice| slice["endpoints"].as_array().unwrap().len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [30, 100]);
    let before = cluster.writes_to("endpointslices").len();
    cluster.ready("p77", false).await;
    cluster.until_list(&of("web"), |slices| shown(slices).contains(&"10.1.1.77 false".to_owned())).await;
    cluster.rest().await;
    assert_eq!(cluster.writes_to("endpointslices").len(), before + 1);
    // Nothing of this concerns anybody who looks for addresses.
    cluster.patch(&pod("p78"), json!({"metadata": {"annotations": {"note": "x"}}})).await;
    cluster.rest().await;
    assert_eq!(cluster.writes_to("endpointslices").len(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn lost_answers_and_a_restart_leave_each_pod_once() {
    let mut cluster = Cluster::kept().await;
    cluster.lose_answers(2);
    cluster.node("n1", "east").await;
    for name in ["web", "api"] {
        service(&cluster, name, json!({"ipFamilyPolicy": "SingleStack"})).await;
        for number in 0..12 {
            cluster.pod(&format!("{name}-{number}"), name, "n1", &format!("10.1.2.{number}")).await;
            if number == 6 {
                cluster.leave().await;
                cluster.keep();
            }
        }
    }
    cluster.ready("api-3", false).await;
    cluster.heal();
    for name in ["web", "api"] {
        let unready = |slices: &[Value]| shown(slices).iter().filter(|one| one.ends_with("false")).count();
        let as_wanted = |slices: &[Value]| {
            let all = shown(slices).len() == 12 && slices.len() == 1;
            all && unready(slices) == usize::from(name == "api")
        };
        cluster.until_list(&of(name), as_wanted).await;
    }
    cluster.rest().await;
}
