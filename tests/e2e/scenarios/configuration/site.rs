//! Clusters that federate configuration, each with a role that may do what `koinon install rbac` prints and no more.

use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::engine::Running;
use crate::http::ask;
use crate::wait::{Look, until};
use crate::world::{Cluster, Room, World};

pub(super) const OBJECT: &str = "amkocluster/amkocluster-federation";
pub(super) const VALID: &str = "current AMKOCluster Validation=valid AMKOCluster object:";
pub(super) const FOLLOWER: &str = "current AMKOCluster Validation=won't federate objects:AMKO not a leader";
pub(super) const CLIENTS: &str = "member cluster initialisation=all cluster clients fetched:";
pub(super) const MEMBERS: &str = "member cluster validation=validated all member clusters:";
pub(super) const CONFIG: &str = "GSLBConfig Federation=federated to all valid clusters successfully:";
pub(super) const POLICY: &str = "GDP Federation=federated to all valid clusters successfully:";
pub(super) const ALL_WELL: [&str; 5] = [VALID, CLIENTS, MEMBERS, CONFIG, POLICY];

/// Whose credentials the others have for a cluster.
const REMOTE: &str = "remote";

/// Clusters that know each other.
pub(super) struct Sites {
    /// A context for each of them, under its name.
    pub(super) kubeconfig: Value,
    pub(super) all: Vec<Site>,
    world: Arc<World>,
}

/// One of them.
pub(super) struct Site {
    pub(super) name: &'static str,
    pub(super) room: Room,
    pub(super) role: Option<Running>,
    /// Where its role tells how it is.
    monitor: String,
}

