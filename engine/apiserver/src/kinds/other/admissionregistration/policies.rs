//! Admission policies and their bindings.

use serde_json::Value;

use super::expressions::compile;
use super::{COMMON, FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES};
use crate::cel::is_reserved;
use crate::cel::request::{Known, Wanted};
use crate::field::{Error, Path};
use crate::kinds::Strategy;
use crate::kinds::other::look::{
    Faults, default, each_wrong, has, list, name, one_of, repeats, text, texts, within,
};
use crate::kinds::other::selector;
use crate::names;

pub(super) static VALIDATING: Strategy = Strategy {
    default: default_policy,
    validate: validate_validating,
    validate_update: |new, _| validate_validating(new),
    status: true,
    ..COMMON
};

pub(super) static MUTATING: Strategy = Strategy {
    default: default_policy,
    validate: validate_mutating,
    validate_update: |new, _| validate_mutating(new),
    ..COMMON
};

pub(super) static VALIDATING_BINDING: Strategy = Strategy {
    default: default_binding,
    validate: validate_validating_binding,
    validate_update: |new, _| validate_validating_binding(new),
    ..COMMON
};

pub(super) static MUTATING_BINDING: Strategy = Strategy {
    default: default_binding,
    validate: |binding| validate_binding(binding),
    validate_update: |new, _| validate_binding(new),
    ..COMMON
};

const RULES: [&str; 2] = ["resourceRules", "excludeResourceRules"];

fn default_policy(policy: &mut Value) {
    let Some(spec) = policy.get_mut("spec") else { return };
    default(spec, "failurePolicy", "Fail");
    if let Some(constraints) = within(spec, "matchConstraints") {
        super::default_matching(constraints, &RULES);
    }
}

fn default_binding(binding: &mut Value) {
    if let Some(resources) = within(binding, "spec").and_then(|spec| within(spec, "matchResources")) {
        super::default_matching(resources, &RULES);
    }
}

/// What both kinds of policy say: when they apply, and the variables they use. Also gives what later expressions may use.
fn validate_frame(spec: &Value, path: &Path, extra: impl FnOnce(&Value, &Path) -> Faults) -> (Faults, Known) {
    let mut faults = Vec::new();
    let mut known = Known::new(has(spec, "paramKind"), true);
    if has(spec, "failurePolicy") {
        faults.extend(one_of(text(spec, "failurePolicy"), &path.child("failurePolicy"), &FAILURE_POLICIES));
    } else {
        faults.push(Error::required(&path.child("failurePolicy"), ""));
    }
    if has(spec, "paramKind") {
        faults.extend(validate_param_kind(&spec["paramKind"], &path.child("paramKind")));
    }
    let at = path.child("matchConstraints");
    if has(spec, "matchConstraints") {
        let constraints = &spec["matchConstraints"];
        faults.extend(validate_match_resources(constraints, &at));
        if list(constraints, "resourceRules").is_empty() {
            faults.push(Error::required(&at.child("resourceRules"), ""));
        }
        faults.extend(extra(constraints, &at));
    } else {
        faults.push(Error::required(&at, ""));
    }
    let conditions = list(spec, "matchConditions");
    faults.extend(super::validate_conditions(conditions, &known, &path.child("matchConditions")));
    if !list(spec, "variables").is_empty() {
        known = known.with_variables();
    }
    for (index, variable) in list(spec, "variables").iter().enumerate() {
        let path = path.child("variables").index(index);
        faults.extend(validate_variable(variable, &mut known, &path));
    }
    (faults, known)
}

