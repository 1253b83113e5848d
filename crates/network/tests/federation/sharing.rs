//! Services that span clusters, and users who change things.

use koinon_control::Key;
use serde_json::{Value, json};

use crate::harness::{FOO, GLOBAL, SYSTEM, World};
use crate::world::foo;

/// The seed's example: three clusters, `foo1.ns1`, `foo2.ns2` and `foo3.ns3`, and a fourth without any.
async fn example() -> World {
    let world = World::new(&["c1*", "c2*", "c3", "c4"]).await;
    for (cluster, number) in [("c1", 1), ("c2", 2), ("c3", 3)] {
        let name = format!("ns{number}/foo{number}");
        world[cluster].member(&name, "foo", "ClusterIP").await;
        world[cluster].endpoints(&name, &format!("10.{number}.0.1 10.{number}.0.2!")).await;
    }
    world
}

const ALL: &str = "http:80 c1=10.1.0.1,10.1.0.2! c2=10.2.0.1,10.2.0.2! c3=10.3.0.1,10.3.0.2!";

#[tokio::test(start_paused = true)]
async fn the_seeds_example_is_found_in_every_cluster_and_comes_to_rest() {
    let world = example().await;
    world.until_shown("c1", &foo(), "http:80 c1=10.1.0.1,10.1.0.2!").await;
    world.until_shown("c2", &foo(), "http:80 c2=10.2.0.1,10.2.0.2!").await;
    world.until_shown("c3", &foo(), "http:80 c3=10.3.0.1,10.3.0.2!").await;
    world.until_shown("c4", &foo(), ALL).await;
    world.until_as_the_model(&foo(), "the example").await;
    world.rest().await;
    let service = world["c4"].get(FOO).await.unwrap();
    assert_eq!(service["spec"]["type"], "ClusterIP");
    assert!(service["spec"]["clusterIP"].as_str().unwrap().starts_with("10."), "{service:#}");
    assert_eq!(service["metadata"]["annotations"]["fed-svc.antreaplus.vmware-tanzu.com"], "true");
    let slice = world["c4"].own().await.remove(0);
    assert_eq!(slice.metadata.owner_references.unwrap()[0].uid, service["metadata"]["uid"].as_str().unwrap());

    // One pod becomes ready: one write in the one cluster that uses it from afar, and one at home.
    let before = world.log.writes().len();
    world["c3"].endpoints("ns3/foo3", "10.3.0.1 10.3.0.2").await;
    world.until_shown("c4", &foo(), &ALL.replace("10.3.0.2!", "10.3.0.2")).await;
    world.until_as_the_model(&foo(), "a pod that became ready").await;
    world.rest().await;
    let writes = world.log.writes();
    assert_eq!(writes[before..].len(), 2, "{:#?}", &writes[before..]);
}

