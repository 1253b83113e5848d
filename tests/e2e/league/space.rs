//! The namespace of one scenario, in the federation and in every member.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Namespace, Node};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::League;
use crate::kubectl::Said;
use crate::wait::{Look, until};
use crate::world::{Cluster, Room};

/// A scenario's place in the federation.
pub(crate) struct Space {
    pub(crate) league: Arc<League>,
    /// Its namespace on the federation's API server.
    pub(crate) room: Room,
}

/// A ReplicaSet or a Deployment, as `kind/name`.
type Named<'a> = &'a str;

impl Space {
    pub(crate) async fn open(league: Arc<League>, name: &str) -> anyhow::Result<Space> {
        let room = Room::bare(league.federation.clone(), name).await?;
        Ok(Space { league, room })
    }

    /// Stock kubectl against the federation.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.room.kubectl(arguments).await
    }

    /// The same, however it ends.
    pub(crate) async fn kubectl_said(&self, arguments: &[&str]) -> anyhow::Result<Said> {
        self.room.kubectl_said(arguments).await
    }

    /// Stock kubectl against a member, in the namespace of the same name.
    pub(crate) async fn in_member(&self, member: &str, arguments: &[&str]) -> anyhow::Result<String> {
        self.member(member).kubectl(arguments).await
    }

    /// The namespace in a member.
    pub(crate) fn member(&self, member: &str) -> Room {
        Room { cluster: self.league.members[member].cluster.clone(), name: self.room.name.clone() }
    }

    /// Applies an object to the federation with kubectl.
    pub(crate) async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let file = self.room.cluster.kubeconfig.with_file_name(format!("{}.json", self.room.name));
        std::fs::write(&file, object.to_string())?;
        self.kubectl(&["apply", "-f", &file.to_string_lossy()]).await.map(drop)
    }

    /// Says how the replicas of a ReplicaSet should be spread.
    pub(crate) async fn prefer(&self, name: &str, preferences: &str) -> anyhow::Result<()> {
        let annotation = format!("federation.kubernetes.io/replica-set-preferences={preferences}");
        self.kubectl(&["annotate", "--overwrite", "replicaset", name, &annotation]).await.map(drop)
    }

    /// The object in one cluster.
    pub(crate) async fn get(&self, cluster: &Cluster, named: Named<'_>) -> anyhow::Result<Option<Value>> {
        let (kind, name) = named.split_once('/').context("kind/name")?;
        let resource = match kind {
            "replicaset" => ApiResource::erase::<ReplicaSet>(&()),
            "deployment" => ApiResource::erase::<Deployment>(&()),
            other => bail!("{other} is not spread"),
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(cluster.client.clone(), &self.room.name, &resource);
        Ok(api.get_opt(name).await?.map(serde_json::to_value).transpose()?)
    }

    /// The federated object.
    pub(crate) async fn federated(&self, named: Named<'_>) -> anyhow::Result<Value> {
        let found = self.get(&self.room.cluster, named).await?;
        found.with_context(|| format!("there is no {named}"))
    }

    /// What each member has, as `a=22 b=22 c=6/8`: what is available, and what is asked for where that differs.
    pub(crate) async fn layout(&self, named: Named<'_>) -> anyhow::Result<String> {
        let mut parts = Vec::new();
        for (name, member) in &self.league.members {
            let Some(found) = self.get(&member.cluster, named).await? else { continue };
            let asked = found["spec"]["replicas"].as_i64().unwrap_or(1);
            let available = found["status"]["availableReplicas"].as_i64().unwrap_or(0);
            parts.push(if asked == available {
                format!("{name}={asked}")
            } else {
                format!("{name}={available}/{asked}")
            });
        }
        Ok(parts.join(" "))
    }

    /// Waits until the members have that.
    pub(crate) async fn until_layout(&self, named: Named<'_>, wanted: &str) -> anyhow::Result<()> {
        until(&format!("{}/{named} is {wanted}", self.room.name), async || {
            let now = self.layout(named).await?;
            if now == wanted {
                return Ok(Look::Found(()));
            }
            let federated = self.federated(named).await?;
            Ok(Look::NotYet(format!("{now}; {}", placement(&federated))))
        })
        .await
    }

    /// Waits until the federated object is so.
    pub(crate) async fn until(
        &self,
        named: Named<'_>,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        until(&format!("{}/{named}: {what}", self.room.name), async || {
            let found = self.federated(named).await?;
            Ok(if holds(&found) {
                Look::Found(found)
            } else {
                Look::NotYet(format!("{}; {}", found["status"], placement(&found)))
            })
        })
        .await
    }

    /// Waits until all replicas are available, and gives the object as it is then.
    pub(crate) async fn until_available(&self, named: Named<'_>, count: i64) -> anyhow::Result<Value> {
        self.until(named, &format!("{count} are available"), |found| {
            found["status"]["availableReplicas"] == count
                && found["status"]["observedGeneration"] == found["metadata"]["generation"]
        })
        .await
    }

    /// Waits until an event of the object starts so; gives all of it.
    pub(crate) async fn until_event(&self, name: &str, beginning: &str) -> anyhow::Result<String> {
        let events = self.room.api::<Event>();
        until(&format!("there is an event {beginning:?} of {name}"), async || {
            let all = events.list(&ListParams::default()).await?.items;
            let said: Vec<String> = all
                .into_iter()
                .filter(|event| event.involved_object.name.as_deref() == Some(name))
                .map(|event| {
                    format!("{}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
                })
                .collect();
            let found = said.iter().find(|event| event.starts_with(beginning)).cloned();
            Ok(found.map_or_else(|| Look::NotYet(said.join("; ")), Look::Found))
        })
        .await
    }

    /// The images that members have, as `a=web:1 b=web:2`.
    pub(crate) async fn images(&self, named: Named<'_>) -> anyhow::Result<String> {
        let mut images = Vec::new();
        for (name, member) in &self.league.members {
            if let Some(found) = self.get(&member.cluster, named).await? {
                let image = found["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
                let image = image.unwrap_or_default().trim_start_matches("example.com/");
                images.push(format!("{name}={image}"));
            }
        }
        Ok(images.join(" "))
    }

    pub(crate) async fn until_images(&self, named: Named<'_>, wanted: &str) -> anyhow::Result<()> {
        until(&format!("{}/{named} has the images {wanted}", self.room.name), async || {
            let now = self.images(named).await?;
            Ok(if now == wanted { Look::Found(()) } else { Look::NotYet(now) })
        })
        .await
    }

    /// Gives the pods of a workload so much room in each cluster: nodes there offer so many of a resource that nothing but
    /// those pods ask for.
    pub(crate) async fn give_room(&self, name: &str, room: &[(&str, i64)]) -> anyhow::Result<()> {
        let room: BTreeMap<&str, i64> = room.iter().copied().collect();
        for (member, has) in &self.league.members {
            let total = room.get(member).copied().unwrap_or(PLENTY);
            let nodes: Api<Node> = Api::all(has.cluster.client.clone());
            let all = nodes.list(&ListParams::default()).await?.items;
            for (at, node) in all.iter().enumerate() {
                let here = if total == PLENTY {
                    PLENTY
                } else if at == 0 {
                    total
                } else {
                    0
                };
                let amount = json!({seats(&self.room.name, name): here.to_string()});
                let patch = json!({"status": {"capacity": amount, "allocatable": amount}});
                let params = PatchParams::default();
                nodes.patch_status(&node.name_any(), &params, &Patch::Merge(patch)).await?;
            }
        }
        Ok(())
    }

    /// Ends everything of this scenario, everywhere; nobody waits for the pods.
    pub(crate) async fn leave(self) -> anyhow::Result<()> {
        self.league.has_its_rights().await?;
        self.kubectl(&["delete", "deployments,replicasets", "--all", "--wait=true"]).await?;
        for member in self.league.members.values() {
            let namespaces: Api<Namespace> = Api::all(member.cluster.client.clone());
            if namespaces.get_opt(&self.room.name).await?.is_some() {
                namespaces.delete(&self.room.name, &DeleteParams::background()).await?;
            }
        }
        self.room.leave().await
    }
}

/// More than any scenario needs.
const PLENTY: i64 = 100;

/// The resource that the pods of one workload ask for.
pub(crate) fn seats(namespace: &str, workload: &str) -> String {
    format!("e2e.koinon.dev/{namespace}-{workload}")
}

fn placement(object: &Value) -> &str {
    object["metadata"]["annotations"]["koinon.dev/placement"].as_str().unwrap_or("no placement")
}
