//! One look at one object: ask the server, decide, act.

use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::graph::{Graph, Identity, Item, Job, Owner};
use super::live::{Error, Found};
use super::names::Uid;
use super::plan::{self, Decision, Standing, Wait};
use super::{Collector, report};
use koinon_control::queue::Next;

/// Dependents of one owner that are let go at the same time.
const RELEASES: usize = 8;

impl Collector {
    pub(super) async fn handle(self: Arc<Self>, job: Job) -> Next {
        let result = match &job {
            Job::Collect(uid) | Job::CollectLater(uid) => self.collect(uid).await,
            Job::Orphan(uid) => self.clone().orphan(uid.clone()).await,
            Job::ReportForeign { dependent, owner } => report::foreign_owner(&self, dependent, owner).await,
        };
        match result {
            Ok(next) => next,
            // Trying again would not help: only a change of the object does, and that is a new job.
            Err(Error::OwnerInNamespace) => Next::Done,
            Err(error) => {
                tracing::debug!(?job, %error, "garbage: will try again");
                Next::Retry
            }
        }
    }

    async fn collect(&self, uid: &Uid) -> Result<Next, Error> {
        let Some(item) = self.graph.lock().item(uid) else { return Ok(Next::Done) };
        // What is being deleted goes by itself, once its finalizers are done.
        if item.deletion.started && !item.deletion.foreground {
            return Ok(Next::Done);
        }
        match self.find(&item).await? {
            Found::Absent(identity) => {
                self.change(|graph| graph.absent(&identity));
                return Ok(Next::Done);
            }
            Found::Here(_) if item.deletion.foreground => self.finish_foreground(&item).await?,
            Found::Here(object) => self.follow_owners(&item, &object).await?,
        }
        // A virtual node that exists is asked for until a watch shows it: it may go in between, unseen.
        Ok(if item.observed || self.is_observed(uid) { Next::Done } else { Next::Retry })
    }

    fn is_observed(&self, uid: &Uid) -> bool {
        self.graph.lock().item(uid).is_none_or(|item| item.observed)
    }

    /// Asks for an object. Where its kind is served no longer, a deletion that the watch reported is believed.
    async fn find(&self, item: &Item) -> Result<Found, Error> {
        match self.live.find(&item.identity).await {
            Err(Error::NotServed { .. }) if item.reported_deleted => Ok(Found::Absent(item.identity.clone())),
            other => other,
        }
    }

    async fn finish_foreground(&self, item: &Item) -> Result<(), Error> {
        let dependents = self.graph.lock().dependents(&item.identity.uid);
        match plan::wait(&dependents) {
            Wait::Over => self.live.remove_finalizer(&item.identity, plan::FOREGROUND).await,
            Wait::For(blocking) => {
                for uid in blocking {
                    self.queue.add(Job::Collect(uid));
                }
                Ok(())
            }
        }
    }

    async fn follow_owners(&self, item: &Item, object: &ObjectMeta) -> Result<(), Error> {
        let identity = &item.identity;
        let mut standings = Vec::new();
        for reference in object.owner_references.iter().flatten() {
            let owner = self.graph.lock().owner(reference);
            standings.push((reference.uid.clone(), self.standing(&owner, identity).await?));
        }
        let dependents = self.graph.lock().dependents(&identity.uid);
        match plan::decide(object, &standings, &dependents) {
            Decision::Keep => Ok(()),
            Decision::Release(owners) => self.release(identity, &owners).await,
            Decision::Delete { propagation, unblock } => {
                tracing::debug!(?identity, ?propagation, "garbage: deleting");
                if unblock {
                    self.live.patch(identity, plan::unblock_patch(object), plan::unblock_merge_patch).await?;
                    // The patch changed the object, so what was seen of it no longer holds.
                    let Found::Here(now) = self.live.find(identity).await? else { return Ok(()) };
                    return self.live.delete(identity, &now, propagation).await;
                }
                self.live.delete(identity, object, propagation).await
            }
        }
    }

    async fn standing(&self, owner: &Owner, dependent: &Identity) -> Result<Standing, Error> {
        let (known_absent, reported) = {
            let graph = self.graph.lock();
            (graph.is_known_absent(owner, &dependent.namespace), graph.is_reported_deleted(&owner.uid))
        };
        if known_absent {
            return Ok(Standing::Dangling);
        }
        let identity = Identity {
            kind: owner.kind.clone(),
            namespace: dependent.namespace.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        };
        match self.live.find(&identity).await {
            Ok(Found::Here(owner)) => Ok(plan::standing(&owner)),
            Ok(Found::Absent(_)) => Ok(Standing::Dangling),
            Err(Error::NotServed { .. }) if reported => Ok(Standing::Dangling),
            Err(error) => Err(error),
        }
    }

    async fn release(&self, identity: &Identity, owners: &[String]) -> Result<(), Error> {
        let strategic = plan::release_patch(&identity.uid.to_string(), owners);
        self.live.patch(identity, strategic, |now| plan::release_merge_patch(now, owners)).await
    }

    async fn orphan(self: Arc<Self>, uid: Uid) -> Result<Next, Error> {
        let Some(item) = self.graph.lock().item(&uid) else { return Ok(Next::Done) };
        if !item.deletion.orphan {
            return Ok(Next::Done);
        }
        // A dependent of a kind that is not listed yet would be collected later instead of let go.
        if !self.knows_all() {
            return Ok(Next::Retry);
        }
        let dependents = self.graph.lock().dependents(&uid);
        let mut releases = futures::stream::iter(dependents)
            .map(|dependent| {
                let (collector, owners) = (self.clone(), [uid.to_string()]);
                async move { collector.release(&dependent.identity, &owners).await }
            })
            .buffer_unordered(RELEASES);
        let mut failure = None;
        while let Some(result) = releases.next().await {
            failure = failure.or_else(|| result.err());
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.live.remove_finalizer(&item.identity, plan::ORPHAN).await?;
        Ok(Next::Done)
    }

    /// Changes the graph and queues what follows from it.
    pub(super) fn change(&self, change: impl FnOnce(&mut Graph) -> Vec<Job>) {
        let jobs = change(&mut self.graph.lock());
        for job in jobs {
            match job {
                Job::CollectLater(uid) => self.queue.add_after_failure(Job::Collect(uid)),
                job => self.queue.add(job),
            }
        }
    }
}
