//! The traps of rolling over clusters, each by its name.

use koinon_api::placement::ClusterState;
use koinon_api::rollout::{ClusterOrder, MaxConcurrent};
use koinon_workloads::planner::{Observed, Workload};
use koinon_workloads::rollout::{
    Amount, Counting, Local, Member, Phase, Reach, Strategy, Template, Unfinished, WaitingOn, Warning,
    placement,
};

use crate::build::{
    DEADLINE, all_on, at, bounded, condition, decide, desired, newcomer, online, replacing, resting, share,
    started, view,
};

#[test]
fn one_cluster_after_another() {
    let wanted = desired("v2", 30);
    let mut view = all_on("v1", 10, 3);
    let plan = decide(0, &wanted, &view);
    assert_eq!(started(&plan), ["a"]);
    assert_eq!(plan.steps["a"].template, Template::Wanted);
    assert_eq!(plan.steps["b"].template, Template::AsItIs);
    assert_eq!(plan.steps["b"].phase, Phase::Waiting);

    view.record = plan.record;
    view.members.get_mut("a").unwrap().local = Some(replacing("v2", 12, 4));
    let plan = decide(10, &wanted, &view);
    assert_eq!(started(&plan), [] as [&str; 0]);
    assert_eq!(plan.steps["a"].phase, Phase::Updating(Unfinished::OldRemain { old: 8 }));
    assert_eq!(
        condition(&plan, "Progressing"),
        "True ReplicaSetUpdated: a: 8 of its pods still have an older template; to be updated: b, c"
    );
    assert_eq!((plan.status.updated, plan.status.replicas), (4, 32));

    view.members.get_mut("a").unwrap().local = Some(resting("v2", 10));
    let plan = decide(20, &wanted, &view);
    assert_eq!(started(&plan), ["b"]);
    assert!(!plan.record.clusters.contains_key("a"), "a has finished");
}

#[test]
fn t1_pods_without_room_do_not_hold_up_an_update() {
    let wanted = desired("v2", 26);
    let full = |template: &str| Local { available: 6, ready: 6, unschedulable: 2, ..resting(template, 8) };
    let mut view = view(
        &["v1"],
        [
            online(bounded(6, 11), full("v1")),
            online(share(10), resting("v1", 10)),
            online(share(10), resting("v1", 10)),
        ],
    );
    let plan = decide(0, &wanted, &view);
    assert_eq!(started(&plan), ["a"]);
    view.record = plan.record;
    view.members.get_mut("a").unwrap().local = Some(full("v2"));
    let plan = decide(60, &wanted, &view);
    assert_eq!(started(&plan), ["b"], "the two that wait for room waited before");
    // They are in no count, or kubectl would wait for them for ever.
    assert_eq!((plan.status.replicas, plan.status.updated, plan.status.available), (26, 6, 26));
    let shadow = |template: &str| plan.shadows.wanted.iter().find(|one| one.template == template).unwrap();
    assert_eq!((shadow("v2").replicas, shadow("v1").replicas), (6, 20));
}

#[test]
fn t1_an_update_that_needs_more_room_than_there_is_does_not_pass_as_finished() {
    let mut wanted = desired("v2", 20);
    wanted.strategy =
        Strategy::RollingUpdate { max_unavailable: Amount::Percent(100), max_surge: Amount::Percent(25) };
    let mut view = all_on("v1", 10, 2);
    view.record = decide(0, &wanted, &view).record;
    // All old pods went, no new one finds a node, and the planner moved the share away.
    let starved = Local { available: 0, ready: 0, unschedulable: 2, ..resting("v2", 2) };
    view.members.insert("a".into(), online(bounded(0, 10), starved));
    let plan = decide(90, &wanted, &view);
    assert_eq!(started(&plan), [] as [&str; 0]);
    assert_eq!(plan.steps["a"].phase, Phase::Updating(Unfinished::NoRoom { available: 0, of: 1 }));
}

