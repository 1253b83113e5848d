//! Who a request comes from: a client certificate, a bearer token, or nobody in particular.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use ring::digest;
use serde_json::{Map, Value, json};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use crate::names;

/// Everybody who proved who they are.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everybody who did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of a request without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group that may do anything, whatever the roles say.
pub const MASTERS: &str = "system:masters";

/// Tells which credential a user came with, in [`User::extra`].
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// The node that a service account's Pod runs on, in [`User::extra`].
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Who a request comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user with a name and groups alone.
    pub fn new(name: impl Into<String>, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        User { name: name.into(), groups, ..User::default() }
    }

    /// A request without credentials.
    pub fn anonymous() -> Self {
        User::new(ANONYMOUS, &[UNAUTHENTICATED])
    }

    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }

    /// Adds the group of all authenticated users, unless the groups already say otherwise.
    pub fn authenticated(mut self) -> Self {
        if !self.is_anonymous() && !self.in_group(AUTHENTICATED) && !self.in_group(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// The `UserInfo` object of reviews: absent where empty.
    pub fn to_info(&self) -> Value {
        let mut info = Map::new();
        let mut put = |key: &str, value: Value, empty: bool| {
            if !empty {
                info.insert(key.to_owned(), value);
            }
        };
        put("username", json!(self.name), self.name.is_empty());
        put("uid", json!(self.uid), self.uid.is_empty());
        put("groups", json!(self.groups), self.groups.is_empty());
        put("extra", json!(self.extra), self.extra.is_empty());
        Value::Object(info)
    }

    /// The one value of an extra key, where there is exactly one.
    pub fn extra_value(&self, key: &str) -> Option<&str> {
        match self.extra.get(key).map(Vec::as_slice) {
            Some([one]) => Some(one),
            _ => None,
        }
    }
}

/// A credential that was shown and is not good: the request is refused, not made anonymous.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rejected(pub String);

/// What answers for bearer tokens.
pub trait Tokens {
    /// `None`: not a token of this kind at all.
    fn authenticate(&self, token: &str) -> Result<Option<User>, Rejected>;
}

/// The user behind the credentials of a request: the certificate counts before the token, and a bad
/// credential only matters when no other is good.
///
/// `peer` is the certificate that TLS has verified when the connection was made; `authorization` is the header's value.
pub fn authenticate(
    peer: Option<&[u8]>,
    authorization: Option<&str>,
    tokens: &[&dyn Tokens],
    now: Timestamp,
) -> Result<User, Rejected> {
    let mut refused = None;
    if let Some(der) = peer {
        match from_certificate(der, now) {
            Ok(Some(user)) => return Ok(user),
            Ok(None) => {}
            Err(why) => refused = Some(why),
        }
    }
    if let Some(token) = authorization.and_then(bearer) {
        match from_token(token, tokens) {
            Ok(user) => return Ok(user),
            Err(why) => refused = Some(why),
        }
    }
    refused.map_or_else(|| Ok(User::anonymous()), Err)
}

/// The user behind a bearer token.
pub fn from_token(token: &str, tokens: &[&dyn Tokens]) -> Result<User, Rejected> {
    let mut refused = Rejected("invalid bearer token".to_owned());
    for one in tokens {
        match one.authenticate(token) {
            Ok(Some(user)) => return Ok(user.authenticated()),
            Ok(None) => {}
            Err(why) => refused = why,
        }
    }
    Err(refused)
}

/// The token of an `Authorization: Bearer` header; another scheme is no credential for us.
pub fn bearer(header: &str) -> Option<&str> {
    let mut parts = header.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The user of a certificate that was already verified: its CN is the name, its O's are the groups.
/// A certificate without a CN identifies nobody. A connection may outlive its certificate, a request may not.
pub fn from_certificate(der: &[u8], now: Timestamp) -> Result<Option<User>, Rejected> {
    let (_, certificate) = X509Certificate::from_der(der)
        .map_err(|why| Rejected(format!("the client certificate cannot be read: {why}")))?;
    check_validity(&certificate, now)?;
    let subject = certificate.subject();
    // Go keeps the last of several common names, and so do the servers that are compared with.
    let Some(name) = subject.iter_common_name().last().and_then(|cn| cn.as_str().ok()) else {
        return Ok(None);
    };
    if name.is_empty() {
        return Ok(None);
    }
    let groups = subject.iter_organization().filter_map(|one| one.as_str().ok()).map(str::to_owned).collect();
    let uid = certificate_uid(subject)?;
    let fingerprint = format!("X509SHA256={}", hex(digest::digest(&digest::SHA256, der).as_ref()));
    let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![fingerprint])]);
    Ok(Some(User { name: name.to_owned(), uid, groups, extra }.authenticated()))
}

