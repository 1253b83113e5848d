//! Adoption: what a member runs under a workload's name before anything was placed there.
//!
//! Members' watches carry only objects with our label, so that their cost does not grow with what others run. An object that
//! somebody else made is found by a read of its name before the first placement ([`presence`]); it then counts as running, as any
//! of ours does, and moves away from it are make before break from the first moment. Whether it is taken over is the user's to say
//! ([`Policy`]).

mod difference;
mod presence;

use std::collections::BTreeMap;

use koinon_api::names::workloads;
use koinon_api::placement::{ClusterPlacement, ClusterState};

pub(crate) use self::difference::difference;
pub(crate) use self::presence::{Found, Presence};
use crate::messages::several;

/// Whether objects that somebody else made are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Policy {
    #[default]
    Always,
    /// Only where they say what the federated one says, apart from the count.
    IfSame,
    Never,
}

impl Policy {
    /// Reads the annotation. What cannot be read takes nothing over.
    pub(crate) fn of(annotations: &BTreeMap<String, String>) -> Policy {
        match annotations.get(workloads::TAKE_OVER).map(|text| text.trim()) {
            None | Some("always") => Policy::Always,
            Some("if-same") => Policy::IfSame,
            Some(_) => Policy::Never,
        }
    }

    /// What is wrong with the annotation.
    pub(crate) fn fault(annotations: &BTreeMap<String, String>) -> Option<String> {
        let text = annotations.get(workloads::TAKE_OVER)?.trim();
        let known = matches!(text, "always" | "if-same" | "never");
        (!known).then(|| {
            format!(
                "the annotation {} cannot be used: {text:?} is none of always, if-same and never",
                workloads::TAKE_OVER
            )
        })
    }

    /// Whether an object with these differences is left to whoever made it.
    pub(crate) fn withholds(self, differs: &[String]) -> bool {
        match self {
            Policy::Always => false,
            Policy::IfSame => !differs.is_empty(),
            Policy::Never => true,
        }
    }
}

/// Whether a member without an object of ours has to be asked by name before anything is decided about it. `last` is its place
/// in the last decision: a member that was looked at then, and had nothing, still has nothing for all that is known, and a write
/// that meets an object there is not forced.
pub(crate) fn is_due(last: Option<&ClusterPlacement>, policy: Policy) -> bool {
    let unknown = |last: &ClusterPlacement| {
        matches!(last.state, ClusterState::Unknown | ClusterState::Offline | ClusterState::Foreign)
    };
    policy != Policy::Always || last.is_none_or(|last| last.replicas > 0 || unknown(last))
}

/// The placement of a cluster whose object is left to whoever made it.
pub(crate) fn withheld(kind: &str, counts: Counts, differs: &[String], policy: Policy) -> ClusterPlacement {
    let said = match policy {
        Policy::Always => "always",
        Policy::IfSame => "if-same",
        Policy::Never => "never",
    };
    let change = if differs.is_empty() {
        "to take it over would change nothing but the count".to_owned()
    } else {
        format!("to take it over would change {}", several(differs, ", "))
    };
    let why = format!(
        "another {kind} of this name runs there with {} replicas, {} of them available, and is left as it is \
         ({}: {said}); {change}",
        counts.replicas,
        counts.available,
        workloads::TAKE_OVER,
    );
    ClusterPlacement { state: ClusterState::Foreign, why, ..ClusterPlacement::default() }
}

/// What an object of somebody else runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) replicas: i64,
    pub(crate) available: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        Policy::of(&[(workloads::TAKE_OVER.to_owned(), text.to_owned())].into())
    }

    #[test]
    fn what_cannot_be_read_takes_nothing_over() {
        assert_eq!(Policy::of(&BTreeMap::new()), Policy::Always);
        assert_eq!(
            ["always", "if-same", "never", "sometimes"].map(policy),
            [Policy::Always, Policy::IfSame, Policy::Never, Policy::Never]
        );
        let fault = |text: &str| Policy::fault(&[(workloads::TAKE_OVER.to_owned(), text.to_owned())].into());
        assert_eq!(fault("if-same"), None);
        assert!(fault("sometimes").unwrap().contains("none of always, if-same and never"));
    }

    #[test]
    fn only_what_differs_is_withheld_if_same() {
        let differs = ["spec.template".to_owned()];
        assert!(!Policy::Always.withholds(&differs));
        assert!(Policy::IfSame.withholds(&differs) && !Policy::IfSame.withholds(&[]));
        assert!(Policy::Never.withholds(&[]));
    }

    #[test]
    fn a_member_is_asked_once_and_again_when_it_may_have_changed() {
        let last = |replicas, state| ClusterPlacement { replicas, state, ..ClusterPlacement::default() };
        assert!(is_due(None, Policy::Always), "nobody has looked");
        assert!(!is_due(Some(&last(0, ClusterState::Ready)), Policy::Always));
        assert!(is_due(Some(&last(3, ClusterState::Ready)), Policy::Always), "it had some");
        assert!(is_due(Some(&last(0, ClusterState::Offline)), Policy::Always));
        assert!(is_due(Some(&last(0, ClusterState::Ready)), Policy::Never), "it is to be told of");
    }
}
