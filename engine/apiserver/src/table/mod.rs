//! Objects as rows of a table: what `kubectl get` shows.
//!
//! ```text
//! kind ──► columns ─┐
//! object ─► cells ──┴─► Table
//! ```
//!
//! A [`Printer`] stands for one served kind, built-in or custom; everything is computed from the
//! object's JSON and the time.

mod assemble;
mod autoscaling;
mod cluster;
mod columns;
mod custom;
mod network;
mod pod;
mod policy;
mod read;
mod storage;
#[cfg(test)]
mod tests;
mod workload;

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::read::{Read, age};

pub use assemble::{
    Include, MetaVersion, Row, not_a_list, not_a_single_object, partial, partial_list, row, table,
};
pub use columns::Column;
pub use custom::CustomColumns;
pub use read::human;

/// How the objects of one served kind become rows.
#[derive(Debug, Clone)]
pub enum Printer {
    BuiltIn { group: String, version: String, kind: String },
    Custom(CustomColumns),
}

impl Printer {
    pub fn built_in(group: &str, version: &str, kind: &str) -> Self {
        Printer::BuiltIn { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    pub fn columns(&self) -> Vec<Column> {
        match self {
            Printer::BuiltIn { group, version, kind } => columns(group, version, kind),
            Printer::Custom(custom) => custom.columns(),
        }
    }

    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Printer::BuiltIn { group, version, kind } => cells(group, version, kind, object, now),
            Printer::Custom(custom) => custom.cells(object, now),
        }
    }

    /// Marks on a row: that a Pod is done.
    pub fn conditions(&self, object: &Value) -> Option<Value> {
        match self {
            Printer::BuiltIn { group, kind, .. } if group.is_empty() && kind == "Pod" => {
                pod::conditions(object)
            }
            _ => None,
        }
    }

    /// The order of rows, where it is not that of the list.
    pub fn order(&self) -> Option<fn(&Value, &Value) -> Ordering> {
        match self {
            Printer::BuiltIn { group, kind, .. }
                if group == "flowcontrol.apiserver.k8s.io" && kind == "FlowSchema" =>
            {
                Some(policy::flow_schema_order)
            }
            _ => None,
        }
    }

    /// A table without rows has `null` for them when no printer of its own made it.
    pub fn empty_rows(&self) -> Value {
        match self {
            Printer::BuiltIn { group, kind, .. } if columns::recorded(group, kind).is_none() => Value::Null,
            _ => json!([]),
        }
    }

    /// Whether each event of a watch repeats the columns; others send them with the first alone.
    pub fn repeats_columns(&self) -> bool {
        matches!(self, Printer::BuiltIn { group, kind, .. }
            if group == "apiregistration.k8s.io" && kind == "APIService")
    }
}

/// The columns of a built-in kind; `Name` and `Created At` for a kind without its own printer.
pub fn columns(group: &str, _version: &str, kind: &str) -> Vec<Column> {
    columns::recorded(group, kind).map_or_else(columns::default, <[Column]>::to_vec)
}

/// The cells of one object, in the order of [`columns`].
pub fn cells(group: &str, version: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let own = match group {
        "" => match kind {
            "Pod" => Some(pod::cells(object, now)),
            _ => workload::core(kind, object, now)
                .or_else(|| network::core(kind, object, now))
                .or_else(|| storage::core(kind, object, now))
                .or_else(|| cluster::core(kind, object, now)),
        },
        "apps" | "batch" | "policy" => workload::cells(kind, object, now),
        "autoscaling" => autoscaling::cells(version, kind, object, now),
        "networking.k8s.io" | "discovery.k8s.io" => network::cells(kind, object, now),
        "storage.k8s.io" => storage::cells(kind, object, now),
        _ => policy::cells(group, kind, object, now).or_else(|| cluster::cells(group, kind, object, now)),
    };
    own.unwrap_or_else(|| {
        let created = object.text_or("metadata.creationTimestamp", "0001-01-01T00:00:00Z");
        vec![object.text("metadata.name").into(), created.into()]
    })
}

/// `Name` and `Age`: all that some kinds show.
fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![object.text("metadata.name").into(), age(object, now).into()]
}
