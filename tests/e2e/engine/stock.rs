//! A stock control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler, with our nodes; or, for a
//! federation, without scheduler, nodes and workload controllers.

use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context as _, bail};
use tokio::process::Command;

use super::{Build, Guard, Running, embedded, koinon};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hack/kubernetes/cluster.sh");
/// Each control plane takes five ports.
const PORTS_EACH: u16 = 10;
/// What a federation's API server needs of kube-controller-manager: nothing that would run pods.
const HOUSEKEEPING: &str = "garbage-collector-controller,namespace-controller,serviceaccount-controller,\
    serviceaccount-token-controller,root-ca-certificate-publisher-controller,clusterrole-aggregation-controller";
const RESTLESS: &str = "--goaway-chance 0.02 --http2-max-streams-per-connection 4";
static NEXT: AtomicU16 = AtomicU16::new(0);

pub(super) async fn start(name: &str, build: Build, folder: &Path) -> anyhow::Result<Running> {
    let first: u16 = match std::env::var("KOINON_E2E_PORT") {
        Ok(port) => port.parse().context("KOINON_E2E_PORT is no port")?,
        Err(_) => 17600,
    };
    let port = first + PORTS_EACH * NEXT.fetch_add(1, Ordering::Relaxed);
    let (controllers, older, flags) = match build {
        Build::Whole => ("all", "", ""),
        Build::Bare => (HOUSEKEEPING, "", ""),
        Build::Older => ("", "yes", ""),
        Build::Restless => (HOUSEKEEPING, "", RESTLESS),
    };
    let stop = Guard::new(&format!("{SCRIPT} stop {}", folder.display()))?;
    let log = std::fs::File::create(folder.join("start.log"))?;
    let status = Command::new(SCRIPT)
        .arg("start")
        .arg(folder)
        .arg(port.to_string())
        .env("KOINON_CONTROLLERS", controllers)
        .env("KOINON_OLDER", older)
        .env("KOINON_APISERVER_FLAGS", flags)
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .await
        .context("hack/kubernetes/cluster.sh cannot be started")?;
    if !status.success() {
        bail!("{}", std::fs::read_to_string(folder.join("start.log")).unwrap_or_default());
    }
    let kubeconfig = folder.join("kubeconfig");
    if build != Build::Whole {
        return Ok(Running { kubeconfig, folder: folder.to_owned(), guards: vec![stop] });
    }
    let nodes_folder = folder.join("nodes");
    std::fs::create_dir_all(&nodes_folder)?;
    let mut nodes = Command::new(koinon());
    nodes.args(["nodes", "--kubeconfig"]).arg(&kubeconfig);
    let nodes = embedded::launch(nodes, &nodes_folder)
        .await
        .with_context(|| format!("the nodes of {name} did not start"))?;
    Ok(Running { kubeconfig, folder: folder.to_owned(), guards: vec![stop, nodes] })
}
