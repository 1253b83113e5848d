//! A live workload: what the role would decide, with flags that assume something else.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use koinon_api::preferences::Preferences;
use koinon_fleet::Phase;
use koinon_fleet::membership;
use koinon_workloads::preview::{self, Preview, WhatIf};

use super::input::BadInput;
use super::output::{self, Step};
use crate::args;
use crate::members::client;
use crate::status::{Kind, Named, get};

pub(super) async fn run(workload: &Named, args: &args::Plan) -> anyhow::Result<String> {
    let what_if = what_if(args)?;
    let client = client(&args.federation).await?;
    let rows = membership::list(&client, koinon_context::wall_clock()).await?;
    let members: BTreeMap<String, bool> =
        rows.into_iter().map(|row| (row.name, row.phase != Phase::Unreachable)).collect();
    let (namespace, name, now) = (&args.namespace, &workload.name, koinon_context::wall_clock());
    let seen = match workload.kind {
        Kind::Deployment => {
            let live: Deployment = get(&client, namespace, name).await?;
            preview::deployment(now, &live, &members, &what_if)
        }
        Kind::ReplicaSet => {
            let live: ReplicaSet = get(&client, namespace, name).await?;
            preview::replica_set(now, &live, &members, &what_if)
        }
    };
    let seen = seen.map_err(|error| BadInput(error.to_string()))?;
    for warning in &seen.warnings {
        eprintln!("koinon: {warning}");
    }
    show(&seen, args.output)
}

fn what_if(args: &args::Plan) -> Result<WhatIf, BadInput> {
    let bad = |why: String| Err(BadInput(why));
    if let Some(replicas) = args.replicas.filter(|replicas| *replicas < 0) {
        return bad(format!("replicas is {replicas}: it must be a whole number from 0"));
    }
    if let Some((cluster, weight)) = args.weight.iter().find(|(_, weight)| *weight < 0) {
        return bad(format!("--weight {cluster}={weight} is below 0: it must be a whole number from 0"));
    }
    let preferences = match args.preferences.as_deref().map(Preferences::parse).transpose() {
        Ok(preferences) => preferences,
        Err(error) => return bad(format!("--preferences: {error}")),
    };
    Ok(WhatIf {
        replicas: args.replicas,
        preferences,
        rebalance: args.rebalance,
        weights: args.weight.iter().cloned().collect(),
        capacity: args.capacity.iter().cloned().collect(),
        lose: args.lose.iter().cloned().collect(),
        image: args.image.clone(),
    })
}

fn show(seen: &Preview, output: args::Output) -> anyhow::Result<String> {
    let replicas = |name: &String| seen.plan.clusters.get(name).map_or(0, |share| share.replicas);
    let steps: Vec<Step> = seen
        .steps
        .iter()
        .map(|group| Step {
            clusters: group.iter().cloned().collect(),
            replicas: group.iter().map(replicas).sum(),
        })
        .collect();
    Ok(match output {
        args::Output::Json => output::json(&seen.plan, &steps)?,
        args::Output::Yaml => output::yaml(&seen.plan, &steps)?,
        args::Output::Table => {
            let mut text = output::table(&seen.plan, &Some(seen.before.clone()), seen.replicas);
            if !steps.is_empty() {
                text.push_str(&output::steps(&steps));
            }
            text
        }
    })
}
