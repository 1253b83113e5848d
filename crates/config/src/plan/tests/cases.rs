//! The stages before federation: AMKO's suite, and what it leaves untested.

use super::world::{World, cluster, lines, object, told, world};
use crate::model::{Kind, Observed};
use crate::plan::Lead;

const VALID: &str = "current AMKOCluster Validation = valid AMKOCluster object";
const CLIENTS: &str = "member cluster initialisation = all cluster clients fetched";
const MEMBERS: &str = "member cluster validation = validated all member clusters";
const CONFIG: &str = "GSLBConfig Federation = federated to all valid clusters successfully";
const POLICY: &str = "GDP Federation = federated to all valid clusters successfully";

/// A world with something to federate, so that a stop shows.
fn loaded() -> World {
    let mut world = world();
    world.add_here(object(&Kind::gslb_config(), "gc-1", 1, serde_json::json!({"refreshInterval": 1800})));
    world
}

/// After `change`, nothing is federated and the status says this.
fn stops(change: impl FnOnce(&mut World), says: &[&str]) {
    let mut world = loaded();
    change(&mut world);
    let plan = world.settle();
    assert_eq!(told(&plan), Vec::<String>::new());
    assert_eq!(lines(&world.says()), says);
    assert_eq!(world.plan().statuses, [], "the status comes to rest");
}

/// After `change`, `members` get the object and the status says this of the members.
fn goes_on(change: impl FnOnce(&mut World), members: &[&str], says: &[&str]) {
    let mut world = loaded();
    change(&mut world);
    let plan = world.settle();
    let expected: Vec<String> =
        members.iter().map(|name| format!("{name}: create GSLBConfig gc-1")).collect();
    assert_eq!(told(&plan), expected);
    world.carry_out(&plan);
    let mut all = says.to_vec();
    all.extend([CONFIG, POLICY]);
    assert_eq!(lines(&world.says()), all);
    assert_eq!(world.plan().lead, Lead::As("a".into()));
}

#[test]
fn all_is_well() {
    goes_on(|_| {}, &["b", "c"], &[VALID, CLIENTS, MEMBERS]);
}

#[test]
fn the_current_cluster_may_be_absent_from_its_list_and_named_twice() {
    goes_on(
        |world| world.ours().clusters = vec!["b".into(), "c".into()],
        &["b", "c"],
        &[VALID, CLIENTS, MEMBERS],
    );
    goes_on(
        |world| world.ours().clusters = ["a", "b", "b", "a"].map(String::from).into(),
        &["b"],
        &[VALID, CLIENTS, MEMBERS],
    );
}

#[test]
fn a_list_of_the_current_cluster_alone_needs_no_secret() {
    for clusters in [vec!["a".to_owned()], Vec::new()] {
        goes_on(
            |world| {
                world.ours().clusters = clusters;
                world.here.contexts = Observed::Seen(Err("no Secret".into()));
            },
            &[],
            &[VALID, CLIENTS, MEMBERS],
        );
    }
}

#[test]
fn a_follower_is_passive() {
    stops(
        |world| world.ours().is_leader = false,
        &["current AMKOCluster Validation = won't federate objects (AMKO not a leader)"],
    );
    let mut world = loaded();
    world.ours().is_leader = false;
    let plan = world.plan();
    assert_eq!((plan.connect, plan.lead), (Some([].into()), Lead::No));
}

#[test]
fn an_invalid_object_says_what_is_wrong_with_it_one_after_the_other() {
    let invalid =
        |reason: &str| format!("current AMKOCluster Validation = invalid AMKOCluster object ({reason})");
    stops(
        |world| world.ours().version.clear(),
        &[&invalid("version field can't be empty in AMKOCluster object")],
    );
    stops(
        |world| {
            world.ours().version.clear();
            world.ours().context.clear();
        },
        &[&invalid("clusterContext field can't be empty in AMKOCluster object")],
    );
    stops(
        |world| {
            world.ours().context.clear();
            world.ours().namespace = "default".into();
        },
        &[&invalid("AMKOCluster's namespace is not avi-system")],
    );
}

