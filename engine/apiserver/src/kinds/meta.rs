//! Metadata: what every object's name, labels, annotations, owners and finalizers must look like, and
//! what of them may change.

use std::collections::BTreeSet;

use serde_json::Value;

use super::selectors::{validate_annotations, validate_labels};
use super::walk::{At, Faults, get, immutable, text};
use crate::field::Error;
use crate::names;

const MANAGER_MOST: usize = 128;
const SUBRESOURCE_MOST: usize = 256;

/// What is wrong with the metadata of a new object, whose name was already made from `generateName`.
pub fn validate_meta(obj: &Value, namespaced: bool, name_rule: fn(&str) -> Vec<String>) -> Vec<Error> {
    let meta = At::top(obj, "metadata");
    let mut faults = Faults::new();
    let prefix = meta.text("generateName");
    if !prefix.is_empty() {
        let path = meta.child("generateName").path;
        let wrong = name_rule(&names::mask_trailing_dash(prefix));
        faults.extend(wrong.into_iter().map(|why| Error::invalid(&path, prefix, why)));
    }
    let name = meta.child("name");
    if name.str().is_empty() {
        faults.push(name.required("name or generateName is required"));
    } else {
        faults.extend(name.obey(name_rule));
    }
    let namespace = meta.child("namespace");
    if namespaced {
        faults.extend(namespace.required_and(names::dns1123_label));
    } else if !namespace.str().is_empty() {
        faults.push(namespace.forbidden("not allowed on this type"));
    }
    faults.extend(meta.child("generation").non_negative());
    faults.extend(validate_labels(&meta.child("labels")));
    faults.extend(validate_annotations(&meta.child("annotations")));
    faults.extend(validate_owners(&meta.child("ownerReferences")));
    faults.extend(validate_finalizers(&meta.child("finalizers")));
    faults.extend(validate_managed_fields(&meta.child("managedFields")));
    faults
}

/// What is wrong with the metadata of an update, of whatever kind.
pub fn validate_meta_update(new: &Value, old: &Value) -> Vec<Error> {
    let namespaced = !text(&old["metadata"], "namespace").is_empty();
    let mut faults = validate_meta(new, namespaced, names::path_segment);
    faults.extend(validate_change(new, old));
    faults
}

/// What is wrong with the change of an object's metadata.
pub(crate) fn validate_change(new: &Value, old: &Value) -> Faults {
    let (new, old) = (At::top(new, "metadata"), At::top(old, "metadata"));
    let mut faults = Faults::new();
    if old.has("deletionTimestamp") {
        faults.extend(no_new_finalizers(&new.child("finalizers"), &old.child("finalizers")));
    }
    let version = new.text("resourceVersion");
    if version.is_empty() {
        let path = new.child("resourceVersion").path;
        faults.push(Error::invalid(&path, version, "must be specified for an update"));
    }
    let generation = |meta: &At<'_>| meta.int("generation").unwrap_or(0);
    if generation(&new) < generation(&old) {
        let path = new.child("generation").path;
        faults.push(Error::invalid(&path, generation(&new), "must not be decremented"));
    }
    for name in ["name", "namespace", "uid"] {
        let field = new.child(name);
        if field.str() != old.text(name) {
            faults.push(Error::invalid(&field.path, field.str(), super::walk::IMMUTABLE));
        }
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        faults.extend(immutable(&new.child(name), &old.child(name)));
    }
    faults.extend(validate_labels(&new.child("labels")));
    faults.extend(validate_annotations(&new.child("annotations")));
    faults.extend(validate_owners(&new.child("ownerReferences")));
    faults.extend(validate_managed_fields(&new.child("managedFields")));
    faults
}

/// What built-in kinds ask of metadata beyond [`validate_meta`]: a finalizer without a prefix is one of
/// the three that Kubernetes itself uses. Custom resources do not ask it.
pub(crate) fn validate_builtin(obj: &Value) -> Vec<Error> {
    let finalizers = At::top(obj, "metadata").child("finalizers");
    finalizers.items().filter_map(|one| validate_kube_finalizer(&one)).collect()
}

