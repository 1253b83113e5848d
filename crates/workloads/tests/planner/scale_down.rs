//! Who gives replicas up when there are fewer than run, if that is to go by weight.

use crate::case::Case;

#[track_caller]
fn check(case: &str, answer: &str) {
    let case = Case::parse(&format!("{case} | weighted"));
    assert_eq!(crate::case::words(&case.plan()), answer);
}

#[test]
fn by_default_a_workload_that_shrinks_stays_spread() {
    let preferences = koinon_api::preferences::Preferences::default();
    let case = Case::parse("5 over A B C D E | has A=2 B=2 C=2 D=2 E=2");
    let plan = Case { preferences, ..case }.plan();
    assert_eq!(crate::case::words(&plan), "A=1 B=1 C=1 D=1 E=1");
    // Step 4 of the design, to the letter, is a choice.
    let ordered = Case::parse("5 over A B C D E | * weight=1 | has A=2 B=2 C=2 D=2 E=2");
    assert_eq!(crate::case::words(&ordered.plan()), "B=2 C=2 D=1");
}

#[test]
fn the_one_above_its_share_gives_up() {
    check("50 over A B | * weight=1 | has A=10 B=70", "A=10 B=40");
}

#[test]
fn in_proportion_to_how_far_they_are_above() {
    // Shares of 20 each: B is 20 above, C is 30 above, and 30 are too many.
    check("60 over A B C | * weight=1 | has A=0 B=40 C=50", "B=28 C=32");
    check("30 over A B C | * weight=1 | has A=0 B=30 C=30", "B=15 C=15");
}

#[test]
fn minimums_are_still_first() {
    check("50 over A B | * weight=1 | A min=20 weight=1 | has A=10 B=70", "A=20 B=30");
}

#[test]
fn nothing_above_is_the_ordinary_way() {
    check("50 over A B C | * weight=1 | has C=30", "A=10 B=10 C=30");
    check("50 over A B | * weight=1 | rebalance | has A=10 B=70", "A=25 B=25");
}

#[test]
fn what_runs_beyond_bounds_does_not_count() {
    check("50 over A B | * weight=1 | B weight=1 max=45 | has A=10 B=70", "A=10 B=40");
    check("50 over A B | * weight=1 | has A=10 B=70 | holds B=30", "A=20 B=30");
}
