//! The sync of everything: follows the CRDs beside the robot and keeps one pipeline for each that asks for it.

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use koinon_control::Clock;
use koinon_control::events::{self, Recorder};
use koinon_control::watch::{Cut, Sink};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::access::Access;
use crate::board::{Board, View};
use crate::definition::{Definition, Wire};
use crate::follow::{Source, follow};
use crate::gauges::Gauges;
use crate::keeper::Keeper;
use crate::metrics::Metrics;
use crate::names;
use crate::origin::{self, Memory};
use crate::presence::{Presence, Standing};
use crate::report::Reporter;
use crate::settings;

/// A robot's cluster that did not say who it is, is asked again after this time.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// So long the start waits to hear whether the robot's name is taken. Without a link it goes on: the robot is
/// offline, and what it knows stays as it is.
const ASK_FOR: Duration = Duration::from_secs(5);

/// How to sync.
#[derive(Clone, Debug)]
pub struct Options {
    /// The robot's name; may be empty where no CRD needs it.
    pub robot: String,
    /// How often both sides are listed again and compared.
    pub resync: Duration,
    /// Of a hundred copies of a CRD, so many may be deleted at once without confirmation.
    pub max_delete: u8,
    /// Writes at a time, for each CRD and direction.
    pub writes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { robot: String::new(), resync: Duration::from_secs(300), max_delete: 50, writes: 32 }
    }
}

/// A robot's name that no label could carry.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is no robot name: at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
)]
pub struct BadName(String);

/// Checks a robot's name: empty, or what a label can carry.
pub fn check_name(name: &str) -> Result<(), BadName> {
    let plain = |letter: char| letter.is_ascii_alphanumeric();
    let inner = |letter: char| plain(letter) || matches!(letter, '-' | '_' | '.');
    let ends = [name.chars().next(), name.chars().next_back()];
    if name.len() <= 63 && name.chars().all(inner) && ends.into_iter().flatten().all(plain) {
        Ok(())
    } else {
        Err(BadName(name.into()))
    }
}

/// Custom resources kept in step between the cloud and one robot.
pub struct Sync {
    options: Options,
    cloud: Access,
    robot: Access,
    clock: Clock,
    board: Arc<Board>,
    metrics: Metrics,
}

/// What is seen of a sync that runs, for as long as this lives.
struct Seen(Arc<Board>);

impl Drop for Seen {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// What can be seen of a sync from outside. It outlives the sync, so that replicas that take turns are seen as one.
#[derive(Clone, Default)]
pub struct Handle {
    board: Arc<Board>,
    metrics: Metrics,
}

impl Handle {
    /// Links, backlogs and problems of this moment.
    pub fn view(&self) -> View {
        self.board.view()
    }

    /// Adds everything that is counted to a registry.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
        registry.register_collector(Box::new(Gauges(self.board.clone())));
    }
}

impl Sync {
    /// A sync between two API servers, which does nothing until it is run.
    pub fn new(options: Options, cloud: Access, robot: Access, clock: Clock) -> Result<Sync, BadName> {
        check_name(&options.robot)?;
        let Handle { board, metrics } = Handle::default();
        Ok(Sync { options, cloud, robot, clock, board, metrics })
    }

    /// What can be seen of it.
    pub fn handle(&self) -> Handle {
        Handle { board: self.board.clone(), metrics: self.metrics.clone() }
    }

    /// Lets it be seen through this handle.
    pub fn seen_by(self, handle: Handle) -> Sync {
        Sync { board: handle.board, metrics: handle.metrics, ..self }
    }

