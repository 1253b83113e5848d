//! What would become of a live workload: the decisions of the role, from the workload's own annotations alone.
//!
//! The placement annotation tells what each cluster has, what is stuck there and what was decided last. That is what the role
//! decides from as well, so what is predicted here is what happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use koinon_api::failover::Failover;
use koinon_api::names::workloads;
use koinon_api::placement::{ClusterPlacement, ClusterState, Placement};
use koinon_api::preferences::Preferences;
use kube::ResourceExt as _;

use crate::deployments;
use crate::intent::{Intent, intent};
use crate::placing::{self, Surge, Wanted, place};
use crate::planner::{PROBES, Plan};
use crate::rollout::{self, Counting, Local, Member, Reach, View};
use crate::takeover::Policy;

/// What should be assumed.
#[derive(Debug, Clone, Default)]
pub struct WhatIf {
    /// Another count.
    pub replicas: Option<i64>,
    /// Other preferences.
    pub preferences: Option<Preferences>,
    /// Whether replicas that run may move.
    pub rebalance: Option<bool>,
    /// Clusters with another weight.
    pub weights: BTreeMap<String, i64>,
    /// Clusters with so much room.
    pub capacity: BTreeMap<String, i64>,
    /// Clusters that are lost.
    pub lose: BTreeSet<String>,
    /// Another image, as `IMAGE` or `CONTAINER=IMAGE`.
    pub image: Option<String>,
}

/// What would happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// `namespace/name`.
    pub key: String,
    /// How many replicas there would be in all.
    pub replicas: i64,
    /// What each cluster is meant to have now.
    pub before: BTreeMap<String, i64>,
    /// What each would have in the end.
    pub plan: Plan,
    /// The clusters that an update would pass over, group after group; none where nothing is to be updated.
    pub steps: Vec<BTreeSet<String>>,
    /// What is odd and still has a meaning.
    pub warnings: Vec<String>,
}

/// Why there is nothing to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A cluster that is no member.
    #[error("{cluster:?} is none of the members {members}")]
    NoMember {
        /// As it was written.
        cluster: String,
        /// Those that there are.
        members: String,
    },
    /// A container that the template does not have.
    #[error("the pod template has no container {container:?}: it has {containers}")]
    NoContainer {
        /// As it was written.
        container: String,
        /// Those that there are.
        containers: String,
    },
    /// ReplicaSets are not updated.
    #[error("a ReplicaSet keeps the pods that it has: another image is a matter for a Deployment")]
    NotUpdated,
}

/// What would become of a federated Deployment. `members` are those of the federation, and whether each answers.
pub fn deployment(
    now: Timestamp,
    live: &Deployment,
    members: &BTreeMap<String, bool>,
    what_if: &WhatIf,
) -> Result<Preview, Error> {
    let mut changed = live.clone();
    let spec = changed.spec.get_or_insert_default();
    if let Some(replicas) = what_if.replicas {
        spec.replicas = Some(i32::try_from(replicas).unwrap_or(i32::MAX));
    }
    if let Some(image) = &what_if.image {
        set_image(spec, image)?;
    }
    let spec = changed.spec.clone().unwrap_or_default();
    let (before, now_has) = placement(live.annotations());
    let replicas = i64::from(spec.replicas.unwrap_or(1));
    let intent = intent(live.annotations(), workloads::DEPLOYMENT_PREFERENCES, replicas, before.as_ref());
    // An annotation counts as a change of a Deployment, and not of a ReplicaSet.
    let is_changed = what_if.preferences.is_some()
        || what_if.rebalance.is_some()
        || !what_if.weights.is_empty()
        || changed.spec != live.spec;
    let generation = live.metadata.generation.unwrap_or(0) + i64::from(is_changed);
    let preferences = preferences(&intent.preferences, members, what_if)?;
    let key = format!("{}/{}", live.namespace().unwrap_or_default(), live.name_any());
    let mut seen = seen(&now_has, members, what_if, live.annotations())?;
    let foreign = foreign(live.annotations(), &now_has);
    seen.retain(|name, _| !foreign.contains_key(name));
    let wanted = wanted(&key, generation, &intent, &preferences);
    let placed = place(now, &wanted, &seen, before.as_ref());
    let plan = Plan {
        clusters: placed.clusters.iter().map(|(name, spot)| (name.clone(), spot.share.clone())).collect(),
        unplaced: placed.unplaced,
    };
    let (desired, mut warnings) = deployments::desired(&changed, &spec, intent.counting);
    let has = live.spec.as_ref().map(|spec| deployments::hash(&spec.template)).unwrap_or_default();
    let steps = rollout::foresee(now, &desired, &view(&seen, &plan, &now_has, &has));
    warnings.extend(own_counts(&intent, what_if).chain(intent.fault.clone()));
    warnings.extend(foreign.into_values());
    if desired.paused {
        warnings.push("it is paused: no cluster is updated until kubectl rollout resume".to_owned());
    }
    Ok(Preview { key: key.clone(), replicas: in_all(&plan), before: meant(&now_has), plan, steps, warnings })
}

