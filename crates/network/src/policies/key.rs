//! Which policy is meant, the same in every cluster.

use std::fmt::{self, Display};

use koinon_control::Key;
use kube::core::{ApiResource, GroupVersionKind};

/// How many ledger pages there are. Fixed for ever: a policy is looked for on its page.
pub const PAGES: u8 = 64;

/// The two kinds of policies that span clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `ClusterNetworkPolicy`, for all namespaces.
    Cluster,
    /// Antrea's `NetworkPolicy`, for one namespace.
    Namespaced,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::Cluster, Kind::Namespaced];

    /// The short name that kubectl knows.
    pub fn short(self) -> &'static str {
        match self {
            Kind::Cluster => "acnp",
            Kind::Namespaced => "anp",
        }
    }

    /// How it is spelled in an object.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cluster => "ClusterNetworkPolicy",
            Kind::Namespaced => "NetworkPolicy",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Kind::Cluster => "clusternetworkpolicies",
            Kind::Namespaced => "networkpolicies",
        }
    }

    pub fn resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk(super::names::GROUP, super::names::VERSION, self.name());
        ApiResource::from_gvk_with_plural(&kind, self.plural())
    }

    /// The name of its CustomResourceDefinition.
    pub fn definition(self) -> String {
        format!("{}.{}", self.plural(), super::names::GROUP)
    }
}

/// Names a policy. The namespace is empty for a [`Kind::Cluster`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyKey {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl PolicyKey {
    pub fn cluster(name: &str) -> PolicyKey {
        PolicyKey { kind: Kind::Cluster, namespace: String::new(), name: name.into() }
    }

    pub fn namespaced(namespace: &str, name: &str) -> PolicyKey {
        PolicyKey { kind: Kind::Namespaced, namespace: namespace.into(), name: name.into() }
    }

    /// The policy of this kind under a key of its cluster.
    pub fn of(kind: Kind, key: &Key) -> PolicyKey {
        PolicyKey { kind, namespace: key.namespace.clone(), name: key.name.clone() }
    }

    /// Its key among the objects of its kind.
    pub fn object(&self) -> Key {
        Key::new(self.namespace.clone(), self.name.clone())
    }

    /// Reads what `Display` wrote.
    pub fn parse(text: &str) -> Option<PolicyKey> {
        let (kind, rest) = text.split_once('/')?;
        match kind {
            "acnp" if !rest.is_empty() && !rest.contains('/') => Some(PolicyKey::cluster(rest)),
            "anp" => {
                let (namespace, name) = rest.split_once('/')?;
                let good = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
                good.then(|| PolicyKey::namespaced(namespace, name))
            }
            _ => None,
        }
    }

    /// The page of the ledger that it is on: 32-bit FNV-1a over its text.
    pub fn page(&self) -> u8 {
        let mut hash = 0x811c_9dc5_u32;
        for byte in self.to_string().bytes() {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
        // The low bits of FNV alone spread short names badly.
        let mixed = hash ^ (hash >> 16);
        u8::try_from(mixed % u32::from(PAGES)).unwrap_or(0)
    }
}

impl Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Cluster => write!(f, "acnp/{}", self.name),
            Kind::Namespaced => write!(f, "anp/{}/{}", self.namespace, self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_as_it_is_written() {
        for key in [PolicyKey::cluster("web.v2"), PolicyKey::namespaced("prod", "web")] {
            assert_eq!(PolicyKey::parse(&key.to_string()), Some(key));
        }
        for bad in ["", "acnp/", "acnp/a/b", "anp/a", "anp//b", "anp/a/", "anp/a/b/c", "other/a"] {
            assert_eq!(PolicyKey::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_page_of_a_policy_never_changes() {
        // Written down: a release that put them elsewhere would forget who removed what.
        let pages: Vec<u8> = ["acnp/a", "anp/prod/web", "anp/prod/web-2"]
            .iter()
            .map(|text| PolicyKey::parse(text).unwrap().page())
            .collect();
        assert_eq!(pages, [21, 4, 8]);
    }
}
