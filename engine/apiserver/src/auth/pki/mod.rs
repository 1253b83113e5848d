//! A local authority: the certificates of the server and its clients, and the key that signs
//! service-account tokens.
//!
//! It is made once and kept in a folder (or only in memory), because every kubeconfig that was ever handed
//! out holds its certificate. So a folder that is damaged or incomplete is refused, never filled up.

mod certificate;
mod clients;
mod folder;
mod names;
mod tls;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rcgen::KeyPair;
use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;

use self::certificate::{Issuer, Kept};
use self::clients::Clients;
use self::tls::Serving;
use super::identity::MASTERS;
use super::token::SigningKey;
use crate::context::Context;

pub use self::names::ServerNames;

const DAY: SignedDuration = SignedDuration::from_hours(24);
const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 3650);
const SERVER_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 365);
/// The administrator's certificate is made anew by a start that finds less than [`RENEW_BEFORE`] of it left.
const ADMIN_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 365);
/// A certificate with less left than this is replaced.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(24 * 30);

/// The name that the administrator's certificate carries.
pub const ADMIN: &str = "kubernetes-admin";

/// A client's certificate and its key, both as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    pub certificate: String,
    pub key: String,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Why the authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is missing, though the other files of the authority are there. {}", path.display(), advice(path))]
    Missing { path: PathBuf },
    #[error("{} is damaged: {why}. {}", path.display(), advice(path))]
    Damaged { path: PathBuf, why: String },
    #[error(
        "{} is valid from {from} to {until} only, and now is {now}: set the clock right, or move the folder away to start with a new authority, after which kubeconfigs made until now no longer work",
        path.display()
    )]
    OutOfTime { path: PathBuf, from: Timestamp, until: Timestamp, now: Timestamp },
    #[error("cannot make a certificate")]
    Issue(#[from] rcgen::Error),
    #[error("cannot set up TLS: {0}")]
    Tls(String),
}

fn advice(path: &Path) -> String {
    let folder = path.parent().unwrap_or(path).display();
    format!(
        "Restore it from a backup, or move the folder {folder} away to start with a new authority, after \
         which kubeconfigs and tokens made until now no longer work"
    )
}

/// The authority of one server.
pub struct Authority {
    issuer: Arc<Issuer>,
    admin: Credential,
    serving: Arc<Serving>,
    signing: Arc<SigningKey>,
    clients: Clients,
    context: Context,
}

impl Authority {
    /// An authority that is gone with the process.
    pub fn in_memory(context: &Context) -> Result<Self, Error> {
        let made = Made::new(&ServerNames::default(), context)?;
        Authority::from_made(made, ServerNames::default(), None, context)
    }

    /// The authority in `DIR/pki`, made on first use. The server's certificate is made anew if it is about
    /// to expire or lacks one of `names`, the administrator's if it is about to expire or lasts longer than one is made for
    /// today; everything else stays as it is.
    pub fn open(dir: &Path, names: &ServerNames, context: &Context) -> Result<Self, Error> {
        let path = dir.join("pki");
        let made = match folder::state(&path)? {
            folder::State::Absent => {
                let made = Made::new(names, context)?;
                folder::create(dir, &path, &made)?;
                made
            }
            folder::State::Present => folder::load(&path, names, context)?,
        };
        Authority::from_made(made, names.clone(), Some(path), context)
    }

    fn from_made(
        made: Made,
        names: ServerNames,
        folder: Option<PathBuf>,
        context: &Context,
    ) -> Result<Self, Error> {
        let issuer = Arc::new(made.issuer);
        let file = folder.map(|folder| folder.join(folder::SERVER_CERTIFICATE));
        let serving =
            Serving::new(issuer.clone(), made.server_key, made.server, names, file, context.clone())?;
        Ok(Authority {
            issuer,
            admin: made.admin,
            serving: Arc::new(serving),
            signing: Arc::new(made.signing),
            clients: Clients::default(),
            context: context.clone(),
        })
    }

    /// The authority's own certificate as PEM, for clients to trust.
    pub fn certificate(&self) -> &str {
        self.issuer.pem()
    }

    /// The administrator's credential.
    pub fn admin(&self) -> &Credential {
        &self.admin
    }

    /// A new credential for a user in some groups. It does not outlive the authority.
    pub fn issue_client(
        &self,
        user: &str,
        groups: &[&str],
        lifetime: SignedDuration,
    ) -> Result<Credential, Error> {
        let key = KeyPair::generate()?;
        let certificate = self.issuer.client(&key, user, groups, lifetime, &self.context)?;
        Ok(Credential { certificate, key: key.serialize_pem() })
    }

    /// What a TLS listener needs: HTTP/2 and HTTP/1.1, client certificates asked for but not required.
    /// The server's certificate is renewed by the handshake that finds it too old.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, Error> {
        tls::server_config(&self.issuer, self.serving.clone(), &self.context)
    }

    /// The same for a listener in front of several clusters, each with an authority of its own: a client proves that it has
    /// the key of its certificate, and nothing else is checked of that. Each cluster must ask its own authority with
    /// [`Authority::vouches_for`].
    pub fn server_config_for_several(&self) -> Result<Arc<ServerConfig>, Error> {
        tls::server_config_for_several(self.serving.clone(), &self.context)
    }

    /// Whether this authority issued a client's certificate, which must be valid now.
    pub fn vouches_for(&self, certificate: &Arc<[u8]>) -> bool {
        self.clients.include(certificate, &self.issuer, self.context.now())
    }

    /// The certificate that the server shows now.
    pub fn server_certificate(&self) -> CertificateDer<'static> {
        self.serving.certificate()
    }

    /// The key that signs service-account tokens.
    pub fn signing_key(&self) -> Arc<SigningKey> {
        self.signing.clone()
    }
}

/// All parts of an authority.
struct Made {
    issuer: Issuer,
    server_key: KeyPair,
    server: Kept,
    admin: Credential,
    signing_pem: String,
    signing: SigningKey,
}

impl Made {
    fn new(names: &ServerNames, context: &Context) -> Result<Self, Error> {
        let issuer = Issuer::create(context)?;
        let server_key = KeyPair::generate()?;
        let server = Kept::fresh(issuer.server(&server_key, names, context)?);
        let admin_key = KeyPair::generate()?;
        let certificate = issuer.client(&admin_key, ADMIN, &[MASTERS], ADMIN_LIFETIME, context)?;
        let signing_key = KeyPair::generate()?;
        let signing = SigningKey::from_pkcs8(signing_key.serialized_der())
            .map_err(|why| Error::Tls(format!("a key that was just made is refused: {why}")))?;
        Ok(Made {
            issuer,
            server_key,
            server,
            admin: Credential { certificate, key: admin_key.serialize_pem() },
            signing_pem: signing_key.serialize_pem(),
            signing,
        })
    }
}

#[cfg(test)]
mod tests;
