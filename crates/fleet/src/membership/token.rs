//! The token by which a federation logs in to a member: what it says of itself, when it is renewed, and how one is got.
//!
//! A token that is stolen is worth what the account is worth for as long as it lasts, so it should be short; a federation
//! whose role is away for as long as the token lasts cannot log in any more, so it should be long. Asked for
//! [`LASTS`] and renewed every [`RENEWED_EVERY`], a role may be away for weeks, and every day is a chance to
//! renew it again where the day before failed.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use koinon_api::membership::KOINON_NAMESPACE;
use koinon_control::call::{self, within_deadline};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::Value;

use super::Error;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// What a cluster is asked for; it may grant less.
const LASTS: Duration = DAY.saturating_mul(30);
const RENEWED_EVERY: Duration = DAY;
/// A token that a cluster grants for less is renewed at this share of its time.
const RENEWED_AT: f64 = 0.8;
/// Members are renewed earlier by up to this share of their time, so that they are not all renewed at once.
const SPREAD: f64 = 0.1;
/// A Secret with a token that does not end, as they were made once.
const ENDLESS: &str = "koinon-member-token";

/// What a ServiceAccount's token says of itself. Whether that is true is for the server to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) issued: Timestamp,
    pub(super) expires: Timestamp,
    /// The namespace and name of the account.
    pub(super) account: (String, String),
}

impl Term {
    /// Reads a token; nothing if it is another kind of token, or one that does not end.
    pub(super) fn of(token: &str) -> Option<Term> {
        #[derive(Deserialize)]
        struct Claims {
            iat: i64,
            exp: i64,
            sub: String,
        }
        let claims = token.trim().split('.').nth(1)?;
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        let account = claims.sub.strip_prefix("system:serviceaccount:")?;
        let (namespace, name) = account.split_once(':')?;
        let at = |seconds| Timestamp::from_second(seconds).ok();
        let (issued, expires) = (at(claims.iat)?, at(claims.exp)?);
        (issued < expires).then(|| Term { issued, expires, account: (namespace.to_owned(), name.to_owned()) })
    }

    fn lasts(&self) -> Duration {
        self.expires.duration_since(self.issued).unsigned_abs()
    }
}

/// What to do about a token now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// Nothing, for so long.
    In(Duration),
    Due,
    /// It has ended.
    Over,
}

/// Decides when a token is renewed. `share`, between 0 and 1, is the member's own moment among all.
pub(super) fn renewal(now: Timestamp, issued: Timestamp, expires: Timestamp, share: f64) -> Renewal {
    if now >= expires {
        return Renewal::Over;
    }
    let lasts = expires.duration_since(issued).unsigned_abs();
    let after = RENEWED_EVERY.min(lasts.mul_f64(RENEWED_AT)).mul_f64(1.0 - SPREAD * share);
    let left = SignedDuration::try_from(after).unwrap_or_default() - now.duration_since(issued);
    if left.is_positive() { Renewal::In(left.unsigned_abs()) } else { Renewal::Due }
}

/// A request for a new token.
pub(super) fn request() -> TokenRequest {
    let seconds = LASTS.as_secs().try_into().unwrap_or(i64::MAX);
    TokenRequest {
        spec: Some(TokenRequestSpec { expiration_seconds: Some(seconds), ..TokenRequestSpec::default() }),
        ..TokenRequest::default()
    }
}

/// The token that a member's Secret holds, also within a kubeconfig that `join` wrote.
pub(super) fn in_secret(secret: &Secret) -> Option<String> {
    let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
    if let Some(token) = text("token") {
        return Some(token.trim().to_owned());
    }
    let kubeconfig: Value = serde_json::from_str(&text("kubeconfig")?).ok()?;
    kubeconfig.pointer(IN_KUBECONFIG)?.as_str().map(str::to_owned)
}

/// The same Secret with another token.
pub(super) fn replaced(secret: &Secret, token: &str) -> Option<Secret> {
    let mut after = secret.clone();
    let data = after.data.as_mut()?;
    if data.contains_key("token") {
        data.insert("token".into(), ByteString(token.as_bytes().to_vec()));
    } else {
        let mut kubeconfig: Value = serde_json::from_slice(&data.get("kubeconfig")?.0).ok()?;
        *kubeconfig.pointer_mut(IN_KUBECONFIG)? = token.into();
        data.insert("kubeconfig".into(), ByteString(kubeconfig.to_string().into_bytes()));
    }
    Some(after)
}

const IN_KUBECONFIG: &str = "/users/0/user/token";

/// Whether a Secret holds a token that lasts for years or does not end, as `join` got them once.
pub(super) fn is_too_long(secret: &Secret) -> bool {
    in_secret(secret).is_some_and(|token| Term::of(&token).is_none_or(|term| term.lasts() > LASTS * 2))
}

/// Why there is no token.
pub(super) enum NoToken {
    Failed(call::Error),
    Empty,
}

impl NoToken {
    /// The same as an error about the cluster at this address.
    pub(super) fn at(self, server: &str) -> Error {
        match self {
            NoToken::Failed(error) => Error::unreachable(server, error),
            NoToken::Empty => Error::Login("the server made no token for it".into()),
        }
    }
}

/// Gets a token for the account of the federation.
pub(super) async fn get(
    member: &Client,
    account: &str,
    progress: &mut impl FnMut(&str),
) -> Result<String, NoToken> {
    let accounts: Api<ServiceAccount> = Api::namespaced(member.clone(), KOINON_NAMESPACE);
    let (params, request) = (PostParams::default(), request());
    let made = within_deadline(accounts.create_token_request(account, &params, &request)).await;
    let status = made.map_err(NoToken::Failed)?.status.ok_or(NoToken::Empty)?;
    let token = status.token.filter(|token| !token.is_empty()).ok_or(NoToken::Empty)?;
    if let Some(term) = Term::of(&token).filter(|term| term.lasts() < DAY * 7) {
        progress(&format!(
            "this cluster's tokens last {} at most: a federation whose role is away for longer has to be let in again",
            koinon_control::clock::age(term.expires.duration_since(term.issued))
        ));
    }
    Ok(token)
}

/// Takes back a token that does not end, where one was made once.
pub(super) async fn drop_endless(member: &Client) -> Result<(), call::Error> {
    let secrets: Api<Secret> = Api::namespaced(member.clone(), KOINON_NAMESPACE);
    match within_deadline(secrets.delete(ENDLESS, &DeleteParams::default())).await {
        Err(error) if !error.is_object_absent() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
