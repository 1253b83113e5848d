//! A token by which a federation logs in to a member, for as long as the member lets it.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use koinon_api::membership::KOINON_NAMESPACE;
use koinon_control::call::{self, within_deadline};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::Instant;

use super::books::apply;
use super::{Error, rbac};

/// Whoever joins does not come back to renew it; `unjoin` and a new `join` do.
const LASTS: i64 = 10 * 365 * 24 * 3600;
/// The Secret of a token that does not end, beside the account that it is for.
const SECRET: &str = "koinon-member-token";
/// A cluster fills the Secret within this time, if it does at all.
const FILLED_WITHIN: Duration = Duration::from_secs(10);

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

/// Gets a token for the account of the federation. Where a server gives none for so long, as those of several clouds,
/// the token is one that the cluster keeps in a Secret, which does not end.
pub(super) async fn get(
    member: &Client,
    account: &Account,
    progress: &mut impl FnMut(&str),
) -> Result<String, NoToken> {
    let accounts: Api<ServiceAccount> = Api::namespaced(member.clone(), KOINON_NAMESPACE);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec { expiration_seconds: Some(LASTS), ..TokenRequestSpec::default() }),
        ..TokenRequest::default()
    };
    let made =
        within_deadline(accounts.create_token_request(&account.name, &PostParams::default(), &request)).await;
    let made = made.map_err(NoToken::Failed)?;
    let lasts = made.spec.and_then(|spec| spec.expiration_seconds).unwrap_or(LASTS);
    let status = made.status.ok_or(NoToken::Empty)?;
    let token = status.token.filter(|token| !token.is_empty()).ok_or(NoToken::Empty)?;
    if lasts >= LASTS {
        return Ok(token);
    }
    progress("this cluster's tokens end early; asking for one that does not");
    if let Some(lasting) = kept(member, account).await? {
        return Ok(lasting);
    }
    let end = status.expiration_timestamp.map_or_else(|| "soon".to_owned(), |end| end.0.to_string());
    progress(&format!(
        "it gives none: the federation can log in until {end}; put a new token into the member's Secret before that"
    ));
    Ok(token)
}

/// The account of the federation in a member.
pub(super) struct Account {
    pub(super) name: String,
    /// To whom it belongs, and all else of the federation there.
    pub(super) owner: Value,
}

/// A token that the cluster makes and keeps, if it does that.
async fn kept(member: &Client, account: &Account) -> Result<Option<String>, NoToken> {
    apply(member, &rbac::token(SECRET, &account.name, &account.owner)).await.map_err(NoToken::Failed)?;
    let secrets: Api<Secret> = Api::namespaced(member.clone(), KOINON_NAMESPACE);
    let start = Instant::now();
    loop {
        let secret = within_deadline(secrets.get_opt(SECRET)).await.map_err(NoToken::Failed)?;
        let token = secret.and_then(|secret| secret.data).and_then(|mut data| data.remove("token"));
        if let Some(token) = token.and_then(|token| String::from_utf8(token.0).ok()) {
            return Ok(Some(token));
        }
        if start.elapsed() >= FILLED_WITHIN {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
