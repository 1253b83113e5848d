//! Ranges of addresses: which pieces and which addresses of them are still free.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses that begin with the same bits, such as `10.244.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    first: IpAddr,
    prefix: u8,
}

impl Range {
    /// The range of all addresses that share the first `prefix` bits of `address`.
    pub fn new(address: IpAddr, prefix: u8) -> Range {
        let prefix = prefix.min(bits(address));
        let host_bits = u32::from(bits(address) - prefix);
        let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
        Range { first: with_number(address, number(address) & mask), prefix }
    }

    /// The `index`-th address, unless the range is smaller than that.
    fn address(&self, index: u128) -> Option<IpAddr> {
        (index < self.size()).then(|| with_number(self.first, number(self.first) + index))
    }

    fn size(&self) -> u128 {
        1u128.checked_shl(u32::from(bits(self.first) - self.prefix)).unwrap_or(u128::MAX)
    }

    fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && Range::new(address, self.prefix).first == self.first
    }

    fn overlaps(&self, other: &Range) -> bool {
        self.contains(other.first) || other.contains(self.first)
    }

    /// The first piece, large enough for the pods of a node, that touches none of `used`.
    pub(super) fn free_piece(&self, pods: u32, used: &[Range]) -> Option<Range> {
        // Twice as many addresses as pods, as clusters do, so that an address rests before it is used again.
        let needed = (2 * u128::from(pods)).next_power_of_two().max(256).ilog2() as u8;
        let host_bits = if self.first.is_ipv4() { needed } else { 64 };
        let prefix = bits(self.first).checked_sub(host_bits).filter(|prefix| *prefix >= self.prefix)?;
        let pieces = (0..1u128 << (prefix - self.prefix).min(32)).map(|index| {
            let first = with_number(self.first, number(self.first) + (index << host_bits));
            Range { first, prefix }
        });
        pieces.into_iter().find(|piece| !used.iter().any(|used| used.overlaps(piece)))
    }

    /// The next address after `last` that nobody has: round and round, so that an address rests before it is
    /// used again. The first stands for the range and the second for the gateway.
    pub(super) fn free_address(&self, last: Option<IpAddr>, used: &BTreeSet<IpAddr>) -> Option<IpAddr> {
        let after =
            last.filter(|last| self.contains(*last)).map_or(1, |last| number(last) - number(self.first));
        // Among so many candidates one is free, or all are taken.
        let candidates = (used.len() as u128 + 4).min(self.size());
        // The last address of an IPv4 range is for everybody on it.
        let end = if self.first.is_ipv4() { self.size() - 1 } else { self.size() };
        (1..=candidates)
            .map(|step| (after + step) % self.size())
            .filter(|index| (2..end).contains(index))
            .filter_map(|index| self.address(index))
            .find(|address| !used.contains(address))
    }
}

impl Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// What is wrong with the text of a range.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no range of addresses: write it like 10.244.0.0/16 or fd00:10:244::/56")]
pub struct NotARange(String);

impl FromStr for Range {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Range, NotARange> {
        let wrong = || NotARange(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        if prefix > bits(address) {
            return Err(wrong());
        }
        Ok(Range::new(address, prefix))
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// The address of the same family with this number.
fn with_number(like: IpAddr, number: u128) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4((number as u32).into()),
        IpAddr::V6(_) => IpAddr::V6(number.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Range {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_are_read_and_written_as_people_do() {
        for (text, expected) in [
            ("10.244.0.0/16", "10.244.0.0/16"),
            ("10.244.3.7/24", "10.244.3.0/24"),
            ("fd00:10:244::/56", "fd00:10:244::/56"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(range(text).to_string(), expected);
        }
        for wrong in ["", "10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/-1", "fd00::/129"] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_node_gets_the_first_piece_that_is_free() {
        let all = range("10.244.0.0/16");
        let piece = |pods, used: &[&str]| {
            let used: Vec<Range> = used.iter().map(|used| range(used)).collect();
            all.free_piece(pods, &used).map(|piece| piece.to_string())
        };
        assert_eq!(piece(110, &[]).as_deref(), Some("10.244.0.0/24"));
        assert_eq!(piece(110, &["10.244.0.0/24", "10.244.2.0/24"]).as_deref(), Some("10.244.1.0/24"));
        assert_eq!(piece(500, &["10.244.0.0/24"]).as_deref(), Some("10.244.4.0/22"));
        assert_eq!(piece(110, &["10.0.0.0/8"]), None);
        assert_eq!(piece(100_000, &[]), None);
        let six = range("fd00:10:244::/56").free_piece(110, &[range("fd00:10:244::/64")]).unwrap();
        assert_eq!(six.to_string(), "fd00:10:244:1::/64");
    }

    #[test]
    fn addresses_go_round_and_are_never_given_twice() {
        let piece = range("10.0.0.0/29");
        let mut used = BTreeSet::new();
        let mut last = None;
        let mut given = Vec::new();
        while let Some(address) = piece.free_address(last, &used) {
            given.push(address.to_string());
            used.insert(address);
            last = Some(address);
        }
        assert_eq!(given, ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
        used.remove(&"10.0.0.3".parse().unwrap());
        used.remove(&"10.0.0.6".parse().unwrap());
        let next = |last: &str| piece.free_address(last.parse().ok(), &used).unwrap().to_string();
        assert_eq!(next("10.0.0.3"), "10.0.0.6");
        assert_eq!(next("10.0.0.6"), "10.0.0.3");
        assert_eq!(next("192.168.0.1"), "10.0.0.3");
    }
}
