//! Many clusters, most of which are alike, in few words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Clusters of which the same is to be said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alike<T> {
    /// Their names.
    pub clusters: Vec<String>,
    /// What is said of each.
    #[serde(flatten)]
    pub each: T,
}

/// Keeps what is said of a single cluster under its name, and says once what is the same for several.
pub fn fold<T: Clone + Ord>(clusters: &BTreeMap<String, T>) -> (BTreeMap<String, T>, Vec<Alike<T>>) {
    let mut names: BTreeMap<&T, Vec<&String>> = BTreeMap::new();
    for (name, said) in clusters {
        names.entry(said).or_default().push(name);
    }
    let (mut single, mut alike) = (BTreeMap::new(), Vec::new());
    for (said, names) in names {
        match names.as_slice() {
            [name] => drop(single.insert((*name).clone(), said.clone())),
            names => {
                alike.push(Alike { clusters: names.iter().copied().cloned().collect(), each: said.clone() })
            }
        }
    }
    (single, alike)
}

/// Says it again of each.
pub fn unfold<T: Clone>(mut single: BTreeMap<String, T>, alike: Vec<Alike<T>>) -> BTreeMap<String, T> {
    for Alike { clusters, each } in alike {
        single.extend(clusters.into_iter().map(|name| (name, each.clone())));
    }
    single
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_folded_unfolds() {
        let all = [("a", 1), ("b", 2), ("c", 1), ("d", 1)].map(|(name, said)| (name.to_owned(), said)).into();
        let (single, alike) = fold(&all);
        assert_eq!(single, [("b".to_owned(), 2)].into());
        assert_eq!(alike, [Alike { clusters: vec!["a".into(), "c".into(), "d".into()], each: 1 }]);
        assert_eq!(unfold(single, alike), all);
    }
}
