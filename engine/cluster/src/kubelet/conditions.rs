//! The conditions of a pod that a kubelet owns.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodSpec, PodStatus};

use super::stage::Kind;
use super::status::{is_sidecar, seconds};

const OURS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// What a condition says.
#[derive(Default)]
struct Says {
    is_true: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

/// All conditions of a pod whose status is otherwise complete. Those of others come first and stay.
pub(super) fn render(
    pod: &Pod,
    spec: &PodSpec,
    status: &PodStatus,
    kind: Kind,
    now: Timestamp,
) -> Vec<PodCondition> {
    let old = status.conditions.as_deref().unwrap_or_default();
    let mut conditions: Vec<_> =
        old.iter().filter(|one| !OURS.contains(&one.type_.as_str())).cloned().collect();
    for type_ in OURS {
        let says = match type_ {
            "PodReadyToStartContainers" => Says::plainly(matches!(kind, Kind::Running | Kind::BackingOff)),
            "Initialized" => initialized(spec, status),
            "Ready" => ready(spec, status),
            "ContainersReady" => containers_ready(spec, status),
            _ => Says::plainly(true),
        };
        let before = old.iter().find(|one| one.type_ == type_);
        let value = if says.is_true { "True" } else { "False" };
        let unchanged = before.filter(|before| before.status == value);
        conditions.push(PodCondition {
            type_: type_.to_owned(),
            status: value.to_owned(),
            reason: says.reason.map(str::to_owned),
            message: says.message,
            observed_generation: pod.metadata.generation,
            last_probe_time: None,
            last_transition_time: unchanged
                .and_then(|before| before.last_transition_time.clone())
                .or_else(|| Some(seconds(now))),
        });
    }
    conditions
}

impl Says {
    fn plainly(is_true: bool) -> Says {
        Says { is_true, ..Says::default() }
    }

    fn no(reason: &'static str, message: String) -> Says {
        Says { is_true: false, reason: Some(reason), message: (!message.is_empty()).then_some(message) }
    }
}

fn initialized(spec: &PodSpec, status: &PodStatus) -> Says {
    if status.phase.as_deref() == Some("Succeeded") {
        return Says { is_true: true, reason: Some("PodCompleted"), message: None };
    }
    let done = |name: &str, sidecar: bool| {
        let status = find(&status.init_container_statuses, name);
        status.is_some_and(|status| if sidecar { status.started == Some(true) } else { status.ready })
    };
    let init = spec.init_containers.iter().flatten();
    let waiting: Vec<_> =
        init.filter(|one| !done(&one.name, is_sidecar(one))).map(|one| one.name.as_str()).collect();
    let was_started = status.container_statuses.iter().flatten().any(|one| one.container_id.is_some());
    if waiting.is_empty() || was_started {
        return Says::plainly(true);
    }
    Says::no(
        "ContainersNotInitialized",
        format!("containers with incomplete status: [{}]", waiting.join(" ")),
    )
}

fn containers_ready(spec: &PodSpec, status: &PodStatus) -> Says {
    match status.phase.as_deref() {
        Some("Succeeded") => return Says::no("PodCompleted", String::new()),
        Some("Failed") => return Says::no("PodFailed", String::new()),
        _ => {}
    }
    let sidecars = spec.init_containers.iter().flatten().filter(|one| is_sidecar(one));
    let sidecars = sidecars.map(|one| (&one.name, &status.init_container_statuses));
    let regular = spec.containers.iter().map(|one| (&one.name, &status.container_statuses));
    let unready: Vec<_> = sidecars
        .chain(regular)
        .filter(|(name, statuses)| !find(statuses, name).is_some_and(|status| status.ready))
        .map(|(name, _)| name.as_str())
        .collect();
    if unready.is_empty() {
        return Says::plainly(true);
    }
    Says::no("ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" ")))
}

fn ready(spec: &PodSpec, status: &PodStatus) -> Says {
    let containers = containers_ready(spec, status);
    if !containers.is_true {
        return containers;
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let closed = spec.readiness_gates.iter().flatten().filter_map(|gate| {
        let name = &gate.condition_type;
        match conditions.iter().find(|condition| condition.type_ == *name) {
            None => Some(format!("corresponding condition of pod readiness gate {name:?} does not exist.")),
            Some(condition) if condition.status != "True" => Some(format!(
                "the status of pod readiness gate {name:?} is not \"True\", but {}",
                condition.status
            )),
            Some(_) => None,
        }
    });
    let closed: Vec<_> = closed.collect();
    if closed.is_empty() {
        return Says::plainly(true);
    }
    Says::no("ReadinessGatesNotReady", closed.join(", "))
}

fn find<'a>(statuses: &'a Option<Vec<ContainerStatus>>, name: &str) -> Option<&'a ContainerStatus> {
    statuses.iter().flatten().find(|status| status.name == name)
}
