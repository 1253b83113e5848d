//! A link to an API server that can be cut.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use kube::config::Kubeconfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Carries connections to a server while it is not cut.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    open: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A link to the server of this kubeconfig.
    pub(super) async fn to(kubeconfig: &Path) -> anyhow::Result<Proxy> {
        let server = server(&Kubeconfig::read_from(kubeconfig)?)?;
        let address = server.trim_start_matches("https://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let own = listener.local_addr()?;
        let open = watch::Sender::new(true);
        let state = open.subscribe();
        let task = tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                if *state.borrow() {
                    tokio::spawn(carry(from, address.clone(), state.clone()));
                }
            }
        });
        Ok(Proxy { address: own, open, task })
    }

    /// Breaks what is open and lets nothing through.
    pub(super) fn cut(&self) {
        self.open.send_replace(false);
    }

    pub(super) fn heal(&self) {
        self.open.send_replace(true);
    }

    /// Writes a kubeconfig that goes this way.
    pub(super) fn kubeconfig(&self, of: &Path, to: &Path) -> anyhow::Result<()> {
        let mut changed = Kubeconfig::read_from(of)?;
        for named in &mut changed.clusters {
            if let Some(cluster) = &mut named.cluster {
                cluster.server = Some(format!("https://{}", self.address));
            }
        }
        std::fs::write(to, serde_json::to_string(&changed)?).context("the kubeconfig of the link")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) fn server(kubeconfig: &Kubeconfig) -> anyhow::Result<String> {
    let cluster = kubeconfig.clusters.first().and_then(|named| named.cluster.as_ref());
    cluster.and_then(|cluster| cluster.server.clone()).context("a kubeconfig names its server")
}

async fn carry(mut from: TcpStream, to: String, mut open: watch::Receiver<bool>) {
    let Ok(mut to) = TcpStream::connect(to).await else { return };
    tokio::select! {
        // Whoever ends it, both ends hear of it.
        _ = tokio::io::copy_bidirectional(&mut from, &mut to) => {}
        _ = open.wait_for(|open| !open) => {}
    }
}
