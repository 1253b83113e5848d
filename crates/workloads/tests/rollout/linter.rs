//! The linter sees what it is there for: sound plans, spoiled one by one.

use koinon_workloads::rollout::{Local, Plan, Reach, Template, View, Violation, check};

use crate::build::{all_on, decide, desired, replacing, resting};

fn spoiled(view: &View, spoil: impl FnOnce(&mut Plan)) -> Vec<Violation> {
    let wanted = desired("v2", 20);
    let mut plan = decide(0, &wanted, view);
    spoil(&mut plan);
    check(&wanted, view, &plan)
}

#[test]
fn a_second_cluster_at_a_time() {
    let found = spoiled(&all_on("v1", 10, 2), |plan| {
        plan.steps.get_mut("b").unwrap().template = Template::Wanted;
        let entry = plan.record.clusters["a"].clone();
        plan.record.clusters.insert("b".into(), entry);
    });
    assert_eq!(found, [Violation::TooMany(vec!["a".into(), "b".into()])]);
}

#[test]
fn an_update_that_nobody_recorded() {
    let found = spoiled(&all_on("v1", 10, 2), |plan| plan.record.clusters.clear());
    assert_eq!(found, [Violation::NotRecorded("a".into())]);
}

#[test]
fn a_start_behind_a_stalled_cluster() {
    let mut view = all_on("v1", 10, 2);
    view.members.get_mut("a").unwrap().local =
        Some(Local { progress_failed: Some("late".into()), ..replacing("v2", 12, 4) });
    let found = spoiled(&view, |plan| plan.steps.get_mut("b").unwrap().template = Template::Wanted);
    assert!(found.contains(&Violation::StartedBehindStalled("b".into())), "{found:?}");
}

#[test]
fn a_write_to_a_cluster_that_cannot_be_asked() {
    let mut view = all_on("v1", 10, 2);
    view.members.get_mut("b").unwrap().reach = Reach::Offline;
    let found = spoiled(&view, |plan| {
        let step = plan.steps["a"].clone();
        plan.steps.insert("b".into(), step);
    });
    assert_eq!(found, [Violation::Touched("b".into())]);
}

#[test]
fn a_template_that_changes_while_paused() {
    let view = all_on("v1", 10, 2);
    let mut wanted = desired("v2", 20);
    let plan = decide(0, &wanted, &view);
    wanted.paused = true;
    let found = check(&wanted, &view, &plan);
    assert_eq!(found, [Violation::ChangedWhilePaused("a".into()), Violation::Revision]);
}

#[test]
fn a_count_that_is_no_share_and_a_shadow_that_is_in_use() {
    let view = all_on("v1", 10, 2);
    let found = spoiled(&view, |plan| plan.steps.get_mut("b").unwrap().replicas = Some(11));
    assert_eq!(found, [Violation::Count("b".into())]);
    let found = spoiled(&view, |plan| plan.shadows.remove.push("web-v1".into()));
    assert_eq!(found, [Violation::RemovedInUse("web-v1".into())]);
    let found = spoiled(&view, |plan| plan.shadows.wanted.retain(|shadow| shadow.template == "v1"));
    assert_eq!(found, [Violation::Revision]);
}

#[test]
fn a_status_that_contradicts_itself() {
    let mut view = all_on("v1", 10, 2);
    view.members.get_mut("a").unwrap().local = Some(resting("v2", 10));
    let found = spoiled(&view, |plan| plan.status.updated = 21);
    assert_eq!(found, [Violation::Status("more updated than there are")]);
}
