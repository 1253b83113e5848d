//! Whether a webhook or a policy sees a request, and in which version.

use serde_json::Value;

use super::{Attributes, Lookup};
use crate::kinds::selectors::selects;
use crate::kinds::walk::{get, is_empty, list, text};
use crate::status::{Error, GroupResource, Result};

/// The resource and version that a webhook or policy is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resource: String,
    pub(super) kind: String,
}

/// The kinds that webhooks never see, and policies only the first two: they could lock everyone out of changing them.
const EXEMPT: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// Which requests are seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Criteria<'a> {
    /// With `namespaceSelector`, `objectSelector` and `matchPolicy`.
    selectors: &'a Value,
    /// All resources, if there are none.
    rules: Option<&'a [Value]>,
    excluded: &'a [Value],
    /// Kinds that configure admission, and are not seen.
    exempt: &'static [&'static str],
}

impl<'a> Criteria<'a> {
    pub(super) fn of_webhook(webhook: &'a Value) -> Self {
        Criteria { selectors: webhook, rules: Some(list(&webhook["rules"])), excluded: &[], exempt: &EXEMPT }
    }

    /// Those of `matchConstraints` in a policy, or `matchResources` in a binding.
    pub(super) fn of_policy(resources: &'a Value) -> Self {
        let rules = list(&resources["resourceRules"]);
        let excluded = list(&resources["excludeResourceRules"]);
        Criteria {
            selectors: resources,
            rules: (!rules.is_empty()).then_some(rules),
            excluded,
            exempt: &EXEMPT[2..],
        }
    }
}

/// How the request is seen; nothing if it is not.
pub(super) fn seen_as(
    request: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
    criteria: Criteria<'_>,
    lookup: &dyn Lookup,
) -> Result<Option<Seen>> {
    let Criteria { selectors, rules, excluded, exempt } = criteria;
    if request.group == "admissionregistration.k8s.io" && exempt.contains(&request.kind) {
        return Ok(None);
    }
    let namespace = namespace_matches(request, object, selectors, lookup);
    if matches!(namespace, Ok(false)) || !object_matches(object, old, selectors) {
        return Ok(None);
    }
    let is_exact = text(selectors, "matchPolicy") == "Exact";
    let by = |rules: &[Value]| exact(request, rules).or_else(|| equivalent(request, rules, is_exact));
    if by(excluded).is_some() {
        return Ok(None);
    }
    let seen = rules.map_or_else(|| Some(as_requested(request)), by);
    // A namespace that is not there matters only to those that would see the request.
    match seen {
        Some(seen) => namespace.map(|_| Some(seen)),
        None => Ok(None),
    }
}

fn namespace_matches(
    request: &Attributes<'_>,
    object: Option<&Value>,
    selectors: &Value,
    lookup: &dyn Lookup,
) -> Result<bool> {
    let selector = get(selectors, &["namespaceSelector"]);
    let is_namespace = request.is("", "namespaces");
    if (request.namespace.is_empty() && !is_namespace) || selects_all(selector) {
        return Ok(true);
    }
    if let (true, Some(object)) = (is_namespace && request.subresource.is_empty(), object) {
        return Ok(selects(selector, get(object, &["metadata", "labels"])));
    }
    let name = if request.namespace.is_empty() { request.name } else { request.namespace };
    let found = lookup.get("", "namespaces", "", name);
    let found = found.ok_or_else(|| Error::not_found(&GroupResource::new("", "namespaces"), name))?;
    Ok(selects(selector, get(&found, &["metadata", "labels"])))
}

fn selects_all(selector: &Value) -> bool {
    ["matchLabels", "matchExpressions"].iter().all(|key| is_empty(get(selector, &[key])))
}

fn object_matches(object: Option<&Value>, old: Option<&Value>, selectors: &Value) -> bool {
    let selector = get(selectors, &["objectSelector"]);
    let chosen =
        |object: &Value| !object.is_null() && selects(selector, get(object, &["metadata", "labels"]));
    selects_all(selector) || [object, old].into_iter().flatten().any(chosen)
}

fn as_requested(request: &Attributes<'_>) -> Seen {
    Seen {
        group: request.group.to_owned(),
        version: request.version.to_owned(),
        resource: request.resource.to_owned(),
        kind: request.kind.to_owned(),
    }
}

fn exact(request: &Attributes<'_>, rules: &[Value]) -> Option<Seen> {
    let seen = as_requested(request);
    rules.iter().any(|rule| rule_matches(rule, request, &seen)).then_some(seen)
}

/// The same object as other groups and versions show it; earlier rules first.
fn equivalent(request: &Attributes<'_>, rules: &[Value], is_exact: bool) -> Option<Seen> {
    if is_exact {
        return None;
    }
    let all: &[(&str, &str)] = match (request.group, request.resource) {
        ("autoscaling", "horizontalpodautoscalers") => &[("autoscaling", "v1"), ("autoscaling", "v2")],
        ("" | "events.k8s.io", "events") => &[("", "v1"), ("events.k8s.io", "v1")],
        _ => return None,
    };
    let others = all.iter().filter(|(group, version)| (*group, *version) != (request.group, request.version));
    let others: Vec<Seen> = others
        .map(|(group, version)| Seen {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            resource: request.resource.to_owned(),
            kind: request.kind.to_owned(),
        })
        .collect();
    rules.iter().find_map(|rule| others.iter().find(|seen| rule_matches(rule, request, seen)).cloned())
}

fn rule_matches(rule: &Value, request: &Attributes<'_>, seen: &Seen) -> bool {
    let any = |key: &str, wanted: &str| list(&rule[key]).iter().any(|one| one == "*" || one == wanted);
    let cluster = request.namespace.is_empty() || request.is("", "namespaces");
    let scope = match text(rule, "scope") {
        "Namespaced" => !cluster,
        "Cluster" => cluster,
        _ => true,
    };
    let resource = list(&rule["resources"]).iter().filter_map(Value::as_str).any(|one| {
        let (name, part) = one.split_once('/').unwrap_or((one, ""));
        (name == "*" || name == seen.resource) && (part == "*" || part == request.subresource)
    });
    // Only rules of policies name objects.
    let names = list(&rule["resourceNames"]);
    let named = names.is_empty() || names.iter().any(|name| name == request.name);
    scope
        && resource
        && named
        && any("operations", request.operation.as_str())
        && any("apiGroups", &seen.group)
        && any("apiVersions", &seen.version)
}
