//! What members run without a federated object: `koinon status orphans` shows it, `koinon clean` removes it.
//!
//! Deleting a federated object leaves what members have, unless its user says otherwise. Only what the workloads role wrote is
//! looked at: by its mark, this one or that of earlier releases, and by its field manager.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io::{IsTerminal as _, Write as _};

use anyhow::Context as _;
use futures::future::join_all;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use koinon_api::names::{FEDERATED, MANAGED_BY, MANAGER};
use koinon_control::call::within_deadline;
use koinon_control::words::{SENTENCE, clean};
use koinon_fleet::membership;
use kube::api::{DeleteParams, ListParams, Preconditions, PropagationPolicy};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::members::{Federation, client};
use crate::status::{Kind, Named};
use crate::table::table;

/// So many objects are read at a time.
const PAGE: u32 = 500;

#[derive(Debug, clap::Args)]
pub(crate) struct Clean {
    /// Only this one, such as deployment/web [default: all that members run without a federated object]
    #[arg(value_name = "KIND/NAME", value_parser = Named::parse)]
    workload: Option<Named>,
    #[command(flatten)]
    federation: Federation,
    /// The namespace [default: all; for one workload `default`]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Remove what is shown without asking
    #[arg(long)]
    yes: bool,
}

/// What is looked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Which<'a> {
    pub(crate) workload: Option<&'a Named>,
    pub(crate) namespace: Option<&'a str>,
}

/// What was found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Orphans {
    pub(crate) orphans: Vec<Orphan>,
    /// The members that could not be asked, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) unasked: BTreeMap<String, String>,
}

/// One object of one member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Orphan {
    pub(crate) cluster: String,
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) replicas: i32,
    pub(crate) ready: i32,
    #[serde(skip)]
    uid: Option<String>,
}

/// A kind that members have of us.
trait Carried:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug
{
    const KIND: Kind;
    /// How many replicas it asks for, and how many are ready.
    fn counts(&self) -> (i32, i32);
}

impl Carried for Deployment {
    const KIND: Kind = Kind::Deployment;

    fn counts(&self) -> (i32, i32) {
        let ready = self.status.as_ref().and_then(|status| status.ready_replicas);
        (self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1), ready.unwrap_or(0))
    }
}

impl Carried for ReplicaSet {
    const KIND: Kind = Kind::ReplicaSet;

    fn counts(&self) -> (i32, i32) {
        let ready = self.status.as_ref().and_then(|status| status.ready_replicas);
        (self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1), ready.unwrap_or(0))
    }
}

/// Asks every member.
pub(crate) async fn find(federation: &Client, which: Which<'_>) -> anyhow::Result<Orphans> {
    let members = membership::clients(federation).await?;
    let mut found = Orphans::default();
    let mut asked = BTreeMap::new();
    for (id, client) in members {
        match client {
            Ok(client) => drop(asked.insert(id.to_string(), client)),
            Err(why) => drop(found.unasked.insert(id.to_string(), why)),
        }
    }
    gather::<Deployment>(federation, &asked, which, &mut found).await?;
    gather::<ReplicaSet>(federation, &asked, which, &mut found).await?;
    found.orphans.sort();
    found.orphans.retain(|one| !found.unasked.contains_key(&one.cluster));
    Ok(found)
}

async fn gather<K: Carried>(
    federation: &Client,
    members: &BTreeMap<String, Client>,
    which: Which<'_>,
    found: &mut Orphans,
) -> anyhow::Result<()> {
    if which.workload.is_some_and(|named| named.kind != K::KIND) {
        return Ok(());
    }
    // Members first: what is federated while they are asked is seen then.
    let each =
        members.iter().map(|(name, client)| async move { (name, list::<K>(client, which, true).await) });
    let there = join_all(each).await;
    let federated = list::<K>(federation, which, false).await;
    let federated =
        federated.with_context(|| format!("the federation's {} cannot be read", K::plural(&())))?;
    let federated: BTreeSet<(String, String)> = federated.iter().map(key).collect();
    for (name, outcome) in there {
        match outcome {
            Ok(objects) => {
                let left =
                    objects.iter().filter(|one| is_ours(one.meta()) && !federated.contains(&key(*one)));
                found.orphans.extend(left.map(|one| orphan(name, one)));
            }
            Err(error) => {
                found.unasked.insert(name.clone(), clean(&error.to_string(), SENTENCE));
            }
        }
    }
    Ok(())
}

