//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use koinon_apiserver::serve::Limits;

use crate::flags::{self, Health, Nodes, Spreading};
use crate::serving::ServeAs;
use crate::status::Named;
use crate::{install, members, orphans, run, simulate, status};

/// A league of Kubernetes clusters in one binary.
#[derive(Debug, Parser)]
#[command(name = "koinon", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole federation in this process, until Ctrl-C
    Up(Up),
    /// Run one local cluster in this process, until Ctrl-C
    Cluster(Cluster),
    /// Give a cluster that runs elsewhere simulated nodes, until Ctrl-C
    Nodes(Alone),
    /// Run one role as its own process, beside the cluster it looks after
    Run(run::Run),
    /// Stop, cut off or slow down a member of a running `up`, to see what happens
    Lab(Lab),
    /// Show where the replicas of a workload go, and why
    Plan(Plan),
    /// Let a cluster into the federation
    Join(members::Join),
    /// Let a member go; its workloads run on
    Unjoin(members::Unjoin),
    /// Show the members and how they are
    Members(members::Members),
    /// Show members, workloads and updates on one screen
    Status(status::Status),
    /// Remove what members run without a federated object, after showing it
    Clean(orphans::Clean),
    /// Print what to apply to a real cluster before a role runs beside it
    Install(install::Install),
    /// Put a federation through trouble in simulated time, and tell how it fared
    Simulate(simulate::Simulate),
    /// Print a completion script
    Completions { shell: clap_complete::Shell },
    /// Print the version
    Version,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    /// The members: their names, or how many
    #[arg(long, value_name = "a,b,c|N", default_value = "a,b,c", value_parser = members)]
    pub(crate) members: Members,
    /// Where the state is kept; a restart goes on from it
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The address of the API servers
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7443")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) serve_as: ServeAs,
    /// A page that shows how everything is, for those who have the token in the address that is printed
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:7480")]
    pub(crate) dashboard: Option<SocketAddr>,
    /// Begin with a Deployment over all members
    #[arg(long)]
    pub(crate) sample: bool,
    #[command(flatten)]
    pub(crate) health: Health,
    #[command(flatten)]
    pub(crate) spreading: Spreading,
    #[command(flatten)]
    pub(crate) election: run::Election,
    #[command(flatten)]
    pub(crate) services: run::ServiceFlags,
    #[command(flatten)]
    pub(crate) policies: run::PolicyFlags,
    #[command(flatten)]
    pub(crate) pace: run::Pace,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Cluster {
    /// The cluster's name, and that of its context in the kubeconfig
    #[arg(long, value_parser = name)]
    pub(crate) name: String,
    /// Where the state is kept; a restart goes on from it
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The address of the API server
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7444")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) serve_as: ServeAs,
    /// Where to write the kubeconfig [default: kubeconfig in the data folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Without workload controllers and nodes: a federation's API server
    #[arg(long)]
    pub(crate) bare: bool,
    #[command(flatten)]
    pub(crate) in_flight: InFlight,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
}

/// How many requests the API server serves at a time.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct InFlight {
    /// Requests that read, watches excepted, that are served at a time; one user has at most half of them
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().reading)]
    max_requests_inflight: usize,
    /// Requests that write that are served at a time; one user has at most half of them
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().mutating)]
    max_mutating_requests_inflight: usize,
}

impl InFlight {
    pub(crate) fn limits(self) -> Limits {
        Limits {
            reading: self.max_requests_inflight,
            mutating: self.max_mutating_requests_inflight,
            ..Limits::default()
        }
    }
}

