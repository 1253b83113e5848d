//! Endpoints follow Services and pods; those that users wrote are mirrored to slices.

use serde_json::{Value, json};

use crate::harness::Cluster;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn mirrored(service: &str) -> String {
    let manager = "endpointslice.kubernetes.io%2Fmanaged-by%3Dendpointslicemirroring-controller.k8s.io";
    format!("{SLICES}?labelSelector={manager},kubernetes.io%2Fservice-name%3D{service}")
}

/// The addresses of Endpoints: those that are ready, and those that are not.
fn addresses(endpoints: &Value) -> [Vec<String>; 2] {
    ["addresses", "notReadyAddresses"].map(|key| {
        let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
        let all = subsets.iter().flat_map(|subset| subset[key].as_array().cloned().unwrap_or_default());
        all.map(|address| address["ip"].as_str().unwrap().to_owned()).collect()
    })
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_the_pods_of_a_service_and_go_with_it() {
    let cluster = Cluster::kept().await;
    cluster.node("n1", "east").await;
    let spec =
        json!({"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]});
    cluster.create(SERVICES, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let web = format!("{ENDPOINTS}/web");
    cluster.until(&web, |found| found.is_some_and(|found| found["subsets"].is_null())).await;
    cluster.pod("a", "web", "n1", "10.1.0.1").await;
    cluster.pod("b", "web", "n1", "10.1.0.2").await;
    cluster.ready("b", false).await;
    let wanted = [vec!["10.1.0.1".to_owned()], vec!["10.1.0.2".to_owned()]];
    let found =
        cluster.until(&web, |found| found.is_some_and(|found| addresses(found) == wanted)).await.unwrap();
    assert_eq!(found["subsets"][0]["ports"][0], json!({"name": "http", "port": 8080, "protocol": "TCP"}));
    // Its Service has a selector, so nobody mirrors it.
    assert_eq!(cluster.until_list(&mirrored("web"), |_| true).await, [Value::Null; 0]);
    let alone = json!({"metadata": {"name": "alone"}, "subsets": [{"addresses": [{"ip": "10.9.0.1"}]}]});
    cluster.create(ENDPOINTS, alone).await;
    cluster.delete(&format!("{SERVICES}/web")).await;
    cluster.until(&web, |found| found.is_none()).await;
    cluster.rest().await;
    assert!(cluster.get(&format!("{ENDPOINTS}/alone")).await.is_some(), "it never had a Service");
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_users_wrote_are_mirrored_for_as_long_as_they_are_there() {
    let cluster = Cluster::kept().await;
    cluster.create(SERVICES, json!({"metadata": {"name": "db"}, "spec": {"ports": [{"port": 80}]}})).await;
    let subset = |address: &str| json!([{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]);
    cluster.create(ENDPOINTS, json!({"metadata": {"name": "db"}, "subsets": subset("10.9.0.1")})).await;
    let shows = |slices: &[Value], address: &str| {
        slices.len() == 1 && slices[0]["endpoints"][0]["addresses"][0] == address
    };
    let first = cluster.until_list(&mirrored("db"), |slices| shows(slices, "10.9.0.1")).await;
    cluster.patch(&format!("{ENDPOINTS}/db"), json!({"subsets": subset("10.9.0.2")})).await;
    let second = cluster.until_list(&mirrored("db"), |slices| shows(slices, "10.9.0.2")).await;
    assert_eq!(first[0]["metadata"]["name"], second[0]["metadata"]["name"], "the slice is kept");
    let name = first[0]["metadata"]["name"].as_str().unwrap();
    cluster.delete(&format!("{SLICES}/{name}")).await;
    cluster.until_list(&mirrored("db"), |slices| shows(slices, "10.9.0.2")).await;
    cluster.rest().await;
    cluster.delete(&format!("{ENDPOINTS}/db")).await;
    cluster.until_list(&mirrored("db"), <[Value]>::is_empty).await;
    cluster.rest().await;
}

/// The server keeps these itself.
#[tokio::test(start_paused = true)]
async fn the_server_says_where_it_is_and_nobody_mirrors_that() {
    let cluster = Cluster::kept().await;
    let endpoints = cluster.get(&format!("{ENDPOINTS}/kubernetes")).await.unwrap();
    let slice = cluster.get(&format!("{SLICES}/kubernetes")).await.unwrap();
    assert_eq!(addresses(&endpoints), [vec!["172.18.0.1".to_owned()], vec![]]);
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["172.18.0.1"]));
    assert_eq!(slice["ports"], endpoints["subsets"][0]["ports"]);
    cluster.rest().await;
    assert_eq!(cluster.until_list(&mirrored("kubernetes"), |_| true).await, [Value::Null; 0]);
    assert_eq!(cluster.get(&format!("{ENDPOINTS}/kubernetes")).await, Some(endpoints));
}