fn validate_validating(policy: &Value) -> Faults {
    const MOST_ANNOTATIONS: usize = 20;
    const LONGEST_VALUE: usize = 5 * 1024;
    let spec = &policy["spec"];
    let path = Path::new("spec");
    let (mut faults, known) = validate_frame(spec, &path, |_, _| Vec::new());
    let (validations, annotations) = (list(spec, "validations"), list(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        faults.push(Error::required(&path.child("validations"), why));
        faults.push(Error::required(&path.child("auditAnnotations"), why));
        return faults;
    }
    for (index, validation) in validations.iter().enumerate() {
        faults.extend(validate_validation(validation, &known, &path.child("validations").index(index)));
    }
    let at = path.child("auditAnnotations");
    if annotations.len() > MOST_ANNOTATIONS {
        let why = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        faults.push(Error::invalid(&at, spec["auditAnnotations"].clone(), why));
    }
    for (index, annotation) in annotations.iter().enumerate() {
        let key = text(annotation, "key");
        let full = format!("{}/{key}", name(policy));
        let path = at.index(index);
        faults.extend(each_wrong(&path.child("key"), &full, names::qualified_name(&full)));
        let at = path.child("valueExpression");
        match text(annotation, "valueExpression").trim() {
            "" => faults.push(Error::required(&at, "valueExpression is not specified")),
            source if source.len() > LONGEST_VALUE => {
                faults.push(Error::required(&at, format!("must not exceed {LONGEST_VALUE} bytes in length")));
            }
            source => {
                compile(source, &known, Wanted::TextOrNull, &at, &mut faults);
            }
        }
        if annotations[..index].iter().any(|earlier| text(earlier, "key") == key) {
            faults.push(Error::duplicate(&path.child("key"), key));
        }
    }
    faults
}

fn validate_validation(validation: &Value, known: &Known, path: &Path) -> Faults {
    let mut faults = Vec::new();
    let given = |key: &str| text(validation, key);
    let expression = given("expression");
    let at = path.child("expression");
    match expression.trim() {
        "" => faults.push(Error::required(&at, "expression is not specified")),
        _ => {
            compile(expression, known, Wanted::Bool, &at, &mut faults);
        }
    }
    for key in ["messageExpression", "message"] {
        let value = given(key);
        let at = path.child(key);
        if !value.is_empty() && value.trim().is_empty() {
            faults.push(Error::invalid(&at, value, "must be non-empty if specified"));
        } else if key == "messageExpression" && !value.is_empty() {
            compile(value, &known.without_authorizer(), Wanted::Text, &at, &mut faults);
        }
    }
    let message = given("message");
    if message.trim().contains(['\n', '\r']) {
        faults.push(Error::invalid(&path.child("message"), message, "must not contain line breaks"));
    }
    if has(validation, "reason") {
        let known = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        faults.extend(one_of(given("reason"), &path.child("reason"), &known));
    }
    faults
}

fn validate_mutating(policy: &Value) -> Faults {
    const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
    let spec = &policy["spec"];
    let path = Path::new("spec");
    let (mut faults, known) = validate_frame(spec, &path, |constraints, at| {
        let rules = list(constraints, "resourceRules").iter();
        let at = at.child("resourceRules").child("operations");
        rules
            .flat_map(|rule| texts(rule, "operations"))
            .flat_map(|operation| one_of(operation, &at, &OPERATIONS))
            .collect()
    });
    if list(spec, "mutations").is_empty() {
        faults.push(Error::required(&path.child("mutations"), "mutations must contain at least one item"));
    }
    for (index, mutation) in list(spec, "mutations").iter().enumerate() {
        faults.extend(validate_mutation(mutation, &known, &path.child("mutations").index(index)));
    }
    let at = path.child("reinvocationPolicy");
    match text(spec, "reinvocationPolicy") {
        "" => faults.push(Error::required(&at, "")),
        policy => faults.extend(one_of(policy, &at, &REINVOCATION_POLICIES)),
    }
    faults
}

fn validate_mutation(mutation: &Value, known: &Known, path: &Path) -> Faults {
    let kind = text(mutation, "patchType");
    let (wanted, other) = match kind {
        "" => return vec![Error::required(&path.child("patchType"), "")],
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        _ => {
            let known = ["ApplyConfiguration", "JSONPatch"];
            return vec![Error::not_supported(&path.child("patchType"), kind, &known)];
        }
    };
    let mut faults = Vec::new();
    if !has(mutation, wanted) {
        let why = format!("must be specified when patchType is {kind}");
        faults.push(Error::required(&path.child(wanted), why));
    } else if text(&mutation[wanted], "expression").trim().is_empty() {
        let at = path.child(wanted).child("expression");
        faults.push(Error::required(&at, "expression is not specified"));
    } else {
        let at = path.child(wanted).child("expression");
        let made = if kind == "JSONPatch" { Wanted::Patch } else { Wanted::Configuration };
        compile(text(&mutation[wanted], "expression"), known, made, &at, &mut faults);
    }
    if has(mutation, other) {
        let why = format!("must not be specified when patchType is {kind}");
        faults.push(Error::invalid(&path.child(other), format!("{{{other}}}"), why));
    }
    faults
}

fn validate_variable(variable: &Value, known: &mut Known, path: &Path) -> Faults {
    let mut faults = Vec::new();
    let name = text(variable, "name");
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.trim().is_empty() {
        faults.push(Error::required(&path.child("name"), "name is not specified"));
    } else if !name.bytes().all(word) || name.as_bytes()[0].is_ascii_digit() || is_reserved(name) {
        faults.push(Error::invalid(&path.child("name"), name, "must be a valid CEL identifier"));
    }
    let at = path.child("expression");
    let source = text(variable, "expression");
    if source.trim().is_empty() {
        faults.push(Error::required(&at, "expression is not specified"));
    } else {
        let compiled = compile(source, known, Wanted::Anything, &at, &mut faults);
        known.add(name, compiled.as_ref());
    }
    faults
}

fn validate_param_kind(kind: &Value, path: &Path) -> Faults {
    let mut faults = Vec::new();
    let version = text(kind, "apiVersion");
    let at = path.child("apiVersion");
    match version.split('/').collect::<Vec<_>>()[..] {
        [""] => faults.push(Error::required(&at, "")),
        [version] => faults.extend(joined(&at, version, names::dns1035_label(version))),
        [group, version] => {
            if !group.is_empty() {
                faults.extend(joined(&at, group, names::dns1123_subdomain(group)));
            }
            faults.extend(joined(&at, version, names::dns1035_label(version)));
        }
        _ => {
            let why = format!("unexpected GroupVersion string: {version}");
            faults.push(Error::invalid(&at, version, why));
        }
    }
    let at = path.child("kind");
    match text(kind, "kind") {
        "" => faults.push(Error::required(&at, "")),
        name => {
            let wrong = names::dns1035_label(&name.to_lowercase());
            if !wrong.is_empty() {
                let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                faults.push(Error::invalid(&at, name, why));
            }
        }
    }
    faults
}

fn joined(path: &Path, value: &str, wrong: Vec<String>) -> Option<Error> {
    (!wrong.is_empty()).then(|| Error::invalid(path, value, wrong.join(",")))
}

fn validate_match_resources(resources: &Value, path: &Path) -> Faults {
    let mut faults = Vec::new();
    if has(resources, "matchPolicy") {
        faults.extend(one_of(text(resources, "matchPolicy"), &path.child("matchPolicy"), &MATCH_POLICIES));
    } else {
        faults.push(Error::required(&path.child("matchPolicy"), ""));
    }
    for key in ["namespaceSelector", "objectSelector"] {
        if has(resources, key) {
            faults.extend(selector(&resources[key], &path.child(key)));
        } else {
            faults.push(Error::required(&path.child(key), ""));
        }
    }
    for key in RULES {
        for (index, rule) in list(resources, key).iter().enumerate() {
            let path = path.child(key).index(index);
            let at = path.child("resourceNames");
            for (index, name) in texts(rule, "resourceNames").into_iter().enumerate() {
                faults.extend(each_wrong(&at.index(index), name, names::path_segment(name)));
            }
            for (index, name) in
                repeats(list(rule, "resourceNames"), |name| name.as_str().unwrap_or_default())
            {
                faults.push(Error::duplicate(&at.index(index), name));
            }
            faults.extend(super::validate_rule(rule, &path));
        }
    }
    faults
}

fn validate_binding(binding: &Value) -> Faults {
    let spec = &binding["spec"];
    let path = Path::new("spec");
    let mut faults = match text(spec, "policyName") {
        "" => vec![Error::required(&path.child("policyName"), "")],
        name => each_wrong(&path.child("policyName"), name, names::dns1123_subdomain(name)),
    };
    if has(spec, "paramRef") {
        faults.extend(validate_param_ref(&spec["paramRef"], &path.child("paramRef")));
    }
    if has(spec, "matchResources") {
        faults.extend(validate_match_resources(&spec["matchResources"], &path.child("matchResources")));
    }
    faults
}

fn validate_validating_binding(binding: &Value) -> Faults {
    let mut faults = validate_binding(binding);
    let spec = &binding["spec"];
    let path = Path::new("spec.validationActions");
    let actions = texts(spec, "validationActions");
    for (index, action) in actions.iter().enumerate() {
        faults.extend(one_of(action, &path.index(index), &["Audit", "Deny", "Warn"]));
        if actions[..index].contains(action) {
            faults.push(Error::duplicate(&path.index(index), *action));
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        faults.push(Error::invalid(&path, spec["validationActions"].clone(), why));
    }
    if actions.is_empty() {
        faults.push(Error::required(&path, "at least one validation action is required"));
    }
    faults
}

fn validate_param_ref(reference: &Value, path: &Path) -> Faults {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let mut faults = Vec::new();
    let name = text(reference, "name");
    let selected = has(reference, "selector");
    if !name.is_empty() {
        faults.extend(each_wrong(&path.child("name"), name, names::path_segment(name)));
        if selected {
            faults.push(Error::forbidden(&path.child("name"), EXCLUSIVE));
        }
    }
    if selected {
        faults.extend(selector(&reference["selector"], &path.child("selector")));
        if !name.is_empty() {
            faults.push(Error::forbidden(&path.child("selector"), EXCLUSIVE));
        }
    }
    if name.is_empty() && !selected {
        faults.push(Error::required(path, "one of name or selector must be specified"));
    }
    let at = path.child("parameterNotFoundAction");
    match text(reference, "parameterNotFoundAction") {
        "" => faults.push(Error::required(&at, "")),
        action => faults.extend(one_of(action, &at, &["Deny", "Allow"])),
    }
    faults
}
