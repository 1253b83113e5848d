//! What the status of a pod may say, given what it said before.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::field::Error;
use crate::kinds::internal;
use crate::kinds::walk::{At, Faults, IMMUTABLE, get, list, text};
use crate::names;

const NOT_AGAIN: &str = "may not be transitioned to non-terminated state";
const NOT_A_GENERATION: &str = "must be a non-negative integer";

/// What is wrong with the status of a pod.
pub(super) fn validate(new: &Value, old: &Value) -> Faults {
    let (status, old_status) = (At::top(new, "status"), At::top(old, "status"));
    let mut faults = validate_conditions(&status.child("conditions"));
    if text(&new["spec"], "nodeName") != text(&old["spec"], "nodeName") {
        faults.push(status.child("nodeName").forbidden("may not be changed directly"));
    }
    faults.extend(validate_nominated_node(&status, &old_status, &old["spec"]));
    let observed = status.child("observedGeneration");
    if observed.value.as_i64().is_some_and(|generation| generation < 0) {
        faults.push(observed.invalid(NOT_A_GENERATION));
    }
    let class = status.child("qosClass");
    if class.str() != old_status.text("qosClass") {
        faults.push(Error::invalid(&class.path, class.str(), IMMUTABLE));
    }
    for (statuses, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        let before = old_status.child(statuses);
        faults.extend(validate_transitions(&status.child(statuses), &before, &old["spec"], containers));
    }
    let ephemeral = "ephemeralContainerStatuses";
    for (ended, _) in restarted(&status.child(ephemeral), &old_status.child(ephemeral)) {
        faults.push(ended.child("state").forbidden(NOT_AGAIN));
    }
    faults.extend(validate_ips(&status.child("podIPs"), &old_status.child("podIPs")));
    let hosts = status.child("hostIPs");
    if let Some(first) = hosts.items().next().map(|host| host.child("ip"))
        && first.str() != status.text("hostIP")
    {
        faults.push(first.invalid("must be equal to `hostIP`"));
    }
    faults.extend(validate_ips(&hosts, &old_status.child("hostIPs")));
    faults
}

fn validate_conditions(conditions: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    for condition in conditions.items() {
        let observed = condition.child("observedGeneration");
        if observed.value.as_i64().is_some_and(|generation| generation < 0) {
            faults.push(observed.invalid(NOT_A_GENERATION));
        }
        let kind = condition.text("type");
        if !["PodScheduled", "Ready", "Initialized"].contains(&kind) {
            let path = condition.child("Type").path;
            faults
                .extend(names::qualified_name(kind).into_iter().map(|why| Error::invalid(&path, kind, why)));
        }
    }
    faults
}

fn validate_nominated_node(status: &At<'_>, old: &At<'_>, old_spec: &Value) -> Faults {
    let node = status.child("nominatedNodeName");
    if node.str().is_empty() || node.str() == old.text("nominatedNodeName") {
        return Faults::new();
    }
    let mut faults = node.obey(names::dns1123_subdomain);
    if !text(old_spec, "nodeName").is_empty() {
        faults.push(node.forbidden("may not be set on pods that are already bound to a node"));
    }
    faults
}

/// The containers that had ended and no longer have, with the code they had ended with. The path is
/// that of the old status.
fn restarted<'a>(new: &At<'a>, old: &At<'a>) -> Vec<(At<'a>, i64)> {
    let ended = |status: &At<'_>| get(status.value, &["state", "terminated"]).clone();
    let again =
        |name: &str| new.items().any(|status| status.text("name") == name && ended(&status).is_null());
    old.items()
        .filter(|status| !ended(status).is_null() && again(status.text("name")))
        .map(|status| {
            let code = ended(&status)["exitCode"].as_i64().unwrap_or(0);
            (status, code)
        })
        .collect()
}

fn validate_transitions(new: &At<'_>, old: &At<'_>, spec: &Value, containers: &str) -> Faults {
    let all = || ["initContainers", "containers"].into_iter().flat_map(|kind| list(&spec[kind]));
    let rules = |container: &Value| list(&container["restartPolicyRules"]).to_vec();
    if all().flat_map(rules).any(|rule| text(&rule, "action") == "RestartAllContainers") {
        return Faults::new();
    }
    let ended = restarted(new, old).into_iter().filter(|(status, code)| {
        let container = list(&spec[containers]).iter().find(|one| one["name"] == status.text("name"));
        !container.is_some_and(|container| restarts(container, spec, *code))
    });
    ended.map(|(status, _)| status.child("state").forbidden(NOT_AGAIN)).collect()
}

/// Whether a container that ended with this code runs again.
fn restarts(container: &Value, spec: &Value, code: i64) -> bool {
    let by_policy = |policy: &str| match policy {
        "OnFailure" => code != 0,
        policy => policy != "Never",
    };
    let own = text(container, "restartPolicy");
    if own.is_empty() {
        return by_policy(text(spec, "restartPolicy"));
    }
    let by_rule = list(&container["restartPolicyRules"]).iter().find(|rule| {
        let codes = &rule["exitCodes"];
        let listed = list(&codes["values"]).iter().any(|one| one.as_i64() == Some(code));
        !codes.is_null() && listed == (text(codes, "operator") == "In")
    });
    by_rule.is_some() || by_policy(own)
}

fn validate_ips(ips: &At<'_>, old: &At<'_>) -> Faults {
    let known: BTreeSet<&str> = old.items().map(|one| one.text("ip")).collect();
    let mut faults = Faults::new();
    for one in ips.items().filter(|one| !known.contains(one.text("ip"))) {
        let ip = one.text("ip");
        faults.extend(names::legacy_ip(ip).into_iter().map(|why| Error::invalid(&one.path, ip, why)));
    }
    let count = ips.items().len();
    let six = ips.items().filter(|one| names::is_ipv6(one.text("ip"))).count();
    let bad = ips.items().enumerate().find(|(_, one)| names::parse_ip(one.text("ip")).is_none());
    if let Some((index, one)) = bad.as_ref().filter(|_| count > 1) {
        let why =
            format!("failed to check for dual stack with error:invalid IP[{index}]: {}", one.text("ip"));
        faults.push(Error::internal(&ips.path, why));
    }
    if count > 1 && (count > 2 || six != 1 || bad.is_some()) {
        let shown: Vec<String> = ips.items().map(|one| internal::show("PodIP", one.value)).collect();
        let why = format!("[{}]: may specify no more than one IP for each IP family", shown.join(","));
        faults.push(Error { value: None, ..ips.invalid(why) });
    }
    faults
}
