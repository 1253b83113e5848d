//! What every command that serves needs: a runtime, a log, an address, the end.

use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::run::LogFormat;

/// Warnings and errors on standard error; more with `RUST_LOG`.
pub(crate) fn log(format: LogFormat) {
    // The client calls every refused connection an error, also where a member is known to be away.
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("warn,kube_client::client::builder=off"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
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
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            asked.send_replace(true);
            // Who asks twice is in a hurry: nothing is lost, what was acknowledged is on disk.
            tokio::select! {
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