#[test]
fn t1_pods_that_crash_hold_it_up() {
    let wanted = desired("v2", 20);
    let mut view = all_on("v1", 10, 2);
    view.record = decide(0, &wanted, &view).record;
    view.members.get_mut("a").unwrap().local = Some(Local { available: 7, ready: 7, ..resting("v2", 10) });
    let plan = decide(60, &wanted, &view);
    assert_eq!(started(&plan), [] as [&str; 0]);
    let lacks = Unfinished::NotAvailable { available: 7, of: 10 };
    assert_eq!(plan.waiting, [WaitingOn::Cluster { cluster: "a".into(), lacks }]);
}

#[test]
fn t2_surge_is_not_counted_as_existing() {
    let preferences = koinon_api::preferences::Preferences::default();
    let mut asked = [2, 2, 2];
    for _ in 0..4 {
        // Every look finds the cluster a in the middle of an update, with pods beyond what it was asked for.
        let candidates = ["a", "b", "c"]
            .into_iter()
            .zip(asked)
            .map(|(name, asked)| {
                let pods = if name == "a" { asked + (asked + 3) / 4 } else { asked };
                let observed = Observed { spec_replicas: asked, pods, ..Observed::default() };
                (name.to_owned(), observed.candidate())
            })
            .collect();
        let workload = Workload { key: "default/web", replicas: 6, preferences: &preferences };
        let plan = koinon_workloads::planner::plan(&workload, &candidates);
        asked = [0, 1, 2].map(|at| plan.clusters.values().nth(at).unwrap().spec_replicas());
    }
    assert_eq!(asked, [2, 2, 2]);
}

#[test]
fn t3_a_cluster_that_goes_offline_is_left_out_and_resumes() {
    let wanted = desired("v2", 30);
    let mut view = all_on("v1", 10, 3);
    view.record = decide(0, &wanted, &view).record;
    let member = view.members.get_mut("a").unwrap();
    member.local = Some(replacing("v2", 12, 4));
    member.reach = Reach::Unsure;
    let plan = decide(10, &wanted, &view);
    assert_eq!(started(&plan), [] as [&str; 0], "not for a short silence");
    assert!(!plan.steps.contains_key("a"));
    assert_eq!(plan.waiting, [WaitingOn::Unsure { cluster: "a".into() }]);

    view.members.get_mut("a").unwrap().reach = Reach::Offline;
    let plan = decide(40, &wanted, &view);
    assert_eq!(started(&plan), ["b"]);
    assert!(!plan.steps.contains_key("a"));
    assert!(condition(&plan, "AllClusters").starts_with("False ClustersOffline"));
    assert_eq!(plan.status.replicas, 20, "the status speaks of those that can be asked");

    // The others finish: the update is complete, but for a.
    view.record = plan.record;
    for name in ["b", "c"] {
        view.members.insert(name.into(), online(share(15), resting("v2", 15)));
    }
    let plan = decide(200, &wanted, &view);
    assert_eq!(condition(&plan, "Progressing"), "True NewReplicaSetAvailable: every cluster is up to date");
    view.record = plan.record;

    view.members.get_mut("a").unwrap().reach = Reach::Online;
    let plan = decide(300, &wanted, &view);
    assert_eq!(plan.steps["a"].phase, Phase::Updating(Unfinished::OldRemain { old: 8 }), "it goes on");
}

#[test]
fn t3_a_cluster_that_returns_with_an_old_template_takes_its_turn() {
    let wanted = desired("v2", 30);
    let mut view = all_on("v2", 15, 3);
    view.members.insert("c".into(), online(share(0), resting("v1", 10)));
    view.members.get_mut("c").unwrap().share = Some(share(10));
    view.members.get_mut("a").unwrap().local = Some(replacing("v2", 15, 10));
    assert_eq!(started(&decide(0, &wanted, &view)), [] as [&str; 0]);
    view.members.get_mut("a").unwrap().local = Some(resting("v2", 15));
    assert_eq!(started(&decide(1, &wanted, &view)), ["c"]);
}

