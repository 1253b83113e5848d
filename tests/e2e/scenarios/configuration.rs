//! Configuration that survives its leader: the disasters that it is for, step by step.

use std::sync::Arc;

use anyhow::Context as _;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use super::{Scenario, kubectl};
use crate::engine::{Running, koinon};
use crate::wait::{Look, until};
use crate::world::{Room, World};

const SITES: [&str; 3] = ["a", "b", "c"];
const OBJECT: &str = "amkocluster/amkocluster-federation";
const FEDERATED: &str = "GDP Federation=federated to all valid clusters successfully:";

pub(super) fn all() -> Vec<Scenario> {
    vec![kubectl("a_lost_leader_is_replaced_comes_back_and_follows", disaster)]
}

struct Site {
    name: &'static str,
    room: Room,
    role: Option<Running>,
}

async fn disaster(world: Arc<World>) -> anyhow::Result<()> {
    let kubeconfig = merged(&world).await?;
    let mut sites = Vec::new();
    for name in SITES {
        sites.push(found(&world, name, &kubeconfig).await?);
    }
    for site in &mut sites {
        site.role = Some(world.role(site.name, "config", &site.room.cluster.kubeconfig).await?);
    }
    let [a, b, c] = &mut sites[..] else { anyhow::bail!("three sites") };
    a.apply(&json!({
        "apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBConfig", "metadata": {"name": "gc-1"},
        "spec": {"gslbLeader": {"controllerIP": "10.0.0.1"}, "refreshInterval": 1800},
    }))
    .await?;
    a.apply(&json!({
        "apiVersion": "amko.vmware.com/v1alpha2", "kind": "GlobalDeploymentPolicy", "metadata": {"name": "global-gdp"},
        "spec": {"ttl": 10},
    }))
    .await?;
    a.says(FEDERATED).await?;
    b.says("current AMKOCluster Validation=won't federate objects:AMKO not a leader").await?;
    for site in [&*b, &*c] {
        site.has("10.0.0.1/1800").await?;
    }

    // The site is lost: its federator is gone, and the others do not reach it.
    a.role.take().context("it runs")?.stop().await;
    for site in [&*b, &*c] {
        site.give_secret(&without(&kubeconfig, "a")).await?;
    }
    b.room
        .kubectl(&[
            "patch",
            "gslbconfig",
            "gc-1",
            "--type=merge",
            "-p",
            r#"{"spec":{"gslbLeader":{"controllerIP":"10.0.0.2"}}}"#,
        ])
        .await?;
    b.lead(true).await?;
    c.has("10.0.0.2/1800").await?;
    b.says("error in getting AMKOCluster list for cluster a").await?;

    // The old leader boots up: both stop, and say why.
    for site in [&*b, &*c] {
        site.give_secret(&kubeconfig).await?;
    }
    a.role = Some(world.role("a", "config", &a.room.cluster.kubeconfig).await?);
    a.says("AMKO in cluster b is also a leader, conflicting state").await?;
    b.says("AMKO in cluster a is also a leader, conflicting state").await?;
    b.room
        .kubectl(&["patch", "gslbconfig", "gc-1", "--type=merge", "-p", r#"{"spec":{"refreshInterval":5}}"#])
        .await?;
    c.has("10.0.0.2/1800").await?;
    a.lead(false).await?;
    b.says(FEDERATED).await?;
    for site in [&*a, &*c] {
        site.has("10.0.0.2/5").await?;
    }
    for site in sites {
        site.role.context("it runs")?.stop().await;
        site.room.leave().await?;
    }
    Ok(())
}

/// One kubeconfig with a context for each site, under its name.
async fn merged(world: &World) -> anyhow::Result<Kubeconfig> {
    let mut all = Kubeconfig::default();
    for name in SITES {
        let mut own = Kubeconfig::read_from(&world.cluster(name).await?.kubeconfig)?;
        let context = own.contexts.first_mut().context("a context")?;
        context.name = name.into();
        let inner = context.context.as_mut().context("what the context is")?;
        (inner.cluster, inner.user) = (name.into(), Some(name.into()));
        own.clusters.first_mut().context("a cluster")?.name = name.into();
        own.auth_infos.first_mut().context("a user")?.name = name.into();
        all.contexts.extend(own.contexts);
        all.clusters.extend(own.clusters);
        all.auth_infos.extend(own.auth_infos);
    }
    Ok(all)
}

/// The same, with one of them at an address where nobody listens.
fn without(kubeconfig: &Kubeconfig, lost: &str) -> Kubeconfig {
    let mut changed = kubeconfig.clone();
    for named in changed.clusters.iter_mut().filter(|named| named.name == lost) {
        if let Some(cluster) = &mut named.cluster {
            cluster.server = Some("https://127.0.0.1:1".into());
        }
    }
    changed
}

async fn found(world: &World, name: &'static str, kubeconfig: &Kubeconfig) -> anyhow::Result<Site> {
    let cluster = world.cluster(name).await?;
    let room = Room::open(cluster, "avi-system").await?;
    let definitions =
        tokio::process::Command::new(koinon()).args(["install", "crds", "--role", "config"]).output().await?;
    let file = room.cluster.kubeconfig.with_file_name("definitions.yaml");
    std::fs::write(&file, &definitions.stdout)?;
    room.kubectl(&["apply", "-f", &file.to_string_lossy()]).await?;
    room.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).await?;
    let site = Site { name, room, role: None };
    site.give_secret(kubeconfig).await?;
    site.apply(&json!({
        "apiVersion": "amko.vmware.com/v1alpha1", "kind": "AMKOCluster", "metadata": {"name": "amkocluster-federation"},
        "spec": {"isLeader": name == "a", "clusterContext": name, "version": "1.4.2", "clusters": SITES},
    }))
    .await?;
    Ok(site)
}

impl Site {
    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let file = self.room.cluster.kubeconfig.with_file_name("object.json");
        std::fs::write(&file, object.to_string())?;
        until("the object is applied", async || {
            self.room.kubectl(&["apply", "-f", &file.to_string_lossy()]).await?;
            Ok(Look::Found(()))
        })
        .await
    }

    async fn give_secret(&self, kubeconfig: &Kubeconfig) -> anyhow::Result<()> {
        let text = serde_json::to_string(kubeconfig)?;
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gslb-config-secret"},
            "stringData": {"gslb-members": text},
        }))
        .await
    }

    async fn lead(&self, leads: bool) -> anyhow::Result<()> {
        let patch = json!({"spec": {"isLeader": leads}}).to_string();
        self.room.kubectl(&["patch", OBJECT, "--type=merge", "-p", &patch]).await.map(drop)
    }

    /// Waits until the status says so.
    async fn says(&self, wanted: &str) -> anyhow::Result<()> {
        let path = "jsonpath={range .status.conditions[*]}{.type}={.status}:{.reason};{end}";
        until(&format!("{} says {wanted}", self.name), async || {
            let said = self.room.kubectl(&["get", OBJECT, "-o", path]).await?;
            Ok(if said.contains(wanted) { Look::Found(()) } else { Look::NotYet(said) })
        })
        .await
    }

    /// Waits until the GSLBConfig is as it should be.
    async fn has(&self, wanted: &str) -> anyhow::Result<()> {
        let path = "jsonpath={.spec.gslbLeader.controllerIP}/{.spec.refreshInterval}";
        until(&format!("{} has {wanted}", self.name), async || {
            let has = self.room.kubectl(&["get", "gslbconfig", "gc-1", "-o", path]).await?;
            Ok(if has == wanted { Look::Found(()) } else { Look::NotYet(has) })
        })
        .await
    }
}
