//! `flowcontrol.apiserver.k8s.io`: who may have how much of the server.

use serde_json::{Value, json};

use super::look::{
    Faults, default, default_empty, each_wrong, flag, has, int, list, name, one_of, same, shown, text, texts,
    within,
};
use crate::field::{Error, Path};
use crate::kinds::{Generation, Strategy};
use crate::names;

static FLOW_SCHEMA: Strategy = Strategy {
    default: |schema| {
        if let Some(spec) = within(schema, "spec") {
            default_empty(spec, "matchingPrecedence", 1000);
        }
    },
    validate: validate_schema,
    validate_update: |new, _| validate_schema(new),
    validate_status: |new, _| validate_status(new),
    status: true,
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

static PRIORITY_LEVEL: Strategy = Strategy {
    default: default_level,
    validate: validate_level,
    validate_update: |new, _| validate_level(new),
    validate_status: |new, _| validate_status(new),
    status: true,
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    match kind {
        "FlowSchema" => Some(&FLOW_SCHEMA),
        "PriorityLevelConfiguration" => Some(&PRIORITY_LEVEL),
        _ => None,
    }
}

fn validate_status(object: &Value) -> Faults {
    let path = Path::new("status.conditions");
    let conditions = list(&object["status"], "conditions");
    let mut faults = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let kind = text(condition, "type");
        let at = path.index(index).child("type");
        if conditions[..index].iter().any(|earlier| text(earlier, "type") == kind) {
            faults.push(Error::duplicate(&at, kind));
        }
        if kind.is_empty() {
            faults.push(Error::required(&at, ""));
        }
    }
    faults
}

// === flow schemas ===

/// The specs of the two schemas that nobody may change.
fn fixed_schema(name: &str) -> Option<Value> {
    let everything = |subjects: Value| {
        json!([{
            "subjects": subjects,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }])
    };
    let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
    match name {
        "exempt" => Some(json!({
            "matchingPrecedence": 1,
            "priorityLevelConfiguration": {"name": "exempt"},
            "rules": everything(json!([group("system:masters")])),
        })),
        "catch-all" => Some(json!({
            "matchingPrecedence": 10000,
            "distinguisherMethod": {"type": "ByUser"},
            "priorityLevelConfiguration": {"name": "catch-all"},
            "rules": everything(json!([group("system:unauthenticated"), group("system:authenticated")])),
        })),
        _ => None,
    }
}

fn validate_schema(schema: &Value) -> Faults {
    const LOWEST: i64 = 10000;
    let spec = &schema["spec"];
    let path = Path::new("spec");
    let schema_name = name(schema);
    let precedence = int(spec, "matchingPrecedence").unwrap_or_default();
    let at = path.child("matchingPrecedence");
    let mut faults = Vec::new();
    if precedence <= 0 {
        faults.push(Error::invalid(&at, precedence, "must be a positive value"));
    }
    if precedence > LOWEST {
        faults.push(Error::invalid(&at, precedence, format!("must not be greater than {LOWEST}")));
    }
    if precedence == 1 && schema_name != "exempt" {
        let why = "only the schema named 'exempt' may have matchingPrecedence 1";
        faults.push(Error::invalid(&at, precedence, why));
    }
    if has(spec, "distinguisherMethod") {
        let kind = text(&spec["distinguisherMethod"], "type");
        let known = ["ByNamespace", "ByUser"];
        if !known.contains(&kind) {
            // The whole method, with the name that Go gives its field inside the server.
            let at = path.child("distinguisherMethod").child("type");
            faults.push(Error::not_supported(&at, json!({"Type": kind}), &known));
        }
    }
    let at = path.child("priorityLevelConfiguration").child("name");
    match text(&spec["priorityLevelConfiguration"], "name") {
        "" => faults.push(Error::required(&at, "must reference a priority level")),
        name => faults.extend(each_wrong(&at, name, names::dns1123_subdomain(name))),
    }
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        faults.extend(validate_rule(rule, &path.child("rules").index(index)));
    }
    if let Some(fixed) = fixed_schema(schema_name)
        && !same(spec, &fixed)
    {
        let why = format!("spec of '{schema_name}' must equal the fixed value");
        faults.push(shown(&path, &spec.to_string(), &why));
    }
    faults.extend(validate_status(schema));
    faults
}

