//! One member as the federator has it: its connection, and what was written to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{AbortHandle, Abortable, BoxFuture};
use koinon_control::Key;
use tokio::sync::Notify;
use tokio::task::{AbortHandle as TaskHandle, JoinSet};

use crate::connect::{Connect, Context};
use crate::follow::{Pace, What};
use crate::model::{AmkoCluster, Kind, Observed};
use crate::names::NAMESPACE;
use crate::plan::{Member, Outcome, Tried, Write};
use crate::site::Site;

/// A connection to one member.
pub(crate) struct Link {
    /// Tells this connection from an earlier one to the same member.
    pub(crate) number: u64,
    pub(crate) fingerprint: String,
    pub(crate) site: Arc<Site>,
    task: TaskHandle,
    batch: Option<AbortHandle>,
    tried: BTreeMap<(Kind, Key), Tried>,
}

/// How a member is followed.
pub(crate) struct Follower<'a> {
    pub(crate) name: &'a str,
    pub(crate) connect: &'a Connect,
    pub(crate) wake: &'a Arc<Notify>,
    pub(crate) pace: Pace,
}

impl Link {
    /// Opens a connection; `tasks` runs it until it is dropped.
    pub(crate) fn open(
        number: u64,
        context: &Context,
        follower: &Follower<'_>,
        tasks: &mut JoinSet<()>,
    ) -> Link {
        let site = Site::new(What::clusters(Some(NAMESPACE)), Vec::new());
        let connect = follower.connect.clone();
        let (kubeconfig, name) = (context.kubeconfig.clone(), follower.name.to_owned());
        let dial = Arc::new(move || -> BoxFuture<'static, _> { connect(kubeconfig.clone(), name.clone()) });
        let task = tasks.spawn(site.clone().keep(dial, follower.wake.clone(), follower.pace));
        Link {
            number,
            fingerprint: context.fingerprint.clone(),
            site,
            task,
            batch: None,
            tried: BTreeMap::new(),
        }
    }

    /// What is known of the member.
    pub(crate) fn member(&self, kinds: &[Kind], now: Duration) -> Member {
        let clusters = match self.site.clusters().objects() {
            Observed::Pending => Observed::Pending,
            Observed::Lost(why) => Observed::Lost(why),
            Observed::Seen(objects) => {
                Observed::Seen(objects.iter().map(|one| AmkoCluster::read(one)).collect())
            }
        };
        let copies =
            kinds.iter().map(|kind| (kind.clone(), self.site.objects(&What::objects(kind)))).collect();
        let tried = self.tried.iter().filter(|(_, tried)| !tried.is_forgotten(now));
        Member {
            no_client: self.site.no_client(),
            clusters,
            copies,
            unsettled: self.batch.is_some() || !self.site.is_settled(),
            tried: tried.map(|(key, tried)| (key.clone(), tried.clone())).collect(),
        }
    }

    /// Takes a batch of writes, unless one is on its way.
    pub(crate) fn begin<F: Future>(&mut self, batch: F) -> Option<Abortable<F>> {
        if self.batch.is_some() {
            return None;
        }
        let (handle, registration) = AbortHandle::new_pair();
        self.batch = Some(handle);
        Some(Abortable::new(batch, registration))
    }

    /// Stops what is on its way. A call that was sent may still arrive.
    pub(crate) fn call_off(&self) {
        if let Some(batch) = &self.batch {
            batch.abort();
        }
    }

    /// Notes what came of a batch; nothing is known of one that was called off.
    pub(crate) fn end(&mut self, outcomes: Option<Vec<(Write, Outcome)>>, now: Duration) {
        self.batch = None;
        self.tried.retain(|_, tried| !tried.is_forgotten(now));
        let Some(outcomes) = outcomes else { return self.site.wrote(|_| true) };
        let touched: Vec<What> = outcomes.iter().map(|(write, _)| What::objects(write.kind())).collect();
        for (write, outcome) in outcomes {
            let at = (write.kind().clone(), write.key());
            let tried = Tried::after(self.tried.get(&at), write.wanted(), outcome, now);
            self.tried.insert(at, tried);
        }
        self.site.wrote(|what| touched.contains(what));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.call_off();
        self.task.abort();
    }
}
