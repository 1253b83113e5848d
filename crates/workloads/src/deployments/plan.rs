//! What is to be done about one federated Deployment, from what is seen of it, its shadows and the members.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use koinon_api::names::workloads;
use koinon_api::placement::{ClusterPlacement, ClusterState, Placement};
use koinon_api::rollout::MaxConcurrent;
use kube::ResourceExt as _;

use super::budget::{Budget, Claim, Part, Used};
use super::read;
use super::snapshot::Seen;
use crate::events::{self, Told};
use crate::intent::{Intent, intent};
use crate::members::{DeploymentRecord, waits_for};
use crate::messages::several;
use crate::metrics::Counts;
use crate::placing::{self, Placed, Surge, Wanted, place};
use crate::rollout::{
    self, Condition, Counting, Desired, Member, Phase, Reach, Record, Said, Shadow, Strategy, View,
};
use crate::takeover::{self, Counts as Runs, Found, Policy};
use crate::writing::Why;

/// How things are done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) surge: Surge,
    pub(super) patience: Duration,
}

/// What is known of a Deployment beside itself.
pub(super) struct Known<'a> {
    pub(super) members: &'a BTreeMap<String, Seen>,
    /// Objects of somebody else that are not taken over: these clusters have no part in it.
    pub(super) withheld: &'a BTreeMap<String, Arc<Found<DeploymentRecord>>>,
    pub(super) shadows: Vec<Shadow>,
    pub(super) record: Record,
    /// What it last said of its update.
    pub(super) progress: Said,
    /// Where the replicas should be by the last decision.
    pub(super) before: Option<Placement>,
    /// What is written down of that.
    pub(super) said: Option<Placement>,
}

/// What was decided.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) desired: Desired,
    pub(super) plan: rollout::Plan,
    pub(super) placement: Placement,
    /// The part of the budget of clusters for which the user's own words do not do.
    pub(super) parts: BTreeMap<String, Part>,
    pub(super) told: Vec<Told>,
    /// What is wrong with what the user says.
    pub(super) faults: Vec<Condition>,
    /// What members cannot have.
    pub(super) failure: Option<Condition>,
    /// What each cluster says that cannot create its pods.
    pub(super) uncreated: BTreeMap<String, String>,
    /// How many replicas it should say, where members count for themselves and it says another number.
    pub(super) follows: Option<i64>,
    /// Why each member would be written to if it has nothing.
    pub(super) missing: BTreeMap<String, Why>,
    pub(super) look_again: Option<Duration>,
}

impl Decision {
    /// The replicas by state, for whoever measures.
    pub(super) fn counts(&self) -> Counts {
        let clusters = || self.placement.clusters.values();
        Counts {
            wanted: self.desired.replicas,
            placed: clusters().map(|one| one.desired).sum(),
            ready: self.plan.status.ready,
            available: self.plan.status.available,
            stuck: clusters().map(|one| one.unschedulable).sum(),
        }
    }
}