#[test]
fn t4_a_broken_image_stops_at_the_first_cluster_and_says_so() {
    let wanted = desired("broken", 20);
    let mut view = all_on("v1", 10, 2);
    view.record = decide(0, &wanted, &view).record;
    view.members.get_mut("a").unwrap().local = Some(Local {
        available: 8,
        progress_failed: Some("ReplicaSet \"web-1\" has timed out progressing.".into()),
        ..replacing("broken", 12, 4)
    });
    let plan = decide(700, &wanted, &view);
    assert_eq!(started(&plan), [] as [&str; 0]);
    assert_eq!(
        condition(&plan, "Progressing"),
        "False ProgressDeadlineExceeded: a makes no progress: ReplicaSet \"web-1\" has timed out progressing."
    );
    assert_eq!(placement(&wanted, &view, &plan).clusters["a"].state, ClusterState::Stalled);

    // Undo: that cluster goes back at once, and the other never changed.
    view.record = plan.record;
    let wanted = desired("v1", 20);
    let plan = decide(710, &wanted, &view);
    assert_eq!(plan.steps["a"].template, Template::Wanted);
    assert_eq!(plan.steps["b"].phase, Phase::Done);
}

#[test]
fn t4_a_member_that_does_not_even_look_is_noticed() {
    let wanted = desired("v2", 20);
    let mut view = all_on("v1", 10, 2);
    view.record = decide(0, &wanted, &view).record;
    let unobserved =
        |since: u64| Some(Local { generation: 4, unobserved_since: Some(at(since)), ..resting("v2", 10) });
    view.members.get_mut("a").unwrap().local = unobserved(0);
    let plan = decide(DEADLINE - 30, &wanted, &view);
    assert_eq!(plan.look_again.map(|after| after.as_secs()), Some(30));
    assert!(condition(&plan, "Progressing").starts_with("True"));
    let plan = decide(DEADLINE, &wanted, &view);
    assert!(condition(&plan, "Progressing").starts_with("False ProgressDeadlineExceeded"));
    assert_eq!(plan.status.updated, 0, "its status still speaks of the template before");
    // What counts is when it was last sent something: a count, or that it goes on.
    view.members.get_mut("a").unwrap().local = unobserved(DEADLINE - 1);
    let plan = decide(DEADLINE, &wanted, &view);
    assert!(condition(&plan, "Progressing").starts_with("True"));
    let plan = decide(2 * DEADLINE, &wanted, &view);
    assert!(condition(&plan, "Progressing").starts_with("False ProgressDeadlineExceeded"));

    // Nor one that refuses what is written to it.
    view.members.get_mut("a").unwrap().local = Some(resting("v1", 10));
    let plan = decide(DEADLINE, &wanted, &view);
    assert!(
        condition(&plan, "Progressing").starts_with("False ProgressDeadlineExceeded: a makes no progress")
    );
    assert_eq!(plan.steps["a"].template, Template::Wanted, "it is tried again all the same");
}

#[test]
fn t5_a_new_update_redirects_the_cluster_that_is_half_done() {
    let mut view = all_on("v1", 10, 3);
    view.shadows = crate::build::view(&["v1", "v2"], []).shadows;
    view.members.insert("b".into(), online(share(10), replacing("v2", 12, 4)));
    view.record = {
        let mut wanted = desired("v2", 30);
        wanted.order = ClusterOrder::parse("b").unwrap();
        decide(0, &wanted, &all_on("v1", 10, 3)).record
    };
    let plan = decide(60, &desired("v3", 30), &view);
    assert_eq!(plan.steps["b"].template, Template::Wanted);
    assert_eq!(plan.steps["a"].template, Template::AsItIs);
    assert_eq!(started(&plan), [] as [&str; 0], "nobody else is disturbed for it");
    assert_eq!(plan.record.clusters["b"].available, 10, "measured by what ran before all of this");
    assert_eq!(plan.record.clusters["b"].to, "v3");

    // Evidence is enough: two kinds of pods in one cluster.
    view.record.clusters.clear();
    assert_eq!(decide(60, &desired("v3", 30), &view).steps["b"].template, Template::Wanted);
}

