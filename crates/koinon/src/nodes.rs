//! `koinon nodes`: simulated nodes for a control plane that runs elsewhere, such as a stock one.

use koinon_cluster::Clock;
use koinon_cluster::kubelet::{Kubelet, is_ready};
use koinon_context::Context;

use crate::access::innermost;
use crate::{args, host};

pub(crate) async fn run(args: args::Alone) -> anyhow::Result<()> {
    let access = args.cluster.access().await?;
    let server = access.config.cluster_url.to_string();
    let client = access.telling_client()?;
    // Fails with the reason where the cluster cannot be reached at all; later failures are waited out.
    client.apiserver_version().await.map_err(|error| anyhow::anyhow!(innermost(&error)))?;
    let settings = args.nodes.settings(1);
    let count = settings.nodes as usize;
    let context = Context::real();
    let kubelet = Kubelet::alone(client, Clock::new(move || context.now()), settings);
    let nodes = kubelet.nodes();
    let end = host::Ending::new()?;
    let told = async {
        nodes.until(|nodes| nodes.iter().filter(|node| is_ready(node)).count() >= count).await;
        println!("ready: {count} simulated nodes at {server}, until Ctrl-C");
        std::future::pending().await
    };
    tokio::select! {
        biased;
        never = kubelet.run() => match never {},
        () = told => Ok(()),
        () = end.asked() => Ok(()),
    }
}
