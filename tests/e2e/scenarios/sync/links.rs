//! Links that fail and credentials that change, without a restart.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::pair::{Definition, Pair, SOURCE, Side};
use super::proxy::Proxy;
use super::rights::{kubeconfig_with, token};
use crate::http::ask;
use crate::wait::{Look, until};
use crate::world::World;

pub(super) async fn without_a_link(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let toys = Definition::new("links", json!({SOURCE: "cloud"}));
    pair.define(&toys).await?;
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    let link = Proxy::to(&cloud.cluster.kubeconfig).await?;
    let kubeconfig = pair.file("link.kubeconfig");
    link.kubeconfig(&cloud.cluster.kubeconfig, &kubeconfig)?;
    // Without a link from the start: what is there stays, and health is fine.
    link.cut();
    robot.create(&toys.objects(), &toys.made("local", json!({}), json!({}))).await?;
    let metrics = free_address()?;
    let running = pair.start_with(&kubeconfig, &["--metrics", &metrics]).await?;
    until("it has noticed that there is no link", async || {
        let (_, text) = ask(&metrics, "/metrics").await?;
        let line = text.lines().find(|line| line.starts_with("koinon_sync_connected{side=\"cloud\"}"));
        Ok(match line {
            Some(line) if line.ends_with(" 0.0") => Look::Found(()),
            line => Look::NotYet(line.unwrap_or(&text).to_owned()),
        })
    })
    .await?;
    for path in ["/healthz", "/readyz"] {
        let (status, text) = ask(&metrics, path).await?;
        ensure!(status.contains(" 200 "), "{path}: {status} {text}");
    }
    ensure!(robot.get(&toys.object("local")).await?.is_some(), "nothing goes before the cloud was listed");
    link.heal();
    robot.until_gone(&toys.object("local")).await?;
    // Cut in the middle of it all: both sides go on, and make up for it afterwards.
    for name in ["ball", "cube"] {
        cloud.create(&toys.objects(), &toys.made(name, json!({}), json!({"size": 1}))).await?;
        robot.until_there(&toys.object(name)).await?;
    }
    for round in 2..5 {
        link.cut();
        cloud.patch(&toys.object("ball"), &json!({"spec": {"size": round}})).await?;
        cloud.delete(&toys.object("cube")).await?;
        let status = format!("{}/status", toys.object("ball"));
        robot.patch(&status, &json!({"status": {"round": round}})).await?;
        robot.delete(&toys.object("cube")).await?;
        robot
            .until("it is made again from what is known", &toys.object("cube"), |cube| !cube.is_null())
            .await?;
        let (status, text) = ask(&metrics, "/healthz").await?;
        ensure!(status.contains(" 200 "), "{status} {text}");
        link.heal();
        robot.until("the edit is down", &toys.object("ball"), |ball| ball["spec"]["size"] == round).await?;
        cloud
            .until("the status is up", &toys.object("ball"), |ball| ball["status"]["round"] == round)
            .await?;
        robot.until_gone(&toys.object("cube")).await?;
        cloud.create(&toys.objects(), &toys.made("cube", json!({}), json!({"size": round}))).await?;
        robot.until_there(&toys.object("cube")).await?;
    }
    pair.end(Some(running)).await
}

pub(super) async fn credentials(world: Arc<World>) -> anyhow::Result<()> {
    let mut pair = Pair::new(world).await?;
    let toys = Definition::new("keys", json!({SOURCE: "cloud"}));
    pair.define(&toys).await?;
    let (cloud, robot) = (pair.cloud.clone(), pair.robot.clone());
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let (account, binding) = admin(&cloud, "pair-robot").await?;
    cloud.delete(&account).await?;
    let kubeconfig = pair.file("token.kubeconfig");
    let write = |token: &str| -> anyhow::Result<()> {
        let written = kubeconfig_with(&cloud.cluster.kubeconfig, token)?;
        std::fs::write(&kubeconfig, written).context("the kubeconfig with the token")
    };
    // One that nobody knows, to begin with; and then twice a good one, the first of which is lost.
    write("nobody-knows-this")?;
    let running = pair.start_with(&kubeconfig, &[]).await?;
    for round in 1..=2 {
        cloud.create(accounts, &json!({"metadata": {"name": "pair-robot"}})).await?;
        write(&token(&cloud, "default", "pair-robot").await?)?;
        let name = format!("toy-{round}");
        cloud.create(&toys.objects(), &toys.made(&name, json!({}), json!({}))).await?;
        robot.until_there(&toys.object(&name)).await?;
        let status = format!("{}/status", toys.object(&name));
        robot.patch(&status, &json!({"status": {"round": round}})).await?;
        cloud.until("its status is up", &toys.object(&name), |toy| toy["status"]["round"] == round).await?;
        cloud.delete(&account).await?;
        refused(&cloud, &kubeconfig).await?;
    }
    cloud.delete(&binding).await?;
    pair.end(Some(running)).await
}

/// Makes a service account in `default` that may do everything; its path, and that of its binding.
pub(super) async fn admin(side: &Side, name: &str) -> anyhow::Result<(String, String)> {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let subject = json!({"kind": "ServiceAccount", "namespace": "default", "name": name});
    let role =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    side.create(accounts, &json!({"metadata": {"name": name}})).await?;
    let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]});
    side.create(bindings, &binding).await?;
    Ok((format!("{accounts}/{name}"), format!("{bindings}/{name}")))
}

/// Waits until the server does not know the token any more.
pub(super) async fn refused(side: &Side, kubeconfig: &std::path::Path) -> anyhow::Result<()> {
    let config = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await?;
    let side = side.with(kube::Client::try_from(config)?);
    until("the token is refused", async || {
        let code = side.code(http::Method::GET, "/api/v1/namespaces", &Value::Null).await?;
        Ok(if code == 401 { Look::Found(()) } else { Look::NotYet(code.to_string()) })
    })
    .await
}

/// An address that nobody listens on.
pub(super) fn free_address() -> anyhow::Result<String> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// Waits until a port answers with this status.
pub(super) async fn answers(address: &str, path: &str, wanted: u16) -> anyhow::Result<()> {
    until(&format!("{path} answers with {wanted}"), async || {
        let (status, text) = ask(address, path).await?;
        let as_wanted = status.contains(&format!(" {wanted} "));
        Ok(if as_wanted { Look::Found(()) } else { Look::NotYet(format!("{status} {text}")) })
    })
    .await
}

/// The CRDs that a syncer keeps in step, as its port shows them.
pub(super) async fn synced(address: &str) -> anyhow::Result<Vec<String>> {
    let (_, text) = ask(address, "/metrics").await?;
    let crds = text.lines().filter_map(|line| line.strip_prefix("koinon_sync_running{crd=\""));
    Ok(crds.filter_map(|rest| rest.split_once('"')).map(|(crd, _)| crd.to_owned()).collect())
}
