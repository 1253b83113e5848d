//! Leadership that other programs can see: a Lease whose holder is this cluster's context while it leads.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use koinon_control::Clock;
use koinon_control::client::urgent;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;

use crate::call::{Failure, within};
use crate::memory::Memory;
use crate::names::{FIELD_MANAGER, LEASE, NAMESPACE};
use crate::plan::Lead;

const RETRY: Duration = Duration::from_secs(2);

/// Writes the Lease of one cluster.
pub(crate) struct Keeper {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) duration: Duration,
    pub(crate) deadline: Duration,
}

impl Keeper {
    /// Follows `lead`, and what is to be remembered, until nobody tells them any more.
    pub(crate) async fn run(
        &self,
        mut lead: watch::Receiver<Lead>,
        mut memory: watch::Receiver<Option<Memory>>,
    ) {
        loop {
            let now = lead.borrow_and_update().clone();
            let remembered = memory.borrow_and_update().clone();
            let pause = match (self.write(&now, remembered.as_ref()).await, now) {
                (Err(failure), _) => {
                    tracing::debug!(%failure, "the Lease was not written");
                    Some(RETRY)
                }
                (Ok(()), Lead::As(_)) => Some(self.duration / 3),
                (Ok(()), Lead::No | Lead::Undecided) => None,
            };
            tokio::select! {
                biased;
                () = async { tokio::time::sleep(pause.unwrap_or_default()).await }, if pause.is_some() => {}
                changed = lead.changed() => if changed.is_err() { return },
                changed = memory.changed() => if changed.is_err() { return },
            }
        }
    }

    pub(crate) async fn write(&self, lead: &Lead, memory: Option<&Memory>) -> Result<(), Failure> {
        if *lead == Lead::Undecided && memory.is_none() {
            return Ok(());
        }
        let api: Api<Lease> = Api::namespaced(urgent(self.client.clone()), NAMESPACE);
        let there = match within(self.deadline, api.get(LEASE)).await {
            Ok(lease) => lease,
            Err(failure) if failure.code == Some(404) => Lease::default(),
            Err(failure) => return Err(failure),
        };
        let kept = match memory.filter(|memory| **memory != Memory::of(&there)) {
            Some(memory) => memory.keep(&api, self.deadline).await,
            None => Ok(()),
        };
        let Some(spec) = next(lead, there.spec, self.clock.now(), self.duration) else { return kept };
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE}, "spec": spec,
        });
        // Forced: the name is ours, and who leads is said by the AMKOCluster alone.
        let params = PatchParams::apply(FIELD_MANAGER).force();
        within(self.deadline, api.patch(LEASE, &params, &Patch::Apply(lease))).await?;
        kept
    }
}

/// What the Lease should say; nothing if it may stay as it is.
fn next(lead: &Lead, there: Option<LeaseSpec>, now: Timestamp, duration: Duration) -> Option<LeaseSpec> {
    let there = there.unwrap_or_default();
    let holder = there.holder_identity.clone().filter(|holder| !holder.is_empty());
    let transitions = there.lease_transitions.unwrap_or(0);
    let seconds = i32::try_from(duration.as_secs().max(1)).unwrap_or(i32::MAX);
    match lead {
        Lead::Undecided => None,
        Lead::No => holder.map(|_| LeaseSpec {
            lease_duration_seconds: Some(1),
            lease_transitions: Some(transitions),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
        Lead::As(context) => {
            let held = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
            let fresh = there.renew_time.as_ref().is_some_and(|renewed| now.duration_since(renewed.0) < held);
            let same = fresh && holder.as_ref() == Some(context);
            Some(LeaseSpec {
                holder_identity: Some(context.clone()),
                lease_duration_seconds: Some(seconds),
                acquire_time: if same { there.acquire_time } else { Some(MicroTime(now)) },
                renew_time: Some(MicroTime(now)),
                lease_transitions: Some(if same { transitions } else { transitions + 1 }),
                ..LeaseSpec::default()
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Duration = Duration::from_secs(30);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn it_is_taken_renewed_and_given_back() {
        let lead = Lead::As("a".into());
        let taken = next(&lead, None, at(100), HELD).unwrap();
        assert_eq!((taken.holder_identity.as_deref(), taken.lease_transitions), (Some("a"), Some(1)));
        let renewed = next(&lead, Some(taken.clone()), at(110), HELD).unwrap();
        assert_eq!((&renewed.acquire_time, renewed.lease_transitions), (&taken.acquire_time, Some(1)));
        assert_eq!(renewed.renew_time, Some(MicroTime(at(110))));
        let late = next(&lead, Some(renewed.clone()), at(200), HELD).unwrap();
        assert_eq!((late.acquire_time, late.lease_transitions), (Some(MicroTime(at(200))), Some(2)));
        let given = next(&Lead::No, Some(renewed), at(111), HELD).unwrap();
        assert_eq!(given.holder_identity, None);
        assert_eq!(next(&Lead::No, Some(given), at(112), HELD), None);
        assert_eq!(next(&Lead::No, None, at(112), HELD), None);
    }
}
