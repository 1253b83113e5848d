//! What a StatefulSet needs next: pods made, mended or deleted, in the order of their ordinals.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::claims::{self, Find, Work};
use super::identity::{
    give_identity, give_storage, has_identity, has_storage, new_pod, ordinal, ordinals, replicas, revision,
};
use super::status;
use crate::replicasets::next_of;
use crate::replicasets::pods::{is_available, is_ready, is_terminal, phase};
use crate::revisions;

/// What is known of one set.
pub(super) struct Look<'a> {
    pub(super) now: Timestamp,
    pub(super) set: &'a StatefulSet,
    /// The revision that its pods had, and the one that they shall have.
    pub(super) current: &'a ControllerRevision,
    pub(super) update: &'a ControllerRevision,
    pub(super) collisions: i32,
    /// Its pods.
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) claim: Find<'a>,
}

/// What to do about one set: the stages one after the other, then its status. A stage that fails ends the round.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) stages: Vec<Stage>,
    /// The status that it should have, unless it has it already.
    pub(super) status: Option<StatefulSetStatus>,
    pub(super) look_again: Option<Duration>,
}

/// Steps and the pace at which they are taken.
#[derive(Debug, PartialEq)]
pub(super) struct Stage {
    pub(super) pace: Pace,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    OneByOne,
    /// In batches that double, as long as nothing fails.
    Burst,
}

/// One change for one pod.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Makes the claims that are missing, then the pod.
    Create {
        pod: Box<Pod>,
        claims: Work,
    },
    /// Makes the claims that a pod waits for.
    Claims {
        pod: Arc<Pod>,
        claims: Work,
    },
    /// Puts right what a pod says of itself, and whose its claims are.
    Update {
        pod: Arc<Pod>,
        to: Box<Pod>,
        claims: Work,
    },
    Delete {
        pod: Arc<Pod>,
        why: &'static str,
    },
}

/// Whether the next pod may be looked at.
#[derive(PartialEq)]
enum Flow {
    Continue,
    Stop,
}

/// One place of a set: its pod, or none yet.
struct Place {
    ordinal: i32,
    pod: Option<Arc<Pod>>,
}

pub(super) fn plan(look: &Look<'_>) -> Plan {
    let mut draft = Draft::of(look);
    if look.set.metadata.deletion_timestamp.is_none() {
        draft.fill();
    }
    let current_gone = draft.updating.len();
    let status = status::status(look, current_gone);
    let look_again = status::look_again(look.set, &status).map(|seconds| {
        let longest = Duration::from_secs(seconds.unsigned_abs().into());
        next_of(look.now, seconds, look.pods).unwrap_or(longest)
    });
    let pace = draft.pace;
    let stages = [
        Stage { pace, steps: draft.replicas },
        Stage { pace, steps: draft.claims },
        Stage { pace, steps: draft.condemned },
        Stage { pace: Pace::OneByOne, steps: draft.updating },
    ];
    Plan {
        stages: stages.into_iter().filter(|stage| !stage.steps.is_empty()).collect(),
        status: status::is_news(look.set, &status).then_some(status),
        look_again,
    }
}

struct Draft<'a> {
    look: &'a Look<'a>,
    pace: Pace,
    places: Vec<Place>,
    /// Pods beyond the range, the highest ordinal first.
    beyond: Vec<Arc<Pod>>,
    replicas: Vec<Step>,
    claims: Vec<Step>,
    condemned: Vec<Step>,
    updating: Vec<Step>,
}

