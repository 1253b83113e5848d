//! Decisions about CronJobs, without a server. Cases and their outcomes are those of upstream's table tests.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use serde_json::{Value, json};

use super::plan::{self, Step};
use super::times::{Deadline, Missed, recent, until_next};

/// The tenth hour of a Thursday.
fn top() -> Timestamp {
    "2016-05-19T10:00:00Z".parse().unwrap()
}

fn after(minutes: i64) -> Timestamp {
    top() + SignedDuration::from_mins(minutes)
}

/// A CronJob that was made at ten.
fn cron(spec: Value, last: Option<i64>) -> CronJob {
    let mut all = json!({"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": {}}}});
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    let last = last.map(|minutes| after(minutes).to_string());
    let metadata = json!({"name": "tick", "namespace": "default", "uid": "tick", "creationTimestamp": top().to_string()});
    serde_json::from_value(json!({"metadata": metadata, "spec": all, "status": {"lastScheduleTime": last}}))
        .unwrap()
}

#[test]
fn the_last_time_up_to_now_is_found() {
    let check = |spec: Value, last: Option<i64>, now: i64, deadline, time: Option<i64>, missed| {
        let cron = cron(spec, last);
        let schedule = plan::schedule(&cron.spec).unwrap();
        let found = recent(&cron, after(now), &schedule, deadline).unwrap();
        assert_eq!((found.time, found.missed), (time.map(after), missed), "{:?}", cron.spec.schedule);
        found.since
    };
    let (counts, ignored) = (Deadline::Counts, Deadline::Ignored);
    let hourly = json!({});
    check(hourly.clone(), None, 1, ignored, None, Missed::None);
    check(hourly.clone(), None, 61, ignored, Some(60), Missed::None);
    check(hourly.clone(), None, 301, ignored, Some(300), Missed::Few);
    check(hourly.clone(), Some(0), 1, ignored, None, Missed::None);
    check(hourly, None, 101 * 60, ignored, Some(101 * 60), Missed::Many);
    let weekdays = json!({"schedule": "30 6-16/4 * * 1-5"});
    check(weekdays.clone(), Some(30), 24 * 60 + 31, ignored, Some(24 * 60 + 30), Missed::Few);
    check(weekdays.clone(), Some(30), 96 * 60 + 31, ignored, Some(96 * 60 + 30), Missed::Few);
    check(weekdays, None, 24 * 60 + 31, ignored, Some(24 * 60 + 30), Missed::Few);
    // The estimate from two times that are close leads past the last one: nothing is found, as in a stock cluster.
    let mornings = json!({"schedule": "30 10,11,12 * * 1-5"});
    check(mornings, Some(30), 30 * 60 + 30, ignored, None, Missed::Few);
    let every = json!({"schedule": "@every 1h", "startingDeadlineSeconds": 10});
    check(every, Some(1), 7 * 24 * 60, ignored, Some(6 * 24 * 60 + 23 * 60 + 1), Missed::Many);
    let fives = json!({"schedule": "*/5 * * * *", "startingDeadlineSeconds": 60});
    assert_eq!(check(fives.clone(), Some(30), 31, ignored, None, Missed::None), after(30));
    assert_eq!(check(fives, Some(30), 32, counts, None, Missed::None), after(31));
}

#[test]
fn a_schedule_without_times_is_told() {
    let never = cron(json!({"schedule": "59 23 31 2 *"}), None);
    let schedule = plan::schedule(&never.spec).unwrap();
    assert!(recent(&never, after(60), &schedule, Deadline::Ignored).is_err());
    assert_eq!(until_next(&never, after(60), &schedule), None);
    check(json!({"schedule": "59 23 31 2 *"}), None, &[], 60, "rest InvalidSchedule");
}

/// What is decided so many minutes after ten, while Jobs of these minutes run.
#[track_caller]
fn check(spec: Value, last: Option<i64>, active: &[i64], now: i64, expected: &str) {
    let cron = cron(spec, last);
    let mut status = cron.status.clone().unwrap();
    let name = |minutes: &i64| format!("tick-{}", after(*minutes).as_second() / 60);
    let active: Vec<Value> = active.iter().map(|at| json!({"name": name(at), "uid": name(at)})).collect();
    status.active = serde_json::from_value(json!(active)).unwrap();
    let (step, news) = plan::decide(after(now), &cron, &status);
    let mut told = vec![match step {
        Step::Rest => "rest".to_owned(),
        Step::Wait(pause) => format!("wait {}", pause.unwrap().as_millis()),
        Step::Start { time, replace } => {
            let minutes = time.duration_since(top()).as_mins();
            format!("start {minutes} replace {}", replace.len())
        }
    }];
    told.extend(news.iter().map(|news| news.reason.to_owned()));
    assert_eq!(told.join(" "), expected);
}

