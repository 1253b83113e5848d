//! LimitRanges and ResourceQuotas.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{META_ONLY, Strategy};
use crate::field::{Error, Path};
use crate::kinds::internal;
use crate::kinds::meta;
use crate::kinds::pods::resources::{
    is_quota, may_overcommit, validate_amount, validate_container_resource_name, validate_resource_name,
};
use crate::kinds::pods::round_resources;
use crate::kinds::quantity::Quantity;
use crate::kinds::walk::{
    At, Faults, IMMUTABLE, find_mut, find_path_mut, is_empty, items_mut, list, map_mut, object_mut, text,
};
use crate::names;

pub(super) const LIMIT_RANGE: Strategy = Strategy {
    default: |range| {
        if let Some(spec) = find_mut(range, "spec") {
            items_mut(spec, "limits").for_each(default_limit);
        }
    },
    validate: |range| [meta::validate_builtin(range), validate_limit_range(range)].concat(),
    validate_update: |new, _| {
        let mut faults = meta::validate_builtin_again(new, true, names::dns1123_subdomain);
        faults.extend(validate_limit_range(new));
        faults
    },
    create_on_update: true,
    ..META_ONLY
};

pub(super) const RESOURCE_QUOTA: Strategy = Strategy {
    default: |quota| {
        for (path, lists) in [("spec", &["hard"][..]), ("status", &["hard", "used"][..])] {
            if let Some(holder) = find_path_mut(quota, &[path]) {
                round_resources(holder, lists);
            }
        }
    },
    validate: |quota| {
        [meta::validate_builtin(quota), validate_quota(quota), validate_quota_status(quota)].concat()
    },
    validate_update: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        faults.extend(validate_quota(new));
        faults.extend(validate_scopes_are_kept(new, old));
        faults
    },
    validate_status: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        if text(&new["metadata"], "resourceVersion").is_empty() {
            faults.push(Error::required(&Path::new("resourceVersion"), ""));
        }
        faults.extend(validate_quota_status(new));
        faults
    },
    status: true,
    ..META_ONLY
};

// === limit ranges ===

fn default_limit(limit: &mut Value) {
    if text(limit, "type") == "Container" {
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let source = limit.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
            if source.is_empty() {
                continue;
            }
            let target = map_mut(object_mut(limit, to));
            for (name, amount) in source {
                target.entry(name).or_insert(amount);
            }
        }
    }
    round_resources(limit, &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]);
}

fn validate_limit_range(range: &Value) -> Faults {
    let mut faults = Faults::new();
    let mut seen = BTreeSet::new();
    for limit in At::top(range, "spec").child("limits").items() {
        let kind = limit.child("type");
        let wrong = kind.obey(names::qualified_name);
        let standard = ["Pod", "Container", "PersistentVolumeClaim"].contains(&kind.str());
        if wrong.is_empty() && !kind.str().contains('/') && !standard {
            faults.push(kind.invalid("must be a standard limit type or fully qualified"));
        }
        faults.extend(wrong);
        if !seen.insert(kind.str()) {
            faults.push(Error::duplicate(&kind.path, kind.str()));
        }
        faults.extend(validate_limit(&limit, kind.str()));
    }
    faults
}

fn validate_limit(limit: &At<'_>, kind: &str) -> Faults {
    let mut faults = Faults::new();
    let name_rule = |list: &At<'_>| -> Faults {
        let rule = if ["Pod", "Container"].contains(&kind) {
            validate_container_resource_name
        } else {
            validate_resource_name
        };
        list.entries().flat_map(|(name, at)| rule(name, &at.path)).collect()
    };
    let [max, min, default, request, ratio] =
        ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"].map(|name| limit.child(name));
    faults.extend(name_rule(&max));
    faults.extend(name_rule(&min));
    for list in [&default, &request] {
        if kind != "Pod" {
            faults.extend(name_rule(list));
        } else if !is_empty(list.value) {
            faults.push(list.forbidden("may not be specified when `type` is 'Pod'"));
        }
    }
    if kind == "PersistentVolumeClaim" && !min.has("storage") && !max.has("storage") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        faults.push(limit.child("limits").required(why));
    }
    faults.extend(name_rule(&ratio));
    let mut lists = vec![&max, &min, &ratio];
    if kind != "Pod" {
        lists.extend([&default, &request]);
    }
    let keys: BTreeSet<&str> = lists.iter().flat_map(|list| list.entries().map(|(key, _)| key)).collect();
    for key in keys {
        let of = |list: &At<'_>| {
            let counts = kind != "Pod"
                || !["default", "defaultRequest"].iter().any(|name| list.path == limit.child(name).path);
            list.value.get(key).filter(|_| counts).map(Quantity::of)
        };
        let amounts = Amounts {
            min: of(&min),
            max: of(&max),
            default: of(&default),
            request: of(&request),
            ratio: of(&ratio),
        };
        faults.extend(amounts.wrong(key).into_iter().map(|(list, value, why)| {
            Error::invalid(&limit.child(list).path.key(key), value.to_string(), why)
        }));
    }
    faults
}

/// What one entry of a LimitRange says of one resource.
struct Amounts {
    min: Option<Quantity>,
    max: Option<Quantity>,
    default: Option<Quantity>,
    request: Option<Quantity>,
    ratio: Option<Quantity>,
}

