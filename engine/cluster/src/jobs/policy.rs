//! Pod failure policies and success policies.

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use kube::ResourceExt as _;

use super::facts::{completions, failures, has_failed};
use super::indexes::Indexes;

/// What a failed pod means for its Job.
#[derive(Debug, PartialEq)]
pub(super) enum Failure {
    /// It counts against the backoff limits.
    Counts,
    /// It does not count.
    Ignored,
    /// Its index has failed; it counts, too.
    FailsIndex,
    /// The whole Job has failed, with this to be told.
    FailsJob(String),
}

/// What the first rule that a failed pod meets makes of it.
pub(super) fn judge(spec: &JobSpec, pod: &Pod) -> Failure {
    let rules = spec.pod_failure_policy.iter().flat_map(|policy| &policy.rules);
    for (place, rule) in rules.enumerate() {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let (action, rule_place) = (&rule.action, format!("{} rule at index {place}", rule.action));
        let message = if let Some(requirement) = &rule.on_exit_codes {
            exited(pod, requirement).map(|(container, code)| {
                format!("Container {container} for pod {namespace}/{name} failed with exit code {code} matching {rule_place}")
            })
        } else {
            let met = rule.on_pod_conditions.as_ref().and_then(|patterns| condition(pod, patterns));
            met.map(|met| format!("Pod {namespace}/{name} has condition {} matching {rule_place}", met.type_))
        };
        match (message, action.as_str()) {
            (Some(_), "Ignore") => return Failure::Ignored,
            (Some(_), "FailIndex") => return Failure::FailsIndex,
            (Some(_), "Count") => return Failure::Counts,
            (Some(message), "FailJob") => return Failure::FailsJob(message),
            _ => {}
        }
    }
    Failure::Counts
}

/// Whether a pod failed in such a way that its index has failed.
pub(super) fn fails_index(spec: &JobSpec, pod: &Pod) -> bool {
    let exhausted = || failures(pod) >= spec.backoff_limit_per_index.unwrap_or(i32::MAX);
    has_failed(spec, pod)
        && match judge(spec, pod) {
            Failure::FailsIndex => true,
            Failure::Ignored => false,
            Failure::Counts | Failure::FailsJob(_) => exhausted(),
        }
}

/// The container whose exit code meets a requirement.
fn exited<'a>(pod: &'a Pod, requirement: &PodFailurePolicyOnExitCodesRequirement) -> Option<(&'a str, i32)> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let code =
        |container: &ContainerStatus| container.state.as_ref()?.terminated.as_ref().map(|it| it.exit_code);
    let named = |name: &str| requirement.container_name.as_deref().is_none_or(|wanted| wanted == name);
    all.filter(|container| named(&container.name))
        .filter_map(|container| Some((container.name.as_str(), code(container)?)))
        .filter(|(_, code)| *code != 0)
        .find(|(_, code)| match requirement.operator.as_str() {
            "In" => requirement.values.contains(code),
            "NotIn" => !requirement.values.contains(code),
            _ => false,
        })
}

fn condition<'a>(
    pod: &'a Pod,
    patterns: &[PodFailurePolicyOnPodConditionsPattern],
) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| {
        patterns.iter().any(|pattern| {
            // The server writes `True` where a user wrote none.
            pattern.type_ == condition.type_
                && pattern.status.as_deref().unwrap_or("True") == condition.status
        })
    })
}

/// Says which rule of the success policy is met, if one is.
pub(super) fn success(spec: &JobSpec, succeeded: &Indexes) -> Option<String> {
    let rules = spec.success_policy.iter().flat_map(|policy| &policy.rules);
    let enough = |count: usize, wanted: Option<i32>| {
        wanted.and_then(|wanted| usize::try_from(wanted).ok()).is_some_and(|wanted| count >= wanted)
    };
    let met = rules.into_iter().position(|rule| match &rule.succeeded_indexes {
        Some(text) => {
            let required = Indexes::parse(text, completions(spec));
            let common = required.common(succeeded);
            required.total() > 0 && (common == required.total() || enough(common, rule.succeeded_count))
        }
        None => enough(succeeded.total(), rule.succeeded_count),
    });
    met.filter(|_| succeeded.total() > 0).map(|place| format!("Matched rules at index {place}"))
}
