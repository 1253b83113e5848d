//! What no plan may ever do, checked against the view it was made from.
//!
//! This looks at the outcome only and shares nothing with the decision, so that a mistake there shows here.

use std::fmt;

use koinon_api::rollout::MaxConcurrent;

use super::input::{Counting, Desired, Member, Reach, Strategy, View};
use super::output::{Plan, Template};

/// Something that a plan must not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A step for a member of which nothing certain is known.
    Touched(String),
    /// A template changes while the Deployment is paused.
    ChangedWhilePaused(String),
    /// So many clusters would have their pods replaced at a time.
    TooMany(Vec<String>),
    /// A cluster starts although another makes no progress.
    StartedBehindStalled(String),
    /// A cluster's pods are to be replaced, and the record does not say so.
    NotRecorded(String),
    /// A cluster is asked for another count than its share.
    Count(String),
    /// A status that contradicts itself.
    Status(&'static str),
    /// Shadows without a single newest one for the wanted template, or one for a template that is only thought of.
    Revision,
    /// A shadow goes although its template is in use.
    RemovedInUse(String),
}

/// Everything that is wrong with a plan; nothing, if it is sound.
pub fn check(desired: &Desired, view: &View, plan: &Plan) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut replaced = Vec::new();
    for (name, step) in &plan.steps {
        let Some(member) = view.members.get(name).filter(|member| member.reach == Reach::Online) else {
            violations.push(Violation::Touched(name.clone()));
            continue;
        };
        let share = member.share.as_ref().map_or(0, |share| share.spec_replicas());
        let left = desired.counting == Counting::Member && member.local.is_some();
        if step.replicas != (!left).then_some(share) {
            violations.push(Violation::Count(name.clone()));
        }
        if replaces(desired, member, &step.template) {
            replaced.push(name.clone());
        }
    }
    if desired.paused {
        violations.extend(replaced.iter().cloned().map(Violation::ChangedWhilePaused));
    }
    let costly: Vec<String> = replaced
        .into_iter()
        .filter(|name| view.members[name].share.as_ref().is_some_and(|s| s.spec_replicas() > 0))
        .collect();
    violations.extend(concurrency(desired, view, plan, &costly));
    violations.extend(
        costly
            .into_iter()
            .filter(|name| !plan.record.clusters.contains_key(name))
            .map(Violation::NotRecorded),
    );
    violations.extend(status(plan));
    violations.extend(shadows(desired, view, plan));
    violations
}

/// Whether the member would have another template than it has.
fn replaces(desired: &Desired, member: &Member, template: &Template) -> bool {
    let has = member.local.as_ref().map(|local| local.template.as_deref());
    match template {
        Template::AsItIs => false,
        Template::Wanted => has.is_some_and(|has| has != Some(desired.template.as_str())),
        Template::Revision(hash) => has.is_some_and(|has| has != Some(hash.as_str())),
    }
}

fn concurrency(desired: &Desired, view: &View, plan: &Plan, costly: &[String]) -> Vec<Violation> {
    let (Strategy::RollingUpdate { .. }, MaxConcurrent::Clusters(most)) =
        (desired.strategy, desired.concurrent)
    else {
        return Vec::new();
    };
    // Those that were in the middle of something before are disturbed already and may be redirected.
    let halfway = |name: &String| {
        view.record.clusters.contains_key(name)
            || view.members[name].local.as_ref().is_some_and(|local| local.replicas > local.updated)
    };
    let fresh: Vec<String> = costly.iter().filter(|name| !halfway(name)).cloned().collect();
    let online =
        |name: &&String| view.members.get(*name).is_some_and(|member| member.reach != Reach::Offline);
    let disturbed = plan.record.clusters.keys().filter(online).count();
    let mut violations = Vec::new();
    if !fresh.is_empty() && disturbed > most.get() {
        violations.push(Violation::TooMany(plan.record.clusters.keys().cloned().collect()));
    }
    let gave_up = |member: &Member| {
        member.reach == Reach::Online
            && member.local.as_ref().is_some_and(|local| {
                local.template.as_ref() == Some(&desired.template)
                    && local.is_observed()
                    && local.progress_failed.is_some()
                    && (local.updated < local.replicas
                        || local.available + local.stuck() < local.spec_replicas)
            })
    };
    if view.members.values().any(gave_up) {
        violations.extend(fresh.into_iter().map(Violation::StartedBehindStalled));
    }
    violations
}

fn status(plan: &Plan) -> Vec<Violation> {
    let status = &plan.status;
    let rules = [
        (status.updated <= status.replicas, "more updated than there are"),
        (status.updated >= 0 && status.replicas >= 0, "counts below zero"),
        (
            status.conditions.iter().all(|condition| condition.reason != "NewReplicaSetAvailable")
                || plan.started.is_empty(),
            "complete while a cluster starts",
        ),
    ];
    rules.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| Violation::Status(what)).collect()
}

fn shadows(desired: &Desired, view: &View, plan: &Plan) -> Vec<Violation> {
    let mut violations = Vec::new();
    let newest = plan.shadows.wanted.iter().max_by_key(|shadow| shadow.revision);
    let unique = newest.is_some_and(|newest| {
        plan.shadows.wanted.iter().filter(|shadow| shadow.revision == newest.revision).count() == 1
    });
    let is_wanted = newest.is_some_and(|newest| newest.template == desired.template);
    let known = view.shadows.iter().any(|shadow| shadow.template == desired.template);
    let sound =
        if desired.paused && !known { newest.is_none() || unique && !is_wanted } else { unique && is_wanted };
    if !sound {
        violations.push(Violation::Revision);
    }
    for name in &plan.shadows.remove {
        let template = view.shadows.iter().find(|shadow| shadow.name == *name).map(|shadow| &shadow.template);
        let in_use = view.members.values().any(|member| {
            member
                .local
                .as_ref()
                .is_some_and(|local| local.template.as_ref() == template && local.replicas > 0)
        });
        if in_use || template == Some(&desired.template) {
            violations.push(Violation::RemovedInUse(name.clone()));
        }
    }
    violations
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Touched(name) => {
                write!(f, "{name} would be written although nothing certain is known of it")
            }
            Violation::ChangedWhilePaused(name) => {
                write!(f, "{name} would get another template while paused")
            }
            Violation::TooMany(names) => write!(f, "too many clusters at a time: {}", names.join(", ")),
            Violation::StartedBehindStalled(name) => {
                write!(f, "{name} would start although another is stalled")
            }
            Violation::NotRecorded(name) => write!(f, "{name} would be updated without a record"),
            Violation::Count(name) => write!(f, "{name} would get another count than its share"),
            Violation::Status(what) => write!(f, "the status says: {what}"),
            Violation::Revision => f.write_str("the wanted template is not the one newest revision"),
            Violation::RemovedInUse(name) => write!(f, "the shadow {name} would go although it is in use"),
        }
    }
}