impl<'a> Draft<'a> {
    fn of(look: &'a Look<'a>) -> Draft<'a> {
        let set = look.set;
        let policy = set.spec.as_ref().and_then(|spec| spec.pod_management_policy.as_deref());
        let pace = if policy == Some("Parallel") { Pace::Burst } else { Pace::OneByOne };
        let range = ordinals(set);
        let mut places: Vec<Place> = range.clone().map(|ordinal| Place { ordinal, pod: None }).collect();
        let mut beyond = Vec::new();
        for pod in look.pods {
            match ordinal(pod) {
                Some(ordinal) if range.contains(&ordinal) => {
                    places[(ordinal - range.start) as usize].pod = Some(pod.clone());
                }
                Some(_) => beyond.push(pod.clone()),
                None => {}
            }
        }
        beyond.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
        Draft {
            look,
            pace,
            places,
            beyond,
            replicas: Vec::new(),
            claims: Vec::new(),
            condemned: Vec::new(),
            updating: Vec::new(),
        }
    }

    fn is_available(&self, pod: &Pod) -> bool {
        let seconds = self.look.set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        is_available(pod, seconds, self.look.now)
    }

    fn is_unavailable(&self, pod: Option<&Arc<Pod>>) -> bool {
        pod.is_none_or(|pod| is_terminating(pod) || !self.is_available(pod))
    }

    /// Goes through all pods: those that there should be, those that there should not be, and those of another
    /// revision. One by one, it goes no further than to the first that is not as it should be.
    fn fill(&mut self) {
        let places = std::mem::take(&mut self.places);
        let mut flow = Flow::Continue;
        for place in &places {
            flow = self.keep(place);
            if flow == Flow::Stop && self.pace == Pace::OneByOne {
                break;
            }
        }
        self.places = places;
        if flow == Flow::Stop && self.pace == Pace::OneByOne {
            return;
        }
        if self.condemn() == Flow::Stop && self.pace == Pace::OneByOne {
            return;
        }
        self.update();
    }

    /// Looks after one of the pods that there should be.
    fn keep(&mut self, place: &Place) -> Flow {
        let (set, find) = (self.look.set, self.look.claim);
        let Some(pod) = &place.pod else {
            let pod = self.new_pod(place.ordinal);
            if claims::is_stale(set, &pod, find) {
                return Flow::Stop;
            }
            let mut claims = claims::missing(set, &pod, find);
            claims.extend(claims::misowned(set, &pod, find));
            self.replicas.push(Step::Create { pod: Box::new(pod), claims });
            return Flow::Stop;
        };
        // Also one that succeeded: how a pod that was evicted ended says nothing of whether it was done.
        if is_terminal(pod) {
            if !is_terminating(pod) {
                self.replicas.push(Step::Delete { pod: pod.clone(), why: "it has ended" });
            }
            return Flow::Stop;
        }
        if phase(pod) == "Pending" {
            let mut claims = claims::missing(set, pod, find);
            claims.extend(claims::misowned(set, pod, find));
            if !claims.is_nothing() {
                self.replicas.push(Step::Claims { pod: pod.clone(), claims });
            }
        }
        let waits = is_terminating(pod) || !is_running_and_ready(pod) || !self.is_available(pod);
        if waits && self.pace == Pace::OneByOne {
            return Flow::Stop;
        }
        let mut claims = claims::misowned(set, pod, find);
        if has_identity(set, pod) && has_storage(set, pod) && claims.is_nothing() {
            return Flow::Continue;
        }
        let mut to = Pod::clone(pod);
        if !has_identity(set, pod) {
            give_identity(&mut to);
        }
        if !has_storage(set, pod) {
            give_storage(set, &mut to);
            claims.extend(claims::missing(set, pod, find));
        }
        self.replicas.push(Step::Update { pod: pod.clone(), to: Box::new(to), claims });
        Flow::Continue
    }

    /// Lets go of the pods beyond the range.
    fn condemn(&mut self) -> Flow {
        let (set, find) = (self.look.set, self.look.claim);
        for pod in &self.beyond {
            let claims = claims::misowned(set, pod, find);
            if !claims.is_nothing() {
                self.claims.push(Step::Claims { pod: pod.clone(), claims });
            }
        }
        let places = self.places.iter().map(|place| place.pod.as_ref());
        let first_unavailable = places
            .chain(self.beyond.iter().rev().map(Some))
            .find(|pod| self.is_unavailable(*pod))
            .map(|pod| pod.map(|pod| pod.metadata.name.clone()));
        for pod in &self.beyond {
            if is_terminating(pod) {
                if self.pace == Pace::OneByOne {
                    return Flow::Stop;
                }
                continue;
            }
            let well = is_running_and_ready(pod) && self.is_available(pod);
            let is_first = first_unavailable == Some(Some(pod.metadata.name.clone()));
            if self.pace == Pace::OneByOne && !well && !is_first {
                return Flow::Stop;
            }
            self.condemned.push(Step::Delete { pod: pod.clone(), why: "the set was scaled down" });
            if self.pace == Pace::OneByOne {
                return Flow::Stop;
            }
        }
        Flow::Continue
    }

    /// Lets go of the pods of another revision, from the highest ordinal down to the partition.
    fn update(&mut self) {
        let strategy = self.look.set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return;
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
        let least = usize::try_from(partition).unwrap_or(0).min(self.places.len());
        let target = self.look.update.metadata.name.as_deref().unwrap_or_default();
        let most = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let is_old = |pod: &Arc<Pod>| revision(pod) != target && !is_terminating(pod);
        let delete = |pod: &Arc<Pod>| Step::Delete { pod: pod.clone(), why: "it is of another revision" };
        let Some(most) = most else {
            for place in self.places[least..].iter().rev() {
                if let Some(pod) = place.pod.as_ref().filter(|pod| is_old(pod)) {
                    self.updating.push(delete(pod));
                    return;
                }
                if self.is_unavailable(place.pod.as_ref()) {
                    return;
                }
            }
            return;
        };
        let unavailable = self.places.iter().filter(|place| self.is_unavailable(place.pod.as_ref())).count();
        let room = max_unavailable(most, replicas(self.look.set)).saturating_sub(unavailable);
        let old = self.places[least..].iter().rev().filter_map(|place| place.pod.as_ref());
        self.updating = old.filter(|pod| is_old(pod)).take(room).map(delete).collect();
    }

    /// The pod of an ordinal that has none. Below the partition, and below what was not yet updated, it comes back as
    /// it was.
    fn new_pod(&self, ordinal: i32) -> Pod {
        let set = self.look.set;
        let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let is_rolling = strategy.and_then(|one| one.type_.as_deref()) == Some("RollingUpdate");
        let old = match rolling {
            Some(rolling) => rolling.partition.unwrap_or(0),
            None if is_rolling => set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0),
            None => 0,
        };
        let of = if ordinal < ordinals(set).start.saturating_add(old) {
            self.look.current
        } else {
            self.look.update
        };
        let template = revisions::template(of).unwrap_or_else(|| own_template(set));
        new_pod(set, template, of.metadata.name.as_deref().unwrap_or_default(), ordinal)
    }
}

fn own_template(set: &StatefulSet) -> PodTemplateSpec {
    set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default()
}

pub(super) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

pub(super) fn is_running_and_ready(pod: &Pod) -> bool {
    phase(pod) == "Running" && is_ready(pod)
}

/// How many pods may be down during an update: at least one, so that it moves.
fn max_unavailable(most: &IntOrString, replicas: i32) -> usize {
    let number = match most {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%').and_then(|number| number.parse().ok()).unwrap_or(0);
            (percent * i64::from(replicas) / 100).try_into().unwrap_or(i32::MAX)
        }
    };
    usize::try_from(number).unwrap_or(0).max(1)
}

impl Work {
    fn extend(&mut self, more: Work) {
        self.create.extend(more.create);
        self.own.extend(more.own);
        self.leaving.extend(more.leaving);
        self.conflicting.extend(more.conflicting);
    }
}

/// The pods that count: those with an ordinal.
pub(super) fn counted<'a>(look: &Look<'a>) -> impl Iterator<Item = &'a Arc<Pod>> {
    let pods: &'a [Arc<Pod>] = look.pods;
    pods.iter().filter(|pod| ordinal(pod).is_some())
}
