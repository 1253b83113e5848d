//! The reconcilers of one led member: federated Services, Services of machines, imports, and conditions of members, over one
//! queue and one context.

use std::convert::Infallible;
use std::sync::Arc;

use koinon_control::queue::{Next, work};
use koinon_fleet::ClusterId;

use super::context::Context;
use super::federated::FederatedServices;
use super::imports::Imports;
use super::inbox::Job;
use super::machines::Machines;
use super::member_conditions::MemberConditions;
use crate::services::metrics::Metrics;

/// So many keys are worked on at a time.
const AT_ONCE: usize = 8;

pub(super) struct Reconcilers {
    cx: Arc<Context>,
    federated: FederatedServices,
    machines: Arc<Machines>,
    imports: Imports,
    members: Arc<MemberConditions>,
}

impl Reconcilers {
    pub(super) fn new(cx: Arc<Context>) -> Reconcilers {
        let machines = Arc::new(Machines::new(cx.clone()));
        let members = Arc::new(MemberConditions::new(cx.clone()));
        let federated = FederatedServices::new(cx.clone(), machines.clone(), members.clone());
        Reconcilers { imports: Imports::new(cx.clone()), federated, machines, members, cx }
    }

    /// Works for as long as it is polled.
    pub(super) async fn run(self) -> Infallible {
        let cx = &self.cx;
        let _forgets = Forgets { metrics: &cx.metrics, member: cx.here() };
        cx.sources.subscribers.open(&cx.inbox);
        cx.inbox.add(Job::All);
        tokio::select! {
            biased;
            never = cx.slices.follow(&cx.leader) => never,
            never = self.machines.follow() => never,
            never = self.imports.follow() => never,
            never = self.hear_of_members() => never,
            never = work(&cx.inbox.queue, AT_ONCE, |job| self.handle(job)) => never,
        }
    }

    /// A member that comes, goes or changes its health concerns everything.
    async fn hear_of_members(&self) -> Infallible {
        let mut changes = self.cx.leader.fleet.changes();
        let mut known = Vec::new();
        loop {
            changes.borrow_and_update();
            let members = self.cx.leader.fleet.members();
            let now: Vec<_> = members.iter().map(|one| (one.name().clone(), one.state().phase)).collect();
            if now != known {
                known = now;
                self.cx.sources.subscribers.snapshots.forget_all();
                self.cx.inbox.add(Job::All);
            }
            if changes.changed().await.is_err() {
                // The fleet is ours, so its sender is there.
                std::future::pending::<()>().await;
            }
        }
    }

    async fn handle(&self, job: Job) -> Next {
        let inbox = &self.cx.inbox;
        match job {
            Job::All => {
                self.federated.measure();
                self.federated.all().into_iter().for_each(|key| inbox.add(Job::Federated(key)));
                self.machines.all().into_iter().for_each(|key| inbox.add(Job::Machines(key)));
                inbox.add(Job::Imports);
                self.members.flawed().into_iter().for_each(|source| inbox.add(Job::Member(source)));
                Next::Done
            }
            Job::Imports => {
                self.imports.all().into_iter().for_each(|key| inbox.add(Job::Import(key)));
                Next::Done
            }
            Job::Derived(key) => {
                self.imports.of_derived(&key).into_iter().for_each(|key| inbox.add(Job::Import(key)));
                Next::Done
            }
            Job::Member(source) => self.members.reconcile(&source, &self.machines).await,
            Job::Machines(key) => self.machines.reconcile(&key).await,
            Job::Import(key) => self.imports.reconcile(&key).await,
            Job::Federated(key) => self.federated.reconcile(&key).await,
        }
    }
}

/// Forgets the member's metrics when its lead ends.
struct Forgets<'a> {
    metrics: &'a Metrics,
    member: &'a ClusterId,
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        self.metrics.forget(self.member.as_str());
    }
}
