//! How endpoints are put into EndpointSlices: always the same way, so that one that comes or goes changes one slice.
//!
//! Endpoints are divided by the bits of a number that each address has of its own, as often as needed until a part
//! fits. No history is needed to find an endpoint's place again, and only a part that grows too large is divided anew.

use ring::digest::{SHA256, digest};

use super::model::Endpoint;

/// How many endpoints a slice holds, as Kubernetes' own controller does it.
pub const MOST: usize = 100;

/// One part of many endpoints: where it is among all, and what is in it.
pub type Part = (String, Vec<Endpoint>);

/// Divides endpoints into parts of at most [`MOST`].
pub fn pack(endpoints: Vec<Endpoint>) -> Vec<Part> {
    if endpoints.len() <= MOST {
        // Most are so few, and their numbers would be found for nothing.
        return whole(endpoints).into_iter().collect();
    }
    let numbered = endpoints.into_iter().map(|endpoint| (number(&endpoint.address), endpoint)).collect();
    let mut parts = Vec::new();
    divide(String::new(), numbered, &mut parts);
    parts
}

fn whole(mut endpoints: Vec<Endpoint>) -> Option<Part> {
    endpoints.sort();
    (!endpoints.is_empty()).then(|| (String::new(), endpoints))
}

fn divide(path: String, endpoints: Vec<(u64, Endpoint)>, parts: &mut Vec<Part>) {
    let depth = path.len() as u32;
    if endpoints.len() <= MOST {
        if !endpoints.is_empty() {
            let mut endpoints: Vec<Endpoint> = endpoints.into_iter().map(|(_, endpoint)| endpoint).collect();
            endpoints.sort();
            parts.push((path, endpoints));
        }
        return;
    }
    if depth == u64::BITS {
        // One address, over and over: whoever says so has no use for it.
        let mut endpoints: Vec<Endpoint> = endpoints.into_iter().map(|(_, endpoint)| endpoint).collect();
        endpoints.sort();
        endpoints.truncate(MOST);
        parts.push((path, endpoints));
        return;
    }
    let (ones, zeros) = endpoints.into_iter().partition(|(number, _)| number >> depth & 1 == 1);
    divide(format!("{path}0"), zeros, parts);
    divide(format!("{path}1"), ones, parts);
}

/// The number of an address. A digest, or somebody could choose addresses that cannot be divided.
fn number(address: &str) -> u64 {
    let digest = digest(&SHA256, address.as_bytes());
    let first: [u8; 8] = digest.as_ref()[..8].try_into().unwrap_or_default();
    u64::from_le_bytes(first)
}

/// A short name for many words, which nobody can make come out the same for other words.
pub fn short(words: &[&str]) -> String {
    let mut text = Vec::new();
    for word in words {
        // With its length, or `a` and `bc` would be `ab` and `c`.
        text.extend_from_slice(&(word.len() as u64).to_le_bytes());
        text.extend_from_slice(word.as_bytes());
    }
    let digest = digest(&SHA256, &text);
    digest.as_ref()[..10].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::services::model::Conditions;

    fn endpoint(number: u32) -> Endpoint {
        Endpoint {
            address: std::net::Ipv4Addr::from(0x0a00_0000 | number).to_string().into(),
            conditions: Conditions::of_ready(true),
            hostname: None,
            zone: None,
            node: None,
            home: None,
        }
    }

    #[test]
    fn few_are_one_part_and_many_are_parts_that_are_well_filled() {
        assert_eq!(pack((0..100).map(endpoint).collect()).len(), 1);
        let parts = pack((0..5000).map(endpoint).collect());
        assert!(parts.iter().all(|(_, part)| part.len() <= MOST));
        assert_eq!(parts.iter().map(|(_, part)| part.len()).sum::<usize>(), 5000);
        assert!(parts.len() < 110, "{}", parts.len());
        assert!(pack(Vec::new()).is_empty());
        assert_eq!(pack(vec![endpoint(1); 300]).iter().map(|(_, part)| part.len()).sum::<usize>(), MOST);
    }

    #[test]
    fn words_that_only_look_alike_have_other_names() {
        assert_ne!(short(&["prod", "web-api"]), short(&["prod-web", "api"]));
        assert_ne!(short(&["a", "bc"]), short(&["ab", "c"]));
        assert_eq!(short(&["a"]).len(), 20);
    }

    proptest! {
        #[test]
        fn the_order_does_not_matter_and_one_change_is_one_part(
            numbers in proptest::collection::btree_set(0u32..4000, 1..600),
            new in 4000u32..5000,
        ) {
            let all: Vec<Endpoint> = numbers.iter().copied().map(endpoint).collect();
            let mut turned = all.clone();
            turned.reverse();
            let before: BTreeMap<_, _> = pack(all.clone()).into_iter().collect();
            prop_assert_eq!(&before, &pack(turned).into_iter().collect());
            // One that is otherwise than before.
            let mut other = all.clone();
            other[0].conditions = Conditions::of_ready(false);
            let after: BTreeMap<_, _> = pack(other).into_iter().collect();
            prop_assert_eq!(before.iter().filter(|(path, part)| after.get(*path) != Some(part)).count(), 1);
            // One more: its part grows, or is divided in two.
            let mut more = all;
            more.push(endpoint(new));
            let after: BTreeMap<_, _> = pack(more).into_iter().collect();
            prop_assert!(before.iter().filter(|(path, part)| after.get(*path) != Some(part)).count() <= 1);
        }
    }
}
