//! Case by case.

use super::*;

fn original() -> Object {
    object(json!({"uid": "u", "labels": {"a": "1"}, "annotations": {"n": "1"}, "spec": {"size": 1}}))
}

#[test]
fn a_new_original_gets_a_copy_with_everything_that_travels() {
    let mut original = original();
    original.status = Some(json!({"phase": "New"}));
    original.annotations.insert(names::REMOTE_VERSION.into(), "5".into());
    original.annotations.insert(names::LEDGER.into(), "{\"uid\":\"another\"}".into());
    let with_status = Rules { downstream_status: false, ..rules() };
    let Down::Create(made) = plan(&with_status, Seen::Known(&original), Seen::Absent, Known::default()).down
    else {
        panic!("no create")
    };
    let ledger = r#"{"uid":"u","labels":["a"],"annotations":["n"]}"#;
    assert_eq!(
        made,
        json!({
            "metadata": {"labels": {"a": "1"}, "annotations": {"n": "1", names::LEDGER: ledger}},
            "spec": {"size": 1},
            "status": {"phase": "New"},
        })
    );
    let dropped = copy::create(&rules(), &original);
    assert_eq!(dropped.get("status"), None, "the server would drop it");
}

#[test]
fn a_robots_original_carries_its_name_in_the_cloud() {
    let robots = Rules { source: Source::Robot, ..rules() };
    let made = copy::create(&robots, &original());
    assert_eq!(made["metadata"]["labels"], json!({"a": "1", names::ROBOT: "r1"}));
    let copy = copy_of(&robots, &original(), json!({}));
    check(&robots, &Some(original()), &Some(copy.clone()), "nothing (Agreed) | nothing (NoStatus)");
    check(&robots, &None, &Some(copy), "delete c (OriginalAbsent) | nothing (Absent)");
    let anothers = object(json!({"labels": {names::ROBOT: "r2"}}));
    check(&robots, &None, &Some(anothers), "nothing (Foreign) | nothing (Absent)");
}

#[test]
fn only_what_differs_is_written_and_what_others_put_there_stays() {
    let original = original();
    let check_copy = |replaced: Value, expected: &str| {
        let mut copy = copy_of(&rules(), &original, replaced);
        let ledger = copy_of(&rules(), &original, json!({})).annotations[names::LEDGER].clone();
        copy.annotations.entry(names::LEDGER.into()).or_insert(ledger);
        check(&rules(), &Some(original.clone()), &Some(copy), &format!("{expected} | nothing (NoStatus)"));
    };
    check_copy(json!({}), "nothing (Agreed)");
    check_copy(json!({"labels": {"a": "1", "theirs": "x"}}), "nothing (Agreed)");
    check_copy(json!({"annotations": {"n": "1", "theirs": "x"}}), "nothing (Agreed)");
    check_copy(json!({"spec": {"size": 2}}), "update c: /spec/size=1");
    check_copy(json!({"spec": {"size": 1, "extra": true}}), "update c: -/spec/extra");
    check_copy(json!({"labels": {"a": "2", "theirs": "x"}}), "update c: /metadata/labels/a=\"1\"");
    check_copy(json!({"labels": {}}), "update c: /metadata/labels={\"a\":\"1\"}");
    check_copy(json!({"annotations": {"theirs": "x"}}), "update c: /metadata/annotations/n=\"1\"");
}

#[test]
fn what_vanished_upstream_vanishes_downstream() {
    let before =
        object(json!({"labels": {"a": "1", "b": "2"}, "annotations": {"n": "1"}, "spec": {"size": 1}}));
    let mut copy = copy_of(&rules(), &before, json!({}));
    copy.labels.insert("theirs".into(), "x".into());
    let after = object(json!({"labels": {"a": "1"}}));
    check(
        &rules(),
        &Some(after),
        &Some(copy),
        "update c: ledger -/metadata/annotations/n -/metadata/labels/b -/spec | nothing (NoStatus)",
    );
}

