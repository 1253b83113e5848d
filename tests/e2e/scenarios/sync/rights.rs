//! A robot with exactly the rights that are printed for it: enough for its syncer, and for nothing else.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::process::Command;

use super::pair::{Definition, FILTER, HURRY, Pair, ROBOT, SOURCE, Side};
use crate::engine::koinon;
use crate::wait::{Look, until};
use crate::world::World;

pub(super) async fn hostile_robot(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let orders = Definition::new("orders", json!({SOURCE: "cloud", FILTER: "true"}));
    let finds = Definition::new("treasures", json!({SOURCE: "robot"}));
    // The status of these is a part of the object: RBAC cannot tell it from the rest.
    let (maps, plans) = (json!({SOURCE: "cloud"}), json!({SOURCE: "cloud", FILTER: "true"}));
    let maps = Definition { status: false, ..Definition::new("maps", maps) };
    let plans = Definition { status: false, ..Definition::new("plans", plans) };
    for definition in [&orders, &finds, &maps, &plans] {
        pair.define(definition).await?;
    }
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    let crds = pair.file("crds.json");
    std::fs::write(
        &crds,
        json!({"kind": "List", "items": [orders.crd(), finds.crd(), maps.crd(), plans.crd()]}).to_string(),
    )?;
    let printed = [
        (&robot, vec!["--side", "robot"]),
        (&cloud, vec!["--side", "cloud", "--robot-name", "r1"]),
        (&cloud, vec!["--side", "cloud", "--robot-name", "r2"]),
    ];
    let mut applied = Vec::new();
    for (side, arguments) in printed {
        for object in print(&crds, &arguments).await? {
            applied.push((side, apply(side, &object).await?));
        }
    }
    let own = login(&pair, &cloud, "koinon-robots", "r1").await?;
    let beside = login(&pair, &robot, "koinon-system", "koinon-sync").await?;
    let mut arguments = vec!["--robot-name", "r1", "--cloud-kubeconfig", own.to_str().context("a path")?];
    arguments.extend(HURRY);
    let running = pair.world.role_with("r1", "sync", &beside, &arguments).await?;

    // It does its work.
    let label = |name: &str| json!({"labels": {ROBOT: name}});
    for name in ["r1", "r2"] {
        cloud.create(&orders.objects(), &orders.made(&format!("for-{name}"), label(name), json!({}))).await?;
    }
    cloud.create(&finds.objects(), &finds.made("of-r2", label("r2"), json!({}))).await?;
    robot.until_there(&orders.object("for-r1")).await?;
    let status = format!("{}/status", orders.object("for-r1"));
    robot.patch(&status, &json!({"status": {"phase": "Done"}})).await?;
    cloud
        .until("its status is up", &orders.object("for-r1"), |order| order["status"]["phase"] == "Done")
        .await?;
    robot.create(&finds.objects(), &finds.made("coin", json!({}), json!({"size": 1}))).await?;
    cloud.until_there(&finds.object("coin")).await?;
    robot.patch(&finds.object("coin"), &json!({"spec": {"size": 2}})).await?;
    cloud.until("the edit is up", &finds.object("coin"), |coin| coin["spec"]["size"] == 2).await?;
    robot.delete(&finds.object("coin")).await?;
    cloud.until_gone(&finds.object("coin")).await?;
    cloud.delete(&orders.object("for-r1")).await?;
    robot.until_gone(&orders.object("for-r1")).await?;
    let shared = json!({"labels": {"a": "1"}, "finalizers": ["pair.koinon.dev/keep"]});
    cloud.create(&maps.objects(), &maps.made("of-all", shared, json!({"size": 1}))).await?;
    cloud.create(&plans.objects(), &plans.made("for-r1", label("r1"), json!({"size": 1}))).await?;
    cloud.create(&plans.objects(), &plans.made("for-r2", label("r2"), json!({"size": 1}))).await?;
    for path in [maps.object("of-all"), plans.object("for-r1")] {
        robot.until_there(&path).await?;
        for phase in ["Read", "Done"] {
            robot.patch(&path, &json!({"status": {"phase": phase}})).await?;
            cloud.until("its status is up", &path, |whole| whole["status"]["phase"] == phase).await?;
        }
    }
    // What it lacks would be told.
    let events = robot.get("/api/v1/namespaces/default/events").await?.unwrap_or_default();
    for event in events["items"].as_array().into_iter().flatten() {
        let about = event["involvedObject"]["name"].as_str().unwrap_or_default();
        ensure!([&orders, &finds, &maps, &plans].iter().all(|synced| about != synced.name()), "{event:#}");
    }
    running.stop().await;

    // With the same identity, somebody else. Nobody takes away any more what no robot has.
    cloud.create(&finds.objects(), &finds.made("of-r1", label("r1"), json!({}))).await?;
    let mut thief = Thief { side: cloud.with(client(&own).await?), wrong: Vec::new() };
    let spec = json!({"spec": {"stolen": true}});
    thief.refused(Method::POST, &orders.objects(), &orders.made("new", label("r1"), json!({}))).await?;
    thief.refused(Method::PATCH, &orders.object("for-r2"), &spec).await?;
    thief.refused(Method::DELETE, &orders.object("for-r2"), &Value::Null).await?;
    thief.refused(Method::GET, "/api/v1/namespaces/default/secrets", &Value::Null).await?;
    thief.refused(Method::GET, "/api/v1/namespaces/koinon-system/configmaps/sync-r2", &Value::Null).await?;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/koinon-system/leases";
    thief
        .refused(Method::PATCH, &format!("{leases}/sync-r2"), &json!({"spec": {"holderIdentity": "me"}}))
        .await?;
    thief.refused(Method::DELETE, &format!("{leases}/sync-r1"), &Value::Null).await?;
    thief.refused(Method::PATCH, &orders.path(), &json!({"metadata": {"annotations": {"x": "y"}}})).await?;
    // What RBAC cannot tell apart, the admission policy does. A stock server learns of it a little after it was made.
    let other = format!("{}/status", orders.object("for-r2"));
    until("the admission policy is in force", async || {
        let code = thief.side.code(Method::PATCH, &other, &json!({"status": {"phase": "Stolen"}})).await?;
        Ok(if code == 403 { Look::Found(()) } else { Look::NotYet(code.to_string()) })
    })
    .await?;
    thief.refused(Method::PATCH, &finds.object("of-r2"), &spec).await?;
    thief.refused(Method::PATCH, &finds.object("of-r2"), &json!({"metadata": label("r1")})).await?;
    thief.refused(Method::DELETE, &finds.object("of-r2"), &Value::Null).await?;
    let named = |name: &str, label: &str| json!({"metadata": {"name": name, "labels": {ROBOT: label}}});
    thief.refused(Method::POST, &finds.objects(), &finds.made("fake", label("r2"), json!({}))).await?;
    thief.refused(Method::POST, &finds.objects(), &finds.made("fake", json!({}), json!({}))).await?;
    thief.refused(Method::POST, leases, &named("sync-r2", "r2")).await?;
    thief.refused(Method::POST, leases, &named("sync-r2", "r1")).await?;
    thief
        .refused(Method::POST, "/api/v1/namespaces/koinon-system/configmaps", &named("sync-r2", "r1"))
        .await?;
    // Of what is the cloud's it may write the status, and nothing that other robots would get.
    until("the admission policy for whole objects is in force", async || {
        let code = thief.side.code(Method::PATCH, &maps.object("of-all"), &spec).await?;
        Ok(if code == 403 { Look::Found(()) } else { Look::NotYet(code.to_string()) })
    })
    .await?;
    for change in [
        spec.clone(),
        json!({"spec": {"size": 2}}),
        json!({"spec": null}),
        json!({"spec": {"size": 2}, "status": {"phase": "Stolen"}}),
        json!({"metadata": {"labels": {"a": "2"}}}),
        json!({"metadata": {"labels": null}}),
        json!({"metadata": label("r1")}),
        json!({"metadata": {"annotations": {"a": "1"}}}),
        json!({"metadata": {"finalizers": null}}),
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]}}),
    ] {
        thief.refused(Method::PATCH, &maps.object("of-all"), &change).await?;
    }
    thief.refused(Method::PATCH, &plans.object("for-r1"), &spec).await?;
    thief.refused(Method::PATCH, &plans.object("for-r1"), &json!({"metadata": label("r2")})).await?;
    thief.refused(Method::PATCH, &plans.object("for-r2"), &json!({"status": {"phase": "Stolen"}})).await?;
    let map = cloud.get(&maps.object("of-all")).await?.unwrap_or_default();
    ensure!(map["spec"] == json!({"size": 1}) && map["status"]["phase"] == "Done", "{map}");
    for path in [maps.object("of-all"), plans.object("for-r1")] {
        let code = thief.side.code(Method::PATCH, &path, &json!({"status": {"phase": "Told"}})).await?;
        ensure!(code == 200, "the status of {path}: {code}");
    }
    cloud.patch(&maps.object("of-all"), &json!({"metadata": {"finalizers": null}})).await?;
    // Its own it may still write.
    let code = thief.side.code(Method::PATCH, &finds.object("of-r1"), &spec).await?;
    ensure!(code == 200, "its own treasure: {code}");
    ensure!(thief.wrong.is_empty(), "{:#?}", thief.wrong);
    let lease = cloud.get(&format!("{leases}/sync-r1")).await?;
    ensure!(lease.is_some(), "its Lease is there");
    // The namespaces are of the clusters, which other scenarios have a part in.
    let ours =
        |path: &str| !path.contains("/namespaces/kube-system") && path != "/api/v1/namespaces/koinon-system";
    for (side, path) in applied.iter().rev().filter(|(_, path)| ours(path)) {
        // Some of it was printed twice, and what is in a namespace goes with it.
        let _ = side.delete(path).await;
    }
    pair.end(None).await
}

