//! Not to know is not to have none (N13).

use koinon_network::services::view::{Dns, Stance};
use serde_json::json;

use crate::world::{GLOBAL, World, example, foo, typed};

/// The example, seen from a cluster without a member.
fn seen() -> World {
    let mut world = example();
    world.places.insert("seen".into(), Default::default());
    world.settle_all(&foo());
    world
}

#[test]
fn what_came_from_a_cluster_that_is_not_known_stays() {
    let mut world = seen();
    let before = world.shown("seen", &foo());
    for unknown in [vec!["cluster1"], vec!["cluster1", "cluster2"], vec!["cluster1", "cluster2", "cluster3"]]
    {
        for cluster in unknown {
            world.at(cluster).unknown = true;
        }
        assert!(world.plan("seen", &foo()).is_settled(), "{:#?}", world.plan("seen", &foo()));
    }
    for cluster in ["cluster3", "cluster1", "cluster2"] {
        world.at(cluster).unknown = false;
        assert_eq!(world.shown("seen", &foo()), before);
    }
}

#[test]
fn a_leader_that_does_not_know_the_cluster_itself_yet_brings_nobody_elses_endpoints_there() {
    let mut world = seen();
    // It has a member of its own, which a leader that came a moment ago has not seen.
    world.at("cluster1").unknown = true;
    assert!(world.plan("cluster1", &foo()).is_settled(), "{:#?}", world.plan("cluster1", &foo()));
    world.at("cluster2").services.clear();
    assert!(world.plan("cluster1", &foo()).is_settled());
}

#[test]
fn ports_of_who_is_not_known_stay_too() {
    let mut world = seen();
    world.at("cluster1").services[0].spec.as_mut().unwrap().ports.as_mut().unwrap()[0].name =
        Some("web".into());
    world.at("cluster1").slices[0].ports.as_mut().unwrap()[0].name = Some("web".into());
    world.settle_all(&foo());
    assert!(world.shown("seen", &foo()).starts_with("web:80"), "{}", world.shown("seen", &foo()));
    world.at("cluster1").unknown = true;
    assert!(world.plan("seen", &foo()).is_settled());
}

#[test]
fn a_change_elsewhere_goes_on_while_one_is_not_known() {
    let mut world = seen();
    world.at("cluster1").unknown = true;
    world.at("cluster2").services.clear();
    assert_eq!(
        world.shown("seen", &foo()),
        "http:80\ncluster1 IPv4 http:8080 -> 10.1.0.1 10.1.0.2\ncluster3 IPv4 http:80 -> 203.0.113.9"
    );
    world.at("cluster3").services.clear();
    assert_eq!(world.shown("seen", &foo()), "http:80\ncluster1 IPv4 http:8080 -> 10.1.0.1 10.1.0.2");
    world.at("cluster1").services.clear();
    assert_eq!(world.shown("seen", &foo()), "http:80\ncluster1 IPv4 http:8080 -> 10.1.0.1 10.1.0.2");
    world.at("cluster1").unknown = false;
    assert_eq!(world.shown("seen", &foo()), "nothing");
}

#[test]
fn a_fresh_leader_makes_nothing_up_and_removes_nothing() {
    let mut world = seen();
    for cluster in ["cluster1", "cluster2", "cluster3"] {
        world.at(cluster).unknown = true;
    }
    let plan = world.plan("seen", &foo());
    assert!(plan.is_settled());
    assert!(plan.why.contains("cluster1, cluster2, cluster3"), "{}", plan.why);
}

#[test]
fn who_left_the_federation_takes_its_endpoints_along() {
    let mut world = seen();
    world.places.remove("cluster2");
    assert_eq!(
        world.shown("seen", &foo()),
        "http:80\ncluster1 IPv4 http:8080 -> 10.1.0.1 10.1.0.2\ncluster3 IPv4 http:80 -> 203.0.113.9"
    );
}