fn key<K: Resource>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn orphan<K: Carried>(cluster: &str, object: &K) -> Orphan {
    let (replicas, ready) = object.counts();
    Orphan {
        cluster: cluster.to_owned(),
        kind: K::KIND.as_str(),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        replicas,
        ready,
        uid: object.uid(),
    }
}

/// Whether the workloads role wrote it, and nobody there has it.
fn is_ours(metadata: &ObjectMeta) -> bool {
    let label = |name: &str, value: &str| {
        metadata.labels.as_ref().and_then(|labels| labels.get(name)).is_some_and(|one| one == value)
    };
    let mut managers = metadata.managed_fields.iter().flatten().filter_map(|entry| entry.manager.as_deref());
    let mut owners = metadata.owner_references.iter().flatten();
    (label(FEDERATED, "true") || label(MANAGED_BY, MANAGER))
        && managers.any(|manager| manager == MANAGER)
        && !owners.any(|owner| owner.controller == Some(true))
        && metadata.deletion_timestamp.is_none()
}

/// Objects of a kind; in a member only those with a mark of ours.
async fn list<K: Carried>(client: &Client, which: Which<'_>, marked: bool) -> anyhow::Result<Vec<K>> {
    let api: Api<K> = match (which.namespace, which.workload) {
        (Some(namespace), _) => Api::namespaced(client.clone(), namespace),
        (None, Some(_)) => Api::default_namespaced(client.clone()),
        (None, None) => Api::all(client.clone()),
    };
    // Either mark: no selector can say that of two labels.
    let selectors = match marked {
        true => {
            vec![Some(format!("{FEDERATED}=true")), Some(format!("{MANAGED_BY}={MANAGER},{FEDERATED}!=true"))]
        }
        false => vec![None],
    };
    let mut all = Vec::new();
    for selector in selectors {
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = selector;
        params.field_selector = which.workload.map(|named| format!("metadata.name={}", named.name));
        loop {
            let page = within_deadline(api.list(&params)).await?;
            all.extend(page.items);
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                break;
            }
        }
    }
    Ok(all)
}

pub(crate) fn render(found: &Orphans) -> String {
    if found.orphans.is_empty() {
        return "none: members run nothing of ours without a federated object\n".to_owned();
    }
    let head = ["CLUSTER", "NAMESPACE", "WORKLOAD", "READY"].map(str::to_owned).to_vec();
    let row = |one: &Orphan| {
        let workload = format!("{}/{}", one.kind, one.name);
        vec![one.cluster.clone(), one.namespace.clone(), workload, format!("{}/{}", one.ready, one.replicas)]
    };
    table(&std::iter::once(head).chain(found.orphans.iter().map(row)).collect::<Vec<_>>())
}

/// Says which members were not asked: what they run is unknown.
pub(crate) fn tell_unasked(found: &Orphans) {
    for (name, why) in &found.unasked {
        eprintln!("cluster {name} was not asked, so what it runs is unknown: {why}");
    }
}

