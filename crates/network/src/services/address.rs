//! Which addresses and names may be published. What another cluster says is not to be trusted.

use std::net::IpAddr;

use super::model::{Address, Family};

/// The longest name of a host that DNS knows.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

impl Address {
    /// An IP address that another cluster can have, or why it is none.
    pub fn ip(text: &str) -> Result<Address, String> {
        let ip: IpAddr = text.parse().map_err(|_| format!("{} is no IP address", shown(text)))?;
        let ip = ip.to_canonical();
        let why = match ip {
            _ if ip.is_unspecified() => "means any address",
            _ if ip.is_loopback() => "leads to whoever uses it",
            _ if ip.is_multicast() => "is for many at once",
            IpAddr::V4(ip) if ip.is_link_local() => "is known on one network only",
            IpAddr::V6(ip) if ip.is_unicast_link_local() => "is known on one network only",
            IpAddr::V4(ip) if ip.is_broadcast() || ip.octets()[0] == 0 || ip.octets()[0] >= 240 => {
                "belongs to nobody"
            }
            _ => {
                let family = if ip.is_ipv4() { Family::V4 } else { Family::V6 };
                return Ok(Address { family, text: ip.to_string().into() });
            }
        };
        Err(format!("{ip} {why}"))
    }

    /// A host by its full name, or why it is none.
    pub fn name(text: &str) -> Result<Address, String> {
        let name = text.trim_end_matches('.').to_ascii_lowercase();
        // What reads like a number is one to whoever resolves it.
        let is_name = name.len() <= LONGEST_NAME
            && name.contains('.')
            && name.split('.').all(is_label)
            && !name.ends_with(|last: char| last.is_ascii_digit());
        if !is_name {
            return Err(format!("{} is no full name of a host", shown(text)));
        }
        let local = name.ends_with(".localhost") || name.ends_with(".local");
        if local {
            return Err(format!("{name} means something else in every place"));
        }
        Ok(Address { family: Family::Name, text: name.into() })
    }

    /// Reads an address of one family.
    pub fn read(family: Family, text: &str) -> Result<Address, String> {
        let address = match family {
            Family::Name => Address::name(text)?,
            Family::V4 | Family::V6 => Address::ip(text)?,
        };
        if address.family != family {
            return Err(format!("{} is no {} address", shown(text), family.as_str()));
        }
        Ok(address)
    }
}

/// A part of a DNS name, as Kubernetes wants it (RFC 1123).
pub fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty()
        && text.len() <= LONGEST_LABEL
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// The name of a Service (RFC 1035): a label that starts with a letter.
pub fn is_service_name(text: &str) -> bool {
    is_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase())
}

/// A label's value: short, and of few characters.
pub fn is_label_value(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= LONGEST_LABEL
        && bytes.iter().copied().all(inner)
        && edge(bytes.first())
        && edge(bytes.last())
}

/// A name with an optional domain before it, as `appProtocol` has.
pub fn is_qualified(text: &str) -> bool {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    let domain_is_one =
        |domain: &str| domain.len() <= LONGEST_NAME && !domain.is_empty() && domain.split('.').all(is_label);
    !name.is_empty() && is_label_value(name) && domain.is_none_or(domain_is_one)
}

/// What others wrote, short and without anything that could disturb whoever reads it.
pub fn shown(text: &str) -> String {
    const MOST: usize = 64;
    let mut shown: String = text.chars().take(MOST).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_lead_somewhere_else_are_refused() {
        for (text, wanted) in
            [("10.0.0.1", "10.0.0.1"), ("2001:DB8:0::1", "2001:db8::1"), ("::ffff:10.0.0.1", "10.0.0.1")]
        {
            assert_eq!(&*Address::ip(text).unwrap().text, wanted);
        }
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "0.0.0.0",
            "::",
            "169.254.169.254",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "240.0.0.1",
            "0.1.2.3",
            "::ffff:127.0.0.1",
            "10.0.0.01",
            "10.0.0",
            "10.0.0.1 ",
            "",
            "a",
            "10.0.0.1/8",
        ] {
            assert!(Address::ip(text).is_err(), "{text}");
        }
        assert!(Address::read(Family::V6, "10.0.0.1").is_err());
    }

    #[test]
    fn names_of_hosts_are_checked() {
        assert_eq!(&*Address::name("LB-1.Example.com.").unwrap().text, "lb-1.example.com");
        for text in [
            "",
            "host",
            "a..b",
            "-a.b",
            "a_b.c",
            "10.0.0.1",
            "x.localhost",
            "kubernetes.default.svc.cluster.local",
            "a.b c",
        ] {
            assert!(Address::name(text).is_err(), "{text}");
        }
        assert!(Address::name(&format!("{}.com", "a".repeat(64))).is_err());
        assert!(Address::name(&format!("{}com", "a.".repeat(130))).is_err());
    }

    #[test]
    fn names_of_services_start_with_a_letter() {
        assert!(is_service_name("foo") && is_service_name("a-1") && is_service_name(&"a".repeat(63)));
        for text in ["", "1a", "-a", "a-", "Foo", "a.b", "a_b", &"a".repeat(64)] {
            assert!(!is_service_name(text), "{text}");
        }
        assert!(
            is_qualified("http") && is_qualified("kubernetes.io/h2c") && is_qualified("example.com/My_x")
        );
        assert!(!is_qualified("") && !is_qualified("a/b/c") && !is_qualified("/a") && !is_qualified("a b"));
    }
}
