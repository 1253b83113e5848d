//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::members;

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
    /// Let a cluster into the federation
    Join(members::Join),
    /// Let a member go; its workloads run on
    Unjoin(members::Unjoin),
    /// Show the members and how they are
    Members(members::Members),
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
    /// Where to write the kubeconfig [default: kubeconfig in the data folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Without workload controllers and nodes: a federation's API server
    #[arg(long)]
    pub(crate) bare: bool,
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
    fn members_are_names_or_a_number() {
        assert_eq!(members("a, b").unwrap(), Members(vec!["a".into(), "b".into()]));
        assert_eq!(members("2").unwrap(), Members(vec!["member-1".into(), "member-2".into()]));
        for bad in ["", "0", "a,a", "A", "federation", "1001"] {
            assert!(members(bad).is_err(), "{bad:?}");
        }
    }
}