    /// Syncs until `shutdown` is ready; when this returns, nothing of it runs any more.
    pub fn run<'a>(self, shutdown: impl Future<Output = ()> + Send + 'a) -> BoxFuture<'a, ()> {
        // Boxed here: then all of it is compiled once, with this crate, and not with every program that polls it.
        self.run_until(Box::pin(shutdown))
    }

    fn run_until<'a>(self, shutdown: BoxFuture<'a, ()>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            // Also if this is dropped because its turn is over: then others see to all that.
            let _seen = Seen(self.board.clone());
            let (recorder, writer) = events::recorder(self.robot.client(), "koinon-sync", self.clock.clone());
            let recorder = recorder.logged();
            let (standing, allowed) = watch::channel(Standing::Unknown);
            let crds = Arc::new(Crds::default());
            let mut tasks = JoinSet::new();
            tasks.spawn(writer.run());
            let (robot, board, seen, resync) =
                (self.robot.clone(), self.board.clone(), crds.clone(), self.options.resync);
            tasks.spawn(async move { match seen.follow(robot, &board, resync).await {} });
            if !self.options.robot.is_empty() {
                let presence =
                    (self.cloud.clone(), self.robot.clone(), self.clock.clone(), self.board.clone());
                let name = self.options.robot.clone();
                tasks.spawn(async move { be_present(presence, name, standing).await });
            }
            let mut engine = Engine {
                memories: [
                    Arc::new(Memory::new(self.robot.clone(), &self.options.robot)),
                    Arc::new(Memory::new(self.cloud.clone(), &self.options.robot)),
                ],
                sync: self,
                recorder,
                running: BTreeMap::new(),
                refused: BTreeMap::new(),
            };
            tokio::select! {
                biased;
                () = shutdown => {}
                () = engine.keep(&crds, allowed) => {}
                // None of them ends by itself, so one that did has panicked: that must not go unnoticed.
                Some(ended) = tasks.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        std::panic::resume_unwind(error.into_panic());
                    }
                }
            }
            engine.stop_all().await;
            tasks.shutdown().await;
        })
    }
}

async fn be_present(
    (cloud, robot, clock, board): (Access, Access, Clock, Arc<Board>),
    name: String,
    standing: watch::Sender<Standing>,
) {
    let cluster = loop {
        match origin::cluster(&robot).await {
            Ok(uid) => break uid,
            Err(error) => tracing::debug!(%error, "the robot's cluster could not be asked who it is"),
        }
        tokio::time::sleep(ASK_EVERY).await;
    };
    match (Presence { cloud, clock, robot: name, cluster, board, standing }).keep().await {}
}

/// The CRDs beside the robot.
#[derive(Default)]
struct Crds {
    known: Mutex<Option<BTreeMap<String, Wire>>>,
    changed: Notify,
}

impl Crds {
    async fn follow(&self, robot: Access, board: &Board, resync: Duration) -> std::convert::Infallible {
        let source = Source {
            access: robot,
            place: "robot",
            path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".into(),
            labels: None,
            resync,
            kick: Arc::default(),
        };
        follow(source, Hearing { crds: self, board, listing: BTreeMap::new() }).await
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Wire>)) {
        change(self.known.lock().get_or_insert_default());
        self.changed.notify_one();
    }
}

/// Takes in what the watch of the CRDs shows.
struct Hearing<'a> {
    crds: &'a Crds,
    board: &'a Board,
    listing: BTreeMap<String, Wire>,
}

impl Sink<Wire> for Hearing<'_> {
    fn begin_list(&mut self) {
        self.listing.clear();
    }

    fn list(&mut self, crd: Wire) {
        self.listing.insert(crd.metadata.name.clone(), crd);
    }

    fn end_list(&mut self, _version: u64) {
        let listed = std::mem::take(&mut self.listing);
        self.crds.change(|known| *known = listed);
    }

    fn apply(&mut self, crd: Wire) {
        self.crds.change(|known| drop(known.insert(crd.metadata.name.clone(), crd)));
    }

    fn delete(&mut self, crd: Wire) {
        self.crds.change(|known| drop(known.remove(&crd.metadata.name)));
    }

    fn answered(&mut self) {
        self.board.robot.reached();
    }

    fn cut(&mut self, cut: &Cut) {
        if cut.is_failure() {
            self.board.robot.failed(cut);
        }
    }
}

struct Engine {
    sync: Sync,
    recorder: Recorder,
    running: BTreeMap<String, Running>,
    /// What was wrong with the settings of CRDs that are not synced.
    refused: BTreeMap<String, String>,
    /// What is remembered beside the copies: on the robot of the cloud, and in the cloud of the robot.
    memories: [Arc<Memory>; 2],
}

struct Running {
    definition: Definition,
    /// One task. It goes with this: a sync that is dropped, because its turn is over, must not write any more.
    task: JoinSet<()>,
    confirmed: watch::Sender<Option<usize>>,
}

impl Engine {
    async fn keep(&mut self, crds: &Crds, mut standing: watch::Receiver<Standing>) {
        // The sender is gone only where there is no name to ask for.
        let _ =
            tokio::time::timeout(ASK_FOR, standing.wait_for(|standing| *standing != Standing::Unknown)).await;
        let mut told = None;
        loop {
            let taken = match &*standing.borrow_and_update() {
                Standing::Taken(by) => Some(by.clone()),
                Standing::Unknown | Standing::Ours => None,
            };
            let known = crds.known.lock().clone();
            if taken != told {
                self.tell_taken(taken.as_deref(), known.iter().flat_map(BTreeMap::values));
                told = taken.clone();
            }
            let known = if taken.is_some() { Some(BTreeMap::new()) } else { known };
            if let Some(known) = known {
                self.adjust(&known).await;
            }
            tokio::select! {
                biased;
                () = crds.changed.notified() => {}
                Ok(()) = standing.changed() => {}
            }
        }
    }

