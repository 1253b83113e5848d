//! A model of a federation: clusters that roll their pods as a Deployment controller does, and the shell around the
//! decision, with looks that may be stale.

use std::collections::BTreeMap;

use koinon_api::preferences::{ClusterPreference, Preferences, ScaleDown};
use koinon_workloads::planner::{self, Candidate, Observed, Workload};
use koinon_workloads::rollout::{
    Desired, Local, Member, Plan, Reach, Shadow, Template, Unfinished, View, check, plan,
};

use crate::build::{at, desired};

/// Ticks after which a pod without a node counts as stuck, and a Deployment without progress as failed.
const PATIENCE: u32 = 3;

#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) reach: Option<Reach>,
    pub(crate) room: Option<i64>,
    deployment: Option<Deployment>,
}

#[derive(Debug, Clone)]
struct Deployment {
    template: String,
    replicas: i64,
    max_unavailable: Option<i64>,
    paused: bool,
    generation: i64,
    observed: i64,
    pods: Vec<Pod>,
    without_progress: u32,
}

#[derive(Debug, Clone)]
struct Pod {
    template: String,
    available: bool,
    without_node: u32,
}

impl Cluster {
    /// One step of the cluster's own controllers.
    fn tick(&mut self) {
        let room = self.room.unwrap_or(i64::MAX);
        let Some(deployment) = &mut self.deployment else { return };
        deployment.observed = deployment.generation;
        let before = deployment.pods.iter().filter(|pod| pod.is_new(deployment)).count();
        deployment.replace();
        let mut running = deployment.pods.iter().filter(|pod| pod.available).count();
        for pod in deployment.pods.iter_mut().filter(|pod| !pod.available) {
            if i64::try_from(running).unwrap() >= room {
                pod.without_node += 1;
            } else {
                pod.without_node = 0;
                // A broken template gets a node and nothing else.
                pod.available = !pod.template.starts_with("broken");
                running += 1;
            }
        }
        let finished = deployment.is_finished();
        let after = deployment.pods.iter().filter(|pod| pod.is_new(deployment)).count();
        let moved = finished || after != before || deployment.paused;
        deployment.without_progress = if moved { 0 } else { deployment.without_progress + 1 };
    }

    fn local(&self) -> Option<Local> {
        let deployment = self.deployment.as_ref()?;
        let count = |which: &dyn Fn(&&Pod) -> bool| {
            i64::try_from(deployment.pods.iter().filter(which).count()).unwrap()
        };
        let available = count(&|pod| pod.available);
        Some(Local {
            template: Some(deployment.template.clone()),
            generation: deployment.generation,
            observed_generation: deployment.observed,
            unobserved_since: None,
            spec_replicas: deployment.replicas,
            replicas: count(&|_| true),
            updated: count(&|pod| pod.is_new(deployment)),
            ready: available,
            available,
            unschedulable: count(&|pod| pod.without_node >= PATIENCE),
            missing: 0,
            progress_failed: (deployment.without_progress > 2 * PATIENCE)
                .then(|| "no progress in the model".to_owned()),
            failing: None,
        })
    }

    pub(crate) fn template(&self) -> Option<&str> {
        self.deployment.as_ref().map(|deployment| deployment.template.as_str())
    }

    pub(crate) fn available(&self) -> i64 {
        self.local().map_or(0, |local| local.available)
    }
}

impl Deployment {
    /// One pod more of the new template, and old ones away as long as enough are available.
    fn replace(&mut self) {
        let asked = usize::try_from(self.replicas).unwrap();
        // Scaling takes those first that do not run.
        while self.pods.len() > asked + 1 {
            let at = self.pods.iter().position(|pod| !pod.available).unwrap_or(0);
            self.pods.remove(at);
        }
        let old = self.pods.iter().any(|pod| !pod.is_new(self));
        if self.paused && old {
            return;
        }
        let most = if old { asked + 1 } else { asked };
        while self.pods.len() < most {
            self.pods.push(Pod { template: self.template.clone(), available: false, without_node: 0 });
        }
        let spare = self.max_unavailable.map_or(asked / 4, |spare| usize::try_from(spare).unwrap());
        let least = asked.saturating_sub(spare);
        loop {
            let old = |available: bool| {
                self.pods.iter().position(|pod| !pod.is_new(self) && pod.available == available)
            };
            let Some(at) = old(false).or_else(|| old(true)) else { break };
            let available = self.pods.iter().filter(|pod| pod.available).count();
            if self.pods[at].available && available <= least && asked > 0 {
                break;
            }
            self.pods.remove(at);
        }
        while self.pods.len() > asked && self.pods.iter().all(|pod| pod.is_new(self)) {
            let at = self.pods.iter().position(|pod| !pod.available).unwrap_or(0);
            self.pods.remove(at);
        }
        while self.pods.len() < asked {
            self.pods.push(Pod { template: self.template.clone(), available: false, without_node: 0 });
        }
    }

    fn is_finished(&self) -> bool {
        self.pods.iter().all(|pod| pod.is_new(self) && (pod.available || pod.without_node > 0))
    }
}

