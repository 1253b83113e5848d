//! What PodSecurity warns of without refusing it: pods and templates of pods beyond the standard that a
//! namespace wants to hear of, and pods that a stricter standard would have refused.

use std::collections::BTreeMap;
use std::fmt;

use koinon_podsecurity::{ENFORCE, ENFORCE_VERSION, detailed, violations};
use serde_json::Value;

use crate::admission::{Attributes, Lookup, Operation};
use crate::kinds::walk::{get, list, text};

const WARN: &str = "pod-security.kubernetes.io/warn";
const WARN_VERSION: &str = "pod-security.kubernetes.io/warn-version";
/// Of more pods than this, the rest is not looked at.
const PODS_MOST: usize = 3000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(label: &str) -> Option<Level> {
        [Level::Privileged, Level::Baseline, Level::Restricted]
            .into_iter()
            .find(|level| level.name() == label)
    }

    fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

/// A standard, as of one version of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Standard {
    level: Level,
    version: String,
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.version)
    }
}

impl Standard {
    fn enforced(labels: &Value) -> Standard {
        let level = labels.get(ENFORCE).and_then(Value::as_str).unwrap_or("privileged");
        // What nobody understands is taken for the strictest.
        let level = Level::parse(level).unwrap_or(Level::Restricted);
        Standard { level, version: version(labels, ENFORCE_VERSION) }
    }

    /// Who enforces a standard wants to hear of it too, where templates only lead to pods.
    fn warned_of(labels: &Value) -> Standard {
        let own = |level| Standard { level, version: version(labels, WARN_VERSION) };
        if let Some(label) = labels.get(WARN).and_then(Value::as_str) {
            return own(Level::parse(label).unwrap_or(Level::Privileged));
        }
        let Some(level) = Level::parse(text(labels, ENFORCE)) else { return own(Level::Privileged) };
        let versioned = level == Level::Privileged || labels.get(WARN_VERSION).is_some();
        if versioned { own(level) } else { Standard { level, version: version(labels, ENFORCE_VERSION) } }
    }
}

fn version(labels: &Value, key: &str) -> String {
    let given = text(labels, key);
    let minor = given.strip_prefix("v1.").unwrap_or_default();
    let digits = !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit());
    let known = digits && (minor == "0" || !minor.starts_with('0'));
    if known { given.to_owned() } else { "latest".to_owned() }
}

/// What is said of a write that PodSecurity lets pass.
pub(crate) fn warnings(
    request: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
    lookup: &dyn Lookup,
) -> Vec<String> {
    if request.writes("", "namespaces") {
        return old.map(|old| of_namespace(object, old, lookup)).unwrap_or_default();
    }
    let Some(spec) = pod_spec(request, object, old) else { return Vec::new() };
    let Some(namespace) = lookup.get("", "namespaces", "", request.namespace) else { return Vec::new() };
    let standard = Standard::warned_of(get(&namespace, &["metadata", "labels"]));
    let found = violations(standard.level.name(), spec);
    if found.is_empty() {
        return Vec::new();
    }
    vec![format!("would violate PodSecurity {:?}: {}", standard.to_string(), detailed(found))]
}

/// The spec of the pods that a write is about.
fn pod_spec<'a>(request: &Attributes<'_>, object: &'a Value, old: Option<&Value>) -> Option<&'a Value> {
    if request.is("", "pods") {
        let looked_at = ["", "ephemeralcontainers", "resize"].contains(&request.subresource);
        let written = matches!(request.operation, Operation::Create | Operation::Update);
        let changed = old.is_none_or(|old| other_images(object, old));
        return (looked_at && written && changed).then(|| get(object, &["spec"]));
    }
    let template: &[&str] = match (request.group, request.resource) {
        ("", "podtemplates") => &["template"],
        ("", "replicationcontrollers")
        | ("apps", "deployments" | "replicasets" | "daemonsets" | "statefulsets")
        | ("batch", "jobs") => &["spec", "template"],
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template"],
        _ => return None,
    };
    let spec = get(get(object, template), &["spec"]);
    (request.writes(request.group, request.resource) && !spec.is_null()).then_some(spec)
}

