//! A cloud, a robot, and a syncer between them that can be ended and started again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::engine::{Running, koinon};
use crate::wait::{Look, until};
use crate::world::{Cluster, World};

pub(super) const SOURCE: &str = "cr-syncer.cloudrobotics.com/spec-source";
pub(super) const FILTER: &str = "cr-syncer.cloudrobotics.com/filter-by-robot-name";
pub(super) const SUBTREE: &str = "cr-syncer.cloudrobotics.com/status-subtree";
pub(super) const ROBOT: &str = "cloudrobotics.com/robot-name";
pub(super) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Replicas take turns faster than in the field, so that a killed one is followed soon.
pub(super) const HURRY: [&str; 6] =
    ["--lease-duration", "6s", "--renew-deadline", "4s", "--retry-period", "1s"];

/// One API server, spoken to directly.
#[derive(Clone)]
pub(super) struct Side {
    pub(super) cluster: Arc<Cluster>,
    client: Client,
}

impl Side {
    pub(super) async fn open(world: &World, name: &str) -> anyhow::Result<Side> {
        let cluster = world.cluster(name).await?;
        Ok(Side { client: cluster.client.clone(), cluster })
    }

    /// The same server, as somebody else.
    pub(super) fn with(&self, client: Client) -> Side {
        Side { client, ..self.clone() }
    }

    /// One request; a patch is a merge patch.
    pub(super) async fn call(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", kind).body(body);
        self.client.request(request.map_err(kube::Error::HttpError)?).await
    }

    pub(super) async fn create(&self, path: &str, object: &Value) -> anyhow::Result<Value> {
        self.call(Method::POST, path, object).await.with_context(|| format!("create in {path}"))
    }