/// What built-in kinds ask of metadata on an update. Much of it was asked before, and causes list it twice.
pub(crate) fn validate_builtin_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut faults = validate_change(new, old);
    faults.extend(validate_builtin(new));
    faults
}

/// What kinds ask that, on an update, check metadata as if the object were new.
pub(crate) fn validate_builtin_again(
    obj: &Value,
    namespaced: bool,
    name_rule: fn(&str) -> Vec<String>,
) -> Vec<Error> {
    let mut faults = validate_meta(obj, namespaced, name_rule);
    faults.extend(validate_builtin(obj));
    faults
}

/// One fault if a finalizer has neither a prefix nor a name that Kubernetes itself uses.
pub(crate) fn validate_kube_finalizer(finalizer: &At<'_>) -> Option<Error> {
    let own = ["kubernetes", "orphan", "foregroundDeletion"];
    let fine = finalizer.str().contains('/') || own.contains(&finalizer.str());
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    (!fine).then(|| finalizer.invalid(why))
}

/// Labels and annotations of a template for objects: nothing else may be set.
pub(crate) fn validate_template_meta(meta: &At<'_>) -> Faults {
    let mut faults = validate_annotations(&meta.child("annotations"));
    faults.extend(validate_labels(&meta.child("labels")));
    // In the order of the fields of ObjectMeta.
    let others = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ];
    let set = others.iter().map(|name| meta.child(name)).filter(|field| !super::walk::is_empty(field.value));
    faults.extend(set.map(|field| {
        // Go's name for it differs in the capitals, and that is what messages show.
        let name = if field.path.as_str().ends_with(".uid") { meta.child("uID") } else { field };
        name.forbidden("cannot be set")
    }));
    faults
}

fn validate_owners(owners: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let mut controller: Option<String> = None;
    for owner in owners.items() {
        let (version, kind) = (owner.text("apiVersion"), owner.text("kind"));
        // Nothing in the path says which owner is meant.
        let at = |name: &str| owners.path.child(name);
        let (group, group_version) = version.rsplit_once('/').unwrap_or(("", version));
        if group_version.is_empty() {
            faults.push(Error::invalid(&at("apiVersion"), version, "version must not be empty"));
        }
        for name in ["kind", "name", "uid"] {
            if owner.text(name).is_empty() {
                faults.push(Error::invalid(&at(name), "", "must not be empty"));
            }
        }
        if (group, group_version, kind) == ("", "v1", "Event") {
            let detail =
                format!("{}: /v1, Kind=Event is disallowed from being an owner", show_owner(owner.value));
            faults.push(shown(owners, &detail));
        }
        if owner.is_true("controller") {
            let name = format!("{kind}/{}", owner.text("name"));
            match &controller {
                None => controller = Some(name),
                Some(first) => {
                    let all: Vec<String> = owners.items().map(|one| show_owner(one.value)).collect();
                    let detail = format!(
                        "[{}]: Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}",
                        all.join(",")
                    );
                    faults.push(shown(owners, &detail));
                }
            }
        }
    }
    faults
}

/// A fault whose value stands in the detail already, since its fields have an order of their own.
fn shown(at: &At<'_>, detail: &str) -> Error {
    Error { value: None, ..at.invalid(detail) }
}

fn show_owner(owner: &Value) -> String {
    let mut parts: Vec<String> = ["apiVersion", "kind", "name", "uid"]
        .iter()
        .map(|name| format!("{name:?}:{}", Value::from(text(owner, name))))
        .collect();
    parts.extend(
        ["controller", "blockOwnerDeletion"]
            .iter()
            .filter_map(|name| owner.get(name).map(|value| format!("{name:?}:{value}"))),
    );
    format!("{{{}}}", parts.join(","))
}

fn validate_finalizers(finalizers: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let has = |name: &str| finalizers.items().any(|one| one.str() == name);
    for one in finalizers.items() {
        let wrong = names::qualified_name(one.str());
        faults.extend(wrong.into_iter().map(|why| Error::invalid(&finalizers.path, one.str(), why)));
    }
    if has("orphan") && has("foregroundDeletion") {
        faults.push(finalizers.invalid("finalizer orphan and foregroundDeletion cannot be both set"));
    }
    faults
}

