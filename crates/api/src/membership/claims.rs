//! What a cluster says of itself, whichever way the claims are spelled.

use std::collections::BTreeMap;

use super::ClusterClaim;

/// A claim that everybody understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WellKnown {
    /// Which cluster this is.
    Id,
    /// Which set of clusters it belongs to.
    ClusterSet,
    /// That it may lead members.
    Supervisor,
}

impl WellKnown {
    /// The claim's name, and other names for the same thing; the first found counts.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            WellKnown::Id => &["id.k8s.io", "cluster.clusterset.k8s.io"],
            WellKnown::ClusterSet => &["clusterSet.k8s.io", "clusterset.k8s.io"],
            WellKnown::Supervisor => &[
                "supervisor.antreaplus.tanzu-vmware.com",
                "supervisor.antreaplus.vmware-tanzu.com",
                "supervisor.antreaplus.vmware.com",
                "supervisor.antreaplus.tanzu.vmware.com",
                "supervisor.antreaplus.vmware-tanzue.com",
            ],
        }
    }

    const ALL: [WellKnown; 3] = [WellKnown::Id, WellKnown::ClusterSet, WellKnown::Supervisor];

    fn of(name: &str) -> Option<WellKnown> {
        WellKnown::ALL.into_iter().find(|known| known.names().contains(&name))
    }
}

/// The claims of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    by_name: BTreeMap<String, String>,
}

impl Claims {
    /// Reads all claims of a cluster. Of two objects that claim the same thing the one that comes first by
    /// the object's name counts, whatever order they arrive in.
    pub fn of<'a>(claims: impl IntoIterator<Item = &'a ClusterClaim>) -> Claims {
        let mut claims: Vec<_> = claims.into_iter().collect();
        claims.sort_by_key(|claim| claim.metadata.name.as_deref());
        let mut by_name = BTreeMap::new();
        for claim in claims {
            by_name.entry(claim.claim().to_owned()).or_insert_with(|| claim.value.clone());
        }
        Claims { by_name }
    }

    /// The same with at most so many claims beside those that everybody understands: the first by name.
    pub fn at_most(mut self, most: usize) -> Claims {
        let mut others = 0;
        self.by_name.retain(|name, _| {
            others += usize::from(WellKnown::of(name).is_none());
            WellKnown::of(name).is_some() || others <= most
        });
        self
    }

    pub fn get(&self, claim: WellKnown) -> Option<&str> {
        claim.names().iter().find_map(|name| self.by_name.get(*name)).map(String::as_str)
    }

    /// The ID that the cluster claims.
    pub fn id(&self) -> Option<&str> {
        self.get(WellKnown::Id).filter(|id| !id.is_empty())
    }

    pub fn cluster_set(&self) -> Option<&str> {
        self.get(WellKnown::ClusterSet)
    }

    /// Whether the cluster offers to lead members: it claims so, and does not say `false`.
    pub fn is_supervisor(&self) -> bool {
        self.get(WellKnown::Supervisor).is_some_and(|value| !value.eq_ignore_ascii_case("false"))
    }

    /// What is claimed under several names with different values, in words for people.
    pub fn disagreements(&self) -> Vec<String> {
        let mut told = Vec::new();
        for known in WellKnown::ALL {
            let mut claimed =
                known.names().iter().filter_map(|name| Some((*name, self.by_name.get(*name)?.as_str())));
            let Some((first, value)) = claimed.next() else { continue };
            let differ = claimed.filter(|(_, other)| *other != value);
            told.extend(differ.map(|(name, other)| {
                format!(
                    "the claims {first} and {name} are the same claim, but one says {value:?} and the other {other:?}: \
                     {first} counts; delete the other"
                )
            }));
        }
        told
    }

    /// Every claim; well-known ones under their first name.
    pub fn all(&self) -> BTreeMap<&str, &str> {
        let mut all = BTreeMap::new();
        for (name, value) in &self.by_name {
            match WellKnown::of(name) {
                None => drop(all.insert(name.as_str(), value.as_str())),
                Some(known) => {
                    if let Some(value) = self.get(known) {
                        all.insert(known.names()[0], value);
                    }
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(claims: &[(&str, Option<&str>, &str)]) -> Claims {
        let objects: Vec<_> = claims
            .iter()
            .map(|(object, name, value)| {
                let mut claim = ClusterClaim {
                    name: name.map(Into::into),
                    value: (*value).into(),
                    ..ClusterClaim::default()
                };
                claim.metadata.name = Some((*object).into());
                claim
            })
            .collect();
        Claims::of(&objects)
    }

    #[test]
    fn a_claim_is_read_under_every_name() {
        let by_object = claims(&[("id.k8s.io", None, "a"), ("clusterset.k8s.io", None, "set")]);
        let by_field =
            claims(&[("x", Some("cluster.clusterset.k8s.io"), "a"), ("y", Some("clusterSet.k8s.io"), "set")]);
        for read in [by_object, by_field] {
            assert_eq!(
                (read.id(), read.cluster_set(), read.is_supervisor()),
                (Some("a"), Some("set"), false)
            );
            assert_eq!(
                read.all().into_iter().collect::<Vec<_>>(),
                [("clusterSet.k8s.io", "set"), ("id.k8s.io", "a")]
            );
        }
    }

    #[test]
    fn a_supervisor_is_one_that_does_not_deny_it() {
        for (value, expected) in
            [("true", true), ("", true), ("yes", true), ("false", false), ("False", false)]
        {
            let read = claims(&[("supervisor.antreaplus.tanzu-vmware.com", None, value)]);
            assert_eq!(read.is_supervisor(), expected, "{value:?}");
        }
    }

    #[test]
    fn names_of_one_claim_that_differ_are_told() {
        let agree = claims(&[("id.k8s.io", None, "a"), ("cluster.clusterset.k8s.io", None, "a")]);
        assert_eq!(agree.disagreements(), Vec::<String>::new());
        let differ = claims(&[
            ("supervisor.antreaplus.vmware-tanzue.com", None, "true"),
            ("supervisor.antreaplus.vmware.com", None, "false"),
        ]);
        assert!(!differ.is_supervisor());
        assert_eq!(
            differ.disagreements(),
            [
                "the claims supervisor.antreaplus.vmware.com and supervisor.antreaplus.vmware-tanzue.com are the same claim, \
              but one says \"false\" and the other \"true\": supervisor.antreaplus.vmware.com counts; delete the other"
            ]
        );
        let alone = claims(&[("supervisor.antreaplus.vmware-tanzue.com", None, "true")]);
        assert!(alone.is_supervisor() && alone.disagreements().is_empty());
    }

    #[test]
    fn of_two_equal_claims_the_first_by_name_counts() {
        let one = claims(&[("b", Some("id.k8s.io"), "2"), ("a", Some("id.k8s.io"), "1")]);
        let other = claims(&[("a", Some("id.k8s.io"), "1"), ("b", Some("id.k8s.io"), "2")]);
        assert_eq!(one, other);
        assert_eq!(one.id(), Some("1"));
    }

    #[test]
    fn of_very_many_claims_the_first_and_the_well_known_stay() {
        let many: Vec<String> = (0..100).map(|number| format!("a{number:03}")).collect();
        let mut all: Vec<_> = many.iter().map(|name| (name.as_str(), None, "x")).collect();
        all.push(("id.k8s.io", None, "b"));
        let few = claims(&all).at_most(3);
        assert_eq!(few.id(), Some("b"));
        assert_eq!(few.all().into_keys().collect::<Vec<_>>(), ["a000", "a001", "a002", "id.k8s.io"]);
    }
}
