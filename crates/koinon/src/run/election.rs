//! One of several replicas of a role works at a time.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use koinon_api::names::LEASE_NAMESPACE;
use koinon_context::Context;
use koinon_control::Clock;
use koinon_control::client::urgent;
use koinon_fleet::election::campaign::identity;
use koinon_fleet::election::{Campaign, Timing, while_leading};
use kube::{Api, Client};
use tokio::sync::watch;

use crate::flags::{BadUsage, Time, some_time};
use crate::host::Ending;

/// How replicas take turns.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Election among replicas")]
pub(crate) struct Election {
    /// A lease that was not renewed for so long may be taken
    #[arg(long, value_name = "TIME", default_value_t = Time(Timing::default().lease_duration), value_parser = some_time)]
    lease_duration: Time,
    /// Who could not renew for so long leads no more
    #[arg(long, value_name = "TIME", default_value_t = Time(Timing::default().renew_deadline), value_parser = some_time)]
    renew_deadline: Time,
    /// Between two attempts to take or renew the lease
    #[arg(long, value_name = "TIME", default_value_t = Time(Timing::default().retry_period), value_parser = some_time)]
    retry_period: Time,
}

impl Election {
    /// The times, if they fit together.
    pub(crate) fn timing(&self) -> Result<Timing, BadUsage> {
        let timing = Timing {
            lease_duration: self.lease_duration.0,
            renew_deadline: self.renew_deadline.0,
            retry_period: self.retry_period.0,
        };
        timing.check().map_err(BadUsage)?;
        Ok(timing)
    }

    /// Runs a role while this replica is the one whose turn it is, until the end was asked for and the role has
    /// ended in good order. `turn` tells whose turn it is.
    pub(crate) async fn run<F>(
        &self,
        turn: &Turn,
        client: Client,
        lease: &str,
        end: &Ending,
        role: impl Fn() -> F,
    ) -> anyhow::Result<()>
    where
        F: Future<Output = ()>,
    {
        let context = Context::real();
        let me = identity(&std::process::id().to_string(), &context.uid());
        let clock = Clock::new(move || context.now());
        let leases: Api<Lease> = Api::namespaced(urgent(client), LEASE_NAMESPACE);
        let campaign = Campaign::new(leases, lease, &me, self.timing()?, clock);
        let over = async {
            end.asked().await;
            let _ = turn.0.subscribe().wait_for(|ours| !ours).await;
        };
        while_leading(campaign, over, |_| async {
            let _ours = turn.take();
            role().await;
        })
        .await;
        Ok(())
    }
}

/// Whether it is this replica's turn: from when its role begins until it ends or is cut off.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn(Arc<watch::Sender<bool>>);

impl Turn {
    pub(crate) fn is_ours(&self) -> bool {
        *self.0.borrow()
    }

    fn take(&self) -> Ours<'_> {
        self.0.send_replace(true);
        Ours(self)
    }
}

/// It is our turn for as long as this lives.
struct Ours<'a>(&'a Turn);

impl Drop for Ours<'_> {
    fn drop(&mut self) {
        self.0.0.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_ends_with_the_role_however_that_ends() {
        let turn = Turn::default();
        let seen = turn.clone();
        assert!(!seen.is_ours());
        let role = async {
            let _ours = turn.take();
            std::future::pending::<()>().await;
        };
        let mut role = Box::pin(role);
        assert!(futures::poll!(&mut role).is_pending() && seen.is_ours());
        // Cut off, as whoever loses the lease is.
        drop(role);
        assert!(!seen.is_ours());
    }
}