/// What would become of a federated ReplicaSet.
pub fn replica_set(
    now: Timestamp,
    live: &ReplicaSet,
    members: &BTreeMap<String, bool>,
    what_if: &WhatIf,
) -> Result<Preview, Error> {
    if what_if.image.is_some() {
        return Err(Error::NotUpdated);
    }
    let has = live.spec.as_ref().and_then(|spec| spec.replicas).map_or(1, i64::from);
    let replicas = what_if.replicas.unwrap_or(has);
    let (before, now_has) = placement(live.annotations());
    let intent = intent(live.annotations(), workloads::REPLICA_SET_PREFERENCES, replicas, before.as_ref());
    let generation = live.metadata.generation.unwrap_or(0) + i64::from(replicas != has);
    let preferences = preferences(&intent.preferences, members, what_if)?;
    let key = format!("{}/{}", live.namespace().unwrap_or_default(), live.name_any());
    let wanted = wanted(&key, generation, &intent, &preferences);
    let mut seen = seen(&now_has, members, what_if, live.annotations())?;
    let foreign = foreign(live.annotations(), &now_has);
    seen.retain(|name, _| !foreign.contains_key(name));
    let placed = place(now, &wanted, &seen, before.as_ref());
    let clusters = placed.clusters.into_iter().map(|(name, spot)| (name, spot.share)).collect();
    let plan = Plan { clusters, unplaced: placed.unplaced };
    let warnings =
        own_counts(&intent, what_if).chain(intent.fault.clone()).chain(foreign.into_values()).collect();
    Ok(Preview {
        key: key.clone(),
        replicas: in_all(&plan),
        before: meant(&now_has),
        plan,
        steps: Vec::new(),
        warnings,
    })
}

fn wanted<'a>(key: &'a str, generation: i64, intent: &Intent, preferences: &'a Preferences) -> Wanted<'a> {
    // Where everything ends does not depend on the surge, and what is stuck by the placement has been so for long.
    Wanted {
        key,
        generation,
        replicas: intent.replicas,
        preferences,
        counting: intent.counting,
        surge: Surge::default(),
        cap: None,
        patience: Duration::ZERO,
    }
}

type Clusters = BTreeMap<String, ClusterPlacement>;

fn placement(annotations: &BTreeMap<String, String>) -> (Option<Placement>, Clusters) {
    let placement = annotations.get(workloads::PLACEMENT).and_then(|text| Placement::parse(text));
    let clusters = placement.as_ref().map(|placement| placement.clusters.clone()).unwrap_or_default();
    (placement, clusters)
}

fn meant(clusters: &Clusters) -> BTreeMap<String, i64> {
    let there = clusters.iter().filter(|(_, one)| one.state != ClusterState::Offline);
    there.map(|(name, one)| (name.clone(), one.desired)).collect()
}

fn check<'a>(
    names: impl IntoIterator<Item = &'a String>,
    members: &BTreeMap<String, bool>,
) -> Result<(), Error> {
    let stranger = names.into_iter().find(|name| !members.contains_key(*name));
    stranger.map_or(Ok(()), |cluster| {
        let members = members.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        Err(Error::NoMember { cluster: cluster.clone(), members })
    })
}

fn preferences(
    said: &Preferences,
    members: &BTreeMap<String, bool>,
    what_if: &WhatIf,
) -> Result<Preferences, Error> {
    check(what_if.weights.keys(), members)?;
    let mut preferences = what_if.preferences.clone().unwrap_or_else(|| said.clone());
    preferences.rebalance = what_if.rebalance.unwrap_or(preferences.rebalance);
    for (cluster, weight) in &what_if.weights {
        // What holds for the cluster stays, but for the weight.
        let mut entry = preferences.for_cluster(cluster).copied().unwrap_or_default();
        entry.weight = *weight;
        preferences.clusters.insert(cluster.clone(), entry);
    }
    Ok(preferences)
}

/// How many replicas there would be, or should be if they found a cluster.
fn in_all(plan: &Plan) -> i64 {
    plan.clusters.values().map(|share| share.replicas).sum::<i64>() + plan.unplaced
}

