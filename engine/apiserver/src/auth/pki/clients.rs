//! Certificates of clients that one authority issued, told from those of another.
//!
//! Several clusters may share a listener, each with an authority of its own: the handshake then only shows that a client has
//! the key of its certificate, and each cluster asks its own authority whether that certificate counts. One that was found
//! good is remembered, because a signature costs more than most requests; its time is looked at with every request.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::certificate::{Issuer, Kept};

/// Certificates that are remembered. Each is held by many connections; who has more clients pays for signatures.
const REMEMBERED: usize = 64;

/// The clients of one authority.
#[derive(Default)]
pub(super) struct Clients {
    good: Mutex<VecDeque<Good>>,
}

#[derive(Clone)]
struct Good {
    der: Arc<[u8]>,
    from: Timestamp,
    until: Timestamp,
}

impl Clients {
    /// Whether the authority issued this certificate to a client, and it is valid now.
    pub(super) fn include(&self, der: &Arc<[u8]>, issuer: &Issuer, now: Timestamp) -> bool {
        let known = self.good.lock().iter().find(|good| good.der == *der).cloned();
        let good = match known {
            Some(good) => good,
            None => match checked(der, issuer) {
                Some(good) => self.remember(good),
                None => return false,
            },
        };
        good.from <= now && now <= good.until
    }

    fn remember(&self, good: Good) -> Good {
        let mut all = self.good.lock();
        if all.len() >= REMEMBERED {
            all.pop_front();
        }
        all.push_back(good.clone());
        good
    }
}

/// A certificate for clients, signed by this authority.
fn checked(der: &Arc<[u8]>, issuer: &Issuer) -> Option<Good> {
    let (rest, parsed) = X509Certificate::from_der(der).ok()?;
    let usage = parsed.extended_key_usage().ok().flatten()?;
    if !rest.is_empty() || !usage.value.client_auth || parsed.is_ca() {
        return None;
    }
    let kept = Kept::of(der.to_vec().into()).ok()?;
    issuer.signed(&kept).then(|| Good { der: der.clone(), from: kept.from, until: kept.until })
}
