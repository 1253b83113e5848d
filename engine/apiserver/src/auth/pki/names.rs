//! The names and addresses that a server answers to.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

/// The names and addresses that the server's certificate is valid for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerNames(BTreeSet<String>);

impl ServerNames {
    /// The machine itself, and the API server's Service inside the cluster under its first address.
    pub fn new(first_service_ip: IpAddr) -> Self {
        let fixed = [
            "localhost",
            "127.0.0.1",
            "::1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ];
        ServerNames(fixed.iter().map(|&name| name.to_owned()).collect()).with(&first_service_ip.to_string())
    }

    /// One more: a host name, or an address in any notation. An address that stands for all of a machine's
    /// (`0.0.0.0`, `::`) is none that a client could dial, so it is left out.
    pub fn with(mut self, name: &str) -> Self {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(address) if address.is_unspecified() => {}
            Ok(address) => drop(self.0.insert(address.to_string())),
            Err(_) => drop(self.0.insert(name.to_owned())),
        }
        self
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl Default for ServerNames {
    /// With the first address of the service range that servers use by default.
    fn default() -> Self {
        ServerNames::new(IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)))
    }
}