fn validate_rule(rule: &Value, path: &Path) -> Faults {
    let mut faults = Vec::new();
    for (index, subject) in list(rule, "subjects").iter().enumerate() {
        faults.extend(validate_subject(subject, &path.child("subjects").index(index)));
    }
    if list(rule, "subjects").is_empty() {
        faults.push(Error::required(&path.child("subjects"), "subjects must contain at least one value"));
    }
    let (resources, others) = (list(rule, "resourceRules"), list(rule, "nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        faults.push(Error::required(path, why));
    }
    for (index, rule) in resources.iter().enumerate() {
        faults.extend(validate_resource_rule(rule, &path.child("resourceRules").index(index)));
    }
    for (index, rule) in others.iter().enumerate() {
        faults.extend(validate_url_rule(rule, &path.child("nonResourceRules").index(index)));
    }
    faults
}

fn validate_subject(subject: &Value, path: &Path) -> Faults {
    let kinds = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = text(subject, "kind");
    let Some((_, key)) = kinds.iter().find(|(name, _)| *name == kind) else {
        return one_of(kind, &path.child("kind"), &["Group", "ServiceAccount", "User"]);
    };
    let at = path.child(key);
    let mut faults = Vec::new();
    if has(subject, key) {
        let inner = &subject[*key];
        let name = text(inner, "name");
        if name.is_empty() {
            faults.push(Error::required(&at.child("name"), ""));
        } else if *key == "serviceAccount" && name != "*" {
            faults.extend(each_wrong(&at.child("name"), name, names::dns1123_subdomain(name)));
        }
        if *key == "serviceAccount" {
            match text(inner, "namespace") {
                "" => {
                    let why = "must specify namespace for service account";
                    faults.push(Error::required(&at.child("namespace"), why));
                }
                name => faults.extend(each_wrong(&at.child("namespace"), name, names::dns1123_label(name))),
            }
        }
    } else {
        faults.push(Error::required(&at, format!("{key} is required when subject kind is '{kind}'")));
    }
    // The order in which the others are looked at: the account, then the user, then the group.
    for (name, other) in kinds.iter().filter(|(_, other)| other != key) {
        if has(subject, other) {
            let why = format!("{other} is forbidden when subject kind is not '{name}'");
            faults.push(Error::forbidden(&path.child(other), why));
        }
    }
    faults
}

fn validate_verbs(rule: &Value, path: &Path) -> Faults {
    const VERBS: [&str; 9] =
        ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
    let verbs = texts(rule, "verbs");
    let at = path.child("verbs");
    if verbs.is_empty() {
        return vec![Error::required(&at, "verbs must contain at least one value")];
    }
    if verbs.contains(&"*") {
        return alone(rule, "verbs", &at, "verbs");
    }
    if verbs.iter().all(|verb| VERBS.contains(verb)) {
        return Vec::new();
    }
    vec![Error::not_supported(&at, rule["verbs"].clone(), &VERBS)]
}

/// What is wrong if `*` is not the only item.
fn alone(rule: &Value, key: &str, path: &Path, what: &str) -> Faults {
    let items = texts(rule, key);
    if items.len() > 1 && items.contains(&"*") {
        let why = format!("if '*' is present, must not specify other {what}");
        return vec![Error::invalid(path, rule[key].clone(), why)];
    }
    Vec::new()
}

fn validate_resource_rule(rule: &Value, path: &Path) -> Faults {
    let mut faults = validate_verbs(rule, path);
    for (key, one, many) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        let at = path.child(key);
        if list(rule, key).is_empty() {
            faults.push(Error::required(&at, format!("resource rules must supply at least one {one}")));
        } else {
            faults.extend(alone(rule, key, &at, many));
        }
    }
    let namespaces = texts(rule, "namespaces");
    let at = path.child("namespaces");
    if namespaces.is_empty() && !flag(rule, "clusterScope") {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        faults.push(Error::required(&at, why));
    } else if namespaces.contains(&"*") {
        faults.extend(alone(rule, "namespaces", &at, "namespaces"));
    } else {
        for (index, name) in namespaces.into_iter().enumerate() {
            let wrong = names::dns1123_label(name)
                .into_iter()
                .map(|why| format!("each member of this list must be '*' or a DNS-1123 label; {why}"));
            faults.extend(each_wrong(&at.index(index), name, wrong.collect()));
        }
    }
    faults
}

