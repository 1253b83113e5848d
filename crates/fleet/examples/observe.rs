//! Observes a federation: how its members are, and how many objects of some kinds each has.
//!
//! ```text
//! cargo run -p koinon-fleet --example observe -- FEDERATION_KUBECONFIG [SECONDS]
//! ```

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::apps::v1::Deployment;
use koinon_api::membership::KOINON_NAMESPACE;
use koinon_fleet::membership::controller::{Controller, Kind};
use koinon_fleet::{Fleet, Index, Metrics, Options, Record, Selection};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// What is wanted and what is there, of each Deployment.
#[derive(Debug, PartialEq)]
struct Replicas {
    wanted: i32,
    ready: i32,
}

impl Record for Replicas {
    type Object = Deployment;

    fn fold(deployment: &Deployment) -> Option<Replicas> {
        let wanted = deployment.spec.as_ref()?.replicas.unwrap_or(1);
        let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
        Some(Replicas { wanted, ready })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().context("name the kubeconfig of a federation")?;
    let seconds: u64 = arguments.next().map_or(Ok(60), |text| text.parse())?;
    let kubeconfig = Kubeconfig::read_from(file)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;

    let metrics = Metrics::default();
    let fleet = Fleet::new(Options::default(), metrics.clone(), Default::default());
    let index: Arc<Index<Replicas>> = Index::new();
    let controller = Controller::new(client, KOINON_NAMESPACE, Kind::Federation, fleet.clone());
    let watching = fleet.follow(index.clone(), Selection::default(), |member| member.all());
    let show = async {
        let mut changes = fleet.changes();
        loop {
            for member in fleet.members() {
                let (name, state) = (member.name(), member.state());
                let (count, knowledge) =
                    (index.of_member(name.as_str()).len(), index.knowledge(name.as_str()));
                println!(
                    "{} {name} {} {} deployments={count} {knowledge:?} {}",
                    koinon_control::Clock::default().now().strftime("%H:%M:%S"),
                    state.phase.as_str(),
                    state.version.unwrap_or_default(),
                    state.why.unwrap_or_default()
                );
            }
            let _ = tokio::time::timeout(Duration::from_secs(10), changes.changed()).await;
        }
    };
    tokio::select! {
        biased;
        () = controller.run() => {}
        never = watching => match never {},
        () = show => {}
        () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
    }
    let mut registry = prometheus_client::registry::Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    println!("{text}");
    Ok(())
}
