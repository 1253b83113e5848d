//! Decides which clusters are members, and what this one's part among them is. No IO.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use koinon_api::membership::{CLUSTER_UID, Claims, ClusterId, Federation, MEMBER_SECRET, MemberCluster};
use kube::ResourceExt as _;

use crate::member::{Credentials, credentials};

/// For whom the federation is formed.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// Beside the federation's own API server: every member counts, and claims do not.
    Federation,
    /// Beside one of the members, which claims to be somebody.
    Cluster(Claims),
}

/// What this cluster does in the federation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is in none, for this reason.
    Alone(String),
    /// It takes part and leads nobody: it calls no other cluster.
    Child(ClusterId),
    /// It campaigns to lead every member.
    Supervisor(ClusterId),
    /// It is the federation's own API server.
    Federation,
}

/// A member as the Federation describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub way: Way,
    /// The UID of its `kube-system` namespace, where it was written down.
    pub uid: Option<String>,
    /// What is not as safe as it should be about the way.
    pub warnings: Vec<String>,
}

/// How to reach a member.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    Login(Credentials),
    /// It is the cluster that this runs beside.
    Local,
    /// It cannot be reached, for this reason.
    None(String),
}

/// The members that each cluster names in its own Federation.
pub type Rosters = BTreeMap<ClusterId, BTreeSet<String>>;

/// A Federation that does not count, and why.
pub type Ignored = (Arc<Federation>, String);

/// Who belongs to the federation.
#[derive(Clone, Debug, PartialEq)]
pub struct Formation {
    pub part: Part,
    /// The Federation that counts.
    pub federation: Option<Arc<Federation>>,
    pub members: BTreeMap<ClusterId, Entry>,
    /// Federations that do not count, and why.
    pub ignored: Vec<Ignored>,
    /// What is wrong and should be told; nothing of it keeps the rest from working.
    pub problems: Vec<String>,
}

/// Reads the federation from its objects. `namespace` is where Federation and Secrets belong.
pub fn formation(
    namespace: &str,
    role: &Role,
    federations: &[Arc<Federation>],
    secrets: &BTreeMap<String, Arc<Secret>>,
) -> Formation {
    let (federation, ignored) = choose(namespace, federations);
    let mut formation = Formation {
        part: Part::Federation,
        federation,
        members: BTreeMap::new(),
        ignored,
        problems: Vec::new(),
    };
    formation.part = match role {
        Role::Federation => Part::Federation,
        Role::Cluster(claims) => part(claims, formation.federation.as_deref(), &mut formation.problems),
    };
    let me = match &formation.part {
        Part::Alone(_) | Part::Child(_) => return formation,
        Part::Supervisor(me) => Some(me.clone()),
        Part::Federation => None,
    };
    let Some(federation) = formation.federation.clone() else { return formation };
    for member in &federation.spec.members {
        let id = match ClusterId::new(&member.cluster_id.value) {
            Ok(id) => id,
            Err(error) => {
                formation.problems.push(error.to_string());
                continue;
            }
        };
        if formation.members.contains_key(&id) {
            formation.problems.push(format!("cluster {id} is named twice: only the first entry counts"));
            continue;
        }
        let entry = entry(namespace, member, me.as_ref() == Some(&id), &federation, secrets);
        formation.members.insert(id, entry);
    }
    refuse_doubles(&mut formation, &federation);
    if let Some(me) = me
        && !formation.members.contains_key(&me)
    {
        formation.problems.push(format!(
            "a supervisor is a member too, but cluster {me} is not among the members of its own Federation: add it"
        ));
    }
    formation
}

/// Has a cluster that is named twice be a member once. The first entry counts, as with a name that is there twice: it
/// was there before, so that a second name for a member that works moves nothing. This cluster itself is always
/// the one that counts.
fn refuse_doubles(formation: &mut Formation, federation: &Federation) {
    let mut known: BTreeMap<String, ClusterId> = BTreeMap::new();
    let Formation { members, problems, .. } = formation;
    let local = members.iter().filter(|(_, entry)| entry.way == Way::Local).map(|(id, _)| id.clone());
    let named = federation.spec.members.iter().filter_map(|one| ClusterId::new(&one.cluster_id.value).ok());
    let mut seen = BTreeSet::new();
    for id in local.collect::<Vec<_>>().into_iter().chain(named).filter(|id| seen.insert(id.clone())) {
        let Some(entry) = members.get_mut(&id) else { continue };
        let Some(uid) = entry.uid.clone() else { continue };
        let first = known.entry(uid).or_insert_with(|| id.clone());
        if *first != id {
            entry.way =
                Way::None(format!("it is the same cluster as the member {first}: unjoin one of them"));
            problems.push(format!(
                "the members {first} and {id} are the same cluster: only {first} counts; unjoin one of them"
            ));
        }
    }
}

/// Who else names other members than this Federation does. All have to name the same, or each would lead a federation of
/// its own; a child need name none.
pub fn disagreements(federation: &Federation, rosters: &Rosters) -> Vec<String> {
    let ours: BTreeSet<&str> =
        federation.spec.members.iter().map(|one| one.cluster_id.value.as_str()).collect();
    let mut told = Vec::new();
    for (cluster, theirs) in rosters.iter().filter(|(_, theirs)| !theirs.is_empty()) {
        let theirs: BTreeSet<&str> = theirs.iter().map(String::as_str).collect();
        let join = |names: Vec<&str>| names.join(", ");
        let mut differences = Vec::new();
        for (names, how) in [(&ours - &theirs, "not there"), (&theirs - &ours, "only there")] {
            if !names.is_empty() {
                differences.push(format!("{how}: {}", join(names.into_iter().collect())));
            }
        }
        if !differences.is_empty() {
            told.push(format!(
                "the Federation of cluster {cluster} names other members than this one ({}): make them the same",
                differences.join("; ")
            ));
        }
    }
    told
}

