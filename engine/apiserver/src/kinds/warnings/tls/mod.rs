//! Whether a certificate and a private key belong together, in the words of Go's TLS library.

mod keys;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::prelude::{FromDer, X509Certificate};

use keys::{PrivateKey, PublicKey};

use crate::pem::{self, Block};

/// Checks a pair as a Secret has it: PEM, in base64 once more. The error is what a client is told.
pub(super) fn check_pair(certificate: &str, key: &str) -> Result<(), String> {
    let decode = |text: &str| STANDARD.decode(text).unwrap_or_default();
    let leaf = find_certificate(&decode(certificate))?;
    let key = find_key(&decode(key))?;
    let public = parse_certificate(&leaf)?;
    let private = PrivateKey::parse(&key).ok_or("tls: failed to parse private key")?;
    match (public, private) {
        (PublicKey::Unknown, _) => Err("tls: unknown public key algorithm".to_owned()),
        (public, private) if !private.is_kind_of(&public) => {
            Err("tls: private key type does not match public key type".to_owned())
        }
        (public, private) if !private.matches(&public) => {
            Err("tls: private key does not match public key".to_owned())
        }
        _ => Ok(()),
    }
}

fn find_certificate(input: &[u8]) -> Result<Vec<u8>, String> {
    let (found, skipped): (Vec<Block>, Vec<Block>) =
        pem::blocks(input).into_iter().partition(|block| block.label == "CERTIFICATE");
    if let Some(first) = found.into_iter().next() {
        return Ok(first.bytes);
    }
    Err(match skipped.as_slice() {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [one] if one.label.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched"
                .to_owned()
        }
        many => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: {}",
            labels(many)
        ),
    })
}

fn find_key(input: &[u8]) -> Result<Vec<u8>, String> {
    let mut skipped = Vec::new();
    for block in pem::blocks(input) {
        if block.label == "PRIVATE KEY" || block.label.ends_with(" PRIVATE KEY") {
            return Ok(block.bytes);
        }
        skipped.push(block);
    }
    Err(match skipped.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one.label == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        many => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: {}",
            labels(many)
        ),
    })
}

fn labels(blocks: &[Block]) -> String {
    let labels: Vec<&str> = blocks.iter().map(|block| block.label.as_str()).collect();
    format!("[{}]", labels.join(" "))
}

/// The key that a certificate is for. Go tells apart what exactly is malformed; here all of it is the
/// certificate.
fn parse_certificate(der: &[u8]) -> Result<PublicKey, String> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => {
            PublicKey::of(certificate.public_key()).ok_or_else(|| "x509: malformed spki".to_owned())
        }
        Ok(_) => Err("x509: trailing data".to_owned()),
        Err(_) => Err("x509: malformed certificate".to_owned()),
    }
}
