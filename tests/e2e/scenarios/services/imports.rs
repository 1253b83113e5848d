//! The Multi-Cluster Services API (KEP-1645): what its conformance suite asks for where no packets have to arrive.
//!
//! Each check says which spec of the suite it stands for, and whether that is required. What is left out is what can only
//! be asked from inside a pod: names that DNS answers and connections that are made (`docs/services.md` lists it).
//! `MCS_DEFINITIONS` names a folder with the API's own definitions of its kinds, which `hack/mcs` finds; without it ours
//! are used, which are wider.

use std::sync::Arc;
use std::time::Duration;

use koinon_api::mcs::crds;
use serde_json::{Value, json};

use super::stage::{Stage, slice};
use crate::union::SITES;
use crate::wait::{Look, throughout, until};
use crate::world::{Room, World};

const KINDS: [&str; 2] =
    ["crd/serviceexports.multicluster.x-k8s.io", "crd/serviceimports.multicluster.x-k8s.io"];
const SERVICE_NAME: &str = "multicluster.kubernetes.io/service-name";
const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";

pub(super) async fn run(world: Arc<World>) -> anyhow::Result<()> {
    let mut stage = Stage::prepare(&world, "imports").await?;
    for site in &stage.union.sites {
        define(&site.room).await?;
    }
    stage.union.begin(&[]).await?;
    export_all(&stage).await?;
    single(&stage).await?;
    headless(&stage).await?;
    labels(&stage).await?;
    merged(&stage).await?;
    endpoints(&stage).await?;
    unexport(&stage).await?;
    for site in &stage.union.sites {
        site.room.kubectl(&[&["delete"], &KINDS[..]].concat()).await?;
    }
    stage.close().await
}

/// Has a cluster know the kinds.
async fn define(room: &Room) -> anyhow::Result<()> {
    match std::env::var("MCS_DEFINITIONS") {
        Ok(folder) => drop(room.kubectl(&["apply", "--server-side", "-f", &folder]).await?),
        Err(_) => {
            for definition in crds() {
                room.apply(&definition).await?;
            }
        }
    }
    room.kubectl(&[&["wait", "--for=condition=Established"], &KINDS[..]].concat()).await.map(drop)
}

/// What the suite exports: two ports of one number, and clients that stay with an endpoint.
fn hello() -> Value {
    json!({
        "selector": {"app": "hello"}, "sessionAffinity": "ClientIP", "ipFamilyPolicy": "PreferDualStack",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
        "ports": [
            {"name": "tcp", "port": 42, "protocol": "TCP", "appProtocol": "kubernetes.io/h2c"},
            {"name": "udp", "port": 42, "protocol": "UDP"},
        ],
    })
}

fn with(mut spec: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

/// Services and exports of all checks, those in `a` a second before those in `b`: the oldest decides.
async fn export_all(stage: &Stage) -> anyhow::Result<()> {
    let headless = with(hello(), json!({"clusterIP": "None", "ipFamilyPolicy": "SingleStack"}));
    let external = json!({"type": "ExternalName", "externalName": "example.com"});
    let near = json!({"internalTrafficPolicy": "Local", "trafficDistribution": "PreferClose"});
    let first = [
        ("plain", hello()),
        ("near", with(hello(), near)),
        ("headless", headless.clone()),
        ("external", external),
        ("shared", hello()),
        ("labelled", hello()),
        ("union", hello()),
        ("disputed", hello()),
        ("typed", hello()),
    ];
    let mut objects = exports(&first);
    for object in &mut objects {
        let name = object["metadata"]["name"].clone();
        if object["kind"] == "Service" && name == "labelled" {
            object["metadata"]["labels"] = json!({"own": "label"});
            object["metadata"]["annotations"] = json!({"own": "annotation"});
        }
        if object["kind"] == "ServiceExport" && name == "labelled" {
            object["spec"] =
                json!({"exportedLabels": {"team": "blue"}, "exportedAnnotations": {"note": "first"}});
        }
    }
    objects.push(slice("plain", "tcp:4242", "10.1.0.1 10.1.0.2!"));
    stage.apply("a", &objects).await?;
    for (name, _) in first.iter().filter(|(name, _)| *name != "external") {
        until_import(stage.room("a"), name, "there", |_| true).await?;
    }
    // Ages count in seconds.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let more = json!({"name": "more", "port": 142, "protocol": "SCTP"});
    let other = [
        ("shared", hello()),
        ("labelled", hello()),
        ("union", with(hello(), json!({"ports": [hello()["ports"][0], more]}))),
        ("disputed", with(hello(), json!({"ports": [{"name": "tcp", "port": 43}]}))),
        ("typed", headless),
    ];
    let mut objects = exports(&other);
    for object in &mut objects {
        if object["kind"] == "ServiceExport" && object["metadata"]["name"] == "labelled" {
            object["spec"] =
                json!({"exportedLabels": {"team": "red"}, "exportedAnnotations": {"note": "second"}});
        }
    }
    stage.apply("b", &objects).await
}

fn exports(services: &[(&str, Value)]) -> Vec<Value> {
    let both = services.iter().flat_map(|(name, spec)| {
        let metadata = json!({"name": name});
        [
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}),
            json!({"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": metadata}),
        ]
    });
    both.collect()
}