/// Somebody who tries what is not theirs to do.
struct Thief {
    side: Side,
    wrong: Vec<String>,
}

impl Thief {
    async fn refused(&mut self, method: Method, path: &str, body: &Value) -> anyhow::Result<()> {
        let code = self.side.code(method.clone(), path, body).await?;
        if code != 403 {
            self.wrong.push(format!("{method} {path} {body}: {code}"));
        }
        Ok(())
    }
}

/// What is printed for the robot.
async fn print(crds: &Path, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    let mut command = Command::new(koinon());
    command.args(["install", "rbac", "--role", "sync", "--crds"]).arg(crds).args(arguments);
    let output = command.output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_saphyr::from_multiple(&String::from_utf8(output.stdout)?).context("what is printed is YAML")
}

/// Makes an object or replaces what is there; its path.
async fn apply(side: &Side, object: &Value) -> anyhow::Result<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
    let base = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
    let plural = match kind {
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    let path = match text("/metadata/namespace") {
        "" => format!("{base}/{plural}/{name}"),
        namespace => format!("{base}/namespaces/{namespace}/{plural}/{name}"),
    };
    let request = http::Request::patch(format!("{path}?fieldManager=e2e&force=true"))
        .header("content-type", "application/apply-patch+yaml")
        .body(object.to_string().into_bytes())?;
    side.cluster.client.request::<Value>(request).await.with_context(|| format!("apply {path}"))?;
    Ok(path)
}

