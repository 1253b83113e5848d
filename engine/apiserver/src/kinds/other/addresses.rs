//! Blocks of addresses that hold one another, and addresses that can be reached from elsewhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::look::Faults;
use crate::field::{Error, Path};
use crate::names;

/// A block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    /// The first address of the block.
    network: IpAddr,
    /// How many leading bits are fixed.
    pub(crate) bits: u8,
}

impl Cidr {
    /// Reads a block leniently; the address need not be the first one.
    pub(crate) fn parse(text: &str) -> Option<Cidr> {
        names::parse_cidr(text).map(|(address, bits)| Cidr { network: mask(address, bits), bits })
    }

    /// Whether the block of `other` starts inside this one.
    pub(crate) fn contains(&self, other: &Cidr) -> bool {
        self.network.is_ipv4() == other.network.is_ipv4() && mask(other.network, self.bits) == self.network
    }

    /// Whether the addresses are of version 4.
    pub(crate) fn is_ipv4(&self) -> bool {
        self.network.is_ipv4()
    }
}

fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let keep = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or_default();
            IpAddr::V4(Ipv4Addr::from(u32::from(four) & keep))
        }
        IpAddr::V6(six) => {
            let keep = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or_default();
            IpAddr::V6(Ipv6Addr::from(u128::from(six) & keep))
        }
    }
}

/// An address that pods can be reached at from elsewhere.
pub(crate) fn endpoint(path: &Path, text: &str) -> Faults {
    let Some(address) = names::parse_ip(text).map(|address| address.to_canonical()) else {
        return Vec::new();
    };
    let (local, local_multicast) = match address {
        IpAddr::V4(four) => (four.is_link_local(), four.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(six) => (six.is_unicast_link_local(), six.segments()[0] & 0xff0f == 0xff02),
    };
    let mut faults = Vec::new();
    let mut say = |why: String| faults.push(Error::invalid(path, text, why));
    if address.is_unspecified() {
        say(format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        say("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    if local {
        say("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if local_multicast {
        say("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_contains_smaller_ones() {
        let block = |text: &str| Cidr::parse(text).expect("a block");
        assert!(block("10.0.0.0/8").contains(&block("10.1.0.0/16")));
        assert!(!block("10.0.0.0/8").contains(&block("11.0.0.0/16")));
        assert!(!block("10.0.0.0/8").contains(&block("::/16")));
        assert!(block("::/0").contains(&block("2001:db8::/32")));
    }
}