#[test]
fn t5_a_change_of_count_is_no_update() {
    // The same manifest changed image and replicas: the count was written to all, and nobody has looked yet.
    let busy = || Local { generation: 4, spec_replicas: 12, ..resting("v1", 10) };
    let view = view(&["v1"], (0..3).map(|_| online(share(12), busy())));
    assert_eq!(started(&decide(0, &desired("v2", 36), &view)), ["a"]);
}

#[test]
fn t6_counts_are_pushed_while_templates_are_held_back() {
    let mut view = all_on("v1", 10, 2);
    view.members.get_mut("b").unwrap().share = Some(share(14));
    let plan = decide(0, &desired("v2", 24), &view);
    assert_eq!((&plan.steps["b"].template, plan.steps["b"].replicas), (&Template::AsItIs, Some(14)));
    let mut wanted = desired("v2", 24);
    wanted.counting = Counting::Member;
    assert_eq!(decide(0, &wanted, &view).steps["b"].replicas, None, "an autoscaler decides there");
}

#[test]
fn t7_a_stale_look_does_not_start_a_second_cluster() {
    let wanted = desired("v2", 30);
    let stale = all_on("v1", 10, 3);
    let first = decide(0, &wanted, &stale);
    let mut second = stale.clone();
    second.record = first.record.clone();
    let again = decide(1, &wanted, &second);
    assert_eq!(started(&again), [] as [&str; 0]);
    assert_eq!(again.record, first.record, "and nothing is written twice");
    // Nor does a member that nobody has listed yet leave room for another.
    let mut unlisted = stale;
    unlisted
        .members
        .insert("a".into(), Member { reach: Reach::Unsure, share: None, local: None, refused: None });
    assert_eq!(started(&decide(0, &wanted, &unlisted)), [] as [&str; 0]);
}

#[test]
fn t8_a_cluster_without_replicas_gets_the_template_at_once() {
    let view = view(
        &["v1"],
        [
            online(share(10), resting("v1", 10)),
            online(share(0), resting("v1", 0)),
            online(share(0), resting("v1", 0)),
        ],
    );
    let plan = decide(0, &desired("v2", 10), &view);
    for name in ["a", "b", "c"] {
        assert_eq!(plan.steps[name].template, Template::Wanted, "{name}");
    }
    assert_eq!(started(&plan), ["a"]);
    assert!(!plan.record.clusters.contains_key("b"));
}

#[test]
fn t8_a_new_cluster_starts_with_what_the_others_still_run() {
    let mut view = all_on("v1", 10, 3);
    view.members.insert("d".into(), newcomer(share(5)));
    view.members.insert("e".into(), newcomer(share(0)));
    let plan = decide(0, &desired("v2", 35), &view);
    assert_eq!(plan.steps["d"].template, Template::Revision("v1".into()));
    assert!(!plan.steps.contains_key("e"), "nothing to run, nothing to create");
    assert_eq!(decide(0, &desired("v1", 35), &view).steps["d"].template, Template::Wanted);
}

