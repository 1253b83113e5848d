//! Whole lives of pods, told by the pure core alone: no server, no waiting.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::behaviour::{Behaviour, PREFIX};
use super::memory::Memory;
use super::pod::{Act, Next, Place, next};
use super::{Settings, node};

const START: i64 = 1_800_000_000;

/// A pod on its node, and the time.
struct Life {
    pod: Pod,
    memory: Memory,
    now: Timestamp,
    gone: bool,
}

impl Life {
    fn new(annotations: &[(&str, &str)], spec: Value) -> Life {
        let annotations: BTreeMap<String, String> =
            annotations.iter().map(|(key, value)| (format!("{PREFIX}{key}"), value.to_string())).collect();
        let mut all = json!({"nodeName": "node-1", "containers": [{"name": "main", "image": "nginx"}]});
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        let metadata = json!({"name": "web", "namespace": "default", "uid": "u", "generation": 1, "annotations": annotations});
        let pod = serde_json::from_value(json!({"metadata": metadata, "spec": all})).unwrap();
        Life { pod, memory: Memory::default(), now: Timestamp::from_second(START).unwrap(), gone: false }
    }

    fn delete(&mut self, grace: i64) {
        self.pod.metadata.deletion_grace_period_seconds = Some(grace);
        let due = self.now.as_second() + grace;
        self.pod.metadata.deletion_timestamp = Some(Time(Timestamp::from_second(due).unwrap()));
    }

    fn decide(&mut self) -> Next {
        let half = Duration::from_millis(500);
        let settings = Settings {
            start_after: half,
            ready_after: half,
            terminate_after: 2 * half,
            ..Settings::default()
        };
        let (behaviour, _) = Behaviour::read(&settings, self.pod.metadata.annotations.as_ref());
        let (times, _) = self.memory.times(&self.pod, self.now);
        let addresses: Vec<IpAddr> = vec!["10.0.0.2".parse().unwrap()];
        let place = Place { host: &["172.18.0.2".to_owned()], addresses: &addresses, behaviour: &behaviour };
        next(&self.pod, place, times)
    }

    /// Does all that is due now; gives the time of what comes next.
    fn settle(&mut self) -> Option<Timestamp> {
        for _ in 0..5 {
            let next = self.decide();
            assert!(next.again.is_none_or(|again| again > self.now), "looks again in the past");
            match next.act {
                Act::Nothing => return next.again,
                Act::Write(status) => {
                    self.memory.entered("u", next.stage, next.since);
                    let text = serde_json::to_string(&status).unwrap();
                    let read: PodStatus = serde_json::from_str(&text).unwrap();
                    assert_eq!(read, *status, "the server would give back something else");
                    self.pod.status = Some(read);
                }
                Act::Delete => {
                    self.gone = true;
                    return None;
                }
            }
        }
        panic!("it never comes to rest: {:#?}", self.pod.status);
    }

    /// The pod as a user sees it.
    fn look(&self) -> String {
        if self.gone {
            return "gone".into();
        }
        let status = self.pod.status.clone().unwrap_or_default();
        let container = &status.container_statuses.as_ref().unwrap()[0];
        let state = container.state.clone().unwrap();
        let waiting = state.waiting.and_then(|waiting| waiting.reason);
        let ended = state.terminated.map(|ended| format!("exit {}", ended.exit_code));
        let state = waiting.or(ended).unwrap_or_else(|| "running".into());
        let ready =
            status.conditions.iter().flatten().find(|one| one.type_ == "Ready").unwrap().status == "True";
        let ready = if ready { " ready" } else { "" };
        let restarts = container.restart_count;
        let restarts = if restarts == 0 { String::new() } else { format!(" x{restarts}") };
        format!("{} {state}{ready}{restarts}", status.phase.unwrap())
    }

    /// Lives on for a while; gives what changed, with milliseconds.
    fn live(&mut self, until_second: i64) -> Vec<String> {
        let mut seen = Vec::new();
        let end = Timestamp::from_second(START + until_second).unwrap();
        loop {
            let again = self.settle();
            let millis = self.now.as_millisecond() - START * 1000;
            seen.push(format!("{millis} {}", self.look()));
            match again.filter(|again| *again <= end) {
                Some(again) => self.now = again,
                None => return seen,
            }
        }
    }
}

