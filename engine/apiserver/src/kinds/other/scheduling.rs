//! `scheduling.k8s.io`: priority classes.

use serde_json::Value;

use super::look::{Faults, default, flag, has, immutable, int, name, text};
use crate::field::{Error, Path};
use crate::kinds::Strategy;

/// The highest priority that is not the system's own.
const HIGHEST: i64 = 1_000_000_000;

/// The classes that every cluster has, with their values.
pub(crate) const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

static PRIORITY_CLASS: Strategy = Strategy {
    default: |class| default(class, "preemptionPolicy", "PreemptLowerPriority"),
    validate,
    validate_update,
    // The generation is given once and never goes up.
    prepare_create: |class| super::set_generation(class, 1),
    ..Strategy::PLAIN
};

pub(super) fn strategy(kind: &str) -> Option<&'static Strategy> {
    (kind == "PriorityClass").then_some(&PRIORITY_CLASS)
}

fn validate(class: &Value) -> Faults {
    let value = int(class, "value").unwrap_or_default();
    let name = name(class);
    let mut faults = Vec::new();
    if name.starts_with("system-") {
        let why = match SYSTEM.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, right)) if *right != value => {
                Some(format!("value of {name} PriorityClass must be {right}"))
            }
            Some(_) if flag(class, "globalDefault") => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        faults.extend(why.map(|why| {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            );
            Error::forbidden(&Path::new("metadata.name"), detail)
        }));
    } else if value > HIGHEST {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        faults.push(Error::forbidden(&Path::new("value"), why));
    }
    if has(class, "preemptionPolicy") {
        let path = Path::new("preemptionPolicy");
        match text(class, "preemptionPolicy") {
            "" => faults.push(Error::required(&path, "")),
            "PreemptLowerPriority" | "Never" => {}
            other => faults.push(Error::not_supported(&path, other, &["PreemptLowerPriority", "Never"])),
        }
    }
    faults
}

fn validate_update(new: &Value, old: &Value) -> Faults {
    let mut faults = Vec::new();
    let value = |class: &Value| int(class, "value").unwrap_or_default();
    if value(new) != value(old) {
        faults.push(Error::forbidden(&Path::new("value"), "may not be changed in an update."));
    }
    let policy = "preemptionPolicy";
    faults.extend(immutable(&new[policy], &old[policy], &Path::new(policy)));
    faults
}
