//! Why a cluster has as many replicas as it has, as data and as a sentence.

use std::fmt;

use serde::Serialize;

/// Why a cluster has its part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Reason {
    /// Neither an entry of its own nor one for all.
    NoPreference,
    /// It decides that for itself.
    Own,
    /// It is offline, and by the user's leave its replicas wait for it.
    Waits,
    /// What its part is made of.
    Parts(Parts),
}

/// What a part is made of; `minimum`, `kept` and `share` add up to it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Parts {
    /// Replicas as its minimum.
    pub minimum: i64,
    /// What that minimum should be.
    pub minimum_wanted: i64,
    /// Why it got less than its minimum.
    pub cut: Option<MinimumCut>,
    /// Replicas that ran there and stay.
    pub kept: i64,
    /// Replicas that ran there and are too many now.
    pub given_up: i64,
    /// Replicas for its weight.
    pub share: i64,
    /// That weight.
    pub weight: i64,
    /// All clusters' weights together.
    pub weights: i128,
    /// What kept it from having more.
    pub limit: Option<Limit>,
    /// Replicas that would go there if it had room.
    pub waiting: i64,
}

/// Why a cluster got less than its minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum MinimumCut {
    /// It has no room.
    Capacity,
    /// Clusters before it took the last replicas.
    Replicas,
}

/// What keeps a cluster from having more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Limit {
    /// Its `maxReplicas`.
    Maximum(i64),
    /// What it can run.
    Capacity(i64),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoPreference => f.write_str("no preference names it, and there is none for \"*\""),
            Reason::Own => f.write_str("it decides for itself how many"),
            Reason::Waits => f.write_str("its replicas wait for it (koinon.dev/failover)"),
            Reason::Parts(parts) => parts.fmt(f),
        }
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut made_of = Vec::new();
        if self.minimum > 0 || self.minimum_wanted > 0 {
            made_of.push(match self.cut {
                None => format!("{} as its minimum", self.minimum),
                Some(MinimumCut::Capacity) => {
                    format!("{} of its minimum of {}", self.minimum, self.minimum_wanted)
                }
                Some(MinimumCut::Replicas) => format!(
                    "{} of its minimum of {}, as no more replicas were left",
                    self.minimum, self.minimum_wanted
                ),
            });
        }
        if self.kept > 0 {
            made_of.push(format!("{} kept where they run", self.kept));
        }
        if self.share > 0 {
            made_of.push(format!("{} for its weight of {} in {}", self.share, self.weight, self.weights));
        }
        match (made_of.is_empty(), self.weight, self.limit) {
            (false, ..) => f.write_str(&made_of.join(", "))?,
            (true, 0, _) => f.write_str("its weight is 0")?,
            (true, weight, None) => {
                write!(f, "no replica was left for its weight of {weight} in {}", self.weights)?;
            }
            (true, _, Some(_)) => f.write_str("none")?,
        }
        if self.given_up > 0 {
            write!(f, "; {} too many are given up", self.given_up)?;
        }
        match self.limit {
            Some(Limit::Maximum(most)) => write!(f, "; its maximum is {most}")?,
            Some(Limit::Capacity(0)) => f.write_str("; it has no room")?,
            Some(Limit::Capacity(most)) => write!(f, "; it has room for {most}")?,
            None => {}
        }
        match self.waiting {
            0 => Ok(()),
            1 => f.write_str("; 1 more would go there"),
            waiting => write!(f, "; {waiting} more would go there"),
        }
    }
}
