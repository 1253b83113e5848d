//! A Deployment, its sets and their pods, to which plans are applied and things happen.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::super::conditions;
use super::super::limits::Limits;
use super::super::plan::{Plan, Step, plan};
use super::super::sets::REVISION;

pub(super) struct World {
    pub(super) deployment: Deployment,
    pub(super) sets: Vec<Arc<ReplicaSet>>,
    /// Whether each pod is ready, by the name of its set.
    pub(super) pods: BTreeMap<String, Vec<bool>>,
    /// Pods that were told to end and have not yet, by the name of their set.
    pub(super) ending: BTreeMap<String, usize>,
    pub(super) second: i64,
}

pub(super) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

impl World {
    /// A Deployment of image `v0` that nobody has looked at yet; `extra` goes into its spec.
    pub(super) fn new(replicas: i32, extra: Value) -> World {
        let mut spec = json!({
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("v0"),
            "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
        });
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let metadata = json!({"name": "web", "namespace": "default", "uid": "web", "generation": 1});
        World {
            deployment: serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap(),
            sets: Vec::new(),
            pods: BTreeMap::new(),
            ending: BTreeMap::new(),
            second: 1_800_000_000,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_second(self.second).unwrap()
    }

    /// Changes the spec, as a user does.
    pub(super) fn edit(&mut self, change: Value) {
        let mut object = serde_json::to_value(&self.deployment).unwrap();
        object["spec"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let generation = self.deployment.metadata.generation.unwrap() + 1;
        object["metadata"]["generation"] = generation.into();
        self.deployment = serde_json::from_value(object).unwrap();
    }

    pub(super) fn plan(&self) -> Plan {
        let mut running = BTreeMap::new();
        for set in &self.sets {
            let pods = self.pods.get(&set.name_any()).map_or(0, Vec::len);
            running.insert(set.uid().unwrap(), pods + self.ending.get(&set.name_any()).copied().unwrap_or(0));
        }
        plan(self.now(), &self.deployment, self.sets.clone(), &running)
    }

    /// Does what a plan says, as the server would.
    pub(super) fn apply(&mut self, plan: &Plan) {
        for step in &plan.steps {
            match step {
                Step::Create { set, .. } => {
                    let name = set.name_any();
                    assert!(
                        self.sets.iter().all(|other| other.name_any() != name),
                        "{name} is there already"
                    );
                    let mut set = ReplicaSet::clone(set);
                    set.metadata.uid = Some(name);
                    set.metadata.creation_timestamp = Some(Time(self.now()));
                    set.metadata.generation = Some(1);
                    self.sets.push(Arc::new(set));
                }
                Step::Update(update) => {
                    let place = self.sets.iter().position(|set| *set == update.set);
                    let place = place.expect("a set is changed that is another by now");
                    let set = Arc::make_mut(&mut self.sets[place]);
                    set.annotations_mut().extend(update.annotations.clone());
                    let spec = set.spec.as_mut().unwrap();
                    spec.min_ready_seconds = Some(update.min_ready_seconds);
                    spec.replicas = update.replicas.or(spec.replicas);
                    *set.metadata.generation.as_mut().unwrap() += 1;
                }
                Step::Delete { set, .. } => {
                    assert_eq!(self.pods.get(&set.name_any()).map_or(0, Vec::len), 0, "pods lose their set");
                    self.sets.retain(|other| other != set);
                }
            }
        }
        if let Some(status) = &plan.status {
            self.deployment.status = Some(status.clone());
        }
        if let Some(revision) = &plan.revision {
            self.deployment.annotations_mut().insert(REVISION.into(), revision.clone());
        }
    }

    /// Brings a set's pods to its size, those that are not ready going first, and tells its status.
    pub(super) fn keep(&mut self, place: usize) {
        let name = self.sets[place].name_any();
        let pods = self.pods.entry(name.clone()).or_default();
        let wanted = self.sets[place].spec.as_ref().unwrap().replicas.unwrap() as usize;
        pods.sort_by_key(|ready| !ready);
        *self.ending.entry(name).or_default() += pods.len().saturating_sub(wanted);
        pods.resize(wanted, false);
        self.tell(place);
    }

    /// Tells a set's status as its pods are now.
    pub(super) fn tell(&mut self, place: usize) {
        let name = self.sets[place].name_any();
        let pods = self.pods.get(&name).cloned().unwrap_or_default();
        let ready = pods.iter().filter(|ready| **ready).count() as i32;
        let set = Arc::make_mut(&mut self.sets[place]);
        set.status = Some(ReplicaSetStatus {
            replicas: pods.len() as i32,
            ready_replicas: Some(ready),
            available_replicas: Some(ready),
            terminating_replicas: Some(self.ending.get(&name).copied().unwrap_or(0) as i32),
            observed_generation: set.metadata.generation,
            ..ReplicaSetStatus::default()
        });
    }

    pub(super) fn limits(&self) -> Limits {
        Limits::of(&self.deployment)
    }

    /// The pods that all sets together shall have.
    pub(super) fn total(&self) -> i32 {
        self.sets.iter().map(|set| set.spec.as_ref().unwrap().replicas.unwrap()).sum()
    }

    /// The pods that stay available when every set comes to its size.
    pub(super) fn available(&self) -> i32 {
        let lasting = self.sets.iter().map(|set| {
            let ready = self.pods.get(&set.name_any()).into_iter().flatten().filter(|ready| **ready).count();
            (ready as i32).min(set.spec.as_ref().unwrap().replicas.unwrap())
        });
        lasting.sum()
    }

    /// Applies plans, with all pods becoming ready at once, until nothing is left to do.
    pub(super) fn settle(&mut self) {
        for _ in 0..200 {
            for place in 0..self.sets.len() {
                self.keep(place);
                let name = self.sets[place].name_any();
                self.pods.get_mut(&name).unwrap().fill(true);
                self.ending.clear();
                self.tell(place);
            }
            let plan = self.plan();
            if plan == Plan::default() {
                return;
            }
            self.apply(&plan);
        }
        panic!("no rest: {:#?}", self.plan());
    }

    /// Images and sizes of the sets, the oldest first.
    pub(super) fn sizes(&self) -> String {
        let sizes = self.sets.iter().map(|set| {
            let spec = set.spec.as_ref().unwrap();
            let pod = spec.template.as_ref().unwrap().spec.as_ref().unwrap();
            format!("{}={}", pod.containers[0].image.as_deref().unwrap(), spec.replicas.unwrap())
        });
        sizes.collect::<Vec<_>>().join(" ")
    }

    /// The reason of a condition.
    pub(super) fn reason(&self, type_: &str) -> &str {
        self.deployment
            .status
            .as_ref()
            .and_then(|status| conditions::reason(status, type_))
            .unwrap_or_default()
    }
}
