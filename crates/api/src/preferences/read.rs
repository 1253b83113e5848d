//! Reads preferences field by field, so that every fault has a path.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{ClusterPreference, Invalid, Preferences, ScaleDown};

pub(super) fn preferences(value: &Value) -> Result<Preferences, Invalid> {
    let mut faults = Faults::default();
    let mut read = Preferences::default();
    let Value::Object(fields) = value else {
        faults.report(format!(
            "it is {value}: it must be an object such as {{\"clusters\":{{\"*\":{{\"weight\":1}}}}}}"
        ));
        return faults.or(read);
    };
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match name.to_ascii_lowercase().as_str() {
            "rebalance" => match value {
                Value::Bool(given) => read.rebalance = *given,
                _ => faults.report(format!("{name} is {value}: it must be true or false")),
            },
            "scaledown" => match value.as_str() {
                Some("ordered") => read.scale_down = ScaleDown::Ordered,
                Some("weighted") => read.scale_down = ScaleDown::Weighted,
                _ => faults.report(format!("{name} is {value}: it must be \"ordered\" or \"weighted\"")),
            },
            "clusters" => read.clusters = clusters(name, value, &mut faults),
            _ => faults.report(format!("{name} is not known: rebalance, scaleDown and clusters are")),
        }
    }
    faults.or(read)
}

pub(super) fn clusters_alone(
    field: &str,
    value: &Value,
) -> Result<BTreeMap<String, ClusterPreference>, Invalid> {
    let mut faults = Faults::default();
    let read = clusters(field, value, &mut faults);
    faults.or(read)
}

#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn report(&mut self, fault: String) {
        self.0.push(fault);
    }

    fn or<T>(self, read: T) -> Result<T, Invalid> {
        if self.0.is_empty() { Ok(read) } else { Err(Invalid { faults: self.0 }) }
    }
}

fn clusters(field: &str, value: &Value, faults: &mut Faults) -> BTreeMap<String, ClusterPreference> {
    let Value::Object(entries) = value else {
        faults.report(format!(
            "{field} is {value}: it must be an object with an entry for each cluster, or \"*\""
        ));
        return BTreeMap::new();
    };
    let mut read = BTreeMap::new();
    for (name, entry) in entries {
        if name.is_empty() {
            faults.report(format!("{field} has an entry without a name: use \"*\" for every cluster"));
            continue;
        }
        match entry {
            Value::Object(fields) => {
                read.insert(name.clone(), cluster(&format!("{field}.{name}"), fields, faults));
            }
            Value::Null => {
                read.insert(name.clone(), ClusterPreference::default());
            }
            _ => faults
                .report(format!("{field}.{name} is {entry}: it must be an object such as {{\"weight\":1}}")),
        }
    }
    read
}

fn cluster(path: &str, fields: &Map<String, Value>, faults: &mut Faults) -> ClusterPreference {
    let mut read = ClusterPreference::default();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let field = name.to_ascii_lowercase();
        if !matches!(field.as_str(), "minreplicas" | "maxreplicas" | "weight") {
            faults.report(format!("{path}.{name} is not known: minReplicas, maxReplicas and weight are"));
            continue;
        }
        let Some(count) = value.as_i64().filter(|count| *count >= 0) else {
            faults.report(format!("{path}.{name} is {value}: it must be a whole number from 0"));
            continue;
        };
        match field.as_str() {
            "minreplicas" => read.min_replicas = count,
            "maxreplicas" => read.max_replicas = Some(count),
            _ => read.weight = count,
        }
    }
    if let Some(most) = read.max_replicas.filter(|most| *most < read.min_replicas) {
        faults.report(format!(
            "{path}.minReplicas is {}, more than maxReplicas, which is {most}: lower the one or raise the other",
            read.min_replicas
        ));
    }
    read
}
