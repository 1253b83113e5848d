//! Making certificates, and reading back what was made.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PublicKeyData, SerialNumber, SigningKey,
};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{AUTHORITY_LIFETIME, DAY, SERVER_LIFETIME, ServerNames};
use crate::context::Context;

const AUTHORITY_NAME: &str = "koinon-ca";

/// The authority's key and certificate.
pub(super) struct Issuer {
    key: KeyPair,
    params: CertificateParams,
    pem: String,
    kept: Kept,
}

/// A certificate and what of it matters for keeping it.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) der: CertificateDer<'static>,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    pub(super) names: BTreeSet<String>,
    public_key: Vec<u8>,
    body: Vec<u8>,
    signature: Vec<u8>,
}

impl Issuer {
    pub(super) fn create(context: &Context) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = authority_params();
        stamp(&mut params, context.now() + AUTHORITY_LIFETIME, context);
        let certificate = params.self_signed(&key)?;
        let kept = Kept::fresh(certificate.pem());
        Ok(Issuer { key, params, pem: certificate.pem(), kept })
    }

    /// An authority that was kept; says what is wrong if key and certificate are not such a pair.
    pub(super) fn load(pem: String, key: KeyPair) -> Result<Self, String> {
        let kept = Kept::parse(&pem)?;
        if !kept.belongs_to(&key) {
            return Err("the certificate is not that of the key next to it".to_owned());
        }
        let issuer = Issuer { key, params: authority_params(), pem, kept };
        if !issuer.signed(&issuer.kept) {
            return Err("its signature is wrong".to_owned());
        }
        Ok(issuer)
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    pub(super) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    pub(super) fn certificate(&self) -> &Kept {
        &self.kept
    }

    /// Whether this authority issued a certificate.
    pub(super) fn signed(&self, certificate: &Kept) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, self.key.der_bytes())
            .verify(&certificate.body, &certificate.signature)
            .is_ok()
    }

    /// A server's certificate as PEM.
    pub(super) fn server(
        &self,
        key: &KeyPair,
        names: &ServerNames,
        context: &Context,
    ) -> Result<String, rcgen::Error> {
        let sans: Vec<String> = names.iter().map(str::to_owned).collect();
        let mut params = CertificateParams::new(sans)?;
        params.distinguished_name = common_name("kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.leaf(&mut params, SERVER_LIFETIME, context);
        Ok(params.signed_by(key, &self.signer())?.pem())
    }

    /// A client's certificate as PEM.
    pub(super) fn client(
        &self,
        key: &KeyPair,
        user: &str,
        groups: &[&str],
        lifetime: SignedDuration,
        context: &Context,
    ) -> Result<String, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.leaf(&mut params, lifetime, context);
        // rcgen keeps one value for each attribute of a name, but a user has many groups: the certificate is
        // made with a name that occurs nowhere else in it, which is then replaced.
        params.distinguished_name = common_name(&context.uid());
        let drawn = params.signed_by(key, &self.signer())?;
        let (_, parsed) =
            X509Certificate::from_der(drawn.der()).map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
        let body =
            replaced(parsed.tbs_certificate.as_ref(), parsed.subject().as_raw(), &der::name(user, groups))
                .ok_or(rcgen::Error::CouldNotParseCertificate)?;
        let signature = self.key.sign(&body)?;
        let whole = der::sequence(&[&body, der::ECDSA_WITH_SHA256, &der::bits(&signature)]);
        Ok(pem("CERTIFICATE", &whole))
    }

    fn leaf(&self, params: &mut CertificateParams, lifetime: SignedDuration, context: &Context) {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        stamp(params, (context.now() + lifetime).min(self.kept.until), context);
    }

    fn signer(&self) -> rcgen::Issuer<'_, &KeyPair> {
        rcgen::Issuer::from_params(&self.params, &self.key)
    }
}

impl Kept {
    /// A certificate that was just made here.
    pub(super) fn fresh(pem: String) -> Self {
        Kept::parse(&pem).expect("a certificate that was just made can be read")
    }