#[test]
fn a_copy_without_a_ledger_is_adopted_and_keeps_what_it_has() {
    let copy =
        object(json!({"uid": "c", "labels": {"old": "x"}, "spec": {"size": 1}, "status": {"phase": "Up"}}));
    check(
        &rules(),
        &Some(original()),
        &Some(copy),
        &format!(
            "update c: /metadata/annotations={} /metadata/labels/a=\"1\" | nothing (OtherOriginal)",
            json!({names::LEDGER: r#"{"uid":"u","labels":["a"],"annotations":["n"]}"#, "n": "1"})
        ),
    );
}

#[test]
fn numbers_are_equal_however_they_are_spelt() {
    let original = object(json!({"spec": {"ratio": 1.0, "big": 9007199254740993u64}}));
    let copy = copy_of(&rules(), &original, json!({"spec": {"ratio": 1, "big": 9007199254740993u64}}));
    check(&rules(), &Some(original), &Some(copy), "nothing (Agreed) | nothing (NoStatus)");
}

#[test]
fn the_end_of_an_original_is_the_end_of_its_copy() {
    let copy = Some(copy_of(&rules(), &original(), json!({})));
    check(&rules(), &None, &copy, "delete c (OriginalAbsent) | nothing (Absent)");
    let going = Some(Object { terminating: true, ..original() });
    check(&rules(), &going, &copy, "delete c (OriginalTerminating) | nothing (NoStatus)");
    check(&rules(), &going, &None, "nothing (OriginalTerminating) | nothing (Absent)");
    let dying = Some(copy_of(&rules(), &original(), json!({"terminating": true})));
    check(&rules(), &None, &dying, "nothing (CopyTerminating) | nothing (Absent)");
    // Made beside the sync, by whoever: without a filter the downstream side has only copies.
    check(
        &rules(),
        &None,
        &Some(object(json!({"uid": "x"}))),
        "delete x (OriginalAbsent) | nothing (Absent)",
    );
}

#[test]
fn nothing_happens_while_one_side_is_unknown() {
    let (original, copy) = (original(), copy_of(&rules(), &original(), json!({"status": {"a": 1}})));
    for (up, down) in [
        (Seen::Unknown, Seen::Known(&copy)),
        (Seen::Known(&original), Seen::Unknown),
        (Seen::Unknown, Seen::Absent),
        (Seen::Absent, Seen::Unknown),
        (Seen::Unknown, Seen::Unknown),
    ] {
        let plan = plan(&rules(), up, down, Known::default());
        assert_eq!(shown(&plan), "nothing (Unknown) | nothing (Unknown)");
    }
}

#[test]
fn with_a_filter_only_what_carries_the_robots_name_counts() {
    let label = |name: &str| json!({"labels": {names::ROBOT: name}, "spec": {}});
    let (own, other, none) = (object(label("r1")), object(label("r2")), object(json!({"spec": {}})));
    let plan =
        |original: &Object| shown(&plan(&filtered(), Seen::Known(original), Seen::Absent, Known::default()));
    assert_eq!(plan(&own), "create | nothing (Absent)");
    assert_eq!(plan(&other), "nothing (Foreign) | nothing (Absent)");
    assert_eq!(plan(&none), "nothing (Foreign) | nothing (Absent)");
    check(&filtered(), &None, &Some(none), "nothing (Foreign) | nothing (Absent)");
    check(&filtered(), &None, &Some(other.clone()), "nothing (Foreign) | nothing (Absent)");
    check(&filtered(), &None, &Some(own.clone()), "delete u (OriginalAbsent) | nothing (Absent)");
    // Handed over to another robot.
    check(&filtered(), &Some(other), &Some(own), "delete u (NotOurs) | nothing (Foreign)");
}

#[test]
fn a_stripped_label_is_healed_but_a_local_object_of_that_name_is_left_alone() {
    let original = object(json!({"labels": {names::ROBOT: "r1"}, "spec": {"size": 1}}));
    let stripped = copy_of(&filtered(), &original, json!({"labels": {}}));
    let label = format!("/metadata/labels={}", json!({names::ROBOT: "r1"}));
    check(
        &filtered(),
        &Some(original.clone()),
        &Some(stripped),
        &format!("update c: {label} | nothing (NoStatus)"),
    );
    let local = object(json!({"uid": "l", "spec": {"size": 9}, "status": {"phase": "Local"}}));
    check(&filtered(), &Some(original), &Some(local), "nothing (NameTaken) | nothing (Foreign)");
}

#[test]
fn a_dying_copy_gets_nothing_and_an_earlier_ones_status_stays_below() {
    let first = original();
    let second = Object { uid: "u2".into(), ..original() };
    let dying = Some(copy_of(&rules(), &first, json!({"terminating": true, "status": {"phase": "Old"}})));
    check(&rules(), &Some(second.clone()), &dying, "nothing (CopyTerminating) | nothing (OtherOriginal)");
    // The same original still hears of its copy's end.
    check(
        &rules(),
        &Some(first.clone()),
        &dying,
        "nothing (CopyTerminating) | status u: /status={\"phase\":\"Old\"}",
    );
    // Deleted and made again while nobody looked: the copy goes on as the new one's.
    let alive = Some(copy_of(&rules(), &first, json!({"status": {"phase": "Old"}})));
    check(&rules(), &Some(second), &alive, "update c: ledger | nothing (OtherOriginal)");
}

/// The status that goes up, given both sides' present ones.
#[track_caller]
fn status(rules: &Rules, above: Value, below: Value, expected: &str) {
    let part = |mut from: Value, status: &Value| {
        if !status.is_null() {
            from["status"] = status.clone();
        }
        from
    };
    let original = object(part(json!({"generation": 5, "spec": {"size": 1}}), &above));
    let copy = copy_of(rules, &original, part(json!({"generation": 3}), &below));
    check(rules, &Some(original), &Some(copy), &format!("nothing (Agreed) | {expected}"));
}

#[test]
fn status_goes_up_as_it_is() {
    status(&rules(), json!(null), json!({"a": 1}), "status u: /status={\"a\":1}");
    status(&rules(), json!({"a": 1}), json!({"a": 1}), "nothing (Agreed)");
    status(&rules(), json!({"a": 1, "b": 2}), json!({"a": 2}), "status u: /status/a=2 -/status/b");
    status(&rules(), json!({"a": 1}), json!({}), "status u: -/status/a");
    status(&rules(), json!(null), json!({}), "nothing (Agreed)");
    status(&rules(), json!({"a": 1}), json!(null), "nothing (NoStatus)");
    status(&rules(), json!({"a": 1}), json!("text"), "status u: /status=\"text\"");
    status(
        &rules(),
        json!(null),
        json!({"observedGeneration": 3}),
        "status u: /status={\"observedGeneration\":3}",
    );
}

#[test]
fn a_status_that_this_copy_took_back_is_taken_back_upstream() {
    let original = object(json!({"spec": {}, "status": {"a": 1}}));
    let copy = copy_of(&rules(), &original, json!({}));
    let known = Known { reported: true, ..Known::default() };
    check_knowing(&rules(), &Some(original), &Some(copy), known, "nothing (Agreed) | status u: -/status/a");
}

#[test]
fn of_a_subtree_only_the_subtree_goes_up() {
    let subtree = Rules { subtree: Some("robot".into()), ..rules() };
    let cloud = json!({"cloud": {"x": 1}});
    let both = json!({"cloud": {"x": 1}, "robot": {"y": 1}});
    status(&subtree, json!(null), json!({"robot": 1, "cloud": 9}), "status u: /status={\"robot\":1}");
    status(
        &subtree,
        cloud.clone(),
        json!({"robot": {"y": 1}, "cloud": 9}),
        "status u: /status/robot={\"y\":1}",
    );
    status(&subtree, both.clone(), json!({"robot": {"y": 1}}), "nothing (Agreed)");
    status(&subtree, both.clone(), json!({"other": 1}), "status u: -/status/robot");
    status(&subtree, both, json!(null), "nothing (NoStatus)");
    status(&subtree, cloud, json!({"other": 1}), "nothing (Agreed)");
    status(&subtree, json!(null), json!("text"), "nothing (Unfit(CopyHasNoSubtree))");
    status(&subtree, json!("text"), json!({"robot": 1}), "nothing (Unfit(OriginalHasNoSubtree))");
}

#[test]
fn translated_generations_mean_upstream_what_they_meant_downstream() {
    // The original is at 5, its copy at 3.
    let translate = Rules { observed: Observed::Translate, ..rules() };
    let at = |observed: i64| json!({"observedGeneration": observed});
    status(&translate, json!(null), at(3), "status u: /status={\"observedGeneration\":5}");
    status(&translate, at(5), at(3), "nothing (Agreed)");
    status(&translate, at(4), at(2), "nothing (Agreed)");
    status(&translate, at(5), at(2), "status u: /status/observedGeneration=0");
    status(&translate, json!(null), at(2), "status u: /status={\"observedGeneration\":0}");
    let odd = json!({"observedGeneration": "three"});
    status(&translate, odd.clone(), odd, "nothing (Agreed)");
    let conditions = |ready: i64, done: i64| json!({"conditions": [{"type": "Ready", "observedGeneration": ready}, {"type": "Done", "observedGeneration": done}]});
    status(
        &translate,
        conditions(4, 4),
        conditions(3, 2),
        "status u: /status/conditions/0/observedGeneration=5",
    );
    let subtree = Rules { subtree: Some("robot".into()), ..translate };
    status(
        &subtree,
        json!({"robot": at(4)}),
        json!({"robot": at(3)}),
        "status u: /status/robot/observedGeneration=5",
    );
}

#[test]
fn a_copy_of_an_older_spec_observed_no_current_generation() {
    let translate = Rules { observed: Observed::Translate, ..rules() };
    let original = object(json!({"generation": 5, "spec": {"size": 2}, "status": {"observedGeneration": 4}}));
    let behind = json!({"generation": 3, "spec": {"size": 1}, "status": {"observedGeneration": 3}});
    let copy = copy_of(&translate, &original, behind);
    check(
        &translate,
        &Some(original.clone()),
        &Some(copy.clone()),
        "update c: /spec/size=2 | nothing (Agreed)",
    );
    // Unless that is what the robot's server makes of it.
    let settled = Known { settled: true, ..Known::default() };
    check_knowing(
        &translate,
        &Some(original),
        &Some(copy),
        settled,
        "nothing (Agreed) | status u: /status/observedGeneration=5",
    );
}
