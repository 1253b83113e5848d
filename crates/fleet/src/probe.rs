//! Finds out, again and again, whether a member is there and still itself.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Weak};
use std::time::Duration;

use koinon_api::membership::Phase;
use tokio::time::Instant;

use crate::fleet::{Fleet, Member, State};
use crate::health::{Health, Probe};
use crate::member::Seen;

/// A version is asked for again after this many probes.
const VERSION_EVERY: u32 = 30;

/// Probes a member for as long as it and the fleet are there.
pub(crate) async fn probe(fleet: Weak<Fleet>, member: Arc<Member>) {
    let Some((start, thresholds)) =
        fleet.upgrade().map(|fleet| (fleet.start, fleet.options.thresholds.clone()))
    else {
        return;
    };
    let mut health = Health::joining(start.elapsed());
    let mut probes = 0u32;
    // The first look is at once; from then on every member has its own moment.
    let mut lag = thresholds.probe_every.mul_f64(share(member.name().as_str()));
    loop {
        let Some(fleet) = fleet.upgrade() else { return };
        let began = start.elapsed();
        let result = fleet.look(&member).await;
        let before = health.phase;
        health = health.step(began, &result, &thresholds);
        let came = before != Phase::Reachable && health.phase == Phase::Reachable;
        if before != Phase::Unreachable && health.phase == Phase::Unreachable {
            member.client.away(health.why.as_deref().unwrap_or("it does not answer"));
        }
        let version = if result == Probe::Answered && (came || probes.is_multiple_of(VERSION_EVERY)) {
            member.client.version().await
        } else {
            None
        };
        probes = probes.wrapping_add(1);
        fleet.note(&member, &health, &result, version);
        let pause = health.next_probe(start.elapsed(), &thresholds);
        let pause = if health.why.is_none() { pause.saturating_sub(std::mem::take(&mut lag)) } else { pause };
        let offline = health.phase == Phase::Unreachable;
        let waiting = Instant::now();
        // Not held while waiting: a fleet that nobody uses any more ends.
        let metrics = fleet.metrics().clone();
        drop(fleet);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = member.hurry.notified() => {}
        }
        let offline_for = if offline { waiting.elapsed() } else { Duration::ZERO };
        metrics.health(member.name().as_str(), health.phase == Phase::Reachable, offline_for);
    }
}

impl Fleet {
    /// Finds out who is there, and whether it is who it should be.
    async fn look(&self, member: &Member) -> Probe {
        match member.client.probe().await {
            Err(why) => Probe::Failed(why),
            Ok((_, Seen::Itself)) => Probe::Answered,
            Ok((_, Seen::Another(why))) => Probe::Another(why.to_string()),
            Ok((uid, Seen::Stranger)) => match self.acquaint(member).await {
                Ok(()) => {
                    member.client.expect(Some(uid));
                    match member.client.probe().await {
                        Ok((_, Seen::Itself)) => Probe::Answered,
                        Ok((_, seen)) => {
                            Probe::Failed(format!("it changed while it was looked at: {seen:?}"))
                        }
                        Err(why) => Probe::Failed(why),
                    }
                }
                Err(probe) => probe,
            },
        }
    }

    /// Decides whether a cluster that was never seen before is the one that is meant.
    async fn acquaint(&self, member: &Member) -> Result<(), Probe> {
        let Some(namespace) = &self.options.claims else { return Ok(()) };
        let claims = member.client.claims(namespace).await.map_err(Probe::Failed)?;
        match claims.id() {
            Some(id) if id == member.name().as_str() => {
                member.state.write().claims = claims;
                Ok(())
            }
            Some(id) => Err(Probe::Another(format!(
                "the cluster at its address claims to be {id}: correct the member's server, or its clusterID"
            ))),
            None => Err(Probe::Failed(format!(
                "it does not claim an ID: apply a ClusterClaim id.k8s.io with the value {} in its namespace {namespace}",
                member.name()
            ))),
        }
    }

    /// Writes down what a probe found.
    fn note(&self, member: &Member, health: &Health, result: &Probe, version: Option<String>) {
        let now = self.clock().now();
        let changed = {
            let mut state = member.state.write();
            let before = state.clone();
            if *result == Probe::Answered {
                state.last_seen = Some(now);
            }
            if state.phase != health.phase {
                state.since = now;
            }
            state.phase = health.phase;
            state.why = health.why.clone();
            state.version = version.or_else(|| state.version.take());
            state.uid = member.client.uid();
            let visible = |state: &State| State { last_seen: None, ..state.clone() };
            visible(&before) != visible(&state)
        };
        if changed {
            self.announce();
        }
    }
}

fn share(name: &str) -> f64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    (hasher.finish() % 1000) as f64 / 1000.0
}
