//! A member that lies harms nobody else.

use serde_json::json;

use crate::world::{GLOBAL, World, example, foo, typed};
use koinon_control::Key;

const JOINS: [(&str, &str); 1] = [(GLOBAL, "foo")];

#[test]
fn addresses_that_lead_back_or_nowhere_are_left_out_and_told() {
    let mut world = World::new(&["evil", "good"]);
    world
        .at("evil")
        .service("x/one", &JOINS, typed("ClusterIP"))
        .slice("http:80", "127.0.0.1 169.254.169.254 0.0.0.0 224.0.0.1 255.255.255.255 10.0.0.999 10.1.0.1");
    assert_eq!(world.shown("good", &foo()), "http:80\nevil IPv4 http:80 -> 10.1.0.1");
    assert_eq!(world.told("evil", &foo()), ["AddressRefused Service x/one"]);
    assert_eq!(world.told("good", &foo()), Vec::<String>::new());
}

#[test]
fn endpoints_of_another_namespace_or_without_a_service_count_for_nobody() {
    let mut world = example();
    let before = world.shown("cluster2", &foo());
    world.at("cluster1").slice("http:8080", "10.66.0.1");
    world.at("cluster1").slices.last_mut().unwrap().metadata.namespace = Some("elsewhere".into());
    world.at("cluster1").slice("http:8080", "10.66.0.2");
    world.at("cluster1").slices.last_mut().unwrap().metadata.labels = None;
    assert_eq!(world.shown("cluster2", &foo()), before);
}

#[test]
fn ports_that_no_service_can_have_are_left_out() {
    let mut world = World::new(&["evil", "good"]);
    let spec = json!({"type": "ClusterIP", "ports": [
        {"name": "http", "port": 80}, {"name": "http", "port": 81}, {"name": "BAD NAME", "port": 82}, {"name": "zero", "port": 0},
        {"name": "huge", "port": 70000}, {"name": "odd", "port": 83, "protocol": "ICMP"},
    ]});
    world.at("evil").service("x/one", &JOINS, spec).slice("http:80", "10.1.0.1");
    assert_eq!(world.shown("good", &foo()), "http:80\nevil IPv4 http:80 -> 10.1.0.1");
}

#[test]
fn a_member_with_endless_endpoints_brings_a_limited_number() {
    let mut world = World::new(&["evil", "good"]);
    world.at("evil").service("x/one", &JOINS, typed("ClusterIP"));
    for hundred in 0..60u32 {
        let addresses: Vec<String> = (0..100).map(|one| format!("10.{hundred}.0.{one}")).collect();
        world.at("evil").slice("http:80", &addresses.join(" "));
    }
    world.settle("good", &foo());
    let count: usize =
        world.places["good"].own.values().map(|one| one.endpoints.as_ref().unwrap().len()).sum();
    assert_eq!(count, 5000);
    assert_eq!(world.told("evil", &foo()), ["TooManyEndpoints Service x/one"]);
}

#[test]
fn names_that_would_run_together_stay_apart() {
    // Joined by dashes these two would be one.
    let mut world = World::new(&["prod", "prod-web", "seen"]);
    world.at("prod").service("web-api/one", &JOINS, typed("ClusterIP")).slice("http:80", "10.1.0.1");
    world.at("prod-web").service("api/one", &JOINS, typed("ClusterIP")).slice("http:80", "10.2.0.1");
    assert_eq!(
        world.shown("seen", &foo()),
        "http:80\nprod IPv4 http:80 -> 10.1.0.1\nprod-web IPv4 http:80 -> 10.2.0.1"
    );
}

#[test]
fn an_invalid_name_joins_nothing() {
    let mut world = World::new(&["evil", "good"]);
    world
        .at("evil")
        .service("x/one", &[(GLOBAL, "../kube-dns")], typed("ClusterIP"))
        .slice("http:80", "10.1.0.1");
    assert_eq!(world.shown("good", &Key::new("antrea-plus-system", "../kube-dns")), "nothing");
}