#[test]
fn a_job_begins_when_it_is_due() {
    let policy = |policy: &str| json!({"concurrencyPolicy": policy});
    for any in ["Allow", "Forbid", "Replace"] {
        check(policy(any), None, &[], 30, "wait 1800100");
        check(policy(any), None, &[], 60, "start 60 replace 0");
        check(policy(any), Some(60), &[], 90, "wait 1800100");
        check(policy(any), Some(60), &[60], 90, "wait 1800100");
        check(policy(any), Some(60), &[], 121, "start 120 replace 0");
    }
    check(policy("Allow"), Some(60), &[60], 121, "start 120 replace 0");
    check(policy("Forbid"), Some(60), &[60], 121, "wait 3540100 JobAlreadyActive");
    check(policy("Replace"), Some(60), &[60], 121, "start 120 replace 1");
    // It was begun, and only that could not be noted.
    check(policy("Allow"), Some(60), &[120], 121, "wait 3540100");
    check(json!({"suspend": true}), Some(60), &[], 121, "rest");
    check(json!({"schedule": "obvious error schedule"}), None, &[], 60, "rest UnparseableSchedule");
    check(json!({"timeZone": "bogus"}), None, &[], 60, "rest UnknownTimeZone");
    check(json!({"schedule": "TZ=UTC 0 * * * *"}), None, &[], 60, "start 60 replace 0 UnsupportedSchedule");
}

#[test]
fn a_job_that_is_too_late_does_not_begin() {
    let deadline = |seconds: i64| json!({"startingDeadlineSeconds": seconds});
    check(deadline(600), None, &[], 65, "start 60 replace 0");
    check(deadline(200), None, &[], 65, "wait 3300100");
    check(deadline(99_999_999), None, &[], 200 * 60, "start 12000 replace 0 TooManyMissedTimes");
    check(deadline(7200), None, &[], 200 * 60, "start 12000 replace 0");
    check(json!({}), None, &[], 200 * 60, "start 12000 replace 0 TooManyMissedTimes");
}

#[test]
fn a_job_has_one_name_for_its_time_and_says_when_it_was_due() {
    let check = |zone: Value, expected: &str| {
        let cron = cron(json!({"timeZone": zone}), None);
        let job = plan::job(&cron, &cron.spec, after(60));
        assert_eq!(job.metadata.name.as_deref(), Some("tick-24394260"));
        let at = &job.metadata.annotations.unwrap()["batch.kubernetes.io/cronjob-scheduled-timestamp"];
        assert_eq!(at, expected);
        assert_eq!(job.metadata.owner_references.unwrap()[0].kind, "CronJob");
    };
    check(Value::Null, "2016-05-19T11:00:00Z");
    check(json!("Asia/Tokyo"), "2016-05-19T20:00:00+09:00");
    check(json!("America/New_York"), "2016-05-19T07:00:00-04:00");
}

fn child(name: &str, started: Option<i64>, end: &str) -> Arc<Job> {
    let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": "tick", "controller": true});
    let conditions = if end.is_empty() { json!([]) } else { json!([{"type": end, "status": "True"}]) };
    let times = started.map(|minutes| after(minutes).to_string());
    let status = json!({"startTime": times, "completionTime": times, "conditions": conditions});
    let job = json!({"metadata": {"name": name, "uid": name, "namespace": "default", "ownerReferences": [owner]}, "status": status});
    Arc::new(serde_json::from_value(job).unwrap())
}

#[test]
fn the_oldest_of_the_history_go() {
    let jobs = [
        child("a", Some(4), "Complete"),
        child("b", Some(2), "Complete"),
        child("c", None, "Complete"),
        child("d", Some(1), "Failed"),
        child("e", Some(3), "Failed"),
        child("f", Some(0), ""),
    ];
    let check = |successful: Option<i32>, failed: Option<i32>, expected: &[&str]| {
        let limits = json!({"successfulJobsHistoryLimit": successful, "failedJobsHistoryLimit": failed});
        let gone = plan::outdated(&cron(limits, None).spec, &jobs);
        let names: Vec<_> = gone.iter().map(|job| job.metadata.name.as_deref().unwrap()).collect();
        assert_eq!(names, expected);
    };
    check(None, None, &[]);
    check(Some(3), Some(1), &["d"]);
    check(Some(1), Some(1), &["b", "a", "d"]);
    check(Some(0), Some(0), &["b", "a", "c", "d", "e"]);
}

#[test]
fn the_status_says_what_runs_and_what_succeeded_last() {
    let reference = |name: &str| json!({"name": name, "uid": name});
    let mut status: CronJobStatus =
        serde_json::from_value(json!({"active": [reference("a"), reference("b"), reference("lost")]}))
            .unwrap();
    let jobs = [
        child("a", Some(5), "Complete"),
        child("b", Some(6), ""),
        child("new", Some(7), ""),
        child("old", Some(1), "Complete"),
    ];
    let (news, missing) = plan::observe(&mut status, &jobs);
    let told: Vec<&str> = news.iter().map(|news| news.message.as_str()).collect();
    assert_eq!(
        told,
        [
            "Saw completed job: a, condition: Complete",
            "Saw a job that the controller did not create or forgot: new"
        ]
    );
    assert_eq!(status.last_successful_time.as_ref().unwrap().0, after(5));
    assert_eq!(missing.iter().map(|one| one.name.as_deref().unwrap()).collect::<Vec<_>>(), ["lost"]);
    assert_eq!(plan::lost(&mut status, &missing[0]).message, "Active job went missing: lost");
    let left: Vec<_> = status.active.unwrap().into_iter().map(|one| one.name.unwrap()).collect();
    assert_eq!(left, ["b"]);
}
