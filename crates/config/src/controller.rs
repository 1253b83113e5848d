//! The federator: follows this cluster and its members, plans after every change, and carries plans out.
//!
//! One task decides. Each member has a task of its own that follows it, and at most one batch of writes on its
//! way; so a member that hangs costs its own batch and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use koinon_control::{Clock, Key, events, permission};
use kube::Client;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::call::Failure;
use crate::connect::Connect;
use crate::definition::{self, Definition};
use crate::follow::{Pace, What};
use crate::here::Own;
use crate::kinds::{self, Named, Served};
use crate::lease::Keeper;
use crate::link::{Follower, Link};
use crate::memory::{self, Memory};
use crate::metrics::Metrics;
use crate::model::Kind;
use crate::plan::{Lead, Outcome, Plan, Write, plan};
use crate::report::Reporter;
use crate::rivals::Rivals;
use crate::site::Site;
use crate::write::carry_out;

/// How patient the federator is.
#[derive(Clone, Debug)]
pub struct Options {
    /// Every single call has an answer by then, or none.
    pub deadline: Duration,
    /// Clusters are looked at this often even if nothing seems to happen.
    pub probe_every: Duration,
    /// So long after its last renewal the Lease of the leader counts as given up.
    pub lease_duration: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            deadline: Duration::from_secs(5),
            probe_every: Duration::from_secs(10),
            lease_duration: Duration::from_secs(30),
        }
    }
}

/// Federates the configuration of one cluster, if that cluster leads.
pub struct Config {
    options: Options,
    client: Client,
    connect: Connect,
    clock: Clock,
    metrics: Metrics,
    lead: watch::Sender<Lead>,
}

impl Config {
    /// A federator beside the cluster that `client` talks to.
    pub fn new(options: Options, client: Client, connect: Connect, clock: Clock) -> Config {
        // What is forbidden in a member is told in the status; much of what is here would not be: events, the Lease.
        let client = permission::telling(client, "this one");
        let (metrics, lead) = (Metrics::default(), watch::Sender::new(Lead::Undecided));
        Config { options, client, connect, clock, metrics, lead }
    }

    /// Counts there.
    pub fn metrics(self, metrics: Metrics) -> Config {
        Config { metrics, ..self }
    }

    /// Tells there whether this cluster leads; undecided once the federator has ended.
    pub fn telling(self, lead: watch::Sender<Lead>) -> Config {
        Config { lead, ..self }
    }

    /// Whether this cluster leads, for whoever follows that.
    pub fn lead(&self) -> watch::Receiver<Lead> {
        self.lead.subscribe()
    }

