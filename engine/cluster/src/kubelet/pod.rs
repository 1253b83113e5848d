//! What a node does about one of its pods next.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use koinon_control::events::Weight;

use super::behaviour::Behaviour;
use super::stage::{self, Exit, Happened, Kind, Stage, Way, Why, later};
use super::status;

/// Where a pod runs and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The addresses of its node.
    pub(super) host: &'a [String],
    /// The addresses that it gets once it has a network of its own.
    pub(super) addresses: &'a [IpAddr],
    pub(super) behaviour: &'a Behaviour,
}

/// The times that matter for a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) now: Timestamp,
    /// When its present stage began.
    pub(super) since: Timestamp,
    /// When its deletion began.
    pub(super) deleted: Option<Timestamp>,
}

/// What is to be done for a pod now, and when to look at it again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Next {
    pub(super) act: Act,
    pub(super) told: Vec<Told>,
    pub(super) again: Option<Timestamp>,
    /// The stage that the pod is in after this, and when it began.
    pub(super) stage: Stage,
    pub(super) since: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    Nothing,
    Write(Box<PodStatus>),
    /// Its containers have ended: the object can go.
    Delete,
}

/// Something to tell users about a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) container: Container,
    pub(super) weight: Weight,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Init(String),
    Regular(String),
}

/// Decides from the pod itself and the time alone.
pub(super) fn next(pod: &Pod, place: Place<'_>, times: Times) -> Next {
    let from = Stage::of(pod);
    let way = match times.deleted {
        None => stage::advance(pod, place.behaviour, from, times.since, times.now),
        Some(deleted) => end(pod, place.behaviour, from, times, deleted),
    };
    let status = status::render(pod, place, &way, times.now);
    let act = match times.deleted {
        None if pod.status.as_ref() != Some(&status) => Act::Write(Box::new(status)),
        None => Act::Nothing,
        // What will be gone in a moment is only told that its containers have ended.
        Some(_) if from.kind >= Kind::Running && from.kind != way.stage.kind => Act::Write(Box::new(status)),
        Some(_) if way.stage.kind != Kind::Finished => Act::Nothing,
        // Only finalizers still hold the object, and they are not ours.
        Some(_) if grace(pod) == Some(Duration::ZERO) => Act::Nothing,
        Some(_) => Act::Delete,
    };
    Next { act, told: told(pod, place.behaviour, &way), again: way.again, stage: way.stage, since: way.since }
}

/// The way of a pod that is to go.
fn end(pod: &Pod, behaviour: &Behaviour, from: Stage, times: Times, deleted: Timestamp) -> Way {
    let mut way = Way { stage: from, since: times.since, happened: Vec::new(), again: None };
    let allowed = grace(pod).unwrap_or(Duration::ZERO);
    let exit = Exit { code: if behaviour.terminate_after <= allowed { 0 } else { 137 }, why: Why::Deleted };
    let ended = later(deleted, behaviour.terminate_after.min(allowed));
    match from.kind {
        Kind::Finished => {}
        // Nothing runs, so nothing has to end.
        Kind::Arriving | Kind::Creating => way.stage.kind = Kind::Finished,
        Kind::BackingOff => way.end(exit, times.now),
        Kind::Running if ended <= times.now => way.end(exit, times.now),
        Kind::Running => way.again = Some(ended),
    }
    way
}

/// How long the deletion of a pod may take.
fn grace(pod: &Pod) -> Option<Duration> {
    let seconds = pod.metadata.deletion_grace_period_seconds?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

fn told(pod: &Pod, behaviour: &Behaviour, way: &Way) -> Vec<Told> {
    let spec = pod.spec.clone().unwrap_or_default();
    let mut told = Vec::new();
    let mut tell = |container: Container, weight, reason, message: String| {
        told.push(Told { container, weight, reason, message });
    };
    for happened in &way.happened {
        match happened {
            Happened::Started => {
                let first = way.stage.restarts == 0;
                let init = spec.init_containers.iter().flatten().filter(|_| first);
                let init = init.map(|one| (Container::Init(one.name.clone()), one));
                let regular = spec.containers.iter().map(|one| (Container::Regular(one.name.clone()), one));
                for (name, container) in init.chain(regular) {
                    let image = container.image.as_deref().unwrap_or_default();
                    let present = format!(
                        "Container image {image:?} already present on machine and can be accessed by the pod"
                    );
                    tell(name.clone(), Weight::Normal, "Pulled", present);
                    tell(name.clone(), Weight::Normal, "Created", "Container created".into());
                    tell(name, Weight::Normal, "Started", "Container started".into());
                }
                if behaviour.ready_after.is_none() && behaviour.ending.is_none() {
                    for container in &spec.containers {
                        let why = "Readiness probe failed: the pod's annotation says that it is never ready";
                        let name = Container::Regular(container.name.clone());
                        tell(name, Weight::Warning, "Unhealthy", why.into());
                    }
                }
            }
            Happened::BackedOff => {
                for container in &spec.containers {
                    let message = format!(
                        "Back-off restarting failed container {} in pod {}",
                        container.name,
                        status::full_name(pod)
                    );
                    tell(Container::Regular(container.name.clone()), Weight::Warning, "BackOff", message);
                }
            }
            Happened::Ended(_) => {}
        }
    }
    told
}

/// What is told when the deletion of a pod is noticed.
pub(super) fn told_of_deletion(pod: &Pod) -> Vec<Told> {
    if Stage::of(pod).kind != Kind::Running {
        return Vec::new();
    }
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .map(|container| Told {
            container: Container::Regular(container.name.clone()),
            weight: Weight::Normal,
            reason: "Killing",
            message: format!("Stopping container {}", container.name),
        })
        .collect()
}
