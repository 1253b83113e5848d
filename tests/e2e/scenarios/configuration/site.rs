//! Clusters that federate configuration, each with a role that may do what `koinon install rbac` prints and no more.

use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::engine::Running;
use crate::wait::{Look, until};
use crate::world::{Room, World};

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
}

impl Sites {
    /// Clusters of these names, all with the same list of members; the first is to lead. No role runs yet.
    pub(super) async fn prepare(world: &Arc<World>, names: &[&'static str]) -> anyhow::Result<Sites> {
        let mut all = Vec::new();
        for name in names {
            all.push(Site::prepare(world, name).await?);
        }
        let mut kubeconfig = json!({"contexts": [], "clusters": [], "users": []});
        for site in &all {
            site.enter(&mut kubeconfig).await?;
        }
        for site in &all {
            site.give_secret(&kubeconfig).await?;
            site.apply(&site.amko_cluster(site.name == names[0], names)).await?;
        }
        Ok(Sites { kubeconfig, all, world: world.clone() })
    }

    pub(super) async fn start(&mut self, index: usize) -> anyhow::Result<()> {
        let site = &mut self.all[index];
        let kubeconfig = site.room.kubeconfig_as("koinon-config").await?;
        site.role = Some(self.world.role(site.name, "config", &kubeconfig).await?);
        Ok(())
    }

    pub(super) async fn stop(&mut self, index: usize) -> anyhow::Result<()> {
        self.all[index].role.take().context("it runs")?.stop().await;
        Ok(())
    }

    pub(super) async fn dissolve(self) -> anyhow::Result<()> {
        for site in self.all {
            if let Some(role) = site.role {
                role.stop().await;
            }
            site.room.leave().await?;
        }
        Ok(())
    }
}

impl Site {
    async fn prepare(world: &World, name: &'static str) -> anyhow::Result<Site> {
        let room = Room::anew(&world.cluster(name).await?, "avi-system").await?;
        room.install("config").await?;
        room.kubectl(&["create", "serviceaccount", REMOTE]).await?;
        let account = format!("--serviceaccount=avi-system:{REMOTE}");
        room.kubectl(&["create", "rolebinding", REMOTE, "--role=koinon-config-member", &account]).await?;
        Ok(Site { name, room, role: None })
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

    pub(super) async fn lead(&self, leads: bool) -> anyhow::Result<()> {
        self.patch(OBJECT, &json!({"spec": {"isLeader": leads}})).await
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
