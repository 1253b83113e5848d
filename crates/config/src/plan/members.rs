//! Which members may be written to: the stages of initialisation and validation.

use std::collections::{BTreeMap, BTreeSet};

use super::{Here, Lead, Member, Plan};
use crate::model::{AmkoCluster, Condition, Observed};
use crate::names::{condition, reason, status};

/// Why nothing may be federated at all.
pub(super) enum Stop {
    Failed(String),
    /// It is about to be found out; until then the status stays as it is.
    Undecided(String),
}

/// The members that are valid, by context.
pub(super) fn judge<'a>(
    cluster: &AmkoCluster,
    here: &Here,
    members: &'a BTreeMap<String, Member>,
    plan: &mut Plan,
    said: &mut Vec<Condition>,
) -> Result<BTreeMap<String, &'a Member>, Stop> {
    let wanted = cluster.members();
    plan.conflicts =
        here.known_conflicts().into_iter().filter(|conflict| wanted.contains(conflict)).collect();
    contexts(&wanted, here, plan, said)?;
    plan.connect = Some(wanted.iter().cloned().collect());
    let reachable = clients(&wanted, members, said)?;
    recalled(here)?;
    validate(cluster, &reachable, plan, said)
}

/// A rival that was seen stays one until it is seen to follow, so whether an earlier process saw one is read first.
fn recalled(here: &Here) -> Result<(), Stop> {
    match &here.conflicts {
        Observed::Seen(_) => Ok(()),
        Observed::Pending => Err(Stop::Undecided("what was seen before this start is being read".into())),
        Observed::Lost(why) => {
            Err(Stop::Undecided(format!("what was seen before this start cannot be read: {why}")))
        }
    }
}

/// All contexts have to be there: a member that is misspelt would silently never be federated to.
fn contexts(wanted: &[String], here: &Here, plan: &mut Plan, said: &mut Vec<Condition>) -> Result<(), Stop> {
    if wanted.is_empty() {
        return Ok(());
    }
    let why = match &here.contexts {
        Observed::Pending => return Err(Stop::Undecided("the members' kubeconfig is being read".into())),
        Observed::Lost(why) | Observed::Seen(Err(why)) => reason::contexts(why),
        Observed::Seen(Ok(contexts)) => {
            let missing = wanted.iter().find(|member| !contexts.contains(*member));
            let Some(missing) = missing else { return Ok(()) };
            reason::no_context(missing)
        }
    };
    // Credentials that are gone are not used any longer, and those that come back start afresh.
    plan.connect = Some(BTreeSet::new());
    said.push(Condition::new(condition::INITIALISATION, status::NO_CLIENTS, &why));
    Err(Stop::Failed(why))
}

fn clients<'a>(
    wanted: &[String],
    members: &'a BTreeMap<String, Member>,
    said: &mut Vec<Condition>,
) -> Result<Vec<(String, &'a Member)>, Stop> {
    let mut found = Vec::new();
    let mut failures = Vec::new();
    for name in wanted {
        let Some(member) = members.get(name) else {
            return Err(Stop::Undecided(format!("connecting to cluster {name}")));
        };
        match &member.no_client {
            Some(why) => failures.push(reason::no_client(name, why)),
            None => found.push((name.clone(), member)),
        }
    }
    said.push(if failures.is_empty() {
        Condition::new(condition::INITIALISATION, status::ALL_CLIENTS, "")
    } else {
        Condition::new(condition::INITIALISATION, status::SOME_CLIENTS, failures.join(","))
    });
    Ok(found)
}

fn validate<'a>(
    cluster: &AmkoCluster,
    found: &[(String, &'a Member)],
    plan: &mut Plan,
    said: &mut Vec<Condition>,
) -> Result<BTreeMap<String, &'a Member>, Stop> {
    for (name, member) in found {
        if let Observed::Seen(theirs) = &member.clusters {
            if theirs.iter().any(|theirs| !theirs.uid.is_empty() && theirs.uid == cluster.uid) {
                let why = format!(
                    "cluster {name} is the current cluster itself: set clusterContext to {name}, or take it off clusters"
                );
                said.push(Condition::new(condition::VALIDATION, status::NO_CLIENTS, &why));
                return Err(Stop::Failed(why));
            }
            if theirs.iter().any(|theirs| theirs.is_leader) {
                plan.conflicts.insert(name.clone());
            } else {
                plan.conflicts.remove(name);
            }
        }
    }
    if !plan.conflicts.is_empty() {
        let rivals = cluster.members().into_iter().filter(|member| plan.conflicts.contains(member));
        let why = rivals.map(|rival| reason::second_leader(&rival)).collect::<Vec<_>>().join(",");
        said.push(Condition::new(condition::VALIDATION, status::NO_CLIENTS, &why));
        return Err(Stop::Failed(why));
    }
    // A leader that has just come up may be the one that was replaced while it was away. It finds out before
    // it writes anything, or finds out that it cannot: each first look ends within one deadline.
    if let Some((name, _)) = found.iter().find(|(_, member)| member.clusters == Observed::Pending) {
        return Err(Stop::Undecided(format!("looking at cluster {name} for the first time")));
    }
    let mut valid = BTreeMap::new();
    let mut failures = Vec::new();
    for (name, member) in found {
        match check(cluster, name, member) {
            Ok(()) => drop(valid.insert(name.clone(), *member)),
            Err(why) => failures.push(why),
        }
    }
    if failures.is_empty() {
        said.push(Condition::new(condition::VALIDATION, status::ALL_VALID, ""));
    } else {
        let why = failures.join(",");
        said.push(Condition::new(condition::VALIDATION, status::SOME_VALID, &why));
        if valid.is_empty() {
            plan.lead = Lead::As(cluster.context.clone());
            return Err(Stop::Failed(why));
        }
    }
    Ok(valid)
}

fn check(cluster: &AmkoCluster, name: &str, member: &Member) -> Result<(), String> {
    let theirs = match &member.clusters {
        Observed::Seen(theirs) => theirs,
        Observed::Lost(why) => return Err(reason::unreachable(name, why)),
        Observed::Pending => return Err(reason::unreachable(name, "no answer yet")),
    };
    match &theirs[..] {
        [] => Err(reason::none_there(name)),
        [one] if one.version != cluster.version => Err(reason::version(&cluster.version, name, &one.version)),
        [_] => Ok(()),
        _ => Err(reason::several_there(name)),
    }
}
