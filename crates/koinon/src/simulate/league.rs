//! A federation in one thread: its API server, members that are whole simulated clusters, and the controllers between
//! them, which can be ended and started again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use koinon_cluster::kubelet::Settings;
use koinon_cluster::{Cluster, Housekeeping};
use koinon_fleet::{ClusterId, Fleet, Link, Wanted};
use koinon_simulation::{Fault, Network, Site, Trace};
use koinon_workloads::{Metrics, Workloads};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::report::Count;
use super::trouble::Trouble;
use super::{LOOK_EVERY, Simulate};

const FEDERATION: &str = "federation";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

pub(super) struct League {
    network: Network,
    federation: Site,
    members: BTreeMap<String, Site>,
    /// What is wrong with members.
    faults: BTreeMap<String, Vec<Fault>>,
    fleet: koinon_fleet::Options,
    workloads: koinon_workloads::Options,
    /// How often the controllers were started.
    starts: usize,
    role: JoinSet<()>,
    _clusters: JoinSet<()>,
}

impl League {
    /// A federation with a Deployment, and its controllers at work.
    pub(super) async fn open(options: &Simulate, seed: u64) -> anyhow::Result<League> {
        let network = Network::new(seed, &Trace::default());
        let clock = network.time().clock();
        let federation = Site::open(seed, &clock).await;
        network.serve(FEDERATION, federation.router());
        let mut clusters = JoinSet::new();
        let house = Housekeeping::new(federation.client()).clock(clock.clone());
        clusters.spawn(house.run(std::future::pending()));
        let mut members = BTreeMap::new();
        let width = options.members.to_string().len();
        for number in 1..=options.members {
            let name = format!("m{number:0width$}");
            let site = Site::open(seed.wrapping_add(u64::from(number) << 32), &clock).await;
            network.serve(&name, site.router());
            let settings = Settings { events: false, ..options.nodes.settings(options.members as usize) };
            let cluster = Cluster::new(site.client(), clock.clone(), "", settings);
            clusters.spawn(cluster.run(std::future::pending()));
            members.insert(name, site);
        }
        let thresholds = options.health.thresholds();
        let mut league = League {
            network,
            federation,
            members,
            faults: BTreeMap::new(),
            fleet: koinon_fleet::Options { thresholds, ..Default::default() },
            workloads: options.spreading.options(),
            starts: 0,
            role: JoinSet::new(),
            _clusters: clusters,
        };
        league.start().await?;
        league.federation.create(DEPLOYMENTS, deployment(options.replicas)).await;
        Ok(league)
    }

    /// Starts the controllers from nothing: they know what the servers tell.
    async fn start(&mut self) -> anyhow::Result<()> {
        self.starts += 1;
        let party = self.party();
        for (name, faults) in &self.faults {
            self.network.set(&party, name, faults);
        }
        let clock = self.network.time().clock();
        let fleet = Fleet::new(self.fleet.clone(), koinon_fleet::Metrics::default(), clock.clone());
        let mut wanted = BTreeMap::new();
        for name in self.members.keys() {
            let link = Link::Direct(self.network.client(&party, name));
            wanted.insert(ClusterId::new(name).context("a member's name")?, Wanted { link, uid: None });
        }
        fleet.set(wanted.into_iter().collect()).await;
        let client = self.network.client(&party, FEDERATION);
        let workloads =
            Workloads::new(self.workloads.clone(), client, Arc::clone(&fleet), clock, Metrics::default());
        self.role.spawn(workloads.run(std::future::pending()));
        Ok(())
    }

    /// Who the controllers are since their last start: whatever is left of those before reaches nobody.
    fn party(&self) -> String {
        format!("controllers {}", self.starts)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.network.time().elapsed()
    }

    pub(super) fn writes(&self) -> usize {
        self.network.trace().count_writes()
    }

    pub(super) async fn comes_to_rest(&self, quiet: Duration) -> bool {
        self.network.comes_to_rest(quiet).await
    }

    /// Makes the trouble.
    pub(super) async fn meet(&mut self, trouble: &Trouble) -> anyhow::Result<()> {
        match trouble {
            Trouble::Restart => {
                let fuse = self.network.fuse(&self.party());
                // At its very next request, which is the middle of something.
                fuse.after(1);
                let _ = tokio::time::timeout(LOOK_EVERY, fuse.blown()).await;
                self.role.shutdown().await;
                self.start().await?;
            }
            Trouble::Heal(name) => self.set(name, &[]),
            Trouble::With(name, _, faults) => self.set(name, faults),
        }
        Ok(())
    }

    fn set(&mut self, member: &str, faults: &[Fault]) {
        self.faults.insert(member.to_owned(), faults.to_vec());
        self.network.set(&self.party(), member, faults);
    }

    pub(super) fn heal(&mut self) {
        self.faults.clear();
        self.network.heal();
    }

    /// Counts the replicas, past whatever is wrong.
    pub(super) async fn count(&self) -> Count {
        let lost = |faults: &Vec<Fault>| faults.iter().any(|fault| matches!(fault, Fault::Cut | Fault::Hang));
        let away: BTreeSet<&String> =
            self.faults.iter().filter(|(_, faults)| lost(faults)).map(|(name, _)| name).collect();
        let mut count = Count::default();
        for (name, site) in &self.members {
            let Some(found) = site.get(WEB).await else { continue };
            let number = |pointer: &str| found.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
            count.asked += number("/spec/replicas");
            count.available += number("/status/availableReplicas");
            if !away.contains(name) {
                count.within_reach += number("/status/availableReplicas");
            }
        }
        count
    }

    /// Waits until exactly these replicas are asked for and available, and said to be; how long that took.
    pub(super) async fn until_whole(&self, wanted: u64, patience: Duration) -> Option<Duration> {
        let begun = self.elapsed();
        while self.elapsed() - begun < patience {
            let count = self.count().await;
            let federated = self.federation.get(WEB).await.unwrap_or_default();
            let told = federated["status"]["availableReplicas"].as_u64() == Some(wanted);
            if told && count == (Count { available: wanted, within_reach: wanted, asked: wanted }) {
                return Some(self.elapsed() - begun);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        None
    }
}

fn deployment(replicas: u32) -> Value {
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    })
}
