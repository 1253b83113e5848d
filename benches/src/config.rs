//! Configuration federation: an edit on its way to twenty followers, one of which never answers, beside the
//! bare writes that it cannot do without.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _};
use koinon_config::{Config, Lead, Options, by_kubeconfig, crds};
use koinon_conformance::harness::{Controllers, Engine, Kind};
use koinon_control::Clock;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig, NamedCluster, NamedContext};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::measure::median;

const FOLLOWERS: usize = 20;
const LEADER: &str = "leader";
const BLACK_HOLE: &str = "black-hole";
const NAMESPACE: &str = "avi-system";
/// A change must have arrived by then, or something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

struct Site {
    name: String,
    client: Client,
    configs: Api<DynamicObject>,
    _engine: Engine,
}

/// Measures and gives the table.
pub(crate) async fn run(rounds: usize) -> Result<String> {
    let mut kubeconfig = Kubeconfig::default();
    let mut sites = Vec::new();
    for number in 0..FOLLOWERS {
        let name = if number == 0 { LEADER.to_owned() } else { format!("follower-{number}") };
        sites.push(start(&name, &mut kubeconfig).await?);
    }
    let hole = TcpListener::bind("127.0.0.1:0").await?;
    add_black_hole(&mut kubeconfig, hole.local_addr()?.port());
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((socket, _)) = hole.accept().await {
            held.push(socket);
        }
    });
    let contexts: Vec<&str> = kubeconfig.contexts.iter().map(|context| &*context.name).collect();
    for site in &sites {
        furnish(site, &contexts, &kubeconfig).await?;
    }
    let (leader, followers) = sites.split_first().context("there is a leader")?;
    let federator = Config::new(Options::default(), leader.client.clone(), by_kubeconfig(), Clock::default());
    let mut lead = federator.lead();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(federator.run(async { drop(stopped.await) }));
    let (mut at_once, mut in_turn, mut sent, mut acknowledged) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // In turns, so that a noisy moment of the machine meets both. Bare writes would be put right by a leader.
    for round in 0..u64::try_from(rounds)? {
        set_leader(leader, false).await?;
        lead.wait_for(|lead| *lead == Lead::No).await?;
        at_once.push(bare(followers, 1_000 + round).await?);
        in_turn.push(one_after_another(followers, 2_000 + round).await?);
        set_leader(leader, true).await?;
        lead.wait_for(|lead| matches!(lead, Lead::As(_))).await?;
        edit(leader, 3_000 + round).await?;
        for site in followers {
            arrived(site, 3_000 + round).await?;
        }
        let (from_sending, from_answer) = federated(leader, followers, 4_000 + round).await?;
        sent.push(from_sending);
        acknowledged.push(from_answer);
    }
    drop(stop);
    task.await?;

    let (at_once, in_turn) = (median(at_once), median(in_turn));
    let (sent, acknowledged) = (median(sent), median(acknowledged));
    let mut table = format!(
        "# Configuration federation beside bare writes\n\nAn edit and {} followers that answer, and one that never does. Medians of \
         {rounds} rounds in turns on one machine, each cluster a process of its own, every write durable.\nMade by `cargo run \
         --release -p koinon-benches -- config`.\n\n| until all that answer have it | time | beside bare writes |\n|---|---:|---:|\n",
        followers.len()
    );
    for (name, time) in [
        ("bare writes, all at once", at_once),
        ("bare writes, one after another, nobody hanging", in_turn),
        ("federated, from the edit's acknowledgement", acknowledged),
        ("federated, from the sending of the edit", sent),
    ] {
        writeln!(table, "| {name} | {time:.1} ms | {:.2} |", time / at_once)?;
    }
    Ok(table)
}

async fn start(name: &str, all: &mut Kubeconfig) -> Result<Site> {
    let engine =
        tokio::task::spawn_blocking(|| Engine::start_with(Kind::Koinon, Controllers::None)).await??;
    let mut own = Kubeconfig::read_from(engine.kubeconfig())?;
    let context = own.contexts.first_mut().context("a context")?;
    context.name = name.into();
    let inner = context.context.as_mut().context("a context with content")?;
    (inner.cluster, inner.user) = (name.into(), Some(name.into()));
    own.clusters.first_mut().context("a cluster")?.name = name.into();
    own.auth_infos.first_mut().context("a user")?.name = name.into();
    all.contexts.extend(own.contexts.clone());
    all.clusters.extend(own.clusters.clone());
    all.auth_infos.extend(own.auth_infos.clone());
    let options = KubeConfigOptions { context: Some(name.into()), ..KubeConfigOptions::default() };
    let client = Client::try_from(kube::Config::from_custom_kubeconfig(own, &options).await?)?;
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("amko.vmware.com", "v1alpha1", "GSLBConfig"),
        "gslbconfigs",
    );
    let configs = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    Ok(Site { name: name.into(), client, configs, _engine: engine })
}

fn add_black_hole(kubeconfig: &mut Kubeconfig, port: u16) {
    let mut cluster: NamedCluster = kubeconfig.clusters[0].clone();
    cluster.name = BLACK_HOLE.into();
    if let Some(cluster) = &mut cluster.cluster {
        cluster.server = Some(format!("https://127.0.0.1:{port}"));
    }
    kubeconfig.clusters.push(cluster);
    let mut context: NamedContext = kubeconfig.contexts[0].clone();
    context.name = BLACK_HOLE.into();
    if let Some(context) = &mut context.context {
        context.cluster = BLACK_HOLE.into();
    }
    kubeconfig.contexts.push(context);
}

