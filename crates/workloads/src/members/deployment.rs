//! What is kept of a member's Deployment.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use koinon_api::names::{MANAGER, workloads};
use koinon_fleet::Record;

use super::records::{Failing, Kind};
use crate::deployments::amount;
use crate::digest::digest;
use crate::writing::Written;
use crate::{content, placing, startup};

/// A member's Deployment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeploymentRecord {
    /// Stands for labels, annotations and spec, apart from the count.
    pub(crate) content: u64,
    /// Stands for the pod template.
    pub(crate) template: u64,
    /// The name that we gave its template, as long as nobody else has written to that.
    pub(crate) named: Option<Box<str>>,
    pub(crate) generation: i64,
    pub(crate) observed_generation: i64,
    pub(crate) spec_replicas: i64,
    pub(crate) replicas: i64,
    pub(crate) updated: i64,
    pub(crate) ready: i64,
    pub(crate) available: i64,
    /// How many more than it asks for there may be while it replaces pods.
    pub(crate) surge: i64,
    pub(crate) failing: Option<Failing>,
    /// What its controller says when it gave up waiting for progress.
    pub(crate) progress_failed: Option<Box<str>>,
}

impl Record for DeploymentRecord {
    type Object = Deployment;

    fn fold(deployment: &Deployment) -> Option<DeploymentRecord> {
        let metadata = &deployment.metadata;
        let (spec, status) = (deployment.spec.as_ref()?, deployment.status.clone().unwrap_or_default());
        let count = |count: Option<i32>| i64::from(count.unwrap_or(0));
        let condition = |kind: &str, value: &str| -> Option<&DeploymentCondition> {
            let mut all = status.conditions.iter().flatten();
            all.find(|one| one.type_ == kind && one.status == value)
        };
        let rolling = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = amount(rolling.and_then(|one| one.max_surge.as_ref()));
        let template = serde_json::to_value(&spec.template).unwrap_or_default();
        Some(DeploymentRecord {
            content: content::of_object(metadata.labels.as_ref(), metadata.annotations.as_ref(), &spec),
            template: digest(&template),
            named: name(metadata),
            generation: metadata.generation.unwrap_or(0),
            observed_generation: status.observed_generation.unwrap_or(0),
            spec_replicas: count(spec.replicas),
            replicas: count(status.replicas),
            updated: count(status.updated_replicas),
            ready: count(status.ready_replicas),
            available: count(status.available_replicas),
            surge: rolling.map_or(0, |_| surge.rounded_up(count(spec.replicas))),
            failing: condition("ReplicaFailure", "True")
                .and_then(|one| Failing::of(one.last_transition_time.as_ref(), one.message.as_deref())),
            progress_failed: condition("Progressing", "False")
                .map(|one| one.message.as_deref().unwrap_or("it gives no reason").into()),
        })
    }
}

fn name(metadata: &ObjectMeta) -> Option<Box<str>> {
    let name = metadata.annotations.as_ref()?.get(workloads::TEMPLATE)?;
    let writes_template = |entry: &ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|fields| !fields.0["f:spec"]["f:template"].is_null())
    };
    let others =
        metadata.managed_fields.iter().flatten().filter(|entry| entry.manager.as_deref() != Some(MANAGER));
    (!others.into_iter().any(writes_template)).then(|| name.as_str().into())
}

impl Written for DeploymentRecord {
    const KIND: Kind = Kind::Deployment;

    fn content(&self) -> u64 {
        self.content
    }
}

impl DeploymentRecord {
    /// What shows whether its pods do not start, of which so many wait for a node.
    pub(crate) fn startup(&self, waiting: usize) -> startup::Counts {
        startup::Counts {
            content: self.content,
            scheduled: self.replicas - i64::try_from(waiting).unwrap_or(i64::MAX),
            available: self.available,
            gave_up: self.progress_failed.is_some(),
        }
    }

    pub(crate) fn local(&self) -> placing::Local {
        placing::Local {
            spec_replicas: self.spec_replicas,
            replicas: self.replicas,
            available: self.available,
            failing_since: self.failing.as_ref().map(|failing| failing.since),
            observed: self.observed_generation >= self.generation,
        }
    }
}
