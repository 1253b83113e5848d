//! By what a member is reached from elsewhere, by its type (N40 to N45).

use serde_json::json;

use crate::world::{GLOBAL, World, foo, typed};

const JOINS: [(&str, &str); 1] = [(GLOBAL, "foo")];

fn two() -> World {
    World::new(&["a", "b"])
}

#[test]
fn n40_pods_are_reached_at_their_target_ports_slice_by_slice() {
    let mut world = two();
    world
        .at("a")
        .service("x/one", &JOINS, typed("ClusterIP"))
        .slice("http:8080", "10.1.0.1 10.1.0.2!")
        .slice("http:9090", "10.1.0.3")
        .slice("http:8080", "2001:db8::1");
    assert_eq!(
        world.shown("b", &foo()),
        "http:80\n\
         a IPv4 http:8080 -> 10.1.0.1 10.1.0.2!\n\
         a IPv4 http:9090 -> 10.1.0.3\n\
         a IPv6 http:8080 -> 2001:db8::1"
    );
}

#[test]
fn n40_a_headless_member_is_reached_by_its_pods() {
    let mut world = two();
    let headless = json!({"type": "ClusterIP", "clusterIP": "None", "externalIPs": ["198.51.100.1"], "ports": [{"name": "http", "port": 80}]});
    world.at("a").service("x/one", &JOINS, headless).slice("http:80", "10.1.0.1");
    assert_eq!(world.shown("b", &foo()), "http:80\na IPv4 http:80 -> 10.1.0.1");
}

#[test]
fn a_headless_member_without_ports_brings_none_and_alone_makes_no_service() {
    let mut world = two();
    world.at("a").service("x/one", &JOINS, json!({"clusterIP": "None"})).slice("", "10.1.0.1");
    assert_eq!(world.shown("b", &foo()), "nothing");
    assert_eq!(world.told("a", &foo()), ["NoPorts Service x/one"]);
}

#[test]
fn n41_external_addresses_are_reached_at_the_services_own_ports() {
    let mut world = two();
    let mut spec = typed("ClusterIP");
    spec["externalIPs"] = json!(["198.51.100.1", "2001:db8::9", "198.51.100.1"]);
    world.at("a").service("x/one", &JOINS, spec).slice("http:8080", "10.1.0.1");
    let ready = "http:80\na IPv4 http:80 -> 198.51.100.1\na IPv6 http:80 -> 2001:db8::9";
    assert_eq!(world.shown("b", &foo()), ready);
    world.at("a").slices.clear();
    assert_eq!(
        world.shown("b", &foo()),
        "http:80\na IPv4 http:80 -> 198.51.100.1!\na IPv6 http:80 -> 2001:db8::9!"
    );
}

#[test]
fn n42_nodes_are_reached_at_node_ports_by_external_else_internal_address() {
    let mut world = two();
    world
        .at("a")
        .service("x/one", &JOINS, typed("NodePort"))
        .slice("http:8080", "10.1.0.1@n1")
        .node("n1", "I172.21.0.6 E198.51.100.6 I2001:db8::6")
        .node("n2", "I172.21.0.7")
        .node("n3!", "I172.21.0.8");
    assert_eq!(
        world.shown("b", &foo()),
        "http:80\n\
         a IPv4 http:30602 -> 172.21.0.7 172.21.0.8! 198.51.100.6\n\
         a IPv6 http:30602 -> 2001:db8::6"
    );
}

#[test]
fn an_address_that_two_nodes_say_is_ready_if_one_of_them_is() {
    let mut world = two();
    // One is what is left of a machine whose address another has by now.
    world
        .at("a")
        .service("x/one", &JOINS, typed("NodePort"))
        .slice("http:8080", "10.1.0.1@n1")
        .node("n0!", "I172.21.0.6")
        .node("n1", "I172.21.0.6")
        .node("n2!", "I172.21.0.6");
    assert_eq!(world.shown("b", &foo()), "http:80\na IPv4 http:30602 -> 172.21.0.6");
}

#[test]
fn n42_with_a_local_policy_only_nodes_with_ready_pods_count() {
    let mut world = two();
    let mut spec = typed("NodePort");
    spec["externalTrafficPolicy"] = json!("Local");
    world
        .at("a")
        .service("x/one", &JOINS, spec)
        .slice("http:8080", "10.1.0.1@n1 10.1.0.2!@n2")
        .node("n1", "I172.21.0.6")
        .node("n2", "I172.21.0.7");
    // The address comes first in what the test writes, so `!` stands before the node.
    assert_eq!(world.shown("b", &foo()), "http:80\na IPv4 http:30602 -> 172.21.0.6");
}

