//! Cases that settle what the rules mean, many of them known from earlier planners of this kind.

use crate::case::{check, check_why};

#[test]
fn evenly() {
    for (case, answer) in [
        ("50 over A B | * weight=1", "A=25 B=25"),
        ("1 over A B | * weight=1", "B=1"),
        ("1 over A B C D | * weight=1", "C=1"),
        ("1 over A | * weight=1", "A=1"),
        ("1 over | * weight=1", " | unplaced 1"),
        ("0 over A B | * weight=1", ""),
        // Shares are rounded up: the last in order may get nothing.
        ("4 over A B C | * weight=1", "B=2 C=2"),
    ] {
        check(case, answer);
    }
}

#[test]
fn evenly_with_some_running() {
    for (case, answer) in [
        ("50 over A B C | * weight=1 | has C=30", "A=10 B=10 C=30"),
        ("50 over A B | * weight=1 | has A=30", "A=30 B=20"),
        ("15 over A B | * weight=1 | has A=0 B=8", "A=7 B=8"),
        ("15 over A B | * weight=1 | has A=1 B=8", "A=7 B=8"),
        ("15 over A B | * weight=1 | has A=4 B=8", "A=7 B=8"),
        ("15 over A B | * weight=1 | has A=5 B=8", "A=7 B=8"),
        ("15 over A B | * weight=1 | has A=6 B=8", "A=7 B=8"),
        ("15 over A B | * weight=1 | has A=7 B=8", "A=7 B=8"),
        ("500000 over A B | * weight=1 | has A=300000", "A=300000 B=200000"),
        ("50 over A B | * weight=1 | has A=10", "A=25 B=25"),
        ("50 over A B | * weight=1 | has A=10 B=70", "B=50"),
        ("1 over A B | * weight=1 | has A=30", "A=1"),
        ("50 over A B | * weight=1 | has A=10 B=20", "A=25 B=25"),
    ] {
        check(case, answer);
    }
}

#[test]
fn capacity_and_what_waits() {
    for (case, answer) in [
        ("50 over A B C | * weight=1 | holds C=10 | rebalance", "A=20 B=20 C=10 | waits C=7"),
        (
            "50 over B C | A weight=10000 | B weight=1 | holds B=10 | rebalance",
            "B=10 | waits B=40 | unplaced 40",
        ),
        ("60 over A B C | A weight=1 | B weight=2 | holds B=10 | rebalance", "A=50 B=10 | waits B=30"),
        (
            "71 over A B C D | A weight=10000 max=10 | B weight=1 | C weight=1 max=21 | D weight=1 max=10 | holds C=10 | rebalance",
            "A=10 B=41 C=10 D=10 | waits C=11",
        ),
        (
            "60 over A B C | A weight=1 | B weight=1 | holds A=10 B=10",
            "A=10 B=10 | waits A=20 B=20 | unplaced 40",
        ),
        ("60 over A B C | A weight=1 | B weight=5 | holds B=10", "A=50 B=10"),
        ("50 over A B C | * min=20 | holds B=10", "A=20 B=10 C=20"),
        ("60 over A B | * min=20 weight=1 | holds B=10 | rebalance", "A=50 B=10 | waits B=15"),
    ] {
        check(case, answer);
    }
}

#[test]
fn minimums() {
    for (case, answer) in [
        ("50 over A B C | * min=2", "A=2 B=2 C=2 | unplaced 44"),
        ("50 over A B C | * min=20", "A=10 B=20 C=20"),
        ("50 over A B C | * min=20 | A min=100 weight=1", "A=50"),
        ("50 over A B C | * min=10 weight=1 max=12", "A=12 B=12 C=12 | unplaced 14"),
        // A minimum comes first and on top of the share.
        ("10 over a b | a min=2 weight=2 | b min=4 weight=3 | rebalance", "a=3 b=7"),
    ] {
        check(case, answer);
    }
}