/// Definitions, namespace, Secret, AMKOCluster and a GSLBConfig.
async fn furnish(site: &Site, contexts: &[&str], kubeconfig: &Kubeconfig) -> Result<()> {
    let create = async |path: &str, object: Value| -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = http::Request::post(path).header("content-type", "application/json");
            let made = site.client.request::<Value>(request.body(serde_json::to_vec(&object)?)?).await;
            match made {
                Ok(_) => return Ok(()),
                // A definition takes a moment to be served.
                Err(kube::Error::Api(status)) if status.code == 404 && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    };
    for crd in crds() {
        create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await?;
    }
    create("/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})).await?;
    if site.name == LEADER {
        let secret = json!({
            "metadata": {"name": "gslb-config-secret"},
            "stringData": {"gslb-members": serde_json::to_string(kubeconfig)?},
        });
        create(&format!("/api/v1/namespaces/{NAMESPACE}/secrets"), secret).await?;
    }
    let cluster = json!({
        "apiVersion": "amko.vmware.com/v1alpha1", "kind": "AMKOCluster", "metadata": {"name": "amkocluster-federation"},
        "spec": {"isLeader": site.name == LEADER, "clusterContext": site.name, "version": "1.4.2", "clusters": contexts},
    });
    create(&format!("/apis/amko.vmware.com/v1alpha1/namespaces/{NAMESPACE}/amkoclusters"), cluster).await?;
    let config = json!({
        "apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBConfig", "metadata": {"name": "gc-1"},
        "spec": {"refreshInterval": 0, "logLevel": "INFO", "memberClusters": [{"clusterContext": LEADER}]},
    });
    let config: DynamicObject = serde_json::from_value(config)?;
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = site.configs.create(&PostParams::default(), &config).await {
        anyhow::ensure!(Instant::now() < deadline, "{}: {error}", site.name);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn edit(site: &Site, interval: u64) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"refreshInterval": interval}}));
    site.configs.patch("gc-1", &PatchParams::default(), &patch).await?;
    Ok(())
}

async fn set_leader(site: &Site, leads: bool) -> Result<()> {
    let path =
        format!("/apis/amko.vmware.com/v1alpha1/namespaces/{NAMESPACE}/amkoclusters/amkocluster-federation");
    let body = serde_json::to_vec(&json!({"spec": {"isLeader": leads}}))?;
    let request =
        http::Request::patch(path).header("content-type", "application/merge-patch+json").body(body)?;
    site.client.request::<Value>(request).await?;
    Ok(())
}

/// Watches that are open before anything is sent, so that both sides are seen in the same way.
async fn watches(followers: &[Site], interval: u64) -> Result<Vec<tokio::task::JoinHandle<Result<Instant>>>> {
    let open = followers.iter().map(|site| async move {
        let list = site.configs.list(&Default::default()).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let events = site.configs.watch(&WatchParams::default(), &version).await?;
        let mut events = events.boxed();
        anyhow::Ok(tokio::spawn(async move {
            let seen = async {
                while let Some(event) = events.try_next().await? {
                    if let WatchEvent::Modified(object) = event
                        && object.data["spec"]["refreshInterval"] == interval
                    {
                        return Ok(Instant::now());
                    }
                }
                anyhow::bail!("the watch ended early")
            };
            tokio::time::timeout(PATIENCE, seen).await?
        }))
    });
    try_join_all(open).await
}

async fn last(watches: Vec<tokio::task::JoinHandle<Result<Instant>>>) -> Result<Instant> {
    let mut last = None;
    for seen in try_join_all(watches).await? {
        last = last.max(Some(seen?));
    }
    last.context("there are followers")
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

async fn bare(followers: &[Site], interval: u64) -> Result<f64> {
    let watches = watches(followers, interval).await?;
    let begun = Instant::now();
    try_join_all(followers.iter().map(|site| edit(site, interval))).await?;
    Ok(milliseconds(last(watches).await?.duration_since(begun)))
}

async fn one_after_another(followers: &[Site], interval: u64) -> Result<f64> {
    let watches = watches(followers, interval).await?;
    let begun = Instant::now();
    for site in followers {
        edit(site, interval).await?;
    }
    Ok(milliseconds(last(watches).await?.duration_since(begun)))
}

/// Times from the sending of the edit, and from its answer, until the last follower has it.
async fn federated(leader: &Site, followers: &[Site], interval: u64) -> Result<(f64, f64)> {
    let watches = watches(followers, interval).await?;
    let sent = Instant::now();
    edit(leader, interval).await?;
    let answered = Instant::now();
    let last = last(watches).await?;
    Ok((milliseconds(last.duration_since(sent)), milliseconds(last.saturating_duration_since(answered))))
}

async fn arrived(site: &Site, interval: u64) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let object = site.configs.get("gc-1").await?;
        if object.data["spec"]["refreshInterval"] == interval {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "{} never had {interval}", site.name);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