impl Sites {
    /// Clusters of these names, all with the same list of members; the first is to lead. No role runs yet.
    pub(super) async fn prepare(world: &Arc<World>, names: &[&'static str]) -> anyhow::Result<Sites> {
        let mut clusters = Vec::new();
        for name in names {
            clusters.push((*name, world.cluster(name).await?));
        }
        Sites::of(world, &clusters).await
    }

    /// The same of these clusters.
    pub(super) async fn of(
        world: &Arc<World>,
        clusters: &[(&'static str, Arc<Cluster>)],
    ) -> anyhow::Result<Sites> {
        let mut all = Vec::new();
        for (name, cluster) in clusters {
            all.push(Site::prepare(cluster, name).await?);
        }
        let mut sites = Sites { kubeconfig: Value::Null, all, world: world.clone() };
        sites.introduce().await?;
        let names: Vec<&str> = clusters.iter().map(|(name, _)| *name).collect();
        for site in &sites.all {
            site.apply(&site.amko_cluster(site.name == names[0], &names)).await?;
        }
        Ok(sites)
    }

    /// Has all know how each is reached now.
    pub(super) async fn introduce(&mut self) -> anyhow::Result<()> {
        let mut kubeconfig = json!({"contexts": [], "clusters": [], "users": []});
        for site in &self.all {
            site.enter(&mut kubeconfig).await?;
        }
        for site in &self.all {
            site.give_secret(&kubeconfig).await?;
        }
        self.kubeconfig = kubeconfig;
        Ok(())
    }

    pub(super) async fn start(&mut self, index: usize) -> anyhow::Result<()> {
        let site = &mut self.all[index];
        let kubeconfig = site.room.kubeconfig_as("koinon-config").await?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        site.monitor = format!("127.0.0.1:{port}");
        let arguments = ["--metrics", &site.monitor];
        site.role = Some(self.world.role_with(site.name, "config", &kubeconfig, &arguments).await?);
        Ok(())
    }

    pub(super) async fn stop(&mut self, index: usize) -> anyhow::Result<()> {
        let site = &mut self.all[index];
        let role = site.role.take().context("it runs")?;
        role.lacked_nothing(site.name)?;
        role.stop().await;
        Ok(())
    }

    /// Ends a role without a word, as the end of its cluster does.
    pub(super) async fn kill(&mut self, index: usize) -> anyhow::Result<()> {
        let role = self.all[index].role.take().context("it runs")?;
        role.signal("KILL").await?;
        role.stop().await;
        Ok(())
    }

    pub(super) async fn dissolve(self) -> anyhow::Result<()> {
        for site in self.all {
            if let Some(role) = site.role {
                role.lacked_nothing(site.name)?;
                role.stop().await;
            }
            site.room.leave().await?;
        }
        Ok(())
    }
}

impl Site {
    async fn prepare(cluster: &Arc<Cluster>, name: &'static str) -> anyhow::Result<Site> {
        let room = Room::anew(cluster, "avi-system").await?;
        room.install("config").await?;
        room.kubectl(&["create", "serviceaccount", REMOTE]).await?;
        let account = format!("--serviceaccount=avi-system:{REMOTE}");
        room.kubectl(&["create", "rolebinding", REMOTE, "--role=koinon-config-member", &account]).await?;
        Ok(Site { name, room, role: None, monitor: String::new() })
    }

    /// Adds a context for this cluster under its name.
    async fn enter(&self, all: &mut Value) -> anyhow::Result<()> {
        let file = std::fs::read(self.room.kubeconfig_as(REMOTE).await?)?;
        let mut own: Value = serde_json::from_slice(&file)?;
        own["contexts"][0]["context"] = json!({"cluster": self.name, "user": self.name});
        for kind in ["contexts", "clusters", "users"] {
            own[kind][0]["name"] = self.name.into();
            all[kind].as_array_mut().context("a list")?.push(own[kind][0].take());
        }
        Ok(())
    }

    pub(super) fn amko_cluster(&self, leads: bool, clusters: &[&str]) -> Value {
        json!({
            "apiVersion": "amko.vmware.com/v1alpha1", "kind": "AMKOCluster", "metadata": {"name": "amkocluster-federation"},
            "spec": {"isLeader": leads, "clusterContext": self.name, "version": "1.4.2", "clusters": clusters},
        })
    }

    pub(super) async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        self.room.apply(object).await
    }

    /// Patches a kind and name.
    pub(super) async fn patch(&self, what: &str, patch: &Value) -> anyhow::Result<()> {
        self.room.kubectl(&["patch", what, "--type=merge", "-p", &patch.to_string()]).await.map(drop)
    }

    pub(super) async fn give_secret(&self, kubeconfig: &Value) -> anyhow::Result<()> {
        self.give_secret_text(&kubeconfig.to_string()).await
    }

    pub(super) async fn give_secret_text(&self, text: &str) -> anyhow::Result<()> {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gslb-config-secret"},
            "stringData": {"gslb-members": text},
        }))
        .await
    }

    /// Promotes or demotes it as AMKO's manual has it.
    pub(super) async fn lead(&self, leads: bool) -> anyhow::Result<()> {
        self.room.kubectl_edit(OBJECT, &format!("s/isLeader: .*/isLeader: {leads}/")).await
    }

    /// Waits until it is known whether this site leads without a rival: by its Lease, and by its role if one runs.
    pub(super) async fn is_seen_to_lead(&self, leads: bool) -> anyhow::Result<()> {
        let holder = if leads { self.name } else { "" };
        until(&format!("{holder:?} holds the Lease of {}", self.name), async || {
            let arguments = [
                "get",
                "lease",
                "amko-leader",
                "--ignore-not-found",
                "-o",
                "jsonpath={.spec.holderIdentity}",
            ];
            let held = self.room.kubectl(&arguments).await?;
            Ok(if held == holder { Look::Found(()) } else { Look::NotYet(held) })
        })
        .await?;
        if self.role.is_none() {
            return Ok(());
        }
        let wanted = if leads { " 200 " } else { " 503 " };
        until(&format!("the role of {} answers{wanted}to /readyz?leader", self.name), async || {
            let (first, rest) = ask(&self.monitor, "/readyz?leader").await?;
            Ok(if first.contains(wanted) { Look::Found(()) } else { Look::NotYet(first + &rest) })
        })
        .await
    }

    /// Waits until a number of the role is this.
    pub(super) async fn counts(&self, name: &str, wanted: u64) -> anyhow::Result<()> {
        until(&format!("{name} of {} is {wanted}", self.name), async || {
            let (_, text) = ask(&self.monitor, "/metrics").await?;
            let line = text.lines().find(|line| line.starts_with(&format!("koinon_config_{name} ")));
            Ok(match line {
                Some(line) if line.ends_with(&format!(" {wanted}")) => Look::Found(()),
                line => Look::NotYet(line.unwrap_or(&text).to_owned()),
            })
        })
        .await
    }

    /// Makes the two objects that are federated.
    pub(super) async fn configure(&self) -> anyhow::Result<()> {
        self.apply(&config("gc-1")).await?;
        self.apply(&policy("global-gdp")).await
    }

    /// Waits until some condition says so.
    pub(super) async fn mentions(&self, wanted: &str) -> anyhow::Result<()> {
        self.until_conditions(wanted, |said| said.contains(wanted)).await
    }

    /// Waits until the conditions are these, word for word.
    pub(super) async fn says(&self, wanted: &[&str]) -> anyhow::Result<()> {
        let whole = wanted.join(";") + ";";
        self.until_conditions(&whole, |said| said == whole).await
    }

    async fn until_conditions(&self, wanted: &str, good: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let path = "jsonpath={range .status.conditions[*]}{.type}={.status}:{.reason};{end}";
        until(&format!("{} says {wanted}", self.name), async || {
            let said = self.room.kubectl(&["get", OBJECT, "-o", path]).await?;
            Ok(if good(&said) { Look::Found(()) } else { Look::NotYet(said) })
        })
        .await
    }

    /// Waits until this is what a kind and name has at a path.
    pub(super) async fn has(&self, what: &str, path: &str, wanted: &str) -> anyhow::Result<()> {
        until(&format!("{what} in {} has {path} = {wanted}", self.name), async || {
            let has = self.room.kubectl(&["get", what, "-o", &format!("jsonpath={path}")]).await?;
            Ok(if has == wanted { Look::Found(()) } else { Look::NotYet(has) })
        })
        .await
    }

    /// The names of everything federated that is here.
    pub(super) async fn names(&self) -> anyhow::Result<String> {
        let names = self.room.kubectl(&["get", "gslbconfigs,globaldeploymentpolicies", "-o", "name"]).await?;
        Ok(names
            .split_whitespace()
            .map(|name| name.rsplit('/').next().unwrap_or(name))
            .collect::<Vec<_>>()
            .join(" "))
    }

    pub(super) async fn until_names(&self, wanted: &str) -> anyhow::Result<()> {
        until(&format!("{} has {wanted:?}", self.name), async || {
            let names = self.names().await?;
            Ok(if names == wanted { Look::Found(()) } else { Look::NotYet(names) })
        })
        .await
    }
}

pub(super) fn config(name: &str) -> Value {
    json!({
        "apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBConfig", "metadata": {"name": name},
        "spec": {"gslbLeader": {"controllerIP": "10.0.0.1"}, "refreshInterval": 1800},
    })
}

pub(super) fn policy(name: &str) -> Value {
    json!({
        "apiVersion": "amko.vmware.com/v1alpha2", "kind": "GlobalDeploymentPolicy", "metadata": {"name": name},
        "spec": {"ttl": 10},
    })
}

/// The same kubeconfig, with one of the clusters at an address where nobody listens.
pub(super) fn without(kubeconfig: &Value, lost: &str) -> Value {
    let mut changed = kubeconfig.clone();
    for named in changed["clusters"].as_array_mut().into_iter().flatten() {
        if named["name"] == lost {
            named["cluster"]["server"] = "https://127.0.0.1:1".into();
        }
    }
    changed
}
