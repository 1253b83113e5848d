//! How a configuration federation is, for whoever asks at one of its clusters.
//!
//! Nothing is watched and nothing written: this cluster is asked once, and each other one once, all at the same time.

use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};

use crate::call::{Failure, within};
use crate::connect::{Connect, Contexts};
use crate::model::{AmkoCluster, Condition, Kind};
use crate::names::{FIELD_MANAGER, GROUP, NAMESPACE, SECRET, status};

const DEADLINE: Duration = Duration::from_secs(5);

/// A federation as one of its clusters sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Overview {
    /// The cluster that was asked, by its context.
    pub here: String,
    pub leads: bool,
    pub version: String,
    /// When a leader last wrote something here; nothing of the leader itself.
    pub last_federated: Option<Timestamp>,
    /// Why that is not known.
    pub error: Option<String>,
    /// What its status says, stage by stage.
    pub conditions: Vec<Condition>,
    /// The other clusters, in the order of its list.
    pub others: Vec<Other>,
}

/// Another cluster of the federation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Other {
    pub context: String,
    pub leads: Option<bool>,
    pub version: Option<String>,
    /// When a leader last wrote something there.
    pub last_federated: Option<Timestamp>,
    /// Why nothing is known of it.
    pub error: Option<String>,
}

impl Overview {
    /// Whoever leads, as far as it can be seen.
    pub fn leaders(&self) -> Vec<&str> {
        let here = self.leads.then_some(self.here.as_str());
        let others = self.others.iter().filter(|other| other.leads == Some(true));
        here.into_iter().chain(others.map(|other| other.context.as_str())).collect()
    }

    /// What stands in the way, a sentence each.
    pub fn complaints(&self) -> Vec<String> {
        let fine =
            [status::VALID, status::FOLLOWER, status::ALL_CLIENTS, status::ALL_VALID, status::FEDERATED];
        let said = self.conditions.iter().filter(|condition| !fine.contains(&&*condition.status));
        let mut complaints: Vec<String> = said
            .map(|condition| match condition.reason.is_empty() {
                true => format!("{}: {}", condition.stage, condition.status),
                false => format!("{}: {} ({})", condition.stage, condition.status, condition.reason),
            })
            .collect();
        match &self.leaders()[..] {
            [] => complaints.push(
                "no cluster is seen to lead: set spec.isLeader to true in the AMKOCluster of the one that should".into(),
            ),
            [_] => {}
            several => complaints.push(format!(
                "{} lead at the same time, and nothing is federated: set spec.isLeader to false in all but one",
                several.join(" and ")
            )),
        }
        complaints
    }
}

/// Asks the cluster of `client`, and through its Secret all others.
pub async fn overview(client: &Client, connect: &Connect) -> Result<Overview, String> {
    let asked = |what: &str, why: &dyn std::fmt::Display| format!("the {what} cannot be read: {why}");
    let clusters = within(DEADLINE, clusters(client).list(&ListParams::default())).await;
    let clusters = clusters.map_err(|failure| match failure.code {
        Some(404) => {
            "this cluster knows no AMKOCluster: apply `koinon install crds --role config` first".into()
        }
        _ => asked("AMKOCluster", &failure),
    })?;
    let here = match &clusters.items[..] {
        [one] => AmkoCluster::read(one),
        [] => return Err(format!("there is no AMKOCluster in {NAMESPACE} of this cluster")),
        several => {
            let names: Vec<String> = several.iter().map(|one| one.name_any()).collect();
            return Err(format!(
                "{NAMESPACE} has several AMKOClusters, {}: delete all but one",
                names.join(", ")
            ));
        }
    };
    let others = match contexts(client).await {
        Ok(contexts) => {
            join_all(here.members().iter().map(|name| other(name, contexts.get(name), connect))).await
        }
        Err(why) => {
            let unknown = |context| Other { context, error: Some(why.clone()), ..Other::default() };
            here.members().into_iter().map(unknown).collect()
        }
    };
    let (last_federated, error) = match here.is_leader {
        true => (None, None),
        false => match last_federated(client).await {
            Ok(last) => (last, None),
            Err(failure) => (None, Some(asked("configuration", &failure))),
        },
    };
    let AmkoCluster { context, is_leader, version, conditions, .. } = here;
    Ok(Overview { here: context, leads: is_leader, version, last_federated, error, conditions, others })
}

