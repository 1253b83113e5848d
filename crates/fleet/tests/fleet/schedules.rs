//! Three supervisors, five members, and whatever befalls them: never two leaders of one member at once, always one again soon, and no
//! harm from what a leader sent before it lost its place.
//!
//! `KOINON_SEEDS=200` runs more schedules, `KOINON_SEED=17` one alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use koinon_fleet::election::{Campaign, Fence, Timing, while_leading};
use koinon_simulation::{Exploration, Fault, Network, Requests, Site, Trace, Write, explore, replay, seeds};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

const SCHEDULES: u64 = 25;
const SUPERVISORS: [&str; 3] = ["x", "y", "z"];
const MEMBERS: [&str; 5] = ["a", "b", "c", "d", "e"];
const TICK: Duration = Duration::from_secs(2);
/// How often a leader writes.
const STROKE: Duration = Duration::from_secs(3);
/// What was sent into the silence is given up after this long.
const CALL: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
struct Schedule {
    chances: u64,
    /// By how many seconds the clocks of the supervisors are wrong.
    clocks: [i64; 3],
    /// What happens, and for how many seconds nothing does afterwards.
    steps: Vec<(Step, u64)>,
}

#[derive(Clone, Debug)]
enum Step {
    Kill(usize),
    /// It ends as it should, and gives back what it leads.
    Leave(usize),
    Start(usize),
    /// It does nothing for so many seconds, and knows nothing of it.
    Freeze(usize, u64),
    Faults(usize, usize, Vec<Fault>),
    Heal(usize, usize),
    /// Nothing goes between a supervisor and all members.
    Isolate(usize),
    /// The same for whoever leads a member.
    IsolateLeader(usize),
    KillLeader(usize),
    FreezeLeader(usize, u64),
    HealAll,
}

fn schedules() -> impl Strategy<Value = Schedule> + Clone {
    let clock = || select(vec![0i64, 1, -40, 3_600, -86_400]);
    let pauses = select(vec![0u64, 1, 4, 12, 28, 45, 90]);
    (any::<u64>(), [clock(), clock(), clock()], vec((step(), pauses), 1..=20))
        .prop_map(|(chances, clocks, steps)| Schedule { chances, clocks, steps })
}

fn step() -> impl Strategy<Value = Step> + Clone {
    let supervisor = || 0..SUPERVISORS.len();
    let member = || 0..MEMBERS.len();
    let frozen = || select(vec![3u64, 15, 25, 31, 60, 120]);
    let late = select(vec![2u64, 9, 25, 45]).prop_map(Duration::from_secs);
    let faults = prop_oneof![
        Just(vec![Fault::Cut]),
        Just(vec![Fault::Hang]),
        (1u64..9_000).prop_map(|millis| vec![Fault::Delay(Duration::from_millis(millis))]),
        (1u32..4).prop_map(|one_in| vec![
            Fault::Refuse { what: Requests::Any, code: 503, one_in: one_in + 1 },
            Fault::Refuse { what: Requests::Writes, code: 409, one_in: 4 * one_in },
            Fault::Lose { one_in },
        ]),
        (late, 1u32..4).prop_map(|(by, one_in)| vec![Fault::Late { by, one_in }]),
    ];
    prop_oneof![
        1 => supervisor().prop_map(Step::Kill),
        1 => supervisor().prop_map(Step::Leave),
        4 => supervisor().prop_map(Step::Start),
        1 => (supervisor(), frozen()).prop_map(|(supervisor, seconds)| Step::Freeze(supervisor, seconds)),
        4 => (supervisor(), member(), faults).prop_map(|(from, to, faults)| Step::Faults(from, to, faults)),
        2 => (supervisor(), member()).prop_map(|(from, to)| Step::Heal(from, to)),
        1 => supervisor().prop_map(Step::Isolate),
        1 => member().prop_map(Step::IsolateLeader),
        2 => member().prop_map(Step::KillLeader),
        3 => (member(), frozen()).prop_map(|(member, seconds)| Step::FreezeLeader(member, seconds)),
        2 => Just(Step::HealAll),
    ]
}

#[test]
fn never_two_leaders_and_always_one_again() {
    let exploration = Exploration { name: "elections", seeds: seeds(SCHEDULES), schedules: schedules() };
    explore(&exploration, run);
}

