//! Decides what is federated, what is written where, and what the status says. No IO, no clock, no tokio.
//!
//! ```text
//! this cluster ─► valid? leader? ─► members: context, client, AMKOCluster ─► copies, kind by kind
//!                  │ current         │ initialisation, validation             │ federation
//!                  └─────────────────┴──────── conditions ────────────────────┘
//! ```
//!
//! A stage that fails as a whole ends the plan: nothing is written to any member, and the later conditions are
//! left out. A member that fails is named and left out; the others go on.

mod copies;
mod members;
#[cfg(test)]
mod tests;
mod tried;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use koinon_control::Key;
use kube::core::DynamicObject;

use self::members::Stop;
pub use self::tried::{Outcome, Tried};
use crate::model::{AmkoCluster, Carried, Condition, Kind, Objects, Observed};
use crate::names::{NAMESPACE, condition, reason, status};

/// This cluster.
#[derive(Clone, Debug)]
pub struct Here {
    /// All AMKOClusters, whatever their namespace.
    pub clusters: Observed<Vec<AmkoCluster>>,
    /// The contexts of the Secret's kubeconfig, or why there are none.
    pub contexts: Observed<Result<BTreeSet<String>, String>>,
    /// The objects to federate, by kind, in the order of their stages.
    pub objects: Vec<(Kind, Observed<Objects>)>,
    /// Of each kind, whether copies that this leader lacks may go.
    pub permits: BTreeMap<Kind, DeletionPermit>,
    /// Members that were seen to lead as well, and have not been seen to follow since; also by an earlier process, so that it
    /// may not be known yet.
    pub conflicts: Observed<BTreeSet<String>>,
    /// The namespace of all this is being deleted, and its objects with it.
    pub leaving: bool,
}

impl Here {
    /// The rivals that are known of; there may be more.
    fn known_conflicts(&self) -> BTreeSet<String> {
        match &self.conflicts {
            Observed::Seen(conflicts) => conflicts.clone(),
            Observed::Pending | Observed::Lost(_) => BTreeSet::new(),
        }
    }
}

/// Whether copies that this leader lacks may be deleted.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum DeletionPermit {
    /// About to be found out.
    #[default]
    Unknown,
    /// What it lacks was deleted here, or never was here beside what is.
    Allowed,
    /// There was nothing since it became leader: it may be a cluster that lost its data, or one that was promoted
    /// before it got any.
    NeverOwned,
    /// What it had went with its definition, and there is another one now.
    DefinitionRecreated,
    /// Something here is wrong or on its way out.
    Refused(String),
}

/// One member.
#[derive(Clone, Debug)]
pub struct Member {
    /// Why there is no way to talk to it.
    pub no_client: Option<String>,
    pub clusters: Observed<Vec<AmkoCluster>>,
    pub copies: BTreeMap<Kind, Observed<Objects>>,
    /// Something was written and not seen since.
    pub unsettled: bool,
    /// What was written before, and what came of it.
    pub tried: BTreeMap<(Kind, Key), Tried>,
}

/// One change to a member. Each holds only for the object that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    Create { kind: Kind, object: DynamicObject },
    Replace { kind: Kind, object: DynamicObject },
    Delete { kind: Kind, key: Key, uid: String, resource_version: String },
}

impl Write {
    pub fn kind(&self) -> &Kind {
        match self {
            Write::Create { kind, .. } | Write::Replace { kind, .. } | Write::Delete { kind, .. } => kind,
        }
    }

    /// The object that it is about.
    pub fn key(&self) -> Key {
        match self {
            Write::Create { object, .. } | Write::Replace { object, .. } => Key::of(object),
            Write::Delete { key, .. } => key.clone(),
        }
    }

    /// What the object is to share with ours; nothing if it has to go.
    pub fn wanted(&self) -> Option<Carried> {
        match self {
            Write::Create { object, .. } | Write::Replace { object, .. } => Some(Carried::of(object)),
            Write::Delete { .. } => None,
        }
    }
}

/// A status that has to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    pub key: Key,
    pub uid: String,
    pub resource_version: String,
    pub conditions: Vec<Condition>,
    /// The other leaders that it tells of, to be remembered first; of an AMKOCluster that does not count there is nothing to
    /// remember.
    pub rivals: Option<BTreeSet<String>>,
}

/// Whether this cluster leads.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Lead {
    No,
    /// Not known yet: as before.
    #[default]
    Undecided,
    /// Without a rival, under this context.
    As(String),
}

