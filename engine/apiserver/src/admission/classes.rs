//! DefaultStorageClass and DefaultIngressClass: what names no class gets the default one.

use serde_json::Value;

use super::{Attributes, Lookup};
use crate::kinds::walk::{get, map_mut, object_mut, text};

/// The newest of the classes that are marked as the default.
fn default_class(classes: Vec<Value>, marks: &[&str]) -> Option<String> {
    let marked =
        |class: &Value| marks.iter().any(|mark| get(class, &["metadata", "annotations", mark]) == "true");
    let mut classes: Vec<Value> = classes.into_iter().filter(marked).collect();
    let meta = |class: &Value, key: &str| text(&class["metadata"], key).to_owned();
    classes.sort_by(|one, other| {
        let newest = meta(other, "creationTimestamp").cmp(&meta(one, "creationTimestamp"));
        newest.then_with(|| meta(one, "name").cmp(&meta(other, "name")))
    });
    classes.first().map(|class| meta(class, "name"))
}

fn set_class(object: &mut Value, key: &str, class: Option<String>) {
    if let Some(class) = class {
        map_mut(object_mut(object, "spec")).insert(key.to_owned(), class.into());
    }
}

pub(super) fn default_storage_class(request: &Attributes<'_>, claim: &mut Value, lookup: &dyn Lookup) {
    const ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
    const MARKS: [&str; 2] =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let named = !get(claim, &["spec", "storageClassName"]).is_null()
        || !get(claim, &["metadata", "annotations", ANNOTATION]).is_null();
    if request.creates("", "persistentvolumeclaims") && !named {
        let classes = lookup.list("storage.k8s.io", "storageclasses", "");
        set_class(claim, "storageClassName", default_class(classes, &MARKS));
    }
}

pub(super) fn default_ingress_class(request: &Attributes<'_>, ingress: &mut Value, lookup: &dyn Lookup) {
    const ANNOTATION: &str = "kubernetes.io/ingress.class";
    const MARKS: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];
    let named = !get(ingress, &["spec", "ingressClassName"]).is_null()
        || !get(ingress, &["metadata", "annotations", ANNOTATION]).is_null();
    if request.creates("networking.k8s.io", "ingresses") && !named {
        let classes = lookup.list("networking.k8s.io", "ingressclasses", "");
        set_class(ingress, "ingressClassName", default_class(classes, &MARKS));
    }
}
