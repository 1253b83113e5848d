//! An update before it happens: the same decisions, each step of which is taken to end well.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::input::{Desired, Local, Member, Record, View};
use super::output::{Step, Template};
use super::plan;
use crate::planner::Share;

/// The clusters that an update passes over, in the groups in which it starts them. Those that run nothing take the new
/// template at no cost, and are not among them.
pub fn foresee(now: Timestamp, desired: &Desired, view: &View) -> Vec<BTreeSet<String>> {
    let mut view = view.clone();
    let mut groups = Vec::new();
    // Each group has a cluster that was in none before.
    for _ in 0..=view.members.len() {
        let steps = plan(now, desired, &view).steps;
        let changed: BTreeSet<String> = steps
            .iter()
            .filter(|(name, step)| takes(desired, &view.members[*name], step))
            .map(|(name, _)| name.clone())
            .collect();
        if changed.is_empty() {
            break;
        }
        let runs =
            |name: &&String| view.members[*name].share.as_ref().is_some_and(|share| share.replicas > 0);
        let group: BTreeSet<String> = changed.iter().filter(runs).cloned().collect();
        for name in &changed {
            if let Some(member) = view.members.get_mut(name) {
                finish(desired, member);
            }
        }
        view.record = Record::default();
        groups.extend((!group.is_empty()).then_some(group));
    }
    groups
}

/// Whether this step gives a cluster another template.
fn takes(desired: &Desired, member: &Member, step: &Step) -> bool {
    let has = member.local.as_ref().and_then(|local| local.template.as_ref());
    step.template == Template::Wanted && member.local.is_some() && has != Some(&desired.template)
}

/// The cluster runs all that it should, of the wanted template.
fn finish(desired: &Desired, member: &mut Member) {
    let count = member.share.as_ref().map_or(0, Share::spec_replicas);
    member.local = Some(Local {
        template: Some(desired.template.clone()),
        spec_replicas: count,
        replicas: count,
        updated: count,
        ready: count,
        available: count,
        ..Local::default()
    });
}
