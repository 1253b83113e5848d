//! Decides what one cluster should have of one federated Service. No IO, no clock, no history.
//!
//! What comes out depends on the members' state alone, and not on the way there: two leaders that see the same decide
//! the same. Only for who is not known does what is there already count, because not to know is not to have none.

use std::collections::{BTreeMap, BTreeSet};

use koinon_control::Key;
use koinon_fleet::ClusterId;

use super::endpoints::{self, Names, Reached};
use super::external_dns::{Changes, Targets};
use super::messages::{self, Notice};
use super::model::{Family, Reach, Slice, Source};
use super::ports::{self, Decided};
use super::records::{Occupant, OwnSlice, Published, Shape, ShapePort};
use super::slices::{settle, slices, unanswered};
use super::view::{Cluster, Clusters, Dns, Locality, Member, Site, Stance};

/// Annotation that we write on a federated Service: what its members do not agree on.
pub const CONFLICTS: &str = "koinon.dev/conflicts";

/// What to do in one cluster about one federated Service, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub service: Option<ServiceStep>,
    /// To be done before the Service is changed, and after it was created.
    pub slices: Vec<SliceStep>,
    /// What to tell users of this cluster.
    pub notices: Vec<Notice>,
    pub why: String,
}

/// What to do about the Service itself.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceStep {
    Create {
        shape: Shape,
    },
    /// Holds only for this very version.
    Update {
        uid: String,
        version: String,
        shape: Shape,
        annotations: Changes,
        /// Whether a port is called otherwise from now on.
        renames: bool,
    },
    Delete {
        uid: String,
        version: String,
    },
}

/// What to do about one EndpointSlice.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceStep {
    Create {
        slice: Slice,
        owner: String,
    },
    Update {
        slice: Slice,
        owner: String,
        uid: String,
        version: String,
    },
    /// Its endpoints, whatever they are, take no new connections.
    Drain {
        name: String,
        uid: String,
        version: String,
    },
    Delete {
        name: String,
        uid: String,
        version: String,
    },
}

/// Decides what the cluster `here` should have of the federated Service `key`.
pub fn plan(here: &ClusterId, key: &Key, clusters: &Clusters, site: &Site) -> Plan {
    if !site.namespace {
        return Plan::waits(format!("the namespace {} is not here", key.namespace));
    }
    // With members of its own that are known, others that are not change nothing for the rest of the world.
    let is_own = |one: &Cluster| !one.members.is_empty() && site.locality == Locality::Strict;
    if clusters.get(here).is_some_and(|one| !one.known && !is_own(one)) {
        // It may have a member of its own, which is then the only one that counts.
        return Plan::waits("whether there is a member here is not known".into());
    }
    let members = by_age(clusters);
    let unknown: Vec<&ClusterId> = clusters.iter().filter(|(_, one)| !one.known).map(|(id, _)| id).collect();
    let ours = match site.occupant.as_deref() {
        Some(Occupant::Ours(published)) => Some(&**published),
        Some(Occupant::Member(joining)) if joining.joins.contains(key) => {
            // It is reached under the name of the federated Service already, by its own endpoints.
            return Plan {
                notices: messages::stand_in(here, key, &members, &decide(&members, None)),
                why: "a member of that name stands in for it".into(),
                ..remove(None, site)
            };
        }
        Some(Occupant::Member(_) | Occupant::Plain { .. }) if !members.is_empty() => {
            return Plan {
                notices: messages::taken(here, key, &members, site),
                why: "the name is taken".into(),
                ..remove(None, site)
            };
        }
        Some(Occupant::Member(_) | Occupant::Plain { .. }) => {
            return Plan { why: "the name is somebody else's".into(), ..remove(None, site) };
        }
        None => None,
    };
    if members.is_empty() {
        return match unknown.as_slice() {
            [] => Plan { why: "it has no member any more".into(), ..remove(ours, site) },
            _ => Plan {
                // What came from who is known is known to be over.
                slices: ours
                    .map(|published| {
                        let fate = fate(here, clusters, Use::All, BTreeMap::new());
                        settle(key, &published.uid, &site.slices, BTreeMap::new(), fate)
                    })
                    .unwrap_or_default(),
                ..Plan::waits(format!("who else is a member is not known: {}", listed(&unknown)))
            },
        };
    }
    if ours.is_some_and(|published| published.going) {
        return Plan::waits("the Service is on its way out".into());
    }
    let published = ours.map(|published| &published.shape);
    let decided = decide(&members, published.filter(|_| !unknown.is_empty()));
    let conflicts = messages::conflicts(&members, &decided);
    let mut shape = shape(&members, &decided, &conflicts, published.filter(|_| !unknown.is_empty()));
    let unknown_here = shape.traffic_distribution.take_if(|value| site.unsupported.contains(value));
    let mut plan = Plan { why: format!("{} members", members.len()), ..Plan::default() };
    if shape.ports.is_empty() {
        plan.why = "no member offers a port".into();
        plan.notices = messages::on_local(here, &members, |_| {
            Some(("NoPorts", "no member offers a port: a federated Service needs one".into()))
        });
        plan.slices = remove(None, site).slices;
        return plan;
    }
    let names = names(&decided, published.map(|shape| shape.ports.as_slice()));
    let (reached, used) = reach(here, clusters, &members, &names, site);
    plan.notices = messages::notices(here, &members, &reached, &decided, &conflicts);
    if let (Some(value), Some(published)) = (unknown_here, ours) {
        plan.notices.push(messages::unsupported(key, &published.uid, &value));
    }
    match ours {
        None => plan.service = Some(ServiceStep::Create { shape }),
        Some(published) => {
            let targets = || targets(clusters, &members, &names, site);
            let annotations = match &site.dns {
                Dns::Unknown => Changes::new(),
                // By far the most: nobody asks for what takes long to find with many endpoints.
                Dns::Nowhere if published.dns.is_untouched() => Changes::new(),
                Dns::Nowhere => published.dns.changes(key, None, &targets()),
                Dns::Under(suffix) => published.dns.changes(key, Some(suffix), &targets()),
            };
            if published.shape != shape || !published.labelled || !annotations.is_empty() {
                let (uid, version) = (published.uid.clone(), published.version.clone());
                let renames = renames(&published.shape, &shape);
                plan.service = Some(ServiceStep::Update { uid, version, shape, annotations, renames });
            }
            let unanswered = unanswered(key, &members, &reached);
            let wanted = slices(key, &members, reached);
            let fate = fate(here, clusters, used, unanswered);
            plan.slices = settle(key, &published.uid, &site.slices, wanted, fate);
        }
    }
    plan
}

