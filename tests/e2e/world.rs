//! The clusters that scenarios share, and the namespace that each has to itself.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{Mutex, OnceCell};

use crate::engine::{self, Build, Engine, Running};
use crate::kubectl::{self, Said};
use crate::league::League;
use crate::wait::{Look, until};

/// Everything that runs.
pub(crate) struct World {
    engine: Engine,
    kubectl: Option<PathBuf>,
    folder: TempDir,
    /// Each starts when it is first asked for, whoever else starts at that moment.
    clusters: Mutex<BTreeMap<String, Arc<OnceCell<Started>>>>,
    league: Mutex<Option<Arc<League>>>,
}

type Started = (Running, Arc<Cluster>);

/// One cluster.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    kubectl: Option<PathBuf>,
}

/// A namespace of one scenario in one cluster.
pub(crate) struct Room {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) name: String,
}

impl World {
    pub(crate) fn new(engine: Engine, kubectl: Option<PathBuf>) -> World {
        let folder = tempfile::Builder::new().prefix("koinon-e2e-").tempdir().expect("a folder can be made");
        World { engine, kubectl, folder, clusters: Mutex::default(), league: Mutex::default() }
    }

    /// A kubectl of another version than the one that scenarios use, if there is one.
    pub(crate) fn another_kubectl(&self) -> Option<PathBuf> {
        kubectl::another(self.kubectl.as_deref()?)
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine
    }

    /// The cluster of this name; it starts when it is first asked for.
    pub(crate) async fn cluster(&self, name: &str) -> anyhow::Result<Arc<Cluster>> {
        self.cluster_of(name, Build::Whole).await
    }

    /// The same without nodes and workload controllers: a federation's API server.
    pub(crate) async fn bare_cluster(&self, name: &str) -> anyhow::Result<Arc<Cluster>> {
        self.cluster_of(name, Build::Bare).await
    }

    /// The federation; it is founded when it is first asked for.
    pub(crate) async fn league(self: &Arc<Self>) -> anyhow::Result<Arc<League>> {
        let mut league = self.league.lock().await;
        if let Some(league) = &*league {
            return Ok(league.clone());
        }
        let founded = Arc::new(League::found(self.clone()).await?);
        *league = Some(founded.clone());
        Ok(founded)
    }

    async fn cluster_of(&self, name: &str, build: Build) -> anyhow::Result<Arc<Cluster>> {
        let place = self.clusters.lock().await.entry(name.to_owned()).or_default().clone();
        let (_, cluster) = place.get_or_try_init(|| self.own_cluster(name, build)).await?;
        Ok(cluster.clone())
    }

    /// A cluster that only its scenario knows, which also stops it; it can then be started again from what it kept.
    pub(crate) async fn own_cluster(&self, name: &str, build: Build) -> anyhow::Result<Started> {
        let running = self.engine.start(name, build, self.folder.path()).await?;
        let options = KubeConfigOptions::default();
        let config = Kubeconfig::read_from(&running.kubeconfig).context("the kubeconfig")?;
        let config = Config::from_custom_kubeconfig(config, &options).await?;
        let cluster = Cluster {
            client: Client::try_from(config)?,
            kubeconfig: running.kubeconfig.clone(),
            kubectl: self.kubectl.clone(),
        };
        Ok((running, Arc::new(cluster)))
    }

    /// A fresh namespace for a scenario in the first cluster.
    pub(crate) async fn room(&self, scenario: &str) -> anyhow::Result<Room> {
        Room::open(self.cluster("a").await?, scenario).await
    }

    /// Runs a role of ours beside a cluster, until what comes back is stopped.
    pub(crate) async fn role_with(
        &self,
        name: &str,
        role: &str,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> anyhow::Result<Running> {
        let folder = self.folder.path().join(format!("{role}-{name}"));
        std::fs::create_dir_all(&folder)?;
        engine::role(role, kubeconfig, arguments, &folder).await
    }

    pub(crate) async fn stop(&self) {
        if let Some(league) = self.league.lock().await.take() {
            // Every scenario looked whether it lacked anything.
            let _ = league.stop_role().await;
        }
        let clusters = std::mem::take(&mut *self.clusters.lock().await);
        for started in clusters.into_values().filter_map(Arc::into_inner).filter_map(OnceCell::into_inner) {
            started.0.stop().await;
        }
    }
}

impl Room {
    /// A namespace where no pod will ever be.
    pub(crate) async fn bare(cluster: Arc<Cluster>, name: &str) -> anyhow::Result<Room> {
        let namespace: Namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": name}}))?;
        let api: Api<Namespace> = Api::all(cluster.client.clone());
        api.create(&PostParams::default(), &namespace).await.context("the namespace")?;
        Ok(Room { cluster, name: name.to_owned() })
    }

    pub(crate) async fn open(cluster: Arc<Cluster>, name: &str) -> anyhow::Result<Room> {
        let room = Room::bare(cluster, name).await?;
        room.until_pods_are_admitted().await?;
        Ok(room)
    }

    /// Pods are admitted once their account is there.
    async fn until_pods_are_admitted(&self) -> anyhow::Result<()> {
        let accounts = self.api::<ServiceAccount>();
        let looks = AtomicU32::new(0);
        until("the namespace has its default service account", async || {
            if accounts.get_opt("default").await?.is_some() {
                return Ok(Look::Found(()));
            }
            // Where a namespace is made anew while the API server still takes the old one for terminating, the stock
            // controller is refused and does not try again. A change of the namespace has it look again.
            let looks = looks.fetch_add(1, Ordering::Relaxed);
            if looks % 100 == 99 {
                let change =
                    serde_json::json!({"metadata": {"annotations": {"koinon-e2e/looks": looks.to_string()}}});
                let namespaces: Api<Namespace> = Api::all(self.cluster.client.clone());
                namespaces.patch(&self.name, &PatchParams::default(), &Patch::Merge(change)).await?;
            }
            Ok(Look::NotYet("it has none".into()))
        })
        .await
    }

