//! What becomes of a job whose pods fail, and when it has succeeded.

use serde_json::Value;

use super::job_status;
use crate::field::{Error, Path};
use crate::kinds::other::look::{Faults, each_wrong, has, int, list, not_negative, one_of, text, unshown};
use crate::names;

const MOST_RULES: usize = 20;
const MOST_EXIT_CODES: usize = 255;

/// A failure policy with the names and the order that Go gives its fields inside the server.
pub(super) fn show_failure_policy(policy: &Value) -> String {
    if policy.is_null() {
        return "null".to_owned();
    }
    let codes = |codes: &Value| {
        if codes.is_null() {
            return "null".to_owned();
        }
        let (container, operator, values) = (&codes["containerName"], &codes["operator"], &codes["values"]);
        format!(r#"{{"ContainerName":{container},"Operator":{operator},"Values":{values}}}"#)
    };
    let pattern =
        |pattern: &Value| format!(r#"{{"Type":{},"Status":{}}}"#, pattern["type"], pattern["status"]);
    let rule = |rule: &Value| {
        let patterns: Vec<String> = list(rule, "onPodConditions").iter().map(pattern).collect();
        let patterns =
            if patterns.is_empty() { "null".to_owned() } else { format!("[{}]", patterns.join(",")) };
        let (action, codes) = (&rule["action"], codes(&rule["onExitCodes"]));
        format!(r#"{{"Action":{action},"OnExitCodes":{codes},"OnPodConditions":{patterns}}}"#)
    };
    let rules: Vec<String> = list(policy, "rules").iter().map(rule).collect();
    format!(r#"{{"Rules":[{}]}}"#, rules.join(","))
}

/// A success policy with the names and the order that Go gives its fields inside the server.
pub(super) fn show_success_policy(policy: &Value) -> String {
    if policy.is_null() {
        return "null".to_owned();
    }
    let rule = |rule: &Value| {
        let (indexes, count) = (&rule["succeededIndexes"], &rule["succeededCount"]);
        format!(r#"{{"SucceededIndexes":{indexes},"SucceededCount":{count}}}"#)
    };
    let rules: Vec<String> = list(policy, "rules").iter().map(rule).collect();
    format!(r#"{{"Rules":[{}]}}"#, rules.join(","))
}

/// `["a" "b"]`, as Go prints a list of quoted strings.
fn quoted(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

pub(super) fn validate_failure(spec: &Value, path: &Path) -> Faults {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let rules = list(&spec["podFailurePolicy"], "rules");
    let path = path.child("rules");
    let mut faults = Vec::new();
    if rules.len() > MOST_RULES {
        faults.push(Error::too_many(&path, rules.len(), MOST_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        let at = path.child("action");
        match text(rule, "action") {
            "" => faults.push(Error::required(&at, quoted(&ACTIONS))),
            "FailIndex" if !has(spec, "backoffLimitPerIndex") => {
                let why = "requires the backoffLimitPerIndex to be set";
                faults.push(Error::invalid(&at, "FailIndex", why));
            }
            action => faults.extend(one_of(action, &at, &ACTIONS)),
        }
        let (codes, conditions) = (has(rule, "onExitCodes"), list(rule, "onPodConditions"));
        if codes {
            faults.extend(validate_exit_codes(spec, &rule["onExitCodes"], &path.child("onExitCodes")));
        }
        faults.extend(validate_patterns(conditions, &path.child("onPodConditions")));
        match (codes, conditions.is_empty()) {
            (true, false) => {
                let why = "specifying both OnExitCodes and OnPodConditions is not supported";
                faults.push(unshown(&path, why));
            }
            (false, true) => {
                let why = "specifying one of OnExitCodes and OnPodConditions is required";
                faults.push(unshown(&path, why));
            }
            _ => {}
        }
    }
    faults
}

fn validate_patterns(patterns: &[Value], path: &Path) -> Faults {
    const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
    let mut faults = Vec::new();
    if patterns.len() > MOST_RULES {
        faults.push(Error::too_many(path, patterns.len(), MOST_RULES));
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let path = path.index(index);
        let kind = text(pattern, "type");
        faults.extend(each_wrong(&path.child("type"), kind, names::qualified_name(kind)));
        match text(pattern, "status") {
            "" => faults.push(Error::required(&path.child("status"), quoted(&STATUSES))),
            status => faults.extend(one_of(status, &path.child("status"), &STATUSES)),
        }
    }
    faults
}

fn validate_exit_codes(spec: &Value, codes: &Value, path: &Path) -> Faults {
    const OPERATORS: [&str; 2] = ["In", "NotIn"];
    let mut faults = Vec::new();
    let operator = text(codes, "operator");
    match operator {
        "" => faults.push(Error::required(&path.child("operator"), quoted(&OPERATORS))),
        operator => faults.extend(one_of(operator, &path.child("operator"), &OPERATORS)),
    }
    let pod = &spec["template"]["spec"];
    let container = text(codes, "containerName");
    let known = ["containers", "initContainers"].iter().flat_map(|key| list(pod, key));
    if has(codes, "containerName") && !known.into_iter().any(|one| text(one, "name") == container) {
        let why = "must be one of the container or initContainer names in the pod template";
        faults.push(Error::invalid(&path.child("containerName"), container, why));
    }
    let at = path.child("values");
    let values: Vec<i64> = list(codes, "values").iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        faults.push(Error::invalid(&at, codes["values"].clone(), "at least one value is required"));
    } else if values.len() > MOST_EXIT_CODES {
        faults.push(Error::too_many(&at, values.len(), MOST_EXIT_CODES));
    }
    for (index, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            faults.push(Error::invalid(&at.index(index), 0, "must not be 0 for the In operator"));
        }
        if values[..index].contains(value) {
            faults.push(Error::duplicate(&at.index(index), *value));
        }
    }
    if !values.is_sorted() {
        faults.push(Error::invalid(&at, codes["values"].clone(), "must be ordered"));
    }
    faults
}

pub(super) fn validate_success(spec: &Value, path: &Path) -> Faults {
    const LONGEST_INDEXES: usize = 64 * 1024;
    let rules = list(&spec["successPolicy"], "rules");
    let path = path.child("rules");
    let mut faults = Vec::new();
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        faults.push(Error::required(&path, why));
    }
    if rules.len() > MOST_RULES {
        faults.push(Error::too_many(&path, rules.len(), MOST_RULES));
    }
    let completions = int(spec, "completions").unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        let given = has(rule, "succeededIndexes");
        if !given && !has(rule, "succeededCount") {
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            faults.push(Error::required(&path, why));
        }
        let mut total = 0;
        if given {
            let indexes = text(rule, "succeededIndexes");
            let at = path.child("succeededIndexes");
            if indexes.len() > LONGEST_INDEXES {
                faults.push(Error::too_long(&at, LONGEST_INDEXES));
            }
            match job_status::count_indexes(indexes, completions) {
                Ok(count) => total = count,
                Err(why) => {
                    let why = format!("error parsing succeededIndexes: {why}");
                    faults.push(Error::invalid(&at, indexes, why));
                }
            }
        }
        faults.extend(not_negative(rule, "succeededCount", &path));
        let Some(count) = int(rule, "succeededCount") else { continue };
        let at = path.child("succeededCount");
        let limit =
            |most: i64, of: &str| format!("must be less than or equal to {most} (the number of {of})");
        if count > completions {
            faults.push(Error::invalid(&at, count, limit(completions, "specified completions")));
        }
        if given && count > total {
            let of = "indexes in the specified succeededIndexes field";
            faults.push(Error::invalid(&at, count, limit(total, of)));
        }
    }
    faults
}