impl Plan {
    fn waits(why: String) -> Plan {
        Plan { why, ..Plan::default() }
    }

    /// How the Service should distribute its traffic, where it is to be written.
    pub fn traffic_distribution(&self) -> Option<&str> {
        match self.service.as_ref()? {
            ServiceStep::Create { shape } | ServiceStep::Update { shape, .. } => {
                shape.traffic_distribution.as_deref()
            }
            ServiceStep::Delete { .. } => None,
        }
    }

    /// Whether there is nothing to write.
    pub fn is_settled(&self) -> bool {
        self.service.is_none() && self.slices.is_empty()
    }
}

/// All members that are known, the oldest first; who came at the same second is told apart by name.
fn by_age(clusters: &Clusters) -> Vec<&Member> {
    let mut members: Vec<&Member> = clusters.values().flat_map(|one| &one.members).collect();
    members.sort_by(|one, other| {
        (one.joining.created, &one.source).cmp(&(other.joining.created, &other.source))
    });
    members
}

/// Removes everything of the federated Service that is there.
fn remove(ours: Option<&Published>, site: &Site) -> Plan {
    let service = ours.filter(|published| !published.going).map(|published| ServiceStep::Delete {
        uid: published.uid.clone(),
        version: published.version.clone(),
    });
    let slices = site.slices.iter().map(|(name, slice)| SliceStep::Delete {
        name: name.clone(),
        uid: slice.uid.clone(),
        version: slice.version.clone(),
    });
    Plan { service, slices: slices.collect(), ..Plan::default() }
}

fn decide(members: &[&Member], published: Option<&Shape>) -> Decided {
    let offered: Vec<_> = members.iter().map(|member| member.joining.ports.as_slice()).collect();
    ports::decide(published.map(|shape| shape.ports.as_slice()), &offered)
}

fn shape(members: &[&Member], decided: &Decided, conflicts: &[String], published: Option<&Shape>) -> Shape {
    let oldest = members.first();
    let (affinity, traffic_distribution) = match published {
        Some(shape) => (shape.affinity, shape.traffic_distribution.clone()),
        None => (
            oldest.and_then(|member| member.joining.affinity),
            oldest.and_then(|member| member.joining.traffic_distribution.clone()),
        ),
    };
    let disputed = serde_json::to_string(conflicts).ok().filter(|_| !conflicts.is_empty());
    Shape {
        ports: decided.ports.clone(),
        affinity,
        traffic_distribution,
        // With whom they do not agree may be one that is not known.
        conflicts: published.and_then(|shape| shape.conflicts.clone()).or(disputed),
        is_plain: true,
    }
}

/// Whether a port that is there already is called otherwise.
fn renames(before: &Shape, after: &Shape) -> bool {
    let called = |shape: &Shape, port: &ShapePort| {
        let same = shape.ports.iter().find(|one| (one.protocol, one.port) == (port.protocol, port.port));
        same.map(|one| one.name.clone())
    };
    before.ports.iter().any(|port| called(after, port).is_some_and(|name| name != port.name))
}

