//! Koinon measured beside what it stands in for.
//!
//! `cargo run --release -p koinon-benches -- apiserver` measures the API server beside kube-apiserver with
//! etcd, both with durable writes, prints the table and writes `benches/RESULTS.md`; `-- config` measures an edit
//! that is federated beside the bare writes, and writes `benches/CONFIG.md`.

mod apiserver;
mod config;
mod measure;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Koinon measured beside what it stands in for")]
struct Arguments {
    #[command(subcommand)]
    subject: Subject,
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
        /// Where the table goes.
        #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/RESULTS.md"))]
        output: std::path::PathBuf,
    },
    /// An edit on its way to 20 followers, beside bare writes.
    Config {
        /// How often it is measured; the table shows medians.
        #[arg(long, default_value_t = 9)]
        rounds: usize,
        /// Where the table goes.
        #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/CONFIG.md"))]
        output: std::path::PathBuf,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    // One provider for all TLS of the process; a second call would fail, and there is none.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match Arguments::parse().subject {
        Subject::Apiserver { objects, rounds, output } => {
            let table = apiserver::run(objects, rounds).await?;
            println!("{table}");
            std::fs::write(output, table)?;
        }
        Subject::Config { rounds, output } => {
            let table = config::run(rounds).await?;
            println!("{table}");
            std::fs::write(output, table)?;
        }
    }
    Ok(())
}
