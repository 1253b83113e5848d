//! The log of a role, read by somebody who was not there: what happened to a Deployment and to the members, line by line.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::workloads_rollout::{WEB, rolled_out, set, web};
use super::{Scenario, kubectl};
use crate::league::Space;
use crate::wait::{Look, until};
use crate::world::World;

const EVEN: &str = r#"{"rebalance":true,"clusters":{"*":{"weight":1}}}"#;

/// What the lines tell of, in this order; between them there may be more of the same.
const STORY: [&str; 12] = [
    "INFO Placed web",
    "WARN MemberUnreachable b",
    "WARN ClusterOffline web",
    "INFO Moved web",
    "INFO MemberReachable b",
    "INFO ClusterBack web",
    "INFO Updating web",
    "INFO Updating web",
    "INFO Updating web",
    "INFO RolledOut web",
    "INFO DeletionBegun web",
    "INFO DeletionDone web",
];

pub(super) fn all() -> Vec<Scenario> {
    vec![kubectl("the_log_tells_of_a_cut_a_return_a_rollout_and_a_deletion", told)]
}

async fn told(world: Arc<World>) -> anyhow::Result<()> {
    let league = world.league().await?;
    let _alone = league.alone().await;
    let space = Space::open(league.clone(), "logs").await?;
    let before = league.log().await?.len();
    let preferences = json!({"federation.kubernetes.io/deployment-preferences": EVEN});
    space.apply(&web(6, preferences, json!({}))).await?;
    rolled_out(&space).await?;
    league.members["b"].wire.cut();
    space.until_layout(WEB, "a=3 b=2 c=3").await?;
    league.members["b"].wire.heal();
    space.until_layout(WEB, "a=2 b=2 c=2").await?;
    rolled_out(&space).await?;
    set(&space, "2").await?;
    rolled_out(&space).await?;
    space.kubectl(&["delete", WEB, "--cascade=foreground"]).await?;
    let log = until("the deletion is done in all members", async || {
        let log = league.log().await?;
        let done = log[before..].contains("DeletionDone");
        Ok(if done { Look::Found(log[before..].to_owned()) } else { Look::NotYet(log[before..].to_owned()) })
    })
    .await?;
    ensure!(!log.contains('\u{1b}'), "escape codes in a file: {log}");
    let mut lines = Vec::new();
    for line in log.lines() {
        lines.push(gist(line).with_context(|| format!("a line without its fields: {line}"))?);
    }
    let mut rest = lines.iter();
    for wanted in STORY {
        ensure!(rest.any(|line| line == wanted), "{wanted} is not told, or not in its place:\n{log}");
    }
    ensure!(lines.len() < 40, "{} lines:\n{log}", lines.len());
    space.leave().await
}

/// How serious a line is, its reason, and what it is about.
fn gist(line: &str) -> Option<String> {
    let field = |name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}="))?;
        rest.split_whitespace().next().map(|value| value.trim_matches('"'))
    };
    let level = line.split_whitespace().nth(1)?;
    let about = field("member").or_else(|| field("name")).or_else(|| field("lease"))?;
    Some(format!("{level} {} {about}", field("reason")?))
}
