//! Backoff: pods that fail one after the other are replaced later and later.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::facts::{failures, finished_at, ignored_failures};

const FIRST: SignedDuration = SignedDuration::from_secs(10);
const LONGEST: SignedDuration = SignedDuration::from_secs(600);

/// How often pods of a Job failed since one succeeded, and when the last one did. It is remembered here only:
/// a controller that starts anew begins with none, as in a stock cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Backoff {
    pub(super) failures: i32,
    pub(super) last: Option<Timestamp>,
}

impl Backoff {
    /// What is to be remembered once these pods, which ended since, are counted.
    pub(super) fn after(&self, succeeded: &[Arc<Pod>], failed: &[Arc<Pod>]) -> Backoff {
        let last_success = succeeded.iter().map(|pod| finished_at(pod)).max();
        let times = failed.iter().map(|pod| finished_at(pod));
        let times: Vec<Timestamp> =
            times.filter(|time| last_success.is_none_or(|success| *time > success)).collect();
        let before = if last_success.is_some() { Backoff::default() } else { self.clone() };
        if times.is_empty() {
            return before;
        }
        let count = i32::try_from(times.len()).unwrap_or(i32::MAX);
        Backoff { failures: before.failures.saturating_add(count), last: times.into_iter().max() }
    }

    /// How long no pod is made.
    pub(super) fn remaining(&self, now: Timestamp) -> Duration {
        self.last.map_or(Duration::ZERO, |last| remaining(self.failures, last, now))
    }
}

/// How long no pod is made in place of the last that failed of an index.
pub(super) fn of_index(last: Option<&Arc<Pod>>, now: Timestamp) -> Duration {
    last.map_or(Duration::ZERO, |pod| {
        let count = failures(pod).saturating_add(ignored_failures(pod)).saturating_add(1);
        remaining(count, finished_at(pod), now)
    })
}

fn remaining(failures: i32, last: Timestamp, now: Timestamp) -> Duration {
    if failures <= 0 {
        return Duration::ZERO;
    }
    let doublings = u32::try_from(failures - 1).unwrap_or(0).min(10);
    let pause = FIRST.saturating_mul(2i32.pow(doublings)).min(LONGEST);
    Duration::try_from(pause - now.duration_since(last)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(second: i64) -> Arc<Pod> {
        let at = Timestamp::from_second(second).unwrap().to_string();
        let state = json!({"terminated": {"exitCode": 1, "finishedAt": at}});
        let status = json!({"containerStatuses": [{"name": "c", "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0}]});
        Arc::new(serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap())
    }

    #[track_caller]
    fn check(before: (i32, Option<i64>), succeeded: &[i64], failed: &[i64], after: (i32, Option<i64>)) {
        let backoff = |(failures, last): (i32, Option<i64>)| Backoff {
            failures,
            last: last.map(|last| Timestamp::from_second(last).unwrap()),
        };
        let pods = |times: &[i64]| -> Vec<_> { times.iter().copied().map(ended).collect() };
        assert_eq!(backoff(before).after(&pods(succeeded), &pods(failed)), backoff(after));
    }

    #[test]
    fn failures_count_since_the_last_success() {
        check((0, None), &[], &[], (0, None));
        check((1, Some(5)), &[], &[], (1, Some(5)));
        check((1, Some(5)), &[], &[9, 7], (3, Some(9)));
        check((1, Some(5)), &[8], &[], (0, None));
        check((4, Some(5)), &[8], &[7, 8], (0, None));
        check((4, Some(5)), &[8, 2], &[7, 9, 12], (2, Some(12)));
    }

    #[test]
    fn pauses_double_up_to_ten_minutes() {
        let pause = |failures, since| {
            let last = Timestamp::from_second(1000).unwrap();
            remaining(failures, last, last + SignedDuration::from_secs(since)).as_secs()
        };
        assert_eq!(pause(0, 0), 0);
        assert_eq!(pause(1, 0), 10);
        assert_eq!(pause(2, 0), 20);
        assert_eq!(pause(3, 15), 25);
        assert_eq!(pause(7, 0), 600);
        assert_eq!(pause(i32::MAX, 0), 600);
        assert_eq!(pause(2, 21), 0);
    }
}
