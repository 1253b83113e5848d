//! Koinon measured beside what it stands in for.
//!
//! `cargo run --release -p koinon-benches -- SUBJECT` measures one subject, prints its table and writes it to
//! `benches/results/SUBJECT.md`.

mod apiserver;
mod config;
mod deployments;
mod fleet;
mod league;
mod measure;
mod planner;
mod pods;
mod policies;
mod replicasets;
mod scale;
mod services;
mod sites;
mod sync;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Koinon measured beside what it stands in for")]
struct Arguments {
    #[command(subcommand)]
    subject: Subject,
    /// The folder that the table goes to.
    #[arg(long, global = true, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results"))]
    output: PathBuf,
}

#[derive(Subcommand)]
enum Subject {
    /// The API server, beside kube-apiserver and etcd.
    Apiserver {
        /// How many objects a full server holds.
        #[arg(long, default_value_t = 10_000)]
        objects: usize,
        /// How often each side is measured; the table shows medians.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// Deployments and their pods on one cluster, beside a stock control plane with the same nodes.
    Pods {
        /// How many Deployments of ten pods.
        #[arg(long, default_value_t = 100)]
        deployments: usize,
        /// How often each side is measured; the table shows medians.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// Very many members in one process.
    Scale {
        /// How many.
        #[arg(long, default_value_t = 1000)]
        members: usize,
    },
    /// The planner, beside a plain implementation of the same rules.
    Planner {
        /// How often each side is measured; the table shows the quickest.
        #[arg(long, default_value_t = 50)]
        rounds: usize,
    },
    /// An edit on its way to 20 followers, beside bare writes.
    Config {
        /// How often it is measured; the table shows medians.
        #[arg(long, default_value_t = 9)]
        rounds: usize,
    },
    /// A ReplicaSet on its way to many members, beside bare writes.
    Replicasets {
        /// How many members there are.
        #[arg(long, default_value_t = 100)]
        members: usize,
        /// How many ReplicaSets are placed at once.
        #[arg(long, default_value_t = 1000)]
        sets: usize,
        /// How often a single one is measured.
        #[arg(long, default_value_t = 100)]
        rounds: usize,
    },
    /// An image change over many members, beside the members' own rollouts.
    Deployments {
        /// How many members there are.
        #[arg(long, default_value_t = 100)]
        members: usize,
        /// How many clusters at a time, one after another.
        #[arg(long, value_delimiter = ',', default_value = "1,10")]
        at_once: Vec<usize>,
    },
    /// An edit of a federated policy on its way to all members, beside bare writes.
    Policies {
        #[arg(long, default_value_t = 50)]
        members: usize,
        #[arg(long, default_value_t = 1000)]
        policies: usize,
        /// How often it is measured; the table shows medians.
        #[arg(long, default_value_t = 9)]
        rounds: usize,
    },
    /// Endpoints of federated Services on their way to all members, beside bare writes.
    Services {
        #[arg(long, default_value_t = 50)]
        members: usize,
        /// How many federated Services, each with a member in every cluster.
        #[arg(long, default_value_t = 1000)]
        services: usize,
        /// How many endpoints each member has.
        #[arg(long, default_value_t = 20)]
        endpoints: usize,
        /// How many pods are restarted one by one.
        #[arg(long, default_value_t = 1000)]
        pods: usize,
        /// How often a single change is measured.
        #[arg(long, default_value_t = 100)]
        rounds: usize,
    },
    /// Very many members of one fleet, and one that is silent beside those that answer.
    Fleet {
        /// Members of the fleet in which one falls silent.
        #[arg(long, default_value_t = 50)]
        few: usize,
        /// How often all of them are written to, with and without it.
        #[arg(long, default_value_t = 100)]
        rounds: usize,
        /// Members of the large fleet.
        #[arg(long, default_value_t = 1000)]
        members: usize,
        /// How many of those vanish at once.
        #[arg(long, default_value_t = 100)]
        vanish: usize,
    },
    /// Custom-resource sync, beside a bare client that makes the same writes.
    Sync {
        /// How many objects there are, one after another.
        #[arg(long, value_delimiter = ',', default_value = "1000,10000")]
        objects: Vec<usize>,
        /// How often each engine is measured; the table shows medians.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    // One provider for all TLS of the process; a second call would fail, and there is none.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = Arguments::parse();
    let (name, table) = match arguments.subject {
        Subject::Apiserver { objects, rounds } => ("apiserver", apiserver::run(objects, rounds).await?),
        Subject::Pods { deployments, rounds } => ("pods", pods::run(deployments, rounds).await?),
        Subject::Scale { members } => ("scale", scale::run(members).await?),
        Subject::Planner { rounds } => ("planner", planner::run(rounds)?),
        Subject::Config { rounds } => ("config", config::run(rounds).await?),
        Subject::Replicasets { members, sets, rounds } => {
            ("replicasets", replicasets::run(members, sets, rounds).await?)
        }
        Subject::Deployments { members, at_once } => {
            ("deployments", deployments::run(members, &at_once).await?)
        }
        Subject::Policies { members, policies, rounds } => {
            ("policies", policies::run(members, policies, rounds).await?)
        }
        Subject::Services { members, services, endpoints, pods, rounds } => {
            let sizes = services::Sizes { members, services, endpoints, pods, rounds };
            ("services", services::run(sizes).await?)
        }
        Subject::Fleet { few, rounds, members, vanish } => {
            ("fleet", fleet::run(&fleet::Sizes { few, rounds, many: members, vanish }).await?)
        }
        Subject::Sync { objects, rounds } => ("sync", sync::run(&objects, rounds).await?),
    };
    println!("{table}");
    std::fs::create_dir_all(&arguments.output)?;
    std::fs::write(arguments.output.join(format!("{name}.md")), table)?;
    Ok(())
}