#[test]
fn n43_a_load_balancer_is_reached_where_and_at_what_it_says() {
    let mut world = two();
    let spec = json!({"type": "LoadBalancer", "ports": [{"name": "http", "port": 80, "nodePort": 1}, {"name": "tls", "port": 443, "nodePort": 2}]});
    world
        .at("a")
        .service("x/one", &JOINS, spec)
        .status(json!({"loadBalancer": {"ingress": [
            {"ip": "203.0.113.9"},
            {"ip": "203.0.113.10", "ports": [{"port": 443, "protocol": "TCP"}, {"port": 80, "protocol": "TCP", "error": "NoQuota"}]},
        ]}}))
        .slice("http:8080 tls:8443", "10.1.0.1");
    assert_eq!(
        world.shown("b", &foo()),
        "http:80,tls:443\n\
         a IPv4 http:80,tls:443 -> 203.0.113.9\n\
         a IPv4 tls:443 -> 203.0.113.10"
    );
}

#[test]
fn n43_a_load_balancer_by_name_is_said_by_name_and_by_what_that_leads_to() {
    let mut world = two();
    world
        .at("a")
        .service("x/one", &JOINS, typed("LoadBalancer"))
        .status(json!({"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}))
        .slice("http:8080", "10.1.0.1");
    assert_eq!(world.shown("b", &foo()), "http:80\na FQDN http:80 -> lb.example.com");
    let leads_to = ["198.51.100.7", "2001:db8::7", "127.0.0.1"].map(|ip| ip.parse().unwrap());
    world.resolved.insert("lb.example.com".into(), Some(leads_to.to_vec()));
    assert_eq!(
        world.shown("b", &foo()),
        "http:80\n\
         a FQDN http:80 -> lb.example.com\n\
         a IPv4 http:80 -> 198.51.100.7\n\
         a IPv6 http:80 -> 2001:db8::7"
    );
}

#[test]
fn n43_a_load_balancer_that_is_not_there_yet_brings_nothing() {
    let mut world = two();
    world.at("a").service("x/one", &JOINS, typed("LoadBalancer")).slice("http:8080", "10.1.0.1");
    assert_eq!(world.shown("b", &foo()), "http:80");
}

#[test]
fn n45_a_native_service_is_reached_by_its_interfaces() {
    let mut world = two();
    let native = json!({
        "metadata": {"namespace": "db", "name": "rds", "annotations": {GLOBAL: "foo"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"ports": [{"name": "pg", "port": 5432}]},
        "status": {"networkInterfaces": [
            {"ips": [{"addressType": "InternalIP", "address": "10.9.0.1"}, {"addressType": "ExternalIP", "address": "198.51.100.3"}]},
            {"ips": [{"addressType": "InternalIP", "address": "10.9.0.2"}]},
        ]},
    });
    world.at("a").natives.push(serde_json::from_value(native).unwrap());
    let wanted = "pg:5432\na IPv4 pg:5432 -> 10.9.0.2 198.51.100.3";
    assert_eq!(world.shown("b", &foo()), wanted);
    assert_eq!(world.shown("a", &foo()), wanted);
}

#[test]
fn dual_stack_members_beside_single_ones_are_told() {
    let mut world = World::new(&["a", "b", "c"]);
    world
        .at("a")
        .service("x/one", &JOINS, typed("ClusterIP"))
        .slice("http:80", "10.1.0.1")
        .slice("http:80", "2001:db8::1");
    world.at("b").service("x/two", &JOINS, typed("ClusterIP")).slice("http:80", "10.2.0.1");
    assert_eq!(
        world.shown("c", &foo()),
        "http:80\na IPv4 http:80 -> 10.1.0.1\na IPv6 http:80 -> 2001:db8::1\nb IPv4 http:80 -> 10.2.0.1"
    );
}

#[test]
fn many_endpoints_are_in_slices_of_at_most_a_hundred() {
    let mut world = two();
    world.at("a").service("x/one", &JOINS, typed("NodePort")).slice("http:80", "10.1.0.1@n1");
    for number in 0..350 {
        world.at("a").node(&format!("n{number}"), &format!("I172.21.{}.{}", number / 200, number % 200 + 1));
    }
    world.settle("b", &foo());
    let sizes: Vec<usize> =
        world.places["b"].own.values().map(|one| one.endpoints.as_ref().unwrap().len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 350);
    assert!(sizes.iter().all(|size| *size <= 100), "{sizes:?}");
    // One node more is one write.
    let before = world.writes;
    world.at("a").node("new!", "I172.21.9.9");
    world.settle("b", &foo());
    assert!(world.writes - before <= 3, "{}", world.writes - before);
}
