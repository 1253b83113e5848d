//! The `koinon` program: commands, wiring and what people see.

mod access;
mod args;
mod cluster;
mod flags;
mod folder;
mod heard;
mod host;
mod install;
mod keeper;
mod lab;
mod members;
mod nodes;
mod orphans;
mod plan;
mod run;
mod serving;
mod simulate;
mod site;
mod status;
mod table;
mod up;
mod wire;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use self::args::{Args, Command};
use self::run::{LogFormat, LogLevel};

fn main() -> ExitCode {
    // One provider for all TLS of the process; a second call would fail, and there is none.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let args = Args::parse();
    let (format, level) = match &args.command {
        Command::Run(run) => run.log(),
        _ => (LogFormat::Text, LogLevel::Warn),
    };
    host::log(format, level);
    if matches!(args.command, Command::Cluster(_)) {
        host::give_memory_back();
    }
    match run(args.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("koinon: {}", sentence(&error));
            let is_usage = error.is::<plan::BadInput>() || error.is::<flags::BadUsage>();
            if is_usage { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Cluster(options) => host::runtime()?.block_on(cluster::run(options)),
        Command::Up(options) => host::runtime()?.block_on(up::run(options)),
        Command::Nodes(options) => host::runtime()?.block_on(nodes::run(options)),
        Command::Run(options) => host::runtime()?.block_on(run::run(options)),
        Command::Lab(options) => host::runtime()?.block_on(lab::run(options)),
        Command::Plan(options) => plan::run(options),
        Command::Clean(options) => host::runtime()?.block_on(orphans::run(options)),
        Command::Join(options) => host::runtime()?.block_on(members::join(options)),
        Command::Unjoin(options) => host::runtime()?.block_on(members::unjoin(options)),
        Command::Members(options) => host::runtime()?.block_on(members::members(options)),
        Command::Status(options) => host::runtime()?.block_on(status::run(options)),
        Command::Install(options) => install::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "koinon", &mut std::io::stdout());
            Ok(())
        }
        Command::Version => {
            println!("koinon {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
    }
}

/// An error and its causes in one line, each said once.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // What the client library calls it says nothing.
        let cause = cause.trim_start_matches("ServiceError: ").to_owned();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}
