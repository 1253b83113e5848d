//! Pods: the one status that sums up phase, conditions and containers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::read::{Read, age, human, time};

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summarize(pod);
    let restarts = match summary.restarts {
        Restarts { count, last: Some(last) } if count != 0 => {
            format!("{count} ({} ago)", human(now.duration_since(last)))
        }
        Restarts { count, .. } => count.to_string(),
    };
    let ip = pod.list("status.podIPs").first().map_or("", |first| first.text("ip"));
    vec![
        pod.text("metadata.name").into(),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.reason.into(),
        restarts.into(),
        age(pod, now).into(),
        if ip.is_empty() { "<none>" } else { ip }.into(),
        pod.text_or("spec.nodeName", "<none>").into(),
        pod.text_or("status.nominatedNodeName", "<none>").into(),
        readiness_gates(pod).into(),
    ]
}

/// That a Pod has come to its end, for clients that filter rows.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod.text("status.phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

struct Summary {
    reason: String,
    ready: usize,
    containers: usize,
    restarts: Restarts,
}

#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += container.int("restartCount");
        self.last = self.last.max(time(container.at("lastState.terminated.finishedAt")));
    }
}

fn summarize(pod: &Value) -> Summary {
    let sidecars = pod.list("spec.initContainers").iter().filter(|container| is_sidecar(container)).count();
    let mut summary = Summary {
        reason: pod.text_or("status.reason", pod.text("status.phase")).to_owned(),
        ready: 0,
        containers: pod.list("spec.containers").len() + sidecars,
        restarts: Restarts::default(),
    };
    let gated = |condition: &Value| {
        condition.text("type") == "PodScheduled" && condition.text("reason") == "SchedulingGated"
    };
    if pod.list("status.conditions").iter().any(gated) {
        summary.reason = "SchedulingGated".to_owned();
    }
    summary.add_init_containers(pod);
    if pod.has("metadata.deletionTimestamp") {
        let ended = matches!(pod.text("status.phase"), "Succeeded" | "Failed");
        if pod.text("status.reason") == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !ended {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

impl Summary {
    /// Init containers decide alone while one of them is not through; after that only sidecars count.
    fn add_init_containers(&mut self, pod: &Value) {
        let specs = pod.list("spec.initContainers");
        let mut sidecar_restarts = Restarts::default();
        let mut initializing = false;
        for (index, container) in pod.list("status.initContainerStatuses").iter().enumerate() {
            let spec = specs.iter().rfind(|spec| spec.text("name") == container.text("name"));
            let sidecar = spec.is_some_and(is_sidecar);
            self.restarts.add(container);
            if sidecar {
                sidecar_restarts.add(container);
            }
            let terminated = container.at("state.terminated");
            if !terminated.is_null() && terminated.int("exitCode") == 0 {
                continue;
            }
            if sidecar && container.flag("started") {
                self.ready += usize::from(container.flag("ready"));
                continue;
            }
            let waiting = container.text("state.waiting.reason");
            self.reason = if !terminated.is_null() {
                format!("Init:{}", end_of(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            initializing = true;
            break;
        }
        if !initializing || pod.condition("Initialized") == Some("True") {
            self.restarts = sidecar_restarts;
            self.add_containers(pod);
        }
    }

    fn add_containers(&mut self, pod: &Value) {
        let mut running = false;
        let mut failure = None;
        // From last to first, so that the first container has the last word.
        for container in pod.list("status.containerStatuses").iter().rev() {
            self.restarts.add(container);
            let terminated = container.at("state.terminated");
            let waiting = container.text("state.waiting.reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if !terminated.is_null() {
                self.reason = end_of(terminated);
                if terminated.int("exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if container.flag("ready") && container.has("state.running") {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason != "Completed" {
            return;
        }
        // One container that is done does not make the Pod so.
        let is_ready =
            |condition: &Value| condition.text("type") == "Ready" && condition.text("status") == "True";
        if running && pod.list("status.conditions").iter().any(is_ready) {
            self.reason = "Running".to_owned();
        } else if let Some(failure) = failure {
            self.reason = failure;
        } else if running {
            self.reason = "NotReady".to_owned();
        }
    }
}

fn is_sidecar(container: &Value) -> bool {
    container.text("restartPolicy") == "Always"
}

/// Why a container ended.
fn end_of(terminated: &Value) -> String {
    match (terminated.text("reason"), terminated.int("signal")) {
        ("", 0) => format!("ExitCode:{}", terminated.int("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = pod.list("spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|gate| pod.condition(gate.text("conditionType")) == Some("True"));
    format!("{}/{}", open.count(), gates.len())
}