/// Whether an update of a pod may run anything new.
fn other_images(new: &Value, old: &Value) -> bool {
    let images = |pod: &Value, kind: &str| -> Vec<String> {
        let containers = list(get(pod, &["spec", kind])).iter();
        containers.map(|container| text(container, "image").to_owned()).collect()
    };
    let fixed = ["containers", "initContainers"].iter().any(|kind| images(new, kind) != images(old, kind));
    let known = list(get(old, &["spec", "ephemeralContainers"]));
    let added = |container: &Value| {
        let same_name = known.iter().find(|old| text(old, "name") == text(container, "name"));
        same_name.is_none_or(|old| text(old, "image") != text(container, "image"))
    };
    fixed || list(get(new, &["spec", "ephemeralContainers"])).iter().any(added)
}

/// Pods that are there already, and that a new standard would refuse.
fn of_namespace(new: &Value, old: &Value, lookup: &dyn Lookup) -> Vec<String> {
    let standard = |namespace: &Value| Standard::enforced(get(namespace, &["metadata", "labels"]));
    let (wanted, before) = (standard(new), standard(old));
    let relaxed = wanted.version == before.version && wanted.level <= before.level;
    if wanted.level == Level::Privileged || relaxed {
        return Vec::new();
    }
    let name = text(get(new, &["metadata"]), "name");
    let pods = lookup.list("", "pods", name);
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for pod in pods.iter().take(PODS_MOST) {
        let reasons: Vec<String> = violations(wanted.level.name(), get(pod, &["spec"]))
            .into_iter()
            .map(|(reason, _)| reason)
            .collect();
        if !reasons.is_empty() {
            found.entry(reasons.join(", ")).or_default().push(text(get(pod, &["metadata"]), "name"));
        }
    }
    let mut warnings = Vec::new();
    if pods.len() > PODS_MOST {
        let of = pods.len();
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {PODS_MOST} of {of} existing pods"
        ));
    }
    if !found.is_empty() {
        let level = wanted.to_string();
        warnings.push(format!(
            "existing pods in namespace {name:?} violate the new PodSecurity enforce level {level:?}"
        ));
    }
    let mut each: Vec<String> = found.into_iter().map(|(why, pods)| decorated(&why, &pods)).collect();
    each.sort();
    warnings.extend(each);
    warnings
}

fn decorated(why: &str, pods: &[&str]) -> String {
    let first = pods.iter().min().copied().unwrap_or_default();
    match pods.len() {
        1 => format!("{first}: {why}"),
        2 => format!("{first} (and 1 other pod): {why}"),
        many => format!("{first} (and {} other pods): {why}", many - 1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn namespaces_hear_of_what_they_ask_for() {
        #[track_caller]
        fn check(labels: &[(&str, &str)], expected: &str) {
            let labels =
                labels.iter().map(|(key, value)| (format!("pod-security.kubernetes.io/{key}"), json!(value)));
            let labels = Value::Object(labels.collect());
            assert_eq!(Standard::warned_of(&labels).to_string(), expected, "{labels}");
        }
        check(&[], "privileged:latest");
        check(&[("warn", "baseline")], "baseline:latest");
        check(&[("warn", "what")], "privileged:latest");
        check(&[("warn", "restricted"), ("warn-version", "v1.30")], "restricted:v1.30");
        check(&[("warn", "restricted"), ("warn-version", "v1.030")], "restricted:latest");
        check(&[("enforce", "restricted"), ("enforce-version", "v1.25")], "restricted:v1.25");
        check(&[("enforce", "restricted"), ("warn-version", "v1.25")], "restricted:v1.25");
        check(&[("enforce", "restricted"), ("warn", "privileged")], "privileged:latest");
        check(&[("enforce", "what")], "privileged:latest");
    }
}
