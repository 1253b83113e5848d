//! Addresses and ranges of addresses, with the sentences Kubernetes gives when they are wrong.
//!
//! Fields older than Kubernetes 1.36 accept addresses that are not in canonical form; newer ones do not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const BAD_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const BAD_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// An address, with leading zeros in an IPv4 address ignored as Go once did.
pub fn parse_ip(value: &str) -> Option<IpAddr> {
    if let Ok(address) = value.parse::<IpAddr>() {
        return Some(address);
    }
    let octets: Vec<u8> = value.split('.').map(sloppy_octet).collect::<Option<_>>()?;
    let four: [u8; 4] = octets.try_into().ok()?;
    Some(IpAddr::V4(Ipv4Addr::from(four)))
}

fn sloppy_octet(text: &str) -> Option<u8> {
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.trim_start_matches('0') {
        _ if !all_digits => None,
        "" => Some(0),
        digits => digits.parse().ok(),
    }
}

/// A range as its address, not yet masked, and the length of its prefix.
pub fn parse_cidr(value: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = value.split_once('/')?;
    let address = parse_ip(address)?;
    let all_digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
    let prefix: u8 = if all_digits { prefix.parse().ok()? } else { return None };
    (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, prefix))
}

/// Whether the text is an IPv6 address; false for anything that is no address at all.
pub fn is_ipv6(value: &str) -> bool {
    matches!(parse_ip(value), Some(IpAddr::V6(address)) if address.to_ipv4_mapped().is_none())
}

/// What is wrong with an address in an old field.
pub fn legacy_ip(value: &str) -> Vec<String> {
    match parse_ip(value) {
        None => vec![BAD_IP.to_owned()],
        Some(_) if value.parse::<IpAddr>().is_err() => vec!["must not have leading 0s".to_owned()],
        Some(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            vec!["must not be an IPv4-mapped IPv6 address".to_owned()]
        }
        Some(_) => Vec::new(),
    }
}

/// What is wrong with an address in a field that wants the canonical form.
pub fn ip(value: &str) -> Vec<String> {
    let wrong = legacy_ip(value);
    match parse_ip(value) {
        Some(address) if wrong.is_empty() && address.to_string() != value => {
            vec![format!("must be in canonical form ({:?})", address.to_string())]
        }
        _ => wrong,
    }
}

/// What is wrong with a range in an old field.
pub fn legacy_cidr(value: &str) -> Vec<String> {
    let Some((address, prefix)) = parse_cidr(value) else { return vec![BAD_CIDR.to_owned()] };
    let strict = value
        .split_once('/')
        .is_some_and(|(text, length)| text.parse::<IpAddr>().is_ok() && length == prefix.to_string());
    if !strict {
        return vec!["must not have leading 0s in IP or prefix length".to_owned()];
    }
    if matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some()) {
        return vec!["must not have an IPv4-mapped IPv6 address".to_owned()];
    }
    if masked(address, prefix) != address {
        return vec!["must not have bits set beyond the prefix length".to_owned()];
    }
    Vec::new()
}

/// What is wrong with a range in a field that wants the canonical form.
pub fn cidr(value: &str) -> Vec<String> {
    let wrong = legacy_cidr(value);
    match parse_cidr(value) {
        Some((address, prefix)) if wrong.is_empty() => {
            let canonical = format!("{}/{prefix}", masked(address, prefix));
            if canonical == value {
                wrong
            } else {
                vec![format!("must be in canonical form ({canonical:?})")]
            }
        }
        _ => wrong,
    }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(four.to_bits() & mask))
        }
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & mask))
        }
    }
}
