//! How a federation forms: claims, members, elections, and what nobody may do to them. Every role runs with exactly the
//! permissions that `koinon install rbac` prints, and fails its scenario when one is missing.

mod guarded;
mod identity;
mod leaders;
mod members;
mod upgrade;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{Scenario, kubectl};
use crate::kubectl::Said;
use crate::union::Site;
use crate::wait::{Look, until};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        kubectl(
            "the_webhook_refuses_and_the_controller_holds_where_it_was_away",
            guarded::claims_and_federations,
        ),
        kubectl("members_and_supervisors_come_and_go_without_a_restart", members::come_and_go),
        kubectl("a_leader_that_dies_freezes_or_is_cut_off_is_followed", leaders::followed),
        kubectl("a_member_is_known_again_and_another_in_its_place_is_not_written_to", identity::known_again),
    ]
}

/// Those of a federation with an API server of its own: they found none among the clusters, and wait for nobody who does.
pub(super) fn of_the_league() -> Vec<Scenario> {
    vec![
        kubectl("a_member_is_upgraded_and_given_what_it_missed", upgrade::upgraded),
        kubectl("malformed_preferences_are_refused_at_once", guarded::preferences),
    ]
}

/// Everything happens sooner than in the field.
const HURRY: [&str; 4] = ["--offline-after", "3s", "--online-after", "1s"];

async fn object(site: &Site, kind: &str, name: &str) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&site.room.kubectl(&["get", kind, name, "-o", "json"]).await?)?)
}

/// Waits until the Federation here is as wanted.
async fn until_federation(site: &Site, what: &str, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
    until(&format!("the Federation of {}: {what}", site.name), async || {
        let federation = object(site, "federation", "fed").await?;
        Ok(if wanted(&federation) {
            Look::Found(federation)
        } else {
            Look::NotYet(federation["status"].to_string())
        })
    })
    .await
}

/// `a=Reachable(a) b=Unreachable(-)`: how each member is and who leads it, as a Federation says.
fn said(federation: &Value) -> String {
    let members = federation["status"]["memberStatus"].as_array().into_iter().flatten();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or("-").to_owned();
    let each = members
        .map(|one| format!("{}={}({})", text(one, "clusterID"), text(one, "status"), text(one, "leader")));
    each.collect::<Vec<_>>().join(" ")
}

async fn until_said(site: &Site, wanted: &str) -> anyhow::Result<()> {
    until_federation(site, wanted, |federation| said(federation) == wanted).await.map(drop)
}

/// What a Federation says of one member.
fn member<'a>(federation: &'a Value, id: &str) -> &'a Value {
    let mut members = federation["status"]["memberStatus"].as_array().into_iter().flatten();
    members.find(|one| one["clusterID"] == id).unwrap_or(&Value::Null)
}

/// Waits until one of these leads the cluster; says which.
async fn until_led_by(site: &Site, wanted: &[&str]) -> anyhow::Result<String> {
    until(&format!("{} is led by one of {wanted:?}", site.name), async || {
        let leader = site.leader().await?;
        Ok(if wanted.contains(&leader.as_str()) {
            Look::Found(leader)
        } else {
            Look::NotYet(format!("{leader:?} leads"))
        })
    })
    .await
}

/// Applies an object, whatever is said to it.
async fn try_apply(site: &Site, object: &Value, more: &[&str]) -> anyhow::Result<Said> {
    let file = site.room.cluster.kubeconfig.with_file_name("formation-object.json");
    std::fs::write(&file, object.to_string())?;
    site.room.kubectl_said(&[&["apply", "-f", &file.to_string_lossy()], more].concat()).await
}

/// What was asked for must have been refused with these words.
fn refused(said: &Said, words: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        said.code != Some(0) && said.err.contains(words),
        "{words:?} was expected: {}{}",
        said.out,
        said.err
    );
    Ok(())
}

/// Makes the members of the Federation here be these.
async fn set_members(site: &Site, members: &[Value]) -> anyhow::Result<()> {
    let patch = json!({"spec": {"members": members}}).to_string();
    site.room.kubectl(&["patch", "federation", "fed", "--type=merge", "-p", &patch]).await.map(drop)
}

/// The address of a cluster's API server.
fn address(site: &Site) -> anyhow::Result<std::net::SocketAddr> {
    let (server, _) = site.server()?;
    let address = server.strip_prefix("https://").context("a server behind TLS")?;
    Ok(address.trim_end_matches('/').parse()?)
}
