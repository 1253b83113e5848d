//! What scenarios about Services share: a federation, a namespace in each of its clusters, and words for what is there.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::union::{Site, Union};
use crate::wait::{Look, until};
use crate::world::{Room, World};

pub(super) const GLOBAL: &str = "svc.global.federated.antreaplus.vmware-tanzu.com";
pub(super) const NAMESPACED: &str = "svc.federated.antreaplus.vmware-tanzu.com";
const CLUSTER: &str = "cluster.federated.antreaplus.vmware-tanzu.com";
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A federation, and the scenario's namespace in each of its clusters.
pub(super) struct Stage {
    pub(super) union: Union,
    rooms: Vec<Room>,
}

impl Stage {
    /// Founds the federation; the scenario's namespace is in all its clusters.
    pub(super) async fn open(world: &Arc<World>, namespace: &str) -> anyhow::Result<Stage> {
        let mut stage = Stage::prepare(world, namespace).await?;
        stage.union.begin(&[]).await?;
        Ok(stage)
    }

    /// The same, but nobody takes part yet.
    pub(super) async fn prepare(world: &Arc<World>, namespace: &str) -> anyhow::Result<Stage> {
        let union = Union::prepare(world).await?;
        let mut rooms = Vec::new();
        for site in &union.sites {
            rooms.push(Room::bare(site.room.cluster.clone(), namespace).await?);
        }
        Ok(Stage { union, rooms })
    }

    pub(super) fn site(&self, name: &str) -> &Site {
        self.union.sites.iter().find(|site| site.name == name).expect("one of the three")
    }

    /// Where global Services are.
    pub(super) fn system(&self, name: &str) -> &Room {
        &self.site(name).room
    }

    /// The scenario's namespace.
    pub(super) fn room(&self, name: &str) -> &Room {
        let at = self.union.sites.iter().position(|site| site.name == name).expect("one of the three");
        &self.rooms[at]
    }

    /// Applies objects in the scenario's namespace of one cluster, all at once.
    pub(super) async fn apply(&self, name: &str, objects: &[Value]) -> anyhow::Result<()> {
        self.room(name).apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects})).await
    }

    /// Waits until a global Service is so in a cluster.
    pub(super) async fn until(&self, cluster: &str, name: &str, wanted: &str) -> anyhow::Result<()> {
        until_shown(self.system(cluster), name, wanted).await
    }

    /// Ends all of it.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        for room in self.rooms {
            room.leave().await?;
        }
        self.union.dissolve().await
    }
}

/// A Service; `spec` is what it is but for what every one has.
pub(super) fn service(name: &str, joins: &[(&str, &str)], spec: Value) -> Value {
    let annotations: serde_json::Map<String, Value> =
        joins.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": annotations}, "spec": spec})
}

/// What most Services here offer.
pub(super) fn http() -> Value {
    json!({"ports": [{"name": "http", "port": 80, "targetPort": 8080}]})
}

/// The EndpointSlice of a Service without selector: its port, as `http:8080`, and its addresses, with `!` where one is not
/// ready and with `@node` where it is on one.
pub(super) fn slice(service: &str, port: &str, addresses: &str) -> Value {
    let endpoints: Vec<Value> = addresses
        .split_whitespace()
        .map(|word| {
            let (word, node) = word.split_once('@').map_or((word, None), |(word, node)| (word, Some(node)));
            let mut endpoint = json!({
                "addresses": [word.trim_end_matches('!')], "conditions": {"ready": !word.ends_with('!')},
            });
            if let Some(node) = node {
                endpoint["nodeName"] = json!(node);
            }
            endpoint
        })
        .collect();
    let (name, number) = port.split_once(':').expect("a name and a number");
    let family = if addresses.contains("::") { "IPv6" } else { "IPv4" };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}-{}", family.to_lowercase()), "labels": {SERVICE_NAME: service},
        },
        "addressType": family, "endpoints": endpoints,
        "ports": [{"name": name, "port": number.parse::<i32>().expect("a number"), "protocol": "TCP"}],
    })
}

