//! ControllerRevisions: what the templates of StatefulSets and DaemonSets were, so that one can go back.
//!
//! A revision holds a strategic merge patch that puts its template back; `kubectl rollout undo` sends it as it is.

mod act;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt as _};
use serde_json::{Value, json};

use crate::deployments::template::{safe_encode, same};
use crate::replicasets::claim::controller_reference;

pub(crate) use self::act::{Created, History};

/// The longest that a name may be before the hash is put to it.
const LONGEST_PREFIX: usize = 223;

/// The patch that restores a template.
pub(crate) fn data(template: &PodTemplateSpec) -> RawExtension {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        fields.insert("$patch".into(), "replace".into());
    }
    RawExtension(json!({"spec": {"template": template}}))
}

/// The template that a revision restores; none for a patch that restores nothing of it.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// Whether a revision restores this template. What means the same counts as the same: which empty fields are written
/// out differs between releases of Kubernetes.
pub(crate) fn restores(revision: &ControllerRevision, wanted: &PodTemplateSpec) -> bool {
    template(revision).is_some_and(|template| same(wanted, &template))
}

/// The hash of what a revision holds, as clusters take it: over the text that Go writes for it.
pub(crate) fn hash(data: &RawExtension, collisions: i32) -> String {
    let text = data.0.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    // FNV-1, 32 bits.
    let bytes = text.bytes().chain(collisions.to_string().into_bytes());
    let hash = bytes.fold(0x811c_9dc5u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte));
    safe_encode(hash)
}

/// The name of the revision with this hash.
fn name(owner: &str, hash: &str) -> String {
    let mut end = owner.len().min(LONGEST_PREFIX);
    while !owner.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash}", &owner[..end])
}

/// A revision of its owner's template, to be made, that carries its hash as this label.
pub(crate) fn revision<O>(
    owner: &O,
    template: &PodTemplateSpec,
    (label, hash): (&str, &str),
    number: i64,
) -> ControllerRevision
where
    O: Resource<DynamicType = ()>,
{
    let meta = template.metadata.as_ref();
    let mut labels = meta.and_then(|meta| meta.labels.clone()).unwrap_or_default();
    labels.insert(label.to_owned(), hash.to_owned());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name(&owner.name_any(), hash)),
            namespace: owner.namespace(),
            labels: Some(labels),
            annotations: owner.meta().annotations.clone(),
            owner_references: Some(vec![controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(data(template)),
        revision: number,
    }
}

/// Sorts the oldest first, by name where they are as old.
pub(crate) fn sort<R: AsRef<ControllerRevision>>(revisions: &mut [R]) {
    revisions.sort_by(|a, b| {
        let key = |one: &R| {
            let one = one.as_ref();
            let created = one.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (one.revision, created, one.metadata.name.clone())
        };
        key(a).cmp(&key(b))
    });
}

/// Whether two hold the same to the letter.
fn holds_same(a: &ControllerRevision, b: &ControllerRevision) -> bool {
    let of = |one: &ControllerRevision| one.data.as_ref().map(|data: &RawExtension| data.0.clone());
    of(a).unwrap_or(Value::Null) == of(b).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn pod(image: &str) -> PodTemplateSpec {
        let pod = json!({"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": image, "resources": {}}]}});
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn a_revision_restores_its_template_and_no_other() {
        let revision = ControllerRevision { data: Some(data(&pod("v1"))), ..ControllerRevision::default() };
        assert_eq!(revision.data.as_ref().unwrap().0["spec"]["template"]["$patch"], "replace");
        assert_eq!(template(&revision), Some(pod("v1")));
        assert!(restores(&revision, &pod("v1")) && !restores(&revision, &pod("v2")));
        assert!(!restores(&ControllerRevision::default(), &pod("v1")));
        // As a release before 1.34 wrote it.
        let mut older = revision.clone();
        older.data.as_mut().unwrap().0["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        assert!(restores(&older, &pod("v1")) && !holds_same(&older, &revision));
    }

    #[test]
    fn the_hash_is_the_one_of_a_stock_cluster() {
        // As kube-controller-manager 1.36.3 named it.
        let container = json!({"name": "c", "image": "nginx:1", "args": ["a<b", "x&y"], "resources": {},
            "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File"});
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30}});
        let data = data(&serde_json::from_value(template).unwrap());
        assert_eq!(hash(&data, 0), "55fbc47f68");
        assert_ne!(hash(&data, 1), hash(&data, 0));
        assert_eq!(name(&"x".repeat(253), "abc").len(), 227);
    }

    #[test]
    fn revisions_go_by_number_then_age_then_name() {
        let revision = |name: &str, number: i64, created: &str| {
            let meta = json!({"name": name, "creationTimestamp": created});
            let revision: ControllerRevision =
                serde_json::from_value(json!({"metadata": meta, "revision": number})).unwrap();
            Arc::new(revision)
        };
        let (early, late) = ("2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z");
        let mut all =
            [revision("d", 2, early), revision("c", 1, late), revision("b", 1, late), revision("a", 1, late)];
        all[3] = revision("z", 1, early);
        sort(&mut all);
        let names: Vec<_> = all.iter().map(|one| one.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, ["z", "b", "c", "d"]);
    }
}
