//! A federation for scenarios: its API server, three members that joined with the real command, and the real role.
//!
//! It is started once and shared. Each scenario has a namespace and workloads of its own; those that take members away from
//! everybody have the federation to themselves meanwhile.

mod space;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kube::config::Kubeconfig;
use tokio::process::Command;
use tokio::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use self::space::{Space, seats};
use self::wire::Wire;
use crate::engine::{Running, koinon};
use crate::world::{Cluster, Room, World};

/// The members, so named that layouts which depend on names are those of the design.
pub(crate) const MEMBERS: [&str; 3] = ["a", "b", "c"];

/// Everything happens sooner than in the field, and still later than a busy machine takes.
const HURRY: [&str; 16] = [
    "--probe-every",
    "1s",
    "--offline-after",
    "4s",
    "--online-after",
    "1s",
    "--unschedulable-after",
    "4s",
    "--retry-refused",
    "3s",
    "--lease-duration",
    "6s",
    "--renew-deadline",
    "4s",
    "--retry-period",
    "1s",
];

/// The federation.
pub(crate) struct League {
    pub(crate) federation: Arc<Cluster>,
    pub(crate) members: BTreeMap<&'static str, Member>,
    /// Where the federation keeps what is its own.
    pub(crate) system: Room,
    /// What the role may do there, and no more.
    pub(crate) rights: PathBuf,
    world: Arc<World>,
    role: Mutex<Option<Running>>,
    peace: RwLock<()>,
}

/// A member: as its own users reach it, and the wire by which the federation does.
pub(crate) struct Member {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) wire: Wire,
    /// Where its own users reach it.
    pub(crate) server: SocketAddr,
    /// The kubeconfig that leads over the wire.
    pub(crate) kubeconfig: PathBuf,
}

impl League {
    pub(crate) async fn found(world: Arc<World>) -> anyhow::Result<League> {
        let federation = world.bare_cluster("federation").await?;
        let mut members = BTreeMap::new();
        for name in MEMBERS {
            members.insert(name, Member::new(world.cluster(name).await?).await?);
        }
        let system = Room::bare(federation.clone(), "koinon-system").await?;
        system.install("workloads").await?;
        let rights = system.kubeconfig_as("koinon-workloads").await?;
        let (role, peace) = (Mutex::default(), RwLock::default());
        let league = League { federation, members, system, rights, world, role, peace };
        for name in MEMBERS {
            league.join(name).await?;
        }
        league.start_role().await?;
        Ok(league)
    }

    /// For a scenario that leaves the members in peace.
    pub(crate) async fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.peace.read().await
    }

    /// For a scenario that does not.
    pub(crate) async fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.peace.write().await
    }

    pub(crate) async fn start_role(&self) -> anyhow::Result<()> {
        let running = self.world.role_with("league", "workloads", &self.rights, &HURRY).await?;
        *self.role.lock().await = Some(running);
        Ok(())
    }

    /// Ends the role in good order.
    pub(crate) async fn stop_role(&self) -> anyhow::Result<()> {
        let lacked = self.has_its_rights().await;
        if let Some(role) = self.role.lock().await.take() {
            role.stop().await;
        }
        lacked
    }

    /// What the role logged since it was started.
    pub(crate) async fn log(&self) -> anyhow::Result<String> {
        self.role.lock().await.as_ref().context("the role runs")?.log()
    }

    /// Fails if the role ever wanted to do what it may not.
    pub(crate) async fn has_its_rights(&self) -> anyhow::Result<()> {
        match &*self.role.lock().await {
            Some(role) => role.lacked_nothing("the federation"),
            None => Ok(()),
        }
    }

    pub(crate) async fn join(&self, name: &str) -> anyhow::Result<String> {
        let member = self.members[name].kubeconfig.to_string_lossy();
        self.koinon(&["join", name, "--member-kubeconfig", &member]).await
    }

    /// Runs a command of ours against the federation; fails with what it says if it does.
    pub(crate) async fn koinon(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.koinon_output(arguments).await?;
        if !output.status.success() {
            bail!("koinon {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The same, however it ends.
    pub(crate) async fn koinon_output(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new(koinon());
        command.args(arguments).arg("--kubeconfig").arg(&self.federation.kubeconfig);
        // Nobody sits there to be asked.
        command.stdin(Stdio::null());
        command.kill_on_drop(true).output().await.context("koinon cannot be started")
    }
}

impl Member {
    pub(crate) async fn new(cluster: Arc<Cluster>) -> anyhow::Result<Member> {
        let mut config = Kubeconfig::read_from(&cluster.kubeconfig).context("the kubeconfig of a member")?;
        let named = config.clusters.first_mut().and_then(|named| named.cluster.as_mut());
        let server = named.and_then(|cluster| cluster.server.as_mut()).context("its server")?;
        let address = server.strip_prefix("https://").context("a server behind TLS")?;
        let address = address.trim_end_matches('/').parse()?;
        let wire = Wire::open(address).await?;
        *server = format!("https://{}", wire.address);
        let kubeconfig = cluster.kubeconfig.with_file_name("kubeconfig-over-the-wire");
        std::fs::write(&kubeconfig, serde_json::to_string(&config)?)?;
        Ok(Member { cluster, wire, server: address, kubeconfig })
    }
}
