//! Pod failure policies and success policies.

use serde_json::{Value, json};

use super::world::{World, exits};
use crate::jobs::indexes::Indexes;
use crate::jobs::policy;

fn job(rules: Value, pods: &str) -> World {
    World::new(json!({"parallelism": 2, "completions": 2, "podFailurePolicy": {"rules": rules}}), pods)
}

fn on_exit(action: &str, operator: &str, codes: &[i32]) -> Value {
    json!({"action": action, "onExitCodes": {"operator": operator, "values": codes}})
}

fn disrupted(pod: &mut Value) {
    let condition = json!({"type": "DisruptionTarget", "status": "True"});
    pod["status"]["conditions"].as_array_mut().unwrap().push(condition);
}

#[test]
fn the_first_rule_that_is_met_decides() {
    let fails = on_exit("FailJob", "In", &[42]);
    let message = |world: World| {
        let (_, tracking, _) = world.look();
        tracking.news.last().map(|news| news.message.clone()).unwrap_or_default()
    };
    let failed = "FailureTarget:PodFailurePolicy; Failed:PodFailurePolicy";
    job(json!([fails]), "F").last(exits(42)).check(&format!("end; 0/0/0 0/1; free p0; {failed}"));
    assert_eq!(
        message(job(json!([fails]), "F").last(exits(42))),
        "Container main for pod default/p0 failed with exit code 42 matching FailJob rule at index 0"
    );
    job(json!([fails]), "F").last(exits(1)).check("create 2; 2/0/0 0/1; free p0");
    let ignores = on_exit("Ignore", "NotIn", &[1]);
    job(json!([ignores, fails]), "F").last(exits(42)).check("create 2; 2/0/0 0/0; free p0");
    job(json!([fails, ignores]), "F").last(exits(42)).check(&format!("end; 0/0/0 0/1; free p0; {failed}"));
    job(json!([on_exit("Count", "In", &[42]), fails]), "F")
        .last(exits(42))
        .check("create 2; 2/0/0 0/1; free p0");
    // An exit with 0 is no failure of a container.
    job(json!([on_exit("FailJob", "NotIn", &[1])]), "F").last(exits(0)).check("create 2; 2/0/0 0/1; free p0");
    let mut other = fails;
    other["onExitCodes"]["containerName"] = json!("other");
    job(json!([other]), "F").last(exits(42)).check("create 2; 2/0/0 0/1; free p0");
    let condition = |action: &str| json!([{"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
    job(condition("Ignore"), "F").last(disrupted).check("create 2; 2/0/0 0/0; free p0");
    job(condition("Ignore"), "F").check("create 2; 2/0/0 0/1; free p0");
    assert_eq!(
        message(job(condition("FailJob"), "F").last(disrupted)),
        "Pod default/p0 has condition DisruptionTarget matching FailJob rule at index 0"
    );
    // A pod that was told to end has not failed yet.
    job(condition("FailJob"), "R T").last(disrupted).check("-; 1/0/1 0/0");
}

#[test]
fn a_rule_can_fail_one_index() {
    let world = |code: i32| {
        let world = job(json!([on_exit("FailIndex", "In", &[42])]), "R:1 F:0").last(exits(code));
        let world = world.job("/spec/completionMode", json!("Indexed"));
        world.job("/spec/backoffLimitPerIndex", json!(5)).job("/spec/completions", json!(3))
    };
    world(42).check("create 1 2; 2/0/0 0/1; free p1; [|0]");
    world(1).check("create 1 0; 2/0/0 0/0; [|]");
}

#[test]
fn a_success_policy_ends_a_job_early() {
    let check = |rules: Value, succeeded: &str, expected: Option<&str>| {
        let spec = json!({"completionMode": "Indexed", "completions": 10, "successPolicy": {"rules": rules}, "template": {}});
        let spec = serde_json::from_value(spec).unwrap();
        assert_eq!(policy::success(&spec, &Indexes::parse(succeeded, 10)).as_deref(), expected, "{rules}");
    };
    check(json!([{"succeededIndexes": "0-2"}]), "0,1", None);
    check(json!([{"succeededIndexes": "0-2"}]), "0-2,5", Some("Matched rules at index 0"));
    check(json!([{"succeededIndexes": "0-2", "succeededCount": 2}]), "1,2", Some("Matched rules at index 0"));
    check(json!([{"succeededIndexes": "0-2", "succeededCount": 2}]), "1,5,6", None);
    check(json!([{"succeededCount": 3}]), "1,5", None);
    check(json!([{"succeededCount": 3}]), "1,5,7", Some("Matched rules at index 0"));
    check(json!([{"succeededIndexes": "9"}, {"succeededCount": 1}]), "4", Some("Matched rules at index 1"));
    check(json!([{"succeededIndexes": "x"}, {"succeededIndexes": "12-15"}]), "4", None);
    check(json!([{"succeededCount": 1}]), "", None);
    let world = |pods: &str| {
        let world =
            World::new(json!({"completionMode": "Indexed", "parallelism": 3, "completions": 3}), pods);
        world.job("/spec/successPolicy", json!({"rules": [{"succeededIndexes": "0"}]}))
    };
    // Those that still run are told to end, and count neither way.
    world("S:0 R:1 R:2").check("end p1,p2; 0/0/2 1/0; free p0,p1,p2; [0|]; SuccessCriteriaMet:SuccessPolicy");
    let met =
        json!([{"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy", "message": "m"}]);
    world("")
        .job("/status", json!({"conditions": met, "completedIndexes": "0", "succeeded": 1}))
        .check("end; 0/0/0 1/0; [0|]; SuccessCriteriaMet:SuccessPolicy; Complete:SuccessPolicy");
    // A verdict that stands is not changed by a later failure.
    let told =
        world("F:1").job("/status", json!({"conditions": met, "completedIndexes": "0", "succeeded": 1}));
    told.job("/spec/backoffLimit", json!(0))
        .check("end; 0/0/0 1/1; free p0; [0|]; SuccessCriteriaMet:SuccessPolicy; Complete:SuccessPolicy");
}