#[test]
fn a_schedule_that_is_run_again_goes_the_same_way() {
    let mut runner = TestRunner::deterministic();
    for _ in 0..3 {
        let schedule = schedules().new_tree(&mut runner).unwrap().current();
        let first = replay(schedule.clone(), run).timeline();
        assert!(first == replay(schedule.clone(), run).timeline(), "two runs of {schedule:?} differ");
    }
}

async fn run(schedule: Schedule, trace: Trace) {
    let mut world = World::new(&schedule, &trace).await;
    for supervisor in SUPERVISORS {
        world.start(supervisor);
    }
    for (number, (step, pause)) in schedule.steps.iter().enumerate() {
        world.network.note(format!("{number}: {step:?}"));
        world.take(step).await;
        world.pass(Duration::from_secs(*pause)).await;
    }
    world.settle().await;
}

/// Who leads whom at the moment, as they believe themselves.
#[derive(Clone, Default)]
struct Board(Arc<Mutex<Leading>>);

#[derive(Default)]
struct Leading {
    fences: BTreeMap<(&'static str, &'static str), Fence>,
    terms: u64,
}

/// Strikes a leader off when its work ends, however it ends.
struct Working(Board, (&'static str, &'static str));

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.lock().fences.remove(&self.1);
    }
}

impl Board {
    fn leaders(&self, member: &str) -> Vec<&'static str> {
        let board = self.0.lock();
        let of_member = board.fences.iter().filter(|((_, of), fence)| *of == member && fence.holds());
        of_member.map(|((leader, _), _)| *leader).collect()
    }

    /// What is wrong with a write that a leader sends now.
    fn judge(&self, write: &Write) -> Option<String> {
        let leaders = self.leaders(&write.to);
        let is_work = write.path.contains("/configmaps");
        let is_wrong = leaders.len() > 1 || is_work && leaders != [write.from.as_str()];
        is_wrong.then(|| format!("{leaders:?} lead"))
    }

    /// What a leader does: it counts, and says in which of all terms.
    async fn work(self, supervisor: &'static str, member: &'static str, client: Client, fence: Fence) {
        let term = {
            let mut board = self.0.lock();
            board.fences.insert((supervisor, member), fence.clone());
            board.terms += 1;
            board.terms
        };
        let _working = Working(self.clone(), (supervisor, member));
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        loop {
            // Whatever comes of it is seen at the next look.
            let _ = timeout(CALL, count(&maps, term, &fence)).await;
            sleep(STROKE).await;
        }
    }
}

/// Counts one further, if that is right when what is there is known.
async fn count(maps: &Api<ConfigMap>, term: u64, fence: &Fence) -> kube::Result<()> {
    let before = maps.get_opt("work").await?;
    if !fence.holds() {
        return Ok(());
    }
    let count = before.as_ref().map_or(0, |map| number(map, "count")) + 1;
    let data = [("count", count), ("term", term)].map(|(name, value)| (name.to_owned(), value.to_string()));
    let metadata = before
        .as_ref()
        .map(|map| map.metadata.clone())
        .unwrap_or_else(|| ObjectMeta { name: Some("work".into()), ..ObjectMeta::default() });
    let map = ConfigMap { metadata, data: Some(data.into()), ..ConfigMap::default() };
    let params = PostParams::default();
    match before {
        Some(_) => maps.replace("work", &params, &map).await.map(drop),
        None => maps.create(&params, &map).await.map(drop),
    }
}

fn number(map: &ConfigMap, name: &str) -> u64 {
    map.data.as_ref().and_then(|data| data.get(name)).and_then(|text| text.parse().ok()).unwrap_or(0)
}

struct Process {
    frozen: watch::Sender<bool>,
    end: watch::Sender<bool>,
    task: JoinHandle<()>,
}

struct World {
    network: Network,
    sites: BTreeMap<&'static str, Site>,
    clocks: [i64; 3],
    board: Board,
    processes: BTreeMap<&'static str, Process>,
    thaws: BTreeMap<&'static str, Instant>,
    /// Since when a supervisor could do all that is expected of it in a member.
    able: BTreeMap<(&'static str, &'static str), Option<Instant>>,
    broken: BTreeMap<(&'static str, &'static str), bool>,
    /// The version of each member's lease, and since when.
    leases: BTreeMap<&'static str, (Option<String>, Instant)>,
    terms: BTreeMap<&'static str, u64>,
}

