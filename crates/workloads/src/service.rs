//! The role as a whole: what it follows, and who works on what.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use koinon_control::events::{self, Writer};
use koinon_control::queue::{Queue, work};
use koinon_control::{Clock, Key, View};
use koinon_fleet::{ClusterId, Fleet, Phase};
use kube::{Api, Client};

use crate::deletion::Deletions;
use crate::hub::{Hub, Job, Options};
use crate::members::{Change, Kind, Members};
use crate::replicasets;
use crate::writing::Ledger;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// News of members come in swarms; a swarm is looked at once.
const SWARM: Duration = Duration::from_millis(100);
/// So many workloads are worked on at once; no member gets more calls at once than that.
const AT_ONCE: usize = 16;

/// Federated ReplicaSets and Deployments over a fleet.
pub struct Workloads {
    hub: Arc<Hub>,
    sets: Arc<View<ReplicaSet>>,
    replica_sets: replicasets::Controller,
    events: Writer,
}

impl Workloads {
    /// The role beside the federation's API server behind `federation`. The fleet must be the federation's members already:
    /// who is not in it is no member.
    pub fn new(options: Options, federation: Client, fleet: Arc<Fleet>, clock: Clock) -> Workloads {
        let queue: Arc<Queue<Job>> = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
        let ledger = Arc::new(Ledger::default());
        let deletions = Deletions::new(federation.clone(), fleet.clone(), ledger.clone());
        let sets = View::<ReplicaSet>::new();
        let (jobs, going) = (queue.clone(), deletions.clone());
        sets.on_change(move |before, after| {
            if let Some(set) = after.filter(|set| replicasets::is_federated(set)) {
                going.see(Kind::ReplicaSet, &set.metadata);
            }
            if let Some(set) = after.or(before) {
                jobs.add((Kind::ReplicaSet, Key::of(&**set)));
            }
        });
        let (recorder, events) = events::recorder(federation.clone(), "koinon", clock.clone());
        let (jobs, known) = (queue.clone(), sets.clone());
        let members = Members::new(fleet, move |change| match change {
            Change::Workload(kind, key) => {
                if known.get(key).is_some() {
                    jobs.add_after((kind, key.clone()), SWARM);
                }
            }
            Change::Knowledge => all(&known).for_each(|job| jobs.add_after(job, SWARM)),
        });
        let hub = Arc::new(Hub { options, federation, clock, recorder, members, ledger, queue, deletions });
        let replica_sets = replicasets::Controller::new(hub.clone(), sets.clone());
        Workloads { hub, sets, replica_sets, events }
    }

    /// Works until `shutdown` is ready.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Workloads { hub, sets, replica_sets, events } = self;
        tokio::select! {
            () = shutdown => {}
            never = hub.members.follow() => match never {},
            never = sets.follow(Api::all(hub.federation.clone())) => match never {},
            never = hear_of_members(&hub, &sets) => match never {},
            never = work_on(&hub, &sets, &replica_sets) => match never {},
            never = delete(&hub, &sets) => match never {},
            () = events.run() => {}
        }
    }
}

async fn work_on(hub: &Hub, sets: &View<ReplicaSet>, replica_sets: &replicasets::Controller) -> Infallible {
    // What was not listed yet is unknown: nothing is decided on half a list.
    sets.listed().await;
    work(&hub.queue, AT_ONCE, |(kind, key)| async move {
        match kind {
            Kind::ReplicaSet => replica_sets.reconcile(&key).await,
            Kind::Deployment => koinon_control::queue::Next::Done,
        }
    })
    .await
}

/// A member that comes, goes or changes its health concerns every workload, at once.
async fn hear_of_members(hub: &Hub, sets: &View<ReplicaSet>) -> Infallible {
    let mut changes = hub.members.fleet.changes();
    let mut known: Vec<(ClusterId, Phase)> = Vec::new();
    loop {
        changes.borrow_and_update();
        let members = hub.members.fleet.members();
        let now: Vec<_> = members.iter().map(|one| (one.name().clone(), one.state().phase)).collect();
        if now != known {
            known = now;
            all(sets).for_each(|job| hub.queue.add(job));
        }
        if changes.changed().await.is_err() {
            // The fleet is ours, so its sender is there.
            std::future::pending::<()>().await;
        }
    }
}

async fn delete(hub: &Hub, sets: &View<ReplicaSet>) -> Infallible {
    // Before that, an object that was made again would look like none.
    sets.listed().await;
    hub.deletions.run(|kind, key| is_there(sets, kind, key)).await
}

/// Whether the federation has such an object, and it is there to stay.
fn is_there(sets: &View<ReplicaSet>, kind: Kind, key: &Key) -> bool {
    match kind {
        Kind::ReplicaSet => sets.get(key).is_some_and(|set| set.metadata.deletion_timestamp.is_none()),
        Kind::Deployment => false,
    }
}

fn all(sets: &View<ReplicaSet>) -> impl Iterator<Item = Job> {
    sets.all().into_iter().map(|set| (Kind::ReplicaSet, Key::of(&*set)))
}
