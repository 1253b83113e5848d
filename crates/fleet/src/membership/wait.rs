//! After `join`: does the federation itself reach the new member?

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use koinon_api::membership::{ClusterId, MemberStatus, Phase};
use kube::Client;
use tokio::time::Instant;

use super::Error;
use super::federation_store::FederationStore;

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A role that runs takes note of a new member within this time.
const NOTED_WITHIN: Duration = Duration::from_secs(5);
/// Longer than a role gives a new member by default before it counts as unreachable.
const DECIDED_WITHIN: Duration = Duration::from_secs(60);

/// What the federation says of a member that just joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    Reached,
    /// It was not reached, for this reason.
    Away(String),
    /// No role has taken note of it.
    Unnoted,
}

/// A member that is about to join, or to join again.
pub struct Arrival {
    store: FederationStore,
    name: ClusterId,
    /// Since when the federation does not reach it, if it is a member that is away.
    away: Option<Time>,
}

impl Arrival {
    /// Takes down how the federation finds the member before anything is done about it.
    pub async fn expect(federation: &Client, name: &ClusterId) -> Result<Arrival, Error> {
        let store = FederationStore::new(federation.clone());
        let status = store.federation().await?.unwrap_or_default().status.unwrap_or_default();
        let known = status.member_status.into_iter().find(|one| one.cluster_id == name.as_str());
        let away = known.filter(|one| one.status == Phase::Unreachable).and_then(|one| one.since);
        Ok(Arrival { store, name: name.clone(), away })
    }

    /// Waits until a role says how it finds the member, if there is one that does. After something `changed`, what was
    /// said before is no answer: a role needs its time to find a member well again. `progress` hears what is
    /// waited for.
    pub async fn until_reached(&self, changed: bool, mut progress: impl FnMut(&str)) -> Result<Reach, Error> {
        let start = Instant::now();
        let mut said = String::new();
        loop {
            let known = self.store.federation().await?.unwrap_or_default();
            let status = known.status.unwrap_or_default();
            let is_noted = status.observed_generation >= known.metadata.generation;
            let found = status.member_status.iter().find(|one| one.cluster_id == self.name.as_str());
            let is_old = |since: &Option<Time>| changed && self.away.is_some() && *since == self.away;
            let why = match found.filter(|_| is_noted) {
                Some(MemberStatus { status: Phase::Reachable, .. }) => return Ok(Reach::Reached),
                Some(MemberStatus { status: Phase::Unreachable, error, since, .. }) if !is_old(since) => {
                    return Ok(Reach::Away(error.clone().unwrap_or_else(|| "it does not answer".into())));
                }
                Some(one) => one.error.clone(),
                None if start.elapsed() >= NOTED_WITHIN => return Ok(Reach::Unnoted),
                None => None,
            };
            if start.elapsed() >= DECIDED_WITHIN {
                return Ok(Reach::Away(why.unwrap_or_else(|| "it has not answered yet".into())));
            }
            let waiting = match why {
                Some(why) => format!("waiting until the federation reaches it: {why}"),
                None => "waiting until the federation reaches it".to_owned(),
            };
            if waiting != said {
                progress(&waiting);
                said = waiting;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
