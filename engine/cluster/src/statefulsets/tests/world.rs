//! A StatefulSet with its pods, claims and revisions.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use crate::revisions;
use crate::statefulsets::claims::Work;
use crate::statefulsets::plan::{Look, Plan, Step, plan};
use crate::statefulsets::revision::{self, Target};

const NOW: i64 = 1_800_000_000;

pub(super) struct World {
    pub(super) set: StatefulSet,
    pub(super) pods: BTreeMap<String, Pod>,
    pub(super) claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    pub(super) revisions: Vec<Arc<ControllerRevision>>,
    /// Steps that were taken, in words.
    pub(super) told: Vec<String>,
    born: u32,
}

impl World {
    /// A set of this size with one claim for each pod; `extra` goes into its spec.
    pub(super) fn new(replicas: i32, extra: Value) -> World {
        let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
        let mut spec = json!({
            "replicas": replicas, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
            "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 2,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "v1"}]}},
            "volumeClaimTemplates": [claim],
        });
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let meta = json!({"name": "web", "namespace": "default", "uid": "set", "generation": 1});
        World {
            set: serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap(),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            revisions: Vec::new(),
            told: Vec::new(),
            born: 0,
        }
    }

    /// A set whose pods are all there.
    pub(super) fn settled(replicas: i32, extra: Value) -> World {
        let mut world = World::new(replicas, extra);
        world.settle();
        assert_eq!(world.pods.len(), usize::try_from(replicas).unwrap());
        world.told.clear();
        world
    }

    pub(super) fn change(&mut self, spec: Value) {
        let mut set = serde_json::to_value(&self.set).unwrap();
        merge(&mut set, json!({"spec": spec}));
        self.set = serde_json::from_value(set).unwrap();
        self.set.metadata.generation = Some(self.set.metadata.generation.unwrap_or(0) + 1);
    }

    pub(super) fn image(&mut self, image: &str) {
        self.change(json!({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}));
    }

    pub(super) fn now() -> Timestamp {
        Timestamp::from_second(NOW).unwrap()
    }

    /// The revision of the template, made if it was not there.
    fn aim(&mut self) -> Arc<ControllerRevision> {
        revisions::sort(&mut self.revisions);
        match revision::target(&self.set, &self.revisions) {
            Target::Known(revision) => revision,
            Target::Renumber(revision, number) => {
                self.revisions.retain(|one| one.metadata.name != revision.metadata.name);
                let newest =
                    Arc::new(ControllerRevision { revision: number, ..ControllerRevision::clone(&revision) });
                self.revisions.push(newest.clone());
                newest
            }
            Target::Create(number) => {
                let made = Arc::new(revision::new(&self.set, number, 0));
                self.revisions.push(made.clone());
                made
            }
        }
    }

    pub(super) fn plan(&mut self) -> Plan {
        let update = self.aim();
        let current = revision::current(&self.set, &self.revisions, &update);
        let pods: Vec<_> = self.pods.values().cloned().map(Arc::new).collect();
        let find = |name: &str| self.claims.get(name).cloned();
        let look = Look {
            now: World::now(),
            set: &self.set,
            current: &current,
            update: &update,
            collisions: 0,
            pods: &pods,
            claim: &find,
        };
        let plan = plan(&look);
        for expired in revision::expired(&self.set, &self.revisions, [&current, &update], &pods) {
            self.told.push(format!("forget {}", expired.revision));
            self.revisions.retain(|one| one.metadata.name != expired.metadata.name);
        }
        plan
    }

    /// One round: carries out what is planned, and gives what was done in it.
    pub(super) fn round(&mut self) -> Vec<String> {
        let before = self.told.len();
        let plan = self.plan();
        for step in plan.stages.iter().flat_map(|stage| &stage.steps) {
            self.take(step);
        }
        if let Some(status) = plan.status {
            self.set.status = Some(status);
        }
        self.told[before..].to_vec()
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Create { pod, claims } => {
                self.work(claims);
                let mut pod = Pod::clone(pod);
                self.born += 1;
                pod.metadata.uid = Some(format!("pod-{}", self.born));
                pod.status.get_or_insert_default().phase = Some("Pending".into());
                let name = pod.metadata.name.clone().unwrap();
                self.told.push(format!("create {name}"));
                assert!(self.pods.insert(name, pod).is_none());
            }
            Step::Claims { claims, .. } => self.work(claims),
            Step::Update { pod, to, claims } => {
                self.work(claims);
                let name = pod.metadata.name.clone().unwrap();
                self.told.push(format!("update {name}"));
                self.pods.insert(name, Pod::clone(to));
            }
            Step::Delete { pod, .. } => {
                let name = pod.metadata.name.clone().unwrap();
                self.told.push(format!("delete {name}"));
                self.pods.remove(&name);
            }
        }
    }

    fn work(&mut self, work: &Work) {
        for claim in &work.create {
            let name = claim.metadata.name.clone().unwrap();
            self.told.push(format!("claim {name}"));
            assert!(self.claims.insert(name, Arc::new(claim.clone())).is_none());
        }
        for owners in &work.own {
            let name = owners.claim.metadata.name.clone().unwrap();
            let mut claim = PersistentVolumeClaim::clone(&owners.claim);
            claim.metadata.owner_references = Some(owners.references.clone());
            self.told.push(format!("own {name}"));
            self.claims.insert(name, Arc::new(claim));
        }
    }

    /// Has nodes run a pod, ready since a minute.
    pub(super) fn run(&mut self, name: &str) {
        self.set_status(name, "Running", 60);
    }

    pub(super) fn set_status(&mut self, name: &str, phase: &str, ready_since: i64) {
        let since = Timestamp::from_second(NOW - ready_since).unwrap().to_string();
        let ready = if phase == "Running" { "True" } else { "False" };
        let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": since});
        let status = json!({"phase": phase, "conditions": [condition]});
        self.pods.get_mut(name).unwrap().status = Some(serde_json::from_value(status).unwrap());
    }

    /// Tells a pod to go, which it does not yet.
    pub(super) fn condemn(&mut self, name: &str) {
        let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(World::now());
        self.pods.get_mut(name).unwrap().metadata.deletion_timestamp = Some(time);
    }

    /// Rounds with nodes that run everything, until there is nothing to do.
    pub(super) fn settle(&mut self) {
        for _ in 0..100 {
            let done = self.round();
            let names: Vec<String> = self.pods.keys().cloned().collect();
            names.iter().for_each(|name| self.run(name));
            if done.is_empty() && self.plan().status.is_none() {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.told);
    }

    pub(super) fn status(&self) -> StatefulSetStatus {
        self.set.status.clone().unwrap_or_default()
    }

    /// The images that pods have, by name.
    pub(super) fn images(&self) -> Vec<String> {
        let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
        self.pods.iter().map(|(name, pod)| format!("{name}={}", image(pod))).collect()
    }

    /// Kinds and names of the owners of a claim.
    pub(super) fn owners(&self, claim: &str) -> Vec<String> {
        let claim = &self.claims[claim];
        let owners = claim.metadata.owner_references.iter().flatten();
        owners.map(|owner| format!("{} {}", owner.kind, owner.name)).collect()
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
