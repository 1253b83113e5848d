//! Objects that somebody else made, by what their metadata tells.

use koinon_api::names::{FEDERATED, MANAGER};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

/// Whether somebody else says what this object should be. Who only counts, or tells how it is, does not.
pub(super) fn is_foreign(metadata: &ObjectMeta) -> bool {
    metadata.managed_fields.iter().flatten().any(|entry| {
        let fields = entry.fields_v1.as_ref();
        entry.manager.as_deref() != Some(MANAGER)
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
            && fields.is_some_and(|fields| fields.0.get("f:spec").is_some())
    })
}

/// The controller there that it belongs to.
pub(super) fn owner(metadata: &ObjectMeta) -> Option<String> {
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some(format!("{} {}", owner.kind, owner.name))
}

/// A patch after which nobody owns a field of an object but us, and we as whoever applied it: what others own stays when we stop
/// to say it, and so does what we wrote in any other way.
pub(super) fn disowned(manifest: &Value) -> Value {
    let label = format!("f:{FEDERATED}");
    json!({"metadata": {
        "managedFields": [{
            "manager": MANAGER,
            "operation": "Apply",
            "apiVersion": manifest["apiVersion"],
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {label: {}}}},
        }],
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_what_it_should_be_made_it() {
        let metadata = |manager: &str, subresource: &str, fields: Value| -> ObjectMeta {
            serde_json::from_value(json!({"managedFields": [
                {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                {"manager": manager, "operation": "Update", "subresource": subresource, "fieldsV1": fields},
            ]}))
            .unwrap()
        };
        let spec = || json!({"f:spec": {"f:replicas": {}}});
        assert!(is_foreign(&metadata("kubectl", "", spec())));
        assert!(!is_foreign(&metadata("autoscaler", "scale", spec())));
        assert!(!is_foreign(&metadata("kube-controller-manager", "", json!({"f:metadata": {}}))));
        assert!(!is_foreign(&metadata(MANAGER, "", spec())), "defaults of an admission webhook");
    }
}