#[test]
fn only_the_one_in_avi_system_counts_and_any_other_is_told_so() {
    let mut world = loaded();
    let stray = || crate::model::AmkoCluster { namespace: "default".into(), ..cluster("a", false) };
    let Observed::Seen(clusters) = &mut world.here.clusters else { panic!("seen") };
    clusters.push(stray());
    let plan = world.settle();
    assert_eq!(told(&plan).len(), 2);
    assert_eq!(plan.statuses.len(), 2);
    let Observed::Seen(clusters) = &world.here.clusters else { panic!("seen") };
    assert_eq!(
        lines(&clusters[1].conditions),
        [
            "current AMKOCluster Validation = invalid AMKOCluster object (AMKOCluster's namespace is not avi-system)"
        ]
    );
}

#[test]
fn several_in_avi_system_all_say_so() {
    let mut world = loaded();
    let second = crate::model::AmkoCluster { name: "second".into(), ..cluster("a", true) };
    let Observed::Seen(clusters) = &mut world.here.clusters else { panic!("seen") };
    clusters.push(second);
    let plan = world.settle();
    assert_eq!(told(&plan), Vec::<String>::new());
    let Observed::Seen(clusters) = &world.here.clusters else { panic!("seen") };
    for cluster in clusters {
        assert_eq!(
            lines(&cluster.conditions),
            ["current AMKOCluster Validation = invalid AMKOCluster object \
              (more than one AMKOCluster objects present in the current cluster, can't federate)"]
        );
    }
}

#[test]
fn a_context_that_the_secret_lacks_stops_all() {
    stops(
        |world| world.ours().clusters.push("d".into()),
        &[
            VALID,
            "member cluster initialisation = member cluster clients invalid (error in initialising member cluster contexts: \
             error in building context config for kubernetes cluster d: context \"d\" does not exist)",
        ],
    );
}

#[test]
fn a_secret_that_is_missing_malformed_or_forbidden_stops_all() {
    let why = "Secret avi-system/gslb-config-secret is not there";
    let says = format!(
        "member cluster initialisation = member cluster clients invalid (error in initialising member cluster contexts: {why})"
    );
    stops(|world| world.here.contexts = Observed::Seen(Err(why.into())), &[VALID, &says]);
    stops(|world| world.here.contexts = Observed::Lost(why.into()), &[VALID, &says]);
}

#[test]
fn a_member_without_a_client_is_left_out() {
    goes_on(
        |world| world.member("b").no_client = Some("its certificate is none".into()),
        &["c"],
        &[
            VALID,
            "member cluster initialisation = some member cluster clients couldn't be fetched \
             (error in initializing member custer context b: its certificate is none)",
            MEMBERS,
        ],
    );
}

#[test]
fn members_that_fail_are_named_and_left_out() {
    let partial = |reason: &str| {
        format!("member cluster validation = error in validating some member clusters ({reason})")
    };
    let version = "version mismatch, current AMKO: 1.4.2, AMKO in cluster b: 1.5.1";
    goes_on(
        |world| world.theirs("b")[0].version = "1.5.1".into(),
        &["c"],
        &[VALID, CLIENTS, &partial(version)],
    );
    goes_on(
        |world| world.theirs("b").clear(),
        &["c"],
        &[VALID, CLIENTS, &partial("no AMKOCluster object present in cluster b, can't federate")],
    );
    goes_on(
        |world| world.theirs("b").push(crate::model::AmkoCluster { uid: "2".into(), ..cluster("b", false) }),
        &["c"],
        &[VALID, CLIENTS, &partial("more than one AMKOCluster objects present in cluster b, can't federate")],
    );
    goes_on(
        |world| world.member("b").clusters = Observed::Lost("no answer".into()),
        &["c"],
        &[VALID, CLIENTS, &partial("error in getting AMKOCluster list for cluster b: no answer")],
    );
    stops(
        |world| {
            world.member("c").clusters = Observed::Lost("no answer".into());
            world.theirs("b")[0].version = "1.5.1".into();
        },
        &[
            VALID,
            CLIENTS,
            &partial(&format!("{version},error in getting AMKOCluster list for cluster c: no answer")),
        ],
    );
}

