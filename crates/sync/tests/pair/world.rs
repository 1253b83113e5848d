//! A cloud and a robot, each with its own API server, and a syncer between them.

use std::ops::Deref;
use std::time::Duration;

use jiff::SignedDuration;
use koinon_simulation::{Fault, Network, Site, Trace, Write};
use koinon_sync::{Access, Handle, Options, Sync};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Long enough for everything that a syncer does by itself.
const LONG: Duration = Duration::from_secs(900);

pub(crate) const RESYNC: Duration = Duration::from_secs(300);

/// Whose requests meet faults.
pub(crate) const SYNCER: &str = "syncer";

/// One side: its API server, and the syncer's way to it.
#[derive(Clone)]
pub(crate) struct Cluster {
    site: Site,
    network: Network,
    name: &'static str,
}

impl Deref for Cluster {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Cluster {
    /// A fresh server under this name, instead of any that was there before.
    pub(crate) async fn open(network: &Network, name: &'static str, seed: u64) -> Cluster {
        Cluster::skewed(network, name, seed, SignedDuration::ZERO).await
    }

    pub(crate) async fn skewed(
        network: &Network,
        name: &'static str,
        seed: u64,
        skew: SignedDuration,
    ) -> Cluster {
        let site = Site::open(seed, &network.time().skewed(skew)).await;
        network.serve(name, site.router());
        Cluster { site, network: network.clone(), name }
    }

    /// The same server, seen from another network.
    fn seen_from(&self, network: &Network) -> Cluster {
        network.serve(self.name, self.router());
        Cluster { network: network.clone(), ..self.clone() }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// This goes wrong from now on between the syncer and this side.
    pub(crate) fn turn(&self, faults: &[Fault]) {
        self.network.set(SYNCER, self.name, faults);
    }

    /// What the syncer sent here to change objects, apart from what it writes about itself.
    pub(crate) fn writes(&self) -> Vec<Write> {
        let mut writes = self.network.trace().writes();
        writes.retain(|write| write.to == self.name);
        writes
    }

    /// Waits until an event with this reason was told, and gives back what it says.
    pub(crate) async fn until_told(&self, reason: &str) -> String {
        let deadline = Instant::now() + LONG;
        loop {
            let events = self.items("/api/v1/events").await;
            if let Some(event) = events.iter().find(|event| event["reason"] == reason) {
                assert_eq!(event["type"], "Warning");
                return event["message"].as_str().unwrap().to_owned();
            }
            assert!(Instant::now() < deadline, "{reason} was not told, only {events:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Makes a CRD.
    pub(crate) async fn define(&self, toys: &Toys) {
        self.create(CRDS, toys.crd()).await;
    }
}

/// A CRD to test with.
#[derive(Clone, Debug)]
pub(crate) struct Toys {
    pub(crate) annotations: Value,
    pub(crate) status: bool,
    pub(crate) namespaced: bool,
    pub(crate) versions: Vec<&'static str>,
}

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/toys.play.io";
pub(crate) const SOURCE: &str = "cr-syncer.cloudrobotics.com/spec-source";
pub(crate) const FILTER: &str = "cr-syncer.cloudrobotics.com/filter-by-robot-name";
pub(crate) const SUBTREE: &str = "cr-syncer.cloudrobotics.com/status-subtree";
pub(crate) const ROBOT: &str = "cloudrobotics.com/robot-name";

impl Toys {
    pub(crate) fn new(annotations: Value) -> Toys {
        Toys { annotations, status: true, namespaced: true, versions: vec!["v1"] }
    }

    /// From the cloud, to every robot.
    pub(crate) fn plain() -> Toys {
        Toys::new(json!({SOURCE: "cloud"}))
    }

    /// From the cloud, to the robot that is named.
    pub(crate) fn filtered() -> Toys {
        Toys::new(json!({SOURCE: "cloud", FILTER: "true"}))
    }

    /// From the robot.
    pub(crate) fn robots() -> Toys {
        Toys::new(json!({SOURCE: "robot"}))
    }

    pub(crate) fn crd(&self) -> Value {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let versions: Vec<Value> = self
            .versions
            .iter()
            .enumerate()
            .map(|(number, name)| {
                let mut version = json!({
                    "name": name, "served": true, "storage": number == 0,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
                });
                if self.status {
                    version["subresources"] = json!({"status": {}});
                }
                version
            })
            .collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "toys.play.io", "annotations": self.annotations},
            "spec": {
                "group": "play.io", "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "names": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
                "versions": versions,
            },
        })
    }
}

/// The path of a toy in `default`.
pub(crate) fn toy(name: &str) -> String {
    format!("{TOYS}/{name}")
}

pub(crate) const TOYS: &str = "/apis/play.io/v1/namespaces/default/toys";
pub(crate) const ALL_TOYS: &str = "/apis/play.io/v1/toys";

/// A toy from `{labels, annotations, finalizers}` and a spec.
pub(crate) fn made(name: &str, metadata: Value, spec: Value) -> Value {
    let mut metadata = metadata;
    metadata["name"] = name.into();
    json!({"apiVersion": "play.io/v1", "kind": "Toy", "metadata": metadata, "spec": spec})
}

/// A cloud, a robot and a syncer.
pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) cloud: Cluster,
    pub(crate) robot: Cluster,
    pub(crate) options: Options,
    pub(crate) handle: Option<Handle>,
    /// By how much the syncer's clock is wrong.
    pub(crate) skew: SignedDuration,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

/// By how much the clocks of the cloud, the robot and the syncer are wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Skew {
    pub(crate) cloud: SignedDuration,
    pub(crate) robot: SignedDuration,
    pub(crate) syncer: SignedDuration,
}

