//! The snapshot of one member that a plan is made from.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use koinon_api::failover::Waits;
use koinon_api::placement::ClusterPlacement;

use crate::members::DeploymentRecord;
use crate::placing::{self, Spot, Wait};
use crate::rollout::{Local, Reach};
use crate::takeover::Found;

/// One member, as seen.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) reach: Reach,
    pub(super) record: Option<Arc<DeploymentRecord>>,
    /// An object of somebody else that is not taken over.
    pub(super) withheld: Option<Arc<Found<DeploymentRecord>>>,
    /// The name of the template that it has, if it is one of ours.
    pub(super) template: Option<String>,
    pub(super) waiting: Vec<Wait>,
    /// It took its object from us, or what was there before.
    pub(super) took: bool,
    pub(super) refused: Option<Refused>,
    /// A count that is on its way to it.
    pub(super) on_its_way: Option<Option<i64>>,
    /// Whether its watches have told nothing of it since the role began.
    pub(super) unheard: bool,
    /// Why its pods do not run, where that was looked at.
    pub(super) startup: Option<String>,
    /// For how long its replicas wait for it, if it is offline and they do.
    pub(super) waits: Option<Waits>,
    /// Since when its controller has not looked at what it has.
    pub(super) unobserved_since: Option<Timestamp>,
}

/// When each member was first seen with a generation that its controller has not looked at. Kept in memory: whoever starts anew is
/// only more patient.
#[derive(Debug, Clone, Default)]
pub(super) struct Unobserved(BTreeMap<String, (i64, Timestamp)>);

impl Unobserved {
    pub(super) fn update(&mut self, now: Timestamp, members: &mut BTreeMap<String, Seen>) {
        self.0.retain(|name, _| members.contains_key(name));
        for (name, seen) in members {
            let record = seen.record.as_deref();
            let Some(record) = record.filter(|record| record.observed_generation < record.generation) else {
                self.0.remove(name);
                continue;
            };
            let entry = self.0.entry(name.clone()).or_insert((record.generation, now));
            if entry.0 != record.generation {
                *entry = (record.generation, now);
            }
            seen.unobserved_since = Some(entry.1);
        }
    }
}

/// What a member refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) times: u32,
    pub(super) message: String,
    /// When it is tried again.
    pub(super) pause: Option<Duration>,
}

impl Seen {
    /// What can be relied on: nothing of a member that was sent something and has not answered.
    pub(super) fn reach(&self) -> Reach {
        if self.on_its_way.is_some() && self.reach == Reach::Online { Reach::Unsure } else { self.reach }
    }

    /// As placing needs it. `room` is what is remembered of how much fits there, `replaces` how many more it may run while it is
    /// updated.
    pub(super) fn member(&self, room: Option<i64>, replaces: Option<i64>) -> placing::Member {
        let mut local = self.record.as_deref().map(DeploymentRecord::local);
        if let (Some(Some(count)), Some(local)) = (self.on_its_way, &mut local) {
            local.spec_replicas = local.spec_replicas.max(count);
        }
        placing::Member {
            reach: self.reach(),
            local,
            waiting: self.waiting.clone(),
            refusals: self.refused.as_ref().map_or(0, |refused| refused.times),
            room,
            replaces,
            waited_for: self.waits.is_some(),
            unheard: self.is_unheard(),
        }
    }

    /// Whether nothing was heard of it since the role began.
    pub(super) fn is_unheard(&self) -> bool {
        self.unheard && self.record.is_none() && self.reach == Reach::Unsure
    }

    /// What it says to what it is sent, if it refuses that again and again.
    pub(super) fn refuses(&self) -> Option<String> {
        let refused = self.refused.as_ref().filter(|refused| refused.times >= placing::REFUSALS);
        refused.map(|refused| refused.message.clone())
    }

    /// As the rollout needs it. `last` is what was known last, and of which template.
    pub(super) fn local(
        &self,
        spot: Option<&Spot>,
        last: Option<(&ClusterPlacement, &str)>,
    ) -> Option<Local> {
        let Some(record) = self.record.as_deref() else {
            // Not listed yet, as after a restart: what was known last still holds. Nothing is done to it meanwhile.
            return last.filter(|_| self.reach == Reach::Unsure).and_then(as_last_known);
        };
        let stuck = spot.map(|spot| spot.stuck).unwrap_or_default();
        Some(Local {
            template: self.template.clone(),
            generation: record.generation,
            observed_generation: record.observed_generation,
            unobserved_since: self.unobserved_since,
            spec_replicas: record.spec_replicas,
            replicas: record.replicas,
            updated: record.updated,
            ready: record.ready,
            available: record.available,
            unschedulable: stuck.unschedulable,
            missing: stuck.missing,
            progress_failed: record.progress_failed.as_deref().map(|failed| match &self.startup {
                Some(why) => format!("{failed}; {why}"),
                None => failed.to_owned(),
            }),
            failing: record.failing.as_ref().map(|failing| failing.message.to_string()),
        })
    }
}

fn as_last_known((last, template): (&ClusterPlacement, &str)) -> Option<Local> {
    (last.replicas > 0).then(|| Local {
        template: (last.updated == last.replicas).then(|| template.to_owned()),
        spec_replicas: last.desired,
        replicas: last.replicas,
        updated: last.updated,
        ready: last.ready,
        available: last.available,
        unschedulable: last.unschedulable,
        ..Local::default()
    })
}