#[track_caller]
fn check(annotations: &[(&str, &str)], spec: Value, until: i64, expected: &[&str]) {
    assert_eq!(Life::new(annotations, spec).live(until), expected, "{annotations:?}");
}

/// Clients wait until a pod runs and then take it for ready, if it has no readiness probe.
#[test]
fn unless_told_otherwise_a_pod_that_runs_is_ready() {
    assert_eq!(Settings::default().ready_after, Duration::ZERO);
    let up = ["0 Pending ContainerCreating", "500 Running running ready"];
    check(&[("ready-after", "0s")], json!({}), 3600, &up);
}

#[test]
fn lives_of_pods() {
    let up = ["0 Pending ContainerCreating", "500 Running running", "1000 Running running ready"];
    check(&[], json!({}), 3600, &up);
    check(&[("start-after", "0s"), ("ready-after", "0s")], json!({}), 3600, &["0 Running running ready"]);
    check(&[("ready", "never")], json!({}), 3600, &up[..2]);
    check(
        &[("crash", "loop")],
        json!({}),
        40,
        &[
            "0 Pending ContainerCreating",
            "500 Running running",
            "1500 Running running x1",
            "2500 Running CrashLoopBackOff x1",
            "12500 Running running x2",
            "13500 Running CrashLoopBackOff x2",
            "33500 Running running x3",
            "34500 Running CrashLoopBackOff x3",
        ],
    );
    check(
        &[("crash", "once")],
        json!({}),
        3600,
        &[up[0], up[1], up[2], "1500 Running running x1", "2000 Running running ready x1"],
    );
    check(
        &[("fail-after", "2s")],
        json!({"restartPolicy": "Never"}),
        3600,
        &[up[0], up[1], up[2], "2500 Failed exit 1"],
    );
    check(
        &[("complete-after", "2s")],
        json!({"restartPolicy": "OnFailure"}),
        3600,
        &[up[0], up[1], up[2], "2500 Succeeded exit 0"],
    );
    check(
        &[("fail-after", "11m")],
        json!({}),
        1330,
        &[
            up[0],
            up[1],
            up[2],
            "660500 Running running x1",
            "661000 Running running ready x1",
            "1320500 Running running x2",
            "1321000 Running running ready x2",
        ],
    );
    check(&[], json!({"activeDeadlineSeconds": 5}), 3600, &[up[0], up[1], up[2], "5000 Failed exit 137"]);
}

#[test]
fn ends_of_pods() {
    for (annotation, grace, code, end) in
        [("1s", 30, 0, 1000), ("0s", 30, 0, 0), ("5m", 30, 137, 30_000), ("5m", 0, 137, 0)]
    {
        let mut life = Life::new(&[("terminate-after", annotation)], json!({}));
        life.live(10);
        let start = life.now.as_millisecond();
        life.delete(grace);
        while let Some(again) = life.settle() {
            life.now = again;
        }
        assert_eq!(life.now.as_millisecond() - start, end, "{annotation}");
        let status = life.pod.status.clone().unwrap();
        let ended = status.container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
        assert_eq!(ended.exit_code, code, "{annotation}");
        // Whom the server would have removed by itself at grace zero, only a finalizer holds.
        assert_eq!(life.gone, grace != 0, "{annotation}");
    }
}

#[test]
fn what_never_ran_has_nothing_to_end() {
    let mut life = Life::new(&[("start-after", "1h")], json!({}));
    life.settle();
    life.delete(30);
    assert_eq!(life.settle(), None);
    assert!(life.gone);
}

