//! Replicas that have no cluster. They are no progress: what is said of the update then follows the Deployment's own deadline, as in
//! one cluster whose pods cannot be created.

use std::time::Duration;

use jiff::Timestamp;

use super::input::{Desired, Member, Reach, Said, View};
use super::member_state::elapsed;
use crate::messages::several;
use crate::planner::{Limit, Reason};

/// What is said of an update whose clusters have all that they were given, though that is not all there should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It has ended before, and counts that change later are no update.
    Ended,
    /// It may still come to an end. After this long it has failed, if it has a deadline.
    Waiting(Option<Duration>),
    /// It has failed, for this reason.
    Failed(String),
}

/// Judges an update that lacks so many replicas of those that are wanted. `ended` says that it had ended before.
pub(super) fn judge(now: Timestamp, desired: &Desired, view: &View, missing: i64, ended: bool) -> Verdict {
    let counted = format!("{missing} of {} replicas", desired.replicas);
    if is_wished(view) {
        // More time brings none of them: whoever waits for it is told at once.
        let limits = several(told(view, |member| Some(member.share.as_ref()?.reason.to_string())), "; ");
        let fix = "raise maxReplicas or a weight, or ask for fewer";
        return Verdict::Failed(format!("{counted} have no cluster by the preferences ({limits}): {fix}"));
    }
    if ended {
        return Verdict::Ended;
    }
    let failed = || {
        let reasons = several(told(view, why), "; ");
        let reasons = if reasons.is_empty() { reasons } else { format!(": {reasons}") };
        Verdict::Failed(format!("{counted} found no cluster{reasons}"))
    };
    match (view.said, desired.progress_deadline) {
        (Said::Failed, Some(_)) => failed(),
        (Said::Progressing(since), Some(deadline)) => match deadline.checked_sub(elapsed(since, now)) {
            Some(left) if !left.is_zero() => Verdict::Waiting(Some(left)),
            _ => failed(),
        },
        // It is said for the first time now.
        (_, deadline) => Verdict::Waiting(deadline),
    }
}

/// How many replicas wait for clusters that are offline, as the user wants.
pub(super) fn waiting(view: &View) -> i64 {
    let offline = view.members.values().filter(|member| member.reach == Reach::Offline);
    offline.filter_map(|member| Some(member.share.as_ref()?.replicas)).sum()
}

/// Whether no cluster lacks anything but the user's leave to have more.
fn is_wished(view: &View) -> bool {
    let has_all = |member: &Member| {
        let Some(share) = &member.share else { return false };
        let wished = match &share.reason {
            Reason::NoPreference => true,
            Reason::Own | Reason::Waits => false,
            Reason::Parts(parts) => match parts.limit {
                Some(Limit::Maximum(_)) => true,
                Some(Limit::Capacity(_)) => false,
                None => parts.weight == 0,
            },
        };
        wished && share.overflow == 0 && member.reach == Reach::Online
    };
    !view.members.is_empty() && view.members.values().all(has_all)
}

/// What keeps replicas from a member, in its own words where it has any.
fn why(member: &Member) -> Option<String> {
    if member.reach == Reach::Offline {
        let waits = member.share.as_ref().filter(|share| share.replicas > 0);
        return Some(waits.map_or_else(|| "it is offline".to_owned(), |share| share.reason.to_string()));
    }
    let local = member.local.as_ref();
    let failing = local.and_then(|local| local.failing.as_ref());
    let failing = failing.map(|message| format!("pods cannot be created: {message}"));
    let gave_up = || local.and_then(|local| local.progress_failed.clone());
    let is_bound = |reason: &Reason| matches!(reason, Reason::Parts(parts) if parts.limit.is_some());
    let share = || Some(member.share.as_ref().filter(|share| is_bound(&share.reason))?.reason.to_string());
    failing.or_else(|| member.refused.clone()).or_else(gave_up).or_else(share)
}

fn told(view: &View, what: impl Fn(&Member) -> Option<String>) -> Vec<String> {
    if view.members.is_empty() {
        return vec!["no cluster takes part in it".to_owned()];
    }
    view.members.iter().filter_map(|(name, member)| Some(format!("{name}: {}", what(member)?))).collect()
}