/// What a user should know who asks for what only members decide.
fn own_counts(intent: &Intent, what_if: &WhatIf) -> impl Iterator<Item = String> {
    let ignored = intent.counting == Counting::Member
        && (what_if.replicas.is_some() || what_if.rebalance.is_some() || !what_if.weights.is_empty());
    let text = "members decide for themselves how many they run (koinon.dev/replicas: member): only one that has none yet \
                gets its share";
    ignored.then(|| text.to_owned()).into_iter()
}

/// The clusters whose object of this name is left to somebody else, and so have no part in it, with what is told of them.
fn foreign(annotations: &BTreeMap<String, String>, clusters: &Clusters) -> BTreeMap<String, String> {
    let left = |(_, one): &(&String, &ClusterPlacement)| {
        one.state == ClusterState::Foreign && Policy::of(annotations) != Policy::Always
    };
    let told = clusters.iter().filter(left);
    told.map(|(name, one)| (name.clone(), format!("cluster {name}: {}", one.why))).collect()
}

/// Every member as its placement tells of it.
fn seen(
    clusters: &Clusters,
    members: &BTreeMap<String, bool>,
    what_if: &WhatIf,
    annotations: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, placing::Member>, Error> {
    // Where they wait for a while only, they go elsewhere in the end.
    let waited_for = Failover::of(annotations) == Failover::Never;
    check(what_if.lose.iter().chain(what_if.capacity.keys()), members)?;
    let long_ago = Timestamp::UNIX_EPOCH;
    let member = |name: &String, answers: bool| {
        let last = clusters.get(name);
        let offline = !answers || what_if.lose.contains(name);
        let local = last.filter(|last| last.desired > 0 || last.replicas > 0).map(|last| {
            let spec_replicas = last.desired + last.overflow.min(PROBES);
            let short = last.overflow > 0 && last.replicas < spec_replicas;
            placing::Local {
                spec_replicas,
                replicas: last.replicas,
                available: last.available,
                failing_since: short.then_some(long_ago),
                observed: true,
            }
        });
        let full = local.is_none() && last.is_some_and(|last| last.overflow > 0);
        let stuck = last.map_or(0, |last| usize::try_from(last.unschedulable).unwrap_or(0));
        placing::Member {
            reach: if offline { Reach::Offline } else { Reach::Online },
            local,
            waiting: vec![placing::Wait::Refused(long_ago); stuck],
            refusals: 0,
            // It has nothing and waits for something: it has no room, or takes nothing.
            room: what_if.capacity.get(name).copied().or_else(|| full.then_some(0)),
            replaces: None,
            waited_for,
            unheard: false,
        }
    };
    Ok(members.iter().map(|(name, answers)| (name.clone(), member(name, *answers))).collect())
}

/// Stands for templates of which nothing is known but that they are older.
const OLDER: &str = "-";

/// Members with all that they are to have; `has` is the template of those that are up to date, or being updated.
fn view(seen: &BTreeMap<String, placing::Member>, plan: &Plan, clusters: &Clusters, has: &str) -> View {
    let member = |(name, member): (&String, &placing::Member)| {
        let share = plan.clusters.get(name).cloned();
        let count = share.as_ref().map_or(0, |share| share.spec_replicas());
        let local = clusters.get(name).filter(|_| member.local.is_some()).map(|last| Local {
            template: Some(if last.state == ClusterState::Waiting { OLDER } else { has }.to_owned()),
            spec_replicas: count,
            replicas: count,
            // In the middle of an update it has pods of two templates.
            updated: match last.state {
                ClusterState::Updating | ClusterState::Stalled => last.updated.min(count - 1).max(0),
                _ => count,
            },
            ready: count,
            available: count,
            ..Local::default()
        });
        (name.clone(), Member { reach: member.reach, share, local, refused: None })
    };
    View { members: seen.iter().map(member).collect(), ..View::default() }
}

fn set_image(spec: &mut DeploymentSpec, said: &str) -> Result<(), Error> {
    let containers = spec.template.spec.as_mut().map(|pod| &mut pod.containers);
    let containers = containers.map(Vec::as_mut_slice).unwrap_or_default();
    // An image has no = before its tag or digest, and a container's name no /.
    let (container, image) = match said.split_once('=') {
        Some((container, image)) if !container.contains(['/', ':']) => (Some(container), image),
        _ => (None, said),
    };
    let names = containers.iter().map(|one| one.name.clone()).collect::<Vec<_>>().join(", ");
    let found = match container {
        Some(name) => containers.iter_mut().find(|one| one.name == name),
        None => containers.first_mut(),
    };
    let found = found.ok_or_else(|| Error::NoContainer {
        container: container.unwrap_or_default().to_owned(),
        containers: names,
    })?;
    found.image = Some(image.to_owned());
    Ok(())
}
