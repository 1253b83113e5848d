//! How many connections a role holds, and what becomes of requests where the server ends them.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use koinon_control::client::{Keepalive, connect, urgent};
use kube::api::{PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Config};
use serde_json::json;

use super::{Scenario, api, kubectl};
use crate::engine::Build;
use crate::league::Space;
use crate::objects::replica_set;
use crate::world::World;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl("a_role_holds_two_to_each_member_also_in_a_burst", burst),
        api("no_write_fails_where_the_server_sends_clients_away", restless),
    ]
}

/// One for what is watched and written, and one for probes.
async fn burst(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _peace = league.alone().await;
    let space = Space::open(league.clone(), "burst").await?;
    let preferences = r#"{"clusters":{"*":{"weight":1}}}"#;
    for number in 0..12 {
        let mut set = replica_set(&format!("web-{number}"), 3);
        set["metadata"]["annotations"] =
            json!({"federation.kubernetes.io/replica-set-preferences": preferences});
        space.apply(&set).await?;
    }
    for number in 0..12 {
        space.until_layout(&format!("replicaset/web-{number}"), "a=1 b=1 c=1").await?;
        for (name, member) in &league.members {
            let open = member.wire.connections();
            ensure!((1..=2).contains(&open), "{open} connections to {name}");
        }
    }
    space.leave().await
}

/// Each is made once: a second attempt would find it there.
async fn restless(world: Arc<World>) -> anyhow::Result<()> {
    let (running, cluster) = world.own_cluster("restless", Build::Restless).await?;
    let kubeconfig = Kubeconfig::read_from(&cluster.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = connect(&config, Keepalive::default())?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut watches = Vec::new();
    for _ in 0..10 {
        watches.push(maps.watch(&WatchParams::default(), "0").await?.boxed());
    }
    let leases: Api<ConfigMap> = Api::namespaced(urgent(client), "default");
    let writes = (0..600).map(|number| {
        let api = if number % 5 == 0 { &leases } else { &maps };
        async move {
            let map: ConfigMap =
                serde_json::from_value(json!({"metadata": {"name": format!("m-{number}")}}))?;
            api.create(&PostParams::default(), &map).await.with_context(|| format!("write {number}"))
        }
    });
    let written: Vec<ConfigMap> = futures::stream::iter(writes).buffer_unordered(30).try_collect().await?;
    ensure!(written.len() == 600, "{}", written.len());
    drop(watches);
    running.stop().await;
    Ok(())
}
