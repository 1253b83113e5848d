//! Public keys of certificates and the private keys to them, in the three forms that Go reads.

use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RsaKeyPair,
};
use x509_parser::der_parser::ber::BerObject;
use x509_parser::der_parser::der::{Tag, parse_der};
use x509_parser::der_parser::oid::Oid;
use x509_parser::x509::SubjectPublicKeyInfo;

const RSA: &str = "1.2.840.113549.1.1.1";
const ELLIPTIC: &str = "1.2.840.10045.2.1";
const ED25519: &str = "1.3.101.112";

/// A named elliptic curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    P224,
    P256,
    P384,
    P521,
}

impl Curve {
    fn of(oid: &str) -> Option<Curve> {
        Some(match oid {
            "1.3.132.0.33" => Curve::P224,
            "1.2.840.10045.3.1.7" => Curve::P256,
            "1.3.132.0.34" => Curve::P384,
            "1.3.132.0.35" => Curve::P521,
            _ => return None,
        })
    }

    /// How many bytes a private key has.
    fn size(self) -> usize {
        match self {
            Curve::P224 => 28,
            Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }

    fn algorithm(self) -> Option<&'static EcdsaSigningAlgorithm> {
        match self {
            Curve::P256 => Some(&ECDSA_P256_SHA256_ASN1_SIGNING),
            Curve::P384 => Some(&ECDSA_P384_SHA384_ASN1_SIGNING),
            Curve::P224 | Curve::P521 => None,
        }
    }
}

/// What a certificate is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PublicKey {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Elliptic { curve: Curve, point: Vec<u8> },
    Ed25519(Vec<u8>),
    Unknown,
}

impl PublicKey {
    /// The key of a certificate, if it can be read.
    pub(super) fn of(info: &SubjectPublicKeyInfo<'_>) -> Option<PublicKey> {
        let bytes = info.subject_public_key.data.as_ref();
        Some(match info.algorithm.algorithm.to_id_string().as_str() {
            RSA => {
                let numbers = sequence(bytes)?;
                let [modulus, exponent] = numbers.as_slice() else { return None };
                PublicKey::Rsa { modulus: number(modulus)?, exponent: number(exponent)? }
            }
            ELLIPTIC => {
                let curve = info.algorithm.parameters.as_ref()?.as_oid().ok()?;
                PublicKey::Elliptic { curve: Curve::of(&curve.to_id_string())?, point: bytes.to_vec() }
            }
            ED25519 => PublicKey::Ed25519(bytes.to_vec()),
            _ => PublicKey::Unknown,
        })
    }
}

/// A private key.
pub(super) enum PrivateKey {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Elliptic { curve: Curve, scalar: Vec<u8>, point: Option<Vec<u8>> },
    Ed25519(Ed25519KeyPair),
}

impl PrivateKey {
    /// Reads PKCS #1, PKCS #8 or SEC 1.
    pub(super) fn parse(der: &[u8]) -> Option<PrivateKey> {
        pkcs1(der).or_else(|| pkcs8(der)).or_else(|| sec1(der, None))
    }

    /// Whether both are for the same algorithm.
    pub(super) fn is_kind_of(&self, public: &PublicKey) -> bool {
        matches!(
            (self, public),
            (PrivateKey::Rsa { .. }, PublicKey::Rsa { .. })
                | (PrivateKey::Elliptic { .. }, PublicKey::Elliptic { .. })
                | (PrivateKey::Ed25519(_), PublicKey::Ed25519(_))
        )
    }

    /// Whether the one belongs to the other.
    pub(super) fn matches(&self, public: &PublicKey) -> bool {
        match (self, public) {
            (
                PrivateKey::Rsa { modulus, exponent },
                PublicKey::Rsa { modulus: other, exponent: other_exponent },
            ) => modulus == other && exponent == other_exponent,
            (
                PrivateKey::Elliptic { curve, scalar, point: own },
                PublicKey::Elliptic { curve: other, point },
            ) => curve == other && has_point(*curve, scalar, own.as_deref(), point),
            (PrivateKey::Ed25519(pair), PublicKey::Ed25519(point)) => pair.public_key().as_ref() == point,
            _ => false,
        }
    }
}

