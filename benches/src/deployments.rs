//! An image change over many members, beside the members' own rollouts one after another.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::league::{League, Members, PATIENCE, Role};

const PODS: usize = 3;
const LOOK: Duration = Duration::from_millis(10);

pub(crate) async fn run(members: usize, at_once: &[usize]) -> Result<String> {
    let league = League::start(members, Members::Whole).await?;
    let role = Role::start(league.folder.path())?;
    apply(&league.federation, "web", members * PODS, "1", 1).await?;
    until_rolled_out(&league.federation, "web").await?;
    for client in &league.members {
        apply(client, "bare", PODS, "1", 1).await?;
    }
    for client in &league.members {
        until_rolled_out(client, "bare").await?;
    }
    let mut table = format!(
        "# Federated Deployments beside the members' own rollouts\n\nAn image change over {members} embedded members of {PODS} \
         pods each, over HTTPS on one machine; the role is a process of its own, pods take 0.4 s to be ready and 0.2 s to \
         end.\nMade by `cargo run --release -p koinon-benches -- deployments`.\n\n| clusters at a time | \
         members' own rollouts, s | through the federation, s | beside | calls to each member | processor time of the role, s \
         | its memory, MiB |\n|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for (number, many) in at_once.iter().enumerate() {
        let version = (number + 2).to_string();
        let begun = Instant::now();
        let alone = |client: &Client| {
            let (client, version) = (client.clone(), version.clone());
            async move {
                apply(&client, "bare", PODS, &version, 1).await?;
                until_rolled_out(&client, "bare").await
            }
        };
        let each = futures::stream::iter(league.members.iter().map(alone));
        each.buffer_unordered(*many).try_collect::<Vec<()>>().await?;
        let bare = begun.elapsed().as_secs_f64();

        let calls = role.measured("koinon_member_calls_total").await?;
        let processor = role.processor()?;
        let begun = Instant::now();
        apply(&league.federation, "web", members * PODS, &version, *many).await?;
        until_rolled_out(&league.federation, "web").await?;
        let through = begun.elapsed().as_secs_f64();
        let calls = (role.measured("koinon_member_calls_total").await? - calls) / members as f64;
        let (processor, memory) = (role.processor()? - processor, role.resident()?);
        let beside = through / bare;
        writeln!(
            table,
            "| {many} | {bare:.2} | {through:.2} | {beside:.2} | {calls:.1} | {processor:.2} | {memory:.1} |"
        )?;
    }
    role.stop()?;
    Ok(table)
}

fn deployment(name: &str, replicas: usize, version: &str, at_once: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": name, "namespace": "default",
            "annotations": {"koinon.dev/max-concurrent-clusters": at_once.to_string()},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": format!("example.com/web:{version}")}]},
            },
        },
    })
}

async fn apply(client: &Client, name: &str, replicas: usize, version: &str, at_once: usize) -> Result<()> {
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    let body = deployment(name, replicas, version, at_once);
    api.patch(name, &PatchParams::apply("bench").force(), &Patch::Apply(body)).await?;
    Ok(())
}

/// What `kubectl rollout status` waits for.
async fn until_rolled_out(client: &Client, name: &str) -> Result<()> {
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    let begun = Instant::now();
    loop {
        let found = api.get(name).await?;
        let wanted = found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let done = found.status.as_ref().is_some_and(|status| {
            status.observed_generation >= found.metadata.generation
                && status.updated_replicas.unwrap_or(0) >= wanted
                && status.replicas <= status.updated_replicas
                && status.available_replicas >= status.updated_replicas
        });
        if done {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "{} was not rolled out: {:?}", found.name_any(), found.status);
        tokio::time::sleep(LOOK).await;
    }
}