impl Pod {
    fn is_new(&self, deployment: &Deployment) -> bool {
        self.template == deployment.template
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Federation {
    pub(crate) desired: Desired,
    pub(crate) clusters: BTreeMap<String, Cluster>,
    pub(crate) second: u64,
    rebalance: bool,
    kept: View,
}

impl Federation {
    pub(crate) fn new(clusters: &[&str], replicas: i64, rebalance: bool) -> Self {
        Federation {
            desired: desired("v1", replicas),
            clusters: clusters.iter().map(|name| ((*name).to_owned(), Cluster::default())).collect(),
            second: 0,
            rebalance,
            kept: View::default(),
        }
    }

    /// What the shell sees: members as they are now, the record and shadows as last written.
    fn look(&self) -> View {
        let reach = |cluster: &Cluster| cluster.reach.unwrap_or(Reach::Online);
        let candidates: BTreeMap<String, Candidate> = self
            .clusters
            .iter()
            .filter(|(_, cluster)| reach(cluster) != Reach::Offline)
            .map(|(name, cluster)| (name.clone(), self.candidate(name, cluster)))
            .collect();
        let any = ClusterPreference { weight: 1, ..ClusterPreference::default() };
        let preferences = Preferences {
            rebalance: self.rebalance,
            scale_down: ScaleDown::Weighted,
            clusters: BTreeMap::from([("*".to_owned(), any)]),
        };
        let workload =
            Workload { key: "default/web", replicas: self.desired.replicas, preferences: &preferences };
        let mut shares = planner::plan(&workload, &candidates).clusters;
        let mut view = self.kept.clone();
        view.members = self
            .clusters
            .iter()
            .map(|(name, cluster)| {
                let member = Member {
                    reach: reach(cluster),
                    share: shares.remove(name),
                    local: cluster.local(),
                    refused: None,
                };
                (name.clone(), member)
            })
            .collect();
        view
    }

    /// What is seen of a cluster, within the room that is remembered.
    fn candidate(&self, name: &str, cluster: &Cluster) -> Candidate {
        let remembered = self.kept.record.clusters.get(name).and_then(|started| started.room);
        let seen = candidate(cluster);
        Candidate { capacity: seen.capacity.into_iter().chain(remembered).min(), ..seen }
    }

    pub(crate) fn decide(&self) -> (View, Plan) {
        let view = self.look();
        let plan = plan(at(self.second), &self.desired, &view);
        let violations = check(&self.desired, &view, &plan);
        assert!(violations.is_empty(), "{violations:?}\n{view:#?}\n{plan:#?}");
        (view, plan)
    }

    /// Decides, writes, and lets every cluster that runs take a step. Says whether anything was written.
    pub(crate) fn round(&mut self) -> bool {
        let (_, plan) = self.decide();
        let mut written = plan.record != self.kept.record;
        self.kept.record = plan.record;
        self.kept.shadows = plan
            .shadows
            .wanted
            .into_iter()
            .map(|shadow| Shadow { name: shadow.name, template: shadow.template, revision: shadow.revision })
            .collect();
        for (name, step) in plan.steps {
            let cluster = self.clusters.get_mut(&name).unwrap();
            let template = match (step.template, &cluster.deployment) {
                (Template::Wanted, _) => self.desired.template.clone(),
                (Template::Revision(hash), _) => hash,
                (Template::AsItIs, Some(deployment)) => deployment.template.clone(),
                (Template::AsItIs, None) => panic!("{name} has nothing to leave as it is"),
            };
            let replicas = step.replicas.expect("the federation counts");
            written |= cluster.write(template, replicas, step.max_unavailable, step.paused);
        }
        for cluster in self.clusters.values_mut() {
            cluster.tick();
        }
        self.second += 5;
        written
    }

    /// How many clusters have pods of two templates.
    pub(crate) fn mixed(&self) -> usize {
        let mixed = |cluster: &&Cluster| {
            cluster.deployment.as_ref().is_some_and(|deployment| {
                let new = deployment.pods.iter().filter(|pod| pod.is_new(deployment)).count();
                new > 0 && new < deployment.pods.len()
            })
        };
        self.clusters.values().filter(mixed).count()
    }
}

impl Cluster {
    fn write(&mut self, template: String, replicas: i64, max_unavailable: Option<i64>, paused: bool) -> bool {
        let deployment = self.deployment.get_or_insert_with(|| Deployment {
            template: template.clone(),
            replicas: -1,
            max_unavailable,
            paused,
            generation: 0,
            observed: 0,
            pods: Vec::new(),
            without_progress: 0,
        });
        let has = (&deployment.template, deployment.replicas, deployment.max_unavailable, deployment.paused);
        if has == (&template, replicas, max_unavailable, paused) {
            return false;
        }
        if deployment.template != template {
            deployment.without_progress = 0;
        }
        deployment.template = template;
        deployment.replicas = replicas;
        deployment.max_unavailable = max_unavailable;
        deployment.paused = paused;
        deployment.generation += 1;
        true
    }
}

fn candidate(cluster: &Cluster) -> Candidate {
    let Some(local) = cluster.local() else { return Candidate::default() };
    let observed = Observed {
        spec_replicas: local.spec_replicas,
        pods: local.replicas,
        unschedulable: local.unschedulable,
        missing: 0,
    };
    observed.candidate()
}

/// What `kubectl rollout status` asks of a Deployment to call it rolled out.
pub(crate) fn rolled_out(desired: &Desired, plan: &Plan) -> bool {
    let status = &plan.status;
    status.observed_generation >= desired.generation
        && status.updated >= desired.replicas
        && status.replicas <= status.updated
        && status.available >= status.updated
}

/// What is still missing anywhere, in words.
pub(crate) fn lacks(plan: &Plan) -> Vec<String> {
    let words = |lacks: &Unfinished| lacks.to_string();
    plan.waiting
        .iter()
        .map(|waiting| match waiting {
            koinon_workloads::rollout::WaitingOn::Cluster { cluster, lacks } => {
                format!("{cluster}: {}", words(lacks))
            }
            other => other.to_string(),
        })
        .collect()
}