fn check_validity(certificate: &X509Certificate<'_>, now: Timestamp) -> Result<(), Rejected> {
    let validity = certificate.validity();
    let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    if (from..=until).contains(&now.as_second()) {
        return Ok(());
    }
    Err(Rejected(format!(
        "the client certificate has expired or is not yet valid: it is {now}, and it counts from {} until {}",
        validity.not_before, validity.not_after
    )))
}

/// A certificate may carry the user's uid as a subject attribute of its own.
fn certificate_uid(subject: &X509Name<'_>) -> Result<String, Rejected> {
    const UID: &str = "1.3.6.1.4.1.57683.2";
    let uids: Vec<&str> = subject
        .iter_attributes()
        .filter(|attribute| attribute.attr_type().to_id_string() == UID)
        .map(|attribute| attribute.as_str().map_err(|_| Rejected("unable to parse UID into a string".into())))
        .collect::<Result<_, _>>()?;
    match uids.as_slice() {
        [] => Ok(String::new()),
        [""] => Err(Rejected("UID cannot be an empty string".into())),
        [one] => Ok((*one).to_owned()),
        many => Err(Rejected(format!("expected 1 UID, but found multiple: [{}]", many.join(" ")))),
    }
}

/// Tokens that were given when the server started. Kept as digests, so looking one up takes the same
/// time however much of it is right.
#[derive(Debug, Clone, Default)]
pub struct StaticTokens(HashMap<[u8; 32], User>);

impl StaticTokens {
    pub fn add(&mut self, token: &str, user: User) {
        self.0.insert(sha256(token), user);
    }
}

impl Tokens for StaticTokens {
    fn authenticate(&self, token: &str) -> Result<Option<User>, Rejected> {
        Ok(self.0.get(&sha256(token)).cloned())
    }
}

/// `system:serviceaccount:NAMESPACE:NAME`.
pub fn service_account_user(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT}{namespace}:{name}")
}

/// The groups that every service account of a namespace is in.
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// The namespace and name in a service account's user name.
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    let valid = names::dns1123_label(namespace).is_empty() && names::dns1123_subdomain(name).is_empty();
    valid.then_some((namespace, name))
}

/// The node's name in `system:node:NAME`.
pub fn split_node(user: &str) -> Option<&str> {
    let name = user.strip_prefix("system:node:")?;
    names::dns1123_subdomain(name).is_empty().then_some(name)
}

fn sha256(text: &str) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
    sum
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_headers() {
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            ("  bearer abc ", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer  abc", None),
            ("Bearer", None),
            ("Basic abc", None),
            ("", None),
        ] {
            assert_eq!(bearer(header), token, "{header:?}");
        }
    }

    #[test]
    fn a_bad_token_is_refused_and_none_is_anonymous() {
        let mut known = StaticTokens::default();
        known.add("secret", User::new("admin", &["system:masters"]));
        let now = Timestamp::UNIX_EPOCH;
        let user = |header| authenticate(None, header, &[&known], now);
        assert_eq!(user(None), Ok(User::anonymous()));
        assert_eq!(user(Some("Basic xyz")), Ok(User::anonymous()));
        assert_eq!(user(Some("Bearer secret")).unwrap().groups, ["system:masters", "system:authenticated"]);
        assert_eq!(user(Some("Bearer secre")), Err(Rejected("invalid bearer token".into())));
        assert!(authenticate(Some(b"junk"), None, &[&known], now).is_err());
        assert_eq!(authenticate(Some(b"junk"), Some("Bearer secret"), &[&known], now).unwrap().name, "admin");
    }

    #[test]
    fn names_of_service_accounts() {
        assert_eq!(split_service_account("system:serviceaccount:ns:web.1"), Some(("ns", "web.1")));
        for name in
            ["alice", "system:serviceaccount:ns", "system:serviceaccount:ns:a:b", "system:serviceaccount::a"]
        {
            assert_eq!(split_service_account(name), None, "{name}");
        }
        assert_eq!(split_node("system:node:n1"), Some("n1"));
        assert_eq!(split_node("system:node:"), None);
    }
}