#[test]
fn stale_endpoints_are_drained_or_dropped_where_that_was_asked_for() {
    for unknown in [false, true] {
        let mut world = seen();
        world.at("cluster2").unknown = unknown;
        world.at("cluster2").stance = Stance::Drain;
        assert!(
            world.shown("seen", &foo()).contains("cluster2 IPv4 http:30602 -> 172.21.0.6! 172.21.0.7!"),
            "{}",
            world.shown("seen", &foo())
        );
        world.at("cluster2").stance = Stance::Drop;
        assert!(!world.shown("seen", &foo()).contains("cluster2"));
        assert!(world.shown("cluster2", &foo()).contains("10.2.0.1") || unknown, "at home nothing changes");
        world.at("cluster2").stance = Stance::Keep;
        world.at("cluster2").unknown = false;
        assert!(world.shown("seen", &foo()).contains("cluster2 IPv4 http:30602 -> 172.21.0.6 172.21.0.7"));
    }
}

#[test]
fn what_members_do_not_agree_on_is_not_forgotten_while_one_of_them_is_not_known() {
    let mut world = seen();
    world.at("cluster2").services[0].spec.as_mut().unwrap().ports.as_mut().unwrap()[0].port = 81;
    world.settle_all(&foo());
    let conflicts = |world: &World| {
        let service = &world.places["seen"].generated[&foo()];
        service.metadata.annotations.as_ref().unwrap().get("koinon.dev/conflicts").cloned()
    };
    let before = conflicts(&world);
    assert!(before.is_some());
    world.at("cluster2").unknown = true;
    assert!(world.plan("seen", &foo()).is_settled(), "{:#?}", world.plan("seen", &foo()));
    world.settle("seen", &foo());
    assert_eq!(conflicts(&world), before);
}

/// A load balancer that has two names, each of which leads somewhere.
fn balanced() -> World {
    let mut world = World::new(&["a", "b"]);
    let ingress = json!([{"hostname": "one.example.com"}, {"hostname": "two.example.com"}]);
    world
        .at("a")
        .service("x/one", &[(GLOBAL, "foo")], typed("LoadBalancer"))
        .status(json!({"loadBalancer": {"ingress": ingress}}))
        .slice("http:8080", "10.1.0.1");
    answers(&mut world, "one", Some("203.0.113.1"));
    answers(&mut world, "two", Some("203.0.113.2"));
    world
}

fn answers(world: &mut World, name: &str, ip: Option<&str>) {
    world.resolved.insert(format!("{name}.example.com"), ip.map(|ip| vec![ip.parse().unwrap()]));
}

const NAMES: &str = "http:80\na FQDN http:80 -> one.example.com two.example.com";

#[test]
fn what_a_name_led_to_stays_until_somebody_answers_for_it() {
    let mut world = balanced();
    let both = format!("{NAMES}\na IPv4 http:80 -> 203.0.113.1 203.0.113.2");
    assert_eq!(world.shown("b", &foo()), both);
    answers(&mut world, "one", None);
    answers(&mut world, "two", None);
    assert!(world.plan("b", &foo()).is_settled(), "{:#?}", world.plan("b", &foo()));
    // Each name is for itself: one that never answers holds up no other.
    answers(&mut world, "two", Some("203.0.113.3"));
    assert_eq!(world.shown("b", &foo()), format!("{NAMES}\na IPv4 http:80 -> 203.0.113.1 203.0.113.3"));
    answers(&mut world, "one", Some("203.0.113.4"));
    assert_eq!(world.shown("b", &foo()), format!("{NAMES}\na IPv4 http:80 -> 203.0.113.3 203.0.113.4"));
    // A name that is the balancer's no more takes along what it led to, answered or not.
    answers(&mut world, "one", None);
    world.at("a").status(json!({"loadBalancer": {"ingress": [{"hostname": "two.example.com"}]}}));
    assert_eq!(
        world.shown("b", &foo()),
        "http:80\na FQDN http:80 -> two.example.com\na IPv4 http:80 -> 203.0.113.3"
    );
    // Where nobody asks any more nothing is waited for.
    world.resolved.clear();
    assert_eq!(world.shown("b", &foo()), "http:80\na FQDN http:80 -> two.example.com");
}

