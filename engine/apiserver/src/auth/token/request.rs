//! `serviceaccounts/NAME/token`: making a token.

use jiff::SignedDuration;
use serde_json::{Map, Value, json};

use super::{Issuer, Lookup, meta};
use crate::auth::identity::service_account_user;
use crate::context::{Context, rfc3339};
use crate::field::{self, Path};
use crate::status::{Error, GroupResource, Result};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const DEFAULT_SECONDS: i64 = 3600;
const LEAST_SECONDS: i64 = 600;
const MOST_SECONDS: i64 = 1 << 32;
/// What kubelets ask for, for clients that do not know yet that tokens expire. They get a year, and the
/// token says from when on it should have been renewed.
const LENIENT_SECONDS: i64 = 3607;
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

impl Issuer {
    /// Answers a TokenRequest for a service account with the token in its status.
    pub fn request(
        &self,
        namespace: &str,
        name: &str,
        mut body: Value,
        lookup: &dyn Lookup,
        context: &Context,
    ) -> Result<Value> {
        check_metadata(namespace, name, &body)?;
        let account = lookup
            .get("", "serviceaccounts", namespace, name)
            .ok_or_else(|| Error::not_found(&GroupResource::new("", "serviceaccounts"), name))?;
        let (uid, asked) = (meta(&account, "uid"), meta(&body, "uid"));
        if !asked.is_empty() && asked != uid {
            let why = format!(
                "the UID in the token request ({asked}) does not match the UID of the service account ({uid})"
            );
            return Err(Error::conflict(&GroupResource::new(GROUP, KIND), name, &why));
        }

        let seconds = check_seconds(&body["spec"])?;
        let audiences = match body["spec"]["audiences"].as_array() {
            Some(list) if !list.is_empty() => json!(list),
            _ => json!(self.audiences),
        };
        let bound = bound_object(namespace, name, &body["spec"]["boundObjectRef"], lookup)?;

        let now = context.now();
        let from_now = |seconds: i64| now + SignedDuration::from_secs(seconds);
        let mut private = Map::new();
        private.insert("namespace".into(), namespace.into());
        private.insert("serviceaccount".into(), json!({"name": name, "uid": uid}));
        let extended =
            bound.contains_key("pod") && seconds == LENIENT_SECONDS && self.for_this_server(&audiences);
        if extended {
            private.insert("warnafter".into(), from_now(seconds).as_second().into());
        }
        private.extend(bound);
        let lifetime = if extended { EXTENDED_SECONDS } else { seconds };
        let token = self.key.sign(&json!({
            "iss": self.name,
            "sub": service_account_user(namespace, name),
            "aud": audiences,
            "iat": now.as_second(),
            "nbf": now.as_second(),
            "exp": from_now(lifetime).as_second(),
            "jti": context.uid(),
            "kubernetes.io": private,
        }));

        let metadata = &mut body["metadata"];
        if !metadata.is_object() {
            *metadata = json!({});
        }
        metadata["name"] = name.into();
        metadata["namespace"] = namespace.into();
        metadata["uid"] = uid.into();
        metadata["creationTimestamp"] = rfc3339(now).into();
        let reference = body["spec"]["boundObjectRef"].take();
        body["kind"] = KIND.into();
        body["apiVersion"] = "authentication.k8s.io/v1".into();
        body["spec"] =
            json!({"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference});
        body["status"] = json!({"token": token, "expirationTimestamp": rfc3339(from_now(seconds))});
        Ok(body)
    }

    fn for_this_server(&self, audiences: &Value) -> bool {
        let own = |one: &Value| one.as_str().is_some_and(|one| self.audiences.iter().any(|own| own == one));
        audiences.as_array().is_some_and(|list| list.iter().all(own))
    }
}

fn check_metadata(namespace: &str, name: &str, body: &Value) -> Result<()> {
    let (other_name, other_namespace) = (meta(body, "name"), meta(body, "namespace"));
    if !other_namespace.is_empty() && other_namespace != namespace {
        return Err(Error::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !other_name.is_empty() && other_name != name {
        let path = Path::new("metadata").child("name");
        let why = "must match the service account name if specified";
        return Err(Error::invalid(GROUP, KIND, name, &[field::Error::invalid(&path, other_name, why)]));
    }
    Ok(())
}

/// How long the token should last.
fn check_seconds(spec: &Value) -> Result<i64> {
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    let why = match seconds {
        ..LEAST_SECONDS => "may not specify a duration less than 10 minutes",
        LEAST_SECONDS..=MOST_SECONDS => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let path = Path::new("spec").child("expirationSeconds");
    Err(Error::invalid(GROUP, KIND, "", &[field::Error::invalid(&path, seconds, why)]))
}

/// The claims about the object that a token is bound to, if any.
fn bound_object(
    namespace: &str,
    account: &str,
    reference: &Value,
    lookup: &dyn Lookup,
) -> Result<Map<String, Value>> {
    let mut claims = Map::new();
    if !reference.is_object() {
        return Ok(claims);
    }
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    let (kind, name) = (text("kind"), text("name"));
    let (group, version) = text("apiVersion").split_once('/').unwrap_or_else(|| ("", text("apiVersion")));
    let (resource, scope) = match (group, kind) {
        ("", "Pod") => ("pods", namespace),
        ("", "Secret") => ("secrets", namespace),
        ("", "Node") => ("nodes", ""),
        _ => {
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Error::bad_request(why));
        }
    };
    let object = lookup
        .get("", resource, scope, name)
        .ok_or_else(|| Error::not_found(&GroupResource::new("", resource), name))?;
    if kind == "Pod" && object["spec"]["serviceAccountName"].as_str().unwrap_or_default() != account {
        return Err(Error::bad_request(format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        )));
    }
    let (uid, asked) = (meta(&object, "uid"), text("uid"));
    if !asked.is_empty() && asked != uid {
        let why = format!(
            "the UID in the bound object reference ({asked}) does not match the UID in record. The object might \
             have been deleted and then recreated"
        );
        return Err(Error::conflict(&GroupResource::new(group, kind), name, &why));
    }
    claims.insert(kind.to_lowercase(), json!({"name": name, "uid": uid}));
    if let (Some(node), "Pod") = (object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()), kind) {
        let mut claim = json!({"name": node});
        if let Some(node) = lookup.get("", "nodes", "", node) {
            claim["uid"] = meta(&node, "uid").into();
        }
        claims.insert("node".into(), claim);
    }
    Ok(claims)
}
