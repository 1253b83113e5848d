//! What every command that serves needs: a runtime, a log, an address, the end.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Warnings and errors on standard error; more with `RUST_LOG`.
pub(crate) fn log() {
    // The client calls every refused connection an error, also where a member is known to be away.
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("warn,kube_client::client::builder=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
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
        Err(error) => Err(error).with_context(|| format!("cannot listen on {address}")),
    }
}

/// The folder for state when none is given: below the user's data folder.
pub(crate) fn default_data(name: &str) -> anyhow::Result<PathBuf> {
    let base = match std::env::var_os("XDG_DATA_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => match std::env::var_os("HOME").filter(|folder| !folder.is_empty()) {
            Some(home) => PathBuf::from(home).join(".local/share"),
            None => bail!("there is no home folder to keep the state in: choose one with --data"),
        },
    };
    Ok(base.join("koinon").join(name))
}

/// Makes the folder, readable by its owner alone.
pub(crate) fn private_folder(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))
}

/// Done when the user or the system asks the process to end.
pub(crate) async fn asked_to_end() -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
