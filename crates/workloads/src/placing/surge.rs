//! How many more replicas there may be while some move.

use std::fmt;
use std::str::FromStr;

/// A number of replicas, or a part of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surge {
    /// So many.
    Count(u32),
    /// So many of a hundred.
    Percent(u32),
}

/// Why a text is no surge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a number of replicas nor a part of them: write for example 3 or 25%")]
pub struct BadSurge(String);

impl Surge {
    /// The number for so many replicas, rounded up as Kubernetes does. One at least: with none, nothing could move.
    pub fn of(self, replicas: i64) -> i64 {
        let most = match self {
            Surge::Count(count) => i64::from(count),
            Surge::Percent(percent) => {
                let part = i128::from(replicas.max(0)) * i128::from(percent);
                i64::try_from((part + 99) / 100).unwrap_or(i64::MAX)
            }
        };
        most.max(1)
    }
}

impl Default for Surge {
    fn default() -> Self {
        Surge::Percent(25)
    }
}

impl fmt::Display for Surge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Surge::Count(count) => write!(f, "{count}"),
            Surge::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for Surge {
    type Err = BadSurge;

    fn from_str(text: &str) -> Result<Self, BadSurge> {
        let read = match text.trim().strip_suffix('%') {
            Some(percent) => percent.parse().map(Surge::Percent),
            None => text.trim().parse().map(Surge::Count),
        };
        read.map_err(|_| BadSurge(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_parts() {
        assert_eq!("25%".parse::<Surge>().unwrap().of(50), 13);
        assert_eq!("3".parse::<Surge>().unwrap().of(50), 3);
        assert_eq!("0".parse::<Surge>().unwrap().of(50), 1);
        assert_eq!("10%".parse::<Surge>().unwrap().of(0), 1);
        for bad in ["", "%", "-1", "a", "1.5"] {
            assert!(bad.parse::<Surge>().is_err(), "{bad:?}");
        }
    }
}