impl Amounts {
    /// The list a fault is about, the value it shows, and why.
    fn wrong(&self, resource: &str) -> Vec<(&'static str, Quantity, String)> {
        let [min, max, default, request, ratio] =
            [&self.min, &self.max, &self.default, &self.request, &self.ratio].map(Option::as_ref);
        // Which is to be at most which, how both are called, and the list and the value to show.
        let pairs = [
            (min, max, ["min", "max"], "min", min),
            (min, request, ["min", "default request"], "defaultRequest", request),
            (request, max, ["default request", "max"], "defaultRequest", request),
            (request, default, ["default request", "default limit"], "defaultRequest", request),
            (min, default, ["min", "default"], "default", min),
            (default, max, ["default", "max"], "default", max),
        ];
        let mut wrong = Vec::new();
        for (low, high, [lower, upper], list, shown) in pairs {
            if let (Some(low), Some(high), Some(shown)) = (low, high, shown)
                && low > high
            {
                let why = format!("{lower} value {low} is greater than {upper} value {high}");
                wrong.push((list, shown.clone(), why));
            }
        }
        if let Some(ratio) = ratio {
            if ratio.milli_value() < 1000 {
                wrong.push(("maxLimitRequestRatio", ratio.clone(), format!("ratio {ratio} is less than 1")));
            }
            if let (Some(min), Some(max)) = (min, max) {
                let most = max.milli_value() as f64 / min.milli_value() as f64;
                if ratio.milli_value() as f64 / 1000.0 > most {
                    let why = format!("ratio {ratio} is greater than max/min = {most:.6}");
                    wrong.push(("maxLimitRequestRatio", ratio.clone(), why));
                }
            }
        }
        if let (Some(default), Some(request)) = (default, request)
            && !may_overcommit(resource)
            && default != request
        {
            let why =
                format!("default value {default} must equal to defaultRequest value {request} in {resource}");
            wrong.push(("defaultRequest", request.clone(), why));
        }
        wrong
    }
}

// === quotas ===

fn validate_amounts(list: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    for (name, at) in list.entries() {
        faults.extend(validate_resource_name(name, &at.path));
        if !name.contains('/') && !is_quota(name) {
            faults.push(Error::invalid(&at.path, name, "must be a standard resource for quota"));
        }
        faults.extend(validate_amount(name, &at));
    }
    faults
}

fn validate_quota_status(quota: &Value) -> Faults {
    let status = At::top(quota, "status");
    ["hard", "used"].iter().flat_map(|name| validate_amounts(&status.child(name))).collect()
}

fn validate_quota(quota: &Value) -> Faults {
    let spec = At::top(quota, "spec");
    let hard = spec.child("hard");
    let mut faults = validate_amounts(&hard);
    let scopes = spec.child("scopes");
    for scope in scopes.items() {
        if !is_scope(scope.str()) {
            faults.push(scopes.invalid("unsupported scope"));
        }
        let misapplied =
            hard.entries().filter(|(name, _)| is_quota(name) && !applies(scope.str(), name)).count();
        faults.extend((0..misapplied).map(|_| scopes.invalid("unsupported scope applied to resource")));
    }
    let set: Vec<&str> = scopes.items().map(|scope| scope.str()).collect();
    faults.extend((0..conflicts(&set)).map(|_| scopes.invalid("conflicting scopes")));
    faults.extend(validate_scope_selector(&spec, &hard));
    faults
}

fn validate_scope_selector(spec: &At<'_>, hard: &At<'_>) -> Faults {
    let selector = spec.child("scopeSelector");
    let terms = selector.child("matchExpressions");
    let at = |name: &str| terms.path.child(name);
    let mut faults = Faults::new();
    for term in terms.items() {
        let (scope, operator, values) = (term.text("scopeName"), term.text("operator"), term.child("values"));
        if !is_scope(scope) {
            faults.push(Error::invalid(&at("scopeName"), scope, "unsupported scope"));
        }
        let misapplied = hard.entries().filter(|(name, _)| is_quota(name) && !applies(scope, name)).count();
        let shown = || {
            let detail = format!(
                "{}: unsupported scope applied to resource",
                internal::show("ScopeSelector", selector.value)
            );
            Error { value: None, ..terms.invalid(detail) }
        };
        faults.extend((0..misapplied).map(|_| shown()));
        let existential =
            ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
        if existential.contains(&scope) && operator != "Exists" {
            faults.push(Error::invalid(&at("operator"), operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"));
        }
        match operator {
            "In" | "NotIn" if is_empty(values.value) => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                faults.push(Error::required(&at("values"), why));
            }
            "Exists" | "DoesNotExist" if !is_empty(values.value) => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                faults.push(Error::invalid(&at("values"), values.value.clone(), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => faults.push(Error::invalid(&at("operator"), operator, "not a valid selector operator")),
        }
    }
    let set: Vec<&str> = terms.items().map(|term| term.text("scopeName")).collect();
    let scopes = &spec.child("scopes").value;
    faults.extend(
        (0..conflicts(&set)).map(|_| Error::invalid(&terms.path, (*scopes).clone(), "conflicting scopes")),
    );
    faults
}

fn is_scope(scope: &str) -> bool {
    [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "VolumeAttributesClass",
        "CrossNamespacePodAffinity",
    ]
    .contains(&scope)
}

fn applies(scope: &str, resource: &str) -> bool {
    let compute = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"]
        .contains(&resource);
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || compute,
        _ => true,
    }
}

/// How many pairs of scopes exclude each other.
fn conflicts(scopes: &[&str]) -> usize {
    [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")]
        .iter()
        .filter(|(one, other)| scopes.contains(one) && scopes.contains(other))
        .count()
}

fn validate_scopes_are_kept(new: &Value, old: &Value) -> Option<Error> {
    let scopes = At::top(new, "spec").child("scopes");
    let set = |value: &Value| {
        list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let kept = set(scopes.value) == set(At::top(old, "spec").child("scopes").value);
    (!kept).then(|| scopes.invalid(IMMUTABLE))
}
