//! Worlds to plan for, made in a line or two, and what is said of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use koinon_control::Key;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::model::{AmkoCluster, Condition, Kind, Observed};
use crate::names::NAMESPACE;
use crate::plan::{DeletionPermit, Here, Member, Plan, Write, plan};

pub(super) struct World {
    pub(super) here: Here,
    pub(super) members: BTreeMap<String, Member>,
}

/// A leader `a` with members `b` and `c`, all well, and nothing to federate.
pub(super) fn world() -> World {
    let names = ["b", "c"];
    let here = Here {
        clusters: Observed::Seen(vec![cluster("a", true)]),
        contexts: Observed::Seen(Ok(["a", "b", "c"].map(String::from).into())),
        objects: Kind::always().map(|kind| (kind, Observed::Seen(Vec::new()))).into(),
        permits: Kind::always().map(|kind| (kind, DeletionPermit::Allowed)).into(),
        conflicts: Observed::Seen(Default::default()),
        leaving: false,
    };
    World { here, members: names.map(|name| (name.to_owned(), member(name))).into() }
}

pub(super) fn cluster(context: &str, is_leader: bool) -> AmkoCluster {
    AmkoCluster {
        namespace: NAMESPACE.into(),
        name: "amkocluster-federation".into(),
        uid: format!("uid-{context}"),
        version: "1.4.2".into(),
        resource_version: "1".into(),
        is_leader,
        context: context.into(),
        clusters: ["a", "b", "c"].map(String::from).into(),
        ..AmkoCluster::default()
    }
}

fn member(name: &str) -> Member {
    Member {
        no_client: None,
        clusters: Observed::Seen(vec![cluster(name, false)]),
        copies: Kind::always().map(|kind| (kind, Observed::Seen(Vec::new()))).into(),
        unsettled: false,
        tried: BTreeMap::new(),
    }
}

pub(super) fn object(kind: &Kind, name: &str, version: u64, spec: Value) -> DynamicObject {
    let mut object = DynamicObject::new(name, &kind.resource()).within(NAMESPACE);
    object.metadata.uid = Some(format!("uid-{name}"));
    object.metadata.resource_version = Some(version.to_string());
    object.data = json!({"spec": spec});
    object
}

impl World {
    pub(super) fn ours(&mut self) -> &mut AmkoCluster {
        match &mut self.here.clusters {
            Observed::Seen(clusters) => &mut clusters[0],
            unseen => panic!("{unseen:?}"),
        }
    }

    pub(super) fn member(&mut self, name: &str) -> &mut Member {
        self.members.get_mut(name).expect("a member")
    }

    pub(super) fn theirs(&mut self, name: &str) -> &mut Vec<AmkoCluster> {
        match &mut self.member(name).clusters {
            Observed::Seen(clusters) => clusters,
            unseen => panic!("{unseen:?}"),
        }
    }

    pub(super) fn add_here(&mut self, object: DynamicObject) {
        let kind = object.types.as_ref().expect("a kind").kind.clone();
        let (_, objects) =
            self.here.objects.iter_mut().find(|(known, _)| known.kind == kind).expect("a kind");
        let Observed::Seen(objects) = objects else { panic!("not seen") };
        objects.push(Arc::new(object));
    }

    pub(super) fn add_there(&mut self, name: &str, object: DynamicObject) {
        let kind = object.types.as_ref().expect("a kind").kind.clone();
        let copies = &mut self.member(name).copies;
        let (_, copies) = copies.iter_mut().find(|(known, _)| known.kind == kind).expect("a kind");
        let Observed::Seen(copies) = copies else { panic!("not seen") };
        copies.push(Arc::new(object));
    }

    pub(super) fn plan(&self) -> Plan {
        plan(Duration::from_secs(1000), &self.here, &self.members)
    }

    /// Plans, remembers the rivals and writes the status as the controller would.
    pub(super) fn settle(&mut self) -> Plan {
        let plan = self.plan();
        if let Observed::Seen(conflicts) = &mut self.here.conflicts {
            conflicts.clone_from(&plan.conflicts);
        }
        for status in &plan.statuses {
            let Observed::Seen(clusters) = &mut self.here.clusters else { continue };
            for cluster in clusters {
                if Key::new(&cluster.namespace, &cluster.name) == status.key {
                    cluster.conditions = status.conditions.clone();
                }
            }
        }
        plan
    }

    /// What the status says in the end.
    pub(super) fn says(&mut self) -> Vec<Condition> {
        self.settle();
        self.ours().conditions.clone()
    }

    /// Does what was planned, as a server would.
    pub(super) fn carry_out(&mut self, plan: &Plan) {
        for (name, writes) in &plan.writes {
            for write in writes {
                let kind = write.kind().clone();
                let Some(Observed::Seen(copies)) = self.member(name).copies.get_mut(&kind) else {
                    panic!("{name} was not seen")
                };
                let at =
                    |key: &Key| copies.iter().position(|copy| Key::of(&**copy) == *key).expect("it is there");
                match write {
                    Write::Create { object, .. } => {
                        let key = Key::of(object);
                        assert!(!copies.iter().any(|copy| Key::of(&**copy) == key), "{key} is there");
                        let mut object = object.clone();
                        object.metadata.uid = Some(format!("{name}-{key}"));
                        object.metadata.resource_version = Some("1".into());
                        copies.push(Arc::new(object));
                    }
                    Write::Replace { object, .. } => {
                        let index = at(&Key::of(object));
                        let before = &copies[index];
                        assert_eq!(before.metadata.resource_version, object.metadata.resource_version);
                        let mut object = object.clone();
                        object.metadata.resource_version =
                            object.metadata.resource_version.map(|version| format!("{version}1"));
                        copies[index] = Arc::new(object);
                    }
                    Write::Delete { key, uid, resource_version, .. } => {
                        let gone = copies.remove(at(key));
                        assert_eq!(gone.metadata.uid.as_ref(), Some(uid));
                        assert_eq!(gone.metadata.resource_version.as_ref(), Some(resource_version));
                    }
                }
            }
        }
    }
}

/// `member: create GSLBConfig gc-1` for each write, in order.
pub(super) fn told(plan: &Plan) -> Vec<String> {
    let mut told = Vec::new();
    for (name, writes) in &plan.writes {
        for write in writes {
            let (doing, kind, object) = match write {
                Write::Create { kind, object } => ("create", kind, Key::of(object)),
                Write::Replace { kind, object } => ("replace", kind, Key::of(object)),
                Write::Delete { kind, key, .. } => ("delete", kind, key.clone()),
            };
            told.push(format!("{name}: {doing} {} {}", kind.kind, object.name));
        }
    }
    told
}

/// Conditions as `type = status (reason)`.
pub(super) fn lines(conditions: &[Condition]) -> Vec<String> {
    let line = |one: &Condition| match &*one.reason {
        "" => format!("{} = {}", one.stage, one.status),
        reason => format!("{} = {} ({reason})", one.stage, one.status),
    };
    conditions.iter().map(line).collect()
}