/// Simulated nodes for a control plane that runs elsewhere.
#[derive(Debug, clap::Args)]
pub(crate) struct Alone {
    #[command(flatten)]
    pub(crate) cluster: run::Cluster,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Lab {
    /// The data folder of the running `up`
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) order: LabOrder,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabOrder {
    /// Stop a member, as if it lost its power
    Stop { name: String },
    /// Start a stopped member from its data
    Start { name: String },
    /// Cut a member off from the federation; users still reach it
    Cut { name: String },
    /// Connect a member again, at full speed
    Heal { name: String },
    /// Slow every call to a member down; 0s ends it
    Delay {
        name: String,
        #[arg(value_parser = flags::duration)]
        delay: Duration,
    },
    /// Show what was done to the members
    Show,
}

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Plan {
    /// A workload of a federation, such as deployment/web
    #[arg(value_name = "KIND/NAME", value_parser = Named::parse,
          conflicts_with_all = ["file", "clusters", "existing", "key"])]
    pub(crate) workload: Option<Named>,
    #[command(flatten)]
    pub(crate) federation: members::Federation,
    /// The namespace of the workload
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub(crate) namespace: String,
    /// Read what is to be planned from a file in JSON or YAML; - is standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// How many replicas there should be
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) replicas: Option<i64>,
    /// The clusters that can take replicas
    #[arg(long, value_name = "a,b,c", value_delimiter = ',')]
    pub(crate) clusters: Vec<String>,
    /// Where they should be, as in the preferences annotation
    #[arg(long, value_name = "JSON")]
    pub(crate) preferences: Option<String>,
    /// What a cluster runs already
    #[arg(long, value_name = "a=20", value_delimiter = ',', value_parser = count)]
    pub(crate) existing: Vec<(String, i64)>,
    /// What fits into a cluster
    #[arg(long, value_name = "c=6", value_delimiter = ',', value_parser = count)]
    pub(crate) capacity: Vec<(String, i64)>,
    /// The workload's namespace/name, which decides among equals
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) key: Option<String>,
    /// Whether replicas that run may move
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) rebalance: Option<bool>,
    /// What if this cluster were lost
    #[arg(long, value_name = "b", value_delimiter = ',', help_heading = "What if")]
    pub(crate) lose: Vec<String>,
    /// What if this cluster had another weight
    #[arg(long, value_name = "a=3", value_delimiter = ',', value_parser = count, help_heading = "What if")]
    pub(crate) weight: Vec<(String, i64)>,
    /// What if the Deployment had this image, or its container this one
    #[arg(long, value_name = "[CONTAINER=]IMAGE", requires = "workload", help_heading = "What if")]
    pub(crate) image: Option<String>,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Output {
    #[default]
    Table,
    Json,
    Yaml,
}

/// The names of members, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Members(pub(crate) Vec<String>);

const MOST_MEMBERS: usize = 1000;

fn members(text: &str) -> Result<Members, String> {
    if let Ok(count) = text.parse::<usize>() {
        return match count {
            1..=MOST_MEMBERS => Ok(Members((1..=count).map(|number| format!("member-{number}")).collect())),
            _ => Err(format!("between 1 and {MOST_MEMBERS} members can run here")),
        };
    }
    let names: Vec<String> = text.split(',').map(|one| name(one.trim())).collect::<Result<_, _>>()?;
    for (index, one) in names.iter().enumerate() {
        if one == "federation" {
            return Err("\"federation\" is the name of the federation's own context; choose another".into());
        }
        if names[..index].contains(one) {
            return Err(format!("{one:?} is there twice"));
        }
    }
    Ok(Members(names))
}

fn count(text: &str) -> Result<(String, i64), String> {
    let read = text.split_once('=').and_then(|(name, count)| Some((name.trim(), count.trim().parse().ok()?)));
    match read {
        Some((name, count)) if !name.is_empty() => Ok((name.to_owned(), count)),
        _ => Err(format!("{text:?} is no cluster with a number: write for example a=20")),
    }
}

fn name(text: &str) -> Result<String, String> {
    match koinon_apiserver::names::dns1123_label(text).first() {
        None => Ok(text.to_owned()),
        Some(why) => Err(format!("{text:?} is no name for a cluster: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Args::command().debug_assert();
    }

    #[test]
    fn counts_have_a_cluster_and_a_number() {
        assert_eq!(count("a=20").unwrap(), ("a".into(), 20));
        for bad in ["a", "a=", "=3", "a=b", "20"] {
            assert!(count(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn members_are_names_or_a_number() {
        assert_eq!(members("a, b").unwrap(), Members(vec!["a".into(), "b".into()]));
        assert_eq!(members("2").unwrap(), Members(vec!["member-1".into(), "member-2".into()]));
        for bad in ["", "0", "a,a", "A", "federation", "1001"] {
            assert!(members(bad).is_err(), "{bad:?}");
        }
    }
}
