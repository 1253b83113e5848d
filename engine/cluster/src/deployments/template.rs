//! Pod templates: when two are the same, and the hash that names a ReplicaSet after its template.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

/// The label that tells the pods of one template from those of another.
pub(super) const HASH_LABEL: &str = "pod-template-hash";

const LONGEST_NAME: usize = 253;
/// No vowels and nothing that looks like one, so that no words come out.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Which of some templates makes the same pods as this one: the first that does.
pub(super) fn find<'a>(
    template: &PodTemplateSpec,
    others: impl Iterator<Item = Option<&'a PodTemplateSpec>> + Clone,
) -> Option<usize> {
    // Nearly always one of them is equal to the letter; only otherwise is the longer look taken.
    let equal = others.clone().position(|other| other.is_some_and(|other| identical(template, other)));
    equal.or_else(|| {
        let wanted = canonical(template);
        others.map(|other| other.map(canonical)).position(|other| other.as_ref() == Some(&wanted))
    })
}

/// Whether two templates make the same pods; the hash label does not count.
pub(crate) fn same(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    find(a, std::iter::once(Some(b))).is_some()
}

fn identical(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    let same_meta = match (&a.metadata, &b.metadata) {
        (Some(a), Some(b)) => {
            fn labels(labels: &Option<BTreeMap<String, String>>) -> impl Iterator<Item = (&String, &String)> {
                labels.iter().flatten().filter(|(key, _)| *key != HASH_LABEL)
            }
            labels(&a.labels).eq(labels(&b.labels))
                && a.annotations == b.annotations
                && a.finalizers == b.finalizers
        }
        (a, b) => a == b,
    };
    same_meta && a.spec == b.spec
}

/// The hash of a template, of which a collision makes another one.
pub(crate) fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let mut hash = Fnv::default();
    hash.write(canonical(template).to_string().as_bytes());
    if let Some(collisions) = collisions {
        hash.write(&i64::from(collisions).to_le_bytes());
    }
    safe_encode(hash.0)
}

/// A hash as names show it.
pub(crate) fn safe_encode(hash: u32) -> String {
    let digits = hash.to_string();
    digits.bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// The name of the ReplicaSet with this hash.
pub(super) fn set_name(deployment: &str, hash: &str) -> String {
    let room = LONGEST_NAME - 1 - hash.len();
    let mut end = deployment.len().min(room);
    while !deployment.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash}", &deployment[..end])
}

/// The template as one would write it, without what means nothing: the hash label and empty lists and maps.
fn canonical(template: &PodTemplateSpec) -> Value {
    let mut value = serde_json::to_value(template).unwrap_or_default();
    if let Some(labels) = value.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    prune(&mut value);
    value
}

fn prune(value: &mut Value) {
    /// An empty object under any other name is a choice, such as `emptyDir: {}`.
    const MAPS: [&str; 7] =
        ["metadata", "labels", "annotations", "nodeSelector", "limits", "requests", "overhead"];
    match value {
        Value::Object(fields) => {
            for field in fields.values_mut() {
                prune(field);
            }
            fields.retain(|name, field| match field {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(inner) => !(inner.is_empty() && MAPS.contains(&name.as_str())),
                _ => true,
            });
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

/// FNV-1a, 32 bits.
struct Fnv(u32);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0x811c_9dc5)
    }
}

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(template: Value) -> PodTemplateSpec {
        serde_json::from_value(template).unwrap()
    }

    fn check(a: Value, b: Value, expected: bool) {
        assert_eq!(same(&template(a.clone()), &template(b.clone())), expected, "{a} {b}");
        assert_eq!(hash(&template(a.clone()), None) == hash(&template(b.clone()), None), expected, "{a} {b}");
    }

    #[test]
    fn only_what_makes_other_pods_counts() {
        let pod = |extra: Value| {
            let mut container = json!({"name": "c", "image": "i"});
            container.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}})
        };
        let mut labelled = pod(json!({}));
        labelled["metadata"]["labels"][HASH_LABEL] = "x".into();
        check(pod(json!({})), labelled, true);
        check(pod(json!({})), pod(json!({"args": []})), true);
        check(pod(json!({})), pod(json!({"resources": {"limits": {}}})), false);
        check(pod(json!({"resources": {}})), pod(json!({"resources": {"limits": {}}})), true);
        check(pod(json!({})), pod(json!({"args": ["a"]})), false);
        check(pod(json!({})), pod(json!({"securityContext": {}})), false);
        let mut annotated = pod(json!({}));
        annotated["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/restartedAt": "now"});
        check(pod(json!({})), annotated, false);
    }

    #[test]
    fn a_collision_makes_another_hash_of_the_same_alphabet() {
        let template = template(json!({"metadata": {"labels": {"app": "web"}}}));
        let hashes = [None, Some(0), Some(1), Some(2)].map(|count| hash(&template, count));
        let different: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(different.len(), 4, "{hashes:?}");
        for hash in &hashes {
            assert!(hash.len() <= 10 && hash.bytes().all(|byte| ALPHABET.contains(&byte)), "{hash}");
        }
    }

    #[test]
    fn known_values_of_fnv() {
        let of = |text: &str| {
            let mut hash = Fnv::default();
            hash.write(text.as_bytes());
            hash.0
        };
        assert_eq!((of(""), of("a"), of("foobar")), (0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968));
    }

    #[test]
    fn a_long_name_is_cut_to_fit() {
        assert_eq!(set_name("web", "abc"), "web-abc");
        assert_eq!(set_name(&"x".repeat(253), "abcde").len(), 253);
    }
}
