//! Several processes of one role, of which one works at a time.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use koinon_fleet::election::{Campaign, Timing, while_leading};
use koinon_fleet::member::{Away, Failure};
use kube::Api;
use kube::api::{ObjectMeta, Patch};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::harness::{Cluster, Mode, Wire, World};

/// Who works at the moment.
#[derive(Clone, Default)]
struct Board(Arc<Mutex<Vec<&'static str>>>);

/// Strikes a worker off when its work ends, however it ends.
struct Working(Board, &'static str);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.lock().retain(|one| *one != self.1);
    }
}

impl Board {
    async fn work(self, name: &'static str) {
        self.0.lock().push(name);
        let _working = Working(self.clone(), name);
        assert!(self.0.lock().len() == 1, "{:?} work at once", self.0.lock());
        std::future::pending().await
    }

    async fn until(&self, wanted: &[&str]) -> Duration {
        let start = Instant::now();
        while *self.0.lock() != wanted {
            assert!(start.elapsed() < Duration::from_secs(300), "{:?} instead of {wanted:?}", self.0.lock());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        start.elapsed()
    }
}

struct Process {
    wire: Wire,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

fn start(cluster: &Cluster, name: &'static str, board: &Board) -> Process {
    let wire = cluster.wire();
    let leases: Api<Lease> = Api::namespaced(wire.link(), "kube-system");
    let campaign = Campaign::new(leases, "role", name, Timing::default(), cluster.clock.clone());
    let (end, ended) = oneshot::channel();
    let board = board.clone();
    let task = tokio::spawn(async move {
        while_leading(campaign, async { drop(ended.await) }, |_| board.clone().work(name)).await;
    });
    Process { wire, end, task }
}

#[tokio::test(start_paused = true)]
async fn one_works_and_another_follows_it() {
    let (cluster, board) = (Cluster::new(1).await, Board::default());
    let a = start(&cluster, "a", &board);
    board.until(&["a"]).await;
    let b = start(&cluster, "b", &board);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(*board.0.lock(), ["a"]);

    // Cut off from the server, a stops before b begins.
    a.wire.set(Mode::Silent);
    let stopped = board.until(&[]).await;
    assert!(stopped <= Duration::from_secs(20), "{stopped:?}");
    let followed = stopped + board.until(&["b"]).await;
    assert!(followed <= Duration::from_secs(36), "{followed:?}");
    a.wire.set(Mode::Up);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*board.0.lock(), ["b"]);