#[test]
fn t9_paused_freezes_templates_and_not_counts() {
    let mut wanted = desired("v2", 34);
    let mut view = all_on("v1", 10, 3);
    view.record = decide(0, &wanted, &view).record;
    view.members.get_mut("a").unwrap().local = Some(replacing("v2", 12, 4));
    view.members.get_mut("c").unwrap().share = Some(share(14));
    wanted.paused = true;
    let plan = decide(10, &wanted, &view);
    assert!(plan.steps["a"].paused, "it stops in the middle, as in one cluster");
    assert!(!plan.steps["b"].paused);
    assert_eq!((&plan.steps["c"].template, plan.steps["c"].replicas), (&Template::AsItIs, Some(14)));
    assert_eq!(plan.steps["c"].phase, Phase::Held);
    assert!(condition(&plan, "Progressing").starts_with("Unknown DeploymentPaused"));

    // Another template while paused changes nothing anywhere.
    view.record = plan.record;
    wanted.template = "v3".into();
    let plan = decide(20, &wanted, &view);
    assert!(plan.steps.values().all(|step| step.template == Template::AsItIs), "{:?}", plan.steps);

    wanted.paused = false;
    let plan = decide(30, &wanted, &view);
    assert_eq!((&plan.steps["a"].template, plan.steps["a"].paused), (&Template::Wanted, false));
}

#[test]
fn t9_paused_before_it_ever_ran_does_not_start() {
    let mut wanted = desired("v1", 10);
    wanted.paused = true;
    let new = || newcomer(share(5));
    let mut view = view(&[], [new(), new()]);
    assert!(decide(0, &wanted, &view).steps.is_empty());
    wanted.paused = false;
    assert_eq!(decide(0, &wanted, &view).steps["a"].template, Template::Wanted);
    // Once it ran, a cluster that joins while it is paused still gets its part.
    wanted.paused = true;
    view.members.insert("a".into(), online(share(5), resting("v1", 5)));
    view.shadows = crate::build::view(&["v1"], []).shadows;
    let plan = decide(0, &wanted, &view);
    assert_eq!((&plan.steps["b"].template, plan.steps["b"].paused), (&Template::Wanted, false));
}

#[test]
fn t10_recreate_and_all_go_everywhere_at_once() {
    let mut wanted = desired("v2", 30);
    wanted.strategy = Strategy::Recreate;
    assert_eq!(started(&decide(0, &wanted, &all_on("v1", 10, 3))), ["a", "b", "c"]);
    let mut wanted = desired("v2", 30);
    wanted.concurrent = MaxConcurrent::All;
    assert_eq!(started(&decide(0, &wanted, &all_on("v1", 10, 3))), ["a", "b", "c"]);
    wanted.concurrent = MaxConcurrent::parse("2").unwrap();
    assert_eq!(started(&decide(0, &wanted, &all_on("v1", 10, 3))), ["a", "b"]);
}

#[test]
fn t11_the_order_is_the_users_and_unknown_names_are_told() {
    let mut wanted = desired("v2", 30);
    wanted.order = ClusterOrder::parse("c,x,b").unwrap();
    let plan = decide(0, &wanted, &all_on("v1", 10, 3));
    assert_eq!(started(&plan), ["c"]);
    assert_eq!(plan.warnings, [Warning::UnknownInOrder { cluster: "x".into() }]);
    // What somebody else wrote into a member is replaced first.
    let mut view = all_on("v1", 10, 3);
    view.members.get_mut("a").unwrap().local = Some(Local { template: None, ..resting("v1", 10) });
    assert_eq!(started(&decide(0, &wanted, &view)), ["a"]);
}

#[test]
fn t12_undo_touches_only_those_that_differ_and_is_a_new_revision() {
    let mut view = all_on("v1", 10, 5);
    view.shadows = crate::build::view(&["v1", "v2"], []).shadows;
    view.members.insert("a".into(), online(share(10), resting("v2", 10)));
    view.members.insert("b".into(), online(share(10), replacing("v2", 12, 4)));
    let plan = decide(0, &desired("v1", 50), &view);
    assert_eq!(plan.steps["b"].template, Template::Wanted, "the one in the middle goes back at once");
    assert_eq!(plan.steps["a"].phase, Phase::Waiting);
    assert!(["c", "d", "e"].iter().all(|name| plan.steps[*name].phase == Phase::Done));
    let revisions: Vec<_> =
        plan.shadows.wanted.iter().map(|shadow| (shadow.template.as_str(), shadow.revision)).collect();
    assert_eq!(revisions, [("v2", 2), ("v1", 3)]);
    let replicas: Vec<_> = plan.shadows.wanted.iter().map(|shadow| shadow.replicas).collect();
    assert_eq!(replicas, [14, 38]);
}

