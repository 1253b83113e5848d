//! TLS with the authority's certificates, in the time of the context.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rcgen::KeyPair;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring::sign::any_ecdsa_type;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::{self, CertifiedKey};
use rustls::time_provider::TimeProvider;
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};

use super::certificate::{Issuer, Kept};
use super::{Error, ServerNames, folder};
use crate::auth::files::write_private;
use crate::context::Context;

fn failed(why: &dyn fmt::Display) -> Error {
    Error::Tls(why.to_string())
}

pub(super) fn server_config(
    issuer: &Issuer,
    serving: Arc<Serving>,
    context: &Context,
) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(issuer.certificate().der.clone()).map_err(|why| failed(&why))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|why| failed(&why))?;
    configured(verifier, provider, serving, context)
}

/// For a listener whose clients have certificates of several authorities, which are asked behind it.
pub(super) fn server_config_for_several(
    serving: Arc<Serving>,
    context: &Context,
) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    configured(Arc::new(Possession(provider.clone())), provider, serving, context)
}

fn configured(
    verifier: Arc<dyn ClientCertVerifier>,
    provider: Arc<CryptoProvider>,
    serving: Arc<Serving>,
    context: &Context,
) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(Clock(context.clone())))
        .with_safe_default_protocol_versions()
        .map_err(|why| failed(&why))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Asks for a client's certificate and for proof of its key, and leaves to others whose certificate it is.
#[derive(Debug)]
struct Possession(Arc<CryptoProvider>);

impl ClientCertVerifier for Possession {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The context's time, for whoever checks certificates.
pub(super) struct Clock(pub(super) Context);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// The server's certificate, replaced when a handshake finds it too old.
pub(super) struct Serving {
    issuer: Arc<Issuer>,
    key: KeyPair,
    signer: Arc<dyn sign::SigningKey>,
    names: ServerNames,
    /// Where the certificate is kept, if anywhere.
    file: Option<PathBuf>,
    context: Context,
    current: RwLock<Shown>,
}

#[derive(Clone)]
struct Shown {
    kept: Arc<Kept>,
    certified: Arc<CertifiedKey>,
}

impl Serving {
    pub(super) fn new(
        issuer: Arc<Issuer>,
        key: KeyPair,
        kept: Kept,
        names: ServerNames,
        file: Option<PathBuf>,
        context: Context,
    ) -> Result<Self, Error> {
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialized_der()));
        let signer = any_ecdsa_type(&der).map_err(|why| Error::Tls(why.to_string()))?;
        let current = RwLock::new(Shown::new(kept, &signer));
        Ok(Serving { issuer, key, signer, names, file, context, current })
    }

    pub(super) fn certificate(&self) -> CertificateDer<'static> {
        self.current.read().kept.der.clone()
    }

    fn shown(&self) -> Arc<CertifiedKey> {
        let shown = self.current.read().clone();
        if !folder::due(&shown.kept, &self.issuer, &self.context) {
            return shown.certified;
        }
        match self.renew() {
            Ok(certified) => certified,
            Err(why) => {
                tracing::warn!(error = %why, "the server's certificate cannot be renewed");
                shown.certified
            }
        }
    }

    fn renew(&self) -> Result<Arc<CertifiedKey>, rcgen::Error> {
        let mut current = self.current.write();
        // Another handshake may have been faster.
        if folder::due(&current.kept, &self.issuer, &self.context) {
            let pem = self.issuer.server(&self.key, &self.names, &self.context)?;
            if let Some(Err(why)) = self.file.as_ref().map(|file| write_private(file, pem.as_bytes())) {
                // The next start makes another one; what clients trust does not change.
                tracing::warn!(error = %why, "the server's new certificate is not kept");
            }
            *current = Shown::new(Kept::fresh(pem), &self.signer);
        }
        Ok(current.certified.clone())
    }
}

impl Shown {
    fn new(kept: Kept, signer: &Arc<dyn sign::SigningKey>) -> Self {
        let certified = CertifiedKey::new(vec![kept.der.clone()], signer.clone());
        Shown { kept: Arc::new(kept), certified: Arc::new(certified) }
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown())
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("names", &self.names).finish_non_exhaustive()
    }
}