fn validate_url_rule(rule: &Value, path: &Path) -> Faults {
    let mut faults = validate_verbs(rule, path);
    let urls = texts(rule, "nonResourceURLs");
    let at = path.child("nonResourceURLs");
    if urls.is_empty() {
        faults.push(Error::required(&at, "nonResourceURLs must contain at least one value"));
    } else if urls.contains(&"*") {
        faults.extend(alone(rule, "nonResourceURLs", &at, "non-resource URLs"));
    } else {
        for (index, url) in urls.into_iter().enumerate() {
            faults.extend(url_fault(url).map(|why| Error::invalid(&at.index(index), url, why)));
        }
    }
    faults
}

fn url_fault(url: &str) -> Option<&'static str> {
    let stars = url.matches('*').count();
    if url.is_empty() {
        Some("must not be empty")
    } else if url == "/" {
        None
    } else if !url.starts_with('/') {
        Some("must start with slash")
    } else if url.contains(' ') {
        Some("must not contain white-space")
    } else if url.contains("//") {
        Some("must not contain double slash")
    } else if stars > 1 || (stars == 1 && !url.ends_with("/*")) {
        Some("wildcard can only do suffix matching")
    } else {
        None
    }
}

// === priority levels ===

fn default_level(level: &mut Value) {
    let Some(spec) = within(level, "spec") else { return };
    if let Some(exempt) = within(spec, "exempt") {
        default(exempt, "nominalConcurrencyShares", 0);
        default(exempt, "lendablePercent", 0);
    }
    if let Some(limited) = within(spec, "limited") {
        default(limited, "nominalConcurrencyShares", 30);
        default(limited, "lendablePercent", 0);
        if let Some(queuing) = within(limited, "limitResponse").and_then(|one| within(one, "queuing")) {
            default_empty(queuing, "handSize", 8);
            default_empty(queuing, "queues", 64);
            default_empty(queuing, "queueLengthLimit", 50);
        }
    }
}

fn validate_level(level: &Value) -> Faults {
    let spec = &level["spec"];
    let path = Path::new("spec");
    let level_name = name(level);
    let kind = text(spec, "type");
    let mut faults = Vec::new();
    if (level_name == "exempt") != (kind == "Exempt") {
        let why = "must be 'Exempt' if and only if `name` is 'exempt'";
        faults.push(Error::invalid(&path.child("type"), kind, why));
    }
    match kind {
        "Exempt" => {
            if has(spec, "limited") {
                let why = "must be nil if the type is not Limited";
                faults.push(Error::forbidden(&path.child("limited"), why));
            }
            if has(spec, "exempt") {
                faults.extend(validate_shares(&spec["exempt"], &path.child("exempt")));
                faults.extend(validate_lending(&spec["exempt"], &path.child("exempt")));
            }
        }
        "Limited" => {
            if has(spec, "exempt") {
                faults.push(Error::forbidden(&path.child("exempt"), "must be nil if the type is Limited"));
            }
            if has(spec, "limited") {
                faults.extend(validate_limited(&spec["limited"], &path.child("limited")));
            } else {
                let why = "must not be empty when type is Limited";
                faults.push(Error::required(&path.child("limited"), why));
            }
        }
        "" => faults.push(Error::required(&path.child("type"), "")),
        _ => faults.push(Error::not_supported(&path.child("type"), kind, &["Exempt", "Limited"])),
    }
    faults.extend(fixed_level_fault(level_name, spec, &path));
    faults.extend(validate_status(level));
    faults
}