#[test]
fn history_keeps_what_is_in_use_and_the_newest() {
    let mut wanted = desired("v9", 20);
    wanted.revision_history_limit = 2;
    let mut view = all_on("v9", 10, 2);
    view.shadows = crate::build::view(&["v1", "v2", "v3", "v4", "v9"], []).shadows;
    // A member that nobody can ask may still run the oldest.
    let offline = Member { reach: Reach::Offline, share: None, local: Some(resting("v1", 4)), refused: None };
    view.members.insert("c".into(), offline);
    let plan = decide(0, &wanted, &view);
    assert_eq!(plan.shadows.remove, ["web-v2"]);
    wanted.revision_history_limit = 0;
    assert_eq!(decide(0, &wanted, &view).shadows.remove, ["web-v2", "web-v3", "web-v4"]);
}

#[test]
fn a_first_rollout_creates_everything_at_once() {
    let new = || newcomer(share(5));
    let view = view(&[], [new(), new(), new()]);
    let plan = decide(0, &desired("v1", 15), &view);
    assert!(plan.steps.values().all(|step| step.template == Template::Wanted && step.replicas == Some(5)));
    assert_eq!(plan.shadows.wanted[0].name, "web-v1");
    assert_eq!(plan.shadows.wanted[0].revision, 1);
}

#[test]
fn who_refuses_is_asked_again_and_stops_only_what_nobody_else_has() {
    let refusing = |share| Member { refused: Some("refused: no".into()), ..newcomer(share) };
    let wanted = desired("v2", 20);
    let mut view = all_on("v1", 10, 2);
    view.members.insert("c".into(), refusing(bounded(0, 1)));
    let plan = decide(0, &wanted, &view);
    assert_eq!(started(&plan), ["a"], "the others have all of its replicas");
    assert_eq!(plan.steps["c"].replicas, Some(1));
    // Nobody has them.
    let plan = decide(0, &desired("v1", 24), &view);
    assert_eq!(
        condition(&plan, "Progressing"),
        "False ProgressDeadlineExceeded: c makes no progress: refused: no"
    );
    assert_eq!(plan.steps["c"].template, Template::Wanted);
}

#[test]
fn who_is_short_comes_first_where_nothing_else_may_go() {
    let mut wanted = desired("v2", 20);
    let mut view = all_on("v1", 10, 2);
    view.members.get_mut("b").unwrap().local = Some(Local { available: 4, ready: 4, ..resting("v1", 10) });
    assert_eq!(started(&decide(0, &wanted, &view)), ["a"], "one more may come first");
    wanted.strategy =
        Strategy::RollingUpdate { max_unavailable: Amount::Count(6), max_surge: Amount::Count(0) };
    assert_eq!(started(&decide(0, &wanted, &view)), ["b"], "six are missing already");
    wanted.strategy =
        Strategy::RollingUpdate { max_unavailable: Amount::Count(7), max_surge: Amount::Count(0) };
    assert_eq!(started(&decide(0, &wanted, &view)), ["a"]);
}

#[test]
fn a_shadow_tells_who_is_ready_from_who_has_been_for_long_enough() {
    let mut view = all_on("v1", 4, 1);
    view.members.get_mut("a").unwrap().local = Some(Local { available: 1, ..resting("v1", 4) });
    let shadow = decide(0, &desired("v1", 4), &view).shadows.wanted.remove(0);
    assert_eq!((shadow.replicas, shadow.ready, shadow.available), (4, 4, 1));
}
