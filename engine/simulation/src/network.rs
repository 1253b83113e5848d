//! Named parties, the ways between them, and who sees what goes there.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::future::BoxFuture;
use http::Request;
use kube::Client;
use parking_lot::Mutex;

use crate::fault::Fault;
use crate::fuse::Fuse;
use crate::time::Time;
use crate::trace::{Trace, Write};
use crate::way::Way;

/// Sees every write when it is sent, before anything can go wrong with it, and says what is wrong with it itself.
pub type Witness = Arc<dyn Fn(Write) -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// So often something may still be written before there is no rest to be hoped for.
const ATTEMPTS: usize = 40;

type Notable = Arc<dyn Fn(&Write) -> bool + Send + Sync>;

/// Everything between clients and servers.
#[derive(Clone)]
pub struct Network(Arc<Inner>);

struct Inner {
    seed: u64,
    time: Time,
    trace: Trace,
    servers: Mutex<BTreeMap<String, Router>>,
    ways: Mutex<BTreeMap<(String, String), Arc<Way>>>,
    fuses: Mutex<BTreeMap<String, Fuse>>,
    witnesses: Mutex<Vec<Witness>>,
    notable: Mutex<Notable>,
}

impl Network {
    /// A network on which nothing goes wrong yet. All chances follow from the seed.
    pub fn new(seed: u64, trace: &Trace) -> Network {
        Network(Arc::new(Inner {
            seed,
            time: Time::begin(),
            trace: trace.clone(),
            servers: Mutex::default(),
            ways: Mutex::default(),
            fuses: Mutex::default(),
            witnesses: Mutex::default(),
            notable: Mutex::new(Arc::new(|write| {
                !write.path.contains("/leases") && !write.path.contains("/events")
            })),
        }))
    }

    /// Only such writes are in the trace and have to end. By default all but Leases and events, which go on.
    pub fn noting(self, notable: impl Fn(&Write) -> bool + Send + Sync + 'static) -> Network {
        *self.0.notable.lock() = Arc::new(notable);
        self
    }

    pub fn time(&self) -> Time {
        self.0.time
    }

    pub fn trace(&self) -> &Trace {
        &self.0.trace
    }

    /// Says what happens, in the trace.
    pub fn note(&self, text: impl Into<String>) {
        self.0.trace.note_at(self.0.time.elapsed(), text.into());
    }

    /// Whoever asks for this name reaches this server from now on, whoever it was before.
    pub fn serve(&self, name: &str, server: Router) {
        self.0.servers.lock().insert(name.to_owned(), server);
    }

    /// A client of one party for the server of another.
    pub fn client(&self, from: &str, to: &str) -> Client {
        let (network, way, fuse) = (self.clone(), self.way(from, to), self.fuse(from));
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (network, way, fuse) = (network.clone(), way.clone(), fuse.clone());
            async move { way.carry(&network, &fuse, request).await }
        });
        Client::new(service, "default")
    }

    /// The way from one party to another.
    pub fn way(&self, from: &str, to: &str) -> Arc<Way> {
        let mut ways = self.0.ways.lock();
        let way = ways.entry((from.to_owned(), to.to_owned()));
        way.or_insert_with(|| Way::new(self.0.seed, from, to)).clone()
    }

    /// What ends this party.
    pub fn fuse(&self, party: &str) -> Fuse {
        self.0.fuses.lock().entry(party.to_owned()).or_default().clone()
    }

    /// From now on this goes wrong from one party to another, and nothing else. Nothing at all: all is well.
    pub fn set(&self, from: &str, to: &str, faults: &[Fault]) {
        if self.way(from, to).set(faults) {
            let said = if faults.is_empty() { "all is well".into() } else { format!("{faults:?}") };
            self.note(format!("{from} → {to}: {said}"));
        }
    }

    /// Requests for which `rule` gives a fault meet it, besides what all meet on this way.
    pub fn single_out(
        &self,
        from: &str,
        to: &str,
        rule: impl Fn(&Write) -> Option<Fault> + Send + Sync + 'static,
    ) {
        self.note(format!("{from} → {to}: some requests are singled out"));
        self.way(from, to).single_out(Some(Arc::new(rule)));
    }

    /// From now on this goes wrong between two parties, in both directions.
    pub fn set_between(&self, one: &str, other: &str, faults: &[Fault]) {
        self.set(one, other, faults);
        self.set(other, one, faults);
    }

    /// From now on this goes wrong between a party and all others. It still reaches itself.
    pub fn set_around(&self, party: &str, faults: &[Fault]) {
        let ways: Vec<(String, String)> = self.0.ways.lock().keys().cloned().collect();
        for (from, to) in ways {
            if from != to && (from == party || to == party) {
                self.set(&from, &to, faults);
            }
        }
    }

    /// Nothing goes between these and all others, in either direction.
    pub fn partition(&self, some: &[&str]) {
        let ways: Vec<(String, String)> = self.0.ways.lock().keys().cloned().collect();
        for (from, to) in ways {
            if some.contains(&from.as_str()) != some.contains(&to.as_str()) {
                self.set(&from, &to, &[Fault::Hang]);
            }
        }
    }

    /// All is well everywhere.
    pub fn heal(&self) {
        let ways: Vec<(String, String)> = self.0.ways.lock().keys().cloned().collect();
        for (from, to) in ways {
            self.set(&from, &to, &[]);
            self.way(&from, &to).single_out(None);
        }
    }

    /// Has every write seen when it is sent. What a witness says is a broken invariant.
    pub fn before_each_write(
        &self,
        witness: impl Fn(Write) -> BoxFuture<'static, Option<String>> + Send + Sync + 'static,
    ) {
        self.0.witnesses.lock().push(Arc::new(witness));
    }

    /// Waits until nothing was written for this long; fails if that never comes.
    pub async fn until_quiet(&self, quiet: Duration) {
        assert!(
            self.comes_to_rest(quiet).await,
            "no rest: something was written in each of {ATTEMPTS} times {quiet:?}\n{}",
            self.0.trace.told()
        );
    }

    /// Waits until nothing was written for this long; says whether that came.
    pub async fn comes_to_rest(&self, quiet: Duration) -> bool {
        for _ in 0..ATTEMPTS {
            let before = self.0.trace.count_writes();
            tokio::time::sleep(quiet).await;
            if self.0.trace.count_writes() == before {
                return true;
            }
        }
        false
    }

    pub(crate) fn server(&self, name: &str) -> io::Result<Router> {
        self.0.servers.lock().get(name).cloned().ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }

    pub(crate) fn is_notable(&self, write: &Write) -> bool {
        let notable = self.0.notable.lock().clone();
        notable(write)
    }

    pub(crate) fn note_write(&self, write: &Write) -> usize {
        self.0.trace.write_at(self.0.time.elapsed(), write.clone())
    }

    pub(crate) async fn ask_witnesses(&self, write: &Write) {
        let witnesses = self.0.witnesses.lock().clone();
        for witness in witnesses {
            if let Some(complaint) = witness(write.clone()).await {
                self.0.trace.complain_at(self.0.time.elapsed(), format!("{write}: {complaint}"));
            }
        }
    }
}
