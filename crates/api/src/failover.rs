//! The annotation that says when a workload's replicas leave a cluster that does not answer.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::names::workloads::FAILOVER;

/// When replicas of a cluster that counts as offline go elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Failover {
    /// As soon as the cluster counts as offline.
    #[default]
    AtOnce,
    /// Once it has not answered for so long.
    After(Duration),
    /// Never: they wait for it.
    Never,
}

/// Why the annotation cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is neither never nor a time such as after=10m")]
pub struct Invalid {
    text: String,
}

impl Failover {
    /// Reads `never` or `after=10m`.
    pub fn parse(text: &str) -> Result<Failover, Invalid> {
        let invalid = || Invalid { text: text.to_owned() };
        let text = text.trim();
        if text == "never" {
            return Ok(Failover::Never);
        }
        let time = text.strip_prefix("after=").ok_or_else(invalid)?;
        let time: jiff::SignedDuration = time.trim().parse().map_err(|_| invalid())?;
        Duration::try_from(time).map(Failover::After).map_err(|_| invalid())
    }

    /// What an object's annotations say. What cannot be read runs nothing twice: the replicas wait.
    pub fn of(annotations: &BTreeMap<String, String>) -> Failover {
        let said = annotations.get(FAILOVER).map(|text| Failover::parse(text));
        said.map_or(Failover::AtOnce, |said| said.unwrap_or(Failover::Never))
    }

    /// What is wrong with the annotation.
    pub fn fault(annotations: &BTreeMap<String, String>) -> Option<String> {
        let invalid = Failover::parse(annotations.get(FAILOVER)?).err()?;
        let meanwhile = "replicas in clusters that do not answer wait for them meanwhile";
        Some(format!("the annotation {FAILOVER} cannot be used: {invalid}; {meanwhile}"))
    }

    /// For how much longer the replicas of a cluster that has not answered for `silent` wait for it; none if they do not.
    pub fn waits(self, silent: Duration) -> Option<Waits> {
        match self {
            Failover::AtOnce => None,
            Failover::Never => Some(Waits::ForGood),
            Failover::After(time) => time.checked_sub(silent).filter(|left| !left.is_zero()).map(Waits::For),
        }
    }
}

/// For how long replicas wait for a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// So long.
    For(Duration),
    /// Until it answers.
    ForGood,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn what_can_be_said() {
        for (text, said) in [
            ("never", Failover::Never),
            (" never ", Failover::Never),
            ("after=10m", Failover::After(10 * MINUTE)),
            ("after=1h30m", Failover::After(90 * MINUTE)),
            ("after=0s", Failover::After(Duration::ZERO)),
        ] {
            assert_eq!(Failover::parse(text), Ok(said), "{text}");
        }
        for text in ["", "always", "after=", "after=-1m", "after=soon", "10m", "after 10m"] {
            let annotations = [(FAILOVER.to_owned(), text.to_owned())].into();
            assert!(Failover::parse(text).is_err(), "{text}");
            assert_eq!(Failover::of(&annotations), Failover::Never);
            assert!(Failover::fault(&annotations).unwrap().contains("after=10m"));
        }
        assert_eq!(
            (Failover::of(&BTreeMap::new()), Failover::fault(&BTreeMap::new())),
            (Failover::AtOnce, None)
        );
    }

    #[test]
    fn replicas_wait_until_their_time_is_over() {
        let after = Failover::After(10 * MINUTE);
        assert_eq!(after.waits(MINUTE), Some(Waits::For(9 * MINUTE)));
        assert_eq!(after.waits(10 * MINUTE), None);
        assert_eq!(Failover::Never.waits(100 * MINUTE), Some(Waits::ForGood));
        assert_eq!(Failover::AtOnce.waits(MINUTE), None);
    }
}
