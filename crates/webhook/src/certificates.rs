//! A certificate that nobody has to provide: made here, shown here, and followed by another before it ends.
//!
//! Each certificate has an authority of its own, whose key signs once and is dropped. What clients trust therefore changes with
//! every certificate, so the next one is shown only when they had the time to hear of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use koinon_control::Clock;
use parking_lot::RwLock;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring::sign::any_ecdsa_type;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

const DAY: SignedDuration = SignedDuration::from_hours(24);
const LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 90);
/// With less than this left the next one is made.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(24 * 30);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot make a certificate for {host:?}")]
    Make {
        host: String,
        #[source]
        source: rcgen::Error,
    },
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// The certificate of one webhook, now and next.
pub struct Certificates {
    host: String,
    clock: Clock,
    state: RwLock<State>,
}

struct State {
    shown: Pair,
    /// What is shown once those who call know its authority.
    next: Option<Pair>,
}

/// A certificate and the authority that vouches for it.
struct Pair {
    authority: String,
    until: Timestamp,
    certified: Arc<CertifiedKey>,
}

impl Certificates {
    /// A first certificate for a host: a name or an address.
    pub fn new(host: &str, clock: Clock) -> Result<Arc<Certificates>, Error> {
        let shown = Pair::make(host, clock.now())?;
        let state = RwLock::new(State { shown, next: None });
        Ok(Arc::new(Certificates { host: host.to_owned(), clock, state }))
    }

    /// The authorities that vouch for what is shown, now or next: what clients are to trust.
    pub fn bundle(&self) -> String {
        let state = self.state.read();
        let next = state.next.as_ref().map_or("", |next| &next.authority);
        format!("{}{next}", state.shown.authority)
    }

    /// Makes the next certificate where the one that is shown is about to end, and says how long that is not so.
    pub fn look_ahead(&self) -> Result<Duration, Error> {
        let now = self.clock.now();
        let mut state = self.state.write();
        if state.next.is_none() && state.shown.is_due(now) {
            state.next = Some(Pair::make(&self.host, now)?);
        }
        let due = state.next.as_ref().unwrap_or(&state.shown).until - RENEW_BEFORE;
        Ok(Duration::try_from(due.duration_since(now)).unwrap_or_default())
    }

    /// Whether there is a certificate that waits to be shown.
    pub fn is_waiting(&self) -> bool {
        self.state.read().next.is_some()
    }

    /// Shows the next certificate: those who call trust this bundle by now.
    pub fn trusted(&self, bundle: &str) {
        let mut state = self.state.write();
        if let Some(next) = state.next.take_if(|next| bundle.contains(&next.authority)) {
            state.shown = next;
        }
    }

    /// When the certificate that is shown ends.
    pub fn end(&self) -> Timestamp {
        self.state.read().shown.until
    }

    /// What a listener needs to show the certificate. Clients are not asked for theirs.
    pub fn server_config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.state.read().shown.certified.clone())
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Pair {
    fn make(host: &str, now: Timestamp) -> Result<Pair, Error> {
        let failed = |source| Error::Make { host: host.to_owned(), source };
        let until = now + LIFETIME;
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "koinon-webhook-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        stamp(&mut authority, now, until);
        let authority_key = KeyPair::generate().map_err(failed)?;
        let trusted = authority.self_signed(&authority_key).map_err(failed)?.pem();

        let mut own = CertificateParams::new([host.to_owned()]).map_err(failed)?;
        own.distinguished_name.push(DnType::CommonName, "koinon-webhook");
        own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        own.use_authority_key_identifier_extension = true;
        stamp(&mut own, now, until);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate =
            own.signed_by(&key, &Issuer::from_params(&authority, &authority_key)).map_err(failed)?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let certified = CertifiedKey::new(vec![certificate.der().clone()], any_ecdsa_type(&der)?);
        Ok(Pair { authority: trusted, until, certified: Arc::new(certified) })
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.until - RENEW_BEFORE <= now
    }
}

/// From a day ago, for an API server whose clock is behind.
fn stamp(params: &mut CertificateParams, now: Timestamp, until: Timestamp) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let seconds = |time: Timestamp| Duration::from_secs(u64::try_from(time.as_second()).unwrap_or(0));
    params.not_before = epoch + seconds(now - DAY);
    params.not_after = epoch + seconds(until);
}