/// What each member's ports are called. While a port is being renamed its slices have both names, so that nothing is
/// lost between the change of the slices and that of the Service.
fn names(decided: &Decided, published: Option<&[ShapePort]>) -> Vec<Names> {
    let before = |name: &str| {
        let port = decided.ports.iter().find(|port| port.name == name)?;
        let same = published?.iter().find(|one| (one.protocol, one.port) == (port.protocol, port.port))?;
        let is_free = !decided.ports.iter().any(|port| port.name == same.name);
        (is_free && same.name != name).then(|| same.name.clone())
    };
    let in_transition = |names: &BTreeMap<String, String>| -> Names {
        let called = names
            .iter()
            .map(|(own, name)| (own.clone(), std::iter::once(name.clone()).chain(before(name)).collect()));
        called.collect()
    };
    decided.names.iter().map(in_transition).collect()
}

/// Whether a cluster uses the members of all, or its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Own,
    All,
}

/// By what each member is reached from `here`, in order; nothing for one that is not used here.
fn reach(
    here: &ClusterId,
    clusters: &Clusters,
    members: &[&Member],
    names: &[Names],
    site: &Site,
) -> (Vec<Reached>, Use) {
    let is_local = |member: &Member| &member.source.cluster == here;
    let at_home: Vec<Option<Reached>> = members
        .iter()
        .zip(names)
        .map(|(member, names)| is_local(member).then(|| endpoints::at_home(member, names)))
        .collect();
    let has_local = at_home.iter().any(Option::is_some);
    let local_is_ready = at_home
        .iter()
        .flatten()
        .flat_map(|one| &one.groups)
        .flat_map(|group| &group.endpoints)
        .any(|one| one.conditions.is_ready());
    let used = match has_local && (site.locality == Locality::Strict || local_is_ready) {
        true => Use::Own,
        false => Use::All,
    };
    let reached = members.iter().zip(names).zip(at_home).map(|((member, names), at_home)| {
        if let Some(reached) = at_home {
            return reached;
        }
        if used == Use::Own {
            return Reached::default();
        }
        let Some(cluster) = clusters.get(&member.source.cluster) else { return Reached::default() };
        let mut reached = endpoints::from_elsewhere(member, cluster, names, &site.resolved);
        endpoints::judged(&mut reached.groups, member.stance);
        reached
    });
    (reached.collect(), used)
}

/// Addresses by which the federated Service is reached from outside every cluster.
fn targets(clusters: &Clusters, members: &[&Member], names: &[Names], site: &Site) -> Targets {
    let mut targets = BTreeSet::new();
    // Who is not known may have some, and so may a name that nobody has answered for.
    let mut is_all = clusters.values().all(|one| one.known || one.stance != Stance::Keep);
    for (member, names) in members.iter().zip(names) {
        let Some(cluster) = clusters.get(&member.source.cluster) else { continue };
        if member.stance != Stance::Keep {
            continue;
        }
        let reached = endpoints::from_elsewhere(member, cluster, names, &site.resolved);
        is_all &= reached.unanswered.is_empty();
        for group in reached.groups.iter().filter(|group| group.family != Family::Name) {
            let ready = group.endpoints.iter().filter(|one| one.conditions.is_ready());
            targets.extend(ready.map(|one| one.address.to_string()));
        }
    }
    let targets = targets.into_iter().collect();
    if is_all { Targets::All(targets) } else { Targets::AtLeast(targets) }
}

/// What becomes of slices that nobody wants: of those that came from a cluster of which nothing is known, and of those for
/// which an answer is missing still.
fn fate(
    here: &ClusterId,
    clusters: &Clusters,
    used: Use,
    unanswered: BTreeMap<String, Stance>,
) -> impl Fn(&str, &OwnSlice) -> Option<Stance> {
    move |name, slice| {
        if let Some(stance) = unanswered.get(name) {
            return Some(*stance);
        }
        let origin = slice.cluster.as_ref()?;
        let is_used = used == Use::All || origin == here;
        clusters.get(origin).filter(|origin| !origin.known && is_used).map(|origin| origin.stance)
    }
}

fn listed(clusters: &[&ClusterId]) -> String {
    clusters.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", ")
}

/// Whether any of these members is reached by its cluster's nodes.
pub fn needs_nodes(members: &[Member]) -> bool {
    members.iter().any(|member| matches!(member.joining.reach, Reach::Nodes(_)))
}

/// The names of load balancers among these members.
pub fn balancers(clusters: &Clusters) -> BTreeSet<String> {
    let ways = clusters.values().flat_map(|cluster| &cluster.members).filter_map(|member| {
        match &member.joining.reach {
            Reach::Balancer(ways) => Some(ways),
            _ => None,
        }
    });
    let names = ways.flatten().filter(|way| way.address.family == Family::Name);
    names.map(|way| way.address.text.to_string()).collect()
}

/// Tells sources apart in tests and messages.
impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} in {}", self.kind.as_str(), self.key, self.cluster)
    }
}