/// Required: an import of type ClusterSetIP in every cluster, with an address for each family, and the ports, affinity and
/// traffic policies of the Service.
async fn single(stage: &Stage) -> anyhow::Result<()> {
    until_condition(stage.room("a"), "plain", "Valid", "True").await?;
    for cluster in SITES {
        until_import(stage.room(cluster), "plain", "as exported", |spec| {
            let (ips, families) = (&spec["ips"], &spec["ipFamilies"]);
            let each = ips.as_array().zip(families.as_array()).is_some_and(|(ips, families)| {
                let fits = |(ip, family): (&Value, &Value)| {
                    let six =
                        ip.as_str().and_then(|ip| ip.parse::<std::net::IpAddr>().ok()).map(|ip| ip.is_ipv6());
                    six == Some(family == "IPv6")
                };
                !ips.is_empty() && ips.len() == families.len() && ips.iter().zip(families).all(fits)
            });
            each && spec["type"] == "ClusterSetIP"
                && spec["ports"] == hello()["ports"]
                && spec["sessionAffinity"] == "ClientIP"
                && spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"] == 10
                && spec["internalTrafficPolicy"] == "Cluster"
        })
        .await?;
        until_said(stage.room(cluster), "serviceimport/plain", "Ready", "True").await?;
    }
    until_import(stage.room("b"), "near", "as near as exported", |spec| {
        spec["internalTrafficPolicy"] == "Local" && spec["trafficDistribution"] == "PreferClose"
    })
    .await
}

/// Required: a headless Service is imported as one, without address; an ExternalName is refused and not imported.
async fn headless(stage: &Stage) -> anyhow::Result<()> {
    for cluster in SITES {
        until_import(stage.room(cluster), "headless", "headless", |spec| {
            spec["type"] == "Headless" && spec["ips"].as_array().is_none_or(Vec::is_empty)
        })
        .await?;
    }
    until_condition(stage.room("a"), "external", "Valid", "False").await?;
    throughout("an ExternalName is imported nowhere", async || {
        for cluster in SITES {
            if let Some(import) = import(stage.room(cluster), "external").await? {
                return Ok(Look::NotYet(format!("in {cluster} there is {import}")));
            }
        }
        Ok(Look::Found(()))
    })
    .await
}

/// Optional: only labels and annotations that the export names; the oldest's where they differ, and all are told.
async fn labels(stage: &Stage) -> anyhow::Result<()> {
    for cluster in ["a", "b"] {
        until_condition(stage.room(cluster), "labelled", "Conflict", "True").await?;
    }
    for cluster in SITES {
        let import = import(stage.room(cluster), "labelled").await?.unwrap_or_default();
        let (labels, annotations) = (&import["metadata"]["labels"], &import["metadata"]["annotations"]);
        let kept = labels["team"] == "blue" && annotations["note"] == "first";
        anyhow::ensure!(
            kept && labels["own"].is_null() && annotations["own"].is_null(),
            "{labels} {annotations}"
        );
    }
    Ok(())
}

/// Required: all ports where they differ, the oldest's where they cannot both be, its type where that differs; and everybody
/// is told.
async fn merged(stage: &Stage) -> anyhow::Result<()> {
    for name in ["union", "disputed", "typed"] {
        for cluster in ["a", "b"] {
            until_condition(stage.room(cluster), name, "Conflict", "True").await?;
        }
    }
    until_condition(stage.room("b"), "shared", "Conflict", "False").await?;
    for cluster in SITES {
        let room = stage.room(cluster);
        let names = |spec: &Value| -> Vec<String> {
            let ports = spec["ports"].as_array().into_iter().flatten();
            let mut names: Vec<String> = ports
                .map(|port| format!("{}:{}", port["name"].as_str().unwrap_or_default(), port["port"]))
                .collect();
            names.sort();
            names
        };
        until_import(room, "union", "of all ports", |spec| names(spec) == ["more:142", "tcp:42", "udp:42"])
            .await?;
        until_import(room, "disputed", "of the oldest's ports", |spec| names(spec) == ["tcp:42", "udp:42"])
            .await?;
        until_import(room, "typed", "of the oldest's type", |spec| spec["type"] == "ClusterSetIP").await?;
    }
    Ok(())
}

