//! Service-account tokens: signed claims about who a Pod or another client is.
//!
//! A token is only as good as what it speaks of: its ServiceAccount, and the object that it is bound to,
//! must still be there with the same uid.

mod key;
mod request;
mod review;
mod verify;

use std::sync::Arc;

use serde_json::{Value, json};

use super::identity::{Rejected, Tokens, User};
use crate::context::Context;

pub use key::SigningKey;
pub use review::review;
pub use verify::Verified;

/// The issuer that clusters name unless told otherwise; also the audience of their API server.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Where the issuer describes itself.
pub const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// Where the issuer's public key is.
pub const KEYS_PATH: &str = "/openid/v1/jwks";
/// What both documents may be cached for.
pub const CACHE_CONTROL: &str = "public, max-age=3600";

/// Reads stored objects.
pub trait Lookup {
    /// The object, or nothing if there is none of that name. `namespace` is empty for nodes.
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value>;
}

/// Makes and checks the tokens of one cluster.
#[derive(Clone)]
pub struct Issuer {
    key: Arc<SigningKey>,
    name: String,
    /// Whom a token is for when its request names nobody, and whom this server takes itself for.
    audiences: Vec<String>,
}

impl Issuer {
    /// An issuer under its URL, which is also the audience of its server.
    pub fn new(key: Arc<SigningKey>, name: &str) -> Self {
        Issuer { key, name: name.to_owned(), audiences: vec![name.to_owned()] }
    }

    /// The document at [`CONFIGURATION_PATH`]. `host` is the server's address with its port.
    pub fn configuration(&self, host: &str) -> Value {
        json!({
            "issuer": self.name,
            "jwks_uri": format!("https://{host}{KEYS_PATH}"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// The document at [`KEYS_PATH`], of type `application/jwk-set+json`.
    pub fn keys(&self) -> Value {
        json!({"keys": [self.key.jwk()]})
    }

    /// This issuer's tokens as credentials of requests.
    pub fn tokens<'a>(&'a self, lookup: &'a dyn Lookup, context: &'a Context) -> impl Tokens + 'a {
        ServiceAccounts { issuer: self, lookup, context }
    }
}

struct ServiceAccounts<'a> {
    issuer: &'a Issuer,
    lookup: &'a dyn Lookup,
    context: &'a Context,
}

impl Tokens for ServiceAccounts<'_> {
    fn authenticate(&self, token: &str) -> Result<Option<User>, Rejected> {
        let verified = self.issuer.verify(token, &self.issuer.audiences, self.lookup, self.context)?;
        Ok(verified.map(|verified| verified.user))
    }
}

/// A field of an object's metadata, empty where absent.
fn meta<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