#[test]
fn what_others_wrote_stays_and_what_is_ours_is_put_right() {
    let mut life = Life::new(&[], json!({"readinessGates": [{"conditionType": "open"}]}));
    life.live(10);
    let ready = |life: &Life| life.look().contains("ready");
    assert!(!ready(&life));
    let status = life.pod.status.as_mut().unwrap();
    let theirs = serde_json::from_value(json!({"type": "open", "status": "True"})).unwrap();
    status.conditions.as_mut().unwrap().push(theirs);
    status.nominated_node_name = Some("x".into());
    life.settle();
    assert!(ready(&life));
    let status = life.pod.status.clone().unwrap();
    assert_eq!(status.nominated_node_name.as_deref(), Some("x"));
    assert_eq!(status.conditions.unwrap()[0].type_, "open");
    // Somebody who took the node for silent said that the pod is not ready.
    for condition in life.pod.status.as_mut().unwrap().conditions.iter_mut().flatten() {
        if condition.type_ == "Ready" {
            condition.status = "False".into();
        }
    }
    life.settle();
    assert!(ready(&life));
}

#[test]
fn a_node_keeps_what_it_has_and_writes_only_when_there_is_something_to_say() {
    let settings = Settings::default();
    let now = Timestamp::from_second(START).unwrap();
    let mut own: k8s_openapi::api::core::v1::Node =
        serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}}))
            .unwrap();
    let free: Vec<IpAddr> = vec!["10.0.0.9".parse().unwrap()];
    own.status = node::status(&settings, &own, &free, now);
    let status = own.status.as_ref().unwrap();
    let amount = |name: &str| status.allocatable.as_ref().unwrap()[name].0.clone();
    assert_eq!((amount("cpu"), amount("memory"), amount("pods")), ("2".into(), "32Gi".into(), "110".into()));
    assert_eq!(node::addresses(&own), ["10.0.0.9"]);
    let at =
        |second: i64| node::status(&settings, &own, &free, Timestamp::from_second(START + second).unwrap());
    assert_eq!((at(1), at(299)), (None, None));
    let later = at(300).unwrap();
    assert_eq!(node::last_heartbeat(&later), Timestamp::from_second(START + 300).ok());
    // Somebody took it for silent: that is put right at once, and the transition is told.
    for condition in own.status.as_mut().unwrap().conditions.iter_mut().flatten() {
        condition.status = "Unknown".into();
    }
    let back = node::status(&settings, &own, &free, Timestamp::from_second(START + 9).unwrap()).unwrap();
    let ready = back.conditions.unwrap().into_iter().find(|one| one.type_ == "Ready").unwrap();
    assert_eq!(
        (ready.status.as_str(), ready.last_transition_time.unwrap().0.as_second()),
        ("True", START + 9)
    );
}

fn annotation() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop::sample::select(vec![
        ("start-after", "0s"),
        ("start-after", "3s"),
        ("ready-after", "0s"),
        ("ready-after", "90s"),
        ("ready", "never"),
        ("crash", "loop"),
        ("crash", "once"),
        ("fail-after", "0s"),
        ("fail-after", "20s"),
        ("complete-after", "15m"),
        ("terminate-after", "0s"),
        ("terminate-after", "1h"),
    ])
}

proptest! {
    /// Whatever is asked for and whenever it is looked at or restarted, a pod comes to rest between two times.
    #[test]
    fn every_life_comes_to_rest(
        annotations in prop::collection::vec(annotation(), 0..4),
        policy in prop::sample::select(vec!["Always", "OnFailure", "Never"]),
        looks in prop::collection::vec((0..200_000i64, any::<bool>()), 0..30),
        init in 0..3usize,
    ) {
        let init: Vec<Value> = (0..init)
            .map(|number| json!({"name": format!("i{number}"), "image": "i", "restartPolicy": (number == 1).then_some("Always")}))
            .collect();
        let spec = json!({"restartPolicy": policy, "initContainers": init});
        let mut life = Life::new(&annotations, spec);
        for (millis, forgets) in looks {
            life.settle();
            let restarts = life.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].restart_count;
            if forgets {
                life.memory = Memory::default();
            }
            life.now += jiff::SignedDuration::from_millis(millis);
            life.settle();
            let after = life.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].restart_count;
            prop_assert!(after >= restarts, "restarts never go down");
        }
        life.delete(30);
        life.settle();
        life.now += jiff::SignedDuration::from_secs(31);
        life.settle();
        prop_assert!(life.gone);
    }
}
