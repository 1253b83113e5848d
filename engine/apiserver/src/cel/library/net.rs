//! Addresses and networks.

use std::net::IpAddr;

use super::super::value::{Error, Result, Value};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    Some(match (function, args) {
        ("ip", [Value::String(text)]) => address(text).map(Value::Ip),
        ("isIP", [Value::String(text)]) => Ok(Value::Bool(address(text).is_ok())),
        ("ip.isCanonical", [Value::String(text)]) => {
            address(text).map(|address| Value::Bool(address.to_string() == **text))
        }
        ("ip", [Value::Cidr(address, _)]) => Ok(Value::Ip(*address)),
        ("cidr", [Value::String(text)]) => {
            network(text).map(|(address, width)| Value::Cidr(address, width)).map_err(|error| {
                Error::new(format!("network address parse error during conversion from string: {}", error.0))
            })
        }
        ("isCIDR", [Value::String(text)]) => Ok(Value::Bool(network(text).is_ok())),
        (_, [Value::Ip(address)]) => Ok(of_address(function, *address)?),
        ("prefixLength", [Value::Cidr(_, width)]) => Ok(Value::Int((*width).into())),
        ("masked", [Value::Cidr(address, width)]) => Ok(Value::Cidr(masked(*address, *width), *width)),
        ("containsIP", [Value::Cidr(net, width), Value::Ip(address)]) => {
            Ok(Value::Bool(contains(*net, *width, *address)))
        }
        ("containsIP", [Value::Cidr(net, width), Value::String(text)]) => {
            // The real server forgets why the address is wrong.
            address(text)
                .map(|address| Value::Bool(contains(*net, *width, address)))
                .map_err(|_| Error::no_such_overload())
        }
        ("containsCIDR", [Value::Cidr(net, width), Value::Cidr(inner, inner_width)]) => {
            Ok(Value::Bool(width <= inner_width && contains(*net, *width, *inner)))
        }
        ("containsCIDR", [Value::Cidr(net, width), Value::String(text)]) => match network(text) {
            Ok((inner, inner_width)) => {
                Ok(Value::Bool(*width <= inner_width && contains(*net, *width, inner)))
            }
            Err(error) => Err(Error::new(format!(
                "network address parse error during conversion from string: {}",
                error.0
            ))),
        },
        _ => return None,
    })
}

fn of_address<'a>(function: &str, address: IpAddr) -> Option<Value<'a>> {
    let link_local = |address: IpAddr| match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    };
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    Some(Value::Bool(match function {
        "family" => return Some(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => address.is_unspecified(),
        "isLoopback" => address.is_loopback(),
        "isLinkLocalMulticast" => match address {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        },
        "isLinkLocalUnicast" => link_local(address),
        "isGlobalUnicast" => {
            !(address.is_unspecified()
                || address.is_loopback()
                || address.is_multicast()
                || broadcast
                || link_local(address))
        }
        _ => return None,
    }))
}

fn address(text: &str) -> Result<IpAddr> {
    let plain = text.split_once('%').map_or(text, |(plain, _)| plain);
    let address: IpAddr = plain.parse().map_err(|_| {
        let why = objection(text);
        Error::new(format!("IP Address {text:?} parse error during conversion from string: {why}"))
    })?;
    if plain != text {
        return Err(Error::new(format!("IP address {text:?} with zone value is not allowed")));
    }
    no_mapped(text, address)
}

/// Why a text is no address, as Go tells it.
fn objection(text: &str) -> String {
    let why = match text.find(['.', ':', '%']).map(|at| text.as_bytes()[at]) {
        None => "unable to parse IP".to_owned(),
        Some(b'%') => "missing IPv6 address".to_owned(),
        Some(b':') => "each colon-separated field must have at least one digit".to_owned(),
        Some(_) => version_four(text),
    };
    format!("ParseAddr({text:?}): {why}")
}

fn version_four(text: &str) -> String {
    let mut fields = 0;
    let mut rest = text;
    loop {
        let end = rest.find('.').unwrap_or(rest.len());
        let field = &rest[..end];
        if let Some(at) = field.find(|letter: char| !letter.is_ascii_digit()) {
            return format!("unexpected character (at {:?})", &rest[at..]);
        }
        match field {
            "" => return format!("IPv4 field must have at least one digit (at {rest:?})"),
            field if field.len() > 1 && field.starts_with('0') => {
                return "IPv4 field has octet with leading zero".to_owned();
            }
            field if field.parse::<u8>().is_err() => return "IPv4 field has value >255".to_owned(),
            _ => fields += 1,
        }
        match rest.get(end + 1..) {
            Some(_) if fields == 4 => return "IPv4 address too long".to_owned(),
            Some(tail) => rest = tail,
            None => return "IPv4 address too short".to_owned(),
        }
    }
}

fn no_mapped(text: &str, address: IpAddr) -> Result<IpAddr> {
    match address {
        IpAddr::V6(inner) if inner.to_ipv4_mapped().is_some() => {
            Err(Error::new(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        _ => Ok(address),
    }
}

fn network(text: &str) -> Result<(IpAddr, u8)> {
    let wrong = |why: &str| {
        let why = format!("netip.ParsePrefix({text:?}): {why}");
        Error::new(format!("network address parse error during conversion from string: {why}"))
    };
    let (address, width) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
    let address: IpAddr = address.parse().map_err(|_| wrong(&objection(address)))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let digits = width.bytes().all(|byte| byte.is_ascii_digit()) && (width == "0" || !width.starts_with('0'));
    let bad = || wrong(&format!("bad bits after slash: {width:?}"));
    let width: u8 = Some(width).filter(|_| digits).and_then(|width| width.parse().ok()).ok_or_else(bad)?;
    if width > most {
        return Err(wrong("prefix length out of range"));
    }
    Ok((no_mapped(text, address)?, width))
}

fn bits(address: IpAddr) -> u128 {
    match address {
        // Shifted up, so that prefixes of both families are counted from the top.
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(width: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(width)).unwrap_or_default()
}

fn contains(net: IpAddr, width: u8, address: IpAddr) -> bool {
    net.is_ipv4() == address.is_ipv4() && (bits(net) ^ bits(address)) & mask(width) == 0
}

fn masked(address: IpAddr, width: u8) -> IpAddr {
    let bits = bits(address) & mask(width);
    match address {
        IpAddr::V4(_) => IpAddr::V4(((bits >> 96) as u32).into()),
        IpAddr::V6(_) => IpAddr::V6(bits.into()),
    }
}