pub(super) fn decide(
    now: Timestamp,
    rules: Rules,
    deployment: &Deployment,
    spec: &DeploymentSpec,
    known: &Known<'_>,
) -> Decision {
    let before = known.before.as_ref();
    let replicas = i64::from(spec.replicas.unwrap_or(1));
    let intent = intent(deployment.annotations(), workloads::DEPLOYMENT_PREFERENCES, replicas, before);
    let (desired, faults) = desired(deployment, spec, intent.counting);
    let budget = budget(spec);
    let key = format!("{}/{}", deployment.namespace().unwrap_or_default(), deployment.name_any());
    let wanted = Wanted {
        key: &key,
        generation: desired.generation,
        replicas: intent.replicas,
        preferences: &intent.preferences,
        counting: intent.counting,
        surge: rules.surge,
        cap: is_updated(&desired, known).then(|| budget.of(desired.replicas).surge),
        patience: rules.patience,
    };
    let placed = place(now, &wanted, &seen(&desired, known), before);
    let view = view(known, &placed, &desired);
    let desired = counted(desired, &view);
    let plan = rollout::plan(now, &desired, &view);
    debug_assert_eq!(rollout::check(&desired, &view, &plan), []);
    let mut placement = placement(&wanted, &desired, &view, &plan, &placed, known);
    intent.keep_offline(&mut placement, before);
    let policy = Policy::of(deployment.annotations());
    placement.clusters.extend(known.withheld.iter().map(|(name, found)| {
        let counts = Runs { replicas: found.record.replicas, available: found.record.available };
        (name.clone(), takeover::withheld("Deployment", counts, &found.differs, policy))
    }));
    let mut told = if intent.fault.is_none() {
        // What is written down is what users were told, also where a later decision is not written yet.
        events::tell(known.said.as_ref(), &placement, replicas)
    } else {
        Vec::new()
    };
    told.extend(events::not_taken_over(known.said.as_ref(), &placement));
    let pauses = known.members.values().filter_map(|seen| seen.refused.as_ref()?.pause);
    let waits = known.members.values().filter_map(|seen| waits_for(seen.waits));
    let look_again = placed.look_again.into_iter().chain(plan.look_again).chain(pauses).chain(waits).min();
    let parts = parts(&desired, budget, &view, &plan);
    let missing = known.members.iter().filter(|(_, seen)| seen.record.is_none()).map(|(name, seen)| {
        let last = before.and_then(|before| before.clusters.get(name));
        (name.clone(), Why::missing(last, seen.took))
    });
    let missing = missing.collect();
    let faults = conditions(&intent, faults);
    let failure = failure(known.members);
    let uncreated = uncreated(known.members);
    let follows = follows(&desired, &view).filter(|count| *count != replicas);
    Decision {
        faults,
        failure,
        uncreated,
        follows,
        missing,
        desired,
        plan,
        placement,
        parts,
        told,
        look_again,
    }
}

/// What members ask for in all, where that is theirs to say and every one of them is known: as an autoscaler writes the count of
/// what it scales, or `kubectl rollout status` would wait for replicas that nobody wants.
fn follows(desired: &Desired, view: &View) -> Option<i64> {
    let mut there = view.members.values().filter(|member| member.reach != Reach::Offline).peekable();
    there.peek()?;
    let is_known = |member: &Member| {
        let has_none = member.share.as_ref().is_none_or(|share| share.replicas == 0);
        member.reach == Reach::Online && (has_none || member.local.is_some())
    };
    (desired.counting == Counting::Member && there.all(is_known)).then_some(desired.replicas)
}

/// Whether pods are replaced anywhere, or are about to be, with new ones that may come first. Who is offline is updated when it is
/// back, and nobody waits for that.
fn is_updated(desired: &Desired, known: &Known<'_>) -> bool {
    let is_behind = |seen: &Seen| seen.record.is_some() && seen.template.as_ref() != Some(&desired.template);
    let is_due = |(name, seen): (&String, &Seen)| {
        let started = known.record.clusters.contains_key(name);
        seen.reach != Reach::Offline && (started || (!desired.paused && is_behind(seen)))
    };
    desired.strategy != Strategy::Recreate && known.members.iter().any(is_due)
}

/// The members as placing needs them. One that was started and is not finished may have as many more as its own strategy says.
fn seen(desired: &Desired, known: &Known<'_>) -> BTreeMap<String, placing::Member> {
    let member = |(name, seen): (&String, &Seen)| {
        let started = known.record.clusters.get(name);
        let replaced = started.filter(|_| desired.strategy != Strategy::Recreate);
        let replaces = replaced.map(|_| seen.record.as_ref().map_or(0, |record| record.surge));
        (name.clone(), seen.member(started.and_then(|started| started.room), replaces))
    };
    known.members.iter().map(member).collect()
}

/// What the user wants, with as many clusters at a time as the budget has parts for, and what is wrong with how it is said.
pub(crate) fn desired(
    deployment: &Deployment,
    spec: &DeploymentSpec,
    counting: Counting,
) -> (Desired, Vec<String>) {
    let (mut desired, faults) = read::desired(deployment, spec, counting);
    desired.concurrent = bounded(&desired, budget(spec));
    (desired, faults)
}