    /// A namespace that scenarios make one after another. What the one before made may still be on its way out; if that
    /// one failed, nobody has sent it on its way yet.
    pub(crate) async fn anew(cluster: &Arc<Cluster>, name: &str) -> anyhow::Result<Room> {
        let api: Api<Namespace> = Api::all(cluster.client.clone());
        let left = api.get_opt(name).await?;
        if left.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none()) {
            api.delete(name, &DeleteParams::default()).await?;
        }
        until("the namespace can be made", async || Ok(Look::Found(Room::open(cluster.clone(), name).await?)))
            .await
    }

    /// The same namespace under another kubectl.
    pub(crate) fn under(self, kubectl: &Path) -> Room {
        let Cluster { client, kubeconfig, .. } = &*self.cluster;
        let (client, kubeconfig) = (client.clone(), kubeconfig.clone());
        let cluster = Cluster { client, kubeconfig, kubectl: Some(kubectl.to_owned()) };
        Room { cluster: Arc::new(cluster), ..self }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client.clone(), &self.name)
    }

    /// Creates an object.
    pub(crate) async fn create<K>(&self, object: Value) -> anyhow::Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object)?;
        Ok(self.api::<K>().create(&PostParams::default(), &object).await?)
    }

    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let kubectl = self.cluster.kubectl.as_deref().context("kubectl is not in PATH")?;
        kubectl::run(kubectl, &self.cluster.kubeconfig, &self.name, arguments).await
    }

    /// The same, however it ends.
    pub(crate) async fn kubectl_said(&self, arguments: &[&str]) -> anyhow::Result<Said> {
        let kubectl = self.cluster.kubectl.as_deref().context("kubectl is not in PATH")?;
        kubectl::said(kubectl, &self.cluster.kubeconfig, &self.name, arguments).await
    }

    /// Edits a kind and name with this script of `sed`.
    pub(crate) async fn kubectl_edit(&self, what: &str, script: &str) -> anyhow::Result<()> {
        let kubectl = self.cluster.kubectl.as_deref().context("kubectl is not in PATH")?;
        kubectl::edit(kubectl, &self.cluster.kubeconfig, &self.name, (what, script)).await
    }

    /// Applies an object, or several, to this namespace, as soon as it is taken: its kind may have come a moment ago.
    pub(crate) async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let file = self.file("object.json");
        std::fs::write(&file, object.to_string())?;
        until("the object is applied", async || {
            self.kubectl(&["apply", "-f", &file.to_string_lossy()]).await?;
            Ok(Look::Found(()))
        })
        .await
    }

    /// What a command of ours prints about this namespace.
    pub(crate) async fn koinon(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = tokio::process::Command::new(engine::koinon());
        command
            .args(arguments)
            .args(["--namespace", &self.name, "--kubeconfig"])
            .arg(&self.cluster.kubeconfig);
        let output = command.kill_on_drop(true).output().await?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        anyhow::ensure!(
            output.status.success(),
            "koinon {}: {said}{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(said)
    }

    /// Installs what a role needs: its kinds, and accounts that may do what it does and no more.
    pub(crate) async fn install(&self, role: &str) -> anyhow::Result<()> {
        let kinds = self.install_printed(&["crds", "--role", role]).await?;
        self.established(&kinds).await?;
        self.install_printed(&["rbac", "--role", role]).await.map(drop)
    }

    /// Applies what `koinon install` prints, and gives back the file that it is in.
    pub(crate) async fn install_printed(&self, arguments: &[&str]) -> anyhow::Result<PathBuf> {
        let printed =
            tokio::process::Command::new(engine::koinon()).arg("install").args(arguments).output().await?;
        let file = self.file(&format!("{}.yaml", arguments.join("-")));
        std::fs::write(&file, &printed.stdout)?;
        // Each of these objects says where it belongs; kubectl takes none of another namespace than it was told.
        self.kubectl(&["apply", "--namespace=", "-f", &file.to_string_lossy()]).await?;
        Ok(file)
    }

    /// Waits until the kinds that a file defines are served. Kinds of other scenarios come and go meanwhile.
    pub(crate) async fn established(&self, kinds: &Path) -> anyhow::Result<()> {
        let file = kinds.to_string_lossy();
        let arguments =
            ["wait", "--namespace=", "--for=condition=Established", "--timeout=120s", "-f", &file];
        self.kubectl(&arguments).await.map(drop)
    }

    /// The cluster's kubeconfig, but for a service account of this namespace.
    pub(crate) async fn kubeconfig_as(&self, account: &str) -> anyhow::Result<PathBuf> {
        let token = self.kubectl(&["create", "token", account, "--duration=2h"]).await?;
        let mut text = serde_json::to_value(Kubeconfig::read_from(&self.cluster.kubeconfig)?)?;
        text["users"][0]["user"] = serde_json::json!({"token": token.trim()});
        let file = self.file(&format!("{account}.kubeconfig"));
        std::fs::write(&file, text.to_string())?;
        Ok(file)
    }

    /// A file of this namespace beside the cluster's kubeconfig.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.cluster.kubeconfig.with_file_name(format!("{}-{name}", self.name))
    }

    /// Has the namespace deleted; nobody waits for it.
    pub(crate) async fn leave(self) -> anyhow::Result<()> {
        let api: Api<Namespace> = Api::all(self.cluster.client.clone());
        api.delete(&self.name, &DeleteParams::background()).await?;
        Ok(())
    }
}
