//! Resolves the host names of load balancers, again and again: they change, and nobody tells.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use koinon_control::Key;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::sources::Subscribers;
use crate::services::endpoints::Resolved;

/// Between two looks at the same name.
const PAUSE: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(5);
const AT_ONCE: usize = 8;
/// More addresses than this are not taken from one name.
const MOST: usize = 32;

/// Asks what a name leads to; nothing if that cannot be said.
pub type Resolve = Arc<dyn Fn(String) -> BoxFuture<'static, Option<Vec<IpAddr>>> + Send + Sync>;

/// Asks as every program here does.
pub fn system() -> Resolve {
    Arc::new(|name: String| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await.ok()?;
            Some(found.map(|address| address.ip()).collect())
        })
    })
}

pub(super) struct Resolver {
    resolve: Option<Resolve>,
    subscribers: Arc<Subscribers>,
    state: Mutex<State>,
    wanted: Notify,
}

#[derive(Default)]
struct State {
    /// Which names each federated Service needs.
    needed: BTreeMap<Key, BTreeSet<String>>,
    found: BTreeMap<String, Vec<IpAddr>>,
}

impl Resolver {
    pub(super) fn new(resolve: Option<Resolve>, subscribers: Arc<Subscribers>) -> Arc<Resolver> {
        Arc::new(Resolver { resolve, subscribers, state: Mutex::default(), wanted: Notify::new() })
    }

    /// What these names lead to, as far as is known; what is not will be.
    pub(super) fn look(&self, key: &Key, names: BTreeSet<String>) -> Resolved {
        if self.resolve.is_none() {
            return Resolved::new();
        }
        let mut state = self.state.lock();
        let found: Resolved =
            names.iter().map(|name| (name.clone(), state.found.get(name).cloned())).collect();
        let is_new = found.values().any(Option::is_none)
            && state.needed.get(key).is_none_or(|before| !names.is_subset(before));
        if names.is_empty() {
            state.needed.remove(key);
        } else {
            state.needed.insert(key.clone(), names);
        }
        if is_new {
            self.wanted.notify_one();
        }
        found
    }

    /// Asks for as long as it is polled.
    pub(super) async fn run(&self) -> Infallible {
        let Some(resolve) = &self.resolve else { return std::future::pending().await };
        loop {
            let names: BTreeSet<String> = self.state.lock().needed.values().flatten().cloned().collect();
            if names.is_empty() {
                self.state.lock().found.clear();
                self.wanted.notified().await;
                continue;
            }
            let answers = futures::stream::iter(names.clone()).map(|name| async {
                let answer = tokio::time::timeout(DEADLINE, resolve(name.clone())).await.ok().flatten();
                (name, answer)
            });
            let answers: Vec<_> = answers.buffer_unordered(AT_ONCE).collect().await;
            let changed = self.take_in(&names, answers);
            self.subscribers.tell_all(changed);
            let _ = tokio::time::timeout(PAUSE, self.wanted.notified()).await;
        }
    }

    /// Takes in what was answered; who did not answer leads where it led before.
    fn take_in(
        &self,
        names: &BTreeSet<String>,
        answers: Vec<(String, Option<Vec<IpAddr>>)>,
    ) -> BTreeSet<Key> {
        let mut state = self.state.lock();
        state.found.retain(|name, _| names.contains(name));
        let mut changed = BTreeSet::new();
        for (name, answer) in answers {
            let Some(mut ips) = answer.filter(|ips| !ips.is_empty()) else { continue };
            ips.sort();
            ips.dedup();
            ips.truncate(MOST);
            if state.found.get(&name) != Some(&ips) {
                state.found.insert(name.clone(), ips);
                changed.insert(name);
            }
        }
        let concerned = state.needed.iter().filter(|(_, names)| !names.is_disjoint(&changed));
        concerned.map(|(key, _)| key.clone()).collect()
    }
}
