//! A member that was restarted is known again, and one with fresh credentials; another cluster in its place is not.

use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{HURRY, address, member, object, until_federation, until_led_by};
use crate::engine::Build;
use crate::league::wire::Wire;
use crate::union::{FEDERATION, SYSTEM, Site, Union};
use crate::wait::{Look, until};
use crate::world::{Room, World};

const MEMBER: &str = "koinon-network-member";

pub(super) async fn known_again(world: Arc<World>) -> anyhow::Result<()> {
    let mut union = Union::prepare(&world).await?;
    let (running, cluster) = world.own_cluster("formation-d", Build::Bare).await?;
    let mut d = Site::furnish(Room::bare(cluster, SYSTEM).await?, "d").await?;
    let wire = Wire::open(address(&d)?).await?;
    d.claim("id.k8s.io", "d").await?;
    d.apply(&federation(&[])).await?;
    let a = &union.sites[0];
    let mut entry = a.entry_for(&d).await?;
    entry["server"] = format!("https://{}", wire.address).into();
    let own = a.entry_for(a).await?;
    a.claim("supervisor.antreaplus.tanzu-vmware.com", "true").await?;
    a.claim("id.k8s.io", "a").await?;
    a.apply(&federation(&[own, entry])).await?;
    union.start_role(0, &HURRY).await?;
    let a = &union.sites[0];
    until_led_by(&d, &["a"]).await?;
    let known = until_is(a, "Reachable").await?;
    let uid = member(&known, "d")["uid"].as_str().context("its UID is written down")?.to_owned();

    // Its API server is restarted: the same cluster, led on.
    let renewed = renewal(&d).await?;
    running.stop().await;
    until_is(a, "Unreachable").await?;
    let (running, cluster) = world.own_cluster("formation-d", Build::Bare).await?;
    d.room.cluster = cluster;
    wire.turn_to(address(&d)?);
    let known = until_is(a, "Reachable").await?;
    anyhow::ensure!(member(&known, "d")["uid"] == uid, "{}", known["status"]);
    until("a leads d on", async || {
        let now = renewal(&d).await?;
        Ok(if now != renewed && d.leader().await? == "a" { Look::Found(()) } else { Look::NotYet(now) })
    })
    .await?;

    // Its credentials are rotated: the old ones are worth nothing, the new ones are used without a restart.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": MEMBER}});
    d.room.kubectl(&["delete", "serviceaccount", MEMBER]).await?;
    d.apply(&account).await?;
    let lost = until_is(a, "Unreachable").await?;
    let why = member(&lost, "d")["error"].to_string();
    anyhow::ensure!(why.contains("it refuses our credentials"), "{why}");
    a.entry_for(&d).await?;
    until_is(a, "Reachable").await?;

    // Another cluster answers at its address, and takes the credentials: it is not led, and nothing is written to it.
    let b = &union.sites[1];
    wire.turn_to(address(b)?);
    let (_, authority) = b.server()?;
    let token = b.token(MEMBER).await?;
    a.apply(&secret(&token, &authority)).await?;
    let other = until_federation(a, "another is in its place", |federation| {
        let d = member(federation, "d");
        d["status"] == "Unreachable"
            && d["error"].as_str().is_some_and(|error| error.contains("another cluster"))
    })
    .await?;
    anyhow::ensure!(
        member(&other, "d")["uid"] == uid,
        "it is known by the UID that it had: {}",
        other["status"]
    );
    let leases = b.room.kubectl(&["get", "leases", "-o", "name"]).await?;
    anyhow::ensure!(leases.is_empty(), "in the other cluster there are {leases}");
    wire.turn_to(address(&d)?);
    a.entry_for(&d).await?;
    until_is(a, "Reachable").await?;
    until_led_by(&d, &["a"]).await?;
    union.dissolve().await?;
    running.stop().await;
    Ok(())
}

fn federation(members: &[Value]) -> Value {
    json!({"apiVersion": FEDERATION, "kind": "Federation", "metadata": {"name": "fed"}, "spec": {"members": members}})
}

fn secret(token: &str, authority: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "member-d", "labels": {"koinon.dev/member-secret": "true"}},
        "stringData": {"token": token, "ca.crt": authority},
    })
}

async fn until_is(site: &Site, status: &str) -> anyhow::Result<Value> {
    until_federation(site, &format!("d is {status}"), |federation| {
        member(federation, "d")["status"] == status
    })
    .await
}

/// When the lease of a member was renewed last.
async fn renewal(site: &Site) -> anyhow::Result<String> {
    Ok(object(site, "lease", site.name).await?["spec"]["renewTime"].to_string())
}
