//! How far a pod has come, read from its own status, and how it goes on from there.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::behaviour::{Behaviour, HowOften};

const FIRST_BACK_OFF: u64 = 10;
const LONGEST_BACK_OFF: u64 = 300;
/// Containers that ran for so long are restarted as if they had never ended before.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_secs(2 * LONGEST_BACK_OFF as i64);

pub(super) const BACKING_OFF: &str = "CrashLoopBackOff";

/// How far a pod has come. All its containers go the same way at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) kind: Kind,
    /// How often its containers were started again.
    pub(super) restarts: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Its node has done nothing for it yet.
    Arriving,
    Creating,
    Running,
    BackingOff,
    Finished,
}

/// What happened to the containers of a pod on the way from one stage to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    Started,
    Ended(Exit),
    BackedOff,
}

/// How containers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: i32,
    pub(super) why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    ByItself,
    Deleted,
    DeadlineExceeded,
}

/// A pod's way up to now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) stage: Stage,
    /// When the stage began.
    pub(super) since: Timestamp,
    pub(super) happened: Vec<Happened>,
    /// When something happens next by itself.
    pub(super) again: Option<Timestamp>,
}

impl Stage {
    /// The stage that a pod's status tells of.
    pub(super) fn of(pod: &Pod) -> Stage {
        let Some(status) = &pod.status else { return Stage { kind: Kind::Arriving, restarts: 0 } };
        let containers = status.container_statuses.as_deref().unwrap_or_default();
        let restarts = containers.iter().map(|container| container.restart_count).max().unwrap_or(0);
        let state = |is: fn(&ContainerStatus) -> bool| containers.iter().any(is);
        let kind = if is_finished(pod) {
            Kind::Finished
        } else if status.start_time.is_none() {
            Kind::Arriving
        } else if state(|one| one.state.as_ref().is_some_and(|state| state.running.is_some())) {
            Kind::Running
        } else if state(|one| waiting_reason(one) == Some(BACKING_OFF)) {
            Kind::BackingOff
        } else {
            Kind::Creating
        };
        Stage { kind, restarts }
    }

    /// When the stage began, as far as the pod's status tells.
    pub(super) fn recorded_since(self, pod: &Pod) -> Option<Timestamp> {
        let status = pod.status.as_ref()?;
        let containers = || status.container_statuses.iter().flatten();
        match self.kind {
            Kind::Arriving | Kind::Finished => None,
            Kind::Creating => status.start_time.as_ref().map(|time| time.0),
            Kind::Running => {
                let started = |one: &ContainerStatus| {
                    one.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(|time| time.0)
                };
                containers().filter_map(started).max()
            }
            Kind::BackingOff => {
                let finished = |one: &ContainerStatus| {
                    one.last_state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0)
                };
                containers().filter_map(finished).max()
            }
        }
    }
}

/// Goes on from a stage that began at `since` to where the pod should be `now`.
pub(super) fn advance(
    pod: &Pod,
    behaviour: &Behaviour,
    from: Stage,
    since: Timestamp,
    now: Timestamp,
) -> Way {
    let mut way = Way { stage: from, since, happened: Vec::new(), again: None };
    if let Some(deadline) = deadline(pod)
        && from.kind != Kind::Finished
    {
        if deadline <= now {
            way.end(Exit { code: 137, why: Why::DeadlineExceeded }, now);
            return way;
        }
        way.again = Some(deadline);
    }
    loop {
        let due = match way.stage.kind {
            Kind::Finished => break,
            Kind::Arriving => now,
            Kind::Creating => later(way.since, behaviour.start_after),
            Kind::BackingOff => later(way.since, back_off_after(way.stage.restarts)),
            Kind::Running => {
                if let Some(ready_after) = behaviour.ready_after {
                    way.wake(later(way.since, ready_after), now);
                }
                match ending(behaviour, way.stage.restarts) {
                    Some(ending) => later(way.since, ending.after),
                    None => break,
                }
            }
        };
        if due > now {
            way.wake(due, now);
            break;
        }
        match way.stage.kind {
            Kind::Finished => break,
            Kind::Arriving => way.stage.kind = Kind::Creating,
            Kind::Creating => {
                way.stage.kind = Kind::Running;
                way.happened.push(Happened::Started);
            }
            Kind::BackingOff => way.restart(),
            Kind::Running => {
                let code = ending(behaviour, way.stage.restarts).map_or(0, |ending| ending.exit_code);
                let exit = Exit { code, why: Why::ByItself };
                if !restarts_after(pod, code) {
                    way.end(exit, now);
                    break;
                }
                way.happened.push(Happened::Ended(exit));
                // The first restart comes at once, and so does one after a long good time.
                if way.stage.restarts == 0 || now.duration_since(way.since) > FORGOTTEN_AFTER {
                    way.restart();
                } else {
                    way.stage.kind = Kind::BackingOff;
                    way.happened.push(Happened::BackedOff);
                }
            }
        }
        way.since = now;
    }
    way
}

impl Way {
    /// Ends the pod for good.
    pub(super) fn end(&mut self, exit: Exit, now: Timestamp) {
        self.happened.push(Happened::Ended(exit));
        self.stage.kind = Kind::Finished;
        self.since = now;
        self.again = None;
    }

    fn restart(&mut self) {
        self.stage = Stage { kind: Kind::Running, restarts: self.stage.restarts.saturating_add(1) };
        self.happened.push(Happened::Started);
    }

    fn wake(&mut self, at: Timestamp, now: Timestamp) {
        if at > now {
            self.again = Some(self.again.map_or(at, |again| again.min(at)));
        }
    }

    /// How the containers ended last, if they did on this way.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.happened.iter().rev().find_map(|happened| match happened {
            Happened::Ended(exit) => Some(*exit),
            Happened::Started | Happened::BackedOff => None,
        })
    }
}

/// How long containers wait for their next start after they were restarted so often.
pub(super) fn back_off_after(restarts: i32) -> Duration {
    let doublings = u32::try_from(restarts - 1).unwrap_or(0).min(16);
    Duration::from_secs((FIRST_BACK_OFF << doublings).min(LONGEST_BACK_OFF))
}

fn ending(behaviour: &Behaviour, restarts: i32) -> Option<super::behaviour::Ending> {
    behaviour.ending.filter(|ending| ending.how_often == HowOften::EveryTime || restarts == 0)
}

fn restarts_after(pod: &Pod, code: i32) -> bool {
    match pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) {
        Some("Never") => false,
        Some("OnFailure") => code != 0,
        _ => true,
    }
}

fn deadline(pod: &Pod) -> Option<Timestamp> {
    let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
    let start = pod.status.as_ref()?.start_time.as_ref()?.0;
    start.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Whether a pod has come to its end.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

pub(super) fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn waiting_reason(status: &ContainerStatus) -> Option<&str> {
    status.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}
