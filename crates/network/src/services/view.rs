//! What a plan looks at: all members of one federated Service, and what is in the cluster it is made for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use koinon_fleet::{ClusterId, Knowledge};

use super::endpoints::Resolved;
use super::model::{Joining, Source};
use super::records::{Node, Occupant, OwnSlice, SourceSlice};

/// All clusters of the federation, as far as one federated Service is concerned.
pub type Clusters = BTreeMap<ClusterId, Cluster>;

/// What is known of one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Whether all its members are known. Who is not known may have others.
    pub known: bool,
    /// What becomes of endpoints that came from members that are not known.
    pub stance: Stance,
    /// The members that are known.
    pub members: Vec<Member>,
    /// Its nodes, where they matter.
    pub nodes: Arc<Vec<(String, Arc<Node>)>>,
}

/// What becomes of a cluster's endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stance {
    /// They are as they were when it was last heard of.
    #[default]
    Keep,
    /// They take no new connections while there are others.
    Drain,
    /// They go.
    Drop,
}

/// A Service or NativeService that joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub source: Source,
    pub joining: Arc<Joining>,
    /// Its EndpointSlices, by name.
    pub slices: Vec<(String, Arc<SourceSlice>)>,
    /// What becomes of its endpoints elsewhere.
    pub stance: Stance,
}

/// What there is in the cluster that a plan is made for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// Whether the namespace of the federated Service is there.
    pub namespace: bool,
    pub occupant: Option<Arc<Occupant>>,
    /// Generated EndpointSlices of the federated Service, by name.
    pub slices: BTreeMap<String, Arc<OwnSlice>>,
    /// What the names of load balancers lead to.
    pub resolved: Resolved,
    pub dns: Dns,
    /// Values of `trafficDistribution` that this cluster does not take.
    pub unsupported: BTreeSet<String>,
    pub locality: Locality,
}

/// Under which domain ExternalDNS is told of federated Services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Dns {
    /// Under none: what it was told by us is taken back.
    #[default]
    Nowhere,
    /// Whether anybody here looks for names outside the cluster is not known yet: what it was told stays.
    Unknown,
    Under(String),
}

/// What a cluster with a member of its own uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locality {
    /// Its own endpoints, even if none is ready.
    #[default]
    Strict,
    /// Its own endpoints while one of them is ready, else all.
    Failover,
}

/// How long what is known of a cluster that cannot be reached is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    pub stance: Stance,
    pub after: SignedDuration,
}

impl Default for Stale {
    fn default() -> Self {
        Stale { stance: Stance::Keep, after: SignedDuration::from_mins(5) }
    }
}

impl Stale {
    /// What becomes of a cluster's endpoints now, and when to look again. `away` says since when it cannot be reached,
    /// if it never was.
    pub fn judge(
        &self,
        now: Timestamp,
        knowledge: Knowledge,
        away: impl FnOnce() -> Option<Timestamp>,
    ) -> (Stance, Option<Timestamp>) {
        if self.stance == Stance::Keep {
            return (Stance::Keep, None);
        }
        let since = match knowledge {
            Knowledge::Complete => return (Stance::Keep, None),
            Knowledge::Stale { since } => Some(since),
            Knowledge::Unknown => away(),
        };
        let Some(since) = since else { return (Stance::Keep, None) };
        let due = since.saturating_add(self.after).unwrap_or(Timestamp::MAX);
        if now >= due { (self.stance, None) } else { (Stance::Keep, Some(due)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_away_long_enough_is_stale_whether_it_was_ever_known_or_not() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let stale = Stale { stance: Stance::Drop, after: SignedDuration::from_secs(60) };
        let since = at(1000);
        for knowledge in [Knowledge::Stale { since }, Knowledge::Unknown] {
            let away = || Some(since);
            assert_eq!(stale.judge(at(1059), knowledge, away), (Stance::Keep, Some(at(1060))));
            assert_eq!(stale.judge(at(1060), knowledge, away), (Stance::Drop, None));
            assert_eq!(Stale::default().judge(at(9999), knowledge, away), (Stance::Keep, None));
        }
        assert_eq!(stale.judge(at(9999), Knowledge::Complete, || Some(since)), (Stance::Keep, None));
        assert_eq!(stale.judge(at(9999), Knowledge::Unknown, || None), (Stance::Keep, None));
    }
}