#[test]
fn maximums_and_weights() {
    for (case, answer) in [
        ("50 over A B C | * weight=1 max=2", "A=2 B=2 C=2 | unplaced 44"),
        ("50 over A B C | * max=2", " | unplaced 50"),
        ("60 over A B C | A weight=1 | B weight=2", "A=20 B=40"),
        ("50 over A B C | A weight=10000 | B weight=1", "A=50"),
        ("50 over B C | A weight=10000 | B weight=1", "B=50"),
        ("50 over A B C | A weight=10000 max=10 | B weight=1 | C weight=1", "A=10 B=20 C=20"),
        ("50 over A B C | A weight=10000 max=10 | B weight=1 | C weight=1 max=10", "A=10 B=30 C=10"),
        (
            "71 over A B C D | A weight=10000 max=10 | B weight=1 | C weight=1 max=21 | D weight=1 max=10",
            "A=10 B=30 C=21 D=10",
        ),
        (
            "91 over A B C D E | A weight=10000 max=10 | B weight=1 | C weight=1 max=21 | D weight=1 max=10 | E weight=1",
            "A=10 B=25 C=21 D=10 E=25",
        ),
    ] {
        check(case, answer);
    }
}

#[test]
fn what_earlier_tests_left_open() {
    for (case, answer) in [
        // The key counts, after the name.
        ("1 over A B | * weight=1 | key default/nginx", "B=1"),
        ("1 over A B | * weight=1 | key default/web", "A=1"),
        // What is kept stays within the maximum and the capacity.
        ("50 over A B | * weight=1 | A weight=1 max=20 | has A=30", "A=20 B=30"),
        ("50 over A B | * weight=1 | has A=30 | holds A=20", "A=20 B=30"),
        // A cluster exactly at its maximum still counts in the next round's weights.
        ("10 over A B C | A weight=2 max=5 | B weight=1 max=1 | C weight=1 | rebalance", "A=5 B=1 C=4"),
        // A cluster's own entry takes nothing over from the one for all.
        ("10 over A B | * min=5 weight=1 | A max=3", "B=10"),
        // A cluster that nobody prefers gives up what it runs.
        ("10 over A B | A weight=1 | has B=5", "A=10"),
        ("10 over A B | * weight=1 | has A=-5 | holds B=-3", "A=10"),
        (
            "9223372036854775807 over A B | * weight=9223372036854775807 | rebalance",
            "A=4611686018427387903 B=4611686018427387904",
        ),
    ] {
        check(case, answer);
    }
}

#[test]
fn every_part_has_its_reason() {
    let mixed = "40 over A B C D | A min=5 weight=1 | B weight=2 max=10 | C weight=1 | has A=8 | holds C=3";
    check_why(mixed, "A", "5 as its minimum, 3 kept where they run, 19 for its weight of 1 in 4");
    check_why(mixed, "B", "10 for its weight of 2 in 4; its maximum is 10");
    check_why(mixed, "C", "3 for its weight of 1 in 4; it has room for 3");
    check_why(mixed, "D", "no preference names it, and there is none for \"*\"");
    let waiting = "50 over A B C | * weight=1 | rebalance | holds B=0 C=6";
    check_why(waiting, "B", "none; it has no room; 17 more would go there");
    check_why(waiting, "C", "6 for its weight of 1 in 3; it has room for 6; 11 more would go there");
    let short = "50 over A B C | * min=20 | holds B=10";
    check_why(short, "B", "10 of its minimum of 20; it has room for 10");
    check_why("50 over A B C | * min=20", "A", "10 of its minimum of 20, as no more replicas were left");
    check_why(
        "5 over A B | A weight=100 | B weight=1",
        "B",
        "no replica was left for its weight of 1 in 101",
    );
    check_why("5 over A B | A weight=100 | B max=3", "B", "its weight is 0");
    let shrinking = "50 over A B | * weight=1 | has A=10 B=70 | weighted";
    check_why(shrinking, "B", "40 kept where they run; 30 too many are given up");
}
