//! Sequences about owners and what depends on them: the three ways to propagate a deletion.

use serde_json::json;

use super::{Plan, json};
use crate::client::Request;
use crate::sequence::{Action, Goal};

const CONFIGMAPS: &str = "/api/v1/namespaces/${ns}/configmaps";
const SECRETS: &str = "/api/v1/namespaces/${ns}/secrets";

pub(super) fn fill(plan: &mut Plan) {
    for round in 0..3 {
        let owner = format!("owner-{round}");
        let body = json!({"metadata": {"name": owner, "labels": {"seq": "${ns}"}}});
        let created = plan.send(json("POST", CONFIGMAPS, &[], &body));
        let block = plan.rng.chance(50);
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": format!("${{{created}.uid}}"),
            "blockOwnerDeletion": block, "controller": plan.rng.chance(50)});
        let mut dependents = Vec::new();
        for (index, collection) in [CONFIGMAPS, SECRETS].iter().enumerate() {
            let name = format!("dependent-{round}-{index}");
            let body = json!({"metadata": {"name": name, "ownerReferences": [reference], "labels": {"seq": "${ns}"}}});
            plan.send(json("POST", collection, &[], &body));
            dependents.push(format!("{collection}/{name}"));
        }
        remove(plan, &format!("{CONFIGMAPS}/{owner}"), &dependents);
    }
    for _ in 0..8 {
        plan.create();
        plan.list();
    }
}

fn remove(plan: &mut Plan, owner: &str, dependents: &[String]) {
    let policy = *plan.rng.pick(&["Background", "Foreground", "Orphan", ""]);
    let options = if policy.is_empty() { json!({}) } else { json!({"propagationPolicy": policy}) };
    plan.send(Request::json("DELETE", owner, &options));
    plan.push(Action::Until(owner.to_owned(), Goal::Gone));
    for dependent in dependents {
        if policy == "Orphan" {
            plan.send(Request::new("GET", dependent.clone()));
        } else {
            plan.push(Action::Until(dependent.clone(), Goal::Gone));
        }
    }
}