/// What is wrong if one of the two levels that every server has was changed.
fn fixed_level_fault(name: &str, spec: &Value, path: &Path) -> Option<Error> {
    let mut spec_left = spec.clone();
    let (fixed, why) = match name {
        "exempt" => {
            spec_left.as_object_mut()?.remove("exempt");
            (
                json!({"type": "Exempt"}),
                "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value",
            )
        }
        "catch-all" => (
            json!({
                "type": "Limited",
                "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}},
            }),
            "spec of 'catch-all' must equal the fixed value",
        ),
        _ => return None,
    };
    (!same(&spec_left, &fixed)).then(|| shown(path, &spec.to_string(), why))
}

fn validate_shares(level: &Value, path: &Path) -> Option<Error> {
    let shares = int(level, "nominalConcurrencyShares").filter(|shares| *shares < 0)?;
    Some(Error::invalid(&path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer"))
}

fn validate_lending(level: &Value, path: &Path) -> Option<Error> {
    let percent = int(level, "lendablePercent").filter(|percent| !(0..=100).contains(percent))?;
    Some(Error::invalid(&path.child("lendablePercent"), percent, "must be between 0 and 100, inclusive"))
}

fn validate_limited(limited: &Value, path: &Path) -> Faults {
    let mut faults: Faults = validate_shares(limited, path).into_iter().collect();
    let response = &limited["limitResponse"];
    let at = path.child("limitResponse");
    match text(response, "type") {
        "Reject" => {
            if has(response, "queuing") {
                let why = "must be nil if limited.limitResponse.type is not Limited";
                faults.push(Error::forbidden(&at.child("queuing"), why));
            }
        }
        "Queue" if has(response, "queuing") => {
            faults.extend(validate_queuing(&response["queuing"], &at.child("queuing")));
        }
        "Queue" => {
            let why = "must not be empty if limited.limitResponse.type is Limited";
            faults.push(Error::required(&at.child("queuing"), why));
        }
        "" => faults.push(Error::required(&at.child("type"), "")),
        other => faults.push(Error::not_supported(&at.child("type"), other, &["Queue", "Reject"])),
    }
    faults.extend(validate_lending(limited, path));
    if let Some(percent) = int(limited, "borrowingLimitPercent").filter(|percent| *percent < 0) {
        let why = "if specified, must be a non-negative integer";
        faults.push(Error::invalid(&path.child("borrowingLimitPercent"), percent, why));
    }
    faults
}

fn validate_queuing(queuing: &Value, path: &Path) -> Faults {
    const MOST_QUEUES: i64 = 10_000_000;
    const HASH_BITS: u32 = 60;
    let number = |key: &str| int(queuing, key).unwrap_or_default();
    let (length, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    let mut faults = Vec::new();
    let mut say = |key: &str, value: i64, why: String| {
        faults.push(Error::invalid(&path.child(key), value, why));
    };
    if length <= 0 {
        say("queueLengthLimit", length, "must be positive".to_owned());
    }
    if queues <= 0 {
        say("queues", queues, "must be positive".to_owned());
    } else if queues > MOST_QUEUES {
        say("queues", queues, format!("must not be greater than {MOST_QUEUES}"));
    }
    if hand <= 0 {
        say("handSize", hand, "must be positive".to_owned());
    } else if hand > queues {
        say("handSize", hand, format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues, hand) > HASH_BITS {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        say("handSize", hand, why);
    }
    faults
}

/// How many bits it takes to pick that many queues one after the other.
fn entropy_bits(queues: i64, hand: i64) -> u32 {
    ((queues as f64).log2() * hand as f64).ceil() as u32
}