    pub(super) async fn patch(&self, path: &str, patch: &Value) -> anyhow::Result<Value> {
        self.call(Method::PATCH, path, patch).await.with_context(|| format!("patch {path}"))
    }

    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.call(Method::DELETE, path, &Value::Null).await.with_context(|| format!("delete {path}"))?;
        Ok(())
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Option<Value>> {
        match self.call(Method::GET, path, &Value::Null).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).with_context(|| format!("get {path}")),
        }
    }

    /// What a request came to: 200, or the status of the refusal.
    pub(super) async fn code(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<u16> {
        match self.call(method, path, body).await {
            Ok(_) => Ok(200),
            Err(kube::Error::Api(status)) => Ok(status.code),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until an object is as it should be; null stands for its absence.
    pub(super) async fn until(
        &self,
        what: &str,
        path: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        until(&format!("{what}: {path}"), async || {
            let object = self.get(path).await?.unwrap_or_default();
            Ok(if wanted(&object) { Look::Found(object) } else { Look::NotYet(object.to_string()) })
        })
        .await
    }

    pub(super) async fn until_there(&self, path: &str) -> anyhow::Result<Value> {
        self.until("it is there", path, |object| !object.is_null()).await
    }

    pub(super) async fn until_gone(&self, path: &str) -> anyhow::Result<()> {
        self.until("it is gone", path, Value::is_null).await.map(drop)
    }

    pub(super) async fn until_count(&self, path: &str, count: usize) -> anyhow::Result<()> {
        let counts = |list: &Value| list["items"].as_array().is_some_and(|items| items.len() == count);
        self.until(&format!("there are {count}"), path, counts).await.map(drop)
    }

    /// Waits until a Warning with this reason was told about a CRD.
    pub(super) async fn until_told(&self, crd: &str, reason: &str) -> anyhow::Result<String> {
        let is_it = |event: &&Value| event["reason"] == reason && event["involvedObject"]["name"] == crd;
        let path = "/api/v1/namespaces/default/events";
        let list = self
            .until(&format!("{reason} is told of {crd}"), path, |list| {
                list["items"].as_array().is_some_and(|items| items.iter().any(|event| is_it(&event)))
            })
            .await?;
        let event = list["items"].as_array().and_then(|items| items.iter().find(is_it));
        Ok(event.and_then(|event| event["message"].as_str()).unwrap_or_default().to_owned())
    }
}

/// Both sides, in a scenario whose turn it is.
pub(super) struct Pair {
    pub(super) world: Arc<World>,
    pub(super) cloud: Side,
    pub(super) robot: Side,
    /// A folder for kubeconfigs.
    pub(super) folder: tempfile::TempDir,
    defined: Vec<Definition>,
}

impl Pair {
    pub(super) async fn new(world: Arc<World>) -> anyhow::Result<Pair> {
        let (cloud, robot) = (Side::open(&world, "a").await?, Side::open(&world, "b").await?);
        let folder = tempfile::tempdir()?;
        Ok(Pair { world, cloud, robot, folder, defined: Vec::new() })
    }

    /// Makes a CRD on both sides and waits until it is served.
    pub(super) async fn define(&mut self, definition: &Definition) -> anyhow::Result<()> {
        for side in [&self.cloud, &self.robot] {
            definition.make(side).await?;
        }
        self.defined.push(definition.clone());
        Ok(())
    }

    /// Starts a syncer for the robot `r1`.
    pub(super) async fn start(&self) -> anyhow::Result<Running> {
        self.start_with(&self.cloud.cluster.kubeconfig, &[]).await
    }

    pub(super) async fn start_with(&self, cloud: &Path, more: &[&str]) -> anyhow::Result<Running> {
        self.start_between("r1", cloud, &self.robot.cluster.kubeconfig, more).await
    }

    /// Starts one more of them, called `process`, beside a robot that is reached in this way.
    pub(super) async fn start_at(
        &self,
        process: &str,
        robot: &Path,
        more: &[&str],
    ) -> anyhow::Result<Running> {
        self.start_between(process, &self.cloud.cluster.kubeconfig, robot, more).await
    }

    async fn start_between(
        &self,
        process: &str,
        cloud: &Path,
        robot: &Path,
        more: &[&str],
    ) -> anyhow::Result<Running> {
        let cloud = cloud.to_string_lossy();
        let mut arguments = vec!["--robot-name", "r1", "--cloud-kubeconfig", &cloud];
        arguments.extend(HURRY);
        arguments.extend(more);
        self.world.role_with(process, "sync", robot, &arguments).await
    }

    /// What `koinon status robots` tells programs about the cloud.
    pub(super) async fn status_of_robots(&self) -> anyhow::Result<Value> {
        let mut command = tokio::process::Command::new(koinon());
        command.args(["status", "robots", "--output", "json", "--kubeconfig"]);
        let output = command.arg(&self.cloud.cluster.kubeconfig).kill_on_drop(true).output().await?;
        anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).context("what is shown is JSON")
    }

    /// Leaves both sides as they were.
    pub(super) async fn end(self, running: Option<Running>) -> anyhow::Result<()> {
        if let Some(running) = running {
            running.stop().await;
        }
        for definition in &self.defined {
            for side in [&self.cloud, &self.robot] {
                let path = definition.path();
                if side.get(&path).await?.is_some() {
                    side.delete(&path).await?;
                }
                side.until_gone(&path).await?;
            }
        }
        Ok(())
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A CRD of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) plural: &'static str,
    pub(super) annotations: Value,
    pub(super) status: bool,
    pub(super) namespaced: bool,
    /// The first is the one that is stored.
    pub(super) versions: Vec<&'static str>,
}

impl Definition {
    pub(super) fn new(plural: &'static str, annotations: Value) -> Definition {
        Definition { plural, annotations, status: true, namespaced: true, versions: vec!["v1"] }
    }

    pub(super) fn name(&self) -> String {
        format!("{}.pair.koinon.dev", self.plural)
    }

    /// The path of the CRD.
    pub(super) fn path(&self) -> String {
        format!("{CRDS}/{}", self.name())
    }

    /// The path of its objects, in `default` where they are in a namespace.
    pub(super) fn objects(&self) -> String {
        self.objects_in("default")
    }

    pub(super) fn objects_in(&self, namespace: &str) -> String {
        let base = format!("/apis/pair.koinon.dev/{}", self.versions[0]);
        if self.namespaced {
            format!("{base}/namespaces/{namespace}/{}", self.plural)
        } else {
            format!("{base}/{}", self.plural)
        }
    }

    pub(super) fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.objects())
    }

    fn kind(&self) -> String {
        format!("{}Kind", self.plural)
    }

    /// An object with `{labels, annotations, finalizers}` and a spec.
    pub(super) fn made(&self, name: &str, mut metadata: Value, spec: Value) -> Value {
        metadata["name"] = name.into();
        let version = format!("pair.koinon.dev/{}", self.versions[0]);
        json!({"apiVersion": version, "kind": self.kind(), "metadata": metadata, "spec": spec})
    }

    /// The CRD itself.
    pub(super) fn crd(&self) -> Value {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = |(number, name): (usize, &&str)| {
            let mut version = json!({
                "name": name, "served": true, "storage": number == 0,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            });
            if self.status {
                version["subresources"] = json!({"status": {}});
            }
            version
        };
        let versions: Vec<Value> = self.versions.iter().enumerate().map(version).collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name(), "annotations": self.annotations},
            "spec": {
                "group": "pair.koinon.dev", "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "names": {"plural": self.plural, "kind": self.kind()}, "versions": versions,
            },
        })
    }

    /// Makes it on one side and waits until it is served.
    pub(super) async fn make(&self, side: &Side) -> anyhow::Result<()> {
        side.create(CRDS, &self.crd()).await?;
        side.until_there(&self.objects()).await.map(drop)
    }
}
