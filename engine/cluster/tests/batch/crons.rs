//! CronJobs by the clock of the cluster.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::*;

fn cron(name: &str, takes: &str, extra: Value) -> Value {
    let mut spec =
        json!({"schedule": "* * * * *", "jobTemplate": {"spec": spec("complete-after", takes, json!({}))}});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

fn active(cron: &Value) -> usize {
    cron["status"]["active"].as_array().map_or(0, Vec::len)
}

#[tokio::test(start_paused = true)]
async fn a_job_begins_every_minute_and_the_oldest_go() {
    let cluster = Cluster::running().await;
    let path = format!("{CRONS}/tick");
    cluster.create(CRONS, cron("tick", "5s", json!({"successfulJobsHistoryLimit": 2}))).await;
    let running = cluster.until_is(&path, |cron| active(cron) == 1).await;
    let due = running["status"]["lastScheduleTime"].as_str().unwrap().to_owned();
    assert!(due.ends_with(":00Z"), "{due}");
    let job = &cluster.list(JOBS).await[0];
    assert_eq!(job["metadata"]["name"], running["status"]["active"][0]["name"]);
    assert_eq!(job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"], due);
    let done = cluster.until_is(&path, |cron| cron["status"]["lastSuccessfulTime"].is_string()).await;
    assert_eq!(active(&done), 0);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(cluster.list(JOBS).await.len(), 2);
    let told = cluster.told("tick").await;
    for reason in ["SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"] {
        assert!(told.contains(&reason.into()), "{told:?}");
    }
    assert!(!told.contains(&"UnexpectedJob".into()), "{told:?}");
    cluster.patch(&path, json!({"spec": {"suspend": true}})).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before = cluster.writes_to("batch").len();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.writes_to("batch").len(), before, "a suspended CronJob rests");
}

#[tokio::test(start_paused = true)]
async fn jobs_that_take_too_long_are_allowed_awaited_or_replaced() {
    let cluster = Cluster::running().await;
    for policy in ["Allow", "Forbid", "Replace"] {
        let name = policy.to_lowercase();
        cluster.create(CRONS, cron(&name, "1h", json!({"concurrencyPolicy": policy}))).await;
    }
    cluster.until_is(&format!("{CRONS}/allow"), |cron| active(cron) == 3).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    for name in ["forbid", "replace"] {
        let cron = cluster.get(&format!("{CRONS}/{name}")).await.unwrap();
        assert_eq!(active(&cron), 1, "{cron:#}");
    }
    assert!(cluster.told("forbid").await.contains(&"JobAlreadyActive".into()));
    assert!(cluster.told("replace").await.contains(&"SuccessfulDelete".into()));
    let jobs = cluster.list(JOBS).await;
    let of =
        |name: &str| jobs.iter().filter(|job| job["metadata"]["ownerReferences"][0]["name"] == name).count();
    assert_eq!((of("allow"), of("forbid"), of("replace")), (3, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_zone_says_when_a_day_begins() {
    let cluster = Cluster::running().await;
    // The clock begins on 2027-01-15 at 08:00 UTC, which is 17:00 in Tokyo.
    let daily = json!({"schedule": "30 17 * * *", "timeZone": "Asia/Tokyo"});
    cluster.create(CRONS, cron("daily", "5s", daily)).await;
    let cron = cluster
        .until_is(&format!("{CRONS}/daily"), |cron| cron["status"]["lastScheduleTime"].is_string())
        .await;
    assert_eq!(cron["status"]["lastScheduleTime"], "2027-01-15T08:30:00Z");
    let job = &cluster.list(JOBS).await[0];
    let at = &job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(at, "2027-01-15T17:30:00+09:00");
}