impl World {
    async fn new(schedule: &Schedule, trace: &Trace) -> World {
        let network = Network::new(schedule.chances, trace);
        let mut sites = BTreeMap::new();
        for (seed, name) in (1..).zip(MEMBERS) {
            let site = Site::open(seed, &network.time().clock()).await;
            network.serve(name, site.router());
            sites.insert(name, site);
        }
        let board = Board::default();
        let judge = board.clone();
        network.before_each_write(move |write| {
            let verdict = judge.judge(&write);
            async move { verdict }.boxed()
        });
        World {
            network,
            sites,
            clocks: schedule.clocks,
            board,
            processes: BTreeMap::new(),
            thaws: BTreeMap::new(),
            able: BTreeMap::new(),
            broken: BTreeMap::new(),
            leases: BTreeMap::new(),
            terms: BTreeMap::new(),
        }
    }

    fn start(&mut self, supervisor: &'static str) {
        if self.processes.contains_key(supervisor) {
            return;
        }
        let wrong =
            SUPERVISORS.iter().position(|one| *one == supervisor).map_or(0, |index| self.clocks[index]);
        let clock = self.network.time().skewed(SignedDuration::from_secs(wrong));
        let (end, ended) = watch::channel(false);
        let (frozen, mut freezes) = watch::channel(false);
        let campaigns = MEMBERS.map(|member| {
            let client = self.network.client(supervisor, member);
            let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
            let campaign = Campaign::new(leases, member, supervisor, Timing::default(), clock.clone());
            let (board, mut ended) = (self.board.clone(), ended.clone());
            while_leading(campaign, async move { drop(ended.wait_for(|end| *end).await) }, move |fence| {
                board.clone().work(supervisor, member, client.clone(), fence)
            })
        });
        let task = tokio::spawn(async move {
            let mut work = std::pin::pin!(join_all(campaigns));
            loop {
                let _ = freezes.wait_for(|frozen| !frozen).await;
                tokio::select! {
                    biased;
                    _ = freezes.wait_for(|frozen| *frozen) => {}
                    _ = &mut work => return,
                }
            }
        });
        self.processes.insert(supervisor, Process { frozen, end, task });
    }

    async fn kill(&mut self, supervisor: &'static str) {
        let Some(process) = self.processes.remove(supervisor) else { return };
        process.task.abort();
        // It ends by being cut off, which counts as an error.
        let _ = process.task.await;
    }

    fn freeze(&mut self, supervisor: &'static str, seconds: u64) {
        if let Some(process) = self.processes.get(supervisor) {
            process.frozen.send_replace(true);
            self.thaws.insert(supervisor, Instant::now() + Duration::from_secs(seconds));
        }
    }

    fn set(&mut self, supervisor: &'static str, member: &'static str, faults: &[Fault]) {
        self.network.set(supervisor, member, faults);
        self.broken.insert((supervisor, member), !faults.is_empty());
    }

    fn isolate(&mut self, supervisor: &'static str) {
        for member in MEMBERS {
            self.set(supervisor, member, &[Fault::Hang]);
        }
    }

    fn heal(&mut self) {
        for supervisor in SUPERVISORS {
            for member in MEMBERS {
                self.set(supervisor, member, &[]);
            }
        }
    }

    async fn take(&mut self, step: &Step) {
        let leader = |member: &usize| self.board.leaders(MEMBERS[*member]).first().copied();
        match step {
            Step::Kill(supervisor) => self.kill(SUPERVISORS[*supervisor]).await,
            Step::Leave(supervisor) => {
                if let Some(process) = self.processes.get(SUPERVISORS[*supervisor]) {
                    process.end.send_replace(true);
                }
            }
            Step::Start(supervisor) => self.start(SUPERVISORS[*supervisor]),
            Step::Freeze(supervisor, seconds) => self.freeze(SUPERVISORS[*supervisor], *seconds),
            Step::Faults(from, to, faults) => self.set(SUPERVISORS[*from], MEMBERS[*to], faults),
            Step::Heal(from, to) => self.set(SUPERVISORS[*from], MEMBERS[*to], &[]),
            Step::Isolate(supervisor) => self.isolate(SUPERVISORS[*supervisor]),
            Step::IsolateLeader(member) => {
                if let Some(leader) = leader(member) {
                    self.isolate(leader);
                }
            }
            Step::KillLeader(member) => {
                if let Some(leader) = leader(member) {
                    self.kill(leader).await;
                }
            }
            Step::FreezeLeader(member, seconds) => {
                if let Some(leader) = leader(member) {
                    self.freeze(leader, *seconds);
                }
            }
            Step::HealAll => self.heal(),
        }
    }

