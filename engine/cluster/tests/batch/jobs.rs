//! Jobs from their begin to their end.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::*;
use crate::site::answer_of;

/// Longer than any pause between two attempts.
const QUIET: Duration = Duration::from_secs(100);

/// What the controller of Jobs wrote, but for events.
fn writes(cluster: &Cluster) -> usize {
    cluster.writes_to("jobs").len() + cluster.writes_to("pods").len()
}

async fn rest(cluster: &Cluster) {
    let before = writes(cluster);
    tokio::time::sleep(QUIET).await;
    assert_eq!(writes(cluster), before, "it does not come to rest: {:#?}", cluster.writes_to("jobs"));
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_to_its_end() {
    let cluster = Cluster::running().await;
    let wanted = json!({"parallelism": 2, "completions": 3});
    cluster.create(JOBS, job("pi", spec("complete-after", "5s", wanted))).await;
    let path = format!("{JOBS}/pi");
    let running = cluster.until_is(&path, |job| job["status"]["ready"] == 2).await;
    assert_eq!((&running["status"]["active"], &running["status"]["terminating"]), (&json!(2), &json!(0)));
    let job = cluster.until_over("pi").await;
    let status = &job["status"];
    assert_eq!(status["succeeded"], 3);
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    assert_eq!(conditions(&job), ["SuccessCriteriaMet", "Complete"]);
    assert!(status["completionTime"].is_string() && status["active"].is_null(), "{status:#}");
    let pods = cluster.pods_of("pi").await;
    assert_eq!(pods.len(), 3);
    assert!(pods.iter().all(|pod| pod["metadata"]["finalizers"].is_null()), "{pods:#?}");
    rest(&cluster).await;
    let created = vec!["SuccessfulCreate"; 3];
    assert_eq!(cluster.told("pi").await, [created, vec!["Completed"]].concat());
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_pods_fail_waits_longer_each_time_and_gives_up() {
    let cluster = Cluster::running().await;
    let began = Instant::now();
    cluster.create(JOBS, job("bad", spec("fail-after", "1s", json!({"backoffLimit": 3})))).await;
    let job = cluster.until_over("bad").await;
    assert_eq!(conditions(&job), ["FailureTarget", "Failed"]);
    assert_eq!(job["status"]["failed"], 4);
    assert_eq!(job["status"]["conditions"][1]["reason"], "BackoffLimitExceeded");
    // Pauses of 10, 20 and 40 seconds, and four times what a pod takes.
    let took = began.elapsed().as_secs();
    assert!((70..100).contains(&took), "it took {took} s");
    rest(&cluster).await;
    assert_eq!(cluster.told("bad").await.last().unwrap(), "BackoffLimitExceeded");
}

#[tokio::test(start_paused = true)]
async fn every_index_of_an_indexed_job_succeeds_once() {
    let cluster = Cluster::running().await;
    let wanted =
        json!({"completionMode": "Indexed", "parallelism": 3, "completions": 5, "backoffLimitPerIndex": 1});
    cluster.create(JOBS, job("each", spec("complete-after", "2s", wanted))).await;
    let job = cluster.until_over("each").await;
    assert_eq!(
        (&job["status"]["completedIndexes"], &job["status"]["failedIndexes"]),
        (&json!("0-4"), &json!(""))
    );
    let mut hosts: Vec<String> = Vec::new();
    for pod in cluster.pods_of("each").await {
        hosts.push(pod["spec"]["hostname"].as_str().unwrap().to_owned());
    }
    hosts.sort();
    assert_eq!(hosts, ["each-0", "each-1", "each-2", "each-3", "each-4"]);
}

#[tokio::test(start_paused = true)]
async fn an_index_that_fails_too_often_leaves_the_others_alone() {
    let cluster = Cluster::running().await;
    let wanted =
        json!({"completionMode": "Indexed", "parallelism": 2, "completions": 2, "backoffLimitPerIndex": 1});
    cluster.create(JOBS, job("some", spec("fail-after", "1s", wanted))).await;
    let job = cluster.until_over("some").await;
    assert_eq!(job["status"]["failedIndexes"], "0,1");
    assert_eq!(job["status"]["failed"], 4);
    assert_eq!(job["status"]["conditions"][0]["reason"], "FailedIndexes");
    rest(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_is_suspended_resumed_and_ended_by_its_deadline() {
    let cluster = Cluster::running().await;
    let path = format!("{JOBS}/long");
    let wanted = json!({"parallelism": 2, "activeDeadlineSeconds": 60});
    cluster.create(JOBS, job("long", spec("complete-after", "1h", wanted))).await;
    cluster.until_is(&path, |job| job["status"]["ready"] == 2).await;
    cluster.patch(&path, json!({"spec": {"suspend": true}})).await;
    let suspended =
        cluster.until_is(&path, |job| is(job, "Suspended") && job["status"]["terminating"] == 0).await;
    assert!(suspended["status"]["startTime"].is_null() && suspended["status"]["active"].is_null());
    assert!(cluster.pods_of("long").await.is_empty());
    rest(&cluster).await;
    cluster.patch(&path, json!({"spec": {"suspend": false}})).await;
    let job = cluster.until_over("long").await;
    assert_eq!(job["status"]["conditions"].as_array().unwrap().last().unwrap()["reason"], "DeadlineExceeded");
    assert_eq!(job["status"]["failed"], 2);
    assert!(cluster.pods_of("long").await.is_empty());
    let told = cluster.told("long").await;
    assert!(told.contains(&"Suspended".into()) && told.contains(&"Resumed".into()), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn pods_are_adopted_held_and_let_go() {
    let cluster = Cluster::running().await;
    let path = format!("{JOBS}/own");
    let job = cluster.create(JOBS, job("own", spec("complete-after", "1h", json!({})))).await;
    cluster.until_is(&path, |job| job["status"]["ready"] == 1).await;
    let name = cluster.pods_of("own").await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let pod = format!("{PODS}/{name}");
    let uid = "batch.kubernetes.io/controller-uid";
    let labels = |value: Value| json!({"metadata": {"labels": {uid: value}}});
    // One that no longer matches is let go, and another made in its place.
    cluster.patch(&pod, labels(json!("other"))).await;
    let free = cluster.until_is(&pod, |pod| pod["metadata"]["ownerReferences"].is_null()).await;
    assert!(free["metadata"]["finalizers"].is_null(), "{free:#}");
    cluster.until_is(PODS, |pods| pods["items"].as_array().unwrap().len() == 2).await;
    // One that matches again is taken and held; of two, one is too many.
    cluster.patch(&pod, labels(job["metadata"]["uid"].clone())).await;
    cluster
        .until_is(PODS, |pods| {
            let pods = pods["items"].as_array().unwrap();
            pods.len() == 1
                && pods[0]["metadata"]["finalizers"] == json!(["batch.kubernetes.io/job-tracking"])
        })
        .await;
    cluster.until_is(&path, |job| job["status"]["ready"] == 1 && job["status"]["terminating"] == 0).await;
    rest(&cluster).await;
    // Without the Job nothing holds its pods.
    cluster.remove(&path, Some(&json!({"propagationPolicy": "Orphan"}))).await;
    cluster.until_gone(&path).await;
    cluster.until_is(PODS, |pods| pods["items"][0]["metadata"]["finalizers"].is_null()).await;
    assert_eq!(cluster.list(PODS).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_of_another_controller_is_left_alone() {
    let cluster = Cluster::running().await;
    let wanted = json!({"managedBy": "example.com/other"});
    cluster.create(JOBS, job("theirs", spec("complete-after", "1s", wanted))).await;
    tokio::time::sleep(QUIET).await;
    assert!(cluster.pods_of("theirs").await.is_empty());
    assert_eq!(cluster.get(&format!("{JOBS}/theirs")).await.unwrap()["status"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_goes_with_its_pods_when_its_time_is_over() {
    let cluster = Cluster::running().await;
    let wanted = json!({"ttlSecondsAfterFinished": 30});
    cluster.create(JOBS, job("brief", spec("complete-after", "1s", wanted))).await;
    cluster.until_over("brief").await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert!(cluster.get(&format!("{JOBS}/brief")).await.is_some());
    cluster.until_gone(&format!("{JOBS}/brief")).await;
    assert!(cluster.pods_of("brief").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_pod_counts_once_whatever_answers_are_lost() {
    let mut cluster = Cluster::running().await;
    cluster.lose_answers(3);
    let wanted = json!({"parallelism": 4, "completions": 20});
    cluster.create(JOBS, job("storm", spec("complete-after", "3s", wanted))).await;
    let path = format!("{JOBS}/storm");
    cluster.until_is(&path, |job| job["status"]["succeeded"].as_i64().unwrap_or(0) >= 5).await;
    cluster.heal();
    // Whoever comes after a crash, amid everything, counts on.
    cluster.stop().await;
    cluster.start();
    let refused = std::sync::atomic::AtomicUsize::new(0);
    cluster.fault(move |method, path| {
        let write = method != http::Method::GET && (path.contains("/pods") || path.ends_with("/status"));
        let number = if write { refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed) } else { 0 };
        (write && number % 5 == 0).then(|| answer_of(503))
    });
    cluster.until_is(&path, |job| job["status"]["succeeded"].as_i64().unwrap_or(0) >= 12).await;
    cluster.heal();
    let job = cluster.until_over("storm").await;
    assert_eq!((&job["status"]["succeeded"], &job["status"]["failed"]), (&json!(20), &Value::Null));
    assert_eq!(cluster.pods_of("storm").await.len(), 20);
}
