//! The order in which clusters are served: the heaviest first, equals by a hash.
//!
//! The hash is FNV-1 with 32 bits over the cluster's name and the workload's key, finished as murmur3
//! finishes. FNV alone mixes its last bytes badly: workloads called `web-0` to `web-9` with one replica each
//! would all meet in one cluster.

use std::cmp::Reverse;

/// Where a cluster stands; smaller is served earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank<'a> {
    weight: Reverse<i64>,
    hash: u32,
    name: &'a str,
}

impl<'a> Rank<'a> {
    /// The rank of a cluster for the workload with this key.
    pub fn new(weight: i64, name: &'a str, key: &str) -> Self {
        Rank { weight: Reverse(weight), hash: finish(fnv1(fnv1(FNV_BASIS, name), key)), name }
    }
}

const FNV_BASIS: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

fn fnv1(hash: u32, text: &str) -> u32 {
    text.bytes().fold(hash, |hash, byte| hash.wrapping_mul(FNV_PRIME) ^ u32::from(byte))
}

fn finish(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn known_values() {
        for (name, key, plain, finished) in [
            ("A", "", 0x050c_5d5e, 0xa55f_55dd),
            ("a", "default/web", 0x0738_57ea, 0xc389_8818),
            ("eu-west", "prod/api", 0x59d3_c787, 0xd831_f312),
        ] {
            assert_eq!(fnv1(fnv1(FNV_BASIS, name), key), plain, "{name} {key}");
            assert_eq!(Rank::new(1, name, key).hash, finished, "{name} {key}");
        }
    }

    #[test]
    fn weight_then_hash_then_name() {
        assert!(Rank::new(2, "A", "") < Rank::new(1, "C", ""));
        assert!(Rank::new(1, "C", "") < Rank::new(1, "A", ""), "the hash, not the alphabet");
        let twins = |name| Rank { weight: Reverse(1), hash: 7, name };
        assert!(twins("a") < twins("b"));
    }

    #[test]
    fn workloads_that_differ_in_their_last_byte_start_in_different_clusters() {
        let mut firsts: BTreeMap<&str, usize> = BTreeMap::new();
        for number in 0..10 {
            let key = format!("default/web-{number}");
            let first = ["a", "b", "c"].into_iter().min_by_key(|name| Rank::new(1, name, &key)).unwrap();
            *firsts.entry(first).or_default() += 1;
        }
        assert_eq!(firsts.len(), 3, "{firsts:?}");
    }
}
