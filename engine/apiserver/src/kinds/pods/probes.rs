//! Probes and lifecycle hooks of containers.

use serde_json::Value;

use crate::field::Error;
use crate::kinds::walk::{At, Faults, is_empty};
use crate::names;

const ONE_HANDLER: &str = "may not specify more than 1 handler type";

/// What is wrong with the hooks and the probes of a container; `grace` is what a pod has to stop.
pub(super) fn validate_all(container: &At<'_>, grace: Option<i64>) -> Faults {
    let mut faults = Faults::new();
    let lifecycle = container.child("lifecycle");
    for hook in ["postStart", "preStop"].map(|name| lifecycle.child(name)).iter().filter(|hook| hook.is_set())
    {
        faults.extend(validate_handler(hook, &["exec", "httpGet", "tcpSocket", "sleep"], grace));
    }
    let [liveness, readiness, startup] =
        ["livenessProbe", "readinessProbe", "startupProbe"].map(|name| container.child(name));
    faults.extend(validate_probe(&liveness));
    faults.extend(one_success(&liveness));
    faults.extend(validate_probe(&readiness));
    let grace_period = readiness.child("terminationGracePeriodSeconds");
    if grace_period.is_set() {
        faults.push(grace_period.invalid("must not be set for readinessProbes"));
    }
    faults.extend(validate_probe(&startup));
    faults.extend(one_success(&startup));
    faults
}

fn one_success(probe: &At<'_>) -> Option<Error> {
    let threshold = probe.child("successThreshold");
    (probe.is_set() && threshold.value.as_i64() != Some(1)).then(|| threshold.invalid("must be 1"))
}

fn validate_probe(probe: &At<'_>) -> Faults {
    if !probe.is_set() {
        return Faults::new();
    }
    let mut faults = validate_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], None);
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        faults.extend(probe.child(name).non_negative());
    }
    let grace = probe.child("terminationGracePeriodSeconds");
    if grace.value.as_i64().is_some_and(|seconds| seconds <= 0) {
        faults.push(grace.invalid("must be greater than 0"));
    }
    faults
}

fn validate_handler(handler: &At<'_>, kinds: &[&str], grace: Option<i64>) -> Faults {
    let mut faults = Faults::new();
    let mut found = false;
    for action in kinds.iter().map(|kind| handler.child(kind)).filter(At::is_set) {
        if found {
            faults.push(action.forbidden(ONE_HANDLER));
            continue;
        }
        found = true;
        faults.extend(validate_action(&action, grace));
    }
    if !found {
        faults.push(handler.required("must specify a handler type"));
    }
    faults
}

fn validate_action(action: &At<'_>, grace: Option<i64>) -> Faults {
    let kind = action.path.as_str().rsplit('.').next().unwrap_or_default();
    match kind {
        "exec" => {
            let command = action.child("command");
            is_empty(command.value).then(|| command.required("")).into_iter().collect()
        }
        "httpGet" => validate_http_get(action),
        "sleep" => {
            let seconds = action.int("seconds").unwrap_or(0);
            let grace = grace.filter(|grace| seconds < 0 || seconds > *grace);
            let fault = grace.map(|grace| {
                let detail =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                Error::invalid(&action.path, seconds, detail)
            });
            fault.into_iter().collect()
        }
        _ => validate_port(&action.child("port")),
    }
}

fn validate_http_get(http: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    if http.text("path").is_empty() {
        faults.push(http.child("path").required(""));
    }
    faults.extend(validate_port(&http.child("port")));
    let scheme = http.child("scheme");
    if !["HTTP", "HTTPS"].contains(&scheme.str()) {
        faults.push(scheme.not_supported(&["HTTP", "HTTPS"]));
    }
    let headers = http.child("httpHeaders");
    for header in headers.items() {
        let name = header.text("name");
        let wrong = names::http_header_name(name);
        faults.extend(wrong.into_iter().map(|why| Error::invalid(&headers.path, name, why)));
    }
    faults
}

/// A port by its number or by the name that a container gave it.
pub(crate) fn validate_port(port: &At<'_>) -> Faults {
    match port.value {
        Value::String(_) => port.obey(names::port_name),
        other => {
            let number = other.as_i64().unwrap_or(0);
            let wrong = names::port_number(number);
            wrong.into_iter().map(|why| Error::invalid(&port.path, number, why)).collect()
        }
    }
}