/// Optional: EndpointSlices with the labels of the API, which Kubernetes' own controller leaves alone.
async fn endpoints(stage: &Stage) -> anyhow::Result<()> {
    for cluster in SITES {
        until(&format!("{cluster} has the endpoints of plain"), async || {
            let slices = slices(stage.room(cluster)).await?;
            let Some(slice) = slices.first() else { return Ok(Look::NotYet("it has none".into())) };
            let labels = &slice["metadata"]["labels"];
            anyhow::ensure!(labels[SOURCE_CLUSTER] == "a" && slices.len() == 1, "{slices:?}");
            let manager = &labels["endpointslice.kubernetes.io/managed-by"];
            anyhow::ensure!(manager.is_string() && manager != "endpointslice-controller.k8s.io", "{labels}");
            let addresses = [&slice["endpoints"][0]["addresses"][0], &slice["endpoints"][1]["addresses"][0]];
            let found = addresses == [&json!("10.1.0.1"), &json!("10.1.0.2")];
            Ok(if found { Look::Found(()) } else { Look::NotYet(slice["endpoints"].to_string()) })
        })
        .await?;
    }
    Ok(())
}

/// Required: an import lives as long as somebody exports, and no longer; its endpoints go with it.
async fn unexport(stage: &Stage) -> anyhow::Result<()> {
    stage.room("a").kubectl(&["delete", "serviceexport", "plain", "headless", "shared"]).await?;
    for cluster in SITES {
        for name in ["plain", "headless"] {
            until(&format!("{name} is imported no more in {cluster}"), async || {
                let left = import(stage.room(cluster), name).await?;
                Ok(left.map_or(Look::Found(()), |left| Look::NotYet(left.to_string())))
            })
            .await?;
        }
        until(&format!("{cluster} has no endpoints of plain"), async || {
            let left = slices(stage.room(cluster)).await?;
            Ok(if left.is_empty() { Look::Found(()) } else { Look::NotYet(format!("{left:?}")) })
        })
        .await?;
    }
    // Another exports it still, and what is gone does not come back.
    throughout("what is exported is imported, and nothing else", async || {
        for cluster in SITES {
            for (name, wanted) in [("shared", true), ("plain", false), ("headless", false)] {
                if import(stage.room(cluster), name).await?.is_some() != wanted {
                    return Ok(Look::NotYet(format!("{name} is imported in {cluster}: {}", !wanted)));
                }
            }
        }
        Ok(Look::Found(()))
    })
    .await?;
    for cluster in ["a", "b"] {
        stage.room(cluster).kubectl(&["delete", "serviceexports", "--all"]).await?;
    }
    for cluster in SITES {
        until(&format!("nothing is imported in {cluster}"), async || {
            let left = stage
                .room(cluster)
                .kubectl(&["get", "serviceimports,endpointslices,services", "-o", "name"])
                .await?;
            let ours = left.contains("serviceimport") || left.contains("import-");
            Ok(if ours { Look::NotYet(left) } else { Look::Found(()) })
        })
        .await?;
    }
    Ok(())
}

/// The slices that the import `plain` has.
async fn slices(room: &Room) -> anyhow::Result<Vec<Value>> {
    let selector = format!("{SERVICE_NAME}=plain");
    let text = room.kubectl(&["get", "endpointslices", "-l", &selector, "-o", "json"]).await?;
    let list: Value = serde_json::from_str(&text)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

async fn import(room: &Room, name: &str) -> anyhow::Result<Option<Value>> {
    let text = room.kubectl(&["get", "serviceimport", name, "--ignore-not-found", "-o", "json"]).await?;
    Ok(if text.trim().is_empty() { None } else { Some(serde_json::from_str(&text)?) })
}

/// Waits until an import is so; `holds` looks at its spec.
async fn until_import(
    room: &Room,
    name: &str,
    what: &str,
    holds: impl Fn(&Value) -> bool,
) -> anyhow::Result<()> {
    until(&format!("the import {name} is {what}"), async || {
        Ok(match import(room, name).await? {
            Some(import) if holds(&import["spec"]) => Look::Found(()),
            found => Look::NotYet(found.unwrap_or_default().to_string()),
        })
    })
    .await
}

async fn until_condition(room: &Room, name: &str, kind: &str, wanted: &str) -> anyhow::Result<()> {
    until_said(room, &format!("serviceexport/{name}"), kind, wanted).await
}

async fn until_said(room: &Room, object: &str, kind: &str, wanted: &str) -> anyhow::Result<()> {
    until(&format!("{kind} of {object} is {wanted}"), async || {
        let text = room.kubectl(&["get", object, "-o", "json"]).await?;
        let export: Value = serde_json::from_str(&text)?;
        let conditions = export["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.filter(|one| one["type"] == kind).any(|one| one["status"] == wanted);
        Ok(if found { Look::Found(()) } else { Look::NotYet(export["status"].to_string()) })
    })
    .await
}
