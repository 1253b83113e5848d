//! Flags that several commands share, and how their values are read.

use std::time::Duration;

use jiff::SignedDuration;
use koinon_cluster::kubelet::Settings;
use koinon_fleet::health::Thresholds;
use koinon_workloads::placing::Surge;

/// The simulated nodes of a cluster, and the pace of their pods.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Simulated nodes")]
pub(crate) struct Nodes {
    /// Nodes of each cluster
    #[arg(long, value_name = "N", default_value = "3", value_parser = nodes)]
    nodes: u32,
    /// Pods that a node takes
    #[arg(long, value_name = "M", default_value_t = 110, value_parser = clap::value_parser!(u32).range(1..))]
    pods_per_node: u32,
    /// Processors of a node
    #[arg(long, value_name = "QUANTITY", default_value = "8", value_parser = quantity)]
    node_cpu: String,
    /// Memory of a node
    #[arg(long, value_name = "QUANTITY", default_value = "32Gi", value_parser = quantity)]
    node_memory: String,
    /// From a pod's arrival on its node until its containers run
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration)]
    pod_start: Duration,
    /// From then until they are ready
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration)]
    pod_ready: Duration,
    /// From a pod's deletion until its containers have ended
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration)]
    pod_stop: Duration,
    /// How often each node renews its lease [default: 10s, and slower where one process has very many nodes]
    #[arg(long, value_name = "TIME", value_parser = heartbeat)]
    heartbeat: Option<Duration>,
}

impl Nodes {
    /// For each of so many clusters in this process.
    pub(crate) fn settings(&self, clusters: usize) -> Settings {
        let nodes = clusters.saturating_mul(self.nodes as usize);
        Settings {
            nodes: self.nodes,
            pods_per_node: self.pods_per_node,
            cpu: self.node_cpu.clone(),
            memory: self.node_memory.clone(),
            start_after: self.pod_start,
            ready_after: self.pod_ready,
            terminate_after: self.pod_stop,
            heartbeat: self.heartbeat.unwrap_or_else(|| usual_heartbeat(nodes)),
            ..Settings::default()
        }
    }
}

/// How patient the federation is with its members.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Health of members")]
pub(crate) struct Health {
    /// How often each member is asked whether it is there
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = some_time)]
    probe_every: Duration,
    /// A member that fails for so long is offline
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    offline_after: Duration,
    /// An offline member that answers for so long is back
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    online_after: Duration,
}

impl Health {
    pub(crate) fn thresholds(&self) -> Thresholds {
        Thresholds {
            probe_every: self.probe_every,
            offline_after: self.offline_after,
            online_after: self.online_after,
        }
    }
}

/// How replicas are spread over members, and moved.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Spreading of replicas")]
pub(crate) struct Spreading {
    /// A pod that found no node for so long is stuck, and its replica goes elsewhere
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    unschedulable_after: Duration,
    /// How many more replicas there may be while some move: a number or a part
    #[arg(long, value_name = "N|P%", default_value = "25%")]
    max_surge: Surge,
    /// What a member refused is tried again after this long; after the second time its replicas go elsewhere
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = some_time)]
    retry_refused: Duration,
}

impl Spreading {
    pub(crate) fn options(&self) -> koinon_workloads::Options {
        koinon_workloads::Options {
            unschedulable_after: self.unschedulable_after,
            max_surge: self.max_surge,
            retry_refused: self.retry_refused,
        }
    }
}

const MOST_NODES: u32 = 5000;

fn nodes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("a cluster needs at least one node; `koinon cluster --bare` makes one without".into()),
        Ok(count @ 1..=MOST_NODES) => Ok(count),
        _ => Err(format!("a number between 1 and {MOST_NODES} is needed")),
    }
}

/// The longest that a lease of four such periods lives within the patience of a stock control plane.
const SLOWEST_HEARTBEAT: Duration = Duration::from_secs(600);

/// As often as kubelets do, but no more than thirty times a second for all together: a thousand clusters at rest should
/// cost next to nothing. How long a node may stay silent follows from what it says in its lease.
fn usual_heartbeat(nodes: usize) -> Duration {
    let seconds = u64::try_from(nodes / 30).unwrap_or(u64::MAX);
    Duration::from_secs(seconds.max(10)).min(SLOWEST_HEARTBEAT)
}

fn heartbeat(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        period if period < Duration::from_secs(1) => Err("once a second is the most that makes sense".into()),
        period if period > SLOWEST_HEARTBEAT => Err("every ten minutes is the least that makes sense".into()),
        period => Ok(period),
    }
}

fn quantity(text: &str) -> Result<String, String> {
    if koinon_cluster::scheduler::is_positive(text) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no amount of anything: write it like 8, 500m or 32Gi"))
}

/// A duration as people write it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration: write it like 200ms, 5s or 1m30s");
    let parsed: SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(parsed).map_err(|_| wrong())
}

/// A duration that is not nothing: what is done so often would else be done without pause.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be longer than nothing".into()),
        time => Ok(time),
    }
}

/// Flags that do not fit together, in one sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadUsage(pub(crate) String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, milliseconds) in
            [("200ms", 200), ("5s", 5_000), ("1m30s", 90_000), ("2h", 7_200_000), ("0s", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "soon", "5", "-3s"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(some_time("1ms").is_ok() && some_time("0s").is_err());
    }

    #[test]
    fn quantities_nodes_and_heartbeats_are_checked() {
        for text in ["8", "500m", "32Gi", "1e3"] {
            assert!(quantity(text).is_ok(), "{text}");
        }
        for text in ["", "many", "-1", "0", "8 Gi"] {
            assert!(quantity(text).is_err(), "{text}");
        }
        assert!(nodes("0").unwrap_err().contains("--bare"));
        assert!(heartbeat("10ms").is_err() && heartbeat("1h").is_err() && heartbeat("1m").is_ok());
        let seconds = |nodes| usual_heartbeat(nodes).as_secs();
        assert_eq!([9, 300, 3_000, 300_000].map(seconds), [10, 10, 100, 600]);
    }
}