/// Where members count for themselves, what they ask for is what there should be.
fn counted(desired: Desired, view: &View) -> Desired {
    if desired.counting == Counting::Federation {
        return desired;
    }
    let shares = view.members.values().filter_map(|member| member.share.as_ref());
    Desired { replicas: shares.map(|share| share.replicas).sum(), ..desired }
}

fn view(known: &Known<'_>, placed: &Placed, desired: &Desired) -> View {
    let before = known.before.as_ref().filter(|before| before.observed_generation == desired.generation);
    let members = known.members.iter().map(|(name, seen)| {
        let spot = placed.clusters.get(name);
        let share = spot.map(|spot| spot.share_now());
        let last = before.and_then(|before| before.clusters.get(name));
        let local = seen.local(spot, last.map(|last| (last, desired.template.as_str())));
        (name.clone(), Member { reach: seen.reach(), share, local, refused: seen.refuses() })
    });
    View {
        members: members.collect(),
        shadows: known.shadows.clone(),
        record: known.record.clone(),
        said: known.progress,
    }
}

fn budget(spec: &DeploymentSpec) -> Budget {
    let rolling = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    Budget {
        max_unavailable: read::amount(rolling.and_then(|one| one.max_unavailable.as_ref())),
        max_surge: read::amount(rolling.and_then(|one| one.max_surge.as_ref())),
    }
}

/// As many clusters at a time as the user wants, and the budget has parts for.
fn bounded(desired: &Desired, budget: Budget) -> MaxConcurrent {
    if desired.strategy == Strategy::Recreate {
        return desired.concurrent;
    }
    let most = NonZeroUsize::new(budget.clusters(desired.replicas)).unwrap_or(NonZeroUsize::MIN);
    match desired.concurrent {
        MaxConcurrent::Clusters(wanted) => MaxConcurrent::Clusters(wanted.min(most)),
        MaxConcurrent::All => MaxConcurrent::Clusters(most),
    }
}

/// The clusters whose pods are being replaced share the budget; what is missing elsewhere, and what moves have added, has used
/// some of it already.
fn parts(desired: &Desired, budget: Budget, view: &View, plan: &rollout::Plan) -> BTreeMap<String, Part> {
    if desired.strategy == Strategy::Recreate {
        return BTreeMap::new();
    }
    let share = |member: &Member| member.share.as_ref().map_or(0, |share| share.replicas);
    let short = |member: &Member| {
        let available = member.local.as_ref().map_or(0, |local| local.available);
        (share(member) - available).max(0)
    };
    // Who was just asked for less still has what it is to end, but for what only waited there.
    let has = |member: &Member| {
        let overflow = member.share.as_ref().map_or(0, |share| share.overflow);
        member.local.as_ref().map_or(0, |local| local.replicas - overflow)
    };
    let claim = |member: &Member| Claim {
        share: share(member),
        short: short(member),
        more: (has(member) - share(member)).max(0),
    };
    let updating: BTreeMap<&str, Claim> = plan
        .steps
        .iter()
        .filter(|(_, step)| matches!(step.phase, Phase::Updating(_) | Phase::Stalled(_)))
        .map(|(name, _)| (name.as_str(), &view.members[name]))
        .filter(|(_, member)| member.local.is_some())
        .map(|(name, member)| (name, claim(member)))
        .collect();
    let there = || view.members.iter().filter(|(_, member)| member.reach != Reach::Offline);
    let others = there().filter(|(name, _)| !updating.contains_key(name.as_str()));
    let there = there().map(|(name, member)| match updating.contains_key(name.as_str()) {
        true => share(member),
        false => share(member).max(has(member)),
    });
    let used = Used {
        missing: others.map(|(_, member)| short(member)).sum(),
        added: (there.sum::<i64>() - desired.replicas).max(0),
    };
    let parts = budget.parts(desired.replicas, &updating, used);
    parts.into_iter().filter_map(|(name, part)| Some((name.to_owned(), part?))).collect()
}

