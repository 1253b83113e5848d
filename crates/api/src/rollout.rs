//! The annotations that steer an update over clusters: in which order, and how many at a time.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::num::NonZeroUsize;

/// The order in which clusters are updated: those named first, as named, the others alphabetically.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterOrder {
    named: Vec<String>,
}

/// How many clusters are updated at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxConcurrent {
    /// At most so many.
    Clusters(NonZeroUsize),
    /// All at once.
    All,
}

/// Why an annotation cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The order has nothing between two commas.
    #[error("the order {text:?} has an empty name: write the clusters separated by commas, as in b,a,c")]
    EmptyName {
        /// As it was written.
        text: String,
    },
    /// The order names one cluster twice.
    #[error("the order names {name:?} twice: name each cluster once")]
    Twice {
        /// The cluster.
        name: String,
    },
    /// Not a number of clusters.
    #[error("{text:?} is no number of clusters: write a whole number from 1, or all")]
    Concurrency {
        /// As it was written.
        text: String,
    },
}

impl ClusterOrder {
    /// Reads `b,a,c`. Nothing at all is the alphabetical order.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.trim().is_empty() {
            return Ok(ClusterOrder::default());
        }
        let mut named: Vec<String> = Vec::new();
        for name in text.split(',').map(str::trim) {
            if name.is_empty() {
                return Err(Invalid::EmptyName { text: text.to_owned() });
            }
            if named.iter().any(|earlier| earlier == name) {
                return Err(Invalid::Twice { name: name.to_owned() });
            }
            named.push(name.to_owned());
        }
        Ok(ClusterOrder { named })
    }

    /// Those that are named, in their order.
    pub fn named(&self) -> &[String] {
        &self.named
    }

    /// The names that no cluster of the federation has.
    pub fn unknown<'a>(&'a self, known: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = &'a str> {
        self.named.iter().map(String::as_str).filter(move |name| !known(name))
    }

    /// Puts clusters in order, by the name that `name` gives.
    pub fn sort_by_name<T>(&self, clusters: &mut [T], name: impl Fn(&T) -> &str) {
        let place: HashMap<&str, usize> =
            self.named.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let compare = |a: &str, b: &str| match (place.get(a), place.get(b)) {
            (Some(a), Some(b)) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => a.cmp(b),
        };
        clusters.sort_by(|a, b| compare(name(a), name(b)));
    }
}

impl Default for MaxConcurrent {
    fn default() -> Self {
        MaxConcurrent::Clusters(NonZeroUsize::MIN)
    }
}

impl MaxConcurrent {
    /// Reads a number from 1, or `all`.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let trimmed = text.trim();
        if trimmed.eq_ignore_ascii_case("all") {
            return Ok(MaxConcurrent::All);
        }
        trimmed
            .parse()
            .map(MaxConcurrent::Clusters)
            .map_err(|_| Invalid::Concurrency { text: text.to_owned() })
    }

    /// Whether one more may start beside `running`.
    pub fn allows(self, running: usize) -> bool {
        match self {
            MaxConcurrent::Clusters(most) => running < most.get(),
            MaxConcurrent::All => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_clusters_first_then_the_alphabet() {
        let order = ClusterOrder::parse(" c, a ").unwrap();
        let mut clusters = vec!["d", "b", "a", "c"];
        order.sort_by_name(&mut clusters, |name| name);
        assert_eq!(clusters, ["c", "a", "b", "d"]);
        assert_eq!(order.unknown(|name| name == "a").collect::<Vec<_>>(), ["c"]);
        assert_eq!(ClusterOrder::parse("").unwrap(), ClusterOrder::default());
    }

    #[test]
    fn a_bad_order_is_explained() {
        assert_eq!(ClusterOrder::parse("a,,b"), Err(Invalid::EmptyName { text: "a,,b".into() }));
        assert_eq!(ClusterOrder::parse("a,b,a"), Err(Invalid::Twice { name: "a".into() }));
    }

    #[test]
    fn how_many_at_a_time() {
        assert!(MaxConcurrent::default().allows(0));
        assert!(!MaxConcurrent::default().allows(1));
        assert!(MaxConcurrent::parse("3").unwrap().allows(2));
        assert!(MaxConcurrent::parse("All").unwrap().allows(1_000));
        for bad in ["0", "-1", "", "25%"] {
            assert!(MaxConcurrent::parse(bad).is_err(), "{bad:?}");
        }
    }
}
