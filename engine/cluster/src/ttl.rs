//! TTL after finished: Jobs that are over go when the time that they are kept for is.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use koinon_control::Key;
use koinon_control::call::{self, within_deadline};
use koinon_control::queue::{self, Next, Queue};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt as _};

use crate::jobs::finished;
use crate::shared::Shared;

const WORKERS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1000);

/// Clears finished Jobs away for as long as it is polled.
pub async fn run(shared: Shared) -> Infallible {
    let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    let wake = queue.clone();
    shared.jobs.on_change(move |_, after| {
        if let Some(job) = after.filter(|job| expiry(job).is_some()) {
            wake.add(Key::of(&**job));
        }
    });
    shared.jobs.listed().await;
    let (shared, again) = (&shared, &queue);
    queue::work(&queue, WORKERS, |key| async move {
        match clear(shared, &key).await {
            Ok(pause) => {
                pause.into_iter().for_each(|pause| again.add_after(key.clone(), pause));
                Next::Done
            }
            Err(error) => {
                tracing::debug!(%key, %error, "ttl: will try again");
                Next::Retry
            }
        }
    })
    .await
}

/// Deletes a Job whose time is over; says how long one has left.
async fn clear(shared: &Shared, key: &Key) -> Result<Option<Duration>, call::Error> {
    let left = |job: &Job| expiry(job).map(|at| left(at, shared.clock.now()));
    match shared.jobs.get(key).and_then(|job| left(&job)) {
        None => return Ok(None),
        Some(Duration::ZERO) => {}
        pause => return Ok(pause),
    }
    let api: Api<Job> = Api::namespaced(shared.client.clone(), &key.namespace);
    // The time may just have been made longer: the server knows.
    let job = match within_deadline(api.get(&key.name)).await {
        Ok(job) => job,
        Err(error) if error.is_object_absent() => return Ok(None),
        Err(error) => return Err(error),
    };
    match left(&job) {
        None => return Ok(None),
        Some(Duration::ZERO) => {}
        pause => return Ok(pause),
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions { uid: job.uid(), resource_version: None }),
        ..DeleteParams::foreground()
    };
    match within_deadline(api.delete(&key.name, &params)).await {
        Ok(_) => Ok(None),
        Err(error) if error.is_object_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// When a Job is to go; none if it is to stay, is not over, or goes already.
fn expiry(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished?;
    let end = finished(job).filter(|_| job.metadata.deletion_timestamp.is_none())?;
    end.last_transition_time.as_ref()?.0.checked_add(SignedDuration::from_secs(seconds.into())).ok()
}

fn left(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_jobs_that_are_over_expire() {
        let check = |ttl: Value, condition: &str, status: &str, expected: Option<&str>| {
            let conditions =
                json!([{"type": condition, "status": status, "lastTransitionTime": "2026-01-01T12:00:00Z"}]);
            let job = json!({"metadata": {}, "spec": {"template": {}, "ttlSecondsAfterFinished": ttl}, "status": {"conditions": conditions}});
            let at = expiry(&serde_json::from_value(job).unwrap()).map(|at| at.to_string());
            assert_eq!(at.as_deref(), expected, "{ttl} {condition} {status}");
        };
        check(json!(10), "Complete", "True", Some("2026-01-01T12:00:10Z"));
        check(json!(0), "Failed", "True", Some("2026-01-01T12:00:00Z"));
        check(json!(10), "Complete", "False", None);
        check(json!(10), "SuccessCriteriaMet", "True", None);
        check(Value::Null, "Complete", "True", None);
    }

    #[test]
    fn what_is_over_has_no_time_left() {
        let at: Timestamp = "2026-01-01T12:00:10Z".parse().unwrap();
        assert_eq!(left(at, at), Duration::ZERO);
        assert_eq!(left(at, at + SignedDuration::from_secs(5)), Duration::ZERO);
        assert_eq!(left(at, at - SignedDuration::from_secs(5)), Duration::from_secs(5));
    }
}
