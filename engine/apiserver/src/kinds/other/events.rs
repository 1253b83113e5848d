//! `events.k8s.io`: the newer form of Events, which are stored as the core group's.

use serde_json::Value;

use super::look::{Faults, each_wrong, has, immutable, int, text};
use crate::field::{Error, Path};
use crate::kinds::{Strategy, convert};
use crate::names;

const LONGEST: usize = 128;
const LONGEST_NOTE: usize = 1024;

static EVENT: Strategy = Strategy {
    validate: |event| validate(&stored(event)),
    validate_update: |new, old| validate_update(&stored(new), &stored(old)),
    create_on_update: true,
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    (kind == "Event").then_some(&EVENT)
}

/// The event in the form that its rules speak of.
fn stored(event: &Value) -> Value {
    if text(event, "apiVersion") == "v1" {
        return event.clone();
    }
    convert::convert("events.k8s.io", "v1", "Event", event.clone(), "", "v1")
}

fn validate(event: &Value) -> Faults {
    let mut faults = validate_basics(event);
    faults.extend(validate_series(event));
    if !has(event, "eventTime") {
        faults.push(Error::required(&Path::new("eventTime"), ""));
    }
    let kind = text(event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        faults.push(Error::invalid(&Path::new("type"), "", format!("has invalid value: {kind}")));
    }
    let unset = |key: &str| Error::invalid(&Path::new(key), "", "needs to be unset");
    faults.extend(["firstTimestamp", "lastTimestamp"].into_iter().filter(|key| has(event, key)).map(unset));
    if int(event, "count").unwrap_or_default() != 0 {
        faults.push(unset("count"));
    }
    let source = &event["source"];
    if !text(source, "component").is_empty() || !text(source, "host").is_empty() {
        faults.push(unset("source"));
    }
    faults
}

fn validate_update(new: &Value, old: &Value) -> Faults {
    let mut faults = validate_basics(new);
    if !super::look::same(&new["series"], &old["series"]) {
        faults.extend(validate_series(new));
    }
    let frozen = [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    for (key, said) in frozen {
        faults.extend(immutable(&new[key], &old[key], &Path::new(said)));
    }
    faults
}

fn validate_series(event: &Value) -> Faults {
    let series = &event["series"];
    let mut faults = Vec::new();
    if series.is_null() {
        return faults;
    }
    if int(series, "count").unwrap_or_default() < 2 {
        faults.push(Error::invalid(&Path::new("series.count"), "", "should be at least 2"));
    }
    if !has(series, "lastObservedTime") {
        faults.push(Error::required(&Path::new("series.lastObservedTime"), ""));
    }
    faults
}

/// What both versions ask of an event.
fn validate_basics(event: &Value) -> Faults {
    let namespace = text(&event["metadata"], "namespace");
    let involved = text(&event["involvedObject"], "namespace");
    let mut faults = Vec::new();
    let elsewhere = || {
        let path = Path::new("involvedObject.namespace");
        Error::invalid(&path, involved, "does not match event.namespace")
    };
    if has(event, "eventTime") {
        if involved.is_empty() && !matches!(namespace, "default" | "kube-system") {
            faults.push(elsewhere());
        }
        let controller = Path::new("reportingController");
        let reporter = text(event, "reportingComponent");
        if reporter.is_empty() {
            faults.push(Error::required(&controller, ""));
        }
        faults.extend(each_wrong(&controller, reporter, names::qualified_name(reporter)));
        for key in ["reportingInstance", "action", "reason"] {
            let value = text(event, key);
            if value.is_empty() {
                faults.push(Error::required(&Path::new(key), ""));
            }
            if value.len() > LONGEST {
                let why = format!("can have at most {LONGEST} characters");
                faults.push(Error::invalid(&Path::new(key), "", why));
            }
        }
        if text(event, "message").len() > LONGEST_NOTE {
            let why = format!("can have at most {LONGEST_NOTE} characters");
            faults.push(Error::invalid(&Path::new("message"), "", why));
        }
    } else if involved.is_empty() {
        if !matches!(namespace, "" | "default") {
            faults.push(elsewhere());
        }
    } else if involved != namespace {
        faults.push(elsewhere());
    }
    faults.extend(each_wrong(&Path::new("namespace"), namespace, names::dns1123_subdomain(namespace)));
    faults
}
