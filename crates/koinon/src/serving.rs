//! Where clients reach a server of this process: what its certificate is valid for, and what its kubeconfig says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use koinon_apiserver::auth::pki::ServerNames;

/// Names and addresses by which others reach the server.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ServeAs {
    /// Names and addresses by which other machines reach it: for its certificate, and the first for the kubeconfig
    #[arg(long = "serve-as", value_name = "NAME,…", value_delimiter = ',', value_parser = name)]
    names: Vec<String>,
}

/// How a server is reached.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    /// For the certificate.
    pub(crate) names: ServerNames,
    /// For the kubeconfig.
    pub(crate) url: String,
    /// What the user should know of it, in one sentence.
    pub(crate) remark: Option<String>,
}

impl ServeAs {
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// How a server that is bound to this address is reached.
    pub(crate) fn reached(&self, bound: SocketAddr) -> Reached {
        let names = ServerNames::default().with(&bound.ip().to_string());
        let names = self.names.iter().fold(names, |names, name| names.with(name));
        let (host, remark) = match (self.names.first(), bound.ip().is_unspecified()) {
            (Some(first), _) => (first.clone(), None),
            (None, false) => (bound.ip().to_string(), None),
            (None, true) => {
                let here = match bound.ip() {
                    IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                    IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
                };
                let remark = "it listens on all addresses of this machine, but its certificate and its kubeconfig are for this machine \
                     alone: say with --serve-as by which name others reach it";
                (here.to_string(), Some(remark.to_owned()))
            }
        };
        let host = if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]") } else { host };
        Reached { names, url: format!("https://{host}:{}", bound.port()), remark }
    }
}

/// A host name or an address that a client could dial.
fn name(text: &str) -> Result<String, String> {
    let bare = text.trim().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    match bare.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => {
            Err(format!("{text} stands for all addresses of a machine: name one that others can dial"))
        }
        Ok(address) => Ok(address.to_string()),
        Err(_) => match koinon_apiserver::names::dns1123_subdomain(&bare).first() {
            None => Ok(bare),
            Some(_) => Err(format!(
                "{text:?} is no host name and no address: write it like api.example.com or 192.0.2.7, without a port"
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(names: &[&str], bound: &str) -> Reached {
        ServeAs { names: names.iter().map(|one| name(one).unwrap()).collect() }
            .reached(bound.parse().unwrap())
    }

    #[test]
    fn a_kubeconfig_never_leads_to_all_addresses() {
        let plain = reached(&[], "127.0.0.1:7443");
        assert_eq!((plain.url.as_str(), plain.remark), ("https://127.0.0.1:7443", None));
        for (bound, url) in [("0.0.0.0:7443", "https://127.0.0.1:7443"), ("[::]:7443", "https://[::1]:7443")]
        {
            let all = reached(&[], bound);
            assert_eq!(all.url, url);
            assert!(all.remark.unwrap().contains("--serve-as"));
        }
    }

    #[test]
    fn given_names_are_in_the_certificate_and_the_first_in_the_kubeconfig() {
        let named = reached(&["API.example.com", "192.0.2.7", "[2001:db8::1]"], "0.0.0.0:7443");
        assert_eq!((named.url.as_str(), named.remark), ("https://api.example.com:7443", None));
        let wanted = ServerNames::default().with("api.example.com").with("192.0.2.7").with("2001:db8::1");
        assert_eq!(named.names, wanted);
        assert_eq!(reached(&["2001:db8::1"], "[::]:1").url, "https://[2001:db8::1]:1");
    }

    #[test]
    fn what_nobody_can_dial_is_refused() {
        for bad in ["", "0.0.0.0", "::", "https://api", "api:7443", "*.example.com", "a b"] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
    }
}