/// The first is told at once, and whoever comes right after it together: what would be over in a moment is never written.
#[tokio::test(start_paused = true)]
async fn who_joins_right_after_another_is_told_together() {
    let world = World::new(&["c1*", "c2*", "c3", "c4"]).await;
    let join = async |cluster: &str, number: u8| {
        let name = format!("ns{number}/foo{number}");
        world[cluster].member(&name, "foo", "ClusterIP").await;
        world[cluster].endpoints(&name, &format!("10.{number}.0.1")).await;
    };
    join("c1", 1).await;
    world.until_shown("c4", &foo(), "http:80 c1=10.1.0.1").await;
    world.rest().await;
    join("c2", 2).await;
    world.until_shown("c4", &foo(), "http:80 c1=10.1.0.1 c2=10.2.0.1").await;
    let writes = |from: usize| {
        let writes = world.log.writes().split_off(from);
        writes
            .into_iter()
            .filter(|write| write.starts_with("c4 ") && write.contains("endpointslices"))
            .count()
    };
    let before = world.log.writes().len();
    join("c3", 3).await;
    join("c4", 4).await;
    world.until_shown("c4", &foo(), "http:80 c4=10.4.0.1").await;
    assert_eq!(writes(before), 3, "its own one, and two that are over");
    world.until_as_the_model(&foo(), "all have joined").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_calls_a_federated_service_its_own_is_told_otherwise_and_no_endpoint_goes() {
    let world = example().await;
    world.until_shown("c4", &foo(), ALL).await;
    world.rest().await;
    for value in [json!("argocd"), Value::Null] {
        let before = world.log.writes().len();
        world["c4"]
            .patch(FOO, json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": value}}}))
            .await;
        world.rest().await;
        let service = world["c4"].get(FOO).await.unwrap();
        assert_eq!(service["metadata"]["labels"]["app.kubernetes.io/managed-by"], "koinon");
        let writes = world.log.writes();
        assert_eq!(writes[before..].len(), 1, "{:#?}", &writes[before..]);
    }
    assert_eq!(world["c4"].shown(&foo()).await, ALL);
}

#[tokio::test(start_paused = true)]
async fn what_users_do_to_what_was_generated_is_undone_and_its_address_stays() {
    let world = example().await;
    world.until_shown("c4", &foo(), ALL).await;
    let before = world["c4"].get(FOO).await.unwrap();
    let change = json!({"spec": {"selector": {"app": "mine"}, "ports": [{"name": "other", "port": 99, "protocol": "TCP"}]},
        "metadata": {"annotations": {"mine": "stays"}}});
    world["c4"].patch(FOO, change).await;
    world.until_shown("c4", &foo(), ALL).await;
    let after = world["c4"].get(FOO).await.unwrap();
    assert_eq!(after["spec"]["clusterIP"], before["spec"]["clusterIP"]);
    assert_eq!(after["spec"]["selector"], Value::Null);
    assert_eq!(after["metadata"]["annotations"]["mine"], "stays");
    // A slice that is edited, one that is deleted, one whose label is taken off.
    for (number, slice) in world["c4"].own().await.iter().enumerate() {
        let path = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices/{}",
            slice.metadata.name.as_ref().unwrap()
        );
        match number {
            0 => world["c4"].patch(&path, json!({"endpoints": []})).await,
            1 => world["c4"].delete(&path).await,
            _ => {
                world["c4"]
                    .patch(
                        &path,
                        json!({"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": null}}}),
                    )
                    .await
            }
        }
    }
    world.until_as_the_model(&foo(), "slices by hand").await;
    // The Service itself.
    world["c4"].delete(FOO).await;
    world.until_as_the_model(&foo(), "a deleted Service").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn members_come_and_go_and_with_the_last_all_goes() {
    let world = example().await;
    world.until_shown("c4", &foo(), ALL).await;
    let address = world["c4"].get(FOO).await.unwrap()["spec"]["clusterIP"].clone();
    world["c1"].delete("/api/v1/namespaces/ns1/services/foo1").await;
    world.until_shown("c4", &foo(), "http:80 c2=10.2.0.1,10.2.0.2! c3=10.3.0.1,10.3.0.2!").await;
    world.until_shown("c1", &foo(), "http:80 c2=10.2.0.1,10.2.0.2! c3=10.3.0.1,10.3.0.2!").await;
    world["c2"]
        .patch("/api/v1/namespaces/ns2/services/foo2", json!({"metadata": {"annotations": {GLOBAL: "bar"}}}))
        .await;
    world.until_shown("c4", &Key::new(SYSTEM, "bar"), "http:80 c2=10.2.0.1,10.2.0.2!").await;
    world.until_shown("c4", &foo(), "http:80 c3=10.3.0.1,10.3.0.2!").await;
    assert_eq!(world["c4"].get(FOO).await.unwrap()["spec"]["clusterIP"], address);
    world["c3"]
        .patch("/api/v1/namespaces/ns3/services/foo3", json!({"metadata": {"annotations": {GLOBAL: null}}}))
        .await;
    for cluster in ["c1", "c2", "c3", "c4"] {
        world.until_shown(cluster, &foo(), "nothing").await;
    }
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_users_service_is_never_taken_over_and_everybody_hears_why() {
    let world = World::new(&["c1*", "c2"]).await;
    let mine =
        json!({"metadata": {"name": "foo"}, "spec": {"selector": {"app": "mine"}, "ports": [{"port": 7}]}});
    world["c2"].create(&format!("/api/v1/namespaces/{SYSTEM}/services"), mine).await;
    let before = world["c2"].get(FOO).await.unwrap();
    for cluster in ["c1", "c2"] {
        world[cluster].member("ns/one", "foo", "ClusterIP").await;
        world[cluster].endpoints("ns/one", "10.1.0.1").await;
    }
    world["c1"].member("ns/bad", "Not A Name", "ClusterIP").await;
    world["c1"].member("ns/pending", "foo", "LoadBalancer").await;
    world.until_shown("c1", &foo(), "http:80 c1=10.1.0.1").await;
    world.rest().await;
    assert_eq!(world["c2"].get(FOO).await.unwrap(), before);
    assert!(world["c2"].own().await.is_empty());
    assert!(world["c2"].events("ns").await.contains(&"one NameTaken".to_owned()));
    assert!(world["c2"].events(SYSTEM).await.contains(&"foo NameTaken".to_owned()));
    let events = world["c1"].events("ns").await;
    for event in ["bad InvalidFederatedName", "pending LoadBalancerPending"] {
        assert!(events.contains(&event.to_owned()), "{events:?}");
    }
    // When the name is free it is used at once.
    world["c2"].delete(FOO).await;
    world.until_shown("c2", &foo(), "http:80 c2=10.1.0.1").await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_comes_later_gets_its_services() {
    let world = World::new(&["c1*", "c2"]).await;
    world["c1"].member("shop/one", "unused", "ClusterIP").await;
    world["c1"].endpoints("shop/one", "10.1.0.1").await;
    let annotations =
        json!({"metadata": {"annotations": {GLOBAL: null, "svc.federated.antreaplus.vmware.com": "web"}}});
    world["c1"].patch("/api/v1/namespaces/shop/services/one", annotations).await;
    let web = Key::new("shop", "web");
    world.until_shown("c1", &web, "http:80 c1=10.1.0.1").await;
    assert_eq!(world["c2"].shown(&web).await, "nothing");
    world["c2"].namespace("shop").await;
    world.until_shown("c2", &web, "http:80 c1=10.1.0.1").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_are_followed_once_somebody_is_reached_by_them() {
    let world = World::new(&["c1*", "c2"]).await;
    let node = |ready: &str| {
        json!({
            "metadata": {"name": "n1"},
            "status": {"addresses": [{"type": "InternalIP", "address": "172.21.0.6"}], "conditions": [{"type": "Ready", "status": ready}]},
        })
    };
    world["c1"].create("/api/v1/nodes", node("True")).await;
    world["c1"].patch("/api/v1/nodes/n1/status", node("True")).await;
    world["c1"].member("ns/one", "foo", "NodePort").await;
    world["c1"].endpoints("ns/one", "10.1.0.1").await;
    world.until_shown("c2", &foo(), "http:80 c1=172.21.0.6").await;
    world["c1"].patch("/api/v1/nodes/n1/status", node("False")).await;
    world.until_shown("c2", &foo(), "http:80 c1=172.21.0.6!").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_native_service_joins_like_any_other() {
    let world = World::new(&["c1*", "c2"]).await;
    world["c1"].namespace("db").await;
    let path = "/apis/cloud.antreaplus.tanzu.vmware.com/v1alpha1/namespaces/db/nativeservices";
    let native = json!({
        "apiVersion": "cloud.antreaplus.tanzu.vmware.com/v1alpha1", "kind": "NativeService",
        "metadata": {"name": "rds", "annotations": {GLOBAL: "foo"}}, "spec": {"ports": [{"name": "pg", "port": 5432}]},
    });
    world["c1"].create(path, native).await;
    let status = json!({"status": {"networkInterfaces": [{"ips": [{"addressType": "InternalIP", "address": "10.9.0.2"}]}]}});
    world["c1"].patch(&format!("{path}/rds/status"), status).await;
    world.until_shown("c2", &foo(), "pg:5432 c1=10.9.0.2").await;
    // Who no longer serves the kind has no such objects.
    world["c1"].delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nativeservices.cloud.antreaplus.tanzu.vmware.com").await;
    world.until_shown("c2", &foo(), "nothing").await;
}
