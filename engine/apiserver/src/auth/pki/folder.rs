//! The authority's files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::KeyPair;
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;

use super::certificate::{Issuer, Kept};
use super::{ADMIN, ADMIN_LIFETIME, Credential, Error, Made, RENEW_BEFORE, ServerNames};
use crate::auth::files::{create_private_folder, sync_folder, write_private};
use crate::auth::identity::MASTERS;
use crate::auth::token::SigningKey;
use crate::context::Context;

const AUTHORITY_CERTIFICATE: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
pub(super) const SERVER_CERTIFICATE: &str = "server.crt";
const SERVER_KEY: &str = "server.key";
const ADMIN_CERTIFICATE: &str = "admin.crt";
const ADMIN_KEY: &str = "admin.key";
const SIGNING_KEY: &str = "service-account.key";

pub(super) enum State {
    /// Nothing was ever made here.
    Absent,
    Present,
}

pub(super) fn state(folder: &Path) -> Result<State, Error> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(if entries.next().is_none() { State::Absent } else { State::Present }),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(State::Absent),
        Err(source) => Err(Error::Read { path: folder.to_owned(), source }),
    }
}

/// Writes all files beside the folder and moves them into place at once: an interrupted first start leaves
/// nothing that a later one would have to refuse.
pub(super) fn create(dir: &Path, folder: &Path, made: &Made) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Write { path, source }
    };
    fs::create_dir_all(dir).map_err(failed(dir))?;
    let draft = dir.join("pki.new");
    match fs::remove_dir_all(&draft) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(failed(&draft)(why)),
        _ => create_private_folder(&draft).map_err(failed(&draft))?,
    }
    for (name, contents) in [
        (AUTHORITY_CERTIFICATE, made.issuer.pem()),
        (AUTHORITY_KEY, &made.issuer.key_pem()),
        (SERVER_CERTIFICATE, &made.server.pem()),
        (SERVER_KEY, &made.server_key.serialize_pem()),
        (ADMIN_CERTIFICATE, &made.admin.certificate),
        (ADMIN_KEY, &made.admin.key),
        (SIGNING_KEY, &made.signing_pem),
    ] {
        let path = draft.join(name);
        write_private(&path, contents.as_bytes()).map_err(failed(&path))?;
    }
    fs::rename(&draft, folder).map_err(failed(folder))?;
    sync_folder(dir).map_err(failed(dir))
}

pub(super) fn load(folder: &Path, names: &ServerNames, context: &Context) -> Result<Made, Error> {
    let file = |name: &str| File { path: folder.join(name) };
    let now = context.now();

    let authority = file(AUTHORITY_CERTIFICATE);
    let issuer =
        Issuer::load(authority.read()?, file(AUTHORITY_KEY).key()?).map_err(|why| authority.damaged(why))?;
    let Kept { from, until, .. } = *issuer.certificate();
    if now < from || now > until {
        return Err(Error::OutOfTime { path: authority.path, from, until, now });
    }

    let server_key = file(SERVER_KEY).key()?;
    let mut server = file(SERVER_CERTIFICATE).certificate(&issuer, &server_key)?;
    if due(&server, &issuer, context) || !server.covers(names) {
        server = Kept::fresh(issuer.server(&server_key, names, context)?);
        file(SERVER_CERTIFICATE).write(&server.pem())?;
    }

    let admin_key = file(ADMIN_KEY).key()?;
    let mut admin = file(ADMIN_CERTIFICATE).certificate(&issuer, &admin_key)?;
    // Earlier versions made one for as long as the authority.
    if due(&admin, &issuer, context) || admin.until > now + ADMIN_LIFETIME {
        let made = issuer.client(&admin_key, ADMIN, &[MASTERS], ADMIN_LIFETIME, context)?;
        file(ADMIN_CERTIFICATE).write(&made)?;
        admin = Kept::fresh(made);
    }

    let signing_file = file(SIGNING_KEY);
    let signing_pem = signing_file.read()?;
    let signing = PrivatePkcs8KeyDer::from_pem_slice(signing_pem.as_bytes())
        .map_err(|why| format!("it is no private key in PEM form ({why:?})"))
        .and_then(|der| SigningKey::from_pkcs8(der.secret_pkcs8_der()))
        .map_err(|why| signing_file.damaged(why))?;
    let admin = Credential { certificate: admin.pem(), key: admin_key.serialize_pem() };
    Ok(Made { issuer, server_key, server, admin, signing_pem, signing })
}

/// Whether a certificate should be replaced. One that lasts as long as its authority cannot be bettered.
pub(super) fn due(certificate: &Kept, issuer: &Issuer, context: &Context) -> bool {
    let now = context.now();
    let short = certificate.until < now + RENEW_BEFORE && certificate.until < issuer.certificate().until;
    short || now < certificate.from
}

/// One file of the folder, which errors name.
struct File {
    path: PathBuf,
}

impl File {
    fn read(&self) -> Result<String, Error> {
        fs::read_to_string(&self.path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::Missing { path: self.path.clone() },
            io::ErrorKind::InvalidData => self.damaged("it is not text".to_owned()),
            _ => Error::Read { path: self.path.clone(), source },
        })
    }

    fn key(&self) -> Result<KeyPair, Error> {
        KeyPair::from_pem(&self.read()?).map_err(|why| self.damaged(format!("it is no private key ({why})")))
    }

    fn certificate(&self, issuer: &Issuer, key: &KeyPair) -> Result<Kept, Error> {
        let kept = Kept::parse(&self.read()?).map_err(|why| self.damaged(why))?;
        if !kept.belongs_to(key) {
            return Err(self.damaged("the certificate is not that of the key next to it".to_owned()));
        }
        if !issuer.signed(&kept) {
            return Err(self.damaged(format!("it was not signed with {AUTHORITY_KEY}")));
        }
        Ok(kept)
    }

    fn write(&self, contents: &str) -> Result<(), Error> {
        write_private(&self.path, contents.as_bytes())
            .map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    fn damaged(&self, why: String) -> Error {
        Error::Damaged { path: self.path.clone(), why }
    }
}