    /// Federates until `shutdown` is ready; when this returns, nothing of it runs any more.
    pub fn run<'a>(self, shutdown: impl Future<Output = ()> + Send + 'a) -> BoxFuture<'a, ()> {
        // Boxed here: then all of it is compiled once, with this crate, and not with every program that polls it.
        self.run_until(Box::pin(shutdown))
    }

    fn run_until<'a>(self, shutdown: BoxFuture<'a, ()>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let _silent = Silence(&self.lead);
            let pace = Pace { deadline: self.options.deadline, every: self.options.probe_every };
            let wake = Arc::new(Notify::new());
            let mut tasks: JoinSet<()> = JoinSet::new();
            let site = Site::new(What::clusters(None), Vec::new());
            let client = self.client.clone();
            let dial = Arc::new(move || -> BoxFuture<'static, _> {
                Box::pin(std::future::ready(Ok(client.clone())))
            });
            tasks.spawn(site.clone().keep(dial, wake.clone(), pace));
            let lease = |config: &Config| Keeper {
                client: config.client.clone(),
                clock: config.clock.clone(),
                duration: config.options.lease_duration,
                deadline: config.options.deadline,
            };
            let memory = watch::Sender::new(None);
            let (keeper, lead, remembered) = (lease(&self), self.lead.subscribe(), memory.subscribe());
            tasks.spawn(async move { keeper.run(lead, remembered).await });
            let (recorder, writer) =
                events::recorder(self.client.clone(), "amko-federator", self.clock.clone());
            let recorder = recorder.logged();
            tasks.spawn(writer.run());

            let mut federator = Federator {
                own: Own::new(site),
                memory,
                links: BTreeMap::new(),
                opened: 0,
                tasks,
                reporter: Reporter::new(self.client.clone(), recorder, self.options.deadline),
                running: FuturesUnordered::new(),
                start: Instant::now(),
                pace,
                wake: wake.clone(),
                config: &self,
            };
            let mut shutdown = std::pin::pin!(shutdown);
            loop {
                let again_at = federator.turn();
                let wait = async {
                    match again_at {
                        Some(at) => tokio::time::sleep_until(federator.start + at).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = &mut shutdown => break,
                    // They end when they are called off, and otherwise only by a panic: that must not go unnoticed.
                    Some(ended) = federator.tasks.join_next() => {
                        if let Err(error) = ended && error.is_panic() {
                            std::panic::resume_unwind(error.into_panic());
                        }
                    }
                    Some(done) = federator.running.next(), if !federator.running.is_empty() => federator.finish(done),
                    () = wait => {}
                    () = wake.notified() => {}
                }
            }
            federator.running.clear();
            federator.tasks.shutdown().await;
            drop(federator);
            if matches!(*self.lead.borrow(), Lead::As(_)) {
                // Whoever follows the Lease need not wait for its end.
                let _ = lease(&self).write(&Lead::No, None).await;
            }
        })
    }
}

/// A federator that has ended, however that came, says nothing about who leads.
struct Silence<'a>(&'a watch::Sender<Lead>);

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        self.0.send_replace(Lead::Undecided);
    }
}

/// Something that was on its way.
pub(crate) enum Done {
    /// Writes to a member; none if they were called off.
    Written {
        member: String,
        link: u64,
        outcomes: Option<Vec<(Write, Outcome)>>,
    },
    Told {
        key: Key,
        outcome: Outcome,
    },
    Discovered {
        named: Named,
        answer: Result<Served, String>,
    },
    Recalled(Result<(Memory, Rivals), Failure>),
    Defined {
        question: (Kind, u64),
        answer: Result<Definition, String>,
    },
}

struct Federator<'a> {
    own: Own,
    /// What the next process has to know.
    memory: watch::Sender<Option<Memory>>,
    links: BTreeMap<String, Link>,
    /// How many connections there were.
    opened: u64,
    tasks: JoinSet<()>,
    reporter: Reporter,
    running: FuturesUnordered<BoxFuture<'a, Done>>,
    start: Instant,
    pace: Pace,
    wake: Arc<Notify>,
    config: &'a Config,
}

