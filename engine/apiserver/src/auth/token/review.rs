//! TokenReview: whose token this is, for those who cannot tell themselves.

use serde_json::{Value, json};

use super::{Issuer, Lookup, Verified};
use crate::auth::identity::{Rejected, StaticTokens, Tokens};
use crate::context::Context;
use crate::status::{Error, Result};

/// Answers a TokenReview: the request with a status.
pub fn review(
    mut body: Value,
    issuer: &Issuer,
    statics: &StaticTokens,
    lookup: &dyn Lookup,
    context: &Context,
) -> Result<Value> {
    let Some(token) = body["spec"]["token"].as_str().filter(|token| !token.is_empty()) else {
        return Err(Error::bad_request("token is required for TokenReview in authentication"));
    };
    let asked: Vec<String> = body["spec"]["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let audiences = if asked.is_empty() { &issuer.audiences } else { &asked };
    let status = match check(token, audiences, issuer, statics, lookup, context) {
        Ok(Some(Verified { user, audiences })) => {
            json!({"authenticated": true, "user": user.authenticated().to_info(), "audiences": audiences})
        }
        Ok(None) => json!({"user": {}, "error": "invalid bearer token"}),
        Err(Rejected(why)) => json!({"user": {}, "error": format!("[invalid bearer token, {why}]")}),
    };
    body["status"] = status;
    Ok(body)
}

fn check(
    token: &str,
    audiences: &[String],
    issuer: &Issuer,
    statics: &StaticTokens,
    lookup: &dyn Lookup,
    context: &Context,
) -> Result<Option<Verified>, Rejected> {
    // A static token says nothing of audiences: it is for this server, under whatever name was asked for.
    let own: Vec<String> = issuer.audiences.iter().filter(|one| audiences.contains(one)).cloned().collect();
    if let (Some(user), false) = (statics.authenticate(token)?, own.is_empty()) {
        return Ok(Some(Verified { user, audiences: own }));
    }
    issuer.verify(token, audiences, lookup, context)
}