/// The oldest where it belongs counts, so that a second one changes nothing.
pub(super) fn choose(
    namespace: &str,
    federations: &[Arc<Federation>],
) -> (Option<Arc<Federation>>, Vec<Ignored>) {
    let mut federations: Vec<_> =
        federations.iter().filter(|one| one.metadata.deletion_timestamp.is_none()).cloned().collect();
    federations.sort_by_key(|one| {
        (one.creation_timestamp().map(|time| time.0), one.namespace().unwrap_or_default(), one.name_any())
    });
    let mut ignored = Vec::new();
    let mut chosen: Option<Arc<Federation>> = None;
    for one in federations {
        match &chosen {
            _ if one.namespace().as_deref() != Some(namespace) => {
                ignored.push((one, format!("a Federation belongs into the namespace {namespace}")));
            }
            Some(first) => {
                let why = format!("a cluster is in one federation, and {} is older", first.name_any());
                ignored.push((one, why));
            }
            None => chosen = Some(one),
        }
    }
    (chosen, ignored)
}

fn part(claims: &Claims, federation: Option<&Federation>, problems: &mut Vec<String>) -> Part {
    let Some(federation) = federation else { return Part::Alone("there is no Federation here".into()) };
    problems.extend(claims.disagreements());
    let bound = federation.status.as_ref().and_then(|status| status.cluster_id.as_deref());
    // Others know the cluster by the ID that it had when the Federation began, so that one stays in force.
    let id = match (bound, claims.id()) {
        (Some(bound), Some(claimed)) if bound != claimed => {
            problems.push(format!(
                "the ID claim was changed from {bound} to {claimed} while a Federation refers to it: {bound} stays in \
                 force; change the claim back, or delete the Federation first"
            ));
            bound
        }
        (Some(bound), None) => {
            problems.push(format!(
                "the ID claim was deleted while a Federation refers to it: {bound} stays in force; apply the claim again"
            ));
            bound
        }
        (_, Some(claimed)) => claimed,
        (None, None) => {
            let why = "the cluster does not claim an ID: apply a ClusterClaim id.k8s.io";
            problems.push(why.into());
            return Part::Alone(why.into());
        }
    };
    let id = match ClusterId::new(id) {
        Ok(id) => id,
        Err(error) => {
            problems.push(error.to_string());
            return Part::Alone(error.to_string());
        }
    };
    let set = federation.spec.cluster_set.as_ref().map(|set| set.value.as_str());
    if let (Some(claimed), Some(named)) = (claims.cluster_set(), set)
        && claimed != named
    {
        problems
            .push(format!("the cluster claims to be in the set {claimed}, but its Federation is of {named}"));
    }
    if claims.is_supervisor() { Part::Supervisor(id) } else { Part::Child(id) }
}

fn entry(
    namespace: &str,
    member: &MemberCluster,
    is_me: bool,
    federation: &Federation,
    secrets: &BTreeMap<String, Arc<Secret>>,
) -> Entry {
    let status = federation.status.as_ref();
    let said = status
        .and_then(|status| status.member_status.iter().find(|one| one.cluster_id == member.cluster_id.value));
    let answered = answered_at(federation, &member.cluster_id.value);
    let secret = secrets.get(&member.secret);
    let mut warnings = Vec::new();
    let way = match secret {
        _ if is_me => Way::Local,
        _ if member.secret.is_empty() => {
            Way::None("its entry in the Federation names no Secret to log in with".into())
        }
        None => Way::None(no_secret(namespace, &member.secret)),
        Some(secret) => match Credentials::from_secret(&member.server, secret, answered.as_deref()) {
            Ok(credentials) => {
                warnings = credentials.warnings();
                Way::Login(credentials)
            }
            Err(credentials::Error::Unlabelled) => Way::None(no_secret(namespace, &member.secret)),
            Err(error) => Way::None(format!("{error} (Secret {namespace}/{})", member.secret)),
        },
    };
    let written = secret.and_then(|secret| secret.annotations().get(CLUSTER_UID).cloned());
    let seen = said.and_then(|said| said.uid.clone());
    Entry { way, uid: written.or(seen), warnings }
}

/// The address at which a member answered first, or another that is logged in to with the same Secret: a token that is sent
/// there is sent nowhere else, whatever the Federation calls the member.
pub(super) fn answered_at(federation: &Federation, name: &str) -> Option<String> {
    let members = &federation.spec.members;
    let secret = members.iter().find(|one| one.cluster_id.value == name).map(|one| one.secret.as_str());
    let secret = secret.filter(|secret| !secret.is_empty());
    let shares =
        |id: &str| members.iter().any(|one| one.cluster_id.value == id && Some(&*one.secret) == secret);
    let said = &federation.status.as_ref()?.member_status;
    let own = said.iter().find(|one| one.cluster_id == name).and_then(|one| one.server.clone());
    own.or_else(|| said.iter().filter(|one| shares(&one.cluster_id)).find_map(|one| one.server.clone()))
}

/// Secrets without the label are not even looked at, so that whether there is one is not known.
fn no_secret(namespace: &str, name: &str) -> String {
    format!(
        "there is no Secret {namespace}/{name} with the label {MEMBER_SECRET}=true: koinon join makes it; one made by hand is \
         labelled with kubectl label secret -n {namespace} {name} {MEMBER_SECRET}=true"
    )
}

#[cfg(test)]
mod tests;