    /// Tells on every CRD that would be synced that another cluster has the robot's name.
    fn tell_taken<'a>(&self, by: Option<&str>, crds: impl Iterator<Item = &'a Wire>) {
        let Some(by) = by else { return };
        let robot = &self.sync.options.robot;
        for crd in crds.filter(|crd| matches!(settings::read(&crd.metadata.annotations, robot), Ok(Some(_))))
        {
            let reporter = self.reporter(&crd.metadata.name, &crd.metadata.uid);
            let message = format!(
                "cluster {by} syncs under the robot name {robot} already; nothing is synced here until it stops"
            );
            reporter.warn("RobotNameTaken", message);
        }
    }

    /// Starts and stops pipelines until they are those that the CRDs ask for.
    async fn adjust(&mut self, crds: &BTreeMap<String, Wire>) {
        let mut wanted = BTreeMap::new();
        let mut refused = BTreeMap::new();
        // The objects of a CRD that is going go with it: that says nothing about their counterparts.
        for (name, crd) in crds.iter().filter(|(_, crd)| !crd.is_terminating()) {
            match settings::read(&crd.metadata.annotations, &self.sync.options.robot) {
                Ok(None) => {}
                Ok(Some(settings)) => drop(wanted.insert(name.clone(), crd.define(settings))),
                Err(invalid) => drop(refused.insert(name.clone(), (crd, invalid))),
            }
        }
        let stale: Vec<String> = self
            .running
            .iter()
            .filter(|(name, running)| wanted.get(*name) != Some(&running.definition))
            .map(|(name, _)| name.clone())
            .collect();
        for name in stale {
            self.stop(&name).await;
        }
        self.refused.retain(|name, _| {
            let still = refused.contains_key(name);
            if !still {
                self.sync.board.leave(name);
            }
            still
        });
        for (name, (crd, invalid)) in refused {
            let message = format!("{name} is not synced: {invalid}");
            if self.refused.insert(name.clone(), message.clone()).as_ref() != Some(&message) {
                let reporter = self.reporter(&name, &crd.metadata.uid);
                reporter.problem(invalid.reason(), message);
                self.sync.board.enter(reporter);
            }
        }
        for (name, definition) in wanted {
            let confirmed = crds[&name].metadata.annotations.get(names::CONFIRM_DELETES);
            let confirmed = confirmed.and_then(|count| count.trim().parse().ok());
            match self.running.get(&name) {
                Some(running) => {
                    running.confirmed.send_if_modified(|now| std::mem::replace(now, confirmed) != confirmed);
                }
                None => drop(self.running.insert(name, self.start(definition, confirmed))),
            }
        }
    }

    fn reporter(&self, crd: &str, uid: &str) -> Reporter {
        Reporter::new(self.recorder.clone(), self.sync.metrics.clone(), crd, uid)
    }

    fn start(&self, definition: Definition, confirmed: Option<usize>) -> Running {
        tracing::info!(kind = names::CRD, name = definition.name, reason = "SyncBegun", source = ?definition.settings.source, "sync begins");
        let (sender, receiver) = watch::channel(confirmed);
        let reporter = self.reporter(&definition.name, &definition.uid);
        self.sync.board.enter(reporter.clone());
        let keeper = Keeper {
            definition: definition.clone(),
            options: self.sync.options.clone(),
            cloud: self.sync.cloud.clone(),
            robot: self.sync.robot.clone(),
            board: self.sync.board.clone(),
            metrics: self.sync.metrics.clone(),
            memories: self.memories.clone(),
            reporter,
            confirmed: receiver,
        };
        let mut task = JoinSet::new();
        task.spawn(keeper.keep());
        Running { definition, task, confirmed: sender }
    }

    async fn stop(&mut self, name: &str) {
        let Some(mut running) = self.running.remove(name) else { return };
        tracing::info!(kind = names::CRD, name, reason = "SyncEnded", "sync ends");
        running.task.abort_all();
        while let Some(ended) = running.task.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        self.sync.board.leave(name);
    }

    async fn stop_all(&mut self) {
        let names: Vec<String> = self.running.keys().cloned().collect();
        for name in names {
            self.stop(&name).await;
        }
    }
}
