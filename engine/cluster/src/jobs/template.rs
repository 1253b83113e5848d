//! The pods that a Job makes.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use std::sync::Arc;

use super::facts::{FAILURES, FINALIZER, IGNORED_FAILURES, INDEX, failures, ignored_failures};
use super::policy::{self, Failure};
use crate::replicasets::{claim, prefix};

const ENVIRONMENT: &str = "JOB_COMPLETION_INDEX";
/// What of a name is left of the five random letters behind it.
const LONGEST_PREFIX: usize = 58;

/// A pod of a Job without indexes.
pub(super) fn pod(job: &Job, spec: &JobSpec) -> Pod {
    let meta = spec.template.metadata.clone().unwrap_or_default();
    let mut finalizers = meta.finalizers.unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(prefix(job)),
            namespace: job.namespace(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: Some(finalizers),
            owner_references: Some(vec![claim::controller_reference(job)]),
            ..ObjectMeta::default()
        },
        spec: spec.template.spec.clone(),
        status: None,
    }
}

/// The pod of one index, which carries on the failures of the one that it replaces.
pub(super) fn indexed_pod(job: &Job, spec: &JobSpec, index: usize, replaced: Option<&Arc<Pod>>) -> Pod {
    let mut pod = pod(job, spec);
    let name = job.name_any();
    pod.metadata.generate_name = Some(indexed_prefix(&name, index));
    pod.metadata.labels.get_or_insert_default().insert(INDEX.into(), index.to_string());
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(INDEX.into(), index.to_string());
    if spec.backoff_limit_per_index.is_some() {
        let (counted, ignored) = replaced.map_or((0, 0), |replaced| {
            let ignores = policy::judge(spec, replaced) == Failure::Ignored;
            (failures(replaced) + i32::from(!ignores), ignored_failures(replaced) + i32::from(ignores))
        });
        annotations.insert(FAILURES.into(), counted.to_string());
        if ignored > 0 {
            annotations.insert(IGNORED_FAILURES.into(), ignored.to_string());
        }
    }
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(format!("{name}-{index}"));
        for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
            tell_index(container);
        }
    }
    pod
}

fn indexed_prefix(job: &str, index: usize) -> String {
    let end = format!("-{index}-");
    // Names of Jobs are of one byte a letter.
    let room = LONGEST_PREFIX.saturating_sub(end.len());
    format!("{}{end}", job.get(..room).unwrap_or(job))
}

fn tell_index(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|variable| variable.name == ENVIRONMENT) {
        return;
    }
    let field =
        ObjectFieldSelector { field_path: format!("metadata.labels['{INDEX}']"), ..Default::default() };
    variables.push(EnvVar {
        name: ENVIRONMENT.into(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_leave_room_for_index_and_letters() {
        assert_eq!(indexed_prefix("pi", 3), "pi-3-");
        let long = "a".repeat(60);
        assert_eq!(indexed_prefix(&long, 12), format!("{}-12-", &long[..54]));
        assert_eq!(indexed_prefix(&long, 12).len(), LONGEST_PREFIX);
    }
}
