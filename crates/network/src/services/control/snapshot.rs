//! Builds the snapshot of all clusters that a plan is made from.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use koinon_control::Key;
use koinon_fleet::{ClusterId, Knowledge, Member as FleetMember, Phase};

use super::sources::Sources;
use crate::services::model::{Kind, Reach, Source};
use crate::services::plan::needs_nodes;
use crate::services::records::{Occupant, SourceSlice};
use crate::services::view::{Cluster, Clusters, Member, Stale, Stance};

/// The same as [`clusters`], for one led member: what was built for another serves here too, but for the cluster itself, whose members
/// may have said something since that concerns nobody else.
pub(super) fn clusters_at(
    sources: &Sources,
    here: &ClusterId,
    key: &Key,
    stale: &Stale,
) -> (Arc<Clusters>, Option<Timestamp>) {
    let snapshots = &sources.subscribers.snapshots;
    let began = match snapshots.get(key) {
        Ok(shared) => {
            let own = sources.fleet.get(here.as_str()).map(|member| {
                let joined = sources.subscribers.joins.read().members_in(key, here);
                cluster(sources, key, &member, joined, stale)
            });
            let Some((own, again)) = own else { return (shared, None) };
            if shared.get(here) == Some(&own) {
                return (shared, again);
            }
            let mut clusters = (*shared).clone();
            clusters.insert(here.clone(), own);
            return (Arc::new(clusters), again);
        }
        Err(began) => began,
    };
    let (clusters, again) = clusters(sources, key, stale);
    let clusters = Arc::new(clusters);
    // What holds only for a while is put together each time.
    if again.is_none() {
        snapshots.keep(key, &clusters, began);
    }
    (clusters, again)
}

/// All clusters as far as one federated Service is concerned, and when to look again even if nothing changes.
pub(super) fn clusters(sources: &Sources, key: &Key, stale: &Stale) -> (Clusters, Option<Timestamp>) {
    let mut by_cluster: BTreeMap<ClusterId, Vec<Source>> = BTreeMap::new();
    for source in sources.subscribers.joins.read().members_of(key) {
        by_cluster.entry(source.cluster.clone()).or_default().push(source.clone());
    }
    let mut due = None;
    let mut clusters = Clusters::new();
    for fleet_member in sources.fleet.members() {
        let joined = by_cluster.remove(fleet_member.name()).unwrap_or_default();
        let (one, again) = cluster(sources, key, &fleet_member, joined, stale);
        due = due.into_iter().chain(again).min();
        clusters.insert(fleet_member.name().clone(), one);
    }
    (clusters, due)
}

/// One cluster, with those of its members that joined.
fn cluster(
    sources: &Sources,
    key: &Key,
    fleet_member: &FleetMember,
    joined: Vec<Source>,
    stale: &Stale,
) -> (Cluster, Option<Timestamp>) {
    let id = fleet_member.name();
    let now = sources.fleet.clock().now();
    let judge = |knowledge| stale.judge(now, knowledge, || away_since(fleet_member));
    // Whoever cannot be seen may be there.
    let mut all = least_of([sources.services.knowledge(id.as_str()), sources.natives.knowledge(id.as_str())]);
    let (mut members, mut due) = (Vec::new(), None);
    for member in joined.into_iter().filter_map(|source| member(sources, key, source)) {
        let knowledge = knowledge(sources, &member);
        all = least_of([all, knowledge]);
        if knowledge != Knowledge::Unknown {
            let (stance, again) = judge(knowledge);
            due = due.into_iter().chain(again).min();
            members.push(Member { stance, ..member });
        }
    }
    let nodes = match needs_nodes(&members) {
        true => {
            sources.nodes.of_member(id.as_str()).into_iter().map(|(key, node)| (key.name, node)).collect()
        }
        false => Vec::new(),
    };
    let known = all != Knowledge::Unknown;
    let (stance, again) = if known { (Stance::Keep, None) } else { judge(all) };
    let due = due.into_iter().chain(again).min();
    (Cluster { known, stance, members, nodes: Arc::new(nodes) }, due)
}

fn member(sources: &Sources, key: &Key, source: Source) -> Option<Member> {
    let cluster = source.cluster.as_str();
    let joining = match source.kind {
        // A machine is a member by way of the Service that is made for it, and an export joins an import.
        Kind::VirtualMachine | Kind::ServiceExport | Kind::ServiceImport => return None,
        Kind::NativeService => sources.natives.get(cluster, &source.key)?,
        Kind::Service => match &*sources.services.get(cluster, &source.key)? {
            Occupant::Member(joining) => joining.clone(),
            Occupant::Plain { .. } | Occupant::Ours(_) => return None,
        },
    };
    if !joining.joins.contains(key) {
        return None;
    }
    let slices = match source.kind {
        Kind::Service => slices(sources, &source.cluster, &source.key),
        _ => Vec::new(),
    };
    Some(Member { slices, joining, source, stance: Stance::Keep })
}

/// The EndpointSlices of one Service, by name.
pub(super) fn slices(
    sources: &Sources,
    cluster: &ClusterId,
    service: &Key,
) -> Vec<(String, Arc<SourceSlice>)> {
    let names: Vec<Key> = {
        let joins = sources.subscribers.joins.read();
        let names = joins.slices_of(cluster, service);
        names.map(|name| Key::new(service.namespace.as_str(), name)).collect()
    };
    let slices = names.into_iter().filter_map(|key| {
        let slice = sources.slices.get(cluster.as_str(), &key)?;
        Some((key.name, slice))
    });
    slices.collect()
}

/// How much is known of a member: as much as of what is known least of all that it is made of. What it has nothing to do with
/// says nothing of it: a cluster that shows one kind no more is not away.
fn knowledge(sources: &Sources, member: &Member) -> Knowledge {
    let cluster = member.source.cluster.as_str();
    if member.source.kind == Kind::NativeService {
        return sources.natives.knowledge(cluster);
    }
    let nodes = matches!(member.joining.reach, Reach::Nodes(_)).then(|| sources.nodes.knowledge(cluster));
    least_of(
        [sources.services.knowledge(cluster), sources.slices.knowledge(cluster)].into_iter().chain(nodes),
    )
}

/// As much as of what is known least.
pub(super) fn least_of(all: impl IntoIterator<Item = Knowledge>) -> Knowledge {
    let least = |one: Knowledge, other: Knowledge| match (one, other) {
        (Knowledge::Unknown, _) | (_, Knowledge::Unknown) => Knowledge::Unknown,
        (Knowledge::Stale { since }, Knowledge::Stale { since: other }) => {
            Knowledge::Stale { since: since.min(other) }
        }
        (Knowledge::Stale { since }, Knowledge::Complete)
        | (Knowledge::Complete, Knowledge::Stale { since }) => Knowledge::Stale { since },
        (Knowledge::Complete, Knowledge::Complete) => Knowledge::Complete,
    };
    all.into_iter().fold(Knowledge::Complete, least)
}

/// Since when a member cannot be reached, if it cannot.
pub(super) fn away_since(member: &FleetMember) -> Option<Timestamp> {
    let state = member.state();
    (state.phase != Phase::Reachable).then_some(state.since)
}
