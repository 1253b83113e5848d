//! What each valid member lacks, has too much of, or has differently: the stages of federation.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use koinon_control::Key;
use kube::ResourceExt as _;
use kube::core::DynamicObject;

use super::tried::Gate;
use super::{DeletionPermit, Here, Member, Plan, Write};
use crate::model::{AmkoCluster, Carried, Condition, Kind, Objects, Observed};
use crate::names::status;

/// How one member stands with one kind.
#[derive(Default)]
struct Standing {
    writes: Vec<Write>,
    /// Something is on its way, and nothing is wrong so far.
    pending: bool,
    failures: Vec<String>,
    again_at: Option<Duration>,
}

pub(super) fn federate(
    now: Duration,
    cluster: &AmkoCluster,
    here: &Here,
    valid: &BTreeMap<String, &Member>,
    plan: &mut Plan,
    said: &mut Vec<Condition>,
) {
    for (kind, objects) in &here.objects {
        match wanted(kind, objects, here, valid) {
            Wanted::Objects(objects) => said.extend(stage(now, cluster, kind, objects, valid, plan)),
            Wanted::NotYet => said.extend(cluster.condition(&kind.stage).cloned()),
            Wanted::Held(why) => said.push(Condition::new(&kind.stage, status::NOT_FEDERATED, why)),
            Wanted::Failed(why) => {
                said.push(Condition::new(&kind.stage, status::NOT_FEDERATED, why));
                return;
            }
        }
    }
}

enum Wanted<'a> {
    Objects(&'a Objects),
    /// Not listed completely so far: what is missing is not absent.
    NotYet,
    /// This kind stays as it is everywhere.
    Held(String),
    /// This kind and those after it stay as they are everywhere.
    Failed(String),
}

fn wanted<'a>(
    kind: &Kind,
    objects: &'a Observed<Objects>,
    here: &Here,
    valid: &BTreeMap<String, &Member>,
) -> Wanted<'a> {
    let objects = match objects {
        Observed::Pending => return Wanted::NotYet,
        Observed::Lost(why) => {
            return Wanted::Failed(format!(
                "error in getting {} list in the current cluster: {why}",
                kind.kind
            ));
        }
        Observed::Seen(objects) => objects,
    };
    if here.leaving {
        return Wanted::Held("the namespace of the current cluster is being deleted; the copies stay".into());
    }
    if let Some(complaint) = kind.only_one
        && objects.len() > 1
    {
        return Wanted::Failed(complaint.into());
    }
    let holders = holders(kind, objects, valid).join(", ");
    if holders.is_empty() {
        return Wanted::Objects(objects);
    }
    // That something is not here is no reason to delete it elsewhere: that it was deleted here is.
    let name = &kind.kind;
    let left_alone = format!("those in {holders} are left alone");
    let advice = "create one here, or delete them there";
    match here.permits.get(kind).unwrap_or(&DeletionPermit::Unknown) {
        DeletionPermit::Allowed => Wanted::Objects(objects),
        DeletionPermit::Unknown => Wanted::NotYet,
        DeletionPermit::NeverOwned => Wanted::Held(format!(
            "no {name} object is present in the current cluster, and there was none since it became leader; {left_alone}: {advice}"
        )),
        DeletionPermit::DefinitionRecreated => Wanted::Held(format!(
            "the definition of {name} in the current cluster was made anew, and its objects went with the old one; \
             {left_alone}: {advice}"
        )),
        DeletionPermit::Refused(why) => Wanted::Held(format!("{why}; {left_alone}")),
    }
}

/// The members that have copies which the leader lacks.
fn holders<'a>(kind: &Kind, objects: &Objects, valid: &'a BTreeMap<String, &Member>) -> Vec<&'a str> {
    let ours: BTreeSet<Key> = objects.iter().map(|object| Key::of(&**object)).collect();
    let holds = |member: &Member| match member.copies.get(kind) {
        Some(Observed::Seen(copies)) => copies.iter().any(|copy| !ours.contains(&Key::of(&**copy))),
        _ => false,
    };
    valid.iter().filter(|(_, member)| holds(member)).map(|(name, _)| name.as_str()).collect()
}

/// Plans one kind for all members; gives its condition, or the present one while it is being found out.
fn stage(
    now: Duration,
    cluster: &AmkoCluster,
    kind: &Kind,
    objects: &Objects,
    valid: &BTreeMap<String, &Member>,
    plan: &mut Plan,
) -> Option<Condition> {
    let wanted = objects.iter().map(|object| (Key::of(&**object), Carried::of(object))).collect();
    let mut failures = Vec::new();
    let mut pending = false;
    for (name, member) in valid {
        let standing = compare(now, kind, &wanted, name, member);
        if !standing.writes.is_empty() {
            plan.writes.entry(name.clone()).or_default().extend(standing.writes);
        }
        if let Some(at) = standing.again_at {
            plan.wake_at(at);
        }
        pending |= standing.pending && standing.failures.is_empty();
        failures.extend(standing.failures);
    }
    if pending {
        cluster.condition(&kind.stage).cloned()
    } else if failures.is_empty() {
        Some(Condition::new(&kind.stage, status::FEDERATED, ""))
    } else {
        Some(Condition::new(&kind.stage, status::SOME_FEDERATED, failures.join(",")))
    }
}