/// Whether the private number of a curve leads to a point.
fn has_point(curve: Curve, scalar: &[u8], own: Option<&[u8]>, point: &[u8]) -> bool {
    let Some(algorithm) = curve.algorithm() else {
        // For curves nobody computes here, the key's own word is taken.
        return own.is_none_or(|own| own == point);
    };
    // The check needs no randomness; the signatures that are never made would.
    let random = koinon_context::secure_random();
    EcdsaKeyPair::from_private_key_and_public_key(algorithm, scalar, point, &random).is_ok()
}

fn pkcs1(der: &[u8]) -> Option<PrivateKey> {
    let parts = sequence(der)?;
    let [_version, modulus, exponent, _, _, _, _, _, _, ..] = parts.as_slice() else { return None };
    let (modulus, exponent) = (number(modulus)?, number(exponent)?);
    // Numbers that do not belong together are no key; sizes that ring refuses are fine with Go.
    let consistent = RsaKeyPair::from_der(der).err().is_none_or(|why| {
        !["InconsistentComponents", "InvalidComponent", "InvalidEncoding"].contains(&why.to_string().as_str())
    });
    consistent.then_some(PrivateKey::Rsa { modulus, exponent })
}

fn pkcs8(der: &[u8]) -> Option<PrivateKey> {
    let parts = sequence(der)?;
    let [_version, algorithm, key, ..] = parts.as_slice() else { return None };
    let algorithm = algorithm.as_sequence().ok()?;
    let key = key.as_slice().ok()?;
    match oid(algorithm.first()?)?.to_id_string().as_str() {
        RSA => pkcs1(key),
        ELLIPTIC => sec1(key, algorithm.get(1).and_then(oid)),
        ED25519 => {
            let (_, seed) = parse_der(key).ok()?;
            Some(PrivateKey::Ed25519(Ed25519KeyPair::from_seed_unchecked(seed.as_slice().ok()?).ok()?))
        }
        _ => None,
    }
}

/// `curve` is given where what wraps the key says it.
fn sec1(der: &[u8], curve: Option<Oid<'_>>) -> Option<PrivateKey> {
    let parts = sequence(der)?;
    let [version, scalar, optional @ ..] = parts.as_slice() else { return None };
    if version.as_u32().ok()? != 1 || scalar.header.tag() != Tag::OctetString {
        return None;
    }
    let tagged = |tag: u32| {
        let part = optional.iter().find(|part| part.header.tag() == Tag(tag))?;
        Some(parse_der(part.as_slice().ok()?).ok()?.1)
    };
    let named = tagged(0);
    let curve = curve.or_else(|| named.as_ref().and_then(oid))?;
    let curve = Curve::of(&curve.to_id_string())?;
    let point = tagged(1).and_then(|point| Some(point.as_bitstring().ok()?.data.to_vec()));
    Some(PrivateKey::Elliptic { curve, scalar: padded(scalar.as_slice().ok()?, curve.size())?, point })
}

/// The number in exactly `size` bytes: keys with too many or too few zeros in front exist.
fn padded(number: &[u8], size: usize) -> Option<Vec<u8>> {
    let start = number.len().saturating_sub(size);
    if number[..start].iter().any(|byte| *byte != 0) {
        return None;
    }
    let digits = &number[start..];
    Some([vec![0; size - digits.len()], digits.to_vec()].concat())
}

fn sequence(der: &[u8]) -> Option<Vec<BerObject<'_>>> {
    let (_, object) = parse_der(der).ok()?;
    object.as_sequence().ok().cloned()
}

fn oid<'a>(object: &BerObject<'a>) -> Option<Oid<'a>> {
    object.as_oid().ok().cloned()
}

/// A number without zeros in front.
fn number(object: &BerObject<'_>) -> Option<Vec<u8>> {
    if object.header.tag() != Tag::Integer {
        return None;
    }
    let bytes = object.as_slice().ok()?;
    Some(bytes.iter().copied().skip_while(|byte| *byte == 0).collect())
}
