//! Finds out, again and again, whether a member is there and still itself.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Weak};
use std::time::Duration;

use koinon_api::membership::{Claims, ClusterId, NETWORK_NAMESPACE, Phase};
use tokio::time::Instant;

use crate::fleet::{Fleet, Member, State};
use crate::health::{Health, Moment, Probe};
use crate::member::Seen;

/// What a member tells of itself is asked for again after this many probes, and whenever a connection to it failed.
const PORTRAIT_EVERY: u32 = 30;

/// What a member tells of itself, as far as it does.
#[derive(Default)]
struct Portrait {
    version: Option<String>,
    claims: Option<Claims>,
}

/// Probes a member for as long as it and the fleet are there.
pub(crate) async fn probe(fleet: Weak<Fleet>, member: Arc<Member>) {
    let Some((start, thresholds)) =
        fleet.upgrade().map(|fleet| (fleet.start, fleet.options.thresholds.clone()))
    else {
        return;
    };
    let mut health = Health::joining(start.elapsed());
    let mut probes = 0u32;
    let mut noted = Instant::now();
    // The first look is at once; from then on every member has its own moment.
    let mut lag = thresholds.probe_every.mul_f64(share(member.name().as_str()));
    loop {
        let Some(fleet) = fleet.upgrade() else { return };
        // A server that was away for a moment may be another version of itself.
        let in_doubt = member.client.is_in_doubt();
        let patience = health.patience(start.elapsed(), &thresholds);
        let result = fleet.look(&member, patience).await;
        let before = health.phase;
        let was = health.since;
        health = health.step(start.elapsed(), &result, &thresholds);
        log(member.name(), (before, was), &health, &result);
        if before != Phase::Unreachable && health.phase == Phase::Unreachable {
            member.client.away(health.why.as_deref().unwrap_or("it does not answer"));
        }
        let came = before != Phase::Reachable && health.phase == Phase::Reachable;
        let is_due = came || in_doubt || probes.is_multiple_of(PORTRAIT_EVERY);
        let portrait = match result {
            Probe::Answered if is_due => fleet.portray(&member, thresholds.usual_pause()).await,
            _ => Portrait::default(),
        };
        probes = probes.wrapping_add(1);
        fleet.note(&member, &health, &result, portrait);
        let since = std::mem::replace(&mut noted, Instant::now());
        let offline_for = if before == Phase::Unreachable { noted - since } else { Duration::ZERO };
        fleet.metrics().health(member.name().as_str(), health.phase == Phase::Reachable, offline_for);
        let pause = health.next_probe(start.elapsed(), &thresholds);
        let pause = if health.why.is_none() { pause.saturating_sub(std::mem::take(&mut lag)) } else { pause };
        // Not held while waiting: a fleet that nobody uses any more ends.
        drop(fleet);
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = member.probe_now.notified() => {}
        }
    }
}

/// A line where a member is not what it was.
fn log(member: &ClusterId, (before, since): (Phase, Moment), health: &Health, probe: &Probe) {
    let why = health.why.as_deref().unwrap_or("it does not answer");
    match (before, health.phase) {
        (Phase::Joining, Phase::Reachable) => {
            tracing::info!(%member, reason = "MemberJoined", "the member answers");
        }
        (Phase::Unreachable, Phase::Reachable) => {
            let seconds = health.since.saturating_sub(since).as_secs();
            tracing::info!(%member, reason = "MemberReachable", "the member is reachable again, after {seconds} s");
        }
        (Phase::Joining | Phase::Reachable, Phase::Unreachable) => {
            let is_another = matches!(probe, Probe::Another(_));
            let reason = if is_another { "IdentityMismatch" } else { "MemberUnreachable" };
            tracing::warn!(%member, reason, "the member is unreachable: {why}");
        }
        _ => {}
    }
}

impl Fleet {
    /// Finds out who is there, and whether it is who it should be.
    async fn look(&self, member: &Member, patience: Duration) -> Probe {
        let began = Instant::now();
        let left = || patience.saturating_sub(began.elapsed());
        match member.client.probe(patience).await {
            Err(why) => Probe::Failed(why),
            Ok((_, Seen::Itself)) => Probe::Answered,
            Ok((_, Seen::Another(why))) => Probe::Another(why.to_string()),
            Ok((uid, Seen::Stranger)) => match self.acquaint(member, left()).await {
                Ok(()) => {
                    member.client.expect(Some(uid));
                    match member.client.probe(left()).await {
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
    async fn acquaint(&self, member: &Member, patience: Duration) -> Result<(), Probe> {
        let Some(namespace) = &self.options.claims else { return Ok(()) };
        let claims = member.client.claims(namespace, patience).await.map_err(Probe::Failed)?;
        match claims.id() {
            Some(id) if id == member.name().as_str() => {
                member.state.write().claims = Some(claims);
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

    /// Has a member tell of itself. What it does not tell is as it was.
    async fn portray(&self, member: &Member, patience: Duration) -> Portrait {
        let namespace = self.options.claims.as_deref().unwrap_or(NETWORK_NAMESPACE);
        let (version, claims) =
            tokio::join!(member.client.version(patience), member.client.claims(namespace, patience));
        Portrait { version, claims: claims.ok() }
    }

    /// Writes down what a probe found.
    fn note(&self, member: &Member, health: &Health, result: &Probe, portrait: Portrait) {
        let now = self.clock().now();
        let changed = {
            let mut state = member.state.write();
            let before = state.clone();
            if *result == Probe::Answered {
                state.last_seen = Some(now);
                state.server = member.server().or_else(|| state.server.take());
            }
            if state.phase != health.phase {
                state.since = now;
            }
            state.phase = health.phase;
            state.why = health.why.clone();
            state.version = portrait.version.or_else(|| state.version.take());
            state.claims = portrait.claims.or_else(|| state.claims.take());
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
