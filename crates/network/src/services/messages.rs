//! Messages to users about a plan: what members do not agree on, who could not have a name.

use std::collections::BTreeSet;

use koinon_control::Key;
use koinon_control::events::Weight;
use koinon_fleet::ClusterId;

use super::address::shown;
use super::endpoints::Reached;
use super::model::{Family, Kind};
use super::ports::Decided;
use super::records::Occupant;
use super::view::{Member, Site};

/// More than so many conflicts nobody reads.
const MOST_CONFLICTS: usize = 20;

/// What to tell users about an object of the cluster that the plan is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    pub kind: Kind,
    pub about: Key,
    pub uid: String,
    pub weight: Weight,
    pub reason: &'static str,
    pub message: String,
}

impl Notice {
    /// Tells a Service that somebody else wanted its name.
    pub(super) fn name_taken(service: &Key, uid: String, message: String) -> Notice {
        let (kind, about) = (Kind::Service, service.clone());
        Notice { kind, about, uid, weight: Weight::Warning, reason: "NameTaken", message }
    }
}

/// What members do not agree on, in words for all of them.
pub(super) fn conflicts(members: &[&Member], decided: &Decided) -> Vec<String> {
    let mut conflicts = Vec::new();
    for (member, left_out) in members.iter().zip(&decided.left_out) {
        for why in left_out {
            let source = &member.source;
            conflicts.push(format!("{} {} in {}: {why}", source.kind.as_str(), source.key, source.cluster));
        }
    }
    if let (Some(oldest), true) = (members.first(), conflicts.is_empty() && decided.differ) {
        let source = &oldest.source;
        conflicts.push(format!(
            "members offer different ports; the federated Service has all of them, the oldest is {} in {}",
            source.key, source.cluster
        ));
    }
    conflicts.truncate(MOST_CONFLICTS);
    conflicts
}

pub(super) fn notices(
    here: &ClusterId,
    members: &[&Member],
    reached: &[Reached],
    decided: &Decided,
    conflicts: &[String],
) -> Vec<Notice> {
    let mut notices =
        on_local(here, members, |_| (!conflicts.is_empty()).then(|| ("PortConflict", conflicts.join("; "))));
    let families = |reached: &Reached| -> BTreeSet<Family> {
        reached.groups.iter().map(|group| group.family).filter(|family| *family != Family::Name).collect()
    };
    let used: Vec<_> = reached.iter().map(families).filter(|families| !families.is_empty()).collect();
    if used.windows(2).any(|pair| pair[0] != pair[1]) {
        let message = "members have different address families: by each family only some of them are reached";
        notices.extend(on_local(here, members, |_| Some(("FamiliesDiffer", message.to_owned()))));
    }
    for (member, reached) in members.iter().zip(reached).filter(|(member, _)| &member.source.cluster == here)
    {
        for flaw in &reached.flaws {
            notices.push(notice(member, flaw.reason, flaw.message.clone()));
        }
    }
    debug_assert_eq!(members.len(), decided.names.len());
    notices.sort();
    notices.dedup();
    notices
}

/// Tells members here of a federated Service for which one of them stands in, because it has its name: what it is like is
/// decided by that one alone.
pub(super) fn stand_in(here: &ClusterId, key: &Key, members: &[&Member], decided: &Decided) -> Vec<Notice> {
    let conflicts = conflicts(members, decided);
    let mut notices =
        on_local(here, members, |_| (!conflicts.is_empty()).then(|| ("PortConflict", conflicts.join("; "))));
    notices.extend(on_local(here, members, |member| {
        let stands_in = member.source.kind == Kind::Service && &member.source.key == key;
        let message = format!(
            "the Service {key} joins the federated one of its own name and stands in for it here: in this cluster that name \
             leads to its endpoints alone, and not to those of this Service; have both join another name"
        );
        (!stands_in).then_some(("StoodInFor", message))
    }));
    notices.sort();
    notices
}

/// Tells everybody who wanted the name that somebody else has it.
pub(super) fn taken(here: &ClusterId, key: &Key, members: &[&Member], site: &Site) -> Vec<Notice> {
    let message = format!(
        "the federated Service {key} cannot be here: a Service of that name is there already; rename one of them"
    );
    let mut notices = on_local(here, members, |_| Some(("NameTaken", message.clone())));
    let uid = match site.occupant.as_deref() {
        Some(Occupant::Plain { uid, .. }) => uid.clone(),
        Some(Occupant::Member(joining)) => joining.uid.clone(),
        Some(Occupant::Ours(_)) | None => return notices,
    };
    notices.push(Notice::name_taken(key, uid, message));
    notices
}

pub(super) fn on_local(
    here: &ClusterId,
    members: &[&Member],
    say: impl Fn(&Member) -> Option<(&'static str, String)>,
) -> Vec<Notice> {
    let local = members.iter().filter(|member| &member.source.cluster == here);
    local.filter_map(|member| say(member).map(|(reason, message)| notice(member, reason, message))).collect()
}

/// Tells a federated Service that a field of it is not known here.
pub(super) fn unsupported(key: &Key, uid: &str, value: &str) -> Notice {
    let message = format!(
        "this cluster does not take the trafficDistribution {}, which its oldest member has: it is left out here",
        shown(value)
    );
    let (kind, about, uid) = (Kind::Service, key.clone(), uid.to_owned());
    Notice { kind, about, uid, weight: Weight::Warning, reason: "FieldRefused", message }
}

pub(super) fn notice(member: &Member, reason: &'static str, message: String) -> Notice {
    Notice {
        kind: member.source.kind,
        about: member.source.key.clone(),
        uid: member.joining.uid.clone(),
        weight: Weight::Warning,
        reason,
        message,
    }
}
