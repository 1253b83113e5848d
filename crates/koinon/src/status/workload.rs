//! One workload with all that is known of it.

use anyhow::Context as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use koinon_api::placement::ClusterPlacement;
use koinon_control::call::within_deadline;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::Scope;
use super::workloads::{Rollout, Workload};
use crate::table::table;

/// Which workload: `deployment/web`, with the short names that kubectl knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Deployment,
    ReplicaSet,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Deployment => "deployment",
            Kind::ReplicaSet => "replicaset",
        }
    }
}

impl Named {
    pub(crate) fn parse(text: &str) -> Result<Named, String> {
        let wrong = || format!("{text:?} is no workload: write it like deployment/web or replicaset/web");
        let (kind, name) = text.split_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(wrong)?;
        let kind = match kind.split_once('.').map_or(kind, |(kind, _)| kind).to_ascii_lowercase().as_str() {
            "deployment" | "deployments" | "deploy" => Kind::Deployment,
            "replicaset" | "replicasets" | "rs" => Kind::ReplicaSet,
            _ => return Err(wrong()),
        };
        Ok(Named { kind, name: name.to_owned() })
    }
}

pub(super) async fn gather(scope: &Scope<'_>, named: &Named) -> anyhow::Result<Workload> {
    let namespace = scope.namespace.unwrap_or("default");
    Ok(match named.kind {
        Kind::Deployment => {
            Workload::of_deployment(&get::<Deployment>(scope.client, namespace, &named.name).await?)
        }
        Kind::ReplicaSet => Workload::of_set(&get::<ReplicaSet>(scope.client, namespace, &named.name).await?),
    })
}

/// The object on the federation's API server.
pub(crate) async fn get<K>(client: &Client, namespace: &str, name: &str) -> anyhow::Result<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let kind = K::kind(&());
    let found = within_deadline(api.get_opt(name)).await;
    let found = found.with_context(|| format!("the {kind} {namespace}/{name} cannot be read"))?;
    found.with_context(|| {
        format!("the federation has no {kind} {namespace}/{name}: is the namespace right (-n)?")
    })
}

pub(super) fn render(one: &Workload) -> String {
    let mut text = format!("{}/{} in namespace {}\n", one.kind, one.name, one.namespace);
    let mut counts = format!("{} of {} ready, {} available", one.ready, one.replicas, one.available);
    if let Some(updated) = one.updated {
        counts.push_str(&format!(", {updated} updated"));
    }
    text.push_str(&format!("replicas   {counts}\n"));
    if let Some(rollout) = &one.rollout {
        text.push_str(&format!("rollout    {}\n", sentence(rollout)));
    }
    for waiting in &one.waiting {
        text.push_str(&format!("waits for  {waiting}\n"));
    }
    if one.clusters.is_empty() {
        return text;
    }
    let head = ["CLUSTER", "STATE", "DESIRED", "READY", "UPDATED", "STUCK", "WOULD TAKE", "WHY"];
    let row = |(name, one): (&String, &ClusterPlacement)| {
        vec![
            name.clone(),
            format!("{:?}", one.state),
            one.desired.to_string(),
            format!("{}/{}", one.ready, one.replicas),
            one.updated.to_string(),
            one.unschedulable.to_string(),
            one.overflow.to_string(),
            one.why.clone(),
        ]
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head.map(str::to_owned).to_vec()).chain(one.clusters.iter().map(row)).collect();
    text + "\n" + &table(&rows)
}

fn sentence(rollout: &Rollout) -> String {
    use super::workloads::Progress;
    let Rollout { step, of, state } = rollout;
    match state {
        Progress::Done => "every cluster is up to date".to_owned(),
        Progress::Updating => format!("step {step} of {of}"),
        Progress::Paused => format!("step {step} of {of}, paused"),
        Progress::Stopped => format!("step {step} of {of}, stopped"),
        Progress::Unseen => "not begun".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::workloads::tests::half_way;

    #[test]
    fn workloads_have_a_kind_and_a_name() {
        let named = |kind| Named { kind, name: "web".into() };
        for text in ["deployment/web", "deploy/web", "Deployments/web", "deployment.apps/web"] {
            assert_eq!(Named::parse(text), Ok(named(Kind::Deployment)), "{text}");
        }
        assert_eq!(Named::parse("rs/web"), Ok(named(Kind::ReplicaSet)));
        for text in ["web", "pod/web", "deployment/", ""] {
            assert!(Named::parse(text).unwrap_err().contains("write it like deployment/web"), "{text}");
        }
    }

    #[test]
    fn all_that_is_known_of_one() {
        assert_eq!(
            render(&Workload::of_deployment(&half_way())),
            "deployment/web in namespace default\n\
             replicas   8 of 9 ready, 8 available, 4 updated\n\
             rollout    step 2 of 3\n\
             waits for  b: 2 of its pods still have an older template; to be updated: c\n\
             \n\
             CLUSTER   STATE      DESIRED   READY   UPDATED   STUCK   WOULD TAKE   WHY\n\
             a         Ready      3         3/3     3         0       0            3 for its weight of 1 in 3\n\
             b         Updating   3         2/3     1         0       0            3 for its weight of 1 in 3\n\
             c         Waiting    3         3/3     0         0       0            3 for its weight of 1 in 3\n"
        );
    }
}