#[test]
fn what_a_name_led_to_is_drained_and_dropped_like_everything_else() {
    let mut world = balanced();
    world.shown("b", &foo());
    answers(&mut world, "one", None);
    world.at("a").stance = Stance::Drain;
    assert!(world.shown("b", &foo()).ends_with("-> 203.0.113.1! 203.0.113.2!"));
    world.at("a").stance = Stance::Drop;
    assert_eq!(world.shown("b", &foo()), "http:80");
}

#[test]
fn external_dns_keeps_its_targets_while_somebody_or_a_name_is_not_known() {
    let mut world = balanced();
    let mut spec = typed("ClusterIP");
    spec["externalIPs"] = json!(["198.51.100.7"]);
    world.places.insert("c".into(), Default::default());
    world.at("c").service("x/two", &[(GLOBAL, "foo")], spec).slice("http:8080", "10.3.0.1");
    world.dns = Dns::Under("my-org.com".into());
    let target = |world: &mut World| {
        world.settle("b", &foo());
        let annotations = world.places["b"].generated[&foo()].metadata.annotations.clone().unwrap();
        annotations.get("external-dns.kubernetes.io/target").cloned().unwrap_or_default()
    };
    let all = "198.51.100.7,203.0.113.1,203.0.113.2";
    assert_eq!(target(&mut world), all);
    world.at("c").unknown = true;
    assert_eq!(target(&mut world), all);
    answers(&mut world, "one", Some("203.0.113.5"));
    assert_eq!(target(&mut world), "198.51.100.7,203.0.113.1,203.0.113.2,203.0.113.5", "what is new is told");
    world.at("c").unknown = false;
    answers(&mut world, "two", None);
    assert_eq!(target(&mut world), "198.51.100.7,203.0.113.1,203.0.113.2,203.0.113.5");
    answers(&mut world, "two", Some("203.0.113.2"));
    assert_eq!(target(&mut world), "198.51.100.7,203.0.113.2,203.0.113.5");
    // Who asked for what is stale to go asked for this too.
    world.at("c").unknown = true;
    world.at("c").stance = Stance::Drop;
    assert_eq!(target(&mut world), "203.0.113.2,203.0.113.5");
}

#[test]
fn who_is_known_in_part_brings_what_is_known_and_loses_nothing_of_the_rest() {
    let mut world = seen();
    let native = json!({
        "metadata": {"namespace": "ns1", "name": "cloud", "annotations": {GLOBAL: "foo"}, "uid": "u"},
        "spec": {"ports": [{"name": "http", "port": 80}]},
        "status": {"networkInterfaces": [{"ips": [{"addressType": "ExternalIP", "address": "203.0.113.77"}]}]},
    });
    world.at("cluster1").natives.push(serde_json::from_value(native).unwrap());
    let before = world.shown("seen", &foo());
    assert!(before.contains("cluster1 IPv4 http:80 -> 203.0.113.77"), "{before}");
    world.settle_all(&foo());
    world.at("cluster1").half_known = true;
    assert!(world.plan("seen", &foo()).is_settled(), "{:#?}", world.plan("seen", &foo()));
    // A pod that comes is used, although what else joins there is not known.
    world.at("cluster1").slices.clear();
    world.at("cluster1").slice("http:8080", "10.1.0.9");
    let after = world.shown("seen", &foo());
    assert!(after.contains("cluster1 IPv4 http:8080 -> 10.1.0.9\n"), "{after}");
    assert!(after.contains("cluster1 IPv4 http:80 -> 203.0.113.77"), "{after}");
    // At home it is the same.
    let at_home = world.shown("cluster1", &foo());
    assert!(at_home.contains("10.1.0.9") && at_home.contains("203.0.113.77"), "{at_home}");
    // A Service that goes may have been all there is: what came from there stays until that is known.
    world.at("cluster1").services.clear();
    assert_eq!(world.shown("seen", &foo()), after);
    assert!(world.plan("cluster1", &foo()).is_settled(), "at home others may be the only ones");
    world.at("cluster1").half_known = false;
    assert!(!world.shown("seen", &foo()).contains("10.1.0.9"));
}
