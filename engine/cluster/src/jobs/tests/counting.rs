//! Jobs without indexes: how many pods, when they end, and how that is counted.

use serde_json::{Value, json};

use super::world::{World, now};
use crate::jobs::backoff::Backoff;

fn job(parallelism: i32, completions: i32, pods: &str) -> World {
    World::new(json!({"parallelism": parallelism, "completions": completions}), pods)
}

/// A Job that is complete as soon as one pod has succeeded.
fn queue(parallelism: i32, pods: &str) -> World {
    World::new(json!({"parallelism": parallelism}), pods)
}

#[test]
fn there_are_as_many_pods_as_are_needed() {
    job(2, 5, "").check("create 2; 2/0/0 0/0");
    queue(2, "").check("create 2; 2/0/0 0/0");
    job(2, 5, "2P").check("-; 2/0/0 0/0");
    job(3, 5, "R 2r").check("-; 3/2/0 0/0");
    queue(2, "2R").check("-; 2/0/0 0/0");
    queue(2, "R").check("create 1; 2/0/0 0/0");
    job(2, 5, "R S").check("create 1; 2/0/0 1/0; free p1");
    job(2, 5, "2R 2S").check("-; 2/0/0 2/0; free p2,p3");
    job(600, 900, "").check("create 500; 500/0/0 0/0");
    job(0, 5, "").check("-; 0/0/0 0/0");
    // Who is least advanced goes.
    job(2, 5, "3R").check("delete p0; 2/0/1 0/0");
    job(2, 5, "r P r").check("delete p1; 2/2/1 0/0");
    job(2, 5, "3r").check("delete p0; 2/2/1 0/0");
    job(3, 4, "3R 2S").check("delete p0; 2/0/1 2/0; free p3,p4");
}

#[test]
fn a_failed_pod_is_replaced_after_a_pause() {
    job(2, 5, "R F").check("create 1; 2/0/0 0/1; free p1");
    job(2, 5, "R S F").check("create 1; 2/0/0 1/1; free p1,p2");
    let failed_now = |failures| Backoff { failures, last: Some(now()) };
    let paused = |failures, pods| World { backoff: failed_now(failures), ..job(2, 2, pods) };
    paused(1, "").check("-; 0/0/0 0/0; 10s");
    paused(1, "r").check("-; 1/1/0 0/0; 10s");
    paused(3, "r").check("-; 1/1/0 0/0; 40s");
    paused(0, "").check("create 2; 2/0/0 0/0");
    // A success since lets the next begin at once.
    paused(3, "S")
        .last(|pod| pod["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T12:00:00Z"))
        .check("create 1; 1/0/0 1/0; free p0");
    // Who fails just now is waited for.
    job(1, 1, "F")
        .last(|pod| pod["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T11:59:55Z"))
        .check("-; 0/0/0 0/1; free p0; 5s");
}

#[test]
fn pods_on_their_way_out_count_as_failed_or_are_waited_for() {
    let with = |policy: &str, parallelism: i32, pods: &str| {
        queue(parallelism, pods).job("/spec/podReplacementPolicy", json!(policy))
    };
    with("Failed", 1, "R F T").check("-; 1/0/1 0/1; free p1");
    with("TerminatingOrFailed", 1, "R F T").check("-; 1/0/1 0/2; free p1,p2");
    with("TerminatingOrFailed", 1, "T").check("create 1; 1/0/1 0/1; free p0");
    with("Failed", 1, "T").check("-; 0/0/1 0/0");
    job(1, 1, "2R 4T").job("/spec/podReplacementPolicy", json!("Failed")).check("delete p0; 1/0/5 0/0");
    job(1, 1, "2R 4T").job("/spec/podFailurePolicy", json!({"rules": []})).check("delete p0; 1/0/5 0/0");
}

#[test]
fn a_job_is_complete_when_enough_have_succeeded() {
    let complete = "SuccessCriteriaMet:CompletionsReached; Complete:CompletionsReached";
    job(2, 5, "5S").check(&format!("-; 0/0/0 5/0; free p0,p1,p2,p3,p4; {complete}"));
    queue(2, "R S").check("-; 1/0/0 1/0; free p1");
    queue(2, "2S").check(&format!("-; 0/0/0 2/0; free p0,p1; {complete}"));
    queue(2, "S F").check(&format!("-; 0/0/0 1/1; free p0,p1; {complete}"));
    job(2, 0, "").check(&format!("-; 0/0/0 0/0; {complete}"));
    // Not while one is still on its way out.
    job(2, 1, "S T").check("-; 0/0/1 1/1; free p0,p1; SuccessCriteriaMet:CompletionsReached");
    let (_, tracking, _) = job(2, 1, "2S").look();
    let told: Vec<&str> = tracking.news.iter().map(|news| news.reason.as_str()).collect();
    assert_eq!(told, ["TooManySucceededPods", "Completed"]);
}

