//! Proxies on the way to an API server: the one that a kubeconfig names, else that of the environment.
//!
//! The client library reads the environment too, but holds `NO_PROXY` against the proxy instead of the server, and
//! does not do it for the cluster that a process runs in.

use std::net::IpAddr;

use http::Uri;
use kube::Config;
use kube::config::Kubeconfig;

/// What the environment says of proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// For servers that are reached by TLS, as every API server is.
    pub https: Option<String>,
    /// Whom it is not for.
    pub except: String,
}

impl Environment {
    /// `HTTPS_PROXY` and `NO_PROXY`, in capitals or not.
    pub fn read() -> Environment {
        let variable = |name: &str| {
            let set = |name: String| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
            set(name.to_owned()).or_else(|| set(name.to_lowercase()))
        };
        Environment { https: variable("HTTPS_PROXY"), except: variable("NO_PROXY").unwrap_or_default() }
    }
}

/// Has a client take the proxy that its kubeconfig names, else that of the environment.
pub fn settle(config: &mut Config, named: Option<&str>) -> Result<(), String> {
    config.proxy_url = choose(named, &config.cluster_url, &Environment::read())?;
    Ok(())
}

/// The proxy that a kubeconfig names for a context, or for its current one.
pub fn named(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|one| one.name == context)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|one| one.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|proxy| !proxy.is_empty())
}

/// Decides which proxy leads to a server, if any does. One that is named for the server is for it in any case.
pub fn choose(named: Option<&str>, server: &Uri, environment: &Environment) -> Result<Option<Uri>, String> {
    if let Some(proxy) = named {
        return address(proxy).map(Some);
    }
    let Some(proxy) = &environment.https else { return Ok(None) };
    if server.scheme_str() != Some("https") || is_excepted(server, &environment.except) {
        return Ok(None);
    }
    address(proxy).map(Some)
}

fn address(proxy: &str) -> Result<Uri, String> {
    let proxy = proxy.trim();
    let full = match proxy.split_once("://") {
        // The name of the server is left to the proxy in any case.
        Some(("socks5h", rest)) => format!("socks5://{rest}"),
        Some(_) => proxy.to_owned(),
        None => format!("http://{proxy}"),
    };
    let uri: Option<Uri> = full.parse().ok();
    uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "socks5")) && uri.host().is_some())
        // It may hold a password, which is not shown.
        .ok_or_else(|| "the proxy is no address: one is http://HOST:PORT or socks5://HOST:PORT".to_owned())
}

/// Whether a server is reached without the proxy of the environment. This machine itself always is.
fn is_excepted(server: &Uri, except: &str) -> bool {
    let host = server.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_lowercase();
    let port = server.port_u16().unwrap_or(443);
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    let mut entries = except.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty());
    entries.any(|entry| match (entry, address) {
        ("*", _) => true,
        (entry, Some(address)) => is_within(address, entry, port),
        (entry, None) => is_named(&host, &entry.to_lowercase(), port),
    })
}

/// `10.0.0.1`, `10.0.0.1:6443` or `10.0.0.0/8`.
fn is_within(address: IpAddr, entry: &str, port: u16) -> bool {
    if let Some((network, length)) = entry.split_once('/') {
        let (Ok(network), Ok(length)) = (network.parse::<IpAddr>(), length.parse::<u32>()) else {
            return false;
        };
        return match (address, network) {
            (IpAddr::V4(one), IpAddr::V4(other)) if length <= 32 => {
                let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
                u32::from(one) & mask == u32::from(other) & mask
            }
            (IpAddr::V6(one), IpAddr::V6(other)) if length <= 128 => {
                let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
                u128::from(one) & mask == u128::from(other) & mask
            }
            _ => false,
        };
    }
    match entry.parse::<IpAddr>() {
        Ok(one) => one == address,
        Err(_) => {
            entry.parse::<std::net::SocketAddr>().is_ok_and(|one| one.ip() == address && one.port() == port)
        }
    }
}

/// `example.org` with all below it, `.example.org` or `*.example.org` for what is below it alone; each also with a port.
fn is_named(host: &str, entry: &str, port: u16) -> bool {
    let (entry, is_port) = match entry.rsplit_once(':') {
        Some((entry, only)) => (entry, only.parse() == Ok(port)),
        None => (entry, true),
    };
    let entry = entry.strip_prefix('*').unwrap_or(entry);
    let is_below = |domain: &str| host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    let is_meant = match entry.strip_prefix('.') {
        Some(domain) => is_below(domain),
        None => host == entry || is_below(entry),
    };
    is_port && is_meant
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(named: Option<&str>, server: &str, https: Option<&str>, except: &str) -> String {
        let environment = Environment { https: https.map(str::to_owned), except: except.to_owned() };
        match choose(named, &server.parse().unwrap(), &environment) {
            Ok(Some(proxy)) => proxy.to_string(),
            Ok(None) => "none".into(),
            Err(why) => why,
        }
    }

    #[test]
    fn a_proxy_is_that_of_the_kubeconfig_else_that_of_the_environment() {
        let check =
            |named, server, https, expected: &str| assert_eq!(chosen(named, server, https, ""), expected);
        check(None, "https://api.example.org:6443", None, "none");
        check(None, "https://api.example.org", Some("http://p:3128"), "http://p:3128/");
        check(None, "https://api.example.org", Some("p:3128"), "http://p:3128/");
        check(None, "https://api.example.org", Some("socks5h://p:1080"), "socks5://p:1080/");
        check(Some("socks5://own:1080"), "https://api.example.org", Some("p:3128"), "socks5://own:1080/");
        check(Some("http://own:1"), "https://127.0.0.1:6443", None, "http://own:1/");
        for local in ["https://127.0.0.1:6443", "https://localhost", "https://[::1]:6443", "http://a"] {
            check(None, local, Some("p:3128"), "none");
        }
        for wrong in ["https://p:1", "ftp://p", "http://", "socks5://u:secret@"] {
            let told = chosen(Some(wrong), "https://a", None, "");
            assert!(
                told.starts_with("the proxy is no address") && !told.contains("secret"),
                "{wrong}: {told}"
            );
        }
    }

    #[test]
    fn who_is_excepted_is_reached_without_it() {
        let check = |server: &str, except: &str, without: bool| {
            let chosen = chosen(None, server, Some("http://p:1"), except);
            assert_eq!(chosen == "none", without, "{server} {except}");
        };
        check("https://api.example.org:6443", "example.org", true);
        check("https://api.example.org:6443", "other.org, .example.org", true);
        check("https://api.example.org:6443", "*.Example.org:6443", true);
        check("https://api.example.org:6443", "example.org:443", false);
        check("https://example.org", ".example.org", false);
        check("https://badexample.org", "example.org", false);
        check("https://10.1.2.3:6443", "10.0.0.0/8", true);
        check("https://10.1.2.3:6443", "10.1.2.3:6443", true);
        check("https://10.1.2.3:6443", "10.1.2.3:443,10.2.0.0/16,example.org", false);
        check("https://10.1.2.3:6443", "0.0.0.0/0", true);
        check("https://[fd00::7]:6443", "fd00::/8", true);
        check("https://anything", "*", true);
        check("https://anything", "", false);
        // The proxy itself is no server: that it is excepted means nothing.
        check("https://anything", "p", false);
    }
}
