//! The workloads role as a whole: its watches, its queue and its controllers.

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Namespace;
use koinon_api::names::workloads;
use koinon_control::events::{self, Writer};
use koinon_control::queue::{Queue, work};
use koinon_control::{Clock, Key, View};
use koinon_fleet::{ClusterId, Fleet, Phase};
use kube::{Api, Client, ResourceExt as _};

use crate::deletion::{Deletions, Known};
use crate::hub::{Hub, Job, Options};
use crate::members::{Change, Kind, Members};
use crate::metrics::{Memory, Metrics};
use crate::writing::WriteHistory;
use crate::{deployments, replicasets};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// News of members come in swarms; a swarm is looked at once.
const COALESCE_FOR: Duration = Duration::from_millis(100);
/// About what a look at a workload over a hundred members takes.
const EACH_LOOK: Duration = Duration::from_millis(1);
/// However many there are, nobody waits longer for a look.
const COALESCE_AT_MOST: Duration = Duration::from_secs(2);
/// So many workloads are worked on at once; no member gets more calls at once than that.
const AT_ONCE: usize = 16;

/// Federated ReplicaSets and Deployments over a fleet.
pub struct Workloads {
    hub: Arc<Hub>,
    federated: Federated,
    replica_sets: replicasets::Controller,
    deployments: deployments::Controller,
    events: Writer,
}

/// The federation's own objects.
#[derive(Clone)]
struct Federated {
    sets: Arc<View<ReplicaSet>>,
    deployments: Arc<View<Deployment>>,
    namespaces: Arc<View<Namespace>>,
}

impl Workloads {
    /// The role beside the federation's API server behind `federation`. The fleet must be the federation's members already:
    /// who is not in it is no member.
    pub fn new(
        options: Options,
        federation: Client,
        fleet: Arc<Fleet>,
        clock: Clock,
        metrics: Metrics,
    ) -> Workloads {
        let queue: Arc<Queue<Job>> = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
        fleet.metrics().queue("workloads", &queue, |queue| queue.waiting());
        let history = Arc::new(WriteHistory::new(options.retry_refused));
        let jobs = queue.clone();
        let deletions =
            Deletions::new(federation.clone(), fleet.clone(), history.clone(), move |kind, key| {
                jobs.add((kind, key))
            });
        let federated = Federated::new(&queue, &deletions);
        let (recorder, events) = events::recorder(federation.clone(), "koinon", clock.clone());
        let recorder = recorder.logged();
        let (jobs, known) = (queue.clone(), federated.clone());
        let members = Members::new(fleet, move |change| match change {
            Change::Workload(kind, key) => {
                if known.has(kind, key) {
                    jobs.add_after((kind, key.clone()), COALESCE_FOR);
                }
            }
            Change::Knowledge => known.look_at_all_again(&jobs),
        });
        let hub = Arc::new(Hub {
            options,
            federation,
            namespaces: federated.namespaces.clone(),
            clock,
            recorder,
            members,
            history,
            queue,
            deletions,
            metrics,
        });
        let replica_sets = replicasets::Controller::new(hub.clone(), federated.sets.clone());
        let deployments =
            deployments::Controller::new(hub.clone(), federated.deployments.clone(), federated.sets.clone());
        Workloads { hub, federated, replica_sets, deployments, events }
    }

    /// Works until `shutdown` is ready.
    pub fn run<'a>(self, shutdown: impl Future<Output = ()> + Send + 'a) -> BoxFuture<'a, ()> {
        // Boxed here: then all of it is compiled once, with this crate, and not with every program that polls it.
        self.run_until(Box::pin(shutdown))
    }

    fn run_until<'a>(self, shutdown: BoxFuture<'a, ()>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Workloads { hub, federated, replica_sets, deployments, events } = self;
            let history = hub.history.clone();
            let history = &history;
            let handle = |(kind, key): Job| {
                let (replica_sets, deployments, metrics) = (&replica_sets, &deployments, &hub.metrics);
                async move {
                    let next = match kind {
                        Kind::ReplicaSet => replica_sets.reconcile(&key).await,
                        Kind::Deployment => deployments.reconcile(&key).await,
                    };
                    metrics.checked(kind, next);
                    tell_remembered(metrics, history, replica_sets, deployments);
                    next
                }
            };
            let all_work = async {
                // What was not listed yet is unknown: nothing is decided, and nothing deleted, on half a list.
                federated.listed().await;
                hub.deletions.anchors_listed().await;
                tokio::select! {
                    biased;
                    never = work(&hub.queue, AT_ONCE, handle) => never,
                    never = hub.deletions.run(|kind, key| federated.known(kind, key)) => never,
                }
            };
            tokio::select! {
                biased;
                () = shutdown => {}
                never = hub.members.follow() => match never {},
                never = federated.follow(&hub.federation) => match never {},
                never = hub.deletions.follow_anchors() => match never {},
                never = hear_of_members(&hub, &federated) => match never {},
                never = all_work => match never {},
                () = events.run() => {}
            }
        })
    }
}

