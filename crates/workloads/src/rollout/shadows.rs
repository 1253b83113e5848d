//! Federated ReplicaSets that mirror the revisions of a Deployment, for `kubectl rollout history` and `undo`.
//!
//! Counts come from members' Deployments, never from their ReplicaSets: the name of those depends on each
//! member's release of Kubernetes.

use std::collections::BTreeMap;

use super::input::{Desired, Local, Reach, Shadow, View};
use super::output::{ShadowWanted, Shadows};
use super::status::probes;

pub(super) fn wanted(desired: &Desired, view: &View) -> Shadows {
    let mut known: Vec<Shadow> = view.shadows.clone();
    let newest = known.iter().map(|shadow| shadow.revision).max().unwrap_or_default();
    match known.iter_mut().find(|shadow| shadow.template == desired.template) {
        Some(shadow) if shadow.revision == newest => {}
        // A template that is used again becomes the newest revision, and its old number is gone.
        Some(shadow) => shadow.revision = newest + 1,
        // What is only thought of while paused ran nowhere, and nobody can want to go back to it.
        None if desired.paused => {}
        None => known.push(Shadow {
            name: format!("{}-{}", desired.name, desired.template),
            template: desired.template.clone(),
            revision: newest + 1,
        }),
    }
    known.sort_by(|a, b| (a.revision, &a.name).cmp(&(b.revision, &b.name)));

    let sums = sums(&known, view);
    let idle = |shadow: &&Shadow| {
        shadow.template != desired.template && !sums.contains_key(shadow.template.as_str())
    };
    let too_many = known.iter().filter(idle).count().saturating_sub(desired.revision_history_limit);
    let remove: Vec<String> =
        known.iter().filter(idle).take(too_many).map(|shadow| shadow.name.clone()).collect();

    let wanted = known
        .iter()
        .filter(|shadow| !remove.contains(&shadow.name))
        .map(|shadow| {
            let Sum { replicas, ready, available } =
                sums.get(shadow.template.as_str()).copied().unwrap_or_default();
            ShadowWanted {
                name: shadow.name.clone(),
                template: shadow.template.clone(),
                revision: shadow.revision,
                replicas,
                ready,
                available,
            }
        })
        .collect();
    Shadows { wanted, remove }
}

/// Pods of one template.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    replicas: i64,
    ready: i64,
    available: i64,
}

/// Replicas by template, without those that only wait for room, as in the Deployment's own status. A member that nobody can ask counts with what it had: a revision that it
/// may still run is not forgotten.
fn sums<'a>(known: &'a [Shadow], view: &'a View) -> BTreeMap<&'a str, Sum> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for (name, member) in &view.members {
        let Some(local) = &member.local else { continue };
        let started = view.record.clusters.get(name);
        let from = started.and_then(|started| started.from.as_deref());
        let split = Split::of(local, started.is_some());
        let older = || {
            let before = |shadow: &&Shadow| Some(&shadow.template) != local.template.as_ref();
            known.iter().rev().find(before).map(|shadow| shadow.template.as_str())
        };
        let mut add = |template: Option<&'a str>, more: Sum| {
            if let Some(template) = template {
                let sum = sums.entry(template).or_default();
                sum.replicas += more.replicas;
                sum.ready += more.ready;
                sum.available += more.available;
            }
        };
        // An entry without replicas still says that the template is in use there.
        if split.new > 0 || local.spec_replicas > 0 {
            let replicas = (split.new - probes(member)).max(split.new_ready);
            let more = Sum { replicas, ready: split.new_ready, available: split.new_available };
            add(local.template.as_deref(), more);
        }
        if split.old > 0 {
            let (ready, available) = (split.old_ready, split.old_available);
            add(from.or_else(older), Sum { replicas: split.old, ready, available });
        }
        if member.reach != Reach::Online {
            add(local.template.as_deref(), Sum::default());
        }
    }
    sums
}

/// A member's pods, by whether they are of the template that its Deployment has now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split {
    pub(super) new: i64,
    new_ready: i64,
    new_available: i64,
    old: i64,
    old_ready: i64,
    old_available: i64,
}

impl Split {
    /// `replaced` says that we changed the template: a status from before that speaks of the old one.
    pub(super) fn of(local: &Local, replaced: bool) -> Split {
        let new = if replaced && !local.is_observed() { 0 } else { local.updated.min(local.replicas) };
        let old = local.replicas - new;
        // Which of them are ready or available is not told; old pods have had the time.
        let (old_ready, old_available) = (local.ready.min(old), local.available.min(old));
        let (new_ready, new_available) = (local.ready - old_ready, local.available - old_available);
        Split { new, new_ready, new_available, old, old_ready, old_available }
    }
}
