//! Federated ReplicaSets that mirror the revisions of a Deployment, for `kubectl rollout history` and `undo`.
//!
//! Counts come from members' Deployments, never from their ReplicaSets: the name of those depends on each
//! member's release of Kubernetes.

use std::collections::BTreeMap;

use super::input::{Desired, Local, Reach, Shadow, View};
use super::output::{ShadowWanted, Shadows};

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
            let (replicas, available) = sums.get(shadow.template.as_str()).copied().unwrap_or_default();
            ShadowWanted {
                name: shadow.name.clone(),
                template: shadow.template.clone(),
                revision: shadow.revision,
                replicas,
                available,
            }
        })
        .collect();
    Shadows { wanted, remove }
}

/// Replicas and available ones by template. A member that nobody can ask counts with what it had: a revision that it
/// may still run is not forgotten.
fn sums<'a>(known: &'a [Shadow], view: &'a View) -> BTreeMap<&'a str, (i64, i64)> {
    let mut sums: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for (name, member) in &view.members {
        let Some(local) = &member.local else { continue };
        let started = view.record.clusters.get(name);
        let from = started.and_then(|started| started.from.as_deref());
        let split = Split::of(local, started.is_some());
        let older = || {
            let before = |shadow: &&Shadow| Some(&shadow.template) != local.template.as_ref();
            known.iter().rev().find(before).map(|shadow| shadow.template.as_str())
        };
        let mut add = |template: Option<&'a str>, replicas: i64, available: i64| {
            if let Some(template) = template {
                let sum = sums.entry(template).or_default();
                *sum = (sum.0 + replicas, sum.1 + available);
            }
        };
        // An entry without replicas still says that the template is in use there.
        if split.new > 0 || local.spec_replicas > 0 {
            add(local.template.as_deref(), split.new, split.new_available);
        }
        if split.old > 0 {
            add(from.or_else(older), split.old, split.old_available);
        }
        if member.reach != Reach::Online {
            add(local.template.as_deref(), 0, 0);
        }
    }
    sums
}

/// A member's pods, by whether they are of the template that its Deployment has now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split {
    pub(super) new: i64,
    new_available: i64,
    old: i64,
    old_available: i64,
}

impl Split {
    /// `replaced` says that we changed the template: a status from before that speaks of the old one.
    pub(super) fn of(local: &Local, replaced: bool) -> Split {
        let new = if replaced && !local.is_observed() { 0 } else { local.updated.min(local.replicas) };
        let old = local.replicas - new;
        // Which of them are available is not told; old pods have had the time.
        let old_available = local.available.min(old);
        Split { new, new_available: local.available - old_available, old, old_available }
    }
}
