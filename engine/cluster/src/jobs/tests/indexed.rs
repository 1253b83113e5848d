//! Indexed Jobs: which indexes are run, and how often each may fail.

use serde_json::{Value, json};

use super::world::World;
use crate::jobs::plan::Change;

fn job(parallelism: i32, completions: i32, pods: &str) -> World {
    let spec = json!({"completionMode": "Indexed", "parallelism": parallelism, "completions": completions});
    World::new(spec, pods)
}

#[test]
fn every_index_has_one_pod() {
    job(2, 5, "").check("create 2 0,1; 2/0/0 0/0");
    job(4, 5, "S:1 R:2 F:0").check("create 3 0,3,4; 4/0/0 1/1; free p2,p0; [1|]");
    job(2, 5, "T:1").job("/spec/podReplacementPolicy", json!("Failed")).check("create 1 0; 1/0/1 0/0");
    job(2, 5, "T:1").check("create 2 0,1; 2/0/1 0/1; free p0");
    // Without an index, of one that there is not, or of one that is taken: they go.
    job(2, 5, "R R:0 R:7 P:1 r:1").check("delete p0,p2,p3; 2/1/3 0/0");
    // What succeeded is not run again.
    job(2, 5, "R:1").job("/status/completedIndexes", json!("0,3")).check("create 1 2; 2/0/0 2/0; [0,3|]");
    job(2, 4, "")
        .job("/status/completedIndexes", json!("0-3,7"))
        .check("-; 0/0/0 4/0; [0-3|]; SuccessCriteriaMet:CompletionsReached; Complete:CompletionsReached");
}

#[test]
fn a_job_is_complete_when_every_index_has_succeeded() {
    let complete = "SuccessCriteriaMet:CompletionsReached; Complete:CompletionsReached";
    job(2, 3, "S:0 F:1 S:1 S:2").check(&format!("-; 0/0/0 3/1; free p0,p1,p2,p3; [0-2|]; {complete}"));
    job(2, 3, "S:0 S:0 S:1").check("create 1 2; 1/0/0 2/0; free p0,p1,p2; [0,1|]");
    job(2, 3, "S:0 F:1 R:2")
        .job("/spec/backoffLimit", json!(0))
        .check("end p2; 0/0/1 1/2; free p0,p1,p2; [0|]; FailureTarget:BackoffLimitExceeded");
    // An end of a pod without an index of the Job counts nothing.
    job(2, 3, "S F:9").check("create 2 0,1; 2/0/0 0/0; free p0,p1");
}

#[test]
fn each_index_may_fail_so_often() {
    let limited = |limit: i32, pods: &str| {
        let spec = job(2, 3, pods).job("/spec/backoffLimitPerIndex", json!(limit));
        spec.job("/spec/backoffLimit", json!(i32::MAX))
    };
    limited(1, "").check("create 2 0,1; 2/0/0 0/0; [|]");
    // It stays until the next pod carries on its count.
    limited(1, "F:0*0 R:1").check("create 1 0; 2/0/0 0/0; [|]");
    limited(1, "F:0*0 R:0*1 R:1").check("-; 2/0/0 0/1; free p0; [|]");
    limited(1, "F:0*1 R:1").check("create 1 2; 2/0/0 0/1; free p0; [|0]");
    let (change, ..) = limited(3, "F:0*1 R:1").look();
    let Change::Create(pods) = change else { panic!("{change:?}") };
    assert_eq!(pods[0].metadata.annotations.as_ref().unwrap()[crate::jobs::facts::FAILURES], "2");
    // The next attempt comes later each time, and other indexes need not wait for it.
    let just = |pod: &mut Value| {
        pod["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T11:59:55Z");
    };
    limited(3, "R:1 F:0*1").last(just).job("/spec/completions", json!(2)).check("-; 1/0/0 0/0; [|]; 15s");
    limited(3, "R:1 S:2 F:0*1").last(just).check("-; 1/0/0 1/0; free p1; [2|]; 15s");
    let failed = "FailureTarget:FailedIndexes; Failed:FailedIndexes";
    limited(0, "F:0 S:1 S:2").check(&format!("end; 0/0/0 2/1; free p0,p1,p2; [1,2|0]; {failed}"));
    limited(0, "F:0 F:1 R:2")
        .job("/spec/maxFailedIndexes", json!(1))
        .check("end p2; 0/0/1 0/3; free p0,p1,p2; [|0,1]; FailureTarget:MaxFailedIndexesExceeded");
    limited(0, "F:0 R:2")
        .job("/spec/maxFailedIndexes", json!(1))
        .check("create 1 1; 2/0/0 0/1; free p0; [|0]");
}

#[test]
fn a_pod_knows_its_index() {
    let (change, ..) = job(2, 5, "R:0").look();
    let Change::Create(pods) = change else { panic!("{change:?}") };
    let pod = serde_json::to_value(&pods[0]).unwrap();
    assert_eq!(pod["metadata"]["generateName"], "pi-1-");
    assert_eq!(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"], "1");
    assert_eq!(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"], "1");
    assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "Job");
    assert_eq!(pod["spec"]["hostname"], "pi-1");
    let variable = &pod["spec"]["containers"][0]["env"][0];
    assert_eq!(variable["name"], "JOB_COMPLETION_INDEX");
    let path = "metadata.labels['batch.kubernetes.io/job-completion-index']";
    assert_eq!(variable["valueFrom"]["fieldRef"]["fieldPath"], path);
}
