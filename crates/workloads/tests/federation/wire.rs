//! The way from the role to one API server, which can be cut and made to refuse.

use http::Method;
use koinon_simulation::{Fault, Network, Requests};

/// The party that the role is to the network.
pub(crate) const ROLE: &str = "role";

/// The way to one server.
pub(crate) struct Wire {
    network: Network,
    to: String,
}

impl Wire {
    pub(crate) fn new(network: &Network, to: &str) -> Wire {
        Wire { network: network.clone(), to: to.to_owned() }
    }

    /// From now on this goes wrong, and nothing else.
    pub(crate) fn set(&self, faults: &[Fault]) {
        self.network.set(ROLE, &self.to, faults);
    }

    pub(crate) fn cut(&self) {
        self.set(&[Fault::Cut]);
    }

    pub(crate) fn heal(&self) {
        self.set(&[]);
    }

    /// From now on, requests are answered with the status that `fault` gives.
    pub(crate) fn refuse(&self, fault: impl Fn(&Method, &str) -> Option<u16> + Send + Sync + 'static) {
        self.network.single_out(ROLE, &self.to, move |request| {
            let method = Method::from_bytes(request.method.as_bytes()).ok()?;
            let code = fault(&method, &request.path)?;
            Some(Fault::Refuse { what: Requests::Any, code, one_in: 1 })
        });
    }

    pub(crate) fn accept(&self) {
        self.network.single_out(ROLE, &self.to, |_| None);
    }
}
