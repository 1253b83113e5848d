//! The key that signs tokens, and JSON Web Signatures with it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde_json::{Value, json};

use crate::auth::identity::Rejected;

/// What comes before a point of P-256 in the DER form of a public key.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// An ECDSA key on P-256 that signs tokens.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
    random: ring::rand::SystemRandom,
}

/// The three parts of a token, decoded but not yet believed.
pub(super) struct Parts<'a> {
    header: Value,
    pub(super) claims: Value,
    signed: &'a str,
    signature: Vec<u8>,
}

impl SigningKey {
    /// The key in PKCS #8 form; says what is wrong if it is not one on P-256.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, String> {
        let random = koinon_context::secure_random();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random)
            .map_err(|why| format!("it is no ECDSA key on P-256 ({why})"))?;
        let mut public = P256_PREFIX.to_vec();
        public.extend(pair.public_key().as_ref());
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &public));
        Ok(SigningKey { pair, id, random })
    }

    /// The claims as a signed token.
    pub(super) fn sign(&self, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&json!({"alg": "ES256", "kid": self.id})), encode(claims));
        let signature =
            self.pair.sign(&self.random, signed.as_bytes()).expect("the system's randomness is available");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Whether this key signed a token.
    pub(super) fn check(&self, parts: &Parts<'_>) -> Result<(), Rejected> {
        let header = |key: &str| parts.header[key].as_str();
        if header("kid").is_some_and(|id| id != self.id) {
            return Err(Rejected("invalid signature, no keys found".to_owned()));
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key());
        let right =
            header("alg") == Some("ES256") && key.verify(parts.signed.as_bytes(), &parts.signature).is_ok();
        right
            .then_some(())
            .ok_or_else(|| Rejected("go-jose/go-jose: error in cryptographic primitive".to_owned()))
    }

    /// The public half as a JSON Web Key.
    pub(crate) fn jwk(&self) -> Value {
        // An uncompressed point: a marker, then both coordinates.
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        json!({
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        })
    }
}

impl<'a> Parts<'a> {
    /// Nothing if this does not look like a signed token.
    pub(super) fn decode(token: &'a str) -> Option<Self> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let value = |text: &str| serde_json::from_slice::<Value>(&bytes(text)?).ok().filter(Value::is_object);
        Some(Parts { header: value(header)?, claims: value(claims)?, signed, signature: bytes(signature)? })
    }
}