pub(crate) async fn run(args: Clean) -> anyhow::Result<()> {
    let federation = client(&args.federation).await?;
    let namespace = args.namespace.as_deref().or_else(|| args.workload.as_ref().map(|_| "default"));
    let which = Which { workload: args.workload.as_ref(), namespace };
    let found = find(&federation, which).await?;
    print!("{}", render(&found));
    tell_unasked(&found);
    if !found.orphans.is_empty() && (args.yes || is_wanted(found.orphans.len())?) {
        let members = membership::clients(&federation).await?;
        for orphan in &found.orphans {
            let member = members.iter().find(|(id, _)| id.as_str() == orphan.cluster);
            let Some((_, Ok(client))) = member else {
                anyhow::bail!("cluster {} does not answer any more: run this again", orphan.cluster)
            };
            let removed = match orphan.kind {
                "deployment" => remove::<Deployment>(&federation, client, orphan).await?,
                _ => remove::<ReplicaSet>(&federation, client, orphan).await?,
            };
            let Orphan { cluster, kind, namespace, name, .. } = orphan;
            match removed {
                true => println!("cluster {cluster}: {kind}/{name} in namespace {namespace} removed"),
                false => println!(
                    "cluster {cluster}: {kind}/{name} in namespace {namespace} left: it is another one, or federated, by now"
                ),
            }
        }
    }
    match found.unasked.len() {
        0 => Ok(()),
        count => anyhow::bail!("{count} of the members were not asked: run this again once they answer"),
    }
}

/// Asks whoever sits there.
fn is_wanted(count: usize) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        anyhow::bail!("nothing was removed, as nobody can be asked here: --yes removes all that is shown");
    }
    print!("Remove these {count} objects and their pods? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("no answer could be read")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Removes one, provided that it is the one that was shown and nobody has federated it since.
async fn remove<K: Carried>(federation: &Client, member: &Client, orphan: &Orphan) -> anyhow::Result<bool> {
    let named = format!("{}/{} in cluster {}", orphan.kind, orphan.name, orphan.cluster);
    let federated: Api<K> = Api::namespaced(federation.clone(), &orphan.namespace);
    let known = within_deadline(federated.get_metadata_opt(&orphan.name)).await;
    if known.with_context(|| format!("whether {named} is federated cannot be read"))?.is_some() {
        return Ok(false);
    }
    let api: Api<K> = Api::namespaced(member.clone(), &orphan.namespace);
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions { uid: orphan.uid.clone(), resource_version: None }),
        ..DeleteParams::default()
    };
    match within_deadline(api.delete(&orphan.name, &params)).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_object_absent() || error.is_conflict() => Ok(false),
        Err(error) => Err(error).with_context(|| format!("{named} was not removed")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn metadata(change: impl FnOnce(&mut Value)) -> ObjectMeta {
        let mut metadata = json!({
            "name": "web", "labels": {FEDERATED: "true"},
            "managedFields": [{"manager": "koinon", "operation": "Apply"}],
        });
        change(&mut metadata);
        serde_json::from_value(metadata).unwrap()
    }

    #[test]
    fn only_what_we_wrote_and_nobody_has_is_ours() {
        assert!(is_ours(&metadata(|_| ())));
        assert!(
            is_ours(&metadata(|one| one["labels"] = json!({MANAGED_BY: "koinon"}))),
            "an earlier release"
        );
        assert!(!is_ours(&metadata(|one| one["labels"] = json!({MANAGED_BY: "Helm"}))));
        assert!(!is_ours(&metadata(|one| one["managedFields"] = json!([{"manager": "kubectl"}]))), "a copy");
        let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "1", "controller": true});
        assert!(!is_ours(&metadata(|one| one["ownerReferences"] = json!([owner]))));
        assert!(!is_ours(&metadata(|one| one["deletionTimestamp"] = json!("2027-01-01T00:00:00Z"))));
    }

    #[test]
    fn orphans_are_shown_by_cluster() {
        let orphan = |cluster: &str| Orphan {
            cluster: cluster.into(),
            kind: "deployment",
            namespace: "default".into(),
            name: "web".into(),
            replicas: 3,
            ready: 2,
            uid: None,
        };
        let found = Orphans { orphans: vec![orphan("a"), orphan("b")], unasked: BTreeMap::new() };
        assert_eq!(
            render(&found),
            "CLUSTER   NAMESPACE   WORKLOAD         READY\n\
             a         default     deployment/web   2/3\n\
             b         default     deployment/web   2/3\n"
        );
        assert!(render(&Orphans::default()).starts_with("none"));
    }
}