    // Asked to end, b gives the lease back, and a need not wait for it to run out.
    drop(b.end);
    b.task.await.unwrap();
    assert!(*board.0.lock() != ["b"]);
    let followed = board.until(&["a"]).await;
    assert!(followed <= Duration::from_secs(6), "{followed:?}");
    drop(a.end);
    a.task.await.unwrap();
}

/// A lease may be much shorter than a call waits for its answer: what a leader writes is over before another can lead.
#[tokio::test(start_paused = true)]
async fn no_write_outlasts_the_right_to_it() {
    let world = World::new(&["a"]).await;
    world.until_reachable().await;
    let member = world.fleet.get("a").unwrap();
    let timing = Timing {
        lease_duration: Duration::from_secs(5),
        renew_deadline: Duration::from_secs(4),
        retry_period: Duration::from_secs(1),
    };
    timing.check().unwrap();
    let wire = world["a"].wire();
    let leases: Api<Lease> = Api::namespaced(wire.link(), "kube-system");
    let campaign = Campaign::new(leases, "role", "me", timing, world["a"].clock.clone());
    let mut leadership = campaign.leadership();
    tokio::spawn(campaign.run(std::future::pending()));
    let led = leadership.wait_for(|now| now.fence.is_some()).await.unwrap().clone();
    let fence = led.fence.unwrap();
    let client = member.client().under(&fence);
    let api = client.namespaced::<ConfigMap>("default");
    let write = async |name: &str| {
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        client.call(api.create(&Default::default(), &map)).await.map_err(|error| error.failure)
    };
    write("first").await.unwrap();

    // Neither renewals nor writes are answered from here on.
    wire.set(Mode::Silent);
    world["a"].wire.set(Mode::Silent);
    let until = fence.until();
    let cut = write("cut").await.unwrap_err();
    assert!(matches!(cut, Failure::Away(Away::NoAnswer(within)) if within <= timing.renew_deadline), "{cut}");
    assert!(Instant::now() <= until && until <= fence.until(), "it ended late");
    // And nothing is sent once the right is over, however well the member is.
    world["a"].wire.set(Mode::Up);
    tokio::time::sleep_until(fence.until()).await;
    let late = write("late").await.unwrap_err();
    assert!(matches!(late, Failure::Away(Away::NotLed)), "{late}");
    assert!(!world["a"].has("late").await && world["a"].has("first").await);
    // To look is always right.
    world.until("it is read again", || member.is_reachable()).await;
    client.call(api.get("first")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_short_trouble_does_not_end_a_leadership() {
    let (cluster, board) = (Cluster::new(1).await, Board::default());
    let a = start(&cluster, "a", &board);
    board.until(&["a"]).await;
    let _b = start(&cluster, "b", &board);
    for mode in [Mode::Cut, Mode::Answers(500), Mode::Answers(503)] {
        a.wire.set(mode);
        tokio::time::sleep(Duration::from_secs(12)).await;
        a.wire.set(Mode::Up);
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert_eq!(*board.0.lock(), ["a"], "{mode:?}");
    }
    // A lease that somebody deleted is made again.
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "kube-system");
    leases.delete("role", &Default::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(board.0.lock().len(), 1);
    assert!(leases.get_opt("role").await.unwrap().is_some());
}

/// As after a renewal that arrived, and whose answer nobody waited for any more.
#[tokio::test(start_paused = true)]
async fn a_lease_that_changed_a_moment_ago_is_given_back() {
    let (cluster, board) = (Cluster::new(1).await, Board::default());
    let a = start(&cluster, "a", &board);
    board.until(&["a"]).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "kube-system");
    let holder = async || leases.get("role").await.unwrap().spec.unwrap().holder_identity;
    let change = serde_json::json!({"metadata": {"annotations": {"changed": "just now"}}});
    leases.patch("role", &Default::default(), &Patch::Merge(change)).await.unwrap();
    assert_eq!(holder().await.as_deref(), Some("a"));
    drop(a.end);
    a.task.await.unwrap();
    assert_eq!(holder().await, None);
}

#[tokio::test(start_paused = true)]
async fn why_nobody_leads_is_told_once_and_until_somebody_does() {
    let cluster = Cluster::new(1).await;
    cluster.wire.set(Mode::Answers(500));
    let leases: Api<Lease> = Api::namespaced(cluster.wire.link(), "kube-system");
    let campaign = Campaign::new(leases, "role", "a", Timing::default(), cluster.clock.clone());
    let mut told = campaign.leadership();
    let running = tokio::spawn(campaign.run(std::future::pending()));
    let why = told.wait_for(|now| now.error.is_some()).await.unwrap().error.clone();
    assert_eq!(why.as_deref(), Some("fault"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!told.has_changed().unwrap(), "each attempt was told");
    cluster.wire.set(Mode::Up);
    let now = told.wait_for(|now| now.fence.is_some()).await.unwrap().clone();
    assert_eq!((now.holder.as_deref(), now.error), (Some("a"), None));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_asked_for_when_the_end_came_is_given_back() {
    let (cluster, board) = (Cluster::new(1).await, Board::default());
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "kube-system");
    let a = start(&cluster, "a", &board);
    a.wire.set(Mode::Slow(Duration::from_secs(1)));
    while leases.get_opt("role").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(a.end);
    a.task.await.unwrap();
    assert_eq!(*board.0.lock(), [""; 0], "nobody works any more");
    assert_eq!(leases.get("role").await.unwrap().spec.unwrap().holder_identity, None);
}
