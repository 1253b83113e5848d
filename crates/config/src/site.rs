//! One cluster: its connection, made anew when it breaks, and everything that is followed through it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::follow::{Followed, Followeds, LONGEST_PAUSE, Pace, SECOND_TRY, What, follow};
use crate::model::{Objects, Observed};

const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Makes the connection. Each is new: one that broke may have left half-open sockets behind.
pub(crate) type Dial = Arc<dyn Fn() -> BoxFuture<'static, Result<Client, String>> + Send + Sync>;

/// What is seen of one cluster.
pub(crate) struct Site {
    client: Mutex<Result<Client, Option<String>>>,
    /// The AMKOClusters. Whether they can be listed is whether the cluster can be reached.
    clusters: (What, Arc<Followed>),
    others: watch::Sender<Followeds>,
}

impl Site {
    pub(crate) fn new(clusters: What, others: Followeds) -> Arc<Site> {
        Arc::new(Site {
            client: Mutex::new(Err(None)),
            clusters: (clusters, Arc::default()),
            others: watch::Sender::new(others),
        })
    }

    /// The client, if there is one so far.
    pub(crate) fn client(&self) -> Option<Client> {
        self.client.lock().as_ref().ok().cloned()
    }

    /// Why no client could be made.
    pub(crate) fn no_client(&self) -> Option<String> {
        self.client.lock().as_ref().err().cloned().flatten()
    }

    pub(crate) fn clusters(&self) -> &Followed {
        &self.clusters.1
    }

    /// What else is followed, as far as it was asked for.
    pub(crate) fn followed(&self, what: &What) -> Option<Arc<Followed>> {
        let others = self.others.borrow();
        others.iter().find(|(one, _)| one == what).map(|(_, followed)| followed.clone())
    }

    pub(crate) fn objects(&self, what: &What) -> Observed<Objects> {
        self.followed(what).map_or(Observed::Pending, |followed| followed.objects())
    }

    /// Whether the cluster says that these are not to be had.
    pub(crate) fn is_refused(&self, what: &What) -> bool {
        self.followed(what).is_some_and(|followed| followed.is_refused())
    }

    /// Whether everything that we wrote here would be seen by now.
    pub(crate) fn is_settled(&self) -> bool {
        self.others.borrow().iter().all(|(_, followed)| followed.is_settled())
    }

    /// Something was, or may have been, written to objects that `touched` picks: they are looked at before
    /// the next decision.
    pub(crate) fn wrote(&self, touched: impl Fn(&What) -> bool) {
        for (_, followed) in self.others.borrow().iter().filter(|(what, _)| touched(what)) {
            followed.wrote();
        }
    }

    /// Follows these besides the AMKOClusters; those that were followed before go on undisturbed.
    pub(crate) fn follow_also(&self, wanted: &[What]) {
        self.others.send_if_modified(|others| {
            if others.iter().map(|(what, _)| what).eq(wanted) {
                return false;
            }
            let followed = |what: &What| {
                let known = others.iter().find(|(one, _)| one == what);
                (what.clone(), known.map(|(_, followed)| followed.clone()).unwrap_or_default())
            };
            *others = wanted.iter().map(followed).collect();
            true
        });
    }

    /// Keeps the connection and all that is followed for as long as it is polled.
    pub(crate) async fn keep(self: Arc<Self>, dial: Dial, wake: Arc<Notify>, pace: Pace) {
        let longest = LONGEST_PAUSE.min(pace.every);
        let mut pause = FIRST_PAUSE.min(longest);
        loop {
            let dialled = tokio::time::timeout(pace.deadline, dial()).await;
            match dialled.unwrap_or_else(|_| Err("no connection in time".into())) {
                Ok(client) => {
                    *self.client.lock() = Ok(client.clone());
                    // After a break, what was seen before says nothing.
                    for (_, followed) in self.others.borrow().iter() {
                        followed.forget();
                    }
                    let (what, clusters) = &self.clusters;
                    let failure = tokio::select! {
                        biased;
                        failure = follow(&client, what, clusters, &wake, pace) => failure,
                        () = self.follow_others(&client, &wake, pace) => continue,
                    };
                    if matches!(clusters.objects(), Observed::Seen(_)) {
                        pause = FIRST_PAUSE.min(longest);
                    }
                    tracing::debug!(%failure, "a cluster was lost");
                    clusters.lost(&failure);
                }
                Err(why) => *self.client.lock() = Err(Some(why)),
            }
            wake.notify_one();
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    async fn follow_others(&self, client: &Client, wake: &Notify, pace: Pace) {
        let mut others = self.others.subscribe();
        loop {
            let now = others.borrow_and_update().clone();
            let all = now.iter().map(|(what, followed)| persist(client, what, followed, wake, pace));
            tokio::select! {
                biased;
                changed = others.changed() => if changed.is_err() { return },
                _ = join_all(all), if !now.is_empty() => {}
            }
        }
    }
}

/// Follows one kind whatever happens: that it is not served, or forbidden, says nothing about the cluster.
async fn persist(client: &Client, what: &What, followed: &Followed, wake: &Notify, pace: Pace) {
    loop {
        let mut failure = follow(client, what, followed, wake, pace).await;
        // A cluster that is just coming back answers one thing and not yet the other.
        if !failure.is_refusal() {
            tokio::time::sleep(SECOND_TRY).await;
            failure = follow(client, what, followed, wake, pace).await;
        }
        followed.lost(&failure);
        wake.notify_one();
        tokio::time::sleep(LONGEST_PAUSE.min(pace.every)).await;
    }
}