/// A Service and its EndpointSlices as a user sees them: its ports, then for each slice where it came from, its ports and its
/// endpoints, those with `!` that are not ready. `nothing` if there is no such Service.
pub(super) async fn shown(room: &Room, name: &str) -> anyhow::Result<String> {
    let text = room.kubectl(&["get", "services,endpointslices", "-o", "json"]).await?;
    let list: Value = serde_json::from_str(&text)?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let of_kind = |kind: &'static str| items.iter().filter(move |one| one["kind"] == kind);
    let Some(service) = of_kind("Service").find(|one| one["metadata"]["name"] == name) else {
        return Ok("nothing".to_owned());
    };
    let slices = of_kind("EndpointSlice").filter(|one| one["metadata"]["labels"][SERVICE_NAME] == name);
    let mut lines: Vec<String> = slices
        .map(|slice| {
            let from = slice["metadata"]["annotations"][CLUSTER].as_str().unwrap_or("nobody");
            let family = slice["addressType"].as_str().unwrap_or_default();
            format!("{from} {family} {} -> {}", ports(&slice["ports"]), endpoints(slice))
        })
        .collect();
    lines.sort();
    lines.insert(0, ports(&service["spec"]["ports"]));
    Ok(lines.join("\n"))
}

/// Waits until it is so.
pub(super) async fn until_shown(room: &Room, name: &str, wanted: &str) -> anyhow::Result<()> {
    until(&format!("{}/{name} is {wanted:?}", room.name), async || {
        let now = shown(room, name).await?;
        Ok(if now == wanted { Look::Found(()) } else { Look::NotYet(format!("{now:?}")) })
    })
    .await
}

/// Waits until users were told, by an event about an object, with this reason.
pub(super) async fn until_told(room: &Room, about: &str, reason: &str) -> anyhow::Result<()> {
    until(&format!("{about} in {} is told {reason}", room.name), async || {
        let told = told(room).await?;
        let found = told.contains(&format!("{about} {reason}"));
        Ok(if found { Look::Found(()) } else { Look::NotYet(told.join("; ")) })
    })
    .await
}

/// Waits until a member says of itself how it stands, as `Status Reason`.
pub(super) async fn until_standing(room: &Room, name: &str, wanted: &str) -> anyhow::Result<()> {
    let path = r#"{range .status.conditions[?(@.type=="koinon.dev/Federated")]}{.status} {.reason}{end}"#;
    until(&format!("{name} in {} says {wanted:?}", room.name), async || {
        let now = field(room, &format!("service/{name}"), path).await?;
        Ok(if now == wanted { Look::Found(()) } else { Look::NotYet(format!("{now:?}")) })
    })
    .await
}

/// What users were told, as `name Reason`.
pub(super) async fn told(room: &Room) -> anyhow::Result<Vec<String>> {
    let text = room.kubectl(&["get", "events", "-o", "json"]).await?;
    let list: Value = serde_json::from_str(&text)?;
    let events = list["items"].as_array().into_iter().flatten().map(|event| {
        let about = event["involvedObject"]["name"].as_str().unwrap_or_default();
        format!("{about} {}", event["reason"].as_str().unwrap_or_default())
    });
    Ok(events.collect())
}

/// One field of an object, by a JSON path.
pub(super) async fn field(room: &Room, object: &str, path: &str) -> anyhow::Result<String> {
    room.kubectl(&["get", object, "-o", &format!("jsonpath={path}")]).await
}

fn ports(ports: &Value) -> String {
    let mut ports: Vec<String> = ports
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| {
            let protocol = port["protocol"].as_str().filter(|name| *name != "TCP");
            let protocol = protocol.map(|name| format!("/{name}")).unwrap_or_default();
            format!("{}:{}{protocol}", port["name"].as_str().unwrap_or_default(), port["port"])
        })
        .collect();
    ports.sort();
    ports.join(" ")
}

fn endpoints(slice: &Value) -> String {
    let mut endpoints: Vec<String> = slice["endpoints"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            let ready = if one["conditions"]["ready"] == false { "!" } else { "" };
            format!("{}{ready}", one["addresses"][0].as_str().unwrap_or_default())
        })
        .collect();
    endpoints.sort();
    endpoints.join(" ")
}
