//! Nobody may hand out rights that they do not have: what stands between writing a role or binding and
//! the store.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_json::Value;

use super::{Attributes, Found, GROUP, RoleRef, Rule, Rules, authorize, joined, quoted};
use crate::auth::identity::MASTERS;
use crate::status::{Error, GroupResource, Result};

/// Whether the writer of a Role or ClusterRole has everything that it gives. `request` is the request as
/// it was authorized, `old` the stored object of an update.
pub fn check_role(
    request: &Attributes<'_>,
    new: &Value,
    old: Option<&Value>,
    rules: &dyn Rules,
) -> Result<()> {
    let request = &in_scope(request);
    if request.user.in_group(MASTERS)
        || authorize(&Attributes { verb: "escalate", ..*request }, rules).allowed()
    {
        return Ok(());
    }
    if old.is_some_and(|old| only_for_the_collector(new, old)) {
        return Ok(());
    }
    let refused = |why: &str| Err(Error::forbidden(&target(request), name_of(new), why));
    if let Some(why) = missing_rights(request, &Rule::parse_all(new.get("rules")), rules) {
        return refused(&why);
    }
    // An aggregated role can come to hold anything.
    let aggregates = aggregates(new) || old.is_some_and(aggregates);
    if aggregates && missing_rights(request, &everything(), rules).is_some() {
        return refused("must have cluster-admin privileges to use the aggregationRule");
    }
    Ok(())
}

/// Whether the writer of a RoleBinding or ClusterRoleBinding may bind the role, or has all that it gives.
pub fn check_binding(
    request: &Attributes<'_>,
    new: &Value,
    old: Option<&Value>,
    rules: &dyn Rules,
) -> Result<()> {
    let request = &in_scope(request);
    if request.user.in_group(MASTERS) || old.is_some_and(|old| only_for_the_collector(new, old)) {
        return Ok(());
    }
    let text = |key: &str| new["roleRef"][key].as_str().unwrap_or_default();
    let role = RoleRef { kind: text("kind"), name: text("name") };
    let resource = match role.kind {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        _ => return Err(Error::internal(role.not_found())),
    };
    let bind = Attributes {
        verb: "bind",
        group: text("apiGroup"),
        version: "*",
        resource,
        subresource: "",
        name: role.name,
        ..*request
    };
    if authorize(&bind, rules).allowed() {
        return Ok(());
    }
    // The real server speaks of the binding's resource here too, with the role's name.
    let Some(given) = rules.role(role, request.namespace) else {
        return Err(Error::not_found(&target(request), role.name));
    };
    match missing_rights(request, given, rules) {
        Some(why) => Err(Error::forbidden(&target(request), name_of(new), &why)),
        None => Ok(()),
    }
}

/// The request as it counts here: what is written for the whole cluster needs rights in the whole cluster, whichever
/// namespace the request was authorised in.
fn in_scope<'a>(request: &Attributes<'a>) -> Attributes<'a> {
    let cluster = matches!(request.resource, "clusterroles" | "clusterrolebindings");
    Attributes { namespace: if cluster { "" } else { request.namespace }, ..*request }
}

/// The sentence that lists which of `wanted` the user lacks; nothing if they have it all.
fn missing_rights(request: &Attributes<'_>, wanted: &[Rule], rules: &dyn Rules) -> Option<String> {
    let mut own = Vec::new();
    let mut unresolved = Vec::new();
    rules.visit(request.user, request.namespace, &mut |found| {
        match found {
            Found::Rule(rule, _) => own.push(rule.clone()),
            Found::Missing(role) => unresolved.push(plural_not_found(role)),
        }
        ControlFlow::Continue(())
    });
    let lacks = |part: &Rule| !own.iter().any(|rule| rule.covers(part));
    let missing: Vec<Rule> = wanted.iter().flat_map(Rule::parts).filter(lacks).collect();
    if missing.is_empty() {
        return None;
    }
    let lines: BTreeSet<String> = compact(missing).iter().map(Rule::describe).collect();
    let lines: Vec<String> = lines.into_iter().collect();
    let mut why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        request.user.name,
        quoted(&request.user.groups),
        lines.join("\n")
    );
    if !unresolved.is_empty() {
        why.push_str(&format!("; resolution errors: [{}]", joined(&unresolved)));
    }
    Some(why)
}

/// Single rights that differ only in their verb become one.
fn compact(parts: Vec<Rule>) -> Vec<Rule> {
    let mut whole: Vec<Rule> = Vec::new();
    for part in parts {
        let same = |one: &&mut Rule| {
            part.paths.is_empty()
                && one.groups == part.groups
                && one.resources == part.resources
                && one.names == part.names
        };
        match whole.iter_mut().find(same) {
            Some(one) => one.verbs = one.verbs.iter().chain(&part.verbs).cloned().collect(),
            None => whole.push(part),
        }
    }
    whole
}

/// Whether an update changes only what the garbage collector changes. That needs no rights.
fn only_for_the_collector(new: &Value, old: &Value) -> bool {
    let stripped = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for key in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
                metadata.remove(key);
            }
        }
        object
    };
    stripped(new) == stripped(old)
}

fn everything() -> [Rule; 2] {
    let all = || Box::from([Box::from("*")]);
    [
        Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), paths: all(), ..Rule::default() },
    ]
}

fn aggregates(role: &Value) -> bool {
    role["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|list| !list.is_empty())
}

fn target(request: &Attributes<'_>) -> GroupResource {
    GroupResource::new(GROUP, request.resource)
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Writes look roles up where they are stored, and that is told apart by its plural.
fn plural_not_found(role: RoleRef<'_>) -> String {
    match role.kind {
        "Role" | "ClusterRole" => format!("{}s.{GROUP} {:?} not found", role.kind.to_lowercase(), role.name),
        _ => role.not_found(),
    }
}