/// What to do now, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub lead: Lead,
    /// The members to be connected to. `None` leaves the connections as they are: nothing is known that
    /// would say otherwise.
    pub connect: Option<BTreeSet<String>>,
    /// Other leaders, seen now or remembered.
    pub conflicts: BTreeSet<String>,
    pub writes: BTreeMap<String, Vec<Write>>,
    pub statuses: Vec<StatusWrite>,
    /// Why nothing is federated at all.
    pub stopped: Option<String>,
    /// When to plan again even if nothing changes.
    pub again_at: Option<Duration>,
}

/// Decides, `now` being the time since the start.
pub fn plan(now: Duration, here: &Here, members: &BTreeMap<String, Member>) -> Plan {
    let clusters = match &here.clusters {
        Observed::Seen(clusters) => clusters,
        // Not to see our own word on who leads is no reason to tear down connections, and none to write.
        Observed::Pending => return Plan { conflicts: here.known_conflicts(), ..Plan::stopped("starting") },
        Observed::Lost(why) => {
            let why = format!("the current cluster cannot be reached: {why}");
            return Plan { conflicts: here.known_conflicts(), ..Plan::stopped(&why) };
        }
    };
    let (ours, strays): (Vec<_>, Vec<_>) =
        clusters.iter().partition(|cluster| cluster.namespace == NAMESPACE);
    let mut plan = match &ours[..] {
        [] => Plan::idle("there is no AMKOCluster in avi-system"),
        [one] => of_cluster(now, one, here, members),
        several => {
            let mut plan = Plan::idle(reason::SEVERAL_HERE);
            for cluster in several {
                plan.say(cluster, vec![invalid(reason::SEVERAL_HERE)]);
            }
            plan
        }
    };
    for stray in strays {
        plan.say(stray, vec![invalid(reason::NAMESPACE)]);
    }
    if !matches!(here.conflicts, Observed::Seen(_)) {
        // What is not known must not take the place of what is remembered.
        for status in &mut plan.statuses {
            status.rivals = None;
        }
    }
    plan
}

fn invalid(why: &str) -> Condition {
    Condition::new(condition::CURRENT, status::INVALID, why)
}

fn of_cluster(now: Duration, cluster: &AmkoCluster, here: &Here, members: &BTreeMap<String, Member>) -> Plan {
    let follower = Condition::new(condition::CURRENT, status::FOLLOWER, reason::NOT_LEADER);
    let current = if !cluster.is_leader {
        Err(follower)
    } else if cluster.context.is_empty() {
        Err(invalid(reason::CONTEXT))
    } else if cluster.version.is_empty() {
        Err(invalid(reason::VERSION))
    } else {
        Ok(Condition::new(condition::CURRENT, status::VALID, ""))
    };
    let current = match current {
        Ok(current) => current,
        Err(why) => {
            let mut plan = Plan::idle(&why.reason);
            plan.say(cluster, vec![why]);
            return plan;
        }
    };
    let mut plan = Plan::default();
    let mut said = vec![current];
    let valid = match members::judge(cluster, here, members, &mut plan, &mut said) {
        Ok(valid) => valid,
        Err(Stop::Failed(why)) => {
            if plan.lead == Lead::Undecided {
                plan.lead = Lead::No;
            }
            plan.stopped = Some(why);
            plan.say(cluster, said);
            return plan;
        }
        Err(Stop::Undecided(why)) => {
            plan.stopped = Some(why);
            // Just promoted, the status speaks of a follower still.
            if cluster.conditions.first() != said.first() {
                plan.say(cluster, said);
            }
            return plan;
        }
    };
    plan.lead = Lead::As(cluster.context.clone());
    copies::federate(now, cluster, here, &valid, &mut plan, &mut said);
    plan.say(cluster, said);
    plan
}

impl Plan {
    fn stopped(why: &str) -> Plan {
        Plan { stopped: Some(why.to_owned()), ..Plan::default() }
    }

    /// A cluster that does not lead has no business with others.
    fn idle(why: &str) -> Plan {
        Plan { connect: Some(BTreeSet::new()), lead: Lead::No, ..Plan::stopped(why) }
    }

    /// Has the conditions written where the object does not say so already.
    fn say(&mut self, cluster: &AmkoCluster, conditions: Vec<Condition>) {
        if cluster.conditions != conditions {
            let counts = cluster.namespace == NAMESPACE;
            self.statuses.push(StatusWrite {
                rivals: counts.then(|| self.conflicts.clone()),
                key: Key::new(&cluster.namespace, &cluster.name),
                uid: cluster.uid.clone(),
                resource_version: cluster.resource_version.clone(),
                conditions,
            });
        }
    }

    fn wake_at(&mut self, at: Duration) {
        self.again_at = Some(self.again_at.map_or(at, |earlier| earlier.min(at)));
    }
}
