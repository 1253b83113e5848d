//! A cluster with a member of its own uses that (N33).

use koinon_network::services::view::Locality;

use crate::world::{World, example, foo};

#[test]
fn n33_a_local_member_is_the_only_one_whatever_its_type() {
    let mut world = example();
    assert_eq!(world.shown("cluster1", &foo()), "http:80\ncluster1 IPv4 http:8080 -> 10.1.0.1 10.1.0.2");
    assert_eq!(world.shown("cluster2", &foo()), "http:80\ncluster2 IPv4 http:8080 -> 10.2.0.1");
    assert_eq!(world.shown("cluster3", &foo()), "http:80\ncluster3 IPv4 http:9090 -> 10.3.0.1");
}

#[test]
fn n33_its_content_is_one_and_the_same() {
    let mut world = example();
    world.settle("cluster2", &foo());
    let place = &world.places["cluster2"];
    let (own, source) = (place.own.values().next().unwrap(), &place.slices[0]);
    assert_eq!(own.endpoints, source.endpoints);
    // Elsewhere nothing speaks of nodes and pods that are not there.
    let mut pods = World::new(&["a", "b"]);
    pods.at("a").services = world.places["cluster1"].services.clone();
    pods.at("a").slices = world.places["cluster1"].slices.clone();
    pods.settle("b", &foo());
    let endpoint = &pods.places["b"].own.values().next().unwrap().endpoints.as_ref().unwrap()[0];
    assert_eq!((&endpoint.node_name, &endpoint.target_ref, &endpoint.hints), (&None, &None, &None));
    assert_eq!(endpoint.zone.as_deref(), Some("z1"));
}

#[test]
fn n33_a_local_member_that_is_not_ready_stays_alone_unless_asked_otherwise() {
    let mut world = example();
    world.settle("cluster1", &foo());
    world.at("cluster1").slices.clear();
    world.at("cluster1").slice("http:8080", "10.1.0.1! 10.1.0.2!");
    assert_eq!(world.shown("cluster1", &foo()), "http:80\ncluster1 IPv4 http:8080 -> 10.1.0.1! 10.1.0.2!");
    world.locality = Locality::Failover;
    assert_eq!(
        world.shown("cluster1", &foo()),
        "http:80\n\
         cluster1 IPv4 http:8080 -> 10.1.0.1! 10.1.0.2!\n\
         cluster2 IPv4 http:30602 -> 172.21.0.6 172.21.0.7\n\
         cluster3 IPv4 http:80 -> 203.0.113.9"
    );
}

#[test]
fn a_local_member_that_comes_takes_over_and_gives_back() {
    let mut world = example();
    let services = std::mem::take(&mut world.at("cluster1").services);
    assert!(world.shown("cluster1", &foo()).contains("cluster2"));
    world.at("cluster1").services = services;
    assert!(!world.shown("cluster1", &foo()).contains("cluster2"));
    world.at("cluster1").services.clear();
    assert!(world.shown("cluster1", &foo()).contains("cluster3"));
}