fn clusters(client: &Client) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", "AMKOCluster"));
    Api::namespaced_with(client.clone(), NAMESPACE, &kind)
}

async fn contexts(client: &Client) -> Result<Contexts, String> {
    let kind = ApiResource::erase::<Secret>(&());
    let secrets: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &kind);
    let secret = within(DEADLINE, secrets.get_opt(SECRET)).await;
    let secret = secret.map_err(|why| format!("Secret {NAMESPACE}/{SECRET} cannot be read: {why}"))?;
    Contexts::read(secret.as_ref())
}

async fn other(name: &str, context: Option<&crate::connect::Context>, connect: &Connect) -> Other {
    let mut other = Other { context: name.to_owned(), ..Other::default() };
    let Some(context) = context else {
        other.error = Some(format!("Secret {NAMESPACE}/{SECRET} has no context of this name"));
        return other;
    };
    if let Err(why) = ask(&mut other, context, connect).await {
        other.error = Some(why);
    }
    other
}

async fn ask(other: &mut Other, context: &crate::connect::Context, connect: &Connect) -> Result<(), String> {
    let client = connect(context.kubeconfig.clone(), other.context.clone()).await?;
    let found = within(DEADLINE, clusters(&client).list(&ListParams::default())).await;
    let found = found.map_err(|failure| failure.to_string())?;
    let [theirs] = &found.items[..] else {
        return Err(format!("it has {} AMKOClusters in {NAMESPACE}, where one is needed", found.items.len()));
    };
    let theirs = AmkoCluster::read(theirs);
    (other.leads, other.version) = (Some(theirs.is_leader), Some(theirs.version));
    other.last_federated = last_federated(&client).await.map_err(|failure| failure.to_string())?;
    Ok(())
}

/// When a leader last wrote something to a cluster.
async fn last_federated(client: &Client) -> Result<Option<Timestamp>, Failure> {
    let mut last = None;
    for kind in Kind::always() {
        let copies: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &kind.resource());
        let copies = within(DEADLINE, copies.list(&ListParams::default())).await?;
        last = copies.items.iter().filter_map(written).chain(last).max();
    }
    Ok(last)
}

/// When a leader last wrote an object, by the clock of the cluster that it is in.
fn written(copy: &DynamicObject) -> Option<Timestamp> {
    let entries = copy.metadata.managed_fields.iter().flatten();
    let ours = entries.filter(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER));
    ours.filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::condition;

    #[test]
    fn what_stands_in_the_way_is_said() {
        let fine = Condition::new(condition::CURRENT, status::VALID, "");
        let mut seen = Overview {
            here: "a".into(),
            leads: true,
            version: "1".into(),
            last_federated: None,
            error: None,
            conditions: vec![fine],
            others: vec![Other { context: "b".into(), leads: Some(false), ..Other::default() }],
        };
        assert!(seen.complaints().is_empty());
        seen.conditions.push(Condition::new(condition::POLICY, status::SOME_FEDERATED, "b is away"));
        assert_eq!(seen.complaints(), ["GDP Federation: error in federating to some clusters (b is away)"]);
        seen.conditions.clear();
        seen.others[0].leads = Some(true);
        assert!(seen.complaints()[0].starts_with("a and b lead at the same time"));
        seen.leads = false;
        assert!(seen.complaints().is_empty() && seen.leaders() == ["b"]);
        // Who does not answer may lead.
        seen.others[0].leads = None;
        assert!(seen.complaints()[0].starts_with("no cluster is seen to lead"));
    }
}
