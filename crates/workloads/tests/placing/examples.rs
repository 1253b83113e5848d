//! One change at a time, from rest to rest.

use crate::model::{Federation, PATIENCE, ROUND};

const EVEN: &str = r#"{"rebalance":true,"clusters":{"*":{"weight":1}}}"#;
const KEEP: &str = r#"{"rebalance":false,"clusters":{"*":{"weight":1}}}"#;

fn sum(layout: &str) -> i64 {
    layout.split(' ').map(|one| one.split_once('=').unwrap().1.parse::<i64>().unwrap()).sum()
}

#[test]
fn a_new_workload_is_everywhere_at_once() {
    let mut federation = Federation::new(&["a", "b", "c"], 50, EVEN);
    assert!(federation.round());
    assert_eq!(federation.asked(), 50);
    federation.settle();
    assert_eq!(sum(&federation.layout()), 50, "{}", federation.layout());
}

#[test]
fn what_is_stuck_moves_and_a_couple_wait_and_all_comes_back_with_room() {
    let mut federation = Federation::new(&["a", "b", "c"], 30, EVEN);
    federation.set("c", |one| one.room = Some(4));
    federation.settle();
    assert_eq!(federation.layout(), "a=13 b=13 c=4");
    // The couple that waits in c.
    assert_eq!(federation.asked(), 32);
    federation.set("c", |one| one.room = None);
    federation.settle();
    assert_eq!(federation.layout(), "a=10 b=10 c=10");
    assert_eq!(federation.asked(), 30);
}

#[test]
fn nothing_moves_before_the_patience_is_over_and_the_timer_says_when() {
    let mut federation = Federation::new(&["a", "b"], 20, EVEN);
    federation.set("b", |one| one.room = Some(4));
    federation.round();
    federation.round();
    let waits = federation.decide().look_again.unwrap().as_secs();
    assert_eq!(i64::try_from(waits).unwrap(), PATIENCE - ROUND);
    for _ in 0..PATIENCE / ROUND - 1 {
        assert!(!federation.round(), "{federation:#?}");
    }
    assert!(federation.round());
    federation.settle();
    assert_eq!(federation.layout(), "a=16 b=4");
}

#[test]
fn a_slow_scheduler_is_not_a_full_cluster_and_one_that_is_gone_is() {
    let mut federation = Federation::new(&["a", "b"], 20, EVEN);
    federation.set("b", |one| one.unscheduled = true);
    federation.round();
    federation.round();
    let waits = federation.decide().look_again.unwrap().as_secs();
    assert_eq!(i64::try_from(waits).unwrap(), 5 * PATIENCE - ROUND);
    for _ in 0..5 * PATIENCE / ROUND - 1 {
        assert!(!federation.round(), "{federation:#?}");
    }
    assert!(federation.round());
    federation.settle();
    assert_eq!((federation.layout().as_str(), federation.asked()), ("a=20 b=0", 22));
    federation.set("b", |one| one.unscheduled = false);
    federation.settle();
    assert_eq!(federation.layout(), "a=10 b=10");
}

#[test]
fn a_lost_cluster_is_replaced_and_what_it_brings_back_is_shed_by_weight() {
    let mut federation = Federation::new(&["a", "b"], 50, KEEP);
    federation.settle();
    assert_eq!(federation.layout(), "a=25 b=25");
    federation.set("b", |one| one.offline = true);
    federation.settle();
    assert_eq!(federation.layout(), "a=50 b=25");
    federation.set("b", |one| one.offline = false);
    federation.settle();
    assert_eq!(federation.layout(), "a=25 b=25");
}

#[test]
fn without_rebalance_a_new_cluster_gets_nothing_of_what_runs() {
    let mut federation = Federation::new(&["a", "b"], 20, KEEP);
    federation.settle();
    federation.clusters.insert("c".into(), Default::default());
    federation.settle();
    assert_eq!(federation.layout(), "a=10 b=10 c=0");
    federation.scale(30);
    federation.settle();
    assert_eq!(federation.layout(), "a=10 b=10 c=10");
}

#[test]
fn a_move_never_lowers_what_is_available_nor_exceeds_the_surge() {
    let mut federation =
        Federation::new(&["a", "b"], 40, r#"{"rebalance":true,"clusters":{"a":{"weight":1}}}"#);
    federation.settle();
    assert_eq!(federation.layout(), "a=40 b=0");
    federation.prefer(r#"{"rebalance":true,"clusters":{"b":{"weight":1}}}"#);
    let mut rounds = 0;
    while federation.layout() != "a=0 b=40" {
        federation.round();
        assert!(federation.available() >= 40, "{federation:#?}");
        assert!(federation.asked() <= 50, "{federation:#?}");
        rounds += 1;
        assert!(rounds < 50, "{federation:#?}");
    }
}

#[test]
fn a_smaller_maximum_leaves_as_many_as_there_will_be() {
    let mut federation =
        Federation::new(&["a", "b", "c"], 50, r#"{"rebalance":true,"clusters":{"a":{"weight":1}}}"#);
    federation.settle();
    federation.prefer(r#"{"rebalance":true,"clusters":{"*":{"weight":1,"maxReplicas":2}}}"#);
    while federation.layout() != "a=2 b=2 c=2" {
        federation.round();
        assert!(federation.available() >= 6, "{federation:#?}");
    }
}

#[test]
fn a_minimum_without_room_is_waited_for_and_not_asked_for_again_and_again() {
    let mut federation =
        Federation::new(&["a", "b"], 10, r#"{"clusters":{"a":{"minReplicas":3},"b":{"weight":1}}}"#);
    federation.set("a", |one| one.room = Some(0));
    federation.settle();
    assert_eq!(federation.layout(), "a=0 b=10");
    federation.set("a", |one| one.room = None);
    federation.settle();
    assert_eq!(federation.layout(), "a=3 b=7");
}
