//! A federation of clusters that supervise each other: what `koinon run network` works for.
//!
//! Each cluster can be in one such federation, so scenarios that need one take turns (`order`). A scenario founds its own in
//! clusters `a`, `b` and `c`; the first two supervise, each with exactly the permissions that `koinon install rbac` prints.

use std::sync::Arc;

use anyhow::Context as _;
use base64::Engine as _;
use futures::future::try_join_all;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::engine::Running;
use crate::world::{Room, World};

pub(crate) const SITES: [&str; 3] = ["a", "b", "c"];
pub(crate) const SUPERVISORS: [&str; 2] = ["a", "b"];
pub(crate) const SYSTEM: &str = "antrea-plus-system";
pub(crate) const FEDERATION: &str = "federation.antreaplus.tanzu.vmware.com/v1alpha1";
/// Enough haste that a scenario need not wait long for a new leader.
pub(crate) const HASTE: [&str; 8] =
    ["--lease-duration", "6s", "--renew-deadline", "4s", "--retry-period", "1s", "--probe-every", "1s"];

/// Three clusters of one federation.
pub(crate) struct Union {
    pub(crate) sites: Vec<Site>,
    world: Arc<World>,
}

/// One of its clusters.
pub(crate) struct Site {
    pub(crate) name: &'static str,
    /// Where claims, the Federation, Leases and global Services are.
    pub(crate) room: Room,
    /// The role beside it, where one runs.
    pub(crate) role: Option<Running>,
}

impl Union {
    /// Prepares the clusters, tells them of each other and starts the supervisors' role.
    pub(crate) async fn found(world: &Arc<World>) -> anyhow::Result<Union> {
        let mut union = Union::prepare(world).await?;
        union.begin(&[]).await?;
        Ok(union)
    }

    /// Tells prepared clusters of each other and starts the supervisors' role, with more to say to it.
    pub(crate) async fn begin(&mut self, arguments: &[&str]) -> anyhow::Result<()> {
        let all = 0..self.sites.len();
        try_join_all(all.clone().map(|index| self.federate(index))).await?;
        for index in all {
            if SUPERVISORS.contains(&self.sites[index].name) {
                self.start_role(index, arguments).await?;
            }
        }
        Ok(())
    }

    /// The clusters with everything installed, but nobody claims anything yet and no role runs.
    pub(crate) async fn prepare(world: &Arc<World>) -> anyhow::Result<Union> {
        let sites = try_join_all(SITES.map(|name| Site::prepare(world, name))).await?;
        Ok(Union { sites, world: world.clone() })
    }

    /// Has a cluster take part: supervisors know how to log in everywhere, a child only says that it is in.
    pub(crate) async fn federate(&self, index: usize) -> anyhow::Result<()> {
        let site = &self.sites[index];
        let mut members = Vec::new();
        if SUPERVISORS.contains(&site.name) {
            for other in &self.sites {
                members.push(site.entry_for(other).await?);
            }
            site.claim("supervisor.antreaplus.tanzu-vmware.com", "true").await?;
        }
        site.claim("id.k8s.io", site.name).await?;
        site.apply(&json!({
            "apiVersion": FEDERATION, "kind": "Federation", "metadata": {"name": "fed"}, "spec": {"members": members},
        }))
        .await
    }

    /// Runs the role beside a cluster, as the account that is meant for it.
    pub(crate) async fn start_role(&mut self, index: usize, arguments: &[&str]) -> anyhow::Result<()> {
        let site = &self.sites[index];
        let kubeconfig = site.room.kubeconfig_as("koinon-network").await?;
        let arguments = [&HASTE, arguments].concat();
        let role = self.world.role_with(site.name, "network", &kubeconfig, &arguments).await?;
        self.sites[index].role = Some(role);
        Ok(())
    }

    /// Ends every role and takes the federation's namespace away everywhere.
    pub(crate) async fn dissolve(self) -> anyhow::Result<()> {
        for mut site in self.sites {
            site.end_role().await?;
            site.room.leave().await?;
        }
        Ok(())
    }
}

impl Site {
    async fn prepare(world: &World, name: &'static str) -> anyhow::Result<Site> {
        Site::furnish(Room::anew(&world.cluster(name).await?, SYSTEM).await?, name).await
    }

    /// Installs in a cluster what a federation needs there.
    pub(crate) async fn furnish(room: Room, name: &'static str) -> anyhow::Result<Site> {
        let site = Site { name, room, role: None };
        site.room.install("network").await?;
        Ok(site)
    }

    /// Ends the role in good order; it must never have lacked a permission.
    pub(crate) async fn end_role(&mut self) -> anyhow::Result<()> {
        let Some(role) = self.role.take() else { return Ok(()) };
        let lacked = role.lacked_nothing(self.name);
        role.stop().await;
        lacked
    }

    /// What stands in this cluster's Federation for another cluster, whose credentials are put into a Secret here.
    pub(crate) async fn entry_for(&self, other: &Site) -> anyhow::Result<Value> {
        let (server, authority) = other.server()?;
        let token = other.token("koinon-network-member").await?;
        let secret = format!("member-{}", other.name);
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": secret, "labels": {"koinon.dev/member-secret": "true"}},
            "stringData": {"token": token, "ca.crt": authority},
        }))
        .await?;
        Ok(json!({"clusterID": {"value": other.name}, "server": server, "secret": secret}))
    }

    pub(crate) async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        self.room.apply(object).await
    }

    pub(crate) async fn claim(&self, name: &str, value: &str) -> anyhow::Result<()> {
        let claim = json!({"apiVersion": FEDERATION, "kind": "ClusterClaim", "metadata": {"name": name}, "value": value});
        self.apply(&claim).await
    }

    pub(crate) async fn token(&self, account: &str) -> anyhow::Result<String> {
        let token = self.room.kubectl(&["create", "token", account, "--duration=2h"]).await?;
        Ok(token.trim().to_owned())
    }

    pub(crate) fn server(&self) -> anyhow::Result<(String, String)> {
        let config = Kubeconfig::read_from(&self.room.cluster.kubeconfig)?;
        let cluster = config.clusters.first().and_then(|named| named.cluster.clone()).context("a cluster")?;
        let authority = cluster.certificate_authority_data.context("an authority")?;
        let authority = base64::engine::general_purpose::STANDARD.decode(authority)?;
        Ok((cluster.server.context("a server")?, String::from_utf8(authority)?))
    }

    pub(crate) async fn leader(&self) -> anyhow::Result<String> {
        let path = "jsonpath={.spec.holderIdentity}";
        let holder = self.room.kubectl(&["get", "lease", self.name, "-o", path]).await?;
        Ok(holder.split('_').next().unwrap_or_default().to_owned())
    }
}
