//! The caches of members: their objects in counts, and the pods there that wait for a node.

mod deployment;
pub(crate) mod records;
mod waiting;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use koinon_api::failover::{Failover, Waits};
use koinon_api::placement::{ClusterPlacement, ClusterState};
use koinon_control::Key;
use koinon_fleet::{Fleet, Index, Knowledge, Member, News, Phase, Record, Selection};

pub(crate) use self::deployment::DeploymentRecord;
pub(crate) use self::records::{Kind, SetRecord, belongs};
use self::waiting::{Told, Waiting};
use crate::content;
use crate::rollout::Reach;
use crate::takeover::Presence;
use crate::writing::Written;

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
        let ours = || Selection { labels: Some(content::selector()), ..Selection::default() };
        let without_node = Selection { fields: Some("spec.nodeName=".into()), ..Selection::default() };
        tokio::select! {
            biased;
            never = self.fleet.follow(self.sets.clone(), ours(), |member| member.all()) => never,
            never = self.fleet.follow(self.deployments.clone(), ours(), |member| member.all()) => never,
            never = self.fleet.follow(self.waiting.index.clone(), without_node, |member| member.all()) => never,
        }
    }

    /// The members that have to be asked by name whether they have an object under this key: those that can be relied on, and of
    /// which no watch tells one. `is_due` tells by a member's name whether that matters; answers that do not any more are forgotten.
    pub(crate) fn due<R: Written>(
        &self,
        presence: &Presence<R>,
        index: &Index<R>,
        key: &Key,
        is_due: impl Fn(&str) -> bool,
    ) -> Vec<Arc<Member>> {
        let mut due = self.fleet.members();
        due.retain(|member| {
            let name = member.name();
            let online = self.reach(member, index) == Reach::Online;
            let needed = online
                && index.get(name.as_str(), key).is_none()
                && (is_due(name.as_str()) || presence.is_doubted(key, name));
            if !needed && self.reach(member, index) != Reach::Unsure {
                presence.drop(key, name);
            }
            needed
        });
        due
    }

    /// For how long the replicas of a member that counts as offline wait for it, if they do.
    pub(crate) fn waits(&self, member: &Member, failover: Failover, now: Timestamp) -> Option<Waits> {
        let state = member.state();
        // Of one that was offline before the role began, nobody knows for how long: it counts from then.
        let since = state.last_seen.unwrap_or(state.since);
        failover.waits(Duration::try_from(now.duration_since(since)).unwrap_or_default())
    }

    /// Whether what `index` and the book of pods hold of a member can be relied on. `last` is what was last written of it: one that
    /// was offline then, and was not heard of since the role began, still is.
    pub(crate) fn reach_since<R: Record>(
        &self,
        member: &Member,
        index: &Index<R>,
        last: Option<&ClusterPlacement>,
    ) -> Reach {
        let was_offline = last.is_some_and(|last| last.state == ClusterState::Offline);
        if was_offline && member.state().phase == Phase::Joining {
            return Reach::Offline;
        }
        self.reach(member, index)
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

/// When time alone ends that replicas wait.
pub(crate) fn waits_for(waits: Option<Waits>) -> Option<Duration> {
    match waits? {
        Waits::For(left) => Some(left),
        Waits::ForGood => None,
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