fn compare(
    now: Duration,
    kind: &Kind,
    wanted: &BTreeMap<Key, Carried>,
    name: &str,
    member: &Member,
) -> Standing {
    let mut standing = Standing::default();
    let copies = match member.copies.get(kind) {
        Some(Observed::Seen(copies)) => copies,
        Some(Observed::Lost(why)) => {
            standing.failures.push(format!("error in getting {} list for cluster {name}: {why}", kind.kind));
            return standing;
        }
        None | Some(Observed::Pending) => {
            standing.pending = true;
            return standing;
        }
    };
    let there: BTreeMap<Key, &DynamicObject> =
        copies.iter().map(|copy| (Key::of(&**copy), &**copy)).collect();
    for (key, carried) in wanted {
        let need = match there.get(key).copied() {
            Some(copy) if copy.metadata.deletion_timestamp.is_some() => {
                standing.failures.push(going(kind, name, copy));
                continue;
            }
            Some(copy) if carried.is_in(copy) => continue,
            Some(copy) => {
                let object = replaced(copy, carried);
                Need::new(key, "updating", Some(copy), Write::Replace { kind: kind.clone(), object })
            }
            None => {
                let object = created(kind, key, carried);
                Need::new(key, "creating", None, Write::Create { kind: kind.clone(), object })
            }
        };
        standing.consider(now, name, member, kind, Some(carried), need);
    }
    for (key, copy) in there.iter().filter(|(key, _)| !wanted.contains_key(*key)) {
        if copy.metadata.deletion_timestamp.is_some() {
            standing.failures.push(going(kind, name, copy));
            continue;
        }
        let write = Write::Delete {
            kind: kind.clone(),
            key: key.clone(),
            uid: copy.uid().unwrap_or_default(),
            resource_version: copy.resource_version().unwrap_or_default(),
        };
        standing.consider(now, name, member, kind, None, Need::new(key, "deleting", Some(copy), write));
    }
    if member.unsettled {
        // What is seen may be from before our own writes.
        standing.writes.clear();
        standing.pending = true;
    }
    standing
}

/// A write that would put something right.
struct Need<'a> {
    key: &'a Key,
    doing: &'static str,
    /// The version of the object that it holds for.
    version: &'a str,
    write: Write,
}

impl<'a> Need<'a> {
    fn new(key: &'a Key, doing: &'static str, copy: Option<&'a DynamicObject>, write: Write) -> Need<'a> {
        let version = copy.and_then(|copy| copy.metadata.resource_version.as_deref()).unwrap_or_default();
        Need { key, doing, version, write }
    }
}

impl Standing {
    /// Takes a write in if it is due, and what is wrong otherwise.
    fn consider(
        &mut self,
        now: Duration,
        name: &str,
        member: &Member,
        kind: &Kind,
        wanted: Option<&Carried>,
        need: Need<'_>,
    ) {
        let tried = member.tried.get(&(kind.clone(), need.key.clone()));
        let gate = tried.map_or(Gate::Go, |tried| tried.gate(now, wanted, need.version));
        let why = match gate {
            Gate::Go => {
                self.writes.push(need.write);
                // What went wrong the last time is true until it went right.
                let before = tried.filter(|tried| tried.wanted.as_ref() == wanted);
                before.and_then(|tried| tried.complaint()).map(str::to_owned)
            }
            Gate::Wait(until, why) => {
                self.again_at = Some(self.again_at.map_or(until, |earlier| earlier.min(until)));
                why
            }
            Gate::Stuck(why) => Some(why),
        };
        match why {
            Some(why) => {
                let (doing, kind, object) = (need.doing, &kind.kind, &need.key.name);
                self.failures.push(format!("error in {doing} {kind} {object} in cluster {name}: {why}"));
            }
            None => self.pending = true,
        }
    }
}

/// An object on its way out: nothing can be done to it before it is gone.
fn going(kind: &Kind, cluster: &str, copy: &DynamicObject) -> String {
    let finalizers = copy.finalizers();
    format!(
        "{} {} in cluster {cluster} is being deleted and waits for {}",
        kind.kind,
        copy.name_any(),
        if finalizers.is_empty() { "its end".into() } else { finalizers.join(", ") },
    )
}

fn created(kind: &Kind, key: &Key, carried: &Carried) -> DynamicObject {
    let mut object = DynamicObject::new(&key.name, &kind.resource());
    if !key.namespace.is_empty() {
        object.metadata.namespace = Some(key.namespace.clone());
    }
    object.data = serde_json::json!({});
    carried.put_into(&mut object);
    object
}

/// The member's own object with what it should share with ours; its version makes the write hold for it alone.
fn replaced(copy: &DynamicObject, carried: &Carried) -> DynamicObject {
    let mut object = copy.clone();
    carried.put_into(&mut object);
    object
}
