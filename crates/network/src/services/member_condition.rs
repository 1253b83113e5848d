//! The condition `koinon.dev/Federated` of a member Service: what goes wrong, and that it went right again. No IO, no clock.
//!
//! A member that never had any trouble says nothing: it takes part as its annotation asks, and a write to every one of
//! them would tell nobody anything.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The type of the condition.
pub const STANDING: &str = "koinon.dev/Federated";

/// What users are told, the worst first: the reason of the event, and status and reason of the condition.
const TROUBLES: [(&str, &str, &str); 10] = [
    ("InvalidFederatedName", "False", "InvalidName"),
    ("TooManyMembers", "False", "TooManyMembers"),
    ("NameTaken", "False", "NameTaken"),
    ("Refused", "False", "Refused"),
    ("NoPorts", "False", "NoPorts"),
    ("NoAddress", "False", "NoAddress"),
    ("LoadBalancerPending", "False", "LoadBalancerPending"),
    ("SliceNameTaken", "False", "NameTaken"),
    // It takes part, but not in its own cluster.
    ("StoodInFor", "True", "StoodInFor"),
    // It takes part, but for some of its ports.
    ("PortConflict", "True", "Conflict"),
];

/// How much is known of what a member joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// All of it.
    Complete,
    /// Somebody with whom it does not agree may be out of sight.
    Partial,
}

/// What a member should say of itself from now on, where that is not what it says. `told` is what its users are told, as
/// reason and message.
pub fn standing(
    now: Timestamp,
    said: Option<&Condition>,
    told: &[(&str, &str)],
    completeness: Completeness,
) -> Option<Condition> {
    let trouble = TROUBLES.iter().find_map(|(event, status, reason)| {
        let (_, message) = told.iter().find(|(one, _)| one == event)?;
        Some((*status, *reason, *message))
    });
    let (status, reason, message) = match (trouble, said) {
        (Some(trouble), _) => trouble,
        (None, None) => return None,
        // Not to see trouble is not to have none.
        (None, Some(_)) if completeness == Completeness::Partial => return None,
        (None, Some(_)) => ("True", "Joined", "it takes part"),
    };
    let is_said = |one: &&Condition| {
        (one.status.as_str(), one.reason.as_str(), one.message.as_str()) == (status, reason, message)
    };
    if said.filter(is_said).is_some() {
        return None;
    }
    let since = said.filter(|one| one.status == status).map(|one| one.last_transition_time.clone());
    Some(Condition {
        type_: STANDING.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: None,
        last_transition_time: since.unwrap_or(Time(now)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(
        said: Option<&Condition>,
        told: &[(&str, &str)],
        completeness: Completeness,
    ) -> Option<Condition> {
        standing(Timestamp::UNIX_EPOCH, said, told, completeness)
    }

    #[test]
    fn trouble_is_said_and_that_it_is_over() {
        assert_eq!(said(None, &[], Completeness::Complete), None, "nothing to say");
        assert_eq!(said(None, &[("FamiliesDiffer", "x")], Completeness::Complete), None, "for events only");
        let both = [("PortConflict", "port"), ("NameTaken", "name")];
        let taken = said(None, &both, Completeness::Complete).unwrap();
        assert_eq!((&*taken.status, &*taken.reason, &*taken.message), ("False", "NameTaken", "name"));
        assert_eq!(said(Some(&taken), &both, Completeness::Complete), None, "it says so already");
        let disputed = said(Some(&taken), &both[..1], Completeness::Partial).unwrap();
        assert_eq!((&*disputed.status, &*disputed.reason), ("True", "Conflict"));
        assert_eq!(said(Some(&disputed), &[], Completeness::Partial), None, "it may not be over");
        let over = said(Some(&disputed), &[], Completeness::Complete).unwrap();
        assert_eq!((&*over.status, &*over.reason), ("True", "Joined"));
        assert_eq!(said(Some(&over), &[], Completeness::Complete), None);
    }
}