/// A token of a service account.
pub(super) async fn token(side: &Side, namespace: &str, account: &str) -> anyhow::Result<String> {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let given = side.create(&path, &asked).await?;
    given["status"]["token"].as_str().map(ToOwned::to_owned).context("a token is given")
}

/// The same server, logged in with a token.
pub(super) fn kubeconfig_with(admin: &Path, token: &str) -> anyhow::Result<String> {
    let admin = Kubeconfig::read_from(admin)?;
    let cluster = admin.clusters.first().and_then(|named| named.cluster.clone()).context("a cluster")?;
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "robot",
        "clusters": [{"name": "robot", "cluster": cluster}],
        "users": [{"name": "robot", "user": {"token": token}}],
        "contexts": [{"name": "robot", "context": {"cluster": "robot", "user": "robot"}}],
    })
    .to_string())
}

/// A kubeconfig of a service account.
async fn login(
    pair: &Pair,
    side: &Side,
    namespace: &str,
    account: &str,
) -> anyhow::Result<std::path::PathBuf> {
    let token = token(side, namespace, account).await?;
    let file = pair.file(&format!("{namespace}-{account}.kubeconfig"));
    std::fs::write(&file, kubeconfig_with(&side.cluster.kubeconfig, &token)?)?;
    Ok(file)
}

async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