impl Federator<'_> {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Plans, and starts what was planned; gives when to do so again at the latest.
    fn turn(&mut self) -> Option<Duration> {
        let now = self.now();
        self.own.look();
        self.ask(now);
        let mut planned = self.plan(now);
        if self.reconnect(&planned) {
            planned = self.plan(now);
        }
        self.own.remember(&planned);
        let memory = self.own.evidence.memory();
        self.memory.send_if_modified(|kept| {
            *kept != memory && {
                *kept = memory;
                true
            }
        });
        self.config.metrics.planned(&planned, self.links.len());
        self.lead(&planned);
        self.write(&planned);
        let mut retry_at = None;
        // What we said last has to be seen first, or it would be said twice.
        if self.own.site().clusters().is_settled() {
            let reports = self.reporter.reports(&planned, self.own.clusters(), now);
            retry_at = reports.again_at;
            self.running.extend(reports.calls);
        }
        let asking = [self.own.kinds_again_at(), self.own.evidence.again_at()];
        [planned.again_at, retry_at].into_iter().chain(asking).flatten().min()
    }

    /// Asks this cluster for what has to be known of it besides what is followed.
    fn ask(&mut self, now: Duration) {
        let (client, deadline) = (&self.config.client, self.pace.deadline);
        for named in self.own.unknown_kinds(now) {
            self.running.push(Box::pin(async move {
                let answer = kinds::discover(client, &named, deadline).await;
                Done::Discovered { named, answer }
            }));
        }
        if self.own.evidence.recall(now) {
            self.running
                .push(Box::pin(async move { Done::Recalled(memory::recall(client, deadline).await) }));
        }
        for question in self.own.evidence.questions(now) {
            self.running.push(Box::pin(async move {
                let answer = definition::ask(client, &question.0, deadline).await;
                Done::Defined { question, answer: answer.map_err(|failure| failure.to_string()) }
            }));
        }
    }

    fn plan(&self, now: Duration) -> Plan {
        let kinds: Vec<Kind> = self.own.kinds().map(|(kind, _)| kind.clone()).collect();
        let members =
            self.links.iter().map(|(name, link)| (name.clone(), link.member(&kinds, now))).collect();
        plan(now, &self.own.here(), &members)
    }

    /// Makes and drops connections as planned; says whether there were any to make or drop.
    fn reconnect(&mut self, plan: &Plan) -> bool {
        let Some(wanted) = &plan.connect else { return false };
        let contexts = self.own.contexts();
        let before = self.links.len();
        // Credentials that changed are a new connection.
        self.links.retain(|name, link| {
            let context = contexts.and_then(|contexts| contexts.get(name));
            wanted.contains(name) && context.is_some_and(|context| context.fingerprint == link.fingerprint)
        });
        let mut changed = self.links.len() != before;
        for name in wanted {
            if self.links.contains_key(name) {
                continue;
            }
            let Some(context) = contexts.and_then(|contexts| contexts.get(name)) else { continue };
            self.opened += 1;
            let connect = &self.config.connect;
            let follower = Follower { name, connect, wake: &self.wake, pace: self.pace };
            let link = Link::open(self.opened, context, &follower, &mut self.tasks);
            self.links.insert(name.clone(), link);
            changed = true;
        }
        let whats: Vec<What> = self.own.served_kinds().map(What::objects).collect();
        for link in self.links.values() {
            link.site.follow_also(&whats);
        }
        changed
    }

    fn lead(&self, plan: &Plan) {
        if plan.lead != Lead::Undecided {
            self.config.lead.send_if_modified(|lead| {
                let news = *lead != plan.lead;
                lead.clone_from(&plan.lead);
                news
            });
        }
    }

    fn write(&mut self, plan: &Plan) {
        if plan.lead == Lead::No {
            for link in self.links.values_mut() {
                link.call_off();
            }
        }
        for (name, writes) in &plan.writes {
            let Some(link) = self.links.get_mut(name) else { continue };
            let Some(client) = link.site.client() else { continue };
            let (deadline, writes) = (self.pace.deadline, writes.clone());
            let Some(batch) = link.begin(async move { carry_out(&client, writes, deadline).await }) else {
                continue;
            };
            let (member, link) = (name.clone(), link.number);
            self.running
                .push(Box::pin(async move { Done::Written { member, link, outcomes: batch.await.ok() } }));
        }
    }

    fn finish(&mut self, done: Done) {
        let now = self.now();
        match done {
            Done::Written { member, link, outcomes } => {
                for (_, outcome) in outcomes.iter().flatten() {
                    self.config.metrics.wrote(outcome);
                }
                // A connection that was replaced meanwhile starts from nothing.
                if let Some(known) = self.links.get_mut(&member).filter(|known| known.number == link) {
                    known.end(outcomes, now);
                }
            }
            Done::Told { key, outcome } => {
                self.reporter.told(&key, &outcome, now);
                self.own.site().clusters().wrote();
            }
            Done::Discovered { named, answer } => {
                self.own.kind_found(named, answer, now + self.pace.every);
            }
            Done::Recalled(answer) => self.own.recalled(answer, now),
            Done::Defined { question, answer } => {
                self.own.evidence.answered(question, answer, now, self.pace.every);
            }
        }
    }
}
