//! A Job with its pods in a few letters, and what one look at it leads to.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::jobs::backoff::Backoff;
use crate::jobs::facts::{FAILURES, FINALIZER, INDEX, index, uid};
use crate::jobs::plan::{self, Change};
use crate::jobs::tracking::{self, Outcome, Tracking};

pub(super) fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// A Job of which the last failures are long ago, unless said otherwise.
pub(super) struct World {
    pub(super) job: Value,
    pub(super) pods: Vec<Value>,
    pub(super) backoff: Backoff,
    /// Every call about pods fails.
    pub(super) broken: bool,
}

impl World {
    /// A Job with this in its spec. Pods are written as `3R S F:0`: how many, what of, and their index. `P` is
    /// pending, `R` runs, `r` is ready, `S` succeeded, `F` failed, `T` was told to end, `X` is counted already.
    pub(super) fn new(spec: Value, pods: &str) -> World {
        let mut all = json!({
            "backoffLimit": 6,
            "template": {"metadata": {"labels": {"app": "pi"}}, "spec": {
                "restartPolicy": "Never", "containers": [{"name": "main"}],
            }},
        });
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        let metadata = json!({"name": "pi", "namespace": "default", "uid": "pi"});
        let job = json!({"metadata": metadata, "spec": all, "status": {}});
        let mut world = World { job, pods: Vec::new(), backoff: Backoff::default(), broken: false };
        for word in pods.split_whitespace() {
            let digits = word.find(|one: char| !one.is_ascii_digit()).unwrap();
            let count = word[..digits].parse().unwrap_or(1);
            let (kind, index) = word[digits..].split_once(':').unwrap_or_else(|| (&word[digits..], ""));
            for _ in 0..count {
                let name = format!("p{}", world.pods.len());
                world.pods.push(pod(&name, kind, index));
            }
        }
        world
    }

    pub(super) fn job(mut self, pointer: &str, value: Value) -> World {
        let (path, key) = pointer.rsplit_once('/').unwrap();
        self.job.pointer_mut(path).unwrap()[key] = value;
        self
    }

    /// Changes the last pod.
    pub(super) fn last(mut self, change: impl FnOnce(&mut Value)) -> World {
        change(self.pods.last_mut().unwrap());
        self
    }

    /// Looks once, as the controller does.
    pub(super) fn look(&self) -> (Change, Tracking, Option<u64>) {
        let job: Arc<Job> = Arc::new(serde_json::from_value(self.job.clone()).unwrap());
        let pods = self.pods.iter().map(|pod| Arc::new(serde_json::from_value::<Pod>(pod.clone()).unwrap()));
        let plan = plan::plan(now(), &job, pods.collect(), &self.backoff);
        let outcome = match &plan.change {
            _ if self.broken => Outcome::default(),
            Change::Nothing => Outcome::default(),
            Change::Create(pods) => Outcome { created: pods.len(), deleted: Vec::new() },
            Change::Delete(pods) | Change::End(pods) => Outcome { created: 0, deleted: pods.clone() },
        };
        let mut tracking = tracking::track(now(), plan.draft, &plan.change, &outcome);
        let released = tracking.release.iter().map(|pod| uid(pod).to_owned());
        let released: Vec<String> = released.filter(|_| !self.broken).collect();
        tracking.released(now(), &released);
        (plan.change, tracking, plan.look_again.map(|pause| pause.as_secs()))
    }

    /// `change; active/ready/terminating succeeded/failed; pods let go; conditions; pause`, as far as there is any.
    #[track_caller]
    pub(super) fn check(self, expected: &str) {
        let (change, tracking, pause) = self.look();
        let status = &tracking.status;
        let names = |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.name_any()).collect::<Vec<_>>().join(",");
        let mut told = vec![match &change {
            Change::Nothing => "-".to_owned(),
            Change::Create(pods) => {
                let places: Vec<String> =
                    pods.iter().filter_map(index).map(|index| index.to_string()).collect();
                format!("create {} {}", pods.len(), places.join(",")).trim_end().to_owned()
            }
            Change::Delete(pods) => format!("delete {}", names(pods)),
            Change::End(pods) => format!("end {}", names(pods)).trim_end().to_owned(),
        }];
        let number = |count: Option<i32>| count.unwrap_or(0);
        told.push(format!(
            "{}/{}/{} {}/{}",
            number(status.active),
            number(status.ready),
            number(status.terminating),
            number(status.succeeded),
            number(status.failed)
        ));
        if !tracking.release.is_empty() {
            told.push(format!("free {}", names(&tracking.release)));
        }
        if status.completed_indexes.is_some() || status.failed_indexes.is_some() {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            told.push(format!("[{}|{}]", text(&status.completed_indexes), text(&status.failed_indexes)));
        }
        for condition in status.conditions.iter().flatten() {
            let sign = if condition.status == "True" { "" } else { "not " };
            told.push(format!(
                "{sign}{}:{}",
                condition.type_,
                condition.reason.as_deref().unwrap_or_default()
            ));
        }
        if let Some(pause) = pause {
            told.push(format!("{pause}s"));
        }
        assert_eq!(told.join("; "), expected);
    }
}

fn pod(name: &str, kind: &str, index: &str) -> Value {
    let phase = match kind {
        "P" => "Pending",
        "S" | "X" => "Succeeded",
        "F" => "Failed",
        _ => "Running",
    };
    let ready = if kind == "r" { "True" } else { "False" };
    let ended = "2026-01-01T10:00:00Z";
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "finalizers": [FINALIZER], "annotations": {},
            "creationTimestamp": "2026-01-01T10:00:00Z",
        },
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": ended}]},
    });
    if kind == "T" {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:00:00Z");
    }
    if kind == "X" {
        pod["metadata"]["finalizers"] = json!([]);
    }
    // `1*3` is index 1 after three failures.
    let (index, failures) = index.split_once('*').unwrap_or((index, ""));
    if !index.is_empty() {
        pod["metadata"]["annotations"][INDEX] = json!(index);
    }
    if !failures.is_empty() {
        pod["metadata"]["annotations"][FAILURES] = json!(failures);
    }
    pod
}

/// Has the last container ended with this code.
pub(super) fn exits(code: i32) -> impl FnOnce(&mut Value) {
    move |pod| {
        let state = json!({"terminated": {"exitCode": code, "finishedAt": "2026-01-01T10:00:00Z"}});
        pod["status"]["containerStatuses"] = json!([{"name": "main", "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0}]);
    }
}