    pub(super) fn parse(pem: &str) -> Result<Self, String> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|why| format!("it is no certificate in PEM form ({why:?})"))?
            .into_owned();
        Kept::of(der)
    }

    pub(super) fn of(der: CertificateDer<'static>) -> Result<Self, String> {
        let (_, parsed) =
            X509Certificate::from_der(&der).map_err(|why| format!("it is no certificate ({why})"))?;
        let time = |seconds: i64| Timestamp::from_second(seconds).map_err(|why| why.to_string());
        Ok(Kept {
            from: time(parsed.validity().not_before.timestamp())?,
            until: time(parsed.validity().not_after.timestamp())?,
            names: alternative_names(&parsed),
            public_key: parsed.public_key().subject_public_key.data.to_vec(),
            body: parsed.tbs_certificate.as_ref().to_vec(),
            signature: parsed.signature_value.data.to_vec(),
            der: der.clone(),
        })
    }

    pub(super) fn pem(&self) -> String {
        pem("CERTIFICATE", &self.der)
    }

    pub(super) fn belongs_to(&self, key: &KeyPair) -> bool {
        self.public_key == key.der_bytes()
    }

    pub(super) fn covers(&self, names: &ServerNames) -> bool {
        names.iter().all(|name| self.names.contains(name))
    }
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// From a day ago, for clients whose clock is behind, and under a serial number of its own.
fn stamp(params: &mut CertificateParams, until: Timestamp, context: &Context) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let seconds = |time: Timestamp| Duration::from_secs(u64::try_from(time.as_second()).unwrap_or(0));
    params.not_before = epoch + seconds(context.now() - DAY);
    params.not_after = epoch + seconds(until);
    let mut serial = [0; 16];
    context.fill(&mut serial);
    // Positive, and never shorter than it looks.
    serial[0] = serial[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
}

fn alternative_names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return BTreeSet::new() };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|octets| Ipv4Addr::from(octets).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|octets| Ipv6Addr::from(octets).to_string()),
        },
        _ => None,
    };
    extension.value.general_names.iter().filter_map(text).collect()
}

/// The body of a certificate with its subject exchanged.
fn replaced(body: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let inner = der::inside(body);
    let at = inner.windows(old.len()).position(|window| window == old)?;
    Some(der::sequence(&[&inner[..at], new, &inner[at + old.len()..]]))
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// The little of DER that a subject and a signature need.
mod der {
    /// The identifier of ECDSA with SHA-256, whole.
    pub(super) const ECDSA_WITH_SHA256: &[u8] =
        &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
    const ORGANIZATION: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x0a];
    const COMMON_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x03];
    const SEQUENCE: u8 = 0x30;
    const SET: u8 = 0x31;
    const UTF8_STRING: u8 = 0x0c;
    const BIT_STRING: u8 = 0x03;

    fn tagged(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut out = vec![tag];
        if length < 0x80 {
            out.push(length as u8);
        } else {
            let bytes = length.to_be_bytes();
            let significant = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
            out.push(0x80 | significant.len() as u8);
            out.extend(significant);
        }
        parts.iter().for_each(|part| out.extend(*part));
        out
    }

    pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
        tagged(SEQUENCE, parts)
    }

    /// Whole bytes as a bit string.
    pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
        tagged(BIT_STRING, &[&[0], bytes])
    }

    /// A subject: each group an organisation, in their order, then the user's name.
    pub(super) fn name(user: &str, groups: &[&str]) -> Vec<u8> {
        let attribute = |kind: &[u8], value: &str| {
            tagged(SET, &[&sequence(&[kind, &tagged(UTF8_STRING, &[value.as_bytes()])])])
        };
        let mut parts: Vec<Vec<u8>> = groups.iter().map(|group| attribute(ORGANIZATION, group)).collect();
        parts.push(attribute(COMMON_NAME, user));
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        sequence(&parts)
    }

    /// The contents of a value, without its tag and length.
    pub(super) fn inside(value: &[u8]) -> &[u8] {
        match value {
            [_, short, rest @ ..] if *short < 0x80 => rest,
            [_, long, rest @ ..] => rest.get(usize::from(long & 0x7f)..).unwrap_or_default(),
            _ => &[],
        }
    }
}