fn placement(
    wanted: &Wanted<'_>,
    desired: &Desired,
    view: &View,
    plan: &rollout::Plan,
    placed: &Placed,
    known: &Known<'_>,
) -> Placement {
    let mut placement = rollout::placement(desired, view, plan);
    for (name, entry) in &mut placement.clusters {
        if let Some(spot) = placed.clusters.get(name) {
            // What it should have in the end, not on the way there.
            entry.desired = spot.share.replicas;
            entry.overflow = spot.share.overflow;
            if let Some(held) = spot.held {
                entry.why = format!("{}; {held}", entry.why);
                if entry.state == ClusterState::Ready {
                    entry.state = ClusterState::Progressing;
                }
            }
        }
        let seen = known.members.get(name);
        if let Some(refused) = seen.and_then(|seen| seen.refused.as_ref()) {
            entry.why = format!("{}; it {}", entry.why, refused.message);
        }
        let record = seen.and_then(|seen| seen.record.as_ref());
        if let Some(failing) = record.and_then(|record| record.failing.as_ref()) {
            entry.why = format!("{}; pods cannot be created: {}", entry.why, failing.message);
        }
        // Where its controller gave up, that says it already.
        let told = entry.state == ClusterState::Stalled;
        if let Some(startup) = seen.and_then(|seen| seen.startup.as_ref()).filter(|_| !told) {
            entry.why = format!("{}; {startup}", entry.why);
        }
        let last = known.before.as_ref().and_then(|before| before.clusters.get(name));
        let unknown = seen.is_some_and(|seen| seen.record.is_none() && seen.reach != Reach::Online);
        // Nothing is known of it at the moment: what was known last stays. Of one that was not heard of since the role began, so does
        // all that was said of it; it is told of once it counts as offline.
        if let Some(last) = last.filter(|_| unknown) {
            let ClusterPlacement { replicas, ready, available, updated, .. } = *last;
            *entry = ClusterPlacement { replicas, ready, available, updated, ..entry.clone() };
            if entry.desired == last.desired && seen.is_some_and(Seen::is_unheard) {
                *entry = last.clone();
            }
        }
    }
    for name in wanted.preferences.clusters.keys().filter(|name| *name != "*") {
        placement.clusters.entry(name.clone()).or_insert_with(|| ClusterPlacement {
            state: ClusterState::Unknown,
            why: "it is no member of the federation; its preference holds once it joins".to_owned(),
            ..ClusterPlacement::default()
        });
    }
    placement
}

/// The members that cannot create pods, and what they say.
fn uncreated(members: &BTreeMap<String, Seen>) -> BTreeMap<String, String> {
    let failing = |(name, seen): (&String, &Seen)| {
        let failing = seen.record.as_ref()?.failing.as_ref()?;
        Some((name.clone(), failing.message.to_string()))
    };
    members.iter().filter_map(failing).collect()
}

/// What members refuse, and the pods that cannot be created there.
fn failure(members: &BTreeMap<String, Seen>) -> Option<Condition> {
    let failures = members.iter().filter_map(|(name, seen)| {
        // Once it may be asked again it is, and says so again.
        let refused = seen.refused.as_ref().filter(|refused| refused.pause.is_some());
        let refused = refused.map(|refused| refused.message.as_str());
        let failing = seen.record.as_ref().and_then(|record| record.failing.as_ref());
        let message = refused.or_else(|| failing.map(|failing| &*failing.message))?;
        Some(format!("{name}: {message}"))
    });
    let message = several(failures, "; ");
    let condition =
        |message| Condition { kind: "ReplicaFailure", status: "True", reason: "FailedCreate", message };
    (!message.is_empty()).then(|| condition(message))
}

fn conditions(intent: &Intent, faults: Vec<String>) -> Vec<Condition> {
    let condition = |kind, message| Condition { kind, status: "False", reason: "Malformed", message };
    let preferences = intent.fault.clone().map(|fault| condition("PreferencesValid", fault));
    let rollout = (!faults.is_empty()).then(|| condition("RolloutValid", faults.join("; ")));
    preferences.into_iter().chain(rollout).collect()
}
