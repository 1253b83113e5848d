//! What every command that serves needs: a runtime, a log, an address, the end.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, bail};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::run::{LogFormat, LogLevel};

/// What is logged, on standard error: of this program from `level` on, of libraries warnings and errors. `RUST_LOG` says otherwise,
/// also for parts.
pub(crate) fn log(format: LogFormat, level: LogLevel) {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(format!("warn,koinon={}", level.as_str())));
    let wants_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(wants_colour && std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
}

/// Makes the system's allocator give memory back after a burst, such as a list of everything.
///
/// glibc reads these settings when a program starts, so this program starts once more, in place; they
/// keep resident memory with 10,000 objects a third lower. Whoever set them already knows better.
pub(crate) fn give_memory_back() {
    const SETTINGS: [(&str, &str); 3] = [
        ("MALLOC_ARENA_MAX", "2"),
        ("MALLOC_TRIM_THRESHOLD_", "131072"),
        ("MALLOC_MMAP_THRESHOLD_", "65536"),
    ];
    let given = SETTINGS.iter().any(|(name, _)| std::env::var_os(name).is_some());
    if given || !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    // This comes back only if it failed; then the program goes on as it is.
    let error = again.args(arguments).envs(SETTINGS).exec();
    tracing::debug!(%error, "the allocator keeps its own settings");
}

pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")
}

/// Opens the address, or says who else might have it.
pub(crate) async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            bail!(
                "{address} is taken by another program: stop that one or choose another address with --listen"
            )
        }
        Err(error) => Err(error).with_context(|| {
            format!("cannot listen on {address}: choose an address of this machine with --listen")
        }),
    }
}

/// Knows when the user or the system asks the process to end.
pub(crate) struct Ending(tokio::sync::watch::Receiver<bool>);

impl Ending {
    /// From here on, Ctrl-C and SIGTERM no longer kill the process.
    pub(crate) fn new() -> anyhow::Result<Ending> {
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot receive signals")?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot receive signals")?;
        let (asked, ending) = tokio::sync::watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            asked.send_replace(true);
            // Who asks twice is in a hurry: nothing is lost, what was acknowledged is on disk.
            tokio::select! {
                biased;
                _ = interrupt.recv() => std::process::exit(130),
                () = asked.closed() => {}
            }
        });
        Ok(Ending(ending))
    }

    /// Done when the end was asked for.
    pub(crate) async fn asked(&self) {
        // The sender goes only after it has spoken.
        let _ = self.0.clone().wait_for(|asked| *asked).await;
    }
}
