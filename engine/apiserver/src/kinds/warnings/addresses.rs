//! Addresses and ranges that are accepted although they are not written the usual way.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::walk::At;
use super::at;
use crate::names;

/// A warning about an address; what is none gets none.
pub(super) fn address(place: &At<'_>) -> Option<String> {
    let value = place.str();
    let address = names::parse_ip(value)?;
    let strict = value.parse::<IpAddr>().ok();
    let unmapped = address.to_canonical();
    if strict.is_none() || unmapped != address {
        return Some(at(
            &place.path,
            format_args!("non-standard IP address {value:?} is invalid: use {:?}", unmapped.to_string()),
        ));
    }
    let usual = address.to_string();
    (address.is_ipv6() && usual != value).then(|| {
        at(
            &place.path,
            format_args!("IPv6 address {value:?} should be in RFC 5952 canonical format ({usual:?})"),
        )
    })
}

/// Warnings about a range; what is none gets none.
pub(super) fn range(place: &At<'_>) -> Vec<String> {
    let value = place.str();
    let Some((address, bits)) = parse_range(value) else { return Vec::new() };
    let (network, whole) = (masked(address, bits), if address.is_ipv4() { 32 } else { 128 });
    let shown = shown_range(network, bits);
    let mut warnings = Vec::new();
    if network != address {
        let single = format!("{}/{whole}", address.to_canonical());
        warnings.push(at(
            &place.path,
            format_args!(
                "CIDR value {value:?} is ambiguous in this context (should be {shown:?} or {single:?}?)"
            ),
        ));
    }
    let mapped = address.to_canonical() != address;
    let usual = format!("{address}/{bits}");
    if mapped || !is_strict(value) {
        warnings.push(at(
            &place.path,
            format_args!("non-standard CIDR value {value:?} is invalid: use {shown:?}"),
        ));
    } else if warnings.is_empty() && address.is_ipv6() && usual != value {
        warnings.push(at(
            &place.path,
            format_args!("IPv6 CIDR value {value:?} should be in RFC 5952 canonical format ({usual:?})"),
        ));
    }
    warnings
}

/// A range whose prefix length may have leading zeros.
fn parse_range(value: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = value.split_once('/')?;
    let bits = match bits.trim_start_matches('0') {
        "" if !bits.is_empty() => "0",
        bits => bits,
    };
    names::parse_cidr(&format!("{address}/{bits}"))
}

/// Whether neither the address nor the prefix length has leading zeros.
fn is_strict(value: &str) -> bool {
    value.split_once('/').is_some_and(|(address, bits)| {
        address.parse::<IpAddr>().is_ok() && (bits == "0" || !bits.starts_with('0'))
    })
}

/// A range as Go prints it: one in the IPv6 form of an IPv4 address loses the form where it fits.
fn shown_range(network: IpAddr, bits: u8) -> String {
    match network.to_canonical() {
        IpAddr::V4(four) if network.is_ipv6() && bits >= 96 => format!("{four}/{}", bits - 96),
        shown => format!("{shown}/{bits}"),
    }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let keep = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or_default();
            IpAddr::V4(Ipv4Addr::from_bits(four.to_bits() & keep))
        }
        IpAddr::V6(six) => {
            let keep = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or_default();
            IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & keep))
        }
    }
}