/// Objects that somebody synced: not what a syncer writes about itself.
fn is_synced(write: &Write) -> bool {
    let aside = ["/leases", "/events", "/configmaps", "customresourcedefinitions/"];
    write.path != "/api/v1/namespaces" && !aside.iter().any(|aside| write.path.contains(aside))
}

impl World {
    /// Both sides have the CRD; nothing runs yet.
    pub(crate) async fn with(toys: &Toys) -> World {
        let world = World::empty().await;
        world.cloud.define(toys).await;
        world.robot.define(toys).await;
        world
    }

    pub(crate) async fn empty() -> World {
        World::simulated(0, &Trace::default(), Skew::default()).await
    }

    /// The same for a seed, with wrong clocks.
    pub(crate) async fn simulated(seed: u64, trace: &Trace, skew: Skew) -> World {
        let network = Network::new(seed, trace).noting(is_synced);
        let cloud = Cluster::skewed(&network, "cloud", 1, skew.cloud).await;
        let robot = Cluster::skewed(&network, "robot", 2, skew.robot).await;
        let options = Options { robot: "r1".into(), resync: RESYNC, ..Options::default() };
        World { network, cloud, robot, options, handle: None, skew: skew.syncer, running: None }
    }

    /// Another robot's cluster, and the cloud of this one.
    pub(crate) async fn beside(&self, toys: &Toys) -> World {
        let network = Network::new(0, &Trace::default()).noting(is_synced);
        let robot = Cluster::open(&network, "robot", 9).await;
        robot.define(toys).await;
        let (cloud, options) = (self.cloud.seen_from(&network), self.options.clone());
        World { network, cloud, robot, options, handle: None, skew: self.skew, running: None }
    }

    pub(crate) async fn running(toys: &Toys) -> World {
        let mut world = World::with(toys).await;
        world.start();
        world
    }

    pub(crate) fn start(&mut self) {
        let (stop, stopped) = oneshot::channel();
        let fuse = self.network.fuse(SYNCER);
        fuse.renew();
        let access = |name| Access::new(self.network.client(SYNCER, name));
        let clock = self.network.time().skewed(self.skew);
        let sync = Sync::new(self.options.clone(), access("cloud"), access("robot"), clock).unwrap();
        self.handle = Some(sync.handle());
        let task = tokio::spawn(async move {
            tokio::select! {
                biased;
                () = fuse.blown() => {}
                () = sync.run(async { drop(stopped.await) }) => {}
            }
        });
        self.running = Some((stop, task));
    }

    /// Ends the syncer as it would end itself.
    pub(crate) async fn stop(&mut self) {
        let (stop, task) = self.running.take().expect("a syncer runs");
        stop.send(()).expect("a syncer waits for its end");
        task.await.expect("a syncer ends well");
    }

    /// Ends the syncer in the middle of whatever it does.
    pub(crate) async fn kill(&mut self) {
        let (_stop, task) = self.running.take().expect("a syncer runs");
        task.abort();
        // It may have ended at a request.
        let ended = task.await.err();
        assert!(ended.is_none_or(|error| error.is_cancelled()), "it did not panic");
    }

    pub(crate) fn clear(&self) {
        self.network.heal();
    }

    /// Lets time pass until nothing has been written for three resync periods.
    pub(crate) async fn rest(&self) {
        self.network.until_quiet(3 * RESYNC + Duration::from_secs(5)).await;
    }
}
