//! NamespaceLifecycle: nothing is written where there is no namespace, or where it is going away.

use serde_json::{Value, json};

use super::{Attributes, Lookup, Operation};
use crate::kinds::walk::{get, text};
use crate::status::{Error, GroupResource, Result};

/// The namespaces that are always there.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) fn check(request: &Attributes<'_>, object: &Value, lookup: &dyn Lookup) -> Result<()> {
    if request.operation == Operation::Connect {
        return Ok(());
    }
    if request.group.is_empty() && request.kind == "Namespace" {
        let doomed = request.operation == Operation::Delete && IMMORTAL.contains(&request.name);
        return if doomed {
            let namespaces = GroupResource::new("", "namespaces");
            Err(Error::forbidden(&namespaces, request.name, "this namespace may not be deleted"))
        } else {
            Ok(())
        };
    }
    // Whether a namespace is there is not for everyone to know.
    let review = request.is("authorization.k8s.io", "localsubjectaccessreviews");
    if request.namespace.is_empty() || request.operation == Operation::Delete || review {
        return Ok(());
    }
    let Some(namespace) = lookup.get("", "namespaces", "", request.namespace) else {
        return Err(Error::not_found(&GroupResource::new("", "namespaces"), request.namespace));
    };
    let terminating = text(get(&namespace, &["status"]), "phase") == "Terminating";
    if request.operation == Operation::Create && terminating {
        let name = request.namespace;
        let why = format!("unable to create new content in namespace {name} because it is being terminated");
        let mut error = request.forbidden(object, &why);
        if let Some(Value::Object(details)) = error.details.as_deref_mut() {
            let cause = json!({
                "reason": "NamespaceTerminating",
                "message": format!("namespace {name} is being terminated"),
                "field": "metadata.namespace",
            });
            details.insert("causes".to_owned(), json!([cause]));
        }
        return Err(error);
    }
    Ok(())
}