#[test]
fn a_job_fails_at_its_limits() {
    let limit = |limit: i32, pods: &str| job(2, 5, pods).job("/spec/backoffLimit", json!(limit));
    limit(0, "F")
        .check("end; 0/0/0 0/1; free p0; FailureTarget:BackoffLimitExceeded; Failed:BackoffLimitExceeded");
    limit(1, "F R").check("create 1; 2/0/0 0/1; free p0");
    // Those that run are told to end first, and count as failed.
    limit(0, "F r").check("end p1; 0/0/1 0/2; free p0,p1; FailureTarget:BackoffLimitExceeded");
    let told = json!([{"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}]);
    let failing = |pods: &str| limit(0, pods).job("/status/conditions", told.clone());
    failing("T").check("end; 0/0/1 0/1; free p0; FailureTarget:BackoffLimitExceeded");
    failing("").check("end; 0/0/0 0/0; FailureTarget:BackoffLimitExceeded; Failed:BackoffLimitExceeded");
    let restarts = |limit: i32, count: i32| {
        let again = |pod: &mut Value| {
            pod["status"]["containerStatuses"] =
                json!([{"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": count}]);
        };
        let world = job(1, 1, "R").job("/spec/backoffLimit", json!(limit)).last(again);
        world.job("/spec/template/spec/restartPolicy", json!("OnFailure"))
    };
    restarts(0, 0).check("-; 1/0/0 0/0");
    restarts(0, 1).check("end p0; 0/0/1 0/1; free p0; FailureTarget:BackoffLimitExceeded");
    restarts(3, 2).check("-; 1/0/0 0/0");
    restarts(3, 3).check("end p0; 0/0/1 0/1; free p0; FailureTarget:BackoffLimitExceeded");
    let deadline = |began: &str, pods: &str| {
        let world = job(1, 2, pods).job("/spec/activeDeadlineSeconds", json!(60));
        world.job("/status/startTime", json!(began))
    };
    deadline("2026-01-01T11:59:20Z", "R").check("-; 1/0/0 0/0; 20s");
    deadline("2026-01-01T11:59:00Z", "R S")
        .check("end p0; 0/0/1 1/1; free p0,p1; FailureTarget:DeadlineExceeded");
    deadline("2026-01-01T11:00:00Z", "S")
        .check("end; 0/0/0 1/0; free p0; FailureTarget:DeadlineExceeded; Failed:DeadlineExceeded");
}

#[test]
fn a_suspended_job_has_no_pods_and_begins_anew() {
    let suspended = |suspend: bool, pods: &str| job(2, 4, pods).job("/spec/suspend", json!(suspend));
    suspended(true, "R r").check("delete p0,p1; 0/0/2 0/0; Suspended:JobSuspended");
    suspended(true, "").check("-; 0/0/0 0/0; Suspended:JobSuspended");
    let told = json!([{"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}]);
    let resumed = suspended(false, "").job("/status/conditions", told);
    let (_, tracking, _) = resumed.look();
    assert_eq!(tracking.status.start_time.as_ref().unwrap().0, now());
    assert_eq!(tracking.news[0].reason, "Resumed");
    resumed.check("create 2; 2/0/0 0/0; not Suspended:JobResumed");
    let (_, tracking, _) =
        suspended(true, "R").job("/status/startTime", json!("2026-01-01T11:00:00Z")).look();
    assert_eq!(tracking.status.start_time, None);
    // One that goes does nothing but let its pods go.
    let gone = json!("2026-01-01T11:00:00Z");
    suspended(true, "2R").job("/metadata/deletionTimestamp", gone.clone()).check("-; 2/0/0 0/0; free p0,p1");
    job(2, 5, "P R S").job("/metadata/deletionTimestamp", gone).check("-; 2/0/0 1/0; free p0,p1,p2");
}

#[test]
fn every_pod_is_counted_once() {
    let uncounted = |uncounted: Value, pods: &str| {
        let status = json!({"succeeded": 2, "failed": 1, "uncountedTerminatedPods": uncounted});
        job(2, 9, pods).job("/status", status)
    };
    // Noted, but still held; noted and let go; let go without a note.
    uncounted(json!({"succeeded": ["p0"], "failed": ["p1"]}), "S F").check("create 2; 2/0/0 3/2; free p0,p1");
    uncounted(json!({"succeeded": ["p0"], "failed": ["x"]}), "X").check("create 2; 2/0/0 3/2");
    uncounted(json!({}), "X X").check("create 2; 2/0/0 2/1");
    // As long as pods cannot be let go they stay noted.
    let (_, tracking, _) = World { broken: true, ..uncounted(json!({}), "S F") }.look();
    let noted = tracking.status.uncounted_terminated_pods.unwrap();
    assert_eq!((noted.succeeded.unwrap(), noted.failed.unwrap()), (vec!["p0".into()], vec!["p1".into()]));
    assert_eq!((tracking.status.succeeded, tracking.status.failed), (Some(2), Some(1)));
    // A Job is not over before all are let go.
    World { broken: true, ..job(2, 1, "S") }
        .check("-; 0/0/0 0/0; free p0; SuccessCriteriaMet:CompletionsReached");
    // No more than 500 at a time.
    let (_, tracking, _) = job(2, 700, "600S").look();
    assert_eq!((tracking.release.len(), tracking.status.succeeded), (500, Some(500)));
}

#[test]
fn what_could_not_be_done_is_not_told_as_done() {
    World { broken: true, ..job(2, 5, "R") }.check("create 1; 1/0/0 0/0");
    World { broken: true, ..job(2, 5, "3R") }.check("delete p0; 3/0/0 0/0");
    // A pod that could not be told to end keeps the Job from its verdict.
    World { broken: true, ..job(2, 5, "F R").job("/spec/backoffLimit", json!(0)) }
        .check("end p1; 1/0/0 0/0; free p0");
}
