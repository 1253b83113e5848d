//! The objects that a policy takes its parameters from.

use serde_json::Value;

use super::frame::Frame;
use crate::admission::{Lookup, Served};
use crate::kinds::selectors::selects;
use crate::kinds::walk::{get, text};

/// How a policy's parameters are found; `None` if it has none, otherwise why they cannot be.
pub(super) fn found(policy: &Frame, lookup: &dyn Lookup) -> Result<Option<Served>, String> {
    if policy.param_kind.is_null() {
        return Ok(None);
    }
    let (api_version, kind) = (text(&policy.param_kind, "apiVersion"), text(&policy.param_kind, "kind"));
    let missing = || {
        let group = if api_version.contains('/') { "" } else { "/" };
        format!("failed to find resource referenced by paramKind: '{group}{api_version}, Kind={kind}'")
    };
    lookup.resource_of(api_version, kind).ok_or_else(missing).map(Some)
}

/// The parameters that a binding names, with each of which the policy is evaluated, or why there are none.
pub(super) fn collect(
    policy: &Frame,
    served: &Served,
    reference: &Value,
    namespace: &str,
    lookup: &dyn Lookup,
) -> Result<Vec<Value>, String> {
    let named = text(reference, "namespace");
    let place = match (served.namespaced, named, namespace) {
        (true, "", "") => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.to_owned());
        }
        (true, "", own) => own,
        (true, named, _) => named,
        (false, "", _) => "",
        (false, _, _) => {
            let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Err(why.to_owned());
        }
    };
    let found = match text(reference, "name") {
        "" => {
            let selector = &reference["selector"];
            let all = lookup.list(&served.group, &served.resource, place).into_iter();
            all.filter(|object| selects(selector, get(object, &["metadata", "labels"]))).collect()
        }
        name => Vec::from_iter(lookup.get(&served.group, &served.resource, place, name)),
    };
    if found.is_empty() && text(reference, "parameterNotFoundAction") == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    let typed = found.into_iter().map(|mut object| {
        for key in ["apiVersion", "kind"] {
            object[key] = policy.param_kind[key].clone();
        }
        object
    });
    Ok(typed.collect())
}