impl Federated {
    fn new(queue: &Arc<Queue<Job>>, deletions: &Arc<Deletions>) -> Federated {
        let (sets, deployments) = (View::<ReplicaSet>::new(), View::<Deployment>::new());
        let (jobs, going) = (queue.clone(), deletions.clone());
        sets.on_change(move |before, after| {
            if let Some(set) = after.filter(|set| replicasets::is_federated(set)) {
                going.see(Kind::ReplicaSet, &set.metadata);
            }
            let Some(set) = after.or(before) else { return };
            jobs.add((Kind::ReplicaSet, Key::of(&**set)));
            // A shadow that is edited or deleted is its Deployment's concern, also where somebody takes its owner away.
            for shadow in after.into_iter().chain(before) {
                if shadow.annotations().contains_key(workloads::SHADOW) {
                    let owner = shadow.owner_references().iter().find(|owner| owner.kind == "Deployment");
                    let namespace = shadow.namespace().unwrap_or_default();
                    jobs_for(owner.map(|owner| Key::new(namespace, owner.name.as_str())), &jobs);
                }
            }
        });
        let (jobs, going) = (queue.clone(), deletions.clone());
        deployments.on_change(move |before, after| {
            if let Some(deployment) = after {
                going.see(Kind::Deployment, &deployment.metadata);
            }
            if let Some(deployment) = after.or(before) {
                jobs.add((Kind::Deployment, Key::of(&**deployment)));
            }
        });
        let federated = Federated { sets, deployments, namespaces: View::<Namespace>::new() };
        federated.hear_of_namespaces(queue);
        federated
    }

    /// What a namespace says concerns every workload in it.
    fn hear_of_namespaces(&self, queue: &Arc<Queue<Job>>) {
        let (jobs, sets, deployments) = (queue.clone(), self.sets.clone(), self.deployments.clone());
        self.namespaces.on_change(move |before, after| {
            let labels = |one: Option<&Arc<Namespace>>| one.map(|one| one.labels().clone());
            let Some(namespace) = after.filter(|_| labels(before) != labels(after)) else { return };
            let name = namespace.name_any();
            for set in sets.in_namespace(&name) {
                jobs.add_after((Kind::ReplicaSet, Key::of(&*set)), COALESCE_FOR);
            }
            for deployment in deployments.in_namespace(&name) {
                jobs.add_after((Kind::Deployment, Key::of(&*deployment)), COALESCE_FOR);
            }
        });
    }

    async fn listed(&self) {
        self.sets.listed().await;
        self.deployments.listed().await;
        self.namespaces.listed().await;
    }

    async fn follow(&self, client: &Client) -> Infallible {
        tokio::select! {
            biased;
            never = self.sets.follow(Api::all(client.clone())) => never,
            never = self.deployments.follow(Api::all(client.clone())) => never,
            never = self.namespaces.follow(Api::all(client.clone())) => never,
        }
    }

    fn has(&self, kind: Kind, key: &Key) -> bool {
        match kind {
            Kind::ReplicaSet => self.sets.get(key).is_some(),
            Kind::Deployment => self.deployments.get(key).is_some(),
        }
    }

    fn known(&self, kind: Kind, key: &Key) -> Option<Known> {
        match kind {
            Kind::ReplicaSet => self.sets.get(key).map(|one| Known::of(&one.metadata)),
            Kind::Deployment => self.deployments.get(key).map(|one| Known::of(&one.metadata)),
        }
    }

    /// Has every workload looked at. At a start a hundred members come within a second, each with news for all: the more there is
    /// to look at, the longer news is collected before, about as long as the look itself takes.
    fn look_at_all_again(&self, queue: &Queue<Job>) {
        let jobs: Vec<Job> = self.jobs().collect();
        let each = EACH_LOOK.saturating_mul(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
        let pause = COALESCE_FOR.saturating_add(each).min(COALESCE_AT_MOST);
        jobs.into_iter().for_each(|job| queue.add_after(job, pause));
    }

    fn jobs(&self) -> impl Iterator<Item = Job> {
        let sets = self.sets.all().into_iter().map(|set| (Kind::ReplicaSet, Key::of(&*set)));
        let deployments = self.deployments.all().into_iter();
        sets.chain(deployments.map(|deployment| (Kind::Deployment, Key::of(&*deployment))))
    }
}

/// Shows how much is remembered of workloads.
fn tell_remembered(
    metrics: &Metrics,
    history: &WriteHistory,
    replica_sets: &replicasets::Controller,
    deployments: &deployments::Controller,
) {
    let mut sums: BTreeMap<Memory, usize> = BTreeMap::new();
    let all = deployments.remembered().into_iter().chain(replica_sets.remembered());
    for (what, entries) in all.chain([(Memory::Writes, history.len())]) {
        *sums.entry(what).or_default() += entries;
    }
    for (what, entries) in sums {
        metrics.remembers(what, entries);
    }
}

fn jobs_for(deployment: Option<Key>, queue: &Queue<Job>) {
    if let Some(key) = deployment {
        queue.add_after((Kind::Deployment, key), COALESCE_FOR);
    }
}

/// A member that comes, goes or changes its health concerns every workload.
async fn hear_of_members(hub: &Hub, federated: &Federated) -> Infallible {
    let mut changes = hub.members.fleet.changes();
    let mut known: Vec<(ClusterId, Phase)> = Vec::new();
    loop {
        changes.borrow_and_update();
        let members = hub.members.fleet.members();
        let now: Vec<_> = members.iter().map(|one| (one.name().clone(), one.state().phase)).collect();
        if now != known {
            known = now;
            federated.look_at_all_again(&hub.queue);
        }
        if changes.changed().await.is_err() {
            // The fleet is ours, so its sender is there.
            std::future::pending::<()>().await;
        }
    }
}
