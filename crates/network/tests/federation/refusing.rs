//! Clusters that do not take what they are given: whoever can help hears of it, and everything else goes on.

use serde_json::json;

use crate::harness::{FOO, SYSTEM, World};
use crate::wire::{Fault, How};
use crate::world::foo;

const MORE: &str = "/api/v1/namespaces/ns/services/foo2";

/// Two clusters with a member each, the supervisor beside a third.
async fn three() -> World {
    let world = World::new(&["c1", "c2", "c3*"]).await;
    for (cluster, number) in [("c1", 1), ("c2", 2)] {
        world[cluster].member(&format!("ns/foo{number}"), "foo", "ClusterIP").await;
        world[cluster].endpoints(&format!("ns/foo{number}"), &format!("10.{number}.0.1")).await;
    }
    world.until_shown("c3", &foo(), "http:80 c1=10.1.0.1 c2=10.2.0.1").await;
    world
}

fn two_ports() -> serde_json::Value {
    json!({"spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "more", "port": 81}]}})
}

async fn until_event(world: &World, cluster: &str, namespace: &str, wanted: &str) {
    for _ in 0..600 {
        if world[cluster].events(namespace).await.iter().any(|one| one == wanted) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    panic!("{cluster} is not told {wanted}: {:?}", world[cluster].events(namespace).await);
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_slice_is_in_nobody_elses_way() {
    let world = three().await;
    let slices = world["c3"].own().await;
    let from = |id: &str| {
        let key = "cluster.federated.antreaplus.vmware-tanzu.com";
        let found = slices.iter().find(|one| one.metadata.annotations.as_ref().unwrap()[key] == id);
        found.unwrap().metadata.name.clone().unwrap()
    };
    world["c1"].delete("/api/v1/namespaces/ns/services/foo1").await;
    world.until_shown("c3", &foo(), "http:80 c2=10.2.0.1").await;
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices");
    let mine = json!({"metadata": {"name": from("c1")}, "addressType": "IPv4", "endpoints": [], "ports": []});
    world["c3"].create(&path, mine).await;
    world["c1"].member("ns/foo1", "foo", "ClusterIP").await;
    until_event(&world, "c3", SYSTEM, "foo SliceNameTaken").await;
    world["c2"].patch(MORE, two_ports()).await;
    world.until_shown("c3", &foo(), "http:80,more:81 c2=10.2.0.1").await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_is_refused_is_told_and_the_others_and_the_service_go_on() {
    let world = three().await;
    let how = How::Refused(403, "a policy of this cluster forbids the address");
    world.faults.add(Fault { cluster: "c3", method: "", path: "/endpointslices", body: "10.1.0.9", how });
    world["c1"].endpoints("ns/foo1", "10.1.0.9").await;
    until_event(&world, "c3", SYSTEM, "foo Refused").await;
    world["c2"].patch(MORE, two_ports()).await;
    world["c2"].endpoints("ns/foo2", "10.2.0.7").await;
    world.until_shown("c3", &foo(), "http:80,more:81 c1=10.1.0.1 c2=10.2.0.7").await;
    let events = world["c3"].events(SYSTEM).await;
    assert_eq!(events.iter().filter(|one| *one == "foo Refused").count(), 1, "{events:?}");
    // When it is taken after all, it is there.
    world.faults.clear();
    world.until_shown("c3", &foo(), "http:80,more:81 c1=10.1.0.9 c2=10.2.0.7").await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_refused_is_told_to_members_and_where_it_should_be() {
    let world = World::new(&["c1*", "c2"]).await;
    for cluster in ["c1", "c2"] {
        let how = How::Refused(403, "no more Services, says a quota");
        world.faults.add(Fault { cluster, method: "POST", path: "/services", body: "", how });
    }
    world["c1"].member("ns/foo1", "foo", "ClusterIP").await;
    until_event(&world, "c1", "ns", "foo1 Refused").await;
    until_event(&world, "c1", SYSTEM, "foo Refused").await;
    until_event(&world, "c2", SYSTEM, "foo Refused").await;
    world.faults.clear();
    world.until_shown("c2", &foo(), "http:80").await;
}

#[tokio::test(start_paused = true)]
async fn what_an_older_server_does_not_know_is_left_out_and_told() {
    let world = World::new(&["c1*", "c2"]).await;
    let how = How::Invalid("spec.trafficDistribution");
    world.faults.add(Fault { cluster: "c2", method: "", path: "/services", body: "PreferSameZone", how });
    world["c2"].member("ns/foo2", "foo", "ClusterIP").await;
    world["c1"].namespace("ns").await;
    let spec = json!({"trafficDistribution": "PreferSameZone", "ports": [{"name": "http", "port": 80}]});
    let member =
        json!({"metadata": {"name": "foo1", "annotations": {crate::harness::GLOBAL: "foo"}}, "spec": spec});
    world["c1"].create("/api/v1/namespaces/ns/services", member).await;
    world.rest().await;
    world["c2"].delete("/api/v1/namespaces/ns/services/foo2").await;
    world.rest().await;
    let distribution =
        async |cluster: &str| world[cluster].get(FOO).await.unwrap()["spec"]["trafficDistribution"].clone();
    assert_eq!(distribution("c1").await, "PreferSameZone");
    assert_eq!(distribution("c2").await, serde_json::Value::Null);
    until_event(&world, "c2", SYSTEM, "foo FieldRefused").await;
    // It was not there at all before; now it is as good as it can be.
    world["c2"].delete(FOO).await;
    world.until_shown("c2", &foo(), "http:80").await;
    world.rest().await;
}
