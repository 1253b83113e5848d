//! Workloads that are not placed: those of system namespaces, and templates that the federation's own namespace would not let run.
//!
//! Members hold pods to the Pod Security level of their own namespaces, which nobody keeps like the federation's. So the template is
//! held to the level of the federation's namespace here. Nothing is written to members for a workload that is barred, and what runs
//! there stays.

use k8s_openapi::api::core::v1::{Namespace, PodTemplateSpec};
use koinon_podsecurity::{ENFORCE, detailed, violations};
use kube::ResourceExt as _;

/// The condition that says so.
pub(crate) const CONDITION: &str = "Federated";

/// Namespaces that belong to clusters and to us, not to users. A name that ends in `*` stands for all that begin so.
const SYSTEM: [&str; 4] = ["kube-*", "koinon-system", "antrea-plus-system", "avi-system"];

/// Why a workload is not placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Barred {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Whether a workload with this template may be placed. `namespace` is the federation's, if it is known, and `allowed` are the
/// system namespaces that are federated after all.
pub(crate) fn barred(
    name: &str,
    namespace: Option<&Namespace>,
    template: Option<&PodTemplateSpec>,
    allowed: &[String],
) -> Option<Barred> {
    if is_system(name) && !allowed.iter().any(|one| one == name) {
        let message = format!(
            "namespace {name} is a system namespace and is not federated: nothing is placed; use another one, or start the \
             role with --allow-namespaces {name}"
        );
        return Some(Barred { reason: "NamespaceNotFederated", message });
    }
    let level = namespace?.labels().get(ENFORCE)?;
    let spec = serde_json::to_value(template?.spec.as_ref()?).unwrap_or_default();
    let found = violations(level, &spec);
    (!found.is_empty()).then(|| Barred {
        reason: "PodSecurityViolation",
        message: format!(
            "the pod template violates PodSecurity {level:?} of the federation's namespace {name}, so it is not placed: {}",
            detailed(found)
        ),
    })
}

fn is_system(name: &str) -> bool {
    SYSTEM.iter().any(|one| match one.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => *one == name,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn system_namespaces_are_left_alone_unless_they_are_allowed() {
        let reason = |name: &str, allowed: &[String]| barred(name, None, None, allowed).map(|one| one.reason);
        for name in ["kube-system", "kube-public", "koinon-system", "antrea-plus-system", "avi-system"] {
            assert_eq!(reason(name, &[]), Some("NamespaceNotFederated"), "{name}");
            assert_eq!(reason(name, &[name.to_owned()]), None, "{name}");
        }
        assert_eq!(reason("default", &[]), None);
        assert_eq!(reason("kubeflow", &[]), None);
    }

    #[test]
    fn a_template_is_held_to_the_level_of_the_namespace() {
        let namespace = |level: &str| -> Namespace {
            serde_json::from_value(json!({"metadata": {"name": "shop", "labels": {ENFORCE: level}}})).unwrap()
        };
        let template: PodTemplateSpec = serde_json::from_value(json!({"spec": {
            "containers": [{"name": "web", "image": "web:1", "securityContext": {"privileged": true}}],
        }}))
        .unwrap();
        let told = |level: &str| barred("shop", Some(&namespace(level)), Some(&template), &[]);
        assert_eq!(told("privileged"), None);
        let baseline = told("baseline").unwrap();
        assert_eq!(baseline.reason, "PodSecurityViolation");
        assert!(baseline.message.ends_with(
            r#"it is not placed: privileged (container "web" must not set securityContext.privileged=true)"#
        ));
        assert_eq!(barred("shop", None, Some(&template), &[]), None);
    }
}