#[test]
fn a_second_leader_stops_all_and_is_remembered_until_it_is_seen_to_follow() {
    let conflict = "member cluster validation = member cluster clients invalid \
                    (AMKO in cluster b is also a leader, conflicting state)";
    let conflicting = |world: &mut World| world.theirs("b")[0].is_leader = true;
    stops(conflicting, &[VALID, CLIENTS, conflict]);

    let mut world = loaded();
    conflicting(&mut world);
    let plan = world.settle();
    assert_eq!((plan.lead, plan.conflicts), (Lead::No, ["b".to_owned()].into()));
    for unknown in [Observed::Lost("no answer".into()), Observed::Pending] {
        world.member("b").clusters = unknown;
        let plan = world.settle();
        assert_eq!((told(&plan).len(), plan.lead), (0, Lead::No));
        assert_eq!(lines(&world.says()), [VALID, CLIENTS, conflict]);
    }
    // What is remembered counts, and not how it was told.
    let mut restarted = loaded();
    restarted.here.conflicts = Observed::Seen(["b".into()].into());
    restarted.member("b").clusters = Observed::Lost("no answer".into());
    assert_eq!(lines(&restarted.says()), [VALID, CLIENTS, conflict]);
    // Until it is known whether anything was, nothing is written, and the status stays.
    for unknown in [Observed::Pending, Observed::Lost("no answer".into())] {
        let mut restarted = loaded();
        restarted.ours().conditions = world.ours().conditions.clone();
        restarted.here.conflicts = unknown;
        restarted.member("b").clusters = Observed::Lost("no answer".into());
        let plan = restarted.settle();
        assert_eq!((plan.lead.clone(), told(&plan).len(), plan.statuses.len()), (Lead::Undecided, 0, 0));
    }

    world.member("b").clusters = Observed::Seen(vec![cluster("b", false)]);
    assert_eq!(told(&world.settle()).len(), 2);
}

#[test]
fn a_conflict_ends_with_demotion_or_when_the_other_leaves_the_set() {
    let mut world = loaded();
    world.theirs("b")[0].is_leader = true;
    world.settle();
    world.ours().clusters = vec!["a".into(), "c".into()];
    assert_eq!(told(&world.settle()), ["c: create GSLBConfig gc-1"]);

    let mut world = loaded();
    world.theirs("b")[0].is_leader = true;
    world.settle();
    world.member("b").clusters = Observed::Lost("no answer".into());
    world.ours().is_leader = false;
    let plan = world.settle();
    assert_eq!(plan.conflicts, [].into());
    // Promoted again after the other was lost: that is the disaster to recover from.
    world.ours().is_leader = true;
    assert_eq!(told(&world.settle()), ["c: create GSLBConfig gc-1"]);
}

#[test]
fn a_leader_that_was_lost_before_this_one_was_promoted_does_not_count() {
    goes_on(
        |world| world.member("b").clusters = Observed::Lost("no answer".into()),
        &["c"],
        &[
            VALID,
            CLIENTS,
            "member cluster validation = error in validating some member clusters \
             (error in getting AMKOCluster list for cluster b: no answer)",
        ],
    );
}

#[test]
fn nothing_is_written_before_every_member_was_looked_at_once() {
    let mut world = loaded();
    world.member("c").clusters = Observed::Pending;
    let plan = world.settle();
    assert_eq!((told(&plan).len(), plan.lead.clone()), (0, Lead::Undecided));
    assert_eq!(plan.stopped.as_deref(), Some("looking at cluster c for the first time"));
    assert_eq!(lines(&world.says()), [VALID, CLIENTS]);
    // What the status said before stays until the answer is there.
    let mut settled = loaded();
    let plan = settled.settle();
    settled.carry_out(&plan);
    let before = settled.says();
    settled.member("c").clusters = Observed::Pending;
    assert_eq!(settled.says(), before);
}

#[test]
fn a_wrong_context_that_names_another_member_is_found_out() {
    stops(
        |world| {
            world.ours().context = "x".into();
            let ours = world.ours().clone();
            let mut own = world.member("b").clone();
            own.clusters = Observed::Seen(vec![ours]);
            world.members.insert("a".into(), own);
        },
        &[
            VALID,
            CLIENTS,
            "member cluster validation = member cluster clients invalid \
             (cluster a is the current cluster itself: set clusterContext to a, or take it off clusters)",
        ],
    );
}

#[test]
fn a_leader_that_does_not_see_itself_writes_nothing_and_keeps_its_connections() {
    for unknown in [Observed::Pending, Observed::Lost("no answer".into())] {
        let mut world = loaded();
        world.here.clusters = unknown;
        let plan = world.plan();
        assert_eq!((told(&plan).len(), plan.connect, plan.lead), (0, None, Lead::Undecided));
    }
}
