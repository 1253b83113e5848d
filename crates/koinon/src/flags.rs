//! Flags that several commands share, and how their values are read. What a flag is by default is what the library has
//! that it is for.

use std::time::Duration;

use jiff::SignedDuration;
use koinon_cluster::kubelet::Settings;
use koinon_fleet::health::Thresholds;
use koinon_workloads::Options;
use koinon_workloads::placing::Surge;

/// The simulated nodes of a cluster, and the pace of their pods.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Simulated nodes")]
pub(crate) struct Nodes {
    /// Nodes of each cluster
    #[arg(long, value_name = "N", default_value_t = Settings::default().nodes, value_parser = nodes)]
    nodes: u32,
    /// Pods that a node takes
    #[arg(long, value_name = "M", default_value_t = Settings::default().pods_per_node, value_parser = clap::value_parser!(u32).range(1..))]
    pods_per_node: u32,
    /// Processors of a node
    #[arg(long, value_name = "QUANTITY", default_value_t = Settings::default().cpu, value_parser = quantity)]
    node_cpu: String,
    /// Memory of a node
    #[arg(long, value_name = "QUANTITY", default_value_t = Settings::default().memory, value_parser = quantity)]
    node_memory: String,
    /// From a pod's arrival on its node until its containers run
    #[arg(long, value_name = "TIME", default_value_t = Time(Settings::default().start_after), value_parser = time)]
    pod_start: Time,
    /// From then until they are ready
    #[arg(long, value_name = "TIME", default_value_t = Time(Settings::default().ready_after), value_parser = time)]
    pod_ready: Time,
    /// From a pod's deletion until its containers have ended
    #[arg(long, value_name = "TIME", default_value_t = Time(Settings::default().terminate_after), value_parser = time)]
    pod_stop: Time,
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
            start_after: self.pod_start.0,
            ready_after: self.pod_ready.0,
            terminate_after: self.pod_stop.0,
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
    #[arg(long, value_name = "TIME", default_value_t = Time(Thresholds::default().probe_every), value_parser = some_time)]
    probe_every: Time,
    /// A member that fails for so long is offline
    #[arg(long, value_name = "TIME", default_value_t = Time(Thresholds::default().offline_after), value_parser = time)]
    offline_after: Time,
    /// An offline member that answers for so long is back
    #[arg(long, value_name = "TIME", default_value_t = Time(Thresholds::default().online_after), value_parser = time)]
    online_after: Time,
}

impl Health {
    pub(crate) fn thresholds(&self) -> Thresholds {
        Thresholds {
            probe_every: self.probe_every.0,
            offline_after: self.offline_after.0,
            online_after: self.online_after.0,
        }
    }
}

/// How replicas are spread over members, and moved.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Spreading of replicas")]
pub(crate) struct Spreading {
    /// A pod that found no node for so long is stuck, and its replica goes elsewhere
    #[arg(long, value_name = "TIME", default_value_t = Time(Options::default().unschedulable_after), value_parser = time)]
    unschedulable_after: Time,
    /// How many more replicas there may be while some move: a number or a part
    #[arg(long, value_name = "N|P%", default_value_t = Options::default().max_surge)]
    max_surge: Surge,
    /// What a member refused is tried again after this long; after the second time its replicas go elsewhere
    #[arg(long, value_name = "TIME", default_value_t = Time(Options::default().retry_refused), value_parser = some_time)]
    retry_refused: Time,
    /// System namespaces (kube-*, koinon-system, antrea-plus-system, avi-system) whose workloads are federated after all
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    allow_namespaces: Vec<String>,
}

impl Spreading {
    pub(crate) fn options(&self) -> Options {
        Options {
            unschedulable_after: self.unschedulable_after.0,
            max_surge: self.max_surge,
            retry_refused: self.retry_refused.0,
            allow_namespaces: self.allow_namespaces.clone(),
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

/// A duration as a flag has it: it is shown as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Duration);

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let milliseconds = self.0.as_millis();
        let units = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
        // The largest unit that says it in a whole number; up to two minutes seconds read better.
        let fits =
            |unit: u128| milliseconds.is_multiple_of(unit) && (unit < 60_000 || milliseconds > 120_000);
        let (name, unit) = units.into_iter().find(|(_, unit)| fits(*unit)).unwrap_or(("ms", 1));
        write!(f, "{}{name}", milliseconds / unit)
    }
}

pub(crate) fn time(text: &str) -> Result<Time, String> {
    duration(text).map(Time)
}

/// A duration that is not nothing: what is done so often would else be done without pause.
pub(crate) fn some_time(text: &str) -> Result<Time, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be longer than nothing".into()),
        time => Ok(Time(time)),
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
    fn a_time_is_shown_as_it_is_read() {
        for text in ["0s", "1ms", "200ms", "1500ms", "1s", "30s", "60s", "90s", "120s", "5m", "2h"] {
            assert_eq!(time(text).unwrap().to_string(), if text == "0s" { "0s" } else { text }, "{text}");
        }
    }

    /// The names of the flags that users and their scripts rely on, and what the libraries have for them.
    #[test]
    fn what_is_not_said_is_what_the_libraries_have() {
        use clap::Parser as _;

        #[derive(clap::Parser)]
        struct Words {
            #[command(flatten)]
            nodes: Nodes,
            #[command(flatten)]
            health: Health,
            #[command(flatten)]
            spreading: Spreading,
        }
        let words = Words::parse_from(["koinon"]);
        assert_eq!(format!("{:?}", words.nodes.settings(1)), format!("{:?}", Settings::default()));
        assert_eq!(words.health.thresholds(), Thresholds::default());
        assert_eq!(format!("{:?}", words.spreading.options()), format!("{:?}", Options::default()));
        assert_eq!(words.nodes.pod_stop, Time(Duration::from_millis(200)), "as the guide says");
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