    /// Lets time pass, and looks all the while.
    async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            let now = Instant::now();
            for supervisor in SUPERVISORS {
                if self.thaws.get(supervisor).is_some_and(|thaw| *thaw <= now) {
                    self.thaws.remove(supervisor);
                    if let Some(process) = self.processes.get(supervisor) {
                        self.network.note(format!("{supervisor} goes on"));
                        process.frozen.send_replace(false);
                    }
                }
            }
            self.processes.retain(|_, process| !process.task.is_finished());
            self.look().await;
            if now >= end {
                return;
            }
            sleep(TICK).await;
        }
    }

    async fn look(&mut self) {
        let now = Instant::now();
        for member in MEMBERS {
            let leaders = self.board.leaders(member);
            assert!(leaders.len() <= 1, "{leaders:?} lead {member} at once");
            let lease = self.lease(member).await.and_then(|lease| lease.metadata.resource_version);
            let known = self.leases.entry(member).or_insert((None, now));
            if known.0 != lease {
                *known = (lease, now);
            }
            let renewed = known.1;
            for supervisor in SUPERVISORS {
                let process = self.processes.get(supervisor);
                let runs = process.is_some_and(|process| !*process.frozen.borrow() && !*process.end.borrow());
                let broken = self.broken.get(&(supervisor, member)).copied().unwrap_or(false);
                let able = self.able.entry((supervisor, member)).or_default();
                *able = (runs && !broken).then(|| able.unwrap_or(now));
                // Whoever can sees a lease that nobody renews within a retry, and takes it when it is over.
                let Some(able) = *able else { continue };
                let timing = Timing::default();
                let patience = timing.lease_duration + timing.retry_period + 2 * TICK;
                let waits = now.duration_since(renewed.max(able + CALL));
                assert!(waits <= patience, "{supervisor} could lead {member}, and nobody did for {waits:?}");
            }
            let maps: Api<ConfigMap> = Api::namespaced(self.sites[member].client(), "default");
            if let Some(map) = maps.get_opt("work").await.unwrap() {
                let (term, last) = (number(&map, "term"), self.terms.entry(member).or_default());
                assert!(
                    term >= *last,
                    "in {member} what was written in term {last} was overwritten by term {term}"
                );
                *last = term;
            }
        }
    }

    async fn lease(&self, member: &str) -> Option<Lease> {
        let leases: Api<Lease> = Api::namespaced(self.sites[member].client(), "kube-system");
        leases.get_opt(member).await.unwrap()
    }

    /// When all is well again, every member has one leader, who works and stays.
    async fn settle(&mut self) {
        self.network.note("all is well");
        self.heal();
        for thaw in self.thaws.values_mut() {
            *thaw = Instant::now();
        }
        // Those who are asked to end do so first.
        self.pass(2 * CALL).await;
        for supervisor in SUPERVISORS {
            self.start(supervisor);
        }
        self.pass(Duration::from_secs(60)).await;
        let before = self.standing().await;
        self.pass(Duration::from_secs(60)).await;
        let after = self.standing().await;
        for (member, (leader, count)) in &after {
            let (led, counted) = &before[member];
            assert_eq!(leader, led, "the leader of {member} changes although all is well");
            assert!(count > counted, "{leader} leads {member} and does nothing");
        }
    }

    /// The leader of each member, and how far it has counted.
    async fn standing(&self) -> BTreeMap<&'static str, (String, u64)> {
        let mut standing = BTreeMap::new();
        for member in MEMBERS {
            let leaders = self.board.leaders(member);
            let holder = self.lease(member).await.and_then(|lease| lease.spec?.holder_identity);
            assert_eq!(
                leaders,
                [holder.as_deref().unwrap_or_default()],
                "who leads {member} is who holds its lease"
            );
            let maps: Api<ConfigMap> = Api::namespaced(self.sites[member].client(), "default");
            let count = number(&maps.get("work").await.unwrap(), "count");
            standing.insert(member, (holder.unwrap_or_default(), count));
        }
        standing
    }
}
