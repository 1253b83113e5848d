//! Whether a token is good, and whose it is.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::key::Parts;
use super::{Issuer, Lookup, meta};
use crate::auth::identity::{
    CREDENTIAL_ID, NODE_NAME, Rejected, User, service_account_groups, service_account_user,
};
use crate::auth::rbac::quoted;
use crate::context::Context;

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";
/// How far clocks may differ, and how long a deleted object still counts.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);
const INVALIDATED: &str = "service account token has been invalidated";

/// A token that is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Without the group of all authenticated users, which whoever authenticates a request adds.
    pub user: User,
    /// The audiences of the token that were asked for.
    pub audiences: Vec<String>,
}

impl Issuer {
    /// Checks a token for one of some audiences. `None`: it is none of this issuer's.
    pub fn verify(
        &self,
        token: &str,
        audiences: &[String],
        lookup: &dyn Lookup,
        context: &Context,
    ) -> Result<Option<Verified>, Rejected> {
        let Some(parts) = Parts::decode(token) else { return Ok(None) };
        let claims = &parts.claims;
        if claims["iss"] != *self.name {
            return Ok(None);
        }
        self.key.check(&parts)?;
        let own = audiences_of(claims);
        let matching: Vec<String> = own.iter().filter(|one| audiences.contains(one)).cloned().collect();
        if matching.is_empty() {
            let why = format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(&own),
                quoted(audiences)
            );
            return Err(Rejected(why));
        }
        let now = context.now();
        in_time(claims, now).map_err(|why| Rejected(why.to_owned()))?;
        let user = still_there(claims, now, lookup)?;
        Ok(Some(Verified { user, audiences: matching }))
    }
}

/// One string or a list of them.
fn audiences_of(claims: &Value) -> Vec<String> {
    match &claims["aud"] {
        Value::String(one) => vec![one.clone()],
        list => list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

fn in_time(claims: &Value, now: Timestamp) -> Result<(), &'static str> {
    let at = |key: &str| claims[key].as_i64().and_then(|seconds| Timestamp::from_second(seconds).ok());
    if at("nbf").is_some_and(|start| now + LEEWAY < start) {
        return Err("service account token is not valid yet");
    }
    // Every token that is made here has an end; one without would be good forever.
    if at("exp").is_none_or(|end| now - LEEWAY > end) {
        return Err("service account token has expired");
    }
    if at("iat").is_some_and(|issued| now + LEEWAY < issued) {
        return Err("service account token is issued in the future");
    }
    Ok(())
}

/// The user, if everything that the claims speak of still exists.
fn still_there(claims: &Value, now: Timestamp, lookup: &dyn Lookup) -> Result<User, Rejected> {
    let private = &claims["kubernetes.io"];
    let namespace = private["namespace"].as_str().unwrap_or_default();
    let reference = |key: &str| Reference::of(private.get(key)?);
    let account = reference("serviceaccount").unwrap_or_default();
    let gone = |object: &Value| deleted_before(object, now - LEEWAY);

    let found = lookup
        .get("", "serviceaccounts", namespace, account.name)
        .ok_or_else(|| Rejected(format!("serviceaccounts {:?} not found", account.name)))?;
    if meta(&found, "uid") != account.uid {
        let uid = meta(&found, "uid");
        return Err(Rejected(format!("service account UID ({uid}) does not match claim ({})", account.uid)));
    }
    if gone(&found) {
        return Err(Rejected(format!("service account {namespace}/{} has been deleted", account.name)));
    }

    let bound = |what: &str, resource: &str, namespace: &str, reference: Reference<'_>| {
        let object = lookup.get("", resource, namespace, reference.name);
        let object = object.ok_or_else(|| Rejected(INVALIDATED.to_owned()))?;
        let uid = meta(&object, "uid");
        if uid != reference.uid {
            let claim = format!("service account {what} ref claim ({})", reference.uid);
            return Err(Rejected(format!("{what} UID ({uid}) does not match {claim}")));
        }
        if gone(&object) { Err(Rejected(INVALIDATED.to_owned())) } else { Ok(()) }
    };
    let (pod, node) = (reference("pod"), reference("node"));
    if let Some(secret) = reference("secret") {
        bound("secret", "secrets", namespace, secret)?;
    }
    if let Some(pod) = pod {
        bound("pod", "pods", namespace, pod)?;
    }
    // Next to a Pod the node is only told; the token is not bound to it.
    if let (Some(node), None) = (node, pod) {
        bound("node", "nodes", "", node)?;
    }
    let mut extra = BTreeMap::new();
    let mut tell = |key: &str, value: &str| {
        if !value.is_empty() {
            extra.insert(key.to_owned(), vec![value.to_owned()]);
        }
    };
    if let Some(pod) = pod {
        tell(POD_NAME, pod.name);
        tell(POD_UID, pod.uid);
    }
    if let Some(node) = node {
        tell(NODE_NAME, node.name);
        tell(NODE_UID, node.uid);
    }
    if let Some(id) = claims["jti"].as_str().filter(|id| !id.is_empty()) {
        tell(CREDENTIAL_ID, &format!("JTI={id}"));
    }
    Ok(User {
        name: service_account_user(namespace, account.name),
        uid: account.uid.to_owned(),
        groups: service_account_groups(namespace),
        extra,
    })
}

#[derive(Clone, Copy, Default)]
struct Reference<'a> {
    name: &'a str,
    uid: &'a str,
}

impl<'a> Reference<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        value.is_object().then(|| Reference { name: text("name"), uid: text("uid") })
    }
}

fn deleted_before(object: &Value, moment: Timestamp) -> bool {
    let deleted = meta(object, "deletionTimestamp").parse::<Timestamp>();
    deleted.is_ok_and(|deleted| deleted < moment)
}
