//! A model of a federation whose clusters run pods with a delay, have limited room, and may go away.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use koinon_api::placement::{ClusterPlacement, ClusterState, Placement};
use koinon_api::preferences::Preferences;
use koinon_workloads::placing::{Local, Member, Placed, Spot, Surge, Wait, Wanted, place};
use koinon_workloads::rollout::{Counting, Reach};

/// A round takes so many seconds, and pods are stuck after so many.
pub(crate) const ROUND: i64 = 5;
pub(crate) const PATIENCE: i64 = 60;

#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) room: Option<i64>,
    pub(crate) offline: bool,
    /// Whether nobody looks at pods without a node.
    pub(crate) unscheduled: bool,
    asked: Option<i64>,
    /// Pods that run and are available.
    running: i64,
    /// Pods that found a node in the last round.
    starting: i64,
    /// Pods without a node.
    waiting: Vec<i64>,
}

impl Cluster {
    fn tick(&mut self, now: i64) {
        let Some(asked) = self.asked else { return };
        let room = self.room.unwrap_or(i64::MAX);
        self.running += std::mem::take(&mut self.starting);
        // A cluster ends those first that do not run.
        while self.pods() > asked {
            if self.waiting.pop().is_none() {
                self.running -= 1;
            }
        }
        while self.pods() < asked {
            self.waiting.push(now);
        }
        while !self.unscheduled && self.running + self.starting < room && self.waiting.pop().is_some() {
            self.starting += 1;
        }
        while self.running > room {
            self.running -= 1;
            self.waiting.push(now);
        }
    }

    fn pods(&self) -> i64 {
        self.running + self.starting + i64::try_from(self.waiting.len()).unwrap()
    }

    fn seen(&self) -> Member {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let wait = if self.unscheduled { Wait::Unseen } else { Wait::Refused };
        Member {
            reach: if self.offline { Reach::Offline } else { Reach::Online },
            local: self.asked.map(|asked| Local {
                spec_replicas: asked,
                replicas: self.pods(),
                available: self.running,
                failing_since: None,
                observed: true,
            }),
            waiting: self.waiting.iter().map(|second| wait(at(*second))).collect(),
            refusals: 0,
            room: None,
            replaces: None,
            waited_for: false,
            unheard: false,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Federation {
    pub(crate) clusters: BTreeMap<String, Cluster>,
    pub(crate) preferences: Preferences,
    pub(crate) replicas: i64,
    pub(crate) generation: i64,
    pub(crate) now: i64,
    pub(crate) placement: Option<Placement>,
}

impl Federation {
    pub(crate) fn new(clusters: &[&str], replicas: i64, preferences: &str) -> Federation {
        Federation {
            clusters: clusters.iter().map(|name| ((*name).to_owned(), Cluster::default())).collect(),
            preferences: Preferences::parse(preferences).unwrap(),
            replicas,
            generation: 1,
            now: 1_000_000,
            placement: None,
        }
    }

    pub(crate) fn prefer(&mut self, preferences: &str) {
        self.preferences = Preferences::parse(preferences).unwrap();
        self.generation += 1;
    }

    pub(crate) fn scale(&mut self, replicas: i64) {
        self.replicas = replicas;
        self.generation += 1;
    }

    pub(crate) fn set(&mut self, name: &str, change: impl FnOnce(&mut Cluster)) {
        change(self.clusters.get_mut(name).unwrap());
    }

    pub(crate) fn decide(&self) -> Placed {
        let wanted = Wanted {
            key: "default/web",
            generation: self.generation,
            replicas: self.replicas,
            preferences: &self.preferences,
            counting: Counting::Federation,
            surge: Surge::default(),
            cap: None,
            patience: Duration::from_secs(PATIENCE.unsigned_abs()),
        };
        let members = self.clusters.iter().map(|(name, one)| (name.clone(), one.seen())).collect();
        place(Timestamp::from_second(self.now).unwrap(), &wanted, &members, self.placement.as_ref())
    }

    /// Decides, writes, and lets every cluster take a step. Says whether anything was written.
    pub(crate) fn round(&mut self) -> bool {
        let placed = self.decide();
        let mut written = false;
        let mut clusters = BTreeMap::new();
        for (name, cluster) in &mut self.clusters {
            let mut entry = ClusterPlacement { state: ClusterState::Offline, ..Default::default() };
            if let Some(spot) = placed.clusters.get(name) {
                entry.state = ClusterState::Ready;
                entry.desired = spot.share.replicas;
                entry.overflow = spot.share.overflow;
                if cluster.asked.unwrap_or(0) != spot.now {
                    cluster.asked = Some(spot.now);
                    written = true;
                }
            }
            clusters.insert(name.clone(), entry);
        }
        self.placement = Some(Placement { observed_generation: self.generation, clusters });
        self.now += ROUND;
        for cluster in self.clusters.values_mut() {
            cluster.tick(self.now);
        }
        written
    }

    /// Goes on until nothing is written for longer than any patience.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..1000 {
            quiet = if self.round() { 0 } else { quiet + 1 };
            if quiet > 2 * PATIENCE / ROUND {
                return;
            }
        }
        panic!("it does not come to rest: {self:#?}");
    }

    /// How many there may be on the way to what was decided, whoever of the clusters acts first; those that only wait for room
    /// are not counted.
    pub(crate) fn crest(&self, placed: &Placed) -> i64 {
        let crest = |(name, spot): (&String, &Spot)| {
            let probes = spot.share.spec_replicas() - spot.share.replicas;
            (self.clusters[name].pods().max(spot.now) - probes).max(0)
        };
        placed.clusters.iter().map(crest).sum()
    }

    /// How many there are, counted in the same way.
    pub(crate) fn pods(&self, placed: &Placed) -> i64 {
        let pods = |(name, spot): (&String, &Spot)| {
            let probes = spot.share.spec_replicas() - spot.share.replicas;
            (self.clusters[name].pods() - probes).max(0)
        };
        placed.clusters.iter().map(pods).sum()
    }

    pub(crate) fn available(&self) -> i64 {
        self.clusters.values().filter(|one| !one.offline).map(|one| one.running).sum()
    }

    pub(crate) fn asked(&self) -> i64 {
        self.clusters.values().filter(|one| !one.offline).filter_map(|one| one.asked).sum()
    }

    /// What runs where.
    pub(crate) fn layout(&self) -> String {
        let layout: Vec<String> =
            self.clusters.iter().map(|(name, one)| format!("{name}={}", one.running)).collect();
        layout.join(" ")
    }
}
