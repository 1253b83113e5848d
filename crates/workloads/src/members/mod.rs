//! What is known of the members: their objects in counts, and the pods there that wait for a node.

mod deployment;
pub(crate) mod records;
mod waiting;

use std::convert::Infallible;
use std::sync::Arc;

use koinon_api::names::{MANAGED_BY, MANAGER};
use koinon_control::Key;
use koinon_fleet::{Fleet, Index, Knowledge, Member, News, Phase, Record, Selection};

pub(crate) use self::deployment::DeploymentRecord;
pub(crate) use self::records::{Kind, SetRecord};
use self::waiting::{Told, Waiting};
use crate::rollout::Reach;

/// What changed in the members.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    /// Something of one workload.
    Workload(Kind, &'a Key),
    /// How much is known of somebody: that concerns every workload.
    Knowledge,
}

/// All members, and what they have.
pub(crate) struct Members {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) sets: Arc<Index<SetRecord>>,
    pub(crate) deployments: Arc<Index<DeploymentRecord>>,
    pub(crate) waiting: Waiting,
}

impl Members {
    /// Calls `told` with every change. It must not block.
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        told: impl Fn(Change<'_>) + Clone + Send + Sync + 'static,
    ) -> Members {
        let pods = told.clone();
        Members {
            fleet,
            sets: heard(Kind::ReplicaSet, told.clone()),
            deployments: heard(Kind::Deployment, told),
            waiting: Waiting::new(move |what| {
                pods(match what {
                    Told::Workload(kind, key) => Change::Workload(kind, key),
                    Told::Knowledge => Change::Knowledge,
                });
            }),
        }
    }

    /// Follows the members for as long as it is polled: what is ours there, and pods without a node, so that the cost does
    /// not grow with the pods that run.
    pub(crate) async fn follow(&self) -> Infallible {
        let ours = || Selection { labels: Some(format!("{MANAGED_BY}={MANAGER}")), ..Selection::default() };
        let without_node = Selection { fields: Some("spec.nodeName=".into()), ..Selection::default() };
        tokio::select! {
            never = self.fleet.follow(self.sets.clone(), ours(), |member| member.all()) => never,
            never = self.fleet.follow(self.deployments.clone(), ours(), |member| member.all()) => never,
            never = self.fleet.follow(self.waiting.index.clone(), without_node, |member| member.all()) => never,
        }
    }

    /// Whether what `index` and the book of pods hold of a member can be relied on.
    pub(crate) fn reach<R: Record>(&self, member: &Member, index: &Index<R>) -> Reach {
        let name = member.name().as_str();
        let complete = |knowledge| knowledge == Knowledge::Complete;
        match member.state().phase {
            Phase::Unreachable => Reach::Offline,
            Phase::Reachable
                if complete(index.knowledge(name)) && complete(self.waiting.index.knowledge(name)) =>
            {
                Reach::Online
            }
            // A member that was never asked may have everything: it counts as one that is away for a moment.
            Phase::Joining | Phase::Reachable => Reach::Unsure,
        }
    }
}

fn heard<R: Record>(kind: Kind, told: impl Fn(Change<'_>) + Send + Sync + 'static) -> Arc<Index<R>> {
    let index = Index::new();
    index.on_change(move |news| match news {
        News::Record(_, key) => told(Change::Workload(kind, key)),
        News::Knowledge(..) => told(Change::Knowledge),
    });
    index
}