fn no_new_finalizers(new: &At<'_>, old: &At<'_>) -> Option<Error> {
    let names = |all: &At<'_>| all.items().map(|one| one.str().to_owned()).collect::<BTreeSet<_>>();
    let added: Vec<String> = names(new).difference(&names(old)).map(|name| format!("{name:?}")).collect();
    if added.is_empty() {
        return None;
    }
    let list = added.join(", ");
    Some(new.forbidden(&format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
    )))
}

fn validate_managed_fields(entries: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    for entry in entries.items() {
        let operation = entry.text("operation");
        if operation != "Apply" && operation != "Update" {
            let path = entry.child("operation").path;
            faults.push(Error::invalid(&path, operation, "must be `Apply` or `Update`"));
        }
        let kind = entry.child("fieldsType");
        if !matches!(kind.str(), "" | "FieldsV1") {
            faults.push(kind.invalid("must be `FieldsV1`"));
        }
        let manager = entry.child("manager");
        if manager.str().len() > MANAGER_MOST {
            faults.push(Error::too_long(&manager.path, MANAGER_MOST));
        }
        for (at, one) in manager.str().char_indices().filter(|(_, one)| one.is_control()) {
            let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(one));
            faults.push(manager.invalid(detail));
        }
        let subresource = entry.child("subresource");
        if subresource.str().len() > SUBRESOURCE_MOST {
            faults.push(Error::too_long(&subresource.path, SUBRESOURCE_MOST));
        }
    }
    faults
}

/// The annotations of an object.
pub(crate) fn annotation<'a>(obj: &'a Value, name: &str) -> Option<&'a str> {
    get(obj, &["metadata", "annotations", name]).as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::field;

    #[track_caller]
    fn check(metadata: Value, expected: &str) {
        let faults = validate_meta(&json!({"metadata": metadata}), true, names::dns1123_subdomain);
        assert_eq!(field::aggregate(&faults), expected);
    }

    #[test]
    fn new_objects() {
        check(json!({"name": "a", "namespace": "b"}), "[]");
        check(
            json!({"generateName": "AB-"}),
            &format!(
                "[metadata.generateName: Invalid value: \"AB-\": {}, metadata.name: Required value: name or generateName is required, metadata.namespace: Required value]",
                names::dns1123_subdomain("A")[0]
            ),
        );
        check(
            json!({"name": "a", "namespace": "b", "generation": -1, "finalizers": ["orphan", "foregroundDeletion"]}),
            "[metadata.generation: Invalid value: -1: must be greater than or equal to 0, metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set]",
        );
        check(
            json!({"name": "a", "namespace": "b", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1", "controller": true},
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "y", "uid": "2", "controller": true, "blockOwnerDeletion": true}]}),
            r#"metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"x","uid":"1","controller":true},{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"y","uid":"2","controller":true,"blockOwnerDeletion":true}]: Only one reference can have Controller set to true. Found "true" in references for Pod/x and ReplicaSet/y"#,
        );
        check(
            json!({"name": "a", "namespace": "b", "annotations": {"a": "x".repeat(262_144)}}),
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        );
    }

    #[test]
    fn updates() {
        let old = json!({"metadata": {"name": "a", "namespace": "b", "uid": "1", "generation": 2,
            "deletionTimestamp": "2020-01-01T00:00:00Z", "finalizers": ["a/b"]}});
        let new = json!({"metadata": {"name": "c", "namespace": "b", "uid": "1", "resourceVersion": "1",
            "generation": 1, "finalizers": ["a/b", "x/y"]}});
        let text = field::aggregate(&validate_meta_update(&new, &old));
        assert_eq!(
            text,
            "[metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x/y\"}, metadata.generation: Invalid value: 1: must not be decremented, metadata.name: Invalid value: \"c\": field is immutable, metadata.deletionTimestamp: Invalid value: null: field is immutable]"
        );
    }
}
