//! Not to know is not to have none (N13).

use koinon_network::services::view::Stance;

use crate::world::{World, example, foo};

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
